//! Packet sockets as ports: the interface stays the kernel's, we read and send at its side
//! (packet(7), linux/if_packet.h).
//!
//! Reads what the interface receives, not what is sent through it here. The interface is not made
//! promiscuous: veth ends need not be, others are set so by netlink. VLAN tags that the kernel took
//! out are put back in. Frames are given to the interface past its queueing discipline.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use netloom_sys::Unsupported;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use crate::{Error, HEADER, Port, Received, Result, Sent, sockopt};

/// What may wait to be read, in bytes of the kernel's memory: 20 ms at 10 Gb/s and its overhead.
const RECEIVE_BUFFER: i32 = 32 << 20;
/// What may be on its way into the interface.
const SEND_BUFFER: i32 = 8 << 20;

/// Bytes of a VLAN tag, and where it stands in a frame.
const TAG: usize = 4;
const MACS: usize = 12;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM` of linux/virtio_net.h.
const NEEDS_CSUM: u8 = 1;

/// A packet socket bound to one interface.
#[derive(Debug)]
pub struct PacketPort {
    fd: OwnedFd,
    overruns: u64,
}

impl PacketPort {
    /// Opens a socket on the interface `index` of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without the right to; [`Error::Call`] when the kernel refuses.
    pub fn open(index: u32) -> Result<PacketPort> {
        // No protocol yet: nothing is received before it is bound.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
            .map_err(|e| refused(index, e))?;
        for (name, operation) in OPTIONS {
            sockopt::set(&fd, libc::SOL_PACKET, name, 1)
                .map_err(|e| Error::call(object(index), operation, e))?;
        }
        // Before Linux 4.20: what is sent here would come back. Nothing else can take its place.
        sockopt::set(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)
            .map_err(|e| Error::call(object(index), "ignore what is sent on", e))?;
        enlarge(&fd);
        bind(&fd, index).map_err(|e| Error::call(object(index), "bind to", e))?;
        Ok(PacketPort { fd, overruns: 0 })
    }

    /// A packet socket that was opened by [`PacketPort::open`] and given to us.
    ///
    /// # Errors
    /// [`Error::Kind`] when it is not such a one.
    pub fn from_fd(fd: OwnedFd) -> Result<PacketPort> {
        let wrong = |reason| Error::Kind { kind: "a packet socket", reason };
        let domain: i32 = sockopt::get(&fd, libc::SOL_SOCKET, libc::SO_DOMAIN)
            .map_err(|_| wrong("it is no socket"))?;
        if domain != libc::AF_PACKET {
            return Err(wrong("it is another socket"));
        }
        for (name, _) in OPTIONS {
            if sockopt::get::<i32>(&fd, libc::SOL_PACKET, name).ok() != Some(1) {
                return Err(wrong("its frames have another header"));
            }
        }
        Ok(PacketPort { fd, overruns: 0 })
    }

    /// The descriptor, to be given to another process.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

/// What a frame's form depends on.
const OPTIONS: [(i32, &str); 3] = [
    (libc::PACKET_VNET_HDR, "have offloads told by"),
    (libc::PACKET_AUXDATA, "have VLAN tags told by"),
    (libc::PACKET_QDISC_BYPASS, "send directly through"),
];

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

/// As large as we may: beyond the system's limit only with CAP_NET_ADMIN of the host.
fn enlarge(fd: &OwnedFd) {
    for (force, plain, bytes) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, RECEIVE_BUFFER),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER),
    ] {
        if sockopt::set(fd, libc::SOL_SOCKET, force, bytes).is_err() {
            // A smaller buffer only loses sooner, which is counted.
            let _ = sockopt::set(fd, libc::SOL_SOCKET, plain, bytes);
        }
    }
}

fn bind(fd: &OwnedFd, index: u32) -> io::Result<()> {
    // SAFETY: all bytes zero is a value of each member of sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::c_ushort::try_from(libc::AF_PACKET).map_err(io::Error::other)?;
    address.sll_protocol = u16::try_from(libc::ETH_P_ALL).map_err(io::Error::other)?.to_be();
    address.sll_ifindex = i32::try_from(index).map_err(io::Error::other)?;
    let length =
        libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).map_err(io::Error::other)?;
    // SAFETY: the pointer is to a live sockaddr_ll and the length is its size.
    let ret = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Port for PacketPort {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received> {
        // Room in front, so that only the first bytes move when a tag is put back.
        let Some(behind) = buffer.get_mut(TAG..) else { return Ok(Received::Truncated) };
        loop {
            return match receive_message(&self.fd, behind) {
                Ok(message) if message.truncated => Ok(Received::Truncated),
                Ok(Message { length, tag: Some(tag), .. }) if length >= HEADER + MACS => {
                    put_back(buffer, tag);
                    Ok(Received::Frame { start: 0, length: length + TAG })
                }
                Ok(message) => Ok(Received::Frame { start: TAG, length: message.length }),
                Err(Errno::AGAIN) => Ok(Received::Empty),
                Err(Errno::INTR) => continue,
                Err(Errno::NETDOWN) => Ok(Received::Down),
                Err(Errno::NXIO | Errno::NODEV) => Ok(Received::Gone),
                // A super-frame of a form that virtio-net cannot express: the kernel has lost it.
                Err(Errno::INVAL) => Ok(Received::Truncated),
                Err(e) => Err(Error::call("packet socket", "receive", e)),
            };
        }
    }

    fn send(&mut self, frame: &[u8]) -> Result<Sent> {
        loop {
            return match rustix::net::send(
                &self.fd,
                frame,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
                Ok(_) => Ok(Sent::Done),
                Err(Errno::AGAIN) => Ok(Sent::Full),
                Err(Errno::INTR) => continue,
                Err(Errno::NOBUFS | Errno::NOMEM) => Ok(Sent::NoRoom),
                Err(Errno::INVAL | Errno::MSGSIZE) => Ok(Sent::Refused),
                Err(Errno::NETDOWN) => Ok(Sent::Down),
                Err(Errno::NXIO | Errno::NODEV) => Ok(Sent::Gone),
                Err(e) => Err(Error::call("packet socket", "send", e)),
            };
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Reading sets the kernel's count back, so only one port of a socket may ask.
    fn overruns(&mut self) -> Option<u64> {
        // struct tpacket_stats: packets and, among them, drops.
        let stats: [u32; 2] =
            sockopt::get(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS).ok()?;
        self.overruns += u64::from(stats[1]);
        Some(self.overruns)
    }
}

/// A received message.
struct Message {
    length: usize,
    truncated: bool,
    /// The tag that the kernel took out of the frame.
    tag: Option<[u8; TAG]>,
}

/// Room for one `tpacket_auxdata` with its header; aligned as a control message must be.
#[repr(C, align(8))]
struct Control([MaybeUninit<u8>; 64]);

fn receive_message(fd: &OwnedFd, buffer: &mut [u8]) -> Result<Message, Errno> {
    let mut control = Control([MaybeUninit::uninit(); 64]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all bytes zero is a value of each member of msghdr.
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
    // SAFETY: the pointer is null or to a whole, aligned header within the control buffer.
    let header = unsafe { first.as_ref() }?;
    let wanted = (libc::SOL_PACKET, libc::PACKET_AUXDATA);
    if (header.cmsg_level, header.cmsg_type) != wanted {
        return None;
    }
    // SAFETY: header is within the control buffer, and its data follows it.
    let data = unsafe { libc::CMSG_DATA(first) };
    // SAFETY: the kernel has written a whole tpacket_auxdata there; it may be unaligned.
    let told = unsafe { data.cast::<libc::tpacket_auxdata>().read_unaligned() };
    if told.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let known = told.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let kind = if known { told.tp_vlan_tpid } else { 0x8100 }.to_be_bytes();
    let value = told.tp_vlan_tci.to_be_bytes();
    Some([kind[0], kind[1], value[0], value[1]])
}

/// Puts a tag behind the MACs of a frame whose header starts at `TAG`; then it starts at 0.
fn put_back(buffer: &mut [u8], tag: [u8; TAG]) {
    buffer.copy_within(TAG..TAG + HEADER + MACS, 0);
    buffer[HEADER + MACS..HEADER + MACS + TAG].copy_from_slice(&tag);
    // virtio_net_hdr: flags, type, header length, segment size, checksum start and offset. What
    // counts from the frame's first byte is now longer.
    let partial = buffer[0] & NEEDS_CSUM != 0;
    let mut longer = |at: usize| {
        let value = u16::from_ne_bytes([buffer[at], buffer[at + 1]]);
        let value = if value == 0 { 0 } else { value.saturating_add(4) };
        buffer[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    };
    longer(2);
    if partial {
        longer(6);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_goes_behind_the_macs_and_moves_the_checksum() {
        let mut buffer: Vec<u8> = vec![0; TAG];
        buffer.extend([NEEDS_CSUM, 1]);
        for field in [54u16, 1448, 34, 16] {
            buffer.extend(field.to_ne_bytes());
        }
        buffer.extend(1..=12);
        buffer.extend([0x08, 0x00, 0x45]);
        put_back(&mut buffer, [0x81, 0, 0x20, 7]);
        let field = |at: usize| u16::from_ne_bytes([buffer[at], buffer[at + 1]]);
        assert_eq!([field(2), field(4), field(6), field(8)], [58, 1448, 38, 16]);
        let macs: Vec<u8> = (1..=12).collect();
        assert_eq!(buffer[HEADER..HEADER + MACS], macs);
        assert_eq!(buffer[HEADER + MACS..], [0x81, 0, 0x20, 7, 0x08, 0x00, 0x45]);
    }
}
