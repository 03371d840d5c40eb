//! A packet socket that sends prepared frames, many by one call (packet(7), sendmmsg(2)).
//!
//! The socket has no protocol, so that nothing is ever queued for reading. [`Path::Direct`] goes past
//! the interface's queueing discipline and past programs at its egress; [`Path::Queue`] does not.
//! A frame is taken when the interface has it, or lost when the queue had no room: never both.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use netloom_sys::Unsupported;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::{Error, Frames, Result};

/// How frames get from the socket to the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Through the queueing discipline and the programs at the interface's egress.
    Queue,
    /// Past both (`PACKET_QDISC_BYPASS`).
    Direct,
}

/// What became of frames, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Taken by the interface.
    pub taken: u64,
    /// Lost: the queue behind the socket had no room.
    pub refused: u64,
}

impl Tally {
    /// All that were given to the socket.
    pub fn offered(self) -> u64 {
        self.taken + self.refused
    }

    fn add(&mut self, other: Tally) {
        self.taken += other.taken;
        self.refused += other.refused;
    }
}

/// A packet socket bound to one interface, for sending.
#[derive(Debug)]
pub struct Sender {
    fd: OwnedFd,
    index: u32,
    tally: Tally,
}

impl Sender {
    /// Opens a socket on the interface `index` of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without the right to; [`Error::Call`] when the kernel refuses.
    pub fn open(index: u32, path: Path) -> Result<Sender> {
        let fd = rustix::net::socket_with(
            AddressFamily::PACKET,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|errno| refused(index, errno))?;
        if path == Path::Direct {
            bypass(&fd).map_err(|e| Error::call(object(index), "send directly through", e))?;
        }
        bind(&fd, index).map_err(|e| Error::call(object(index), "bind to", e))?;
        Ok(Sender { fd, index, tally: Tally::default() })
    }

    /// Sends all of `frames` once, in order, and tells what became of them. It waits while the
    /// socket's own buffer is full.
    ///
    /// # Errors
    /// [`Error::Call`] when the interface is down or gone, or does not take such a frame; frames
    /// before that one have been sent and are in the [`Sender::tally`].
    pub fn send(&mut self, frames: &mut Frames) -> Result<Tally> {
        let mut sent = Tally::default();
        let mut rest = frames.messages();
        while !rest.is_empty() {
            let step = match self.send_some(rest) {
                Ok(taken) => Tally { taken: taken as u64, refused: 0 },
                // The first of the rest was lost in the queue.
                Err(Errno::NOBUFS) => Tally { taken: 0, refused: 1 },
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(Error::call(object(self.index), "send", errno)),
            };
            self.tally.add(step);
            sent.add(step);
            let done = usize::try_from(step.offered()).unwrap_or(usize::MAX).min(rest.len());
            rest = rest.split_at_mut(done).1;
        }
        Ok(sent)
    }

    /// Totals since it was opened.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// How many from the front were taken, at least one.
    fn send_some(&self, messages: &mut [libc::mmsghdr]) -> Result<usize, Errno> {
        let count = libc::c_uint::try_from(messages.len()).map_err(|_| Errno::INVAL)?;
        // SAFETY: messages are `count` live mmsghdr; by the invariant of `Frames` each points to one
        // live part, and that to live bytes, which the kernel only reads.
        let ret = unsafe { libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
        usize::try_from(ret).map_err(|_| {
            let number = io::Error::last_os_error().raw_os_error();
            Errno::from_raw_os_error(number.unwrap_or(libc::EIO))
        })
    }
}

fn object(index: u32) -> String {
    format!("packet socket on interface {index}")
}

fn refused(index: u32, errno: Errno) -> Error {
    let needs = match errno {
        Errno::PERM | Errno::ACCESS => {
            "needs CAP_NET_RAW in the network namespace's user namespace"
        }
        Errno::AFNOSUPPORT => "needs a kernel with packet sockets (CONFIG_PACKET)",
        _ => return Error::call(object(index), "open", errno),
    };
    let reason = format!("{}: {errno}", object(index));
    Unsupported { feature: "packet sockets", reason, needs: needs.to_owned() }.into()
}

fn bypass(fd: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the pointer is to a live c_int and the length is its size.
    let ret = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_QDISC_BYPASS,
            (&raw const on).cast(),
            length_of::<libc::c_int>()?,
        )
    };
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn bind(fd: &OwnedFd, index: u32) -> io::Result<()> {
    // SAFETY: all bytes zero is a value of each member of sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::c_ushort::try_from(libc::AF_PACKET).map_err(io::Error::other)?;
    address.sll_ifindex = i32::try_from(index).map_err(io::Error::other)?;
    let length = length_of::<libc::sockaddr_ll>()?;
    // SAFETY: the pointer is to a live sockaddr_ll and the length is its size.
    let ret = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn length_of<T>() -> io::Result<libc::socklen_t> {
    libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)
}
