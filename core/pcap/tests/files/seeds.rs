//! The seeds of the fuzz target `pcap`: each says what its name says, and every reader's promise
//! holds for each of them cut anywhere.

use std::collections::BTreeMap;
use std::path::PathBuf;

use netloom_pcap::read::{Format, InterfaceInfo, Item, Packet, Reader, SectionInfo, Statistics};

use super::cuts::check_any;
use super::make::{read_all, say};

/// Packets and errors in each seed.
const EXPECTED: &[(&str, (usize, usize))] = &[
    ("all-options-big-endian.pcapng", (2, 0)),
    ("all-options.pcapng", (2, 0)),
    ("classic-cut.pcap", (1, 1)),
    ("classic-lengths-swapped.pcap", (2, 0)),
    ("classic-longer-records.pcap", (2, 0)),
    ("classic-microseconds-big-endian.pcap", (2, 0)),
    ("classic-microseconds.pcap", (2, 0)),
    ("classic-nanoseconds-big-endian.pcap", (2, 0)),
    ("classic-nanoseconds.pcap", (2, 0)),
    ("classic-record-too-long.pcap", (1, 1)),
    ("classic-version-nine.pcap", (0, 1)),
    ("cut-in-a-packet.pcapng", (0, 1)),
    ("interface-too-short.pcapng", (1, 1)),
    ("length-not-of-four.pcapng", (0, 1)),
    ("length-of-eight.pcapng", (0, 1)),
    ("length-of-three-gigabytes.pcapng", (0, 1)),
    ("lengths-that-differ.pcapng", (0, 1)),
    ("names-without-end.pcapng", (0, 0)),
    ("no-byte-order-magic.pcapng", (0, 1)),
    ("not-a-capture.txt", (0, 1)),
    ("obsolete-packets.pcapng", (2, 0)),
    ("options-past-the-end.pcapng", (1, 0)),
    ("packet-longer-than-its-block.pcapng", (1, 2)),
    ("packet-of-no-interface.pcapng", (1, 2)),
    ("padding-between-packets.pcapng", (2, 0)),
    ("rest-of-zeros.pcapng", (1, 1)),
    ("section-too-short.pcapng", (0, 1)),
    ("short.bin", (0, 1)),
    ("simple-packet-without-interface.pcapng", (0, 1)),
    ("simple-packets.pcapng", (2, 0)),
    ("statistics-before-interface.pcapng", (0, 1)),
    ("text-not-utf8.pcapng", (1, 0)),
    ("times-in-powers-of-two.pcapng", (3, 0)),
    ("two-sections-of-both-orders.pcapng", (2, 0)),
    ("unknown-and-custom-blocks.pcapng", (0, 0)),
    ("version-two.pcapng", (0, 1)),
];

const SECOND: u64 = 1_000_000_000;
/// The time in most seeds.
const AT: u64 = 1_700_000_000 * SECOND;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/pcap"))
}

fn packet(data: &[u8], time_ns: Option<u64>) -> Packet<'_> {
    let original = u32::try_from(data.len()).unwrap();
    Packet { interface: 0, time_ns, original, data, flags: 0, drops: None, id: None, comment: None }
}

#[test]
fn seeds_are_read_as_their_names_say() {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        for len in 0..bytes.len() {
            check_any(&bytes[..len]);
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        found.insert(name, check_any(&bytes));
    }
    let expected: BTreeMap<String, _> =
        EXPECTED.iter().map(|(name, counts)| ((*name).to_owned(), *counts)).collect();
    assert_eq!(found, expected);
}

/// The items read of a seed, in words.
fn said(name: &str) -> Vec<String> {
    read_all(&std::fs::read(folder().join(name)).unwrap()[..]).0
}

#[test]
fn every_option_is_read_in_both_orders() {
    let text = |text: &str| Some(text.to_owned());
    let six = std::net::IpAddr::from([0xfd; 16]);
    let four = std::net::IpAddr::from([10, 0, 0, 1]);
    let interface = InterfaceInfo {
        id: 0,
        linktype: 1,
        snaplen: 256,
        name: text("eth0"),
        description: text("d"),
        hardware: text("veth"),
        os: text("Linux"),
        filter: text("udp"),
        mac: Some([2, 0, 0, 0, 0, 1]),
        eui: Some([2, 0, 0, 0xff, 0xfe, 0, 0, 1]),
        addresses: vec![(four, 24), (six, 64)],
        speed: Some(1_000_000_000),
        tx_speed: Some(1),
        rx_speed: Some(2),
        resolution: 9,
        offset: -3600,
        fcs_length: Some(4),
        comments: Vec::new(),
    };
    let at = Some(AT - 3600 * SECOND);
    let first = Packet {
        original: 99,
        flags: 0x202,
        drops: Some(3),
        id: Some(77),
        comment: Some("hi"),
        ..packet(&[1; 61], at)
    };
    let statistics = Statistics {
        interface: 0,
        time_ns: at,
        start_ns: at,
        end_ns: at,
        received: Some(4),
        dropped: Some(5),
        filter_accepted: Some(6),
        os_dropped: Some(7),
        delivered: Some(8),
    };
    let names =
        vec![(four, vec!["h1".to_owned(), "h1.lab".to_owned()]), (six, vec!["six".to_owned()])];
    for (name, big_endian) in
        [("all-options.pcapng", false), ("all-options-big-endian.pcapng", true)]
    {
        let section = SectionInfo {
            format: Format::Ng,
            big_endian,
            version: (1, 0),
            application: text("netloom"),
            os: text("Linux"),
            hardware: text("x86-64"),
            comments: vec!["c".to_owned()],
        };
        let expected = [
            Item::Section(&section),
            Item::Interface(&interface),
            Item::Names(names.clone()),
            Item::Packet(first),
            Item::Packet(packet(&[2; 4], at.map(|at| at + 1))),
            Item::Statistics(statistics),
        ];
        assert_eq!(said(name), expected.iter().map(say).collect::<Vec<_>>());
    }
}

#[test]
fn packets_of_other_kinds_are_read() {
    let packets = |name: &str| -> Vec<String> {
        said(name).into_iter().filter(|said| said.starts_with("Packet")).collect()
    };
    let says = |packets: &[Packet<'_>]| -> Vec<String> {
        packets.iter().map(|packet| say(&Item::Packet(*packet))).collect()
    };
    let simple = [Packet { original: 9, ..packet(b"abcde", None) }, packet(b"abc", None)];
    assert_eq!(packets("simple-packets.pcapng"), says(&simple));
    let old = Packet { flags: 1, drops: Some(2), ..packet(b"abc", Some(AT)) };
    assert_eq!(packets("obsolete-packets.pcapng"), says(&[old, packet(b"abcd", Some(AT))]));
    let binary = [
        packet(b"ab", Some(AT + SECOND / 2)),
        Packet { interface: 1, ..packet(b"ab", Some(0)) },
        Packet { interface: 2, ..packet(b"ab", None) },
    ];
    assert_eq!(packets("times-in-powers-of-two.pcapng"), says(&binary));
    let swapped = Packet { original: 60, ..packet(b"abc", Some(AT + 1000)) };
    assert_eq!(packets("classic-lengths-swapped.pcap"), says(&[swapped, swapped]));
    for (kind, unit) in [("micro", 1000), ("nano", 1)] {
        let first = Packet { original: 60, ..packet(b"abc", Some(AT + 5 * unit)) };
        let expected = says(&[first, packet(b"", Some(AT + 999_999 * unit))]);
        for order in ["", "-big-endian"] {
            assert_eq!(packets(&format!("classic-{kind}seconds{order}.pcap")), expected);
        }
    }
    let bytes = std::fs::read(folder().join("classic-nanoseconds-big-endian.pcap")).unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    while reader.next().unwrap().is_some() {}
    let info = &reader.interfaces()[0];
    assert_eq!((info.linktype, info.fcs_length, info.resolution), (1, Some(4), 9));
}
