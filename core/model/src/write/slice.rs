//! Slices of OpenFlow switches.

use netloom_bridge::Mac;

use super::node::size;
use super::switch::{controllers, datapath, prefixes, tls};
use super::tree::{Body, Yaml};
use crate::impairment::text::bits_per_second;
use crate::setting::cpu_text;
use crate::slices::keys::{SLICE, SPACE};
use crate::slices::{Ports, Slice, SliceSpace, SpaceEnd, Vlans};

pub(super) fn slice(slice: &Slice) -> Yaml {
    let (mut body, quota) = (Body::default(), &slice.quota);
    body.some("controllers", controllers(&slice.controllers));
    let switches = slice.switches.iter().map(|(name, spaces)| {
        (name.clone(), Yaml::one_or_list(spaces.iter().map(space).collect()))
    });
    body.put("switches", Yaml::Map(switches.collect()));
    let ids = slice.datapaths.iter().map(|(name, id)| (name.clone(), datapath(*id)));
    body.some("datapaths", Yaml::Map(ids.collect()));
    for (key, count) in [
        ("rules", quota.rules),
        ("groups", quota.groups),
        ("buckets", quota.buckets),
        ("meters", quota.meters),
    ] {
        body.some(key, count.map_or_else(Yaml::none, Yaml::word));
    }
    body.plain("memory", quota.memory.map(size));
    for (key, count) in [("packet-ins", quota.packet_ins), ("messages", quota.messages)] {
        body.plain(key, count.map(|count| format!("{count}/s")));
    }
    body.plain("rate", quota.rate.map(bits_per_second));
    body.plain("cpu", quota.cpu_milli.map(cpu_text));
    if let Some(files) = &slice.tls {
        body.put("tls", tls(files));
    }
    body.in_order(&SLICE)
}

fn space(space: &SliceSpace) -> Yaml {
    let mut body = Body::default();
    if let Some(ports) = &space.ports {
        body.put("ports", Yaml::one_or_list(ports.iter().map(Yaml::text).collect()));
    }
    let vlans = space.vlans.iter().map(|vlans| match vlans {
        Vlans::Untagged => Yaml::word("untagged"),
        Vlans::Range { from, to } => range(*from, *to),
    });
    body.some("vlan", Yaml::one_or_list(vlans.collect()));
    body.some("ethertype", space.ethertype.map_or_else(Yaml::none, ethertype));
    body.some("protocol", space.protocol.map_or_else(Yaml::none, protocol));
    put_end(&mut body, &space.end);
    let mut peer = Body::default();
    put_end(&mut peer, &space.peer);
    body.some("peer", Yaml::Map(peer.0));
    body.in_order(&SPACE)
}

fn range(from: u16, to: u16) -> Yaml {
    if from == to { Yaml::word(from) } else { Yaml::plain(format!("{from}..{to}")) }
}

fn put_end(body: &mut Body, end: &SpaceEnd) {
    let macs = end.macs.iter().map(|mac| Yaml::text(Mac(*mac).to_string()));
    body.some("mac", Yaml::one_or_list(macs.collect()));
    body.some("prefix", prefixes(&end.prefixes));
    let ports =
        |all: &[Ports]| Yaml::one_or_list(all.iter().map(|of| range(of.from, of.to)).collect());
    body.some("tcp", ports(&end.tcp));
    body.some("udp", ports(&end.udp));
}

fn ethertype(number: u16) -> Yaml {
    match number {
        0x0800 => Yaml::word("ipv4"),
        0x0806 => Yaml::word("arp"),
        0x86dd => Yaml::word("ipv6"),
        0x88cc => Yaml::word("lldp"),
        number => Yaml::plain(format!("0x{number:04x}")),
    }
}

fn protocol(number: u8) -> Yaml {
    match number {
        1 => Yaml::word("icmp"),
        6 => Yaml::word("tcp"),
        17 => Yaml::word("udp"),
        58 => Yaml::word("icmpv6"),
        132 => Yaml::word("sctp"),
        number => Yaml::word(number),
    }
}
