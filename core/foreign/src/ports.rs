//! Ports of the host that lead to programs in nodes, as Docker publishes them: `[[ADDRESS:]PORT:]TO[/PROTOCOL]`, where both may be
//! ranges.
//!
//! Docker listens on every address of the host unless one is given; a lab's ports are on the host's loopback then, which is reported.
//! A port of the host is one node's: a second node's is left out.

use std::net::IpAddr;

use netloom_model::published::{Published, Transport};

use crate::draft::Node;
use crate::{Job, Verdict};

/// The most ports that a node's text may stand for, and that a node has.
const MOST_OF_NODE: usize = 256;

/// The most ports of a lab.
const MOST_OF_LAB: usize = 4096;

/// Adds what the text stands for to a node. `unsaid` is the port of the host where the text has none.
pub(crate) fn publish(job: &Job<'_>, text: &str, unsaid: Option<u16>, node: &mut Node) -> Verdict {
    let left_out = |why: &str| Verdict::LeftOut(why.to_owned());
    let (ports, protocol) = text.trim().rsplit_once('/').unwrap_or((text.trim(), "tcp"));
    let protocol = match protocol.to_ascii_lowercase().as_str() {
        "tcp" => Transport::Tcp,
        "udp" => Transport::Udp,
        _ => return left_out("a node publishes ports of TCP and UDP"),
    };
    // From the right: an address of IPv6 has colons, too.
    let (ports, to) = ports.rsplit_once(':').map_or((None, ports), |(ports, to)| (Some(ports), to));
    let (address, port) = match ports.map(|ports| ports.rsplit_once(':').unwrap_or(("", ports))) {
        None => ("", None),
        Some((address, port)) => (address, Some(port)),
    };
    let address = match address.trim_start_matches('[').trim_end_matches(']') {
        "" => None,
        address => match address.parse::<IpAddr>() {
            Ok(address) => Some(address),
            Err(_) => return left_out("expected an address of the host before the ports"),
        },
    };
    let Some(to) = range(to) else { return left_out("expected PORT:PORT") };
    let port = match (port.map(range), unsaid) {
        (Some(Some(port)), _) => port,
        (Some(None), _) => return left_out("expected PORT:PORT"),
        (None, Some(port)) => port..=port,
        (None, None) => return left_out("no port of the host is given; Docker chooses one"),
    };
    if port.len() != to.len() || port.len() > MOST_OF_NODE {
        return left_out("both ranges of ports must have one length, of 256 at most");
    }
    let all = port.zip(to).map(|(port, to)| Published { address, port, to, protocol });
    match take(job, &all.collect::<Vec<_>>(), node) {
        Some(why) => Verdict::LeftOut(why),
        None if address.is_some() => Verdict::Carried,
        None => Verdict::Changed(
            "on the host's loopback; an address before the port, such as 0.0.0.0, opens it to others".into(),
        ),
    }
}

/// All or none; why it is none.
fn take(job: &Job<'_>, ports: &[Published], node: &mut Node) -> Option<String> {
    let mut of_lab = job.ports.borrow_mut();
    if node.ports.len() + ports.len() > MOST_OF_NODE || of_lab.len() + ports.len() > MOST_OF_LAB {
        return Some("a node has at most 256 ports, an imported lab 4096".into());
    }
    let taken = ports.iter().find(|port| of_lab.iter().any(|known| known.clashes(port)));
    if let Some(taken) = taken {
        return Some(format!("port {} of the host is taken already", taken.port));
    }
    of_lab.extend(ports);
    node.ports.extend(ports);
    None
}

/// `80` or `80-90`.
fn range(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|number| digits && *number > 0)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some(first..=last)
}
