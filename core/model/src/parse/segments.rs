//! Checks addresses and prefixes given by hand, segment by segment.
//!
//! A segment is what a broadcast reaches: connected switches and all links
//! that end in them, or a link without a switch. A segment has one prefix of each family; its
//! addresses are distinct and in the prefix; prefixes of different segments do not overlap.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use netloom_bridge::Mac;
use netloom_config::{Place, Repetition, Report, quote};

use super::raw::{EndAddresses, EndsAddresses, Parts, RawEnd, RawLink, Resolved};
use super::sets::Sets;
use crate::bounds::mtu_problem;
use crate::file::values::{At, is_ipv4};
use crate::lab::End;

/// The segment of each link: equal numbers for links of one segment.
pub(crate) fn segment_of(parts: &Parts, links: &[Resolved<'_>]) -> Vec<usize> {
    let mut sets = Sets::new(parts.switches.len());
    for link in links {
        if let [End::Switch { switch: a }, End::Switch { switch: b }] = link.ends {
            sets.join(a, b);
        }
    }
    let mut segments = Vec::with_capacity(links.len());
    for (index, link) in links.iter().enumerate() {
        let switch = link.ends.iter().find_map(|end| match end {
            End::Switch { switch } => Some(sets.find(*switch)),
            _ => None,
        });
        // Numbers above those of all switches, so that the two kinds of segments never meet.
        segments.push(switch.unwrap_or(parts.switches.len() + index));
    }
    segments
}

/// Checks all prefixes and addresses; gives each link's addresses by end.
pub(crate) fn check(
    parts: &Parts,
    links: &[Resolved<'_>],
    segment_of: &[usize],
    report: &mut Report,
) -> Vec<EndsAddresses> {
    let mut checker = Checker::default();
    // All subnets before any address: an address that comes first in the file must not set the
    // prefix.
    checker.switch_subnets(parts, links, segment_of, report);
    for (link, &segment) in links.iter().zip(segment_of) {
        report.set_repetition(link.raw.repetition.clone());
        checker.link_subnets(link, segment, report);
    }
    let mut all = Vec::with_capacity(links.len());
    for (link, &segment) in links.iter().zip(segment_of) {
        report.set_repetition(link.raw.repetition.clone());
        let mut given = checker.link_addresses(link, segment, report);
        checker.link_numbers(link, parts, &mut given, report);
        all.push(given);
    }
    report.set_repetition(None);
    checker.overlaps(report);
    checker.capacity(links, segment_of, &all, report);
    all
}

/// A segment's prefix of one family.
struct Prefix {
    net: IpNet,
    place: Place,
    /// Whether it was given as a subnet; else it is derived from the first address.
    given: bool,
    repetition: Option<Arc<Repetition>>,
}

#[derive(Default)]
struct Checker {
    /// By segment, and whether the family is IPv4.
    prefixes: HashMap<(usize, bool), Prefix>,
    /// The line of each address.
    addresses: HashMap<(usize, IpAddr), u32>,
    /// The line of each hardware address.
    macs: HashMap<Mac, u32>,
    /// The line of each port's number, by switch.
    numbers: HashMap<(usize, u32), u32>,
}

impl Checker {
    fn switch_subnets(
        &mut self,
        parts: &Parts,
        links: &[Resolved<'_>],
        segment_of: &[usize],
        report: &mut Report,
    ) {
        let mut segments: HashMap<usize, usize> = HashMap::new();
        for (link, &segment) in links.iter().zip(segment_of) {
            for end in &link.ends {
                if let End::Switch { switch } = end {
                    segments.insert(*switch, segment);
                }
            }
        }
        for (index, origin) in parts.switches.iter().enumerate() {
            // A switch without links is a segment too; its number counts down from the top.
            let segment = segments.get(&index).copied().unwrap_or(usize::MAX - index);
            report.set_repetition(origin.repetition.clone());
            for subnet in &origin.value.subnets {
                self.give(segment, subnet, origin.repetition.as_ref(), report);
            }
        }
    }

    fn link_subnets(&mut self, link: &Resolved<'_>, segment: usize, report: &mut Report) {
        let raw = &link.raw.value;
        for subnet in &raw.subnets {
            if link.ends.iter().any(|end| matches!(end, End::Switch { .. })) {
                let message =
                    format!("link {}: give the subnet of a switch in the switch", raw.shown());
                report.error(subnet.place, message);
            } else {
                self.give(segment, subnet, link.raw.repetition.as_ref(), report);
            }
        }
    }

    fn give(
        &mut self,
        segment: usize,
        subnet: &At<IpNet>,
        repetition: Option<&Arc<Repetition>>,
        report: &mut Report,
    ) {
        let key = (segment, is_ipv4(&subnet.value));
        match self.prefixes.get(&key) {
            Some(first) if first.net != subnet.value => {
                let message = format!(
                    "subnet {} differs from {} on line {}, which is of the same segment",
                    subnet.value, first.net, first.place.line
                );
                report.error(subnet.place, message);
            }
            Some(_) => {}
            None => {
                let repetition = repetition.cloned();
                let prefix =
                    Prefix { net: subnet.value, place: subnet.place, given: true, repetition };
                self.prefixes.insert(key, prefix);
            }
        }
    }

    fn link_addresses(
        &mut self,
        link: &Resolved<'_>,
        segment: usize,
        report: &mut Report,
    ) -> EndsAddresses {
        let raw = &link.raw.value;
        let mut given = EndsAddresses::default();
        if let Some(place) = raw.bare {
            given.bare = link.ends.each_ref().map(|end| matches!(end, End::Node { .. }));
            if given.bare == [false; 2] {
                let message = format!("addresses: no end of link {} is a node's", raw.shown());
                report.error(place, message);
            }
        }
        for entry in &raw.addresses {
            let Some(end) = end_index(raw, entry, &link.ends, report) else { continue };
            let again = |report: &mut Report| {
                let shown = quote(&entry.end.value);
                report.error(
                    entry.end.place,
                    format!("addresses: {shown} names the same end as an earlier key"),
                );
            };
            if given.bare[end] || entry.bare && !given.addresses[end].is_empty() {
                again(report);
                continue;
            }
            given.bare[end] = entry.bare;
            for address in &entry.addresses {
                self.address(address, segment, link, report);
                if given.addresses[end].iter().any(|a| is_ipv4(a) == is_ipv4(&address.value)) {
                    again(report);
                    break;
                }
                given.addresses[end].push(address.value);
            }
        }
        self.link_macs(link, &mut given, report);
        given
    }

    fn link_numbers(
        &mut self,
        link: &Resolved<'_>,
        parts: &Parts,
        given: &mut EndsAddresses,
        report: &mut Report,
    ) {
        let raw = &link.raw.value;
        for (end, number) in &raw.numbers {
            let Some(side) = side_of(raw, end, "port", report) else { continue };
            let shown = quote(&end.value);
            let at = match link.ends[side] {
                End::Switch { switch } => Some(switch),
                _ => None,
            };
            let Some(at) = at.filter(|at| parts.switches[*at].value.kind.numbers_ports()) else {
                let help = "a port of a switch in shared memory has its number in the switch: \
                            ports: {NODE: {number: 5}}";
                let message = format!("port: {shown}: only a switch of kind openflow takes it");
                report.error_with(end.place, message, Some(help.to_owned()));
                continue;
            };
            if given.numbers[side].is_some() {
                let message = format!("port: {shown} stands for the same end as a key before");
                report.error(end.place, message);
            } else if let Some(first) = self.numbers.insert((at, number.value), number.place.line) {
                let message = format!("port: {shown} has a port {} on line {first}", number.value);
                report.error(number.place, message);
            }
            given.numbers[side] = Some(number.value);
        }
    }

    fn link_macs(&mut self, link: &Resolved<'_>, given: &mut EndsAddresses, report: &mut Report) {
        let raw = &link.raw.value;
        for (end, mac) in &raw.macs {
            let Some(side) = side_of(raw, end, "mac", report) else { continue };
            let shown = quote(&end.value);
            if !matches!(link.ends[side], End::Node { .. }) {
                let message = format!("mac: {shown}: only a node's end has an address of its own");
                report.error(end.place, message);
            } else if given.macs[side].is_some() {
                let message = format!("mac: {shown} names the same end as an earlier key");
                report.error(end.place, message);
            } else if let Some(first) = self.macs.insert(mac.value, mac.place.line) {
                let message = format!("mac: {} is that of another end on line {first}", mac.value);
                report.error(mac.place, message);
            }
            given.macs[side] = Some(mac.value.0);
        }
    }

    fn address(
        &mut self,
        address: &At<IpNet>,
        segment: usize,
        link: &Resolved<'_>,
        report: &mut Report,
    ) {
        let net = address.value.trunc();
        let key = (segment, is_ipv4(&net));
        let prefix = self.prefixes.entry(key).or_insert_with(|| Prefix {
            net,
            place: address.place,
            given: false,
            repetition: link.raw.repetition.clone(),
        });
        if prefix.net != net {
            let (shown, line) = (prefix.net, prefix.place.line);
            let message = match prefix.given {
                true => format!(
                    "address {} is not of the segment's subnet {shown} on line {line}",
                    address.value
                ),
                false => format!(
                    "address {} is in another prefix than {shown}, which the address on line {line} gives the segment",
                    address.value
                ),
            };
            return report.error(address.place, message);
        }
        let line = address.place.line;
        if let Some(first) = self.addresses.insert((segment, address.value.addr()), line) {
            report.error(
                address.place,
                format!("address {} is taken on line {first}", address.value.addr()),
            );
        }
    }

    /// Prefixes in order of their first address: one that starts before the end of an earlier one
    /// is inside it, because prefixes never overlap partially.
    fn overlaps(&self, report: &mut Report) {
        let mut sorted: Vec<_> = self.prefixes.iter().collect();
        sorted.sort_by_key(|((segment, _), p)| {
            (p.net.network(), p.net.prefix_len(), p.place, *segment)
        });
        let mut open: Vec<&Prefix> = Vec::new();
        for (_, prefix) in sorted {
            open.retain(|outer| outer.net.contains(&prefix.net));
            if let Some(outer) = open.first() {
                // The message stands at the later line, where the reader is writing.
                let (late, early) =
                    if prefix.place >= outer.place { (prefix, *outer) } else { (*outer, prefix) };
                report.set_repetition(late.repetition.clone());
                let message = format!(
                    "{} overlaps {} of another segment on line {}",
                    late.net, early.net, early.place.line
                );
                report.error(late.place, message);
            }
            if open.is_empty() {
                open.push(prefix);
            }
        }
        report.set_repetition(None);
    }

    /// Every interface on a segment needs an address of its own, except those that shall have none.
    fn capacity(
        &self,
        links: &[Resolved<'_>],
        segment_of: &[usize],
        given: &[EndsAddresses],
        report: &mut Report,
    ) {
        let mut needed: HashMap<usize, u64> = HashMap::new();
        for ((link, given), &segment) in links.iter().zip(given).zip(segment_of) {
            let ends = link.ends.iter().zip(given.bare).filter(|(_, bare)| !bare);
            let holders = ends.filter(|(e, _)| matches!(e, End::Node { .. } | End::Internet));
            *needed.entry(segment).or_default() += holders.count() as u64;
        }
        let mut sorted: Vec<_> = self.prefixes.iter().collect();
        sorted.sort_by_key(|(_, p)| p.place);
        for ((segment, _), prefix) in sorted {
            let count = needed.get(segment).copied().unwrap_or_default();
            let room = room(&prefix.net);
            if count > room {
                report.set_repetition(prefix.repetition.clone());
                let message = format!(
                    "{} has room for {room} addresses, the segment needs {count}",
                    prefix.net
                );
                report.error(prefix.place, message);
            }
        }
        report.set_repetition(None);
    }
}

/// How many interfaces can have an address in a prefix, 2^62 at most.
fn room(net: &IpNet) -> u64 {
    let host_bits = net.max_prefix_len() - net.prefix_len();
    let all = 1_u64 << host_bits.min(62);
    match net {
        _ if host_bits <= 1 => all,
        IpNet::V4(_) => all - 2,
        IpNet::V6(_) => all - 1,
    }
}

/// Which end of the link a key of `addresses` names.
fn end_index(
    link: &RawLink,
    entry: &EndAddresses,
    ends: &[End; 2],
    report: &mut Report,
) -> Option<usize> {
    let key = entry.end.value.as_str();
    let index = side_of(link, &entry.end, "addresses", report)?;
    let problem = match ends[index] {
        End::Switch { .. } => "a switch has no address",
        End::Host { .. } => "a bridged interface of the host gets no address",
        End::Nowhere => "nowhere has no address",
        End::Internet if entry.bare => "the gateway to the host needs an address",
        End::Node { .. } | End::Internet => return Some(index),
    };
    report.error(entry.end.place, format!("addresses: {}: {problem}", quote(key)));
    None
}

/// Which end of a link the key of a map by end stands for; `map` is its name.
fn side_of(link: &RawLink, end: &At<String>, map: &str, report: &mut Report) -> Option<usize> {
    let key = end.value.as_str();
    let matches = |end: &At<RawEnd>| match &end.value {
        RawEnd::Named { name, .. } => name == key || end.value.to_string() == key,
        door => door.to_string() == key,
    };
    let Some(index) = link.ends.iter().position(matches) else {
        let shown = [link.ends[0].value.to_string(), link.ends[1].value.to_string()];
        let help = report.suggest(key, shown.iter().map(String::as_str));
        report.error_with(
            end.place,
            format!("{map}: {} is not an end of link {}", quote(key), link.shown()),
            help,
        );
        return None;
    };
    Some(index)
}

/// IPv6 needs an MTU of 1280.
pub(crate) fn check_mtus(parts: &Parts, lab_has_ipv6: bool, report: &mut Report) {
    let mut check =
        |mtu: Option<u32>, place: Place, has_ipv6: bool, repetition: &Option<Arc<Repetition>>| {
            let Some(wrong) = mtu.and_then(|mtu| mtu_problem(mtu, has_ipv6)) else { return };
            report.set_repetition(repetition.clone());
            report.error_with(place, wrong.problem, wrong.help);
        };
    for origin in &parts.switches {
        let body = &origin.value;
        let has_ipv6 = lab_has_ipv6 || body.subnets.iter().any(|s| !is_ipv4(&s.value));
        check(body.switch.mtu, body.mtu.unwrap_or(origin.place), has_ipv6, &origin.repetition);
    }
    for origin in &parts.links {
        let raw = &origin.value;
        let addresses = raw.addresses.iter().flat_map(|e| &e.addresses);
        let has_ipv6 =
            lab_has_ipv6 || raw.subnets.iter().chain(addresses).any(|a| !is_ipv4(&a.value));
        let place = raw.mtu.as_ref().map_or(origin.place, |m| m.place);
        check(raw.mtu.as_ref().map(|m| m.value), place, has_ipv6, &origin.repetition);
    }
    report.set_repetition(None);
}
