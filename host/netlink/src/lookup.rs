//! The path the kernel chooses for packets to an address: its own answer, by all its rules and tables.
//!
//! Nothing is sent. If a destination has several paths, one is returned, which not every flow uses.
//! Specification: rtnetlink(7), `RTM_GETROUTE`.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::address::{family, ip};
use crate::decode::{Message, attributes, u8_at, u32_at};
use crate::encode::Encoder;
use crate::error::{Error, Refusal, Result};
use crate::query::read_ip;
use crate::socket::Socket;
use crate::uapi::*;

/// A query: the path to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The destination.
    pub to: IpAddr,
    /// Source address and ingress link of forwarded packets; `None` for this namespace's own
    /// packets.
    pub forwarded: Option<(IpAddr, u32)>,
}

/// What packets carry, for rules of routing that ask for it (`ip rule … ipproto tcp dport 80`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The protocol's number: TCP, UDP or ICMP.
    pub protocol: u8,
    /// Ports of the source and of the destination, of TCP and UDP.
    pub ports: [u16; 2],
}

/// The kernel's answer, with its reason where it has no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathAnswer {
    /// A path.
    Found(Found),
    /// Packets are dropped, with this error: ENETUNREACH without a route, EINVAL by a blackhole route, EHOSTUNREACH by
    /// an unreachable one, EACCES by a prohibit one (`fib_props`); of forwarded packets also EHOSTUNREACH without
    /// forwarding, EINVAL or EXDEV by the reverse path filter.
    Dropped(i32),
}

/// The route that packets take, as it stands in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Its destination.
    pub to: IpNet,
    /// Its table.
    pub table: u32,
}

/// The path of packets to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Delivered in this namespace.
    Here,
    /// Sent out.
    Leaves {
        /// The egress link.
        link: u32,
        /// The gateway; `None` if the destination is on the link.
        via: Option<IpAddr>,
        /// The source address of the namespace's own packets.
        source: Option<IpAddr>,
    },
}

impl Socket {
    /// The path of packets; `None` if there is no route, or they are not forwarded.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Failed`] or [`Error::Answer`].
    pub fn route_to(&mut self, lookup: &Lookup) -> Result<Option<Found>> {
        let object = format!("route to {}", lookup.to);
        // The kernel has an error for each kind of route that drops packets; `blackhole` is EINVAL. So is what the reverse
        // path filter drops, which was EXDEV in older kernels (6.1).
        let mut question = question(lookup, None);
        match self.ask(&mut question, (&object, "look up"), &DROPPED, read)? {
            Some(Answer::Found(found)) => Ok(Some(found)),
            Some(Answer::None(_)) | None => Ok(None),
            Some(Answer::Odd(kind)) => Err(Error::Refused(vec![Refusal {
                object: object.into(),
                operation: "look up",
                errno: libc::EOPNOTSUPP,
                explanation: Some(format!("the route is of kind {kind}")),
            }])),
        }
    }

    /// The same, with the kernel's error where packets are dropped.
    ///
    /// # Errors
    /// As [`Socket::route_to`].
    pub fn path_to(&mut self, lookup: &Lookup, carried: Option<&Contents>) -> Result<PathAnswer> {
        let object = format!("route to {}", lookup.to);
        let found = self.ask(&mut question(lookup, carried), (&object, "look up"), &[], read);
        let errno = |kind| match kind {
            RTN_BLACKHOLE => libc::EINVAL,
            RTN_PROHIBIT => libc::EACCES,
            _ => libc::EHOSTUNREACH,
        };
        match found {
            Ok(Some(Answer::Found(found))) => Ok(PathAnswer::Found(found)),
            Ok(Some(Answer::None(kind))) => Ok(PathAnswer::Dropped(errno(kind))),
            Ok(Some(Answer::Odd(_)) | None) => Ok(PathAnswer::Dropped(libc::EHOSTUNREACH)),
            Err(Error::Refused(all)) if all.first().is_some_and(|r| DROPPED.contains(&r.errno)) => {
                Ok(PathAnswer::Dropped(all[0].errno))
            }
            Err(error) => Err(error),
        }
    }
}

impl Socket {
    /// The route that packets take, as it stands in its table; `None` where the kernel does not tell: they are dropped, or it is too
    /// old (before Linux 4.13).
    ///
    /// # Errors
    /// As [`Socket::route_to`].
    pub fn matched_route(
        &mut self,
        lookup: &Lookup,
        carried: Option<&Contents>,
    ) -> Result<Option<Matched>> {
        let object = format!("route to {}", lookup.to);
        let mut question = question(lookup, carried);
        question[HEADER + 8..HEADER + 12]
            .copy_from_slice(&RTM_F_FIB_MATCH_AND_LOOKUP_TABLE.to_ne_bytes());
        self.ask(&mut question, (&object, "look up"), &DROPPED, |m| Some(matched(m)))
            .map(Option::flatten)
    }
}

fn matched(message: &Message<'_>) -> Option<Matched> {
    let (family, length) = (u8_at(message.payload, 0)?, u8_at(message.payload, 1)?);
    let mut table = u32::from(u8_at(message.payload, 4)?);
    let mut to: IpAddr = match family {
        AF_INET => IpAddr::from([0; 4]),
        _ => IpAddr::from([0; 16]),
    };
    for (kind, value) in attributes(message.payload.get(12..)?) {
        match kind {
            RTA_DST => to = read_ip(family, value)?,
            RTA_TABLE => table = u32_at(value, 0)?,
            _ => {}
        }
    }
    Some(Matched { to: IpNet::new(to, length).ok()?, table })
}

/// Asks for the route in its table instead of the path, and for that table: without, IPv4 tells `main` of each.
const RTM_F_FIB_MATCH_AND_LOOKUP_TABLE: u32 = 0x2000 | 0x1000;

/// The kernel's errors for packets that it drops.
const DROPPED: [i32; 5] =
    [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EACCES, libc::EINVAL, libc::EXDEV];

fn question(lookup: &Lookup, carried: Option<&Contents>) -> Vec<u8> {
    let bits = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
    // `struct rtmsg`: family, lengths of destination and source.
    let mut header = [0; 12];
    header[..2].copy_from_slice(&[family(lookup.to), bits(lookup.to)]);
    // Without a source the kernel answers for packets of its own, and chooses their source itself.
    header[2] = lookup.forwarded.map_or(0, |(source, _)| bits(source));
    let mut question = Vec::with_capacity(80);
    Encoder::message(&mut question, RTM_GETROUTE, REQUEST, |encoder| {
        encoder.fixed(&header);
        ip(encoder, RTA_DST, lookup.to);
        if let Some((source, link)) = lookup.forwarded {
            ip(encoder, RTA_SRC, source);
            encoder.u32(RTA_IIF, link);
        }
        // Kernels before 4.17 pass over these.
        if let Some(Contents { protocol, ports }) = carried {
            encoder.u8(RTA_IP_PROTO, *protocol);
            if matches!(i32::from(*protocol), libc::IPPROTO_TCP | libc::IPPROTO_UDP) {
                encoder.attribute(RTA_SPORT, &ports[0].to_be_bytes());
                encoder.attribute(RTA_DPORT, &ports[1].to_be_bytes());
            }
        }
    });
    question
}

/// The content of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Found(Found),
    /// The packets are dropped, by a route of this kind.
    None(u8),
    /// A route type that does not send packets to one receiver.
    Odd(u8),
}

/// Decodes `struct rtmsg` and its attributes.
fn read(message: &Message<'_>) -> Option<Answer> {
    if message.kind != RTM_NEWROUTE {
        return None;
    }
    let family = u8_at(message.payload, 0)?;
    let kind = u8_at(message.payload, 7)?;
    match kind {
        RTN_LOCAL => return Some(Answer::Found(Found::Here)),
        RTN_UNICAST => {}
        RTN_BLACKHOLE..=RTN_PROHIBIT => return Some(Answer::None(kind)),
        // Broadcast and multicast have no one next hop that could be told.
        other => return Some(Answer::Odd(other)),
    }
    let (mut link, mut via, mut source) = (None, None, None);
    for (kind, value) in attributes(message.payload.get(12..)?) {
        match kind {
            RTA_OIF => link = u32_at(value, 0),
            RTA_GATEWAY => via = read_ip(family, value),
            RTA_VIA => via = read_via(value),
            RTA_PREFSRC => source = read_ip(family, value),
            _ => {}
        }
    }
    Some(Answer::Found(Found::Leaves { link: link?, via, source }))
}

/// Decodes `struct rtvia`: a gateway of another family.
fn read_via(value: &[u8]) -> Option<IpAddr> {
    let family = value.first_chunk::<2>().map(|bytes| u16::from_ne_bytes(*bytes))?;
    read_ip(u8::try_from(family).ok()?, value.get(2..)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(payload in prop::collection::vec(any::<u8>(), 0..256)) {
            let _ = read(&Message { kind: RTM_NEWROUTE, flags: 0, sequence: 1, payload: &payload });
            let _ = read_via(&payload);
        }
    }

    #[test]
    fn questions_say_whose_packets_are_meant() {
        let to = "10.0.0.1".parse().unwrap();
        let own = question(&Lookup { to, forwarded: None }, None);
        assert_eq!(&own[HEADER..HEADER + 4], &[AF_INET, 32, 0, 0]);
        assert_eq!(own.len(), HEADER + 12 + 8);
        let through = question(&Lookup { to, forwarded: Some((to, 7)) }, None);
        assert_eq!(&through[HEADER..HEADER + 4], &[AF_INET, 32, 32, 0]);
        assert_eq!(through.len(), HEADER + 12 + 3 * 8);
        for (protocol, more) in [(6, 3), (17, 3), (1, 1)] {
            let carried = Contents { protocol, ports: [49152, 80] };
            let asked = question(&Lookup { to, forwarded: None }, Some(&carried));
            assert_eq!(asked.len(), own.len() + more * 8);
        }
    }
}
