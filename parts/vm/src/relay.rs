//! Carries frames between an interface of the node and a machine's network card.
//!
//! The card is one end of a SOCK_DGRAM pair with plain frames, which User-mode Linux and QEMU both take. So super-frames
//! are cut and checksums finished here. Two threads for each interface end with the machine: a full pair makes the
//! sender wait, and the interface's packet socket holds what comes meanwhile.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use netloom_packet::checksum;
use netloom_packet::segment::Segmenter;
use netloom_packet::vnet::VnetHeader;
use netloom_port::{HEADER, MOST_FRAME, PacketPort, Port, Received};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::error::failed;
use crate::{Error, Result};

/// Bytes that a pair holds in each direction.
const BUFFER: usize = 1 << 20;

/// Joins the interface `index` to a new pair, on threads of their own; returns the machine's end.
///
/// # Errors
/// The kernel refuses the packet socket, the pair or a thread.
pub(crate) fn join(name: &str, index: u32) -> Result<OwnedFd> {
    let object = || format!("interface {name:?}");
    let (unix, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
    let (ours, theirs) = rustix::net::socketpair(unix, kind, SocketFlags::CLOEXEC, None)
        .map_err(failed(object(), "make a socket pair for"))?;
    for end in [&ours, &theirs] {
        // Without the room, fewer frames wait.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(end, BUFFER);
    }
    // What the guest sends is captured, measured and impaired like what a node sends.
    let reader = PacketPort::open_behind_egress(index)?;
    let copy = reader.as_fd().try_clone_to_owned().map_err(failed(object(), "copy its socket"))?;
    let writer = PacketPort::from_fd(copy)?;
    let ours = Arc::new(ours);
    let of_writer = Arc::clone(&ours);
    let begin = |what: &str, work: Box<dyn FnOnce() + Send>| -> Result<()> {
        let thread = std::thread::Builder::new().name(format!("{name}-{what}"));
        thread
            .spawn(work)
            .map(drop)
            .map_err(|e| -> Error { failed(object(), "start a thread for")(e) })
    };
    begin("in", Box::new(move || inward(reader, &ours)))?;
    begin("out", Box::new(move || outward(writer, &of_writer)))?;
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
            Ok(Received::Empty | Received::Down) => {
                let mut fds = [PollFd::from_borrowed_fd(port.as_fd(), PollFlags::IN)];
                // Interrupted, it looks again.
                let _ = rustix::event::poll(&mut fds, None);
            }
            Ok(Received::Truncated) | Err(_) => {}
            Ok(Received::Gone) => return,
        }
    }
}

/// Sends a frame, waiting until there is room; `false` if the machine has ended.
fn send(pair: &OwnedFd, packet: &[u8]) -> bool {
    loop {
        match rustix::net::send(pair, packet, SendFlags::NOSIGNAL) {
            Ok(_) | Err(rustix::io::Errno::MSGSIZE) => return true,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::NOBUFS) => {}
            Err(_) => return false,
        }
    }
}

/// From the guest to the interface.
fn outward(mut port: PacketPort, pair: &OwnedFd) {
    // The virtio-net header before each frame stays empty.
    let mut buffer = vec![0; MOST_FRAME];
    loop {
        let Some(room) = buffer.get_mut(HEADER..) else { return };
        match rustix::net::recv(pair, &mut *room, RecvFlags::empty()) {
            Ok((0, _)) => return,
            Ok((length, _)) => {
                // A frame that the interface does not take is lost, as on a cable.
                let _ = buffer.get(..HEADER + length).map(|frame| port.send(frame));
            }
            Err(rustix::io::Errno::INTR) => {}
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
