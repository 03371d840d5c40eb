//! Files for tests: the records to write, the bytes, and what a reader must report.

use std::net::IpAddr;

use netloom_pcap::read::{self, Format, InterfaceInfo, Item, Reader, SectionInfo};
use netloom_pcap::{Error, ng};
use proptest::prelude::*;

/// One block, with everything that may be said in it.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Section([String; 4]),
    Interface(InterfaceInfo),
    Packet(OwnPacket),
    Statistics(ng::Statistics),
    Names(Vec<(IpAddr, Vec<String>)>),
    Padding(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct OwnPacket {
    pub(crate) interface: u32,
    pub(crate) time_ns: u64,
    pub(crate) more: u32,
    pub(crate) data: Vec<u8>,
    pub(crate) flags: u32,
    pub(crate) drops: Option<u64>,
    pub(crate) id: Option<u64>,
    pub(crate) comment: Option<String>,
}

/// A file, where its blocks end, and the reader's words for each block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<usize>,
    pub(crate) said: Vec<String>,
}

/// An item in words, so that it can be kept.
pub(crate) fn say(item: &Item<'_>) -> String {
    format!("{item:?}")
}

/// Everything a reader says, and how it ends.
pub(crate) fn read_all(source: impl std::io::Read) -> (Vec<String>, Option<Error>) {
    let mut said = Vec::new();
    let mut reader = match Reader::new(source) {
        Ok(reader) => reader,
        Err(error) => return (said, Some(error)),
    };
    loop {
        match reader.next() {
            Ok(Some(item)) => said.push(say(&item)),
            Ok(None) => return (said, None),
            Err(error) => return (said, Some(error)),
        }
    }
}

/// Writes the parts, each packet at an interface that there is.
pub(crate) fn make(parts: &[Part]) -> Made {
    let mut made = Made::default();
    let mut interfaces = 0;
    write_section(&mut made, &Default::default());
    for part in parts {
        let at = |wanted: u32| if interfaces == 0 { None } else { Some(wanted % interfaces) };
        match part {
            Part::Section(texts) => {
                write_section(&mut made, texts);
                interfaces = 0;
            }
            Part::Interface(info) => {
                write_interface(&mut made, info, interfaces);
                interfaces += 1;
            }
            Part::Packet(packet) => {
                let Some(interface) = at(packet.interface) else { continue };
                write_packet(&mut made, packet, interface);
            }
            Part::Statistics(counts) => {
                let Some(interface) = at(counts.interface) else { continue };
                write_statistics(&mut made, &ng::Statistics { interface, ..*counts });
            }
            Part::Names(names) => write_names(&mut made, names),
            Part::Padding(more) => {
                let to = made.bytes.len() + more;
                ng::padding(&mut made.bytes, to).unwrap();
                assert_eq!(made.bytes.len(), to);
                made.done(&Item::Other { kind: ng::PADDING });
            }
        }
    }
    made
}

impl Made {
    fn done(&mut self, item: &Item<'_>) {
        self.ends.push(self.bytes.len());
        self.said.push(say(item));
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn write_section(made: &mut Made, [application, os, hardware, comment]: &[String; 4]) {
    let section =
        ng::Section { application, os, hardware: Some(hardware), comment: Some(comment.as_str()) };
    ng::section(&mut made.bytes, &section);
    made.done(&Item::Section(&SectionInfo {
        format: Format::Ng,
        big_endian: false,
        version: (1, 0),
        application: some(application),
        os: some(os),
        hardware: some(hardware),
        comments: some(comment).into_iter().collect(),
    }));
}

fn write_interface(made: &mut Made, info: &InterfaceInfo, id: u32) {
    let interface = ng::Interface {
        name: info.name.as_deref().unwrap_or_default(),
        description: info.description.as_deref().unwrap_or_default(),
        hardware: info.hardware.as_deref(),
        filter: info.filter.as_deref(),
        mac: info.mac,
        addresses: &info.addresses,
        speed: info.speed,
        snaplen: info.snaplen,
        linktype: info.linktype,
    };
    ng::interface(&mut made.bytes, &interface);
    made.done(&Item::Interface(&InterfaceInfo { id, resolution: 9, ..info.clone() }));
}

fn write_packet(made: &mut Made, own: &OwnPacket, interface: u32) {
    let original = u32::try_from(own.data.len()).unwrap().saturating_add(own.more);
    let packet = ng::Packet {
        interface,
        time_ns: own.time_ns,
        original,
        data: &own.data,
        flags: own.flags,
        drops: own.drops,
        id: own.id,
        comment: own.comment.as_deref(),
    };
    let before = made.bytes.len();
    ng::packet(&mut made.bytes, &packet);
    if own.drops.is_none() && own.id.is_none() && own.comment.is_none() {
        let len = ng::packet_len(own.data.len(), own.flags != 0);
        assert_eq!(made.bytes.len() - before, len);
    }
    made.done(&Item::Packet(read::Packet {
        interface,
        time_ns: Some(own.time_ns),
        original,
        data: &own.data,
        flags: own.flags,
        drops: own.drops,
        id: own.id,
        comment: own.comment.as_deref(),
    }));
}

fn write_statistics(made: &mut Made, counts: &ng::Statistics) {
    ng::statistics(&mut made.bytes, counts);
    made.done(&Item::Statistics(read::Statistics {
        interface: counts.interface,
        time_ns: Some(counts.time_ns),
        start_ns: counts.start_ns,
        end_ns: counts.end_ns,
        received: counts.received,
        dropped: counts.dropped,
        filter_accepted: counts.filter_accepted,
        os_dropped: counts.os_dropped,
        delivered: counts.delivered,
    }));
}

fn write_names(made: &mut Made, names: &[(IpAddr, Vec<String>)]) {
    let views: Vec<(IpAddr, Vec<&str>)> = names
        .iter()
        .map(|(address, names)| (*address, names.iter().map(String::as_str).collect()))
        .collect();
    let slices: Vec<(IpAddr, &[&str])> =
        views.iter().map(|(address, names)| (*address, &names[..])).collect();
    ng::names(&mut made.bytes, &slices);
    let named = names.iter().filter(|(_, names)| !names.is_empty()).cloned().collect();
    made.done(&Item::Names(named));
}

fn text() -> impl Strategy<Value = String> {
    "[ -~é€😀]{0,9}"
}

fn word() -> impl Strategy<Value = String> {
    "[ -~é€😀]{1,9}"
}

fn maybe_word() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(word())
}

fn address() -> impl Strategy<Value = (IpAddr, u8)> {
    prop_oneof![
        (any::<[u8; 4]>(), 0..=32u8).prop_map(|(a, bits)| (a.into(), bits)),
        (any::<[u8; 16]>(), 0..=128u8).prop_map(|(a, bits)| (a.into(), bits)),
    ]
}

pub(crate) fn interface() -> impl Strategy<Value = InterfaceInfo> {
    let texts = (maybe_word(), maybe_word(), maybe_word(), maybe_word());
    let addresses = proptest::collection::vec(address(), 0..4);
    (texts, any::<Option<[u8; 6]>>(), addresses, any::<(Option<u64>, u32, u16)>()).prop_map(
        |((name, description, hardware, filter), mac, addresses, (speed, snaplen, linktype))| {
            InterfaceInfo {
                linktype,
                snaplen,
                name,
                description,
                hardware,
                filter,
                mac,
                addresses,
                speed,
                ..InterfaceInfo::default()
            }
        },
    )
}

fn packet() -> impl Strategy<Value = OwnPacket> {
    let data = proptest::collection::vec(any::<u8>(), 0..90);
    let flags = prop_oneof![Just(0u32), any::<u32>()];
    let counts = any::<(u32, u64, u32, Option<u64>, Option<u64>)>();
    (counts, data, flags, proptest::option::of(text())).prop_map(
        |((interface, time_ns, more, drops, id), data, flags, comment)| OwnPacket {
            interface,
            time_ns,
            more,
            data,
            flags,
            drops,
            id,
            comment,
        },
    )
}

fn statistics() -> impl Strategy<Value = ng::Statistics> {
    let times = any::<(u32, u64, Option<u64>, Option<u64>)>();
    (times, any::<[Option<u64>; 5]>()).prop_map(
        |(
            (interface, time_ns, start_ns, end_ns),
            [received, dropped, filter_accepted, os_dropped, delivered],
        )| {
            ng::Statistics {
                interface,
                time_ns,
                start_ns,
                end_ns,
                received,
                dropped,
                filter_accepted,
                os_dropped,
                delivered,
            }
        },
    )
}

pub(crate) fn part() -> impl Strategy<Value = Part> {
    let names = (address(), proptest::collection::vec(word(), 0..4)).prop_map(|((a, _), n)| (a, n));
    prop_oneof![
        1 => [text(), text(), text(), text()].prop_map(Part::Section),
        3 => interface().prop_map(Part::Interface),
        8 => packet().prop_map(Part::Packet),
        2 => statistics().prop_map(Part::Statistics),
        1 => proptest::collection::vec(names, 0..4).prop_map(Part::Names),
        2 => (3..40usize).prop_map(|words| Part::Padding(words * 4)),
    ]
}

/// Any parts, the first of them an interface.
pub(crate) fn parts(most: usize) -> impl Strategy<Value = Vec<Part>> {
    (interface(), proptest::collection::vec(part(), 0..most)).prop_map(|(first, mut parts)| {
        parts.insert(0, Part::Interface(first));
        parts
    })
}
