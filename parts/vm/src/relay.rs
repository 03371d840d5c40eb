//! Carries frames between an interface of the node and a machine's network card.
//!
//! The card is a tap of its own in the node, to which and from which frames go with their virtio-net header: super-frames
//! stay whole. Where there are no taps it is one end of a SOCK_DGRAM pair with plain frames, for which super-frames
//! are cut and checksums finished here. Two threads for each interface end with the machine. A full pair makes the
//! sender wait, and the interface's packet socket holds what comes meanwhile; a full tap drops, as a card does.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use netloom_netlink::{Batch, Change, DeleteLink, Socket};
use netloom_packet::checksum;
use netloom_packet::segment::Segmenter;
use netloom_packet::vnet::VnetHeader;
use netloom_port::{HEADER, MOST_FRAME, PacketPort, Port, Received, Sent, Tap, TapOptions};
use netloom_sys::sysctl;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::error::failed;
use crate::{Error, Result};

/// Bytes that a pair holds in each direction.
const BUFFER: usize = 1 << 20;

/// Frames that a tap holds for the guest.
const QUEUE: u32 = 1000;

/// Index of the first card's tap, above those of the plan's interfaces.
const FIRST_INDEX: u32 = 1 << 20;

/// What the machine gets for a card.
#[derive(Debug)]
pub(crate) enum End {
    /// Plain frames.
    Pair(OwnedFd),
    /// A tap, opened.
    Tap(OwnedFd),
    /// A tap that the machine opens by its name.
    Named(String),
    /// The socket of a switch, by its abstract name: vhost-user.
    Switch(String),
}

impl End {
    /// The descriptor that the machine is to inherit.
    pub(crate) fn fd(&self) -> Option<&OwnedFd> {
        match self {
            End::Pair(fd) | End::Tap(fd) => Some(fd),
            End::Named(_) | End::Switch(_) => None,
        }
    }

    /// The same for its argument list.
    pub(crate) fn card(&self) -> Frames<'_> {
        match self {
            End::Pair(fd) => Frames::Pair(fd.as_raw_fd()),
            End::Tap(fd) => Frames::Tap(fd.as_raw_fd()),
            End::Named(name) => Frames::Named(name),
            End::Switch(name) => Frames::Switch(name),
        }
    }
}

/// [`End`] without its ownership.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Frames<'a> {
    Pair(RawFd),
    Tap(RawFd),
    Named(&'a str),
    Switch(&'a str),
}

/// An interface of the node that a machine's card is joined to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined<'a> {
    pub(crate) name: &'a str,
    pub(crate) index: u32,
    pub(crate) mtu: u32,
    /// Which of the machine's cards it is.
    pub(crate) number: u32,
    /// Whether the machine opens a tap by its name.
    pub(crate) by_name: bool,
}

/// Joins an interface to a new card, on threads of their own; returns the machine's end.
///
/// # Errors
/// The kernel refuses the packet socket, the tap, the pair or a thread.
pub(crate) fn join(joined: &Joined<'_>) -> Result<End> {
    match tap(joined)? {
        Some(end) => Ok(end),
        None => pair(joined.name, joined.index).map(End::Pair),
    }
}

/// Joins by a tap; `None` without taps here.
fn tap(joined: &Joined<'_>) -> Result<Option<End>> {
    if joined.by_name && !machines_may_open_taps() {
        return Ok(None);
    }
    let name = format!("vmtap{}", joined.number);
    let mut socket = Socket::open()?;
    let mut batch = Batch::new();
    // What a machine left whose process was killed.
    batch.push_tolerant(name.as_str(), &DeleteLink::new(name.as_str()));
    socket.run(&mut batch)?;
    let index = FIRST_INDEX + joined.number;
    let options =
        // A tap that the machine opens by its name must outlast our descriptor.
        TapOptions { index: Some(index), persistent: joined.by_name, ..TapOptions::default() };
    let tap = match Tap::create(&name, options) {
        Ok(tap) => tap,
        Err(netloom_port::Error::Unsupported(_)) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    // The node's own stack has nothing to say to the guest.
    sysctl::set(&format!("-net/ipv6/conf/{name}/disable_ipv6"), "1")
        .map_err(failed(name.as_str(), "turn IPv6 off on"))?;
    let change = Change::of(index).mtu(joined.mtu).queue(QUEUE).up();
    batch.clear();
    batch.push(name.as_str(), &change);
    socket.run(&mut batch)?;
    // What the guest sends is captured, measured and impaired like what a node sends. Super-frames for a card without
    // segmentation (e1000) are cut behind the tap's egress; past it the kernel drops them.
    let ours = PacketPort::open_behind_egress(joined.index)?;
    let theirs = PacketPort::open_behind_egress(index)?;
    let (ours_too, theirs_too) = (copy(&ours)?, copy(&theirs)?);
    begin(joined.name, "in", move || forward(ours, theirs_too))?;
    begin(joined.name, "out", move || forward(theirs, ours_too))?;
    Ok(Some(if joined.by_name { End::Named(name) } else { End::Tap(tap.into_fd()) }))
}

/// Whether the machine's user may open the taps' device: it may be another than ours.
fn machines_may_open_taps() -> bool {
    std::fs::metadata("/dev/net/tun").is_ok_and(|device| device.mode() & 0o006 == 0o006)
}

/// Another port of the same socket.
fn copy(port: &PacketPort) -> Result<PacketPort> {
    let fd = port.as_fd().try_clone_to_owned().map_err(failed("packet socket", "copy"))?;
    Ok(PacketPort::from_fd(fd)?)
}

fn begin(name: &str, what: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().name(format!("{name}-{what}"));
    let object = || format!("interface {name:?}");
    thread.spawn(work).map(drop).map_err(|e| -> Error { failed(object(), "start a thread for")(e) })
}

/// From one interface to the other, until one is gone.
fn forward(mut from: PacketPort, mut to: PacketPort) {
    let mut buffer = vec![0; MOST_FRAME];
    loop {
        match from.receive(&mut buffer) {
            Ok(Received::Frame { start, length }) => {
                let Some(frame) = buffer.get(start..start + length) else { continue };
                if !pass(&mut to, frame) {
                    return;
                }
            }
            Ok(Received::Empty | Received::Down) => wait(&from, PollFlags::IN),
            Ok(Received::Truncated) | Err(_) => {}
            Ok(Received::Gone) => return,
        }
    }
}

/// Sends a frame, waiting until there is room; `false` if the interface is gone. What it does not take is lost, as on a
/// cable.
fn pass(to: &mut PacketPort, frame: &[u8]) -> bool {
    loop {
        match to.send(frame) {
            Ok(Sent::Full) => wait(to, PollFlags::OUT),
            Ok(Sent::Gone) => return false,
            Ok(_) | Err(_) => return true,
        }
    }
}

fn wait(port: &PacketPort, what: PollFlags) {
    let mut fds = [PollFd::from_borrowed_fd(port.as_fd(), what)];
    // Interrupted, it looks again.
    let _ = rustix::event::poll(&mut fds, None);
}

/// Joins by a pair.
fn pair(name: &str, index: u32) -> Result<OwnedFd> {
    let object = || format!("interface {name:?}");
    let (unix, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
    let (ours, theirs) = rustix::net::socketpair(unix, kind, SocketFlags::CLOEXEC, None)
        .map_err(failed(object(), "make a socket pair for"))?;
    for end in [&ours, &theirs] {
        // Without the room, fewer frames wait.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(end, BUFFER);
    }
    let reader = PacketPort::open_behind_egress(index)?;
    let writer = copy(&reader)?;
    let ours = Arc::new(ours);
    let of_writer = Arc::clone(&ours);
    begin(name, "in", move || inward(reader, &ours))?;
    begin(name, "out", move || outward(writer, &of_writer))?;
    Ok(theirs)
}

/// From the interface to the guest, until the pair's other end closes.
fn inward(mut port: PacketPort, pair: &OwnedFd) {
    let mut buffer = vec![0; MOST_FRAME];
    let mut cutter = Cutter::default();
    loop {
        match port.receive(&mut buffer) {
            Ok(Received::Frame { start, length }) => {
                let Some(frame) = buffer.get(start..start + length) else { continue };
                if !cutter.cut(frame, &mut |packet| send(pair, packet)) {
                    return;
                }
            }
            Ok(Received::Empty | Received::Down) => wait(&port, PollFlags::IN),
            Ok(Received::Truncated) | Err(_) => {}
            Ok(Received::Gone) => return,
        }
    }
}

/// Sends a frame, waiting until there is room; `false` if the machine has ended.
fn send(pair: &OwnedFd, packet: &[u8]) -> bool {
    let sent = rustix::io::retry_on_intr(|| rustix::net::send(pair, packet, SendFlags::NOSIGNAL));
    sent.map_or_else(is_lost, |_| true)
}

/// Whether an error of the pair costs one frame, as on a cable, and is not the machine's end: it is larger than the pair carries,
/// or the kernel has no memory for it now.
fn is_lost(error: Errno) -> bool {
    matches!(error, Errno::MSGSIZE | Errno::NOBUFS | Errno::NOMEM)
}

/// From the guest to the interface.
fn outward(mut port: PacketPort, pair: &OwnedFd) {
    // The virtio-net header before each frame stays empty.
    let mut buffer = vec![0; MOST_FRAME];
    loop {
        let Some(room) = buffer.get_mut(HEADER..) else { return };
        match rustix::io::retry_on_intr(|| rustix::net::recv(pair, &mut *room, RecvFlags::empty()))
        {
            Ok((0, _)) => return,
            Ok((length, _)) => {
                // A frame that the interface does not take is lost, as on a cable.
                let _ = buffer.get(..HEADER + length).map(|frame| port.send(frame));
            }
            Err(_) => return,
        }
    }
}

/// Makes plain packets of frames with a virtio-net header.
#[derive(Default)]
struct Cutter {
    segmenter: Segmenter,
    packet: Vec<u8>,
}

impl Cutter {
    /// Gives every packet to `out` until that returns `false`; returns what it returned. A frame that cannot be cut is
    /// lost.
    fn cut(&mut self, frame: &[u8], out: &mut impl FnMut(&[u8]) -> bool) -> bool {
        let Some((header, frame)) = frame.split_at_checked(HEADER) else { return true };
        let Ok(header) = VnetHeader::parse(header) else { return true };
        let Cutter { segmenter, packet } = self;
        let mut goes_on = true;
        let _ = segmenter.segment(&header, frame, &mut |header, piece| {
            packet.clear();
            packet.extend_from_slice(piece);
            if checksum::finish(header, packet).is_ok() && goes_on {
                goes_on = out(packet);
            }
        });
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_without_memory_is_lost_and_the_pair_goes_on() {
        assert!([Errno::NOBUFS, Errno::NOMEM, Errno::MSGSIZE].into_iter().all(is_lost));
        assert!(![Errno::PIPE, Errno::CONNRESET, Errno::NOTCONN].into_iter().any(is_lost));
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&ours, 4096).unwrap();
        // More than the pair carries, and something behind it.
        assert!(send(&ours, &vec![0; 1 << 20]) && send(&ours, b"next"));
        let mut room = [0; 16];
        assert_eq!(rustix::net::recv(&theirs, &mut room, RecvFlags::empty()).unwrap().0, 4);
        drop(theirs);
        assert!(!send(&ours, b"gone"));
    }
}
