//! The probe: one connection, datagram or echo request from the sender's network.
//!
//! A connection that is made is reset at once, so that neither side keeps anything of it. Sockets are opened by a thread in
//! the node's network, and closed with this process at the latest.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use netloom_model::lookup::slot;
use netloom_packet::checksum::checksum;
use netloom_packet::own;
use netloom_sys::{random, tcp};
use netloom_why::{Outcome, Protocol};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, sockopt};

use super::facts::LabFacts;
use crate::{Error, Result};

/// Bytes behind the header of an echo request.
const MARK: usize = 16;

/// Most echo requests of a probe.
const MOST_ECHOES: u16 = 2;

/// What tells a probe's echo requests and their answers from those of others, who may choose the same identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Echo {
    pub(super) id: u16,
    /// Behind the header; an answer repeats it (RFC 792, RFC 4443 section 4.2).
    pub(super) mark: [u8; MARK],
}

impl Echo {
    /// One that no other probe has.
    fn random() -> io::Result<Echo> {
        let (mut id, mut mark) = ([0; 2], [0; MARK]);
        random::fill(&mut id)?;
        random::fill(&mut mark)?;
        mark[..own::MARK.len()].copy_from_slice(&own::MARK);
        Ok(Echo { id: u16::from_ne_bytes(id), mark })
    }

    /// Whether an ICMP message of this type is one of the probe's. Of a message that is `quoted` in an error the end may be
    /// missing (RFC 792: 64 bits are enough).
    pub(super) fn has(&self, kind: u8, message: &[u8], quoted: bool) -> bool {
        let Some((head, mark)) = message.split_first_chunk::<8>() else { return false };
        let [found, code, _, _, id @ .., high, low] = *head;
        let sequence = u16::from_be_bytes([high, low]);
        let is_marked = match quoted {
            // Whatever pads the quoted packet follows.
            true => mark.iter().zip(&self.mark).all(|(one, other)| one == other),
            false => *mark == self.mark,
        };
        (found, code, id) == (kind, 0, self.id.to_be_bytes())
            && (1..=MOST_ECHOES).contains(&sequence)
            && is_marked
    }
}

/// A probe that is ready to be sent.
pub(super) struct Probe {
    fd: OwnedFd,
    /// Its source port; 0 for echo requests.
    pub(super) port: u16,
    pub(super) echo: Echo,
    protocol: Protocol,
    destination: IpAddr,
    sent: u16,
}

impl Probe {
    /// Opens it in the network of a node.
    pub(super) fn open(
        facts: &LabFacts<'_>,
        node: &str,
        protocol: Protocol,
        (source, destination): (IpAddr, IpAddr),
    ) -> Result<Probe> {
        let at = slot(facts.plan(), node)?;
        let object = format!("node {node:?}");
        let opened = facts.within(at, || {
            socket(protocol, source).map_err(Error::of(&object, "open a socket for a probe"))
        })?;
        let fd = opened.ok_or_else(|| Error::DeadNode(node.to_owned()))?;
        let name =
            rustix::net::getsockname(&fd).ok().and_then(|name| SocketAddr::try_from(name).ok());
        let port = name.map_or(0, |name| name.port());
        let echo = Echo::random().map_err(Error::of(&object, "choose a mark for a probe"))?;
        Ok(Probe { fd, port, echo, protocol, destination, sent: 0 })
    }

    /// What it is, in words.
    pub(super) fn words(&self, port: u16) -> String {
        match self.protocol {
            Protocol::Icmp => format!("echo requests with identifier {}", self.echo.id),
            Protocol::Tcp => format!(
                "one request for a connection from port {} to port {port}, reset if it is accepted",
                self.port
            ),
            Protocol::Udp => format!("datagrams of 8 bytes from port {} to port {port}", self.port),
        }
    }

    /// Whether it may be sent again; the kernel repeats requests for connections by itself.
    pub(super) fn repeats(&self) -> bool {
        self.protocol != Protocol::Tcp
    }

    /// Sends it.
    pub(super) fn send(&mut self, port: u16) -> Option<Outcome> {
        self.sent += 1;
        let to = SocketAddr::new(self.destination, port);
        let sent = match self.protocol {
            Protocol::Icmp => {
                let echo = echo(self.destination.is_ipv4(), &self.echo, self.sent);
                let to = SocketAddr::new(self.destination, 0);
                rustix::net::sendto(&self.fd, &echo, SendFlags::empty(), &to).map(drop)
            }
            Protocol::Tcp => rustix::net::connect(&self.fd, &to),
            Protocol::Udp => rustix::net::connect(&self.fd, &to).and_then(|()| {
                rustix::net::send(&self.fd, &own::MARK, SendFlags::empty()).map(drop)
            }),
        };
        match sent {
            Ok(()) | Err(Errno::INPROGRESS) => None,
            Err(errno) => refused(errno),
        }
    }

    /// What has come of it by now.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        match self.protocol {
            Protocol::Icmp => self.echoed(),
            Protocol::Tcp => {
                let error = sockopt::socket_error(&self.fd);
                match error {
                    Ok(Ok(())) => {
                        rustix::net::getpeername(&self.fd).ok().map(|_| Outcome::Answered)
                    }
                    Ok(Err(errno)) | Err(errno) => refused(errno),
                }
            }
            Protocol::Udp => {
                let mut buffer = [0; 16];
                match rustix::net::recv(&self.fd, &mut buffer, RecvFlags::TRUNC) {
                    Ok(_) => Some(Outcome::Answered),
                    Err(errno) => refused(errno),
                }
            }
        }
    }

    fn echoed(&self) -> Option<Outcome> {
        let mut buffer = [0; 128];
        loop {
            let received = rustix::net::recvfrom(&self.fd, &mut buffer, RecvFlags::empty());
            let Ok((_, length, from)) = received else { return None };
            let from = from.and_then(|from| SocketAddr::try_from(from).ok()).map(|from| from.ip());
            // Every raw socket gets every answer that comes to the node.
            if from != Some(self.destination) {
                continue;
            }
            let packet = buffer.get(..length)?;
            // A raw socket of IPv4 gets the IP header, too (raw(7)).
            let head = match self.destination.is_ipv4() {
                true => packet.first().map_or(0, |byte| usize::from(byte & 0x0f) * 4),
                false => 0,
            };
            let kind = if self.destination.is_ipv4() { 0 } else { 129 };
            let body = packet.get(head..).unwrap_or_default();
            if self.echo.has(kind, body, false) {
                return Some(Outcome::Answered);
            }
        }
    }
}

impl AsFd for Probe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn socket(protocol: Protocol, source: IpAddr) -> io::Result<OwnedFd> {
    let family = if source.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let open = |kind, number| rustix::net::socket_with(family, kind, flags, number);
    let fd = match protocol {
        Protocol::Icmp if source.is_ipv4() => open(SocketType::RAW, Some(ipproto::ICMP))?,
        Protocol::Icmp => open(SocketType::RAW, Some(ipproto::ICMPV6))?,
        Protocol::Tcp => open(SocketType::STREAM, None)?,
        Protocol::Udp => open(SocketType::DGRAM, None)?,
    };
    if protocol == Protocol::Tcp {
        // Closing resets the connection: no end of it waits (tcp(7), TIME_WAIT).
        sockopt::set_socket_linger(&fd, Some(Duration::ZERO))?;
        // So that captures can leave it out. Where the kernel refuses that, they show it.
        let _ = tcp::begin_at(fd.as_fd(), own::SEQUENCE);
    }
    let any = match source {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    if protocol != Protocol::Icmp {
        // The kernel chooses the source address by the route, as for any program.
        rustix::net::bind(&fd, &SocketAddr::new(any, 0))?;
    }
    Ok(fd)
}

/// RFC 792, RFC 4443 section 4.1; the kernel computes the checksum of ICMPv6.
fn echo(ipv4: bool, echo: &Echo, sequence: u16) -> [u8; 8 + MARK] {
    let kind: u16 = if ipv4 { 0x0800 } else { 0x8000 };
    let mut packet = [0; 8 + MARK];
    for (place, word) in packet.chunks_exact_mut(2).zip([kind, 0, echo.id, sequence]) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    packet[8..].copy_from_slice(&echo.mark);
    if ipv4 {
        let sum = checksum(&packet);
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

/// What an error of a socket says; `None` if it says nothing about the way.
fn refused(errno: Errno) -> Option<Outcome> {
    match errno {
        Errno::CONNREFUSED => Some(Outcome::Refused),
        // Nothing has come yet; or a rule of the sender drops, which a connection repeats.
        Errno::AGAIN | Errno::INPROGRESS | Errno::PERM | Errno::ALREADY | Errno::NOTCONN => None,
        _ => Some(Outcome::Silence),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_request_has_its_checksum() {
        for (id, sequence) in [(0, 1), (0xffff, 2), (0xf7ff, 1), (0x1234, 0xffff)] {
            let packet = echo(true, &Echo { id, mark: [0xa5; MARK] }, sequence);
            let words = packet.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
            let sum: u32 = words.sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "{id:x}");
        }
    }

    /// A bound for what always comes.
    const BOUND: Duration = Duration::from_secs(60);

    /// A probe of an address of this machine, whose socket has received the first of `packets` from there: the kernel hands them
    /// on after they were sent.
    fn probe_that_hears(echo: Echo, from: IpAddr, packets: &[Vec<u8>]) -> Probe {
        let own = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        own.set_nonblocking(true).unwrap();
        let other = std::net::UdpSocket::bind((from, 0)).unwrap();
        for packet in packets {
            other.send_to(packet, own.local_addr().unwrap()).unwrap();
        }
        assert!(netloom_sys::process::wait_readable(&own, BOUND));
        let destination = IpAddr::from([127, 0, 0, 2]);
        Probe { fd: own.into(), port: 0, echo, protocol: Protocol::Icmp, destination, sent: 1 }
    }

    /// What a raw socket hears when the receiver answers.
    fn answer(of: &Echo, sequence: u16) -> Vec<u8> {
        let mut message = echo(true, of, sequence);
        message[0] = 0;
        [&[0x45; 20][..], &message].concat()
    }

    #[test]
    fn an_answer_has_the_probes_mark_and_number_and_comes_from_whom_it_asked() {
        let own = Echo { id: 7, mark: [1; MARK] };
        let asked = IpAddr::from([127, 0, 0, 2]);
        let answered = |from: IpAddr, packet: Vec<u8>| {
            probe_that_hears(own, from, &[packet]).outcome() == Some(Outcome::Answered)
        };
        assert!(answered(asked, answer(&own, 1)));
        assert!(answered(asked, answer(&own, 2)), "the second request's");
        assert!(!answered(IpAddr::from([127, 0, 0, 3]), answer(&own, 1)), "of another sender");
        assert!(!answered(asked, answer(&own, 3)), "a number that was not sent");
        assert!(!answered(asked, answer(&Echo { mark: [2; MARK], ..own }, 1)), "another mark");
        assert!(!answered(asked, answer(&Echo { id: 8, ..own }, 1)), "another identifier");
        let mut cut = answer(&own, 1);
        cut.pop();
        assert!(!answered(asked, cut), "a part of the mark");
        let after = [answer(&Echo { mark: [2; MARK], ..own }, 1), answer(&own, 1)];
        let probe = probe_that_hears(own, asked, &after);
        let mut found = probe.outcome();
        while found.is_none() && netloom_sys::process::wait_readable(&probe.fd, BOUND) {
            found = probe.outcome();
        }
        assert_eq!(found, Some(Outcome::Answered));
    }
}
