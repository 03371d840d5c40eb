//! Frames made in the kernel, through a veth pair, as the other end gets them.

use super::support;

use std::time::Duration;

use netloom_ebpf::generate::{Frames, LiveFrames, Pass, Tally};
use netloom_ebpf::{Error, feature};
use netloom_packet::checksum::{add, fold};
use support::net::{NetNs, link, mac};
use support::packet::Packets;

const BOUND: Duration = Duration::from_secs(30);
const NEAR: u32 = 2;
const FAR: u32 = 3;

/// The common part of all frames from the near to the far end: of IPv4 or IPv6.
fn head(v6: bool) -> Vec<u8> {
    let mut head = [mac(FAR), mac(NEAR)].concat();
    if v6 {
        head.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17, 64]);
        for last in [0xff, 0xfe] {
            head.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, last]);
        }
    } else {
        head.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0]);
        head.extend([10, 9, 0, 2, 10, 9, 0, 3]);
    }
    head.extend([0, 0, 0, 9, 0, 0, 0, 0]);
    head.extend([0x6e, 0x6c, 0, 7]);
    head.resize(head.len() + 14, 0);
    head
}

struct Pair {
    near: NetNs,
    far: NetNs,
}

fn pair() -> Pair {
    let pair = Pair { near: NetNs::create(), far: NetNs::create() };
    link(pair.near.end(NEAR), pair.far.end(FAR));
    pair
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap()
}

fn be(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The folded sum over parts of even length but for the last: 0xffff when a checksum fits.
fn sum(parts: &[&[u8]]) -> u16 {
    fold(parts.iter().fold(0, |sum, part| add(sum, part)))
}

#[test]
fn this_machine_makes_frames_or_says_what_it_lacks() {
    match feature::generate_supported() {
        Ok(()) => assert!(netloom_kit::is_root()),
        Err(missing) => assert!(!netloom_kit::is_root(), "{missing}"),
    }
}

#[test]
fn every_frame_is_as_asked_for_and_counted() {
    netloom_kit::root_only!("runs BPF programs");
    for v6 in [false, true] {
        let pair = pair();
        let _pass = pair.far.run(|| Pass::attach(FAR).unwrap().expect("none was there"));
        let socket = pair.far.run(|| Packets::open_all(FAR));
        let head = head(v6);
        let least = length(&head);
        let lengths = [least, 1514, least + 1, 700];
        let frames = Frames { head: &head, lengths: &lengths, flows: 3, clock_every: 1 };
        let before = unix_ns();
        let live = pair.near.run(|| LiveFrames::open(NEAR, &frames).unwrap());
        let (live, mut seen) = (std::sync::Mutex::new(live), Vec::new());
        // Calls go on from one another, and need not be whole batches. What is read in between is as much
        // as the socket's buffer holds.
        for (part, batch) in [(40, 64), (30, 7), (30, 30)] {
            let tally = pair.near.run(|| live.lock().unwrap().send(part, batch).unwrap());
            assert_eq!((tally.made, tally.taken), (part, part));
            seen.extend(socket.collect(usize::try_from(part).unwrap(), BOUND));
        }
        let after = unix_ns();
        let bytes = u64::from(lengths.iter().sum::<u32>()) * 25;
        let all = Tally { made: 100, bytes, taken: 100, refused: 0 };
        assert_eq!(live.lock().unwrap().tally(), all);
        let mut time = before;
        for (n, seen) in (0_u64..).zip(seen) {
            let frame = &seen.bytes;
            assert_eq!(length(frame), lengths[usize::try_from(n).unwrap() % 4]);
            let udp = if v6 { 54 } else { 34 };
            assert_eq!(be(&frame[udp..udp + 2]), 49_152 + n % 3);
            let udp_length = u64::from(length(&frame[udp..]));
            assert_eq!(be(&frame[udp + 4..udp + 6]), udp_length);
            assert_eq!(frame[udp + 8..udp + 12], [0x6e, 0x6c, 0, 7]);
            assert_eq!(be(&frame[udp + 12..udp + 18]), n);
            let stamped = be(&frame[udp + 18..udp + 26]);
            // The clocks are not read at once.
            assert!(stamped + 1_000_000 >= time && stamped <= after + 1_000_000);
            time = stamped;
            if v6 {
                assert_eq!(be(&frame[18..20]), udp_length);
                assert_eq!(
                    sum(&[&frame[22..54], &udp_length.to_be_bytes(), &[0, 17], &frame[54..]]),
                    0xffff
                );
            } else {
                assert_eq!(be(&frame[16..18]), udp_length + 20);
                assert_eq!(sum(&[&frame[14..34]]), 0xffff);
                assert_eq!(frame[26..34], [10, 9, 0, 2, 10, 9, 0, 3]);
            }
        }
        assert!(socket.next().is_none());
    }
}

fn unix_ns() -> u64 {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

#[test]
fn flows_beyond_all_ports_have_other_addresses() {
    netloom_kit::root_only!("runs BPF programs");
    let pair = pair();
    let _pass = pair.far.run(|| Pass::attach(FAR).unwrap());
    let head = head(false);
    let frames = Frames { head: &head, lengths: &[60], flows: 16_385, clock_every: 0 };
    pair.near.run(|| {
        let mut live = LiveFrames::open(NEAR, &frames).unwrap();
        // On a busy machine the queue to the other end may be full: such frames are counted, too.
        let sent = live.send(16_383, 64).unwrap();
        assert_eq!(sent.made, 16_383);
        // Nobody reads these, so they must be past before the socket is opened.
        netloom_kit::wait_until("all have come", BOUND, || {
            pair.far.run(|| received(FAR) == sent.taken).then_some(())
        });
        let socket = pair.far.run(|| Packets::open_all(FAR));
        assert_eq!(live.send(3, 64).unwrap().taken, 3);
        let seen = socket.collect(3, BOUND);
        let flows: Vec<(u64, u8)> =
            seen.iter().map(|seen| (be(&seen.bytes[34..36]), seen.bytes[29])).collect();
        assert_eq!(flows, [(65_535, 2), (49_152, 3), (49_152, 2)]);
        assert!(seen.iter().all(|seen| sum(&[&seen.bytes[14..34]]) == 0xffff));
    });
}

/// Frames that have come in by an interface of the calling thread's namespace.
fn received(index: u32) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let name = format!("eth{index}:");
    let line = text.lines().find_map(|line| line.trim().strip_prefix(&name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn without_a_program_at_the_other_end_all_are_refused() {
    netloom_kit::root_only!("runs BPF programs");
    let pair = pair();
    let head = head(false);
    let frames = Frames { head: &head, lengths: &[60], flows: 1, clock_every: 0 };
    pair.near.run(|| {
        let mut live = LiveFrames::open(NEAR, &frames).unwrap();
        let tally = live.send(100, 64).unwrap();
        assert_eq!(tally, Tally { made: 100, bytes: 6000, taken: 0, refused: 100 });
        let pass = pair.far.run(|| Pass::attach(FAR).unwrap());
        assert!(pass.is_some());
        assert_eq!(live.send(100, 64).unwrap().taken, 100);
        assert!(pair.far.run(|| Pass::attach(FAR).unwrap()).is_none(), "there is one");
        drop(pass);
        assert_eq!(live.send(100, 64).unwrap().taken, 0, "it went with its value");
    });
}

#[test]
fn what_cannot_be_made_is_named() {
    netloom_kit::root_only!("runs BPF programs");
    let [four, six] = [false, true].map(head);
    let fine = Frames { head: &four, lengths: &[60], flows: 1, clock_every: 0 };
    let space = NetNs::create();
    for (frames, says) in [
        (Frames { head: &four[..59], ..fine }, "the head"),
        (Frames { head: &six[..60], ..fine }, "the head"),
        (Frames { lengths: &[], ..fine }, "lengths"),
        (Frames { lengths: &[59], ..fine }, "a length"),
        (Frames { lengths: &[60, 3201], ..fine }, "a length"),
        (Frames { flows: 0, ..fine }, "flows"),
    ] {
        let error = LiveFrames::open(1, &frames).unwrap_err();
        assert!(matches!(error, Error::Unknown { .. }) && error.to_string().contains(says));
    }
    let error = space.run(|| LiveFrames::open(99, &fine).unwrap_err());
    assert!(error.to_string().starts_with("interface 99: "), "{error}");
}
