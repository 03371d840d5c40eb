//! From the bytes of a body to a configuration, or to all its errors.
//!
//! Two rounds: first each field alone, then fields in combination. The second examines only valid
//! fields, so that one mistake is reported once.

use std::collections::{HashMap, HashSet};

use ipnet::IpNet;
use serde_json::Value;

use super::field::{Fields, Problem, add, shown};
use super::unique::Unique;
use super::{Configuration, NamedFilter, Program, Sampling, hasher};
use crate::{
    Filter, HashFunction, Marks, PayloadPart, Precedence, Profile, Schedule, Selection, Tables,
};

type Problems = Vec<Problem>;

const SECOND: u64 = 1_000_000_000;
/// The shortest period: 10 ms. Shorter ones would leave no time for reading blocks.
const LEAST_PERIOD: u64 = SECOND / 100;
/// The longest period: an hour.
const MOST_PERIOD: u64 = 3600 * SECOND;
/// The longest measurement: 366 days.
const MOST_DURATION: u64 = 366 * 24 * 3600 * SECOND;
/// The longest default guard.
const DEFAULT_GUARD: u64 = SECOND;
/// The maximum number of filters.
const MOST_FILTERS: usize = 65_536;
/// The maximum samples of a block.
const MOST_SAMPLES: u64 = 1 << 20;
/// The longest name of an interface (IFNAMSIZ without the terminating 0).
const LONGEST_NAME: usize = 15;
/// The longest name of an interface in a lab, including its node's name.
const LONGEST_PLACE: usize = 255;

const U32: (u64, u64) = (0, u32::MAX as u64);
/// Numbers of filters: the last one is reserved for us.
const IDS: (u64, u64) = (0, NamedFilter::ASIDE as u64 - 1);

/// Reads a body.
pub(super) fn read(body: &[u8]) -> Result<Configuration, Problems> {
    let Unique(value) = serde_json::from_slice(body).map_err(|error| {
        vec![Problem { path: String::new(), message: format!("cannot be read as JSON: {error}") }]
    })?;
    let mut problems = Vec::new();
    let configuration = Fields::of(&value, "", &mut problems)
        .and_then(|fields| configuration(fields, &mut problems));
    match configuration {
        Some(configuration) if problems.is_empty() => Ok(configuration),
        _ => Err(problems),
    }
}

fn configuration(mut fields: Fields<'_>, problems: &mut Problems) -> Option<Configuration> {
    let program = fields.need_number("prog_id", (0, 4), problems).and_then(Program::numbered);
    let period = need_time(&mut fields, "mp", (LEAST_PERIOD, MOST_PERIOD), problems);
    let duration = need_time(&mut fields, "mpc", (LEAST_PERIOD, MOST_DURATION), problems);
    let marks = marks(&mut fields, program, problems);
    let filters = filters(&mut fields, problems);
    let sampling = sampling(&mut fields, program, problems);
    let nowhere = "names no interface; leave it out to measure everywhere";
    let netifs = netifs(&mut fields, "netifs", nowhere, problems);
    let unmarked = "names no interface; leave it out to mark nothing";
    let marking = self::netifs(&mut fields, "marking", unmarked, problems);
    let guard = guard(&mut fields, period, problems);
    let precedence = fields.word("precedence", &["first", "longest"], precedence, problems);
    fields.finish(problems);
    let precedence = precedence.unwrap_or_default();
    together(period.zip(duration), &filters, precedence, sampling, problems);
    Some(Configuration {
        program: program?,
        period: period?,
        duration: duration?,
        guard: guard?,
        marks: marks?,
        filters: filters.into_iter().map(|(named, _)| named).collect(),
        precedence,
        sampling,
        netifs,
        marking,
    })
}

/// Checks fields in combination.
fn together(
    times: Option<(u64, u64)>,
    filters: &[(NamedFilter, String)],
    precedence: Precedence,
    sampling: Option<Sampling>,
    problems: &mut Problems,
) {
    if times.is_some_and(|(period, duration)| duration < period) {
        add(problems, "mpc", "is shorter than mp: no block would end");
    }
    let plain: Vec<Filter> = filters.iter().map(|(named, _)| named.filter).collect();
    if let Err(error) = Tables::new(&plain, precedence) {
        add(problems, "filters", error.to_string());
    }
    let Some(sampling) = sampling else { return };
    let four_only = if sampling.hasher.function == HashFunction::Ipsx {
        "hash_function ipsx"
    } else if sampling.hasher.profile == Profile::Source {
        "profile source"
    } else {
        return;
    };
    for (named, path) in filters {
        let six = |net: Option<IpNet>| matches!(net, Some(IpNet::V6(_)));
        if six(named.filter.src_ip) || six(named.filter.dst_ip) {
            let message = format!("is of IPv6, and {four_only} is for IPv4 only");
            add(problems, path, message);
        }
    }
}

fn precedence(name: &str) -> Option<Precedence> {
    match name {
        "first" => Some(Precedence::First),
        "longest" => Some(Precedence::Longest),
        _ => None,
    }
}

/// A time in seconds, as nanoseconds.
fn time(
    value: &Value,
    path: &str,
    (least, most): (u64, u64),
    problems: &mut Problems,
) -> Option<u64> {
    // Exactly; a float has all nanoseconds only up to 2^53, which is 104 days.
    let whole = value.as_u64().and_then(|seconds| seconds.checked_mul(SECOND));
    let nanoseconds = whole.or_else(|| {
        let nanoseconds = (value.as_f64()? * SECOND as f64).round();
        // Below 2^63, so it fits into a u64.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
        (0.0..9.2e18).contains(&nanoseconds).then_some(nanoseconds as u64)
    });
    let good = nanoseconds.filter(|time| (least..=most).contains(time));
    if good.is_none() {
        let seconds = |time: u64| time as f64 / SECOND as f64;
        let (least, most, is) = (seconds(least), seconds(most), shown(value));
        add(problems, path, format!("must be {least} to {most} seconds, is {is}"));
    }
    good
}

fn need_time(
    fields: &mut Fields<'_>,
    name: &'static str,
    bounds: (u64, u64),
    problems: &mut Problems,
) -> Option<u64> {
    let value = fields.need(name, problems)?;
    time(value, &fields.path(name), bounds, problems)
}

fn guard(fields: &mut Fields<'_>, period: Option<u64>, problems: &mut Problems) -> Option<u64> {
    let given = fields.get("guard");
    let guard = match given {
        Some(value) => time(value, "guard", (0, MOST_PERIOD), problems)?,
        None => DEFAULT_GUARD.min(period? / 4),
    };
    // Any start serves to check whether they fit.
    if let Err(error) = Schedule::new(MOST_PERIOD, period?, guard) {
        add(problems, "guard", error.to_string());
    }
    Some(guard)
}

fn marks(
    fields: &mut Fields<'_>,
    program: Option<Program>,
    problems: &mut Problems,
) -> Option<Marks> {
    let dscp = |value: u64| u8::try_from(value).unwrap_or(u8::MAX);
    let starter = fields.need_number("starter_mark", (0, 63), problems).map(dscp);
    let next = fields.need_number("next_mark", (0, 63), problems).map(dscp);
    let mask = fields.number("mark_mask", (1, 63), problems).map_or(63, dscp);
    let delay = fields.number("delay_mark", (1, 63), problems).map_or(0, dscp);
    if delay != 0 && program.is_some_and(|program| program != Program::Combined) {
        add(problems, "delay_mark", "says nothing here: only program 4 marks twice");
    }
    match Marks::new(starter?, next?, mask, delay) {
        Ok(marks) => Some(marks),
        Err(error) => {
            add(problems, "next_mark", error.to_string());
            None
        }
    }
}

/// The fields about hashing, in the source's order.
const HASHING: [&str; 8] = [
    "match_value",
    "hash_length",
    "hash_function",
    "npkts",
    "profile",
    "seed",
    "payload_offset",
    "payload_size",
];

fn sampling(
    fields: &mut Fields<'_>,
    program: Option<Program>,
    problems: &mut Problems,
) -> Option<Sampling> {
    let given: Vec<&str> = HASHING.into_iter().filter(|name| fields.get(name).is_some()).collect();
    let hashes = match program?.hashes() {
        Some(hashes) => hashes,
        None if !given.is_empty() => true,
        None if fields.get("delay_mark").is_some() => false,
        None => {
            let message = "needs match_value, hash_length and hash_function, or delay_mark, or \
                           all of them: else it has no times";
            add(problems, "prog_id", message);
            return None;
        }
    };
    if !hashes {
        for name in given {
            add(problems, name, "says nothing here: only programs 2, 3 and 4 select by hash");
        }
        return None;
    }
    sampling_fields(fields, program == Some(Program::Dynamic), problems)
}

fn sampling_fields(
    fields: &mut Fields<'_>,
    dynamic: bool,
    problems: &mut Problems,
) -> Option<Sampling> {
    let value = fields.need_number("match_value", U32, problems).map(small);
    let length = fields.need_number("hash_length", (0, 32), problems);
    fields.need("hash_function", problems);
    let function =
        fields.word("hash_function", &HashFunction::NAMES, HashFunction::named, problems);
    let npkts = npkts(fields, dynamic, problems);
    let profile = fields.word("profile", &Profile::NAMES, Profile::named, problems);
    let seed = fields.number("seed", U32, problems).map_or(0, small);
    let offset = fields.number("payload_offset", (0, 65_535), problems);
    let most = u64::from(PayloadPart::MOST);
    let size = fields.number("payload_size", (1, most), problems);
    let mut hasher = hasher(function?);
    hasher.profile = profile.unwrap_or_default();
    hasher.seed = seed;
    if let Some(offset) = offset {
        hasher.payload.offset = u16::try_from(offset).unwrap_or(u16::MAX);
    }
    if let Some(size) = size {
        hasher.payload.size = u8::try_from(size).unwrap_or(u8::MAX);
    }
    let length = u8::try_from(length?).unwrap_or(u8::MAX);
    match Selection::new(function?, value?, length) {
        Ok(selection) => Some(Sampling { hasher, selection, npkts }),
        Err(_) => {
            let (most, name) = (function?.bits(), fields.text("hash_function", problems)?);
            add(problems, "hash_length", format!("{name} has {most} bits, so at most {most}"));
            None
        }
    }
}

fn npkts(fields: &mut Fields<'_>, dynamic: bool, problems: &mut Problems) -> Option<u32> {
    if !dynamic {
        if fields.get("npkts").is_some() {
            add(problems, "npkts", "says nothing here: only program 3 has a dynamic length");
        }
        return None;
    }
    fields.need_number("npkts", (2, MOST_SAMPLES), problems).map(small)
}

fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The names of a list of interfaces.
fn netifs(
    fields: &mut Fields<'_>,
    list: &'static str,
    empty: &str,
    problems: &mut Problems,
) -> Vec<String> {
    let Some(value) = fields.get(list) else { return Vec::new() };
    let entries = fields.entries(list, value, problems);
    if value.as_array().is_some_and(Vec::is_empty) {
        add(problems, list, empty);
    }
    let mut names: Vec<String> = Vec::new();
    let mut seen: HashSet<&str> = HashSet::new();
    for (path, entry) in entries {
        let Some(mut fields) = Fields::of(entry, &path, problems) else { continue };
        fields.need("netif", problems);
        let path = fields.path("netif");
        if let Some(name) = fields.text("netif", problems) {
            if !is_interface(name) {
                let message = "must be the name of an interface: 1 to 15 bytes without space, `/`, \
                               `:`, or one of a lab such as h1:eth0";
                add(problems, &path, format!("{message}, is {name:?}"));
            } else if !seen.insert(name) {
                add(problems, &path, format!("{name:?} is named twice"));
            }
            names.push(name.to_owned());
        }
        fields.finish(problems);
    }
    names
}

/// Whether this can be the name of an interface: a kernel's name, or one of a lab, which includes
/// its node or switch, as `h1:eth0` and `s1/h1:eth0`.
fn is_interface(name: &str) -> bool {
    if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return false;
    }
    let of_kernel = |name: &str| !name.is_empty() && name.len() <= LONGEST_NAME;
    match name.rsplit_once(':') {
        Some((place, name)) => {
            !place.is_empty()
                && place.len() <= LONGEST_PLACE
                && of_kernel(name)
                && !name.contains('/')
        }
        None => match name.split_once('/') {
            Some((switch, port)) => {
                !switch.is_empty() && !port.is_empty() && name.len() <= LONGEST_PLACE
            }
            None => of_kernel(name),
        },
    }
}

/// The valid filters, each with its path.
fn filters(fields: &mut Fields<'_>, problems: &mut Problems) -> Vec<(NamedFilter, String)> {
    let Some(value) = fields.need("filters", problems) else { return Vec::new() };
    let entries = fields.entries("filters", value, problems);
    let count = entries.len();
    if value.is_array() && count == 0 {
        add(problems, "filters", "has no filter: nothing would be measured");
    }
    if count > MOST_FILTERS {
        add(problems, "filters", format!("has {count} filters; at most {MOST_FILTERS}"));
        return Vec::new();
    }
    let mut ids: HashMap<u32, String> = HashMap::new();
    let mut seen: HashMap<Filter, String> = HashMap::new();
    let mut filters = Vec::new();
    for (path, entry) in entries {
        let Some((id, filter)) = filter(entry, &path, problems) else { continue };
        if let Some(earlier) = id.and_then(|id| ids.insert(id, path.clone())) {
            add(problems, &format!("{path}.id"), format!("{earlier} has the same id"));
        }
        if let Some(earlier) = seen.insert(filter, path.clone()) {
            let message = format!("is the same as {earlier}, which would have all its packets");
            add(problems, &path, message);
        }
        filters.push((NamedFilter { id: id.unwrap_or(0), filter }, path));
    }
    filters
}

fn filter(value: &Value, path: &str, problems: &mut Problems) -> Option<(Option<u32>, Filter)> {
    let mut fields = Fields::of(value, path, problems)?;
    let before = problems.len();
    let id = fields.need_number("id", IDS, problems).map(small);
    let port = |value: Option<u64>| value.and_then(|port| u16::try_from(port).ok());
    let ports = (0, 65_535);
    let filter = Filter {
        src_ip: prefix(&mut fields, "src_ip", problems),
        dst_ip: prefix(&mut fields, "dst_ip", problems),
        proto: protocol(&mut fields, problems),
        src_port: port(fields.number("src_port", ports, problems)),
        dst_port: port(fields.number("dst_port", ports, problems)),
    };
    if filter.is_of_both_families() {
        let message = "is of another family than src_ip: no packet has both";
        add(problems, &fields.path("dst_ip"), message);
    }
    let has_port = filter.src_port.is_some() || filter.dst_port.is_some();
    if has_port && filter.proto.is_some_and(|proto| !crate::packet::has_ports(proto)) {
        add(problems, &fields.path("proto"), "has no ports, and the filter asks for one");
    }
    fields.finish(problems);
    // An invalid filter is not compared with others, because it is not what was meant.
    (problems.len() == before).then_some((id, filter))
}

fn prefix(fields: &mut Fields<'_>, name: &'static str, problems: &mut Problems) -> Option<IpNet> {
    let text = fields.text(name, problems)?;
    let path = fields.path(name);
    let address = text.parse::<std::net::IpAddr>().map(IpNet::from);
    let Ok(net) = address.or_else(|_| text.parse::<IpNet>()) else {
        add(problems, &path, format!("must be an address or a prefix, is {text:?}"));
        return None;
    };
    if net.trunc() != net {
        let meant = net.trunc();
        add(problems, &path, format!("{text:?} has bits behind its prefix; {meant}?"));
        return None;
    }
    Some(net)
}

fn protocol(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<u8> {
    let value = fields.get("proto")?;
    let path = fields.path("proto");
    let number = match value {
        Value::String(name) => named_protocol(name),
        _ => value.as_u64().and_then(|number| u8::try_from(number).ok()),
    };
    if number.is_none() {
        let is = value.as_str().map_or_else(|| shown(value), |text| format!("{text:?}"));
        let message = "must be tcp, udp, icmp, icmpv6, sctp or a number from 0 to 255";
        add(problems, &path, format!("{message}, is {is}"));
    }
    number
}

fn named_protocol(name: &str) -> Option<u8> {
    match name.to_ascii_lowercase().as_str() {
        "tcp" => Some(6),
        "udp" => Some(17),
        "icmp" => Some(1),
        "icmpv6" => Some(58),
        "sctp" => Some(132),
        number => number.parse().ok(),
    }
}
