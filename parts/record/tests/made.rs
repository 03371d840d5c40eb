//! Frames for tests: each has a number.

use std::path::Path;

use netloom_pcap::ng;
use netloom_record::{About, Asked, Error, Folder, Frame, Link, Looked, Question, Store, search};

/// The time of the first frame.
pub(super) const BEGIN: u64 = 1_700_000_000_000_000_000;

/// A UDP packet from 10.0.0.1 to 10.0.0.2 with a number, after some hops.
pub(super) fn udp(number: u32, hops: u8, length: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, hops, 2, 2, 0, 0, 0, hops, 1, 8, 0];
    let total = u16::try_from(32 + length).unwrap().to_be_bytes();
    frame.extend([0x45, 0, total[0], total[1], 0, 0, 0, 0, 64 - hops, 17, 0, 0]);
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    let udp = u16::try_from(12 + length).unwrap().to_be_bytes();
    frame.extend([4, 1, 0, 53, udp[0], udp[1], 0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(frame.len() + length, u8::try_from(number % 251).unwrap());
    frame
}

pub(super) fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(*frame[42..].first_chunk().unwrap())
}

/// Blocks of frames, each at every one of `links` interfaces, a microsecond apart.
pub(super) fn blocks(numbers: std::ops::Range<u32>, links: u8, length: usize) -> Vec<u8> {
    blocks_from(BEGIN, numbers, links, length)
}

/// The same, with number 0 at a time.
pub(super) fn blocks_from(
    begin: u64,
    numbers: std::ops::Range<u32>,
    links: u8,
    length: usize,
) -> Vec<u8> {
    let mut out = vec![];
    for number in numbers {
        for link in 0..links {
            let data = &udp(number, link, length);
            let time_ns = begin + u64::from(number) * 1000 + u64::from(link);
            let original = u32::try_from(data.len()).unwrap();
            let interface = link.into();
            ng::packet(
                &mut out,
                &ng::Packet { interface, time_ns, original, data, ..ng::Packet::default() },
            );
        }
    }
    out
}

pub(super) fn folder(root: &Path) -> Folder {
    Folder::make(root, "lab").unwrap()
}

/// A store with three links, and their numbers.
pub(super) fn store(root: &Path, keep: u64) -> (Store, Vec<u32>) {
    let mut store = Store::open(folder(root), About::default(), keep).unwrap();
    let link = |name: &str| Link { name: name.to_owned(), description: String::new() };
    let links = ["a--r", "r--b", "b--c"].map(|name| store.link(link(name)));
    (store, links.to_vec())
}

/// Everything that is asked for.
pub(super) fn found(root: &Path, asked: &Asked) -> (Vec<Frame>, Looked) {
    let nodes = [("h1", "10.0.0.1"), ("h2", "10.0.0.2"), ("h3", "10.0.0.3")];
    let nodes = nodes.map(|(name, address)| (name.to_owned(), vec![address.parse().unwrap()]));
    let question = Question::read(asked, &nodes.into()).unwrap();
    let mut all = vec![];
    let looked = search::<Error>(&Folder::open(root, "lab").unwrap(), &question, |frame| {
        all.push(frame.clone());
        Ok(true)
    });
    (all, looked.unwrap())
}

pub(super) fn everything() -> Asked {
    Asked { since_ns: Some(0), ..Asked::default() }
}
