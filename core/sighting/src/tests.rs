//! Segments of frames made by a fixed seed: what is read is what was recorded, wherever the segment is cut.

#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers of tests are small, and their bytes are meant"
)]

use std::hash::{BuildHasherDefault, DefaultHasher};

use netloom_packet::checksum;
use netloom_pcap::{ng, run};

use super::*;

type Hasher = BuildHasherDefault<DefaultHasher>;

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// A UDP packet from 10.0.0.FROM to 10.0.0.TO after some hops.
fn udp(from: u8, to: u8, port: u8, id: u8, payload: &[u8], hops: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, hops, to, 2, 0, 0, 0, hops, from, 8, 0];
    let total = u16::try_from(28 + payload.len()).unwrap().to_be_bytes();
    let mut ip = vec![0x45, 0, total[0], total[1], 0, id, 0, 0, 64 - hops, 17, 0, 0];
    ip.extend([10, 0, 0, from, 10, 0, 0, to]);
    let sum = checksum::checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    frame.extend(ip);
    let length = u16::try_from(8 + payload.len()).unwrap().to_be_bytes();
    frame.extend([4, port, 0, 53, length[0], length[1], 0, 0]);
    frame.extend(payload);
    frame
}

fn arp(from: u8, to: u8) -> Vec<u8> {
    let mut frame = vec![255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, from, 8, 6];
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, from, 10, 0, 0, from]);
    frame.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, to]);
    frame
}

/// What was recorded: link, time, flags, frame.
type Recorded = (u32, u64, u32, Vec<u8>);

fn frames(seed: u64, count: u64) -> Vec<Recorded> {
    let (mut numbers, mut all, mut time) = (Numbers(seed), vec![], 1_700_000_000_000_000_000);
    for _ in 0..count {
        time += numbers.next(1_000_000);
        let (from, to) = (numbers.next(5) as u8, numbers.next(5) as u8);
        if numbers.next(10) == 0 {
            all.push((numbers.next(3) as u32, time, 0, arp(from, to)));
            continue;
        }
        let length = numbers.next(300) as usize;
        let payload: Vec<u8> = (0..length).map(|_| numbers.next(256) as u8).collect();
        let (port, id) = (numbers.next(3) as u8, numbers.next(4) as u8);
        // Some are lost on the way, and some pass a link twice.
        let links = (0..4).filter(|_| numbers.next(5) > 0).collect::<Vec<_>>();
        for (hop, link) in links.into_iter().enumerate() {
            let frame = udp(from, to, port, id, &payload, hop as u8);
            all.push((link, time + hop as u64, numbers.next(3) as u32, frame));
        }
    }
    all
}

fn record(frames: &[Recorded], links: &[&str]) -> (Vec<u8>, Index, u64) {
    let mut bytes = vec![];
    let head = Head { number: 7, clock: -5, start: 0 };
    let mut segment = Segment::begin(&mut bytes, head, &ng::Section::default(), Hasher::default());
    for name in links {
        segment.link(&mut bytes, &ng::Interface { name, ..ng::Interface::default() });
    }
    let mut again = 0;
    for (link, time_ns, flags, data) in frames {
        let mut block = vec![];
        let original = data.len() as u32;
        ng::packet(
            &mut block,
            &ng::Packet {
                interface: 99,
                time_ns: *time_ns,
                original,
                data,
                flags: *flags,
                ..ng::Packet::default()
            },
        );
        let one = run::records(&block).next().unwrap();
        again += u64::from(segment.add(&mut bytes, *link, &one) == Kept::Again);
    }
    assert_eq!(segment.bytes(), bytes.len() as u64);
    (bytes, segment.finish(), again)
}

fn read(bytes: &[u8]) -> Vec<Recorded> {
    let seen = |block| match block {
        Block::Seen(seen) => Some(seen),
        _ => None,
    };
    let whole = |seen: Seen<'_>| {
        let at = seen.place as usize;
        let stored = blocks(&bytes[at..], seen.place).next().and_then(seen_of);
        let frame = if seen.is_again() {
            seen.frame(stored.unwrap().own).unwrap()
        } else {
            seen.own.to_vec()
        };
        (seen.interface, seen.time_ns, seen.flags, frame)
    };
    blocks(bytes, 0).filter_map(seen).map(whole).collect()
}

fn seen_of(block: Block<'_>) -> Option<Seen<'_>> {
    match block {
        Block::Seen(seen) => Some(seen),
        _ => None,
    }
}

const LINKS: [&str; 4] = ["a--s", "s--r", "r--t", "t--b"];

#[test]
fn what_is_read_is_what_was_recorded_and_the_index_can_be_made_again() {
    for seed in 0..60 {
        let recorded = frames(seed, 40 + seed * 9);
        let (bytes, index, again) = record(&recorded, &LINKS);
        assert_eq!(read(&bytes), recorded, "seed {seed}");
        assert!(again > 0, "seed {seed}");
        assert_eq!(Index::of(&bytes).as_ref(), Some(&index), "seed {seed}");
        assert_eq!(Index::decode(&index.encode()), Ok(index.clone()), "seed {seed}");
        let packets: u32 = index.groups.iter().map(|group| group.packets).sum();
        assert_eq!(packets as usize, recorded.len());
    }
}

#[test]
fn the_index_leads_to_every_packet_by_link_address_pair_and_service() {
    let recorded = frames(3, 4000);
    let (bytes, index, _) = record(&recorded, &LINKS);
    assert!(index.groups.len() > 5, "{}", index.groups.len());
    let mut looked = 0;
    for group in &index.groups {
        let part = &bytes[group.at as usize..group.end as usize];
        for seen in blocks(part, group.at).filter_map(seen_of) {
            assert!((group.first..=group.last).contains(&seen.time_ns));
            assert!(group.may_have(&[link_key(LINKS[seen.interface as usize])]));
            let Some(flow) = (!seen.is_again()).then(|| Flow::of(seen.own)).flatten() else {
                continue;
            };
            flow.keys(|key| assert!(group.may_have(&[key])));
            assert!(group.may_have(&[service_key(flow.to, flow.from, 17, 53)]));
            looked += 1;
        }
    }
    assert!(looked > 1000, "{looked}");
    let strange = "192.0.2.1".parse().unwrap();
    assert!(index.groups.iter().all(|group| !group.may_have(&[node_key(strange)])));
}

#[test]
fn a_segment_is_readable_up_to_wherever_it_is_cut() {
    let recorded = frames(11, 20);
    let (bytes, _, _) = record(&recorded, &LINKS);
    for cut in 0..bytes.len() {
        let part = &bytes[..cut];
        let found = read(part);
        assert!(recorded.starts_with(&found), "cut at {cut}");
        let mut all = blocks(part, 0);
        all.by_ref().for_each(drop);
        assert_eq!(all.at() as usize + all.rest().len(), cut);
        if let Some(index) = Index::of(part) {
            assert_eq!(index.end, all.at());
        }
    }
    assert_eq!(read(&bytes).len(), recorded.len());
}

#[test]
fn others_read_a_segment_as_pcapng_with_each_packet_once() {
    let recorded = frames(5, 50);
    let (bytes, _, again) = record(&recorded, &LINKS);
    let mut reader = netloom_pcap::read::Reader::new(&bytes[..]).unwrap();
    let mut packets = 0;
    while let Some(item) = reader.next().unwrap() {
        packets += u64::from(matches!(item, netloom_pcap::read::Item::Packet(_)));
    }
    assert_eq!(packets + again, recorded.len() as u64);
}

#[test]
fn a_head_says_which_start_of_the_machine_it_is_of() {
    let (mut bytes, head) = (vec![], Head { number: 7, clock: -5, start: 0xdead_beef });
    let segment = Segment::begin(&mut bytes, head, &ng::Section::default(), Hasher::default());
    assert!(blocks(&bytes, 0).any(|block| block == Block::Head(head)));
    assert_eq!(segment.finish(), Index::of(&bytes).unwrap());
}

#[test]
fn equal_packets_on_one_link_are_two() {
    let frame = udp(1, 2, 3, 4, b"hello", 0);
    let later = udp(1, 2, 3, 4, b"hello", 1);
    let other = udp(1, 2, 3, 4, &[b"hello".as_slice(), &[7; 100]].concat(), 1);
    let of = |frames: &[(u32, &Vec<u8>)]| {
        let all: Vec<Recorded> =
            frames.iter().map(|(link, frame)| (*link, 9, 0, (*frame).clone())).collect();
        record(&all, &LINKS).2
    };
    assert_eq!(of(&[(0, &frame), (0, &frame)]), 0);
    assert_eq!(of(&[(0, &frame), (1, &later)]), 1);
    assert_eq!(of(&[(0, &frame), (1, &later), (2, &later), (1, &later)]), 2);
    assert_eq!(of(&[(0, &frame), (1, &other)]), 0);
    // The same first bytes, and another end: two packets.
    let long = |last: u8| udp(1, 2, 3, 4, &[&[1; 200][..], &[last]].concat(), 0);
    assert_eq!(of(&[(0, &long(1)), (1, &long(2))]), 0);
    assert_eq!(of(&[(0, &arp(1, 2)), (1, &arp(1, 2))]), 1);
}

/// The links of each packet, in the order in which they were stored, of equal frames seen at these links and milliseconds.
fn ways(seen: &[(u32, u64)]) -> Vec<Vec<u32>> {
    let frame = |link: u32| udp(1, 2, 3, 4, b"hello", link as u8);
    let all: Vec<Recorded> = seen
        .iter()
        .map(|(link, ms)| (*link, 1_700_000_000_000_000_000 + ms * 1_000_000, 0, frame(*link)))
        .collect();
    let (bytes, _, _) = record(&all, &LINKS);
    assert_eq!(read(&bytes), all);
    let mut ways = std::collections::BTreeMap::<u64, Vec<u32>>::new();
    for seen in blocks(&bytes, 0).filter_map(seen_of) {
        ways.entry(seen.place).or_default().push(seen.interface);
    }
    ways.into_values().collect()
}

#[test]
fn equal_packets_on_their_way_together_are_seen_in_their_order() {
    let two = [(0, 0), (0, 1), (1, 10), (1, 11), (2, 20), (2, 21)];
    assert_eq!(ways(&two), [[0, 1, 2], [0, 1, 2]]);
    // The next ones, at once and later, are not sightings of what was stored before.
    let next = [(0, 30), (1, 40), (2, 50), (0, 9000), (1, 9010), (0, 9020), (1, 9030)];
    let all = [&two[..], &next].concat();
    assert_eq!(ways(&all), [&[0, 1, 2][..], &[0, 1, 2], &[0, 1, 2], &[0, 1], &[0, 1]]);
    // A slow link may take its time, as long as nothing equals the packet.
    assert_eq!(ways(&[(0, 0), (1, 3000)]), [[0, 1]]);
}

#[test]
fn a_repeated_packet_is_not_taken_for_the_one_that_was_lost() {
    let lost_first = [(0, 0), (0, 1000), (1, 1001), (0, 2000), (1, 2001)];
    assert_eq!(ways(&lost_first), [&[0][..], &[0, 1], &[0, 1]]);
    // One that was on its way when the segment began confuses one packet, and not all that follow.
    let begun = [(1, 0), (0, 990), (1, 1000), (0, 1990), (1, 2000), (0, 2990), (1, 3000)];
    let found = ways(&begun);
    assert_eq!(found[found.len() - 2..], [[0, 1], [0, 1]], "{found:?}");
}

#[test]
fn more_equal_packets_than_are_remembered_are_stored_and_those_after_a_pause_have_their_ways() {
    let train = |link: u32| (0..20).map(move |at| (link, u64::from(link) * 30 + at));
    let later = [(0, 2000), (1, 2010), (0, 3000), (1, 3010)];
    let found = ways(&train(0).chain(train(1)).chain(later).collect::<Vec<_>>());
    assert_eq!(found[found.len() - 2..], [[0, 1], [0, 1]], "{found:?}");
}

#[test]
fn a_damaged_index_is_refused() {
    let (_, index, _) = record(&frames(2, 30), &LINKS);
    let bytes = index.encode();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(Index::decode(&damaged).is_err(), "byte {at}");
        assert!(Index::decode(&bytes[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn a_page_says_which_keys_an_index_cannot_have() {
    let mut index = Index::default();
    let keys =
        |group: u32| (0..2000).map(move |at| (group * 2000 + at).wrapping_mul(2_654_435_761));
    for number in 0..5 {
        let at = u64::from(number);
        let mut keys: Vec<u32> = keys(number).collect();
        keys.sort_unstable();
        index.groups.push(Group { at, end: at + 1, keys, ..Group::default() });
    }
    index.end = 5;
    let bytes = index.encode();
    assert_eq!(Index::decode(&bytes), Ok(index.clone()));
    // The head alone leads to a page.
    let length = Brief::length(&bytes[..64]).unwrap();
    let brief = Brief::decode(&bytes[..length]).unwrap();
    let page =
        |key: u32| &bytes[usize::try_from(brief.page(key).unwrap()).unwrap()..][..Brief::PAGE];
    for key in (0..5).flat_map(keys) {
        assert_eq!(brief.may_have(page(key), key), Some(true));
    }
    let others = (10_000_u32..20_000).map(|at| at.wrapping_mul(2_654_435_761));
    let wrong = others.filter(|key| brief.may_have(page(*key), *key) == Some(true)).count();
    assert!(wrong < 200, "{wrong} of 10,000");
    let (from, length) = brief.keys();
    assert_eq!(from + length, bytes.len() as u64);
    let keys = &bytes[usize::try_from(from).unwrap()..];
    assert_eq!(brief.clone().with_keys(keys), Ok(index));
    // A damaged page is one that says nothing, and makes the whole one of nobody.
    let mut damaged = bytes.clone();
    let at = usize::try_from(brief.page(7).unwrap()).unwrap();
    damaged[at] ^= 1;
    assert_eq!(brief.may_have(&damaged[at..at + Brief::PAGE], 7), None);
    assert_eq!(Index::decode(&damaged), Err(Error::Index("its pages do not fit")));
}

#[test]
fn an_index_whose_groups_do_not_fit_is_refused() {
    let (_, index, _) = record(&frames(3, 4000), &LINKS);
    let refused = |change: &dyn Fn(&mut Vec<Group>)| {
        let mut made_up = index.clone();
        change(&mut made_up.groups);
        assert_ne!(made_up, index);
        assert_eq!(
            Index::decode(&made_up.encode()),
            Err(Error::Index("its groups do not fit")),
            "{:?}",
            made_up.groups
        );
    };
    refused(&|groups| groups[0].at = groups[0].end);
    refused(&|groups| groups[0].at = u64::MAX);
    refused(&|groups| groups[1].at -= 4);
    refused(&|groups| groups.swap(0, 1));
    refused(&|groups| groups.last_mut().unwrap().end = index.end + 1);
    refused(&|groups| groups.last_mut().unwrap().end = u64::MAX);
    refused(&|groups| groups[0].first = groups[0].last + 1);
    refused(&|groups| groups[0].keys.swap(0, 1));
    refused(&|groups| groups[0].keys[1] = groups[0].keys[0]);
    assert_eq!(Index::decode(&index.encode()), Ok(index));
}

#[test]
fn sightings_that_lie_are_refused() {
    let lie = |place, shared| Seen {
        at: 500,
        place,
        interface: 0,
        time_ns: 1,
        original: 9,
        flags: 0,
        own: b"own",
        shared,
    };
    assert_eq!(lie(4, 2).frame(b"data").unwrap(), b"ownta");
    assert!(lie(4, 5).frame(b"data").is_err());
    let mut bytes = vec![0; 500];
    block::put_sighting(&mut bytes, &lie(600, 2));
    // It names a later block.
    assert_eq!(blocks(&bytes[500..], 500).next(), Some(Block::Other));
}

#[test]
fn frames_are_summed_up_in_a_line() {
    assert_eq!(summary(&udp(1, 2, 3, 4, b"x", 0)), "10.0.0.1:1027 > 10.0.0.2:53 udp");
    assert_eq!(summary(&arp(1, 2)), "arp 10.0.0.1 asks for 10.0.0.2");
    assert!(summary(b"short").starts_with("unreadable"));
}

/// Small files that show what their names say.
fn seed(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/sighting");
    std::fs::read(format!("{folder}/{name}")).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn the_format_is_that_of_recordings_which_exist() {
    let (bytes, index, _) = record(&frames(1, 8), &LINKS);
    assert_eq!(bytes, seed("segment"));
    assert_eq!(index.encode(), seed("index"));
}

#[test]
fn seeds_are_read_as_far_as_they_are_whole() {
    let whole = read(&seed("segment")).len();
    let count = |name: &str| blocks(&seed(name), 0).filter_map(seen_of).count();
    assert!(count("segment-cut-in-a-sighting") < whole);
    assert_eq!(count("segment-with-a-sighting-of-a-later-block"), whole - 1);
    let lie = seed("segment-with-a-sighting-longer-than-its-packet");
    let refused = |seen: &Seen<'_>| seen.is_again() && seen.frame(b"short").is_err();
    assert!(
        blocks(&lie, 0).filter_map(seen_of).any(|seen| refused(&seen) && seen.shared == 1 << 30)
    );
    assert!(Index::of(&lie).is_some());
    assert_eq!(count("segment-with-a-length-of-zero"), 0);
    for (name, why) in [
        ("index-damaged", "damaged"),
        ("index-of-version-one", "of another kind or version"),
        ("short", "too short"),
    ] {
        assert_eq!(Index::decode(&seed(name)), Err(Error::Index(why)), "{name}");
    }
}
