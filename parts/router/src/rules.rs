//! What a switch does for a router, in OpenFlow.
//!
//! Table 0 admits: what the router sends goes out by the port of its interface; what comes for the interface's hardware
//! address, without a tag, is looked up; all else goes in to the router. Tables 1 (IPv4) and 2 (IPv6) find the
//! destination, the longest prefix by priority, and write the number of its next hops into the metadata. Table 3 has
//! the next hops. What a table leaves open is the action set that table 0 wrote: to the router.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::multipart::FlowStats;
use netloom_openflow::{
    Action, Bucket, Detour, Field, FlowMod, GroupMod, Instruction, Match, Message, Oxm, PortNumber,
};

use crate::Interface;
use crate::fib::{Destination, Hop};

/// Tables of destinations of IPv4 and IPv6, and that of next hops.
pub const V4: u8 = 1;
/// See [`V4`].
pub const V6: u8 = 2;
/// See [`V4`].
pub const HOPS: u8 = 3;

const IPV4: u128 = 0x0800;
const IPV6: u128 = 0x86dd;

/// Priorities. In the tables of destinations, a prefix has its length above the base.
const SPECIAL: u16 = 60_000;
const LOCAL: u16 = 40_000;
const ROUTES: u16 = 10_000;
const ALL: u16 = 10;
const SOME: u16 = 20;
const FEW: u16 = 30;

/// The bit of hop-by-hop options in the field of IPv6 extension headers.
const HOP_BY_HOP: u128 = 1 << 6;

/// What may be no destination or no source of what is forwarded; the router's kernel decides what is done with it.
const SPECIAL_TO: [&str; 5] = ["0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3", "fe80::/10", "ff00::/8"];
const SPECIAL_FROM: [&str; 7] =
    ["0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3", "fe80::/10", "ff00::/8", "::/128", "::1/128"];

/// A next hop with the hardware addresses that packets get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The egress interface.
    pub by: Interface,
    /// The next hop's hardware address.
    pub to: [u8; 6],
    /// Its share.
    pub weight: u16,
}

/// The hops as the switch needs them; `None` while one of them is not known.
pub fn resolve(
    hops: &[Hop],
    interfaces: &[Interface],
    mac: impl Fn(&Hop) -> Option<[u8; 6]>,
) -> Option<Vec<Resolved>> {
    let one = |hop: &Hop| {
        let by = *interfaces.iter().find(|interface| interface.index == hop.link)?;
        Some(Resolved { by, to: mac(hop)?, weight: hop.weight })
    };
    hops.iter().map(one).collect()
}

fn number(mac: [u8; 6]) -> u128 {
    mac.iter().fold(0, |all, byte| all << 8 | u128::from(*byte))
}

fn flow(table: u8, priority: u16, matching: Vec<Oxm>, instructions: Vec<Instruction>) -> Message {
    let new = FlowMod::new(FlowCommand::Add, Match::Oxm(matching));
    Message::FlowMod(FlowMod { table, priority, instructions, ..new })
}

fn in_port(port: u32) -> Oxm {
    Oxm::exact(Field::InPort, port.into())
}

fn out(port: u32) -> Action {
    Action::output(PortNumber(port))
}

/// Table 0, and what holds in the tables of destinations whatever routes there are.
pub fn admission(interfaces: &[Interface]) -> Vec<Message> {
    let mut all = vec![];
    for Interface { mac, outside, inside, .. } in interfaces {
        let apply = |port| vec![Instruction::ApplyActions(vec![out(port)])];
        all.push(flow(0, ALL, vec![in_port(*inside)], apply(*outside)));
        all.push(flow(0, ALL, vec![in_port(*outside)], apply(*inside)));
        for (ethertype, table) in [(IPV4, V4), (IPV6, V6)] {
            let matching = vec![
                in_port(*outside),
                Oxm::exact(Field::EthDst, number(*mac)),
                Oxm::exact(Field::EthType, ethertype),
                // OFPVID_NONE: no tag.
                Oxm::exact(Field::VlanVid, 0),
            ];
            let detour = Detour { mtu: 0, to: PortNumber(*inside) };
            let instructions = vec![
                Instruction::ApplyActions(vec![detour.action()]),
                Instruction::WriteActions(vec![out(*inside)]),
                Instruction::GotoTable(table),
            ];
            all.push(flow(0, SOME, matching, instructions));
        }
    }
    for (texts, is_source) in [(&SPECIAL_TO[..], false), (&SPECIAL_FROM[..], true)] {
        let prefixes = texts.iter().filter_map(|text| text.parse().ok());
        all.extend(prefixes.map(|to| {
            let (table, matching) = match_prefix(to, is_source);
            flow(table, SPECIAL, matching, vec![])
        }));
    }
    // Hop-by-hop options are for routers on the way (RFC 8200, 4.3): the kernel looks at them.
    let options = vec![
        Oxm::exact(Field::EthType, IPV6),
        Oxm::masked(Field::Ipv6Exthdr, HOP_BY_HOP, HOP_BY_HOP),
    ];
    all.push(flow(V6, SPECIAL + 1, options, vec![]));
    // Nothing more to do: the action set of table 0 leads to the router.
    all.extend([V4, V6, HOPS].map(|table| flow(table, 0, vec![], vec![])));
    all
}

/// The table of a prefix, and what matches it.
fn match_prefix(to: IpNet, is_source: bool) -> (u8, Vec<Oxm>) {
    let (table, ethertype, field) = match (to, is_source) {
        (IpNet::V4(_), false) => (V4, IPV4, Field::Ipv4Dst),
        (IpNet::V4(_), true) => (V4, IPV4, Field::Ipv4Src),
        (IpNet::V6(_), false) => (V6, IPV6, Field::Ipv6Dst),
        (IpNet::V6(_), true) => (V6, IPV6, Field::Ipv6Src),
    };
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    let mut matching = vec![Oxm::exact(Field::EthType, ethertype)];
    if to.prefix_len() == to.max_prefix_len() {
        matching.push(Oxm::exact(field, bits(to.network())));
    } else if to.prefix_len() > 0 {
        matching.push(Oxm::masked(field, bits(to.network()), bits(to.netmask())));
    }
    (table, matching)
}

fn at(destination: Destination) -> (u8, u16, Vec<Oxm>) {
    let (table, matching) = match_prefix(destination.to, false);
    let base = if destination.local { LOCAL } else { ROUTES };
    (table, base + u16::from(destination.to.prefix_len()), matching)
}

/// The destination that an entry of this table is of.
pub fn destination_of(table: u8, priority: u16, matching: &Match) -> Option<Destination> {
    let Match::Oxm(fields) = matching else { return None };
    // A prefix has 128 bits at most, so that the two ranges do not meet.
    let local = (LOCAL..LOCAL + 200).contains(&priority);
    let length = priority.checked_sub(if local { LOCAL } else { ROUTES })?;
    let length = u8::try_from(length).ok().filter(|length| *length <= 128)?;
    let field = if table == V4 { Field::Ipv4Dst } else { Field::Ipv6Dst };
    let bits = fields.iter().find(|oxm| oxm.field == field).map_or(0, |oxm| oxm.value);
    let address = match table {
        V4 => IpAddr::from(u32::try_from(bits).ok()?.to_be_bytes()),
        _ => IpAddr::from(bits.to_be_bytes()),
    };
    Some(Destination { local, to: IpNet::new(address, length).ok()?.trunc() })
}

/// A destination by next hops of a number; `None`: to the router.
pub fn install(destination: Destination, hops: Option<u64>) -> Message {
    let (table, priority, matching) = at(destination);
    let instructions = match hops {
        None => vec![],
        Some(value) => {
            vec![Instruction::WriteMetadata { value, mask: u64::MAX }, Instruction::GotoTable(HOPS)]
        }
    };
    flow(table, priority, matching, instructions)
}

/// A destination goes; a shorter prefix decides.
pub fn remove(destination: Destination) -> Message {
    let (table, priority, matching) = at(destination);
    let new = FlowMod::new(FlowCommand::DeleteStrict, Match::Oxm(matching));
    Message::FlowMod(FlowMod { table, priority, ..new })
}

/// What makes packets that one hop gets.
fn send(hop: &Resolved) -> Vec<Action> {
    vec![
        Action::DecNwTtl,
        Action::SetField(Oxm::exact(Field::EthSrc, number(hop.by.mac))),
        Action::SetField(Oxm::exact(Field::EthDst, number(hop.to))),
        out(hop.by.outside),
    ]
}

/// Next hops of a number; `None` while one is not known: packets go to the router, which finds it.
pub fn hops(
    number: u64,
    hops: Option<&[Resolved]>,
    interfaces: &[Interface],
    is_new: bool,
) -> Vec<Message> {
    let metadata = Oxm::exact(Field::Metadata, number.into());
    let Some(hops) = hops.filter(|hops| !hops.is_empty()) else {
        // Entries for single ports would be found before it.
        let mut all = if is_new { vec![] } else { vec![without(number)] };
        all.push(flow(HOPS, ALL, vec![metadata], vec![]));
        return all;
    };
    let mut all = vec![];
    let actions = match hops {
        [hop] => send(hop),
        hops => {
            let group = group_of(number);
            let buckets = hops.iter().map(|hop| Bucket::new(hop.weight, send(hop))).collect();
            // Deleted first, for it may be there from before.
            let kind = GroupType::Select;
            let command = if is_new { GroupCommand::Add } else { GroupCommand::Modify };
            if is_new {
                all.push(without_group(number));
            }
            all.push(Message::GroupMod(GroupMod { command, kind, group, buckets }));
            vec![Action::Group(group)]
        }
    };
    let write = || Instruction::WriteActions(actions.clone());
    all.push(flow(HOPS, ALL, vec![metadata], vec![write()]));
    // Any hop may be a packet's: only links whose packets
    // all of them take need no look at the length.
    let mtu = hops.iter().map(|hop| hop.by.mtu).min().unwrap_or(0);
    for interface in interfaces.iter().filter(|interface| interface.mtu > mtu) {
        let detour = Detour {
            mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
            to: PortNumber(interface.inside),
        };
        let instructions = vec![Instruction::ApplyActions(vec![detour.action()]), write()];
        all.push(flow(HOPS, SOME, vec![metadata, in_port(interface.outside)], instructions));
    }
    // Back out where they came from: the router forwards these, and tells the sender of the better way.
    let ports: BTreeSet<u32> = hops.iter().map(|hop| hop.by.outside).collect();
    let back = |port| flow(HOPS, FEW, vec![metadata, in_port(port)], vec![]);
    all.extend(ports.into_iter().map(back));
    all
}

/// An entry that the switch has, as a change that would add it.
pub fn entry_of(entry: FlowStats) -> Message {
    let new = FlowMod::new(FlowCommand::Add, entry.matching);
    let (table, priority, instructions) = (entry.table, entry.priority, entry.instructions);
    plain(&Message::FlowMod(FlowMod { table, priority, instructions, ..new }))
}

/// A group that the switch has, as a change that would add it.
pub fn group_entry(kind: GroupType, group: u32, buckets: Vec<Bucket>) -> Message {
    Message::GroupMod(GroupMod { command: GroupCommand::Add, kind, group, buckets })
}

/// A change in a form in which equal ones can be told: the fields of a match in their order.
pub fn plain(message: &Message) -> Message {
    let mut message = message.clone();
    if let Message::FlowMod(FlowMod { matching: Match::Oxm(fields), .. }) = &mut message {
        fields.sort_by_key(|oxm| oxm.field.number());
    }
    message
}

/// Whether a change only removes.
pub fn is_removal(message: &Message) -> bool {
    match message {
        Message::FlowMod(change) => change.command != FlowCommand::Add,
        Message::GroupMod(change) => change.command == GroupCommand::Delete,
        _ => false,
    }
}

/// The group of next hops of a number.
fn group_of(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// Next hops of a number go; nothing may lead to them.
pub fn without(number: u64) -> Message {
    let metadata = vec![Oxm::exact(Field::Metadata, number.into())];
    let new = FlowMod::new(FlowCommand::Delete, Match::Oxm(metadata));
    Message::FlowMod(FlowMod { table: HOPS, ..new })
}

/// Its group goes.
pub fn without_group(number: u64) -> Message {
    let (command, kind) = (GroupCommand::Delete, GroupType::Select);
    Message::GroupMod(GroupMod { command, kind, group: group_of(number), buckets: vec![] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_found_by_its_entry() {
        for (local, to) in [
            (false, "0.0.0.0/0"),
            (true, "10.0.0.1/32"),
            (false, "fd00:1::/64"),
            (false, "::/0"),
            (true, "fd00::1/128"),
        ] {
            let destination = Destination { local, to: to.parse().unwrap() };
            let Message::FlowMod(entry) = install(destination, Some(3)) else { panic!() };
            let found = destination_of(entry.table, entry.priority, &entry.matching);
            assert_eq!(found, Some(destination));
        }
    }

    #[test]
    fn packets_go_back_by_the_router() {
        let interface = |index: u32, mtu| Interface {
            index,
            mac: [2; 6],
            mtu,
            outside: 2 * index,
            inside: 2 * index + 1,
        };
        let all = [interface(2, 1500), interface(3, 1400)];
        let hop = Resolved { by: all[1], to: [4; 6], weight: 1 };
        let entries = hops(7, Some(&[hop]), &all, true);
        let priorities: Vec<u16> = entries
            .iter()
            .map(|entry| match entry {
                Message::FlowMod(entry) => entry.priority,
                other => panic!("{other:?}"),
            })
            .collect();
        // All; from where packets may be too long; back.
        assert_eq!(priorities, [ALL, SOME, FEW]);
    }
}
