//! Options of sockets that change what a socket reaches: their values are copied, judged, and set on the duplicate.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};

use netloom_policy::{Direction, Protocol, Target};
use netloom_sys::seccomp::perform::number_option;
use rustix::io::Errno;

use super::{Prepared, Want, opened, place, want};
use crate::address::Address;
use crate::calls::{IP, IPV6, SOCKET, joins, widens};
use crate::layout::Width;
use crate::socket::Socket;

/// Longest value that is copied.
pub(super) const MOST: usize = 1 << 16;

/// What setting an option wants.
pub(super) fn wants(
    fd: &OwnedFd,
    socket: &Socket,
    level: i32,
    option: i32,
    value: &[u8],
) -> Vec<Want> {
    if joins(level, option) {
        let target = group(level, option, value).map_or(Target::Socket, |group| {
            let port = place::local(fd.as_fd()).map_or(0, |local| local.port());
            place::of_socket(socket, Target::ip(Direction::In, group, port, vec![]))
        });
        return vec![want(Direction::In, socket, target)];
    }
    if widens(level, option) { vec![opened(Protocol::Raw)] } else { vec![] }
}

/// The group of a membership: `ip_mreq`, `ip_mreqn`, `ip_mreq_source`, `ipv6_mreq`, or `group_req` with its like
/// (linux/in.h, linux/in6.h).
fn group(level: i32, option: i32, value: &[u8]) -> Option<IpAddr> {
    /// `MCAST_JOIN_GROUP`, `MCAST_JOIN_SOURCE_GROUP`, `MCAST_MSFILTER`.
    const OF_ANY_FAMILY: [i32; 3] = [42, 46, 48];
    if OF_ANY_FAMILY.contains(&option) {
        // The interface's index has 4 bytes, and the address begins at a multiple of 8.
        return match Address::read(value.get(8..)?)? {
            Address::Ip(group, _) => Some(group),
            _ => None,
        };
    }
    match level {
        IP => value.first_chunk::<4>().map(|group| Ipv4Addr::from(*group).into()),
        _ => value.first_chunk::<16>().map(|group| Ipv6Addr::from(*group).into()),
    }
}

/// The value in this machine's own layout, for those that a program of 32 bits lays out otherwise.
///
/// # Errors
/// EPERM for what names memory or descriptors of the program; ENOPROTOOPT for layouts that are not known here.
pub(super) fn translated(
    width: Width,
    copied: bool,
    level: i32,
    option: i32,
    value: Vec<u8>,
) -> Prepared<Vec<u8>> {
    /// `SO_RCVTIMEO_OLD` and `SO_SNDTIMEO_OLD`.
    const TIMES: [i32; 2] = [20, 21];
    /// `SO_ATTACH_FILTER`, `SO_ATTACH_BPF`, `SO_ATTACH_REUSEPORT_CBPF` and `_EBPF`.
    const PROGRAMS: [i32; 4] = [26, 50, 51, 52];
    match level {
        SOCKET if copied && PROGRAMS.contains(&option) => Err(Errno::PERM),
        SOCKET if width == Width::Four && TIMES.contains(&option) => {
            // Seconds and microseconds, which have 32 bits each there.
            let words: Vec<i64> = value
                .chunks_exact(4)
                .filter_map(|word| word.try_into().ok().map(|w| i64::from(i32::from_ne_bytes(w))))
                .collect();
            Ok(words.into_iter().flat_map(i64::to_ne_bytes).collect())
        }
        // Their addresses begin at a multiple of 4 there.
        IP | IPV6 if width == Width::Four && (42..=48).contains(&option) => Err(Errno::NOPROTOOPT),
        _ => Ok(value),
    }
}

/// Whether a socket sends without copying if a message asks for that.
pub(super) fn zero_copy(fd: &OwnedFd) -> bool {
    const SO_ZEROCOPY: i32 = 60;
    number_option(fd.as_fd(), SOCKET, SO_ZEROCOPY).is_ok_and(|set| set != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_from_each_layout() {
        let v4 = [239, 1, 2, 3, 0, 0, 0, 0];
        assert_eq!(group(IP, 35, &v4), Some("239.1.2.3".parse().unwrap()));
        let v6: Ipv6Addr = "ff02::5".parse().unwrap();
        let request = [&v6.octets()[..], &[0; 4]].concat();
        assert_eq!(group(IPV6, 20, &request), Some(v6.into()));
        let mut any = vec![0; 8];
        any.extend(2_u16.to_ne_bytes());
        any.extend([0, 0, 239, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(group(IP, 42, &any), Some("239.1.2.3".parse().unwrap()));
        assert_eq!((group(IP, 35, &v4[..3]), group(IP, 42, &any[..20])), (None, None));
    }

    #[test]
    fn times_of_32_bits_become_those_of_64() {
        let times =
            |width| translated(width, true, SOCKET, 20, [1_i32, 5].map(i32::to_ne_bytes).concat());
        assert_eq!(times(Width::Four), Ok([1_i64, 5].map(i64::to_ne_bytes).concat()));
        assert_eq!(times(Width::Eight), Ok([1_i32, 5].map(i32::to_ne_bytes).concat()));
        assert_eq!(translated(Width::Four, true, SOCKET, 26, vec![0; 8]), Err(Errno::PERM));
    }
}
