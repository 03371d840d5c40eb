//! Files that are cut, damaged or no files at all: all whole blocks, then the place; never a panic.

use netloom_digest::splitmix::SplitMix64;
use netloom_pcap::classic::{self, Precision};
use netloom_pcap::read::Reader;
use netloom_pcap::{Error, ng, run};
use proptest::prelude::*;

use super::make::{Made, make, parts, read_all};

/// The first `len` bytes give the blocks that are whole in them, then where the next one began.
fn check_cut(made: &Made, len: usize) {
    let (said, error) = read_all(&made.bytes[..len]);
    let whole = made.ends.iter().filter(|end| **end <= len).count();
    assert_eq!(said, made.said[..whole], "cut at {len}");
    let edge = if whole == 0 { 0 } else { made.ends[whole - 1] };
    match error {
        None => assert!(edge == len && len > 0, "cut at {len} seems whole"),
        Some(Error::Cut { at }) => {
            assert!(edge < len || len == 0);
            assert_eq!(at, u64::try_from(edge).unwrap(), "cut at {len}");
        }
        Some(error) => panic!("cut at {len}: {error}"),
    }
}

fn classic(precision: Precision) -> Made {
    let mut made = Made::default();
    classic::header(&mut made.bytes, precision, 0, 1);
    made.ends = vec![24, 24];
    for n in 0..5u8 {
        let data = vec![n; usize::from(n) * 7];
        classic::record(&mut made.bytes, precision, 1_700_000_000_123_456_789, 60, &data);
        made.ends.push(made.bytes.len());
    }
    made.said = read_all(&made.bytes[..]).0;
    assert_eq!(made.said.len(), made.ends.len());
    made
}

/// Reads to the end, over errors, and checks what readers promise for any bytes.
pub(crate) fn check_any(bytes: &[u8]) -> (usize, usize) {
    let Ok(mut reader) = Reader::new(bytes) else { return (0, 1) };
    let (mut packets, mut errors, mut before) = (0, 0, 0);
    for _ in 0..bytes.len() + 3 {
        match reader.next() {
            Ok(None) => {
                assert!(reader.next().unwrap().is_none());
                return (packets, errors);
            }
            Ok(Some(netloom_pcap::read::Item::Packet(packet))) => {
                let interface = usize::try_from(packet.interface).unwrap();
                packets += 1;
                assert!(interface < reader.interfaces().len());
            }
            Ok(Some(_)) => {}
            Err(_) => errors += 1,
        }
        assert!(
            reader.offset() >= before && reader.offset() <= u64::try_from(bytes.len()).unwrap()
        );
        before = reader.offset();
    }
    panic!("no end after {} calls", bytes.len() + 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn cut_at_every_byte(parts in parts(8)) {
        let made = make(&parts);
        for len in 0..=made.bytes.len() {
            check_cut(&made, len);
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read(magic in 0..6usize, mut bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let heads: [&[u8]; 6] = [
            &[],
            &[0x0a, 0x0d, 0x0d, 0x0a],
            &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0],
            &[0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28, 0x1a, 0x2b, 0x3c, 0x4d, 0, 1],
            &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0],
            &[0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4],
        ];
        bytes.splice(0..0, heads[magic].iter().copied());
        check_any(&bytes);
        run::records(&bytes).count();
    }

    #[test]
    fn damaged_files_are_read(
        parts in parts(12),
        hits in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut made = make(&parts);
        let len = made.bytes.len();
        for (at, value) in hits {
            made.bytes[at.index(len)] = value;
        }
        check_any(&made.bytes);
        run::records(&made.bytes).count();
        run::records(&made.bytes[made.ends[1]..]).count();
    }
}

#[test]
fn classic_files_cut_at_every_byte() {
    for precision in [Precision::Micro, Precision::Nano] {
        let made = classic(precision);
        for len in 0..=made.bytes.len() {
            check_cut(&made, len);
        }
    }
}

#[test]
fn a_thousand_cuts_of_a_big_file_leave_none_unreadable() {
    let mut random = SplitMix64::new(1);
    let mut made = Made::default();
    ng::section(&mut made.bytes, &ng::Section::default());
    made.ends.push(made.bytes.len());
    ng::interface(&mut made.bytes, &ng::Interface::default());
    made.ends.push(made.bytes.len());
    let data = [7; 1514];
    while made.bytes.len() < 4 << 20 {
        let len = random.index(1515);
        let time_ns = random.next_u64();
        let flags = u32::try_from(random.below(3)).unwrap();
        let packet =
            ng::Packet { time_ns, original: 1514, data: &data[..len], flags, ..Default::default() };
        ng::packet(&mut made.bytes, &packet);
        made.ends.push(made.bytes.len());
        if random.below(100) == 0 {
            let to = (made.bytes.len() + ng::PADDING_LEAST).next_multiple_of(4096);
            ng::padding(&mut made.bytes, to).unwrap();
            made.ends.push(to);
        }
    }
    let all = u64::try_from(made.bytes.len()).unwrap();
    for _ in 0..1000 {
        let len = usize::try_from(random.below(all - 28) + 28).unwrap();
        let mut reader = Reader::new(&made.bytes[..len]).unwrap();
        let mut blocks = 0;
        let at = loop {
            match reader.next() {
                Ok(Some(_)) => blocks += 1,
                Ok(None) => break len,
                Err(Error::Cut { at }) => break usize::try_from(at).unwrap(),
                Err(error) => panic!("cut at {len}: {error}"),
            }
        };
        assert_eq!(blocks, made.ends.partition_point(|end| *end <= len));
        assert_eq!(at, made.ends[blocks - 1]);
    }
}

#[test]
fn what_was_never_written_is_a_cut() {
    let mut bytes = Vec::new();
    ng::section(&mut bytes, &ng::Section::default());
    bytes.resize(4096, 0);
    let (said, error) = read_all(&bytes[..]);
    assert_eq!(said.len(), 1);
    assert!(matches!(error, Some(Error::Cut { at: 28 })), "{error:?}");
}

#[test]
fn a_length_that_lies_makes_no_memory() {
    let mut bytes = Vec::new();
    ng::section(&mut bytes, &ng::Section::default());
    for (kind, length) in [(6u32, 0x1000_0000u32), (ng::PADDING, 0xffff_fffc)] {
        let mut bytes = bytes.clone();
        bytes.extend_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&[0; 100]);
        let error = read_all(&bytes[..]).1;
        assert!(matches!(error, Some(Error::Cut { at: 28 })), "{error:?}");
    }
}

#[test]
fn a_section_has_a_bounded_number_of_interfaces() {
    let mut bytes = Vec::new();
    ng::section(&mut bytes, &ng::Section::default());
    (0..=1 << 16).for_each(|_| ng::interface(&mut bytes, &ng::Interface::default()));
    let (said, error) = read_all(&bytes[..]);
    assert_eq!(said.len(), 1 + (1 << 16));
    assert!(error.is_some_and(|error| error.to_string().contains("too many interfaces")));
}

#[test]
fn refusals_of_the_source_are_told() {
    struct Broken(bool);
    impl std::io::Read for Broken {
        fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
            if std::mem::replace(&mut self.0, true) {
                return Err(std::io::ErrorKind::ConnectionReset.into());
            }
            let mut bytes = Vec::new();
            ng::section(&mut bytes, &ng::Section::default());
            room[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        }
    }
    assert!(matches!(Reader::new(Broken(true)), Err(Error::Read { at: 0, .. })));
    let mut reader = Reader::new(Broken(false)).unwrap();
    assert!(reader.next().unwrap().is_some());
    assert!(matches!(reader.next(), Err(Error::Read { at: 28, .. })));
    assert!(reader.next().unwrap().is_none());
    assert!(
        matches!(Reader::new(&b"GIF89a"[..]), Err(Error::Format { magic }) if &magic == b"GIF8")
    );
}
