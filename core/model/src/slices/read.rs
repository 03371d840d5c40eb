//! Reads slices, key by key; `check` does what needs the whole file.

use std::collections::BTreeMap;

use ipnet::IpNet;
use netloom_config::units;
use netloom_config::{Entry, Kind, Node as Yaml, Path, Place, Report, quote, read};

use super::keys::{PEER, SLICE, SPACE};
use super::{MOST_SLICES, Ports, Slice, SliceQuota, SliceSpace, SpaceEnd, Vlans};
use crate::bounds::LEAST_CPU;
use crate::file::Fields;
use crate::file::values::{At, each_or_only};
use crate::kinds::openflow::DatapathId;
use crate::kinds::openflow::read as openflow;
use crate::naming::node_name_problem;

/// Slices as read, with places for what is checked when the whole file is known.
#[derive(Debug, Default)]
pub(crate) struct RawSlices(pub(super) Vec<RawSlice>);

/// A slice as read.
#[derive(Debug)]
pub(super) struct RawSlice {
    pub(super) slice: Slice,
    pub(super) place: Place,
    /// The nodes of its controllers.
    pub(super) nodes: Vec<At<String>>,
    /// In the order of the file.
    pub(super) parts: Vec<RawPart>,
}

/// A slice's spaces on a switch.
#[derive(Debug)]
pub(super) struct RawPart {
    pub(super) switch: At<String>,
    pub(super) spaces: Vec<RawSpace>,
}

/// A space, and the places of its ports.
#[derive(Debug)]
pub(super) struct RawSpace {
    pub(super) space: SliceSpace,
    pub(super) place: Place,
    pub(super) ports: Vec<Place>,
}

/// Reads the value of `slices`.
pub(crate) fn read(value: &Yaml, path: &Path<'_>, report: &mut Report) -> RawSlices {
    let Some(entries) = entries(value, path, "a map from names of slices to slices", report) else {
        return RawSlices::default();
    };
    let mut slices = RawSlices::default();
    for Entry { key, place, value } in entries {
        if let Some(problem) = node_name_problem(key) {
            report.error(*place, problem);
        }
        if slices.is_full() {
            // Checks of pairs grow with the square, so the rest of the file is not even read.
            report.error(value.place, format!("{path}: more than {MOST_SLICES} slices"));
            break;
        }
        for only in ["for", "if"] {
            if let Some(value) = value.get(only) {
                report.error(value.place, format!("{path}: only lab files have `{only}`"));
            }
        }
        slices.push(key, *place, value, path, report);
    }
    slices
}

impl RawSlices {
    /// Whether there are as many as there may be.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() == MOST_SLICES
    }

    /// Reads a slice of this name.
    pub(crate) fn push(
        &mut self,
        name: &str,
        place: Place,
        body: &Yaml,
        path: &Path<'_>,
        report: &mut Report,
    ) {
        if self.0.iter().any(|other| other.slice.name == name) {
            report.error(place, format!("slice {}: the name is given twice", quote(name)));
            return;
        }
        self.0.extend(slice(name, place, body, path, report));
    }
}

fn entries<'y>(
    value: &'y Yaml,
    path: &Path<'_>,
    what: &str,
    report: &mut Report,
) -> Option<&'y [Entry]> {
    match &value.kind {
        Kind::Null => Some(&[]),
        Kind::Map(entries) => Some(entries),
        _ => {
            read::expected(value, path, what, report);
            None
        }
    }
}

fn slice(
    name: &str,
    place: Place,
    body: &Yaml,
    path: &Path<'_>,
    report: &mut Report,
) -> Option<RawSlice> {
    let path = path.key(name);
    let fields = Fields::open(body, &path, &SLICE, report)?;
    let mut slice = Slice { name: name.to_owned(), ..Slice::default() };
    let mut nodes = vec![];
    if let Some(value) = fields.get("controllers") {
        let at = path.key("controllers");
        (slice.controllers, nodes) = openflow::controllers(value, &at, report);
    }
    match fields.get("tls") {
        Some(value) => slice.tls = openflow::tls(value, &path.key("tls"), report),
        None => openflow::refuse_without_tls(&fields, &path, &slice.controllers, report),
    }
    slice.quota = quota(&fields, &path, report);
    if let Some(value) = fields.get("datapaths") {
        slice.datapaths = datapaths(value, &path.key("datapaths"), report);
    }
    let parts = match fields.get("switches") {
        Some(value) => parts(value, &path.key("switches"), report),
        None => vec![],
    };
    Some(RawSlice { slice, place, nodes, parts })
}

/// Numbers of switches for a slice's controllers.
fn datapaths(value: &Yaml, path: &Path<'_>, report: &mut Report) -> BTreeMap<String, DatapathId> {
    let mut all = BTreeMap::new();
    for entry in entries(value, path, "a map from names of switches", report).unwrap_or_default() {
        let at = path.key(&entry.key);
        match read::scalar(&entry.value).and_then(|text| text.parse::<DatapathId>().ok()) {
            None => {
                let what = "a datapath id, 64 bits and not 0, like 0x1 or 00:00:00:00:00:00:00:01";
                read::expected(&entry.value, &at, what, report);
            }
            Some(id) if all.values().any(|other| *other == id) => {
                report.error(entry.value.place, format!("{at}: {id} is given twice"));
            }
            Some(id) => _ = all.insert(entry.key.clone(), id),
        }
    }
    all
}

fn quota(fields: &Fields<'_>, path: &Path<'_>, report: &mut Report) -> SliceQuota {
    let mut quota = SliceQuota::default();
    let mut count = |key: &'static str| {
        let value = fields.get(key)?;
        let count = read::integer(value, &path.key(key), 1..=1_000_000, report);
        count.and_then(|count| u32::try_from(count).ok())
    };
    quota.rules = count("rules");
    quota.groups = count("groups");
    quota.buckets = count("buckets");
    quota.meters = count("meters");
    if let Some(value) = fields.get("memory") {
        let at = path.key("memory");
        quota.memory = read::bytes(value, &at, report);
        if quota.memory.is_some_and(|bytes| bytes < LEAST_MEMORY) {
            report.error(value.place, format!("{at}: at least {LEAST_MEMORY} bytes"));
        }
    }
    let mut per_second = |key: &'static str| {
        let value = fields.get(key)?;
        let path = path.key(key);
        let rate = read::scalar(value).and_then(units::packet_rate);
        // Zero would stop the slice without a word; leaving the key out means no limit.
        let number = rate.and_then(|rate| u32::try_from(rate).ok()).filter(|rate| *rate > 0);
        if number.is_none() {
            read::expected(value, &path, "a number a second like 200/s or 1k/s", report);
        }
        number
    };
    quota.packet_ins = per_second("packet-ins");
    quota.messages = per_second("messages");
    if let Some(value) = fields.get("rate") {
        // A meter of OpenFlow counts thousands of bits, in 32 bits.
        const MOST: u64 = u32::MAX as u64 * 1000;
        quota.rate = read::scalar(value).and_then(units::rate);
        if quota.rate.is_none_or(|rate| !(1000..=MOST).contains(&rate)) {
            let what = "a rate from 1kbit to 4294967295kbit, like 100mbit";
            read::expected(value, &path.key("rate"), what, report);
        }
    }
    if let Some(value) = fields.get("cpu") {
        let at = path.key("cpu");
        quota.cpu_milli = read::cpu_milli(value, &at, report);
        if quota.cpu_milli.is_some_and(|cpu| cpu < LEAST_CPU) {
            report.error(value.place, format!("{at}: at least 1% of a CPU"));
        }
    }
    quota
}

/// Least memory of a slice: a rule of many entries takes some of it.
const LEAST_MEMORY: u64 = 64 * 1024;

fn parts(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Vec<RawPart> {
    let what = "a map from names of switches to spaces";
    let Some(entries) = entries(value, path, what, report) else { return vec![] };
    if entries.is_empty() {
        report.error(value.place, format!("{path}: no switch is named"));
    }
    let part = |entry: &Entry| {
        let path = path.key(&entry.key);
        let mut spaces = vec![];
        each_or_only(&entry.value, &path, report, |item, path, report| {
            spaces.extend(space(item, path, report));
        });
        RawPart { switch: At { value: entry.key.clone(), place: entry.place }, spaces }
    };
    entries.iter().map(part).collect()
}

fn space(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<RawSpace> {
    let fields = Fields::open(value, path, &SPACE, report)?;
    let mut space = SliceSpace { end: end(&fields, path, report), ..SliceSpace::default() };
    let mut places = vec![];
    if let Some(value) = fields.get("ports") {
        let mut ports = vec![];
        each_or_only(value, &path.key("ports"), report, |item, path, report| {
            if let Some(text) = read::text(item, path, report) {
                ports.push(text);
                places.push(item.place);
            }
        });
        space.ports = Some(ports);
    }
    if let Some(value) = fields.get("vlan") {
        each_or_only(value, &path.key("vlan"), report, |item, path, report| {
            space.vlans.extend(vlans(item, path, report));
        });
    }
    if let Some(value) = fields.get("ethertype") {
        space.ethertype = ethertype(value, &path.key("ethertype"), report);
    }
    if let Some(value) = fields.get("protocol") {
        space.protocol = protocol(value, &path.key("protocol"), report);
    }
    if let Some(value) = fields.get("peer") {
        let path = path.key("peer");
        if let Some(fields) = Fields::open(value, &path, &PEER, report) {
            space.peer = end(&fields, &path, report);
        }
    }
    if let Some(value) = fields.get("within") {
        within(value, &path.key("within"), &mut space, report);
    }
    Some(RawSpace { space, place: value.place, ports: places })
}

fn within(value: &Yaml, path: &Path<'_>, space: &mut SliceSpace, report: &mut Report) {
    if !space.end.prefixes.is_empty() || !space.peer.prefixes.is_empty() {
        let help = "give `prefix` here and in `peer`, or `within` alone".to_owned();
        let message = format!("{path}: the prefixes of its ends are given already");
        return report.error_with(value.place, message, Some(help));
    }
    let prefixes = prefixes(value, path, report);
    (space.end.prefixes, space.peer.prefixes) = (prefixes.clone(), prefixes);
}

fn end(fields: &Fields<'_>, path: &Path<'_>, report: &mut Report) -> SpaceEnd {
    let mut end = SpaceEnd::default();
    if let Some(value) = fields.get("mac") {
        each_or_only(value, &path.key("mac"), report, |item, path, report| {
            match read::scalar(item).and_then(units::mac) {
                Some(mac) => end.macs.push(mac),
                None => {
                    let what = "a MAC address like 02:00:00:00:00:01";
                    read::expected(item, path, what, report);
                }
            }
        });
    }
    if let Some(value) = fields.get("prefix") {
        end.prefixes = prefixes(value, &path.key("prefix"), report);
    }
    for (key, list) in [("tcp", &mut end.tcp), ("udp", &mut end.udp)] {
        let Some(value) = fields.get(key) else { continue };
        each_or_only(value, &path.key(key), report, |item, path, report| {
            match read::scalar(item).and_then(|text| range(text, u16::MAX)) {
                Some((from, to)) => list.push(Ports { from, to }),
                None => {
                    let what = "a port like 80 or a range like 8000..8999";
                    read::expected(item, path, what, report);
                }
            }
        });
    }
    end
}

/// Prefixes, or single addresses.
fn prefixes(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Vec<IpNet> {
    let mut found = vec![];
    each_or_only(value, path, report, |item, path, report| {
        let address = read::scalar(item).and_then(|text| text.parse::<std::net::IpAddr>().ok());
        match address {
            Some(address) => found.push(IpNet::from(address)),
            None => found.extend(read::prefix(item, path, report)),
        }
    });
    found
}

/// `A` or `A..B`, with B at most `most`.
fn range(text: &str, most: u16) -> Option<(u16, u16)> {
    let number = |text: &str| {
        // `parse` takes a sign as well, `+80`.
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|number| plain && *number <= most)
    };
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let range = (number(from.trim())?, number(to.trim())?);
    (range.0 <= range.1).then_some(range)
}

fn vlans(item: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Vlans> {
    let text = read::scalar(item).unwrap_or_default();
    if text == "untagged" {
        return Some(Vlans::Untagged);
    }
    // 4095 is nobody's VLAN (IEEE 802.1Q-2022, 9.6), and a plan with it is refused.
    let Some((from, to)) = range(text, 4094) else {
        let what = "a VLAN like 7, a range like 10..20, or untagged";
        read::expected(item, path, what, report);
        return None;
    };
    Some(Vlans::Range { from, to })
}

fn ethertype(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<u16> {
    let text = read::scalar(value).unwrap_or_default();
    let number = match text {
        "ipv4" => Some(0x0800),
        "arp" => Some(0x0806),
        "ipv6" => Some(0x86dd),
        "lldp" => Some(0x88cc),
        _ => match text.strip_prefix("0x") {
            Some(digits) => u16::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        },
    };
    // Below are lengths.
    let number = number.filter(|number| *number >= 0x600);
    if number.is_none() {
        let what = "an ethertype: ipv4, ipv6, arp, lldp, or its number from 0x600";
        read::expected(value, path, what, report);
    }
    number
}

fn protocol(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<u8> {
    let text = read::scalar(value).unwrap_or_default();
    let number = match text {
        "icmp" => Some(1),
        "tcp" => Some(6),
        "udp" => Some(17),
        "icmpv6" => Some(58),
        "sctp" => Some(132),
        _ => text.parse().ok(),
    };
    if number.is_none() {
        let what = "a protocol: tcp, udp, icmp, icmpv6, sctp, or its number";
        read::expected(value, path, what, report);
    }
    number
}

impl RawSlices {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The slices as read, with the names of ports as in the file.
    pub(super) fn slices(&self) -> Vec<Slice> {
        let slice = |raw: &RawSlice| {
            let mut slice = raw.slice.clone();
            let spaces = |part: &RawPart| part.spaces.iter().map(|s| s.space.clone()).collect();
            let parts = raw.parts.iter().map(|part| (part.switch.value.clone(), spaces(part)));
            slice.switches = parts.collect::<BTreeMap<_, _>>();
            slice
        };
        self.0.iter().map(slice).collect()
    }

    /// What a name that nothing has is like, for messages.
    pub(super) fn no_switch(at: &At<String>, known: &[&str], report: &mut Report) {
        let help = report.suggest(&at.value, known.iter().copied());
        report.error_with(at.place, format!("slices: no switch {} here", quote(&at.value)), help);
    }
}
