//! Packet sockets as ports: the interface stays with the kernel, and the port reads and sends
//! beside it (packet(7), linux/if_packet.h).
//!
//! Reads what the interface receives, not what this host sends through it. The interface is not
//! made promiscuous: veth ends need it not, others are set so by netlink. VLAN tags stripped by the
//! kernel are restored. Frames bypass the interface's queueing discipline and its egress programs,
//! unless those are to see them.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use netloom_rawsock::tag::{TAG, put_back, tag_of as tag_of_status};
use netloom_rawsock::{option, socket};
use netloom_sys::Failure;
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags};

use crate::{Error, Port, Received, Result, Sent};

/// Receive buffer, in bytes of kernel memory: 20 ms at 10 Gb/s with overhead.
pub(crate) const RECEIVE_BUFFER: i32 = 32 << 20;
/// Send buffer, in bytes of kernel memory.
const SEND_BUFFER: i32 = 8 << 20;

/// A packet socket bound to one interface.
#[derive(Debug)]
pub struct PacketPort {
    fd: OwnedFd,
    overruns: u64,
}

impl PacketPort {
    /// Opens a socket on the interface `index` of the calling thread's network namespace. What it sends goes past queueing
    /// disciplines (`PACKET_QDISC_BYPASS`): super-frames are lost where the interface does not segment them itself.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without permission; [`Error::Failed`] if the kernel refuses.
    pub fn open(index: u32) -> Result<PacketPort> {
        Self::open_by(index, true)
    }

    /// The same, but the interface's egress programs see sent frames, and super-frames pass any interface.
    ///
    /// # Errors
    /// As [`PacketPort::open`].
    pub fn open_behind_egress(index: u32) -> Result<PacketPort> {
        Self::open_by(index, false)
    }

    fn open_by(index: u32, direct: bool) -> Result<PacketPort> {
        // No protocol yet: nothing is received before the socket is bound.
        let fd = socket::open(index, SocketFlags::NONBLOCK)?;
        for (name, operation) in OPTIONS {
            socket::set(&fd, index, name, 1, operation)?;
        }
        let bypass = libc::PACKET_QDISC_BYPASS;
        socket::set(&fd, index, bypass, direct.into(), "send directly through")?;
        // Before Linux 4.20 frames sent here would come back. Nothing can replace this option.
        socket::set(&fd, index, libc::PACKET_IGNORE_OUTGOING, 1, "ignore sent frames on")?;
        socket::enlarge(&fd, RECEIVE_BUFFER, SEND_BUFFER);
        socket::bind(&fd, index, socket::ALL)?;
        Ok(PacketPort { fd, overruns: 0 })
    }

    /// A port from a packet socket opened by [`PacketPort::open`] and passed on.
    ///
    /// # Errors
    /// [`Error::Kind`] if it is not such a socket.
    pub fn from_fd(fd: OwnedFd) -> Result<PacketPort> {
        let wrong = |reason| Error::Kind { kind: "a packet socket", reason };
        check_family(&fd)?;
        for (name, _) in OPTIONS {
            if option::get::<i32>(&fd, libc::SOL_PACKET, name).ok() != Some(1) {
                return Err(wrong("its frames have another header"));
            }
        }
        Ok(PacketPort { fd, overruns: 0 })
    }

    /// The descriptor, to pass to another process.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

/// The options that determine a frame's form.
const OPTIONS: [(i32, &str); 2] = [
    (libc::PACKET_VNET_HDR, "enable offload reports of"),
    (libc::PACKET_AUXDATA, "enable VLAN tags of"),
];

/// Whether a descriptor is a packet socket.
pub(crate) fn check_family(fd: &OwnedFd) -> Result<()> {
    let wrong = |reason| Error::Kind { kind: "a packet socket", reason };
    let domain: i32 = option::get(fd, libc::SOL_SOCKET, libc::SO_DOMAIN)
        .map_err(|_| wrong("it is not a socket"))?;
    if domain == libc::AF_PACKET { Ok(()) } else { Err(wrong("it is another socket")) }
}

/// Sends bytes to a packet socket, without waiting.
pub(crate) fn send_by_call(fd: &OwnedFd, bytes: &[u8]) -> Result<Sent> {
    let mut told = false;
    loop {
        return match rustix::net::send(fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(_) => Ok(Sent::Done),
            Err(Errno::AGAIN) => Ok(Sent::Full),
            Err(Errno::INTR) => continue,
            Err(Errno::NOBUFS | Errno::NOMEM) => Ok(Sent::NoRoom),
            Err(Errno::INVAL | Errno::MSGSIZE) => Ok(Sent::Refused),
            // Once it may be about an interface that was down before.
            Err(Errno::NETDOWN) if !told => {
                told = true;
                continue;
            }
            Err(Errno::NETDOWN) => Ok(Sent::Down),
            Err(Errno::NXIO | Errno::NODEV) => Ok(Sent::Gone),
            Err(e) => Err(Failure::new("packet socket", "send", e).into()),
        };
    }
}

/// Receives the next pending frame of a packet socket, without waiting.
pub(crate) fn receive_by_call(fd: &OwnedFd, buffer: &mut [u8]) -> Result<Received> {
    // Room in front, so that restoring a tag moves only the first bytes.
    loop {
        let Some(behind) = buffer.get_mut(TAG..) else { return Ok(Received::Truncated) };
        return match receive_message(fd, behind) {
            Ok(message) if message.truncated => Ok(Received::Truncated),
            Ok(Message { length, tag: Some(tag), .. })
                if put_back(&mut buffer[..TAG + length], tag) =>
            {
                Ok(Received::Frame { start: 0, length: length + TAG })
            }
            Ok(message) => Ok(Received::Frame { start: TAG, length: message.length }),
            Err(Errno::AGAIN) => Ok(Received::Empty),
            Err(Errno::INTR) => continue,
            Err(Errno::NETDOWN) => Ok(Received::Down),
            Err(Errno::NXIO | Errno::NODEV) => Ok(Received::Gone),
            // A super-frame of a type that virtio-net cannot express: the kernel has dropped it.
            Err(Errno::INVAL) => Ok(Received::Truncated),
            Err(e) => Err(Failure::new("packet socket", "receive", e).into()),
        };
    }
}

impl Port for PacketPort {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received> {
        receive_by_call(&self.fd, buffer)
    }

    fn send(&mut self, frame: &[u8]) -> Result<Sent> {
        send_by_call(&self.fd, frame)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Reading resets the kernel's counter, so only one port of a socket may ask.
    fn overruns(&mut self) -> Option<u64> {
        self.overruns += socket::statistics(&self.fd).ok()?.lost;
        Some(self.overruns)
    }
}

/// A received message.
struct Message {
    length: usize,
    truncated: bool,
    /// The tag that the kernel stripped from the frame.
    tag: Option<[u8; TAG]>,
}

/// Room for one `tpacket_auxdata` with its header; aligned as a control message must be.
#[repr(C, align(8))]
struct Control([MaybeUninit<u8>; 64]);

fn receive_message(fd: &OwnedFd, buffer: &mut [u8]) -> Result<Message, Errno> {
    let mut control = Control([MaybeUninit::uninit(); 64]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all bytes zero is a valid value of each member of msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>();
    // SAFETY: message points to one live buffer and one control buffer, each with its length.
    let ret = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let Ok(length) = usize::try_from(ret) else {
        let number = io::Error::last_os_error().raw_os_error();
        return Err(Errno::from_raw_os_error(number.unwrap_or(libc::EIO)));
    };
    let truncated = message.msg_flags & libc::MSG_TRUNC != 0;
    Ok(Message { length, truncated, tag: tag_of(&message) })
}

fn tag_of(message: &libc::msghdr) -> Option<[u8; TAG]> {
    // SAFETY: message was filled in by recvmsg and its control buffer is live.
    let first = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: the pointer is null or points to a whole, aligned header within the control buffer.
    let header = unsafe { first.as_ref() }?;
    let wanted = (libc::SOL_PACKET, libc::PACKET_AUXDATA);
    if (header.cmsg_level, header.cmsg_type) != wanted {
        return None;
    }
    // SAFETY: header is within the control buffer, and its data follows it.
    let data = unsafe { libc::CMSG_DATA(first) };
    // SAFETY: the kernel has written a whole tpacket_auxdata there; it may be unaligned.
    let told = unsafe { data.cast::<libc::tpacket_auxdata>().read_unaligned() };
    tag_of_status(told.tp_status, told.tp_vlan_tci, told.tp_vlan_tpid)
}
