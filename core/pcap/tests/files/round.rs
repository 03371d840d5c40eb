//! Written files are read back, by us and by pcap-parser, in both byte orders.

use std::io::Cursor;

use netloom_pcap::{Error, classic, ng, run};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, PcapBlockOwned, PcapError, PcapNGReader};
use proptest::prelude::*;

use super::make::{Made, Part, make, parts, read_all};

/// Gives its bytes in parts of one to seven.
struct Dribble<'a>(&'a [u8]);

impl std::io::Read for Dribble<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let now = (self.0.len() % 7 + 1).min(self.0.len()).min(room.len());
        let (first, rest) = self.0.split_at(now);
        room[..now].copy_from_slice(first);
        self.0 = rest;
        Ok(now)
    }
}

/// A little-endian file of ours as a big-endian writer would have written it.
fn big_endian(made: &Made) -> Vec<u8> {
    let mut bytes = made.bytes.clone();
    let mut start = 0;
    for &end in &made.ends {
        let block = &mut bytes[start..end];
        let kind = u32::from_le_bytes(block[..4].try_into().unwrap());
        let last = block.len() - 4;
        block[last..].reverse();
        // Widths of the fields behind the length, then where options begin.
        let (widths, options): (&[usize], usize) = match kind {
            0x0a0d_0d0a => (&[4, 2, 2, 8], 24),
            1 => (&[2, 2, 4], 16),
            4 => (&[], 8),
            5 => (&[4, 4, 4], 20),
            6 => {
                let len = u32::from_le_bytes(block[20..24].try_into().unwrap());
                (&[4; 5], 28 + usize::try_from(len).unwrap().next_multiple_of(4))
            }
            _ => (&[], last),
        };
        let mut at = 0;
        for width in [4, 4].iter().chain(widths) {
            block[at..at + width].reverse();
            at += width;
        }
        big_endian_options(&mut block[options..last], kind);
        start = end;
    }
    bytes
}

fn big_endian_options(options: &mut [u8], kind: u32) {
    let mut at = 0;
    while at < options.len() {
        let code = u16::from_le_bytes([options[at], options[at + 1]]);
        let len = usize::from(u16::from_le_bytes([options[at + 2], options[at + 3]]));
        options[at..at + 2].reverse();
        options[at + 2..at + 4].reverse();
        let value = &mut options[at + 4..at + 4 + len];
        match (kind, code) {
            (1, 8) | (6, 2 | 4 | 5) | (5, 4..=8) => value.reverse(),
            (5, 2 | 3) => value.chunks_mut(4).for_each(<[u8]>::reverse),
            _ => {}
        }
        at += 4 + len.next_multiple_of(4);
    }
}

/// Packets as pcap-parser reads them: interface, time, original length, data, number of options.
type Plain = (u32, u64, u32, Vec<u8>, Vec<(u16, Vec<u8>)>);

fn by_pcap_parser(bytes: &[u8]) -> (usize, Vec<Plain>) {
    let mut reader = PcapNGReader::new(1 << 20, Cursor::new(bytes)).unwrap();
    let (mut blocks, mut packets) = (0, Vec::new());
    loop {
        match reader.next() {
            Ok((len, block)) => {
                blocks += 1;
                if let PcapBlockOwned::NG(Block::EnhancedPacket(block)) = block {
                    let time = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
                    let data = block.data[..usize::try_from(block.caplen).unwrap()].to_vec();
                    let option = |o: &pcap_parser::PcapNGOption<'_>| {
                        (o.code.0, o.as_bytes().unwrap().to_vec())
                    };
                    let options = block.options.iter().map(option).collect();
                    packets.push((block.if_id, time, block.origlen, data, options));
                }
                reader.consume(len);
            }
            Err(PcapError::Eof) => return (blocks, packets),
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// The same packets from what was to be written.
fn plain(parts: &[Part]) -> Vec<Plain> {
    let mut interfaces = 0;
    let mut packets = Vec::new();
    for part in parts {
        match part {
            Part::Section(_) => interfaces = 0,
            Part::Interface(_) => interfaces += 1,
            Part::Packet(p) if interfaces > 0 => {
                let mut options = Vec::new();
                if p.flags != 0 {
                    options.push((2, p.flags.to_le_bytes().to_vec()));
                }
                options.extend(p.drops.map(|n| (4, n.to_le_bytes().to_vec())));
                options.extend(p.id.map(|n| (5, n.to_le_bytes().to_vec())));
                options.extend(p.comment.as_ref().map(|c| (1, c.as_bytes().to_vec())));
                if !options.is_empty() {
                    options.push((0, Vec::new()));
                }
                let original = u32::try_from(p.data.len()).unwrap().saturating_add(p.more);
                let interface = p.interface % interfaces;
                packets.push((interface, p.time_ns, original, p.data.clone(), options));
            }
            _ => {}
        }
    }
    packets
}

proptest! {
    #[test]
    fn what_is_written_is_read(parts in parts(25)) {
        let made = make(&parts);
        let (said, error) = read_all(&made.bytes[..]);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(&said, &made.said);
        prop_assert_eq!(read_all(Dribble(&made.bytes)).0, said);
    }

    #[test]
    fn pcap_parser_reads_the_same(parts in parts(25)) {
        let made = make(&parts);
        let (blocks, packets) = by_pcap_parser(&made.bytes);
        prop_assert_eq!(blocks, made.said.len());
        prop_assert_eq!(packets, plain(&parts));
    }

    #[test]
    fn big_endian_files_say_the_same(parts in parts(25)) {
        let made = make(&parts);
        let (said, error) = read_all(&big_endian(&made)[..]);
        prop_assert!(error.is_none(), "{error:?}");
        let little: Vec<String> =
            said.iter().map(|s| s.replace("big_endian: true", "big_endian: false")).collect();
        prop_assert_eq!(little, made.said);
        prop_assert!(said[0].contains("big_endian: true"));
    }

    #[test]
    fn classic_files_are_read(
        packets in proptest::collection::vec(
            (any::<u32>(), 0..1_000_000_000u64, any::<u32>(), proptest::collection::vec(any::<u8>(), 0..70)),
            0..20,
        ),
        nano in any::<bool>(),
        snaplen in 1..u32::MAX,
        linktype in any::<u16>(),
    ) {
        let precision = if nano { classic::Precision::Nano } else { classic::Precision::Micro };
        let mut bytes = Vec::new();
        classic::header(&mut bytes, precision, snaplen, linktype);
        for (seconds, nanos, original, data) in &packets {
            let time = u64::from(*seconds) * 1_000_000_000 + nanos;
            classic::record(&mut bytes, precision, time, *original, data);
        }
        for big in [false, true] {
            if big {
                bytes = big_endian_classic(&bytes);
            }
            let mut reader = netloom_pcap::read::Reader::new(&bytes[..]).unwrap();
            let Some(netloom_pcap::read::Item::Section(section)) = reader.next().unwrap() else {
                panic!("no section");
            };
            prop_assert_eq!((section.big_endian, section.version), (big, (2, 4)));
            let Some(netloom_pcap::read::Item::Interface(info)) = reader.next().unwrap() else {
                panic!("no interface");
            };
            prop_assert_eq!((info.snaplen, info.linktype), (snaplen, linktype));
            for (seconds, nanos, original, data) in &packets {
                let Some(netloom_pcap::read::Item::Packet(packet)) = reader.next().unwrap() else {
                    panic!("no packet");
                };
                let nanos = if nano { *nanos } else { nanos / 1000 * 1000 };
                prop_assert_eq!(packet.time_ns, Some(u64::from(*seconds) * 1_000_000_000 + nanos));
                prop_assert_eq!((packet.original, packet.data), (*original, &data[..]));
            }
            prop_assert!(reader.next().unwrap().is_none());
        }
    }

    #[test]
    fn a_run_is_gone_over(parts in parts(25), cut in any::<proptest::sample::Index>()) {
        let packets: Vec<Part> =
            parts.into_iter().filter(|part| matches!(part, Part::Packet(_) | Part::Interface(_))).collect();
        let (interfaces, packets): (Vec<Part>, Vec<Part>) =
            packets.into_iter().partition(|part| matches!(part, Part::Interface(_)));
        let head = make(&interfaces).bytes.len();
        let all = [interfaces, packets].concat();
        let made = make(&all);
        let bytes = &made.bytes[head..];
        let mut records = run::records(bytes);
        let mut joined = Vec::new();
        let expected = plain(&all);
        for expected in &expected {
            let record = records.next().unwrap();
            prop_assert_eq!(
                (record.interface, record.time_ns, record.original, record.data),
                (expected.0, expected.1, expected.2, &expected.3[..])
            );
            prop_assert_eq!(usize::try_from(record.captured).unwrap(), record.data.len());
            joined.extend_from_slice(record.bytes);
        }
        prop_assert!(records.next().is_none() && records.rest().is_empty());
        prop_assert_eq!(&joined[..], bytes);
        // Cut anywhere, what is whole comes, and the rest is told.
        let at = cut.index(bytes.len() + 1);
        let mut records = run::records(&bytes[..at]);
        let whole = made.ends.iter().filter(|end| (head + 1..=head + at).contains(end)).count();
        prop_assert_eq!(records.by_ref().count(), whole);
        let end = made.ends.iter().rfind(|end| **end <= head + at).unwrap() - head;
        prop_assert_eq!(records.rest(), &bytes[end..at]);
    }
}

fn big_endian_classic(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (at, width) in [(0, 4), (4, 2), (6, 2), (8, 4), (12, 4), (16, 4), (20, 4)] {
        bytes[at..at + width].reverse();
    }
    let mut at = 24;
    while at < bytes.len() {
        let len = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap());
        bytes[at..at + 16].chunks_mut(4).for_each(<[u8]>::reverse);
        at += 16 + usize::try_from(len).unwrap();
    }
    bytes
}

#[test]
fn a_plain_packet_has_the_layout_that_is_promised() {
    let mut out = vec![0xee];
    let time_ns = 0x0102_0304_0506_0708;
    let packet = ng::Packet {
        interface: 9,
        time_ns,
        original: 70,
        data: &[1, 2, 3, 4, 5],
        ..Default::default()
    };
    ng::packet(&mut out, &packet);
    let expected = [
        0xee, 6, 0, 0, 0, 40, 0, 0, 0, 9, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5, 5, 0, 0, 0, 70, 0, 0, 0,
        1, 2, 3, 4, 5, 0, 0, 0, 40, 0, 0, 0,
    ];
    assert_eq!(out, expected);
    out.truncate(1);
    ng::packet(&mut out, &ng::Packet { flags: ng::OUTBOUND, ..packet });
    let options = [2, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0, 52, 0, 0, 0];
    assert_eq!(out[37..], options);
    assert_eq!(out[5], 52);
}

#[test]
fn padding_fills_or_refuses() {
    let mut out = vec![1; 100];
    for gap in [1, 2, 3, 4, 8, 10, 13, 4097] {
        assert!(matches!(ng::padding(&mut out, 100 + gap), Err(Error::Padding { from: 100, .. })));
    }
    assert!(ng::padding(&mut out, 96).is_err());
    assert_eq!(out, [1; 100]);
    ng::padding(&mut out, 100).unwrap();
    assert_eq!(out.len(), 100);
    ng::padding(&mut out, 112).unwrap();
    assert_eq!(out[100..], [0x4c, 0x4e, 0, 0x80, 12, 0, 0, 0, 12, 0, 0, 0]);
    // Longer than a block of others' may be: several, none of them too short.
    let most = 8 << 20;
    for gap in [most - 4, most, most + 4, most + 12, 3 * most - 8, 40 << 20] {
        let mut out = Vec::new();
        ng::section(&mut out, &ng::Section::default());
        let to = out.len() + gap;
        ng::padding(&mut out, to).unwrap();
        assert_eq!(out.len(), to);
        let (said, error) = read_all(&out[..]);
        assert!(error.is_none() && said.len() > 1);
    }
}

#[test]
fn long_texts_and_names_are_cut_where_they_must() {
    let long = "é".repeat(70_000);
    let mut bytes = Vec::new();
    ng::section(&mut bytes, &ng::Section { application: &long, ..Default::default() });
    let interface = ng::Interface { name: &long, filter: Some(&long), ..Default::default() };
    ng::interface(&mut bytes, &interface);
    let many: Vec<String> = (0..200).map(|n| format!("{n}-{}", "x".repeat(500))).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let address = std::net::IpAddr::from([10, 0, 0, 1]);
    ng::names(&mut bytes, &[(address, &many), (address, &[&long, "", "a\0b"])]);
    let mut reader = netloom_pcap::read::Reader::new(&bytes[..]).unwrap();
    use netloom_pcap::read::Item;
    let Some(Item::Section(section)) = reader.next().unwrap() else { panic!("no section") };
    assert_eq!(section.application.as_deref(), Some(&long[..65_534]));
    let Some(Item::Interface(info)) = reader.next().unwrap() else { panic!("no interface") };
    assert_eq!(info.name.as_deref(), Some(&long[..65_534]));
    assert_eq!(info.filter.as_deref(), Some(&long[..65_534]));
    let Some(Item::Names(names)) = reader.next().unwrap() else { panic!("no names") };
    let (last, first) = names.split_last().unwrap();
    let read: Vec<&str> =
        first.iter().flat_map(|(_, names)| names.iter().map(String::as_str)).collect();
    assert_eq!(read, many);
    assert_eq!(last.1, [&long[..1024], "a"]);
    assert!(reader.next().unwrap().is_none());
}
