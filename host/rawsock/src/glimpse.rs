//! Sees packets between two addresses at all interfaces of a network namespace, in passing.
//!
//! A [`Watcher`] is one packet socket that is bound to no interface: it gets what comes in and what leaves anywhere in the
//! namespace in which it was opened, after a filter in the kernel. Nothing is taken, changed or left behind: it ends with its
//! descriptor. Specification: packet(7), socket(7).

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use netloom_sys::{Failure, socket_filter};
use rustix::net::SocketFlags;

use crate::Result;
use crate::option::length_of;
use crate::socket;

/// Bytes of a packet that are looked at.
const MOST: usize = 256;

/// A packet in passing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glimpse {
    /// The interface.
    pub interface: u32,
    /// Whether it leaves there.
    pub leaves: bool,
    /// The frame's first bytes, from its Ethernet header on.
    pub frame: Vec<u8>,
}

/// Sees packets in passing.
#[derive(Debug)]
pub struct Watcher {
    fd: OwnedFd,
}

impl Watcher {
    /// Watches the calling thread's network namespace for packets between two addresses, in both directions, for ICMP
    /// errors to either, and for questions for hardware addresses; at interfaces with these indexes, or at all if none is
    /// given. A namespace with the ports of large switches has a copy of each question at each port, more than the socket
    /// has room for.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) without permission; else the kernel's.
    pub fn open(pair: [IpAddr; 2], at: &[u32]) -> Result<Watcher> {
        let fd = socket::open(0, SocketFlags::NONBLOCK)?;
        let mut code = only_at(at);
        code.extend(filter(pair));
        // Before it is bound, so that nothing else is ever queued.
        socket_filter::attach(fd.as_fd(), &code)
            .map_err(|e| Failure::new("packet socket", "filter", e))?;
        socket::bind(&fd, 0, socket::ALL)?;
        Ok(Watcher { fd })
    }

    /// How many packets there was no room for since the last question: so many that were not seen.
    ///
    /// # Errors
    /// The kernel's.
    pub fn missed(&self) -> Result<u64> {
        Ok(socket::statistics(&self.fd)?.lost)
    }

    /// The next packet; `None` if there is none by now.
    ///
    /// # Errors
    /// The kernel's.
    pub fn next(&self) -> Result<Option<Glimpse>> {
        let mut frame = vec![0; MOST];
        let failed = |e| Failure::new("packet socket", "receive", e);
        // SAFETY: all bytes zero is a valid value of each member of sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut length = length_of::<libc::sockaddr_ll>().map_err(failed)?;
        loop {
            // SAFETY: both pointers are to live memory of the given lengths, and any bytes are valid values of it.
            let got = unsafe {
                libc::recvfrom(
                    self.fd.as_raw_fd(),
                    frame.as_mut_ptr().cast(),
                    frame.len(),
                    libc::MSG_TRUNC,
                    (&raw mut address).cast(),
                    &raw mut length,
                )
            };
            if let Ok(got) = usize::try_from(got) {
                frame.truncate(got);
                let interface = u32::try_from(address.sll_ifindex).unwrap_or(0);
                let leaves = address.sll_pkttype == libc::PACKET_OUTGOING;
                return Ok(Some(Glimpse { interface, leaves, frame }));
            }
            match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                // An interface went down: the socket goes on.
                e if e.raw_os_error() == Some(libc::ENETDOWN) => {}
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(failed(e).into()),
            }
        }
    }
}

impl AsFd for Watcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// More interfaces than one jump of classic BPF can pass over are not told apart: all are taken.
const MOST_INTERFACES: usize = 250;

/// Classic BPF that goes on to what follows for a frame at one of these interfaces, or at any if none is given, and leaves
/// all others. The index is ancillary data of the frame (`SKF_AD_IFINDEX` in linux/filter.h).
fn only_at(interfaces: &[u32]) -> Vec<libc::sock_filter> {
    const LOAD_WORD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const INDEX: u32 = 0xffff_f008;
    if interfaces.is_empty() || interfaces.len() > MOST_INTERFACES {
        return vec![];
    }
    let mut code = vec![libc::sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: INDEX }];
    // Over the comparisons that are left and the instruction that leaves the frame.
    for (left, index) in (1..=interfaces.len()).rev().zip(interfaces) {
        let jt = u8::try_from(left).unwrap_or(u8::MAX);
        code.push(libc::sock_filter { code: EQUAL, jt, jf: 0, k: *index });
    }
    code.push(libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: 0 });
    code
}

/// Classic BPF over a frame from its Ethernet header on. Of IPv6 only the last words of addresses are compared here: the
/// caller compares the rest.
fn filter(pair: [IpAddr; 2]) -> Vec<libc::sock_filter> {
    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF: u16 = 0x28;
    const LOAD_BYTE: u16 = 0x30;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let op = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    // If equal, goes `yes` instructions farther.
    let equal = |k, yes, no| libc::sock_filter { code: EQUAL, jt: yes, jf: no, k };
    let word = |address: IpAddr| match address {
        IpAddr::V4(four) => u32::from(four),
        IpAddr::V6(six) => {
            let [.., a, b, c, d] = six.octets();
            u32::from_be_bytes([a, b, c, d])
        }
    };
    let [one, two] = pair.map(word);
    // Offsets count from the frame: 14 bytes of Ethernet, then the header; of IPv6 addresses the last word.
    let (kind, protocol, icmp, source, destination) = match pair[0] {
        IpAddr::V4(_) => (0x0800, 23, 1, 26, 30),
        IpAddr::V6(_) => (0x86dd, 20, 58, 34, 50),
    };
    let all = u32::try_from(MOST).unwrap_or(u32::MAX);
    vec![
        op(LOAD_HALF, 12),
        equal(0x0806, 11, 0), // ARP: take
        equal(kind, 0, 11),   // another protocol: leave
        op(LOAD_BYTE, protocol),
        equal(icmp, 8, 0), // ICMP: take
        op(LOAD_WORD, source),
        equal(one, 1, 0),
        equal(two, 2, 6),
        op(LOAD_WORD, destination), // from the first
        equal(two, 3, 4),
        op(LOAD_WORD, destination), // from the second
        equal(one, 1, 2),
        op(RETURN, 0),
        op(RETURN, all),
        op(RETURN, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter takes of a frame, by the rules of bpf(4).
    fn takes(code: &[libc::sock_filter], frame: &[u8]) -> bool {
        takes_at(code, frame, 1)
    }

    /// The same of a frame at an interface.
    fn takes_at(code: &[libc::sock_filter], frame: &[u8], index: u32) -> bool {
        let (mut at, mut a) = (0, 0_u32);
        loop {
            let i = code[at];
            let k = usize::try_from(i.k).unwrap();
            at += 1;
            match i.code {
                0x20 if i.k == 0xffff_f008 => a = index,
                0x20 => a = u32::from_be_bytes(frame[k..k + 4].try_into().unwrap()),
                0x28 => a = u16::from_be_bytes(frame[k..k + 2].try_into().unwrap()).into(),
                0x30 => a = frame[k].into(),
                0x15 => at += usize::from(if a == i.k { i.jt } else { i.jf }),
                0x06 => return i.k > 0,
                other => panic!("{other:x}"),
            }
        }
    }

    fn four(kind: u16, protocol: u8, source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        frame[23] = protocol;
        frame[26..30].copy_from_slice(&source);
        frame[30..34].copy_from_slice(&destination);
        frame
    }

    #[test]
    fn only_packets_between_both_and_what_tells_of_them_are_taken() {
        let (a, b, c) = ([10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 3]);
        let code = filter([IpAddr::from(a), IpAddr::from(b)]);
        for (frame, taken) in [
            (four(0x0800, 6, a, b), true),
            (four(0x0800, 6, b, a), true),
            (four(0x0800, 6, a, a), false),
            (four(0x0800, 6, b, b), false),
            (four(0x0800, 6, a, c), false),
            (four(0x0800, 17, c, b), false),
            (four(0x0800, 1, c, a), true),
            (four(0x0806, 0, c, c), true),
            (four(0x86dd, 58, c, c), false),
        ] {
            assert_eq!(takes(&code, &frame), taken, "{frame:?}");
        }
    }

    #[test]
    fn frames_of_other_interfaces_are_left() {
        let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        for (interfaces, taken) in [
            (vec![], true),
            (vec![7], true),
            (vec![1, 7, 9], true),
            (vec![9, 1], false),
            ((100..350).collect(), false),
            ((100..349).chain([7]).collect(), true),
            ((7..258).collect(), true),
            ((100..351).collect(), true),
        ] {
            let mut code = only_at(&interfaces);
            code.extend(filter([IpAddr::from(a), IpAddr::from(b)]));
            assert_eq!(takes_at(&code, &four(0x0800, 6, a, b), 7), taken, "{interfaces:?}");
            assert!(!takes_at(&code, &four(0x0800, 6, a, a), 7), "{interfaces:?}");
        }
    }

    #[test]
    fn packets_of_ipv6_are_taken_by_the_ends_of_their_addresses() {
        let address = |last: u8| {
            let mut octets = [0_u8; 16];
            (octets[0], octets[15]) = (0xfd, last);
            octets
        };
        let frame = |next: u8, source: u8, destination: u8| {
            let mut frame = vec![0; 80];
            frame[12..14].copy_from_slice(&[0x86, 0xdd]);
            frame[20] = next;
            frame[22..38].copy_from_slice(&address(source));
            frame[38..54].copy_from_slice(&address(destination));
            frame
        };
        let code = filter([IpAddr::from(address(1)), IpAddr::from(address(2))]);
        assert!(takes(&code, &frame(6, 1, 2)) && takes(&code, &frame(6, 2, 1)));
        assert!(takes(&code, &frame(58, 7, 8)), "neighbour discovery");
        assert!(!takes(&code, &frame(6, 1, 3)) && !takes(&code, &frame(6, 3, 2)));
    }
}
