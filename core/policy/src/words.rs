//! A request in words, as a person asks about one: `/usr/bin/curl tcp example.org:443`.
//!
//! `[in|out|open] [PROTOCOL] [TARGET]` after the program, and of a listener `from ADDRESS`, its peer. Targets: `NAME:PORT` (whose address nobody looks up),
//! `NAME=ADDRESS:PORT`, `ADDRESS:PORT`, `[IPV6]:PORT`, `:PORT` (all addresses), `resolver:53`, `unix:/path`, `unix:@name`,
//! `vsock:CID:PORT`; none for `open`. A listener's port may be `free`; `icmp` and `raw` have no `:PORT`. `dns NAME` looks a
//! name up.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use jiff::Timestamp;

use crate::decide::{Policy, Verdict};
use crate::pattern::Destination;
use crate::request::{Direction, Port, Program, Protocol, Request, Target, plain_name};

/// A request in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordedRequest {
    /// The request.
    pub request: Request,
    /// The target is a name without an address: rules about addresses may say something else.
    pub without_address: bool,
    /// The peer that connects to a listener, or sends to it.
    pub from: Option<IpAddr>,
}

/// Reads a request; the error says what is wrong.
pub fn request(program: Program, words: &[String]) -> Result<WordedRequest, String> {
    let (mut rest, from) = match words {
        [before @ .., from, address] if from == "from" => (before, Some(caller(address)?)),
        [.., from] if from == "from" => return Err("an address is missing after `from`".into()),
        all => (all, None),
    };
    let mut direction = None;
    let mut protocol = None;
    while let Some((first, others)) = rest.split_first() {
        if let Some(named) = Direction::ALL.into_iter().find(|one| one.name() == first) {
            direction = Some(named);
        } else if let Some(named) = Protocol::named(first) {
            protocol = Some(named);
        } else {
            break;
        }
        rest = others;
    }
    let direction = direction.unwrap_or(match rest {
        _ if from.is_some() => Direction::In,
        [] => Direction::Open,
        _ => Direction::Out,
    });
    let (target, default, without_address) = match rest {
        [] if direction == Direction::Open => (Target::Socket, None, false),
        [] => return Err("a target is missing, as in example.org:443".into()),
        [_] if direction == Direction::Open => {
            return Err("a socket that is opened has no target".into());
        }
        [one] => target(direction, protocol, one)?,
        [_, more, ..] => return Err(format!("unexpected {more:?} after the target")),
    };
    let protocol = protocol.or(default).ok_or("a protocol is missing, as in `open raw`")?;
    if from.is_some() {
        let hears = direction == Direction::In && matches!(target, Target::Ip { .. });
        if !hears || !matches!(protocol, Protocol::Tcp | Protocol::Udp) {
            return Err("`from` is of listeners of tcp and udp, as in `in :8000 from ::1`".into());
        }
    }
    let request = Request { program, direction, protocol, target };
    Ok(WordedRequest { request, without_address, from })
}

fn caller(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("{text:?} after `from` is not an address"))
}

type Found = (Target, Option<Protocol>, bool);

fn target(direction: Direction, protocol: Option<Protocol>, text: &str) -> Result<Found, String> {
    let unix = text.strip_prefix("unix:").or_else(|| text.starts_with('/').then_some(text));
    if let Some(place) = unix {
        let target = match place.strip_prefix('@') {
            Some(name) => Target::Abstract(name.to_owned()),
            None if place.starts_with('/') => Target::Path(place.to_owned()),
            None => return Err(format!("{text:?}: write unix:/path or unix:@name")),
        };
        return Ok((target, Some(Protocol::Unix), false));
    }
    if protocol == Some(Protocol::Dns) {
        let no_name =
            || format!("{text:?} is not a name that can be looked up, as in `dns example.org`");
        let name = named(text).filter(|_| direction == Direction::Out).ok_or_else(no_name)?;
        return Ok((Target::Name(name), None, false));
    }
    let wrong = || format!("{text:?} is not NAME:PORT, ADDRESS:PORT, unix:/path or vsock:CID:PORT");
    if let Some(protocol) = protocol.filter(|protocol| !protocol.has_ports()) {
        let no_target = || format!("{text:?} is not NAME or ADDRESS; {protocol} has no ports");
        let (target, without_address) = internet(direction, text, 0).ok_or_else(no_target)?;
        return Ok((target.without_port(), None, without_address));
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    if let Some(cid) = host.strip_prefix("vsock:") {
        let (cid, port) = (cid.parse().map_err(|_| wrong())?, port.parse().map_err(|_| wrong())?);
        let target = Target::Vsock { cid, port: Port::Named(port) };
        return Ok((target, Some(Protocol::Vsock), false));
    }
    let number = if port == "free" && direction == Direction::In { Ok(0) } else { port.parse() };
    let port: u16 = number.map_err(|_| format!("{text:?}: {port:?} is not a port"))?;
    let (target, without_address) = internet(direction, host, port).ok_or_else(wrong)?;
    Ok((target, Some(Protocol::Tcp), without_address))
}

/// An IP target; whether its address is not known.
fn internet(direction: Direction, host: &str, port: u16) -> Option<(Target, bool)> {
    let address = |text: &str| -> Option<IpAddr> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        bare.unwrap_or(text).parse().ok()
    };
    let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    if let Some((name, text)) = host.split_once('=') {
        let names = vec![named(name)?];
        return Some((Target::ip(direction, address(text)?, port, names), false));
    }
    if matches!(host, "" | "*") && direction == Direction::In {
        return Some((Target::ip(direction, unspecified, port, vec![]), false));
    }
    if let Some(address) = address(host) {
        return Some((Target::ip(direction, address, port, vec![]), false));
    }
    let resolver = host == "resolver" && direction == Direction::Out;
    let names = if resolver { vec![] } else { vec![named(host)?] };
    // Not by `Target::ip`, which would make it the loopback address.
    let port = Port::asked(direction, port);
    Some((Target::Ip { address: unspecified, port, names, resolver }, true))
}

/// A host's name.
fn named(text: &str) -> Option<String> {
    match Destination::parse(text).ok()? {
        Destination::Name(name) => Some(plain_name(&name)),
        _ => None,
    }
}

/// Prefixes of the policy's rules by which the verdict on a name is another one, with that verdict.
pub fn by_address(policy: &Policy, request: &Request, now: Timestamp) -> Vec<(IpNet, Verdict)> {
    let Target::Ip { port, names, resolver, .. } = &request.target else { return vec![] };
    let usual = policy.decide(request, now);
    let destinations = policy.rules.iter().flat_map(|rule| &rule.to);
    let mut nets: Vec<IpNet> = destinations
        .filter_map(|to| match to {
            Destination::Net(net) => Some(*net),
            _ => None,
        })
        .collect();
    nets.sort_unstable();
    nets.dedup();
    let verdicts = nets.into_iter().map(|net| {
        let (address, port, names, resolver) = (net.addr(), *port, names.clone(), *resolver);
        let target = Target::Ip { address, port, names, resolver };
        (net, policy.decide(&Request { target, ..request.clone() }, now))
    });
    verdicts.filter(|(_, verdict)| verdict.action != usual.action).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        let program = Program { path: "/bin/x".into(), sha256: None };
        request(program, &words).map(|asked| {
            let Request { direction, protocol, target, .. } = asked.request;
            let open = if asked.without_address { " ?" } else { "" };
            let from = asked.from.map_or(String::new(), |from| format!(" from {from}"));
            format!("{} {protocol} {target}{open}{from}", direction.name())
        })
    }

    #[test]
    fn words_are_requests() {
        for (words, expected) in [
            ("tcp Example.com:443", "out tcp example.com 0.0.0.0:443 ?"),
            ("example.com=192.0.2.1:443", "out tcp example.com 192.0.2.1:443"),
            ("udp 192.0.2.1:53", "out udp 192.0.2.1:53"),
            ("out udp [::1]:53", "out udp [::1]:53"),
            ("0.0.0.0:1", "out tcp 127.0.0.1:1"),
            ("in tcp :8000", "in tcp 0.0.0.0:8000"),
            ("in *:8000", "in tcp 0.0.0.0:8000"),
            ("in :free", "in tcp 0.0.0.0:free"),
            ("in udp [::1]:free", "in udp [::1]:free"),
            ("in :8000 from 192.0.2.1", "in tcp 0.0.0.0:8000 from 192.0.2.1"),
            ("udp :53 from ::1", "in udp 0.0.0.0:53 from ::1"),
            ("icmp 192.0.2.1", "out icmp 192.0.2.1"),
            ("udp resolver:53", "out udp resolver 0.0.0.0:53 ?"),
            ("dns Example.com.", "out dns example.com"),
            ("raw:89 fe80::1", "out raw:ospf fe80::1"),
            ("raw Example.com", "out raw example.com 0.0.0.0 ?"),
            ("open raw:icmp", "open raw:icmp a socket"),
            ("/run/x", "out unix unix:/run/x"),
            ("unix:@x", "out unix unix:@x"),
            ("vsock:2:80", "out vsock vsock:2:80"),
            ("open raw", "open raw a socket"),
            ("packet", "open packet a socket"),
        ] {
            assert_eq!(read(words).as_deref(), Ok(expected), "{words}");
        }
    }

    #[test]
    fn wrong_words_are_named() {
        for (words, part) in [
            ("", "a protocol is missing"),
            ("out tcp", "a target is missing"),
            ("tcp example.com", "is not NAME:PORT"),
            ("tcp example.com:http", "\"http\" is not a port"),
            ("tcp example.com:free", "\"free\" is not a port"),
            ("icmp 192.0.2.1:1", "icmp has no ports"),
            ("dns example.com:53", "is not a name that can be looked up"),
            ("dns 192.0.2.1", "is not a name that can be looked up"),
            ("in dns example.com", "is not a name that can be looked up"),
            ("raw:no 192.0.2.1", "unexpected \"192.0.2.1\" after the target"),
            ("tcp example.com:443 now", "unexpected \"now\" after the target"),
            ("open raw 192.0.2.1:1", "has no target"),
            ("unix:x", "write unix:/path"),
            ("exa_*:1", "is not NAME:PORT"),
            ("in :1 from", "an address is missing"),
            ("in :1 from ::/0", "\"::/0\" after `from` is not an address"),
            ("out :1 from ::1", "is not NAME:PORT"),
            ("out ::1:1 from ::1", "of listeners of tcp and udp"),
            ("in unix:/x from ::1", "of listeners of tcp and udp"),
            ("in sctp :1 from ::1", "of listeners of tcp and udp"),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.contains(part), "{words}: {error}");
        }
    }

    #[test]
    fn addresses_that_change_the_verdict_on_a_name_are_told() {
        let text =
            "default: deny\nrules: [{allow: out, to: \"*.corp\"}, {deny: out, to: 10.0.0.0/8}]";
        let policy = crate::read("p", text.as_bytes()).unwrap();
        let program = Program { path: "/bin/x".into(), sha256: None };
        let asked = request(program, &["a.corp:80".to_owned()]).unwrap();
        let now = Timestamp::UNIX_EPOCH;
        assert!(policy.decide(&asked.request, now).action.passes());
        let others = by_address(&policy, &asked.request, now);
        assert_eq!(others.len(), 1);
        assert_eq!(others[0].0.to_string(), "10.0.0.0/8");
    }
}
