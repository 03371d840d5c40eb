//! What is asked of a recording: a flow or a filter, links, and a range of time.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netloom_filter::Program;
use netloom_sighting::{Flow, Key, link_key, node_key, pair_key, service_key};
use netloom_sys::clock;

use crate::{Error, Result};

/// A snapshot length that fits any frame, for libpcap.
const WHOLE: u32 = 262_144;

/// The words of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// `[NODE [NODE]] [PORT/PROTO]`, where a node may be an address; or one expression in libpcap's language. Empty: all.
    pub words: Vec<String>,
    /// Only what was seen at these links; empty: at any.
    pub links: Vec<String>,
    /// Only packets of the last nanoseconds, this many, by boot time: a step of the clock does not matter.
    pub last_ns: Option<u64>,
    /// From this time on, in nanoseconds since 1970 UTC.
    pub since_ns: Option<u64>,
    /// Before this time.
    pub until_ns: Option<u64>,
}

/// A question that can be answered.
#[derive(Clone, Debug)]
pub struct Question {
    what: What,
    links: Vec<String>,
    /// Boot time from which on it is asked.
    since_order: Option<i64>,
    since_ns: u64,
    until_ns: u64,
}

#[derive(Clone, Debug)]
enum What {
    All,
    Flow(Wanted),
    Filter(Program),
}

/// Packets from or to one of some addresses; with others, between the two; without any, of the protocol.
#[derive(Clone, Debug)]
struct Wanted {
    one: Option<Vec<IpAddr>>,
    other: Option<Vec<IpAddr>>,
    protocol: Option<Vec<u8>>,
    port: Option<u16>,
}

impl Question {
    /// Reads a question; `nodes` has the addresses of nodes by their names.
    ///
    /// # Errors
    /// [`Error::Question`] says what to write instead; libpcap is missing, which filters need.
    pub fn read(asked: &Asked, nodes: &BTreeMap<String, Vec<IpAddr>>) -> Result<Question> {
        if [asked.last_ns, asked.since_ns, asked.until_ns].iter().all(Option::is_none) {
            let text = "a recording is long: say which part, like `--last 10s`, or `--since 12:30:00 --until 12:31:00`";
            return Err(Error::Question(text.to_owned()));
        }
        let (since_ns, until_ns) =
            (asked.since_ns.unwrap_or(0), asked.until_ns.unwrap_or(u64::MAX));
        if since_ns >= until_ns {
            let day = 24 * 3600 * 1_000_000_000;
            let now = clock::realtime();
            // A time of day that is still to come today was taken for yesterday's.
            let text = if until_ns < now && until_ns.saturating_add(day) > now && since_ns <= now {
                "--since is not before --until: a time of day that is not there yet today is yesterday's; leave out --until to \
                 ask up to now, write both with their days, or exchange the two"
            } else {
                "--since is not before --until: nothing lies between them; exchange the two"
            };
            return Err(Error::Question(text.to_owned()));
        }
        let words: Vec<&str> = asked.words.iter().map(String::as_str).collect();
        // By the order of frames, so that a step of the clock does not matter.
        let now = clock::boot_time().cast_signed();
        let since_order = asked.last_ns.map(|last| now.saturating_sub_unsigned(last));
        let (what, links) = (what(&words, nodes)?, asked.links.clone());
        Ok(Question { what, links, since_order, since_ns, until_ns })
    }

    /// Sets of keys: a packet that is asked for has one of each.
    pub(crate) fn keys(&self) -> Vec<Vec<Key>> {
        let mut all = vec![];
        if !self.links.is_empty() {
            all.push(self.links.iter().map(|link| link_key(link)).collect());
        }
        if let What::Flow(wanted) = &self.what {
            all.extend(wanted.keys());
        }
        all
    }

    pub(crate) fn has_link(&self, name: &str) -> bool {
        self.links.is_empty() || self.links.iter().any(|link| link == name)
    }

    pub(crate) fn has_time(&self, time_ns: u64, order_ns: i64) -> bool {
        self.has_some(time_ns..=time_ns, order_ns)
    }

    /// Whether it asks for any of these times, of which the last has this order.
    pub(crate) fn has_some(
        &self,
        times_ns: std::ops::RangeInclusive<u64>,
        last_order: i64,
    ) -> bool {
        *times_ns.start() < self.until_ns
            && *times_ns.end() >= self.since_ns
            && self.since_order.is_none_or(|since| last_order >= since)
    }

    /// Whether it asks by boot time, so that other starts of the machine are none of it.
    pub(crate) fn is_of_this_start(&self) -> bool {
        self.since_order.is_some()
    }

    pub(crate) fn has_frame(&self, frame: &[u8], original: u32) -> bool {
        match &self.what {
            What::All => true,
            What::Flow(wanted) => Flow::of(frame).is_some_and(|flow| wanted.has(&flow)),
            What::Filter(program) => program.run(frame, original) != 0,
        }
    }
}

impl Wanted {
    /// `None`: the index knows nothing of it.
    fn keys(&self) -> Option<Vec<Key>> {
        let one = self.one.as_ref()?;
        let Some(other) = &self.other else {
            return Some(one.iter().copied().map(node_key).collect());
        };
        let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (*a, *b)));
        let pairs = pairs.filter(|(a, b)| a.is_ipv4() == b.is_ipv4());
        Some(match (self.port, self.protocol.as_deref()) {
            (Some(port), Some([protocol])) => {
                pairs.map(|(a, b)| service_key(a, b, *protocol, port)).collect()
            }
            _ => pairs.map(|(a, b)| pair_key(a, b)).collect(),
        })
    }

    fn has(&self, flow: &Flow) -> bool {
        let is_of = |all: &Option<Vec<IpAddr>>, address| {
            all.as_ref().is_none_or(|all| all.contains(&address))
        };
        let between = |from, to| is_of(&self.one, from) && is_of(&self.other, to);
        let port = |port| flow.ports.is_some_and(|(one, other)| one == port || other == port);
        (between(flow.from, flow.to) || between(flow.to, flow.from))
            && self.protocol.as_ref().is_none_or(|all| all.contains(&flow.protocol))
            && self.port.is_none_or(port)
    }
}

fn what(words: &[&str], nodes: &BTreeMap<String, Vec<IpAddr>>) -> Result<What> {
    let (ends, service) = match words {
        [] => return Ok(What::All),
        [all @ .., last] => match service(last) {
            Some(service) => (all, Some(service?)),
            None => (words, None),
        },
    };
    let find = |word: &str| {
        let known = nodes.get(word).cloned();
        known.or_else(|| word.parse().ok().map(|address| vec![address]))
    };
    let addressed = |word: &str| match find(word) {
        Some(found) if found.is_empty() => Err(Error::Question(format!(
            "node {word:?}: it had no address; ask for its links with --link"
        ))),
        Some(found) => Ok(found),
        None => Err(Error::Question(format!(
            "{word:?}: no node of the recording has this name; write a node or an address, or one filter in quotes, like 'tcp port 80'"
        ))),
    };
    let is_whole = service.is_some();
    let (protocol, port) = service.unzip();
    let flow = |one, other| What::Flow(Wanted { one, other, protocol, port: port.flatten() });
    match ends {
        [one] if !is_whole && find(one).is_none() => filter(one, nodes),
        [] => Ok(flow(None, None)),
        [one] => Ok(flow(Some(addressed(one)?), None)),
        [one, other] => {
            let (of_one, of_other) = (addressed(one)?, addressed(other)?);
            refuse_strangers((one, &of_one), (other, &of_other))?;
            Ok(flow(Some(of_one), Some(of_other)))
        }
        _ => Err(Error::Question(
            "a flow is up to two nodes and a service, like `h1 web 80/tcp`; put a filter in quotes, as one word".to_owned(),
        )),
    }
}

/// Refuses two ends of which one has IPv4 addresses alone, and the other IPv6.
fn refuse_strangers(one: (&str, &[IpAddr]), other: (&str, &[IpAddr])) -> Result<()> {
    let is_pair = |a: &IpAddr| other.1.iter().any(|b| a.is_ipv4() == b.is_ipv4());
    if one.1.iter().any(is_pair) {
        return Ok(());
    }
    let kind = |all: &[IpAddr]| if all.iter().any(IpAddr::is_ipv4) { "IPv4" } else { "IPv6" };
    let (of_one, of_other) = (kind(one.1), kind(other.1));
    Err(Error::Question(format!(
        "{:?} has {of_one} and {:?} has {of_other} addresses: no packet is from one to the other; write nodes or addresses of one kind",
        one.0, other.0
    )))
}

type Service = (Vec<u8>, Option<u16>);

/// A port with its protocol, in either order, or `icmp`; `None` for other words.
fn service(word: &str) -> Option<Result<Service>> {
    if word.eq_ignore_ascii_case("icmp") {
        return Some(Ok((vec![1, 58], None)));
    }
    let (one, two) = word.split_once('/')?;
    let (port, protocol) =
        if one.bytes().all(|b| b.is_ascii_digit()) { (one, two) } else { (two, one) };
    let number = match protocol.to_ascii_lowercase().as_str() {
        "tcp" => 6,
        "udp" => 17,
        _ => return None,
    };
    let port: Option<u16> = port.parse().ok().filter(|port| *port > 0);
    let wrong = || Error::Question(format!("{word:?}: write a port from 1 to 65535, as in 80/tcp"));
    Some(port.map(|port| (vec![number], Some(port))).ok_or_else(wrong))
}

fn filter(text: &str, nodes: &BTreeMap<String, Vec<IpAddr>>) -> Result<What> {
    let wrong = |e: &dyn std::fmt::Display| {
        Error::Question(format!(
            "{text:?}: no node of the recording has this name, and as a filter: {e}"
        ))
    };
    let addresses = |name: &str| nodes.get(name).cloned();
    let text = netloom_filter::expand::expand(text.trim(), &addresses).map_err(|e| wrong(&e))?;
    match netloom_libpcap::compile(&text, WHOLE) {
        Ok(program) => Ok(What::Filter(program)),
        Err(e @ netloom_libpcap::Error::Expression { .. }) => Err(wrong(&e)),
        Err(e) => Err(e.into()),
    }
}
