//! Taps, and a process's part of a wire: a thread that writes to one tap what it reads from another.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const TUNSETIFINDEX: libc::c_ulong = 0x4004_54da;
const IFF_TAP: i16 = 0x0002;
const IFF_NO_PI: i16 = 0x1000;
const IFF_VNET_HDR: i16 = 0x4000;
/// TUN_F_CSUM, TSO4, TSO6, TSO_ECN, USO4, USO6.
const OFFLOADS: libc::c_ulong = 1 | 2 | 4 | 8 | 0x20 | 0x40;
/// Those that every kernel has.
const OLD_OFFLOADS: libc::c_ulong = 1 | 2 | 4 | 8;
/// Bytes of `virtio_net_hdr`.
pub(crate) const HEADER: usize = 10;

/// A tap with header and offloads, in the calling thread's namespace.
pub(crate) fn tap(name: &str, index: u32) -> File {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .unwrap();
    let number = i32::try_from(index).unwrap();
    // SAFETY: the request takes a pointer to an int, which outlives the call.
    assert_eq!(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFINDEX, &raw const number) }, 0);
    let mut request = [0u8; 40];
    request[..name.len()].copy_from_slice(name.as_bytes());
    request[16..18].copy_from_slice(&(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR).to_ne_bytes());
    // SAFETY: the request takes a pointer to an ifreq of 40 bytes, which outlives the call.
    let refused = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, request.as_mut_ptr()) };
    assert_eq!(refused, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the request takes a number.
    if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, OFFLOADS) } != 0 {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, OLD_OFFLOADS) }, 0);
    }
    file
}

/// What a relay saw.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) frames: AtomicU64,
    /// The length of the longest, without header.
    pub(crate) longest: AtomicU64,
    /// Frames with an 802.1Q tag.
    pub(crate) tagged: AtomicU64,
}

/// Writes to the second tap what it reads from the first, until it goes.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) tally: Arc<Tally>,
    stop: Option<File>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub(crate) fn start(from: &File, to: &File) -> Self {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let [from, to] = [from, to].map(|tap| tap.try_clone().unwrap());
        let tally = Arc::new(Tally::default());
        let seen = Arc::clone(&tally);
        let thread = std::thread::spawn(move || {
            let mut room = vec![0u8; 70_000];
            loop {
                match rustix::io::read(&from, &mut room) {
                    Ok(n) => carry(&room[..n], &to, &seen),
                    Err(rustix::io::Errno::AGAIN) => {
                        let mut both = [
                            PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN),
                            PollFd::from_borrowed_fd(read.as_fd(), PollFlags::IN),
                        ];
                        poll(&mut both, None).unwrap();
                        if !both[1].revents().is_empty() {
                            return;
                        }
                    }
                    Err(e) => panic!("tap: read: {e}"),
                }
            }
        });
        Self { tally, stop: Some(File::from(write)), thread: Some(thread) }
    }

    pub(crate) fn frames(&self) -> u64 {
        self.tally.frames.load(Ordering::Relaxed)
    }

    pub(crate) fn longest(&self) -> u64 {
        self.tally.longest.load(Ordering::Relaxed)
    }

    pub(crate) fn tagged(&self) -> u64 {
        self.tally.tagged.load(Ordering::Relaxed)
    }
}

fn carry(bytes: &[u8], to: &File, seen: &Tally) {
    let frame = &bytes[HEADER..];
    seen.frames.fetch_add(1, Ordering::Relaxed);
    seen.longest.fetch_max(frame.len() as u64, Ordering::Relaxed);
    if frame[12..14] == [0x81, 0] {
        seen.tagged.fetch_add(1, Ordering::Relaxed);
    }
    assert_eq!(rustix::io::write(to, bytes).unwrap(), bytes.len());
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().unwrap().join();
    }
}
