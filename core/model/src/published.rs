//! Ports of the host that lead to programs in a node, and their text: `[ADDRESS:]PORT[:TO][/udp]`.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Transport {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

/// A port of the host that leads to one of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Published {
    /// The address of the host; if absent, its loopback, in both families.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub address: Option<IpAddr>,
    /// The port of the host.
    pub port: u16,
    /// The port of a program in the node.
    pub to: u16,
    /// What is carried.
    pub protocol: Transport,
}

/// What the text of a port is expected to be.
pub(crate) const EXPECTED: &str =
    "a port of the host with the node's like 8080:80, 8080:80/udp, 0.0.0.0:8080:80 or [::]:8080:80";

impl Published {
    /// The places on the host where it listens.
    pub fn places(&self) -> Vec<SocketAddr> {
        let loopback = || vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let all: Vec<IpAddr> = self.address.map_or_else(loopback, |address| vec![address]);
        all.into_iter().map(|address| SocketAddr::new(address, self.port)).collect()
    }

    /// Whether both want one port of the host.
    pub fn clashes(&self, other: &Published) -> bool {
        let same = |a: SocketAddr, b: SocketAddr| {
            let every = a.ip().is_unspecified() || b.ip().is_unspecified();
            a == b || (every && a.is_ipv4() == b.is_ipv4() && a.port() == b.port())
        };
        let others = other.places();
        self.protocol == other.protocol
            && self.places().into_iter().any(|a| others.iter().any(|b| same(a, *b)))
    }
}

/// Ports that are somebody's, by what they would clash with: a plan has very many.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    places: HashMap<(Transport, SocketAddr), usize>,
    /// At any address of a family, and at all of them.
    any: HashMap<(Transport, bool, u16), usize>,
    every: HashMap<(Transport, bool, u16), usize>,
}

impl Taken {
    /// Takes a port for `who`; returns the first who has one that it clashes with. Each caller's number is at least the one before.
    pub(crate) fn take(&mut self, port: &Published, who: usize) -> Option<usize> {
        let other = port.places().into_iter().filter_map(|place| self.holder(port, place)).min();
        for place in port.places() {
            let key = (port.protocol, place.is_ipv4(), port.port);
            self.places.entry((port.protocol, place)).or_insert(who);
            self.any.entry(key).or_insert(who);
            if place.ip().is_unspecified() {
                self.every.entry(key).or_insert(who);
            }
        }
        other
    }

    fn holder(&self, port: &Published, place: SocketAddr) -> Option<usize> {
        let key = (port.protocol, place.is_ipv4(), port.port);
        let whole = if place.ip().is_unspecified() { self.any.get(&key) } else { None };
        let same = self.places.get(&(port.protocol, place));
        [whole, same, self.every.get(&key)].into_iter().flatten().min().copied()
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(IpAddr::V4(address)) => write!(f, "{address}:")?,
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:")?,
            None => {}
        }
        write!(f, "{}:{}", self.port, self.to)?;
        match self.protocol {
            Transport::Tcp => Ok(()),
            Transport::Udp => f.write_str("/udp"),
        }
    }
}

impl FromStr for Published {
    /// None: [`EXPECTED`] says it all.
    type Err = ();

    fn from_str(text: &str) -> Result<Published, ()> {
        let (rest, protocol) = match text.rsplit_once('/') {
            None => (text, Transport::Tcp),
            Some((rest, "tcp")) => (rest, Transport::Tcp),
            Some((rest, "udp")) => (rest, Transport::Udp),
            Some(_) => return Err(()),
        };
        let (address, ports) = address(rest)?;
        let (port, to) = ports.split_once(':').unwrap_or((ports, ports));
        Ok(Published { address, port: number(port)?, to: number(to)?, protocol })
    }
}

/// The address before the ports, if there is one, and these.
fn address(text: &str) -> Result<(Option<IpAddr>, &str), ()> {
    // Brackets as in a URL (RFC 3986, section 3.2.2): an address of IPv6 has colons of its own.
    if let Some(inner) = text.strip_prefix('[') {
        let (address, ports) = inner.split_once("]:").ok_or(())?;
        let address: Ipv6Addr = address.parse().map_err(|_| ())?;
        return Ok((Some(address.into()), ports));
    }
    match text.split_once(':') {
        Some((address, ports)) if address.contains('.') => {
            let address: Ipv4Addr = address.parse().map_err(|_| ())?;
            Ok((Some(address.into()), ports))
        }
        _ => Ok((None, text)),
    }
}

fn number(text: &str) -> Result<u16, ()> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number: u16 = if digits { text.parse().map_err(|_| ())? } else { return Err(()) };
    if number == 0 { Err(()) } else { Ok(number) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_ports_and_back() {
        for (text, again, places) in [
            ("8080:80", "8080:80", "[127.0.0.1:8080, [::1]:8080]"),
            ("80", "80:80", "[127.0.0.1:80, [::1]:80]"),
            ("80/tcp", "80:80", "[127.0.0.1:80, [::1]:80]"),
            ("5353:53/udp", "5353:53/udp", "[127.0.0.1:5353, [::1]:5353]"),
            ("0.0.0.0:8080:80", "0.0.0.0:8080:80", "[0.0.0.0:8080]"),
            ("[::]:8080:80", "[::]:8080:80", "[[::]:8080]"),
            ("10.0.0.1:8080", "10.0.0.1:8080:8080", "[10.0.0.1:8080]"),
        ] {
            let port: Published = text.parse().unwrap();
            assert_eq!(port.to_string(), again);
            assert_eq!(format!("{:?}", port.places()), places);
            assert_eq!(again.parse(), Ok(port));
        }
        for text in [
            "",
            ":",
            "80:",
            ":80",
            "0:80",
            "80:0",
            "65536",
            "+80",
            "80/sctp",
            "::1:80:80",
            "[::1]80",
            "1.2.3:8:9",
            "a:8:9",
            "1:2:3",
        ] {
            assert_eq!(text.parse::<Published>(), Err(()), "{text}");
        }
    }

    #[test]
    fn ports_clash_by_address_family_and_protocol() {
        let clash = |a: &str, b: &str| {
            let [a, b]: [Published; 2] = [a, b].map(|text| text.parse().unwrap());
            assert_eq!(a.clashes(&b), b.clashes(&a));
            a.clashes(&b)
        };
        assert!(clash("80", "80:81") && clash("80", "0.0.0.0:80") && clash("80", "[::]:80"));
        assert!(clash("10.0.0.1:80", "0.0.0.0:80") && clash("[::1]:80", "80"));
        assert!(!clash("80", "81:80") && !clash("80", "80/udp"));
        assert!(!clash("10.0.0.1:80", "80") && !clash("0.0.0.0:80", "[::]:80"));
    }

    proptest! {
        /// It finds what a look at every pair finds.
        #[test]
        fn the_first_who_has_a_port_is_found(
            texts in prop::collection::vec(prop::sample::select(vec![
                "80", "81", "80/udp", "0.0.0.0:80", "[::]:80", "[::1]:80", "10.0.0.1:80", "10.0.0.2:80", "[fd00::1]:80",
            ]), 0..8),
        ) {
            let ports: Vec<Published> = texts.iter().map(|text| text.parse().unwrap()).collect();
            let mut taken = Taken::default();
            for (at, port) in ports.iter().enumerate() {
                let first = ports[..at].iter().position(|known| known.clashes(port));
                prop_assert_eq!(taken.take(port, at), first);
            }
        }
    }
}
