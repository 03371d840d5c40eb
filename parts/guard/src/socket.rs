//! What a descriptor is: a socket's family, type and protocol, asked of the socket and not of the caller.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netloom_policy::Protocol;
use netloom_sys::seccomp::perform::option;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};

/// A socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    /// The family; `None` for one of IPv4 or IPv6, of which it was not asked.
    family: Option<AddressFamily>,
    /// The type.
    pub(crate) kind: SocketType,
    /// The protocol, as policies know it.
    pub(crate) protocol: Protocol,
}

impl Socket {
    /// Asks the kernel; the error is what a call on the descriptor would return, as ENOTSOCK.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> Result<Socket, Errno> {
        let kind = sockopt::socket_type(fd)?;
        let number = sockopt::socket_protocol(fd)?.map_or(0, |protocol| protocol.as_raw().get());
        if (kind, number) == (SocketType::STREAM, TCP) {
            return Ok(Socket { family: None, kind, protocol: Protocol::Tcp });
        }
        let family = sockopt::socket_domain(fd)?;
        let protocol = protocol(u32::from(family.as_raw()), kind.as_raw(), number);
        Ok(Socket { family: Some(family), kind, protocol })
    }

    /// The family.
    pub(crate) fn family(self, fd: BorrowedFd<'_>) -> Result<AddressFamily, Errno> {
        self.family.map_or_else(|| sockopt::socket_domain(fd), Ok)
    }

    /// Whether it is one of IPv6.
    pub(crate) fn is_ip6(self, fd: BorrowedFd<'_>) -> Result<bool, Errno> {
        Ok(self.family(fd)? == AddressFamily::INET6)
    }

    /// Whether it sends single messages to an address.
    pub(crate) fn is_datagram(self) -> bool {
        self.kind != SocketType::STREAM && self.kind != SocketType::SEQPACKET
    }

    /// Whether it sends bytes, which may be cut anywhere, and no messages.
    pub(crate) fn is_stream(self) -> bool {
        self.kind == SocketType::STREAM
    }

    /// Whether it is one of IPv4 or IPv6.
    pub(crate) fn is_ip(self) -> bool {
        let is_ip = |family| family == AddressFamily::INET || family == AddressFamily::INET6;
        self.family.is_none_or(is_ip)
    }

    /// Whether what it sends may wait for a reader. Single messages of IP leave, or are lost.
    pub(crate) fn has_readers(self) -> bool {
        !(self.is_ip() && self.is_datagram())
    }
}

/// `IPPROTO_TCP`. A stream of this number is one of IPv4 or IPv6: other families that have streams take 0 or their own
/// name for a protocol, or number them otherwise below 6 (Bluetooth's stream is 3, CAIF's are 0 to 4, PPP's 0 to 2); those
/// that use 6 for something else (netlink, CAN, packet, raw and Bluetooth's HIDP) have no streams.
const TCP: u32 = 6;

/// Whether a socket of TCP is connected, or was when it was reset: it cannot listen unless it is recreated.
pub(crate) fn was_connected(fd: &OwnedFd) -> bool {
    /// `TCP_INFO`, and where its `tcpi_segs_in` is (linux/tcp.h): segments that came, until it is disconnected.
    const INFO: i32 = 11;
    const SEGMENTS: usize = 140;
    let came = || {
        let info = option(fd.as_fd(), TCP.cast_signed(), INFO, SEGMENTS + 4).ok()?;
        Some(info.get(SEGMENTS..)?.iter().any(|byte| *byte != 0))
    };
    rustix::net::getpeername(fd).is_ok() || came().unwrap_or(false)
}

/// The protocol of a family, type and number, by linux/socket.h and linux/in.h.
pub(crate) fn protocol(family: u32, kind: u32, number: u32) -> Protocol {
    const STREAM: u32 = 1;
    const DATAGRAM: u32 = 2;
    const RAW: u32 = 3;
    /// Of IPv4 it is one of packets (net/socket.c).
    const OLD_PACKET: u32 = 10;
    // Flags stand in the upper bits of the type. Numbers are IANA's, and IPPROTO_MPTCP (262).
    match (family, kind & 0xF, number) {
        (1, ..) => Protocol::Unix,
        (2 | 10, RAW, of) => u16::try_from(of).map_or(Protocol::Raw, Protocol::RawOf),
        (2 | 10, _, 132) => Protocol::Sctp,
        (2 | 10, _, 33) => Protocol::Dccp,
        (2 | 10, STREAM, 0 | 6 | 262) => Protocol::Tcp,
        (2 | 10, DATAGRAM, 0 | 17 | 136) => Protocol::Udp,
        (2 | 10, DATAGRAM, 1 | 58) => Protocol::Icmp,
        (16, ..) => Protocol::Netlink,
        (17, ..) | (2, OLD_PACKET, _) => Protocol::Packet,
        (40, ..) => Protocol::Vsock,
        _ => Protocol::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn sockets_are_known_by_what_the_kernel_says() {
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let found = Socket::of(tcp.as_fd()).unwrap();
        assert_eq!(
            (found.protocol, found.is_datagram(), found.is_ip()),
            (Protocol::Tcp, false, true)
        );
        assert_eq!(found.family(tcp.as_fd()), Ok(AddressFamily::INET));
        if let Ok(tcp) = std::net::TcpListener::bind("[::1]:0") {
            let found = Socket::of(tcp.as_fd()).unwrap();
            assert_eq!((found.protocol, found.is_ip6(tcp.as_fd())), (Protocol::Tcp, Ok(true)));
        }
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let found = Socket::of(udp.as_fd()).unwrap();
        assert_eq!(
            (found.protocol, found.is_datagram(), found.is_ip()),
            (Protocol::Udp, true, true)
        );
        let unix = std::os::unix::net::UnixDatagram::unbound().unwrap();
        assert_eq!(Socket::of(unix.as_fd()).unwrap().protocol, Protocol::Unix);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(Socket::of(file.as_fd()), Err(Errno::NOTSOCK));
    }

    #[test]
    fn protocols_follow_family_type_and_number() {
        for (family, kind, number, expected) in [
            (2, 1, 262, Protocol::Tcp),
            (10, 2, 136, Protocol::Udp),
            (2, 2, 1, Protocol::Icmp),
            (10, 2, 58, Protocol::Icmp),
            (2, 3, 6, Protocol::RawOf(6)),
            (10, 3, 58, Protocol::RawOf(58)),
            (2, 1, 132, Protocol::Sctp),
            (17, 3, 0x300, Protocol::Packet),
            (2, 10, 0x300, Protocol::Packet),
            (10, 10, 0x300, Protocol::Other),
            (16, 3, 0, Protocol::Netlink),
            (40, 1, 0, Protocol::Vsock),
            (38, 5, 0, Protocol::Other),
            (1, 0x8_0002, 0, Protocol::Unix),
        ] {
            assert_eq!(protocol(family, kind, number), expected, "{family} {kind} {number}");
        }
    }
}
