//! Taps at real interfaces: what was sent is in the rings, once, whole, and goes on as if they were not.

use super::support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use netloom_ebpf::capture::{SocketFilter, Tap, TapCounts, TapOptions, Where};
use netloom_ebpf::{Hook, feature};
use netloom_filter::{Insn, Program};
use netloom_kit::wait_until;
use netloom_netlink::{Change, DeleteLink};
use support::net::{NetNs, link, mac};
use support::packet::{ETHERTYPE, Packets, frame};

const BOUND: Duration = Duration::from_secs(30);
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;
const UNFINISHED: u32 = 1 << 9;
const SEGMENTS: u32 = 1 << 11;
/// Set for the process that [`a_killed_process_leaves_nothing_attached`] kills.
const CHILD: &str = "NETLOOM_TEST_TAP_CHILD";

/// A block as it was read by hand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    data: Vec<u8>,
    original: u32,
    flags: u32,
    interface: u32,
    time: u64,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Reads a run of whole blocks; nothing may be left over.
fn parse(mut run: &[u8], into: &mut Vec<Record>) {
    while !run.is_empty() {
        assert_eq!(word(run, 0), 6, "an enhanced packet block");
        let total = word(run, 4) as usize;
        let (block, rest) = run.split_at(total);
        let kept = word(block, 20) as usize;
        let end = 28 + kept.next_multiple_of(4);
        assert!(block[28 + kept..end].iter().all(|byte| *byte == 0), "padding is zero");
        assert_eq!(word(block, total - 4) as usize, total);
        let flags = match total - end {
            4 => 0,
            16 => {
                assert_eq!([word(block, end), word(block, end + 8)], [0x0004_0002, 0]);
                word(block, end + 4)
            }
            other => panic!("{other} bytes after the data"),
        };
        into.push(Record {
            data: block[28..28 + kept].to_vec(),
            original: word(block, 24),
            flags,
            interface: word(block, 8),
            time: u64::from(word(block, 12)) << 32 | u64::from(word(block, 16)),
        });
        run = rest;
    }
}

fn take(tap: &mut Tap) -> Vec<Record> {
    let mut all = Vec::new();
    let mut sum = 0;
    let said = tap.take(&mut |run| {
        sum += run.len();
        parse(run, &mut all);
    });
    assert_eq!(said, sum);
    all
}

/// The tests' frames among them; the kernel sends some of its own.
fn ours(records: &[Record]) -> Vec<Record> {
    let kind = ETHERTYPE.to_be_bytes();
    records.iter().filter(|record| record.data.get(12..14) == Some(&kind)).cloned().collect()
}

fn sorted(mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    frames.sort();
    frames
}

fn data(records: &[Record]) -> Vec<Vec<u8>> {
    sorted(records.iter().map(|record| record.data.clone()).collect())
}

fn close(counts: TapCounts) {
    assert_eq!(counts.offered, counts.filtered + counts.captured + counts.lost, "{counts:?}");
}

/// Waits until this many frames that pass the filter have come to the tap.
fn passed(tap: &Tap, frames: u64) {
    wait_until("the frames have passed", BOUND, || {
        let counts = tap.counts();
        (counts.captured + counts.lost >= frames).then_some(())
    });
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

/// Two namespaces with a link; taps are at the second one's interface, 3.
struct Pair {
    near: NetNs,
    far: NetNs,
}

fn pair() -> Pair {
    let pair = Pair { near: NetNs::create(), far: NetNs::create() };
    link(pair.near.end(2), pair.far.end(3));
    pair
}

impl Pair {
    fn large(&self) {
        for (space, index) in [(&self.near, 2), (&self.far, 3)] {
            space.change(|batch| batch.push("mtu", &Change::of(index).mtu(9000)));
        }
    }

    fn tap(&self, options: &TapOptions) -> Tap {
        self.far.run(|| Tap::attach(3, options)).unwrap()
    }
}

/// Small rings, so that several chunks are used.
fn small(at: Where) -> TapOptions {
    TapOptions { bytes_per_cpu: 1 << 20, interface: 7, ..TapOptions::at(at) }
}

/// Every place, and every way to be there.
fn ways() -> Vec<(Where, Hook)> {
    let clsact = feature::clsact_supported().map(|()| (Where::Tc, Hook::Clsact));
    let tcx = feature::tcx_supported().map(|()| (Where::Tc, Hook::Tcx));
    [Ok((Where::Xdp, Hook::Tcx)), tcx, clsact].into_iter().flatten().collect()
}

/// Frames of a type.
fn only(ethertype: u16) -> Option<Program> {
    let load = Insn { code: 0x28, jt: 0, jf: 0, k: 12 };
    let test = Insn { code: 0x15, jt: 0, jf: 1, k: ethertype.into() };
    let [yes, no] = [0x40000, 0].map(|k| Insn { code: 0x06, jt: 0, jf: 0, k });
    Some(Program::new(vec![load, test, yes, no]).unwrap())
}

/// Frames of many lengths, each with a content of its own.
fn lengths() -> Vec<Vec<u8>> {
    let odd = [300, 301, 302, 303, 1000, 1514, 1515, 3000, 4095, 4096, 5000, 8999, 9000, 9014];
    (14..=280).chain(odd).map(|length| numbered(length, length)).collect()
}

fn numbered(length: usize, number: usize) -> Vec<u8> {
    let mut bytes = frame(mac(3), mac(2), length);
    for (i, byte) in bytes.iter_mut().enumerate().skip(14) {
        *byte = u8::try_from((i * 7 + number * 13) % 251).unwrap();
    }
    bytes
}

/// Ten frames of the tests' type, and this one after them.
fn ten_and(last: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = vec![numbered(100, 1); 10];
    frames.push(last.to_vec());
    frames
}

#[test]
fn this_machine_takes_the_programs_or_says_what_it_lacks() {
    for at in [Where::Xdp, Where::Tc] {
        match feature::capture_supported(at) {
            Ok(()) => assert!(netloom_kit::is_root()),
            Err(missing) => assert!(!netloom_kit::is_root(), "{missing}"),
        }
    }
}

#[test]
fn every_frame_is_there_once_and_whole_and_goes_on() {
    netloom_kit::root_only!("attaches BPF programs");
    let _kept = netloom_kit::tai_kept();
    for (at, hook) in ways() {
        for filter in [None, only(ETHERTYPE)] {
            let pair = pair();
            pair.large();
            let options = TapOptions { filter, direction: true, ..small(at) };
            let mut tap = pair.far.run(|| Tap::attach_by(hook, 3, &options)).unwrap();
            assert!(tap.is_attached());
            let [near, far] = [(&pair.near, 2), (&pair.far, 3)]
                .map(|(space, index)| space.run(|| Packets::open(index)));
            let (sent, before) = (lengths(), now());
            let (mut got, mut arrived) = (Vec::new(), Vec::new());
            for bytes in &sent {
                assert!(near.send(bytes), "{} bytes", bytes.len());
                arrived.extend(far.collect(1, BOUND).into_iter().map(|seen| seen.bytes));
                got.extend(take(&mut tap));
            }
            tap.detach();
            got.extend(take(&mut tap));
            let after = now();
            let got = ours(&got);
            assert_eq!(data(&got), sorted(sent.clone()), "{at:?} {hook:?}");
            assert_eq!(arrived, sent);
            for record in &got {
                assert_eq!(record.original as usize, record.data.len());
                assert_eq!([record.flags & 3, record.interface], [INBOUND, 7]);
                assert!((before..=after).contains(&record.time), "{record:?}");
            }
            let counts = tap.counts();
            close(counts);
            assert_eq!([counts.lost, counts.truncated], [0, 0]);
            assert_eq!(take(&mut tap), []);
        }
    }
}

#[test]
fn a_full_ring_loses_what_it_says_and_recovers() {
    netloom_kit::root_only!("attaches BPF programs");
    for at in [Where::Xdp, Where::Tc] {
        let pair = pair();
        let options =
            TapOptions { bytes_per_cpu: 0, snaplen: 1600, filter: only(ETHERTYPE), ..small(at) };
        let mut tap = pair.tap(&options);
        let near = pair.near.run(|| Packets::open(2));
        let mut sum = 0;
        for round in 0..20 {
            let sent: Vec<_> = (0..200).map(|i| numbered(100 + i, i + round)).collect();
            for bytes in &sent {
                assert!(near.send(bytes));
            }
            passed(&tap, (round as u64 + 1) * 200);
            let far = tap.counts();
            close(far);
            let got = take(&mut tap);
            assert!(got.iter().all(|record| sent.contains(&record.data)), "round {round}");
            assert!(!got.is_empty(), "room again in round {round}");
            sum += got.len() as u64;
            assert_eq!(far.captured, sum);
        }
        let counts = tap.counts();
        close(counts);
        assert_eq!(counts.captured + counts.lost, 4000, "{at:?}");
        assert!(counts.lost > 1000, "{at:?}: {counts:?}");
    }
}

/// How often the calling thread has slept.
fn slept() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn nobody_is_woken_by_a_tap_to_which_nothing_comes_and_at_once_by_one_frame() {
    netloom_kit::root_only!("attaches BPF programs");
    for at in [Where::Xdp, Where::Tc] {
        let pair = pair();
        let options = TapOptions { filter: only(ETHERTYPE), ..TapOptions::at(at) };
        let mut tap = pair.tap(&options);
        for _ in 0..2 {
            let before = slept();
            assert!(!tap.wait(Duration::from_millis(500), None));
            assert!(slept() - before <= 5, "{at:?}: {} times", slept() - before);
        }
        let near = pair.near.run(|| Packets::open(2));
        for number in 1..=20 {
            let began = Instant::now();
            let sleeper = std::thread::spawn(move || {
                assert!(tap.wait(BOUND * 10, None));
                tap
            });
            // Before it sleeps, or while it does.
            (0..number * 10).for_each(|_| std::thread::yield_now());
            assert!(near.send(&numbered(100, number)));
            tap = sleeper.join().unwrap();
            assert!(began.elapsed() < BOUND * 10, "found, and not told");
            assert_eq!(data(&take(&mut tap)), [numbered(100, number)]);
            // Long enough to ask for the bell again.
            assert!(!tap.wait(Duration::from_millis(20), None));
        }
        let (call, caller) = std::io::pipe().unwrap();
        (&caller).write_all(b"x").unwrap();
        let began = Instant::now();
        assert!(!tap.wait(BOUND * 10, Some(call.as_fd())));
        assert!(began.elapsed() < BOUND * 10, "called, and not heard");
        close(tap.counts());
    }
}

#[test]
fn the_first_bytes_alone_are_kept_of_long_frames() {
    netloom_kit::root_only!("attaches BPF programs");
    for at in [Where::Xdp, Where::Tc] {
        for snaplen in [1, 7, 33, 64, 128, 1000] {
            let pair = pair();
            let filter = only(ETHERTYPE);
            let mut tap = pair.tap(&TapOptions { snaplen, filter, ..small(at) });
            let near = pair.near.run(|| Packets::open(2));
            let sent = [numbered(60, 1), numbered(1000, 2), numbered(1400, 3)];
            for bytes in &sent {
                assert!(near.send(bytes));
            }
            passed(&tap, 3);
            let mut got = take(&mut tap);
            got.sort_by_key(|record| record.original);
            for (record, bytes) in got.iter().zip(&sent) {
                let kept = bytes.len().min(snaplen as usize);
                assert_eq!(record.data, bytes[..kept], "{at:?} {snaplen}");
                assert_eq!(record.original as usize, bytes.len());
            }
            let cut = sent.iter().filter(|bytes| bytes.len() > snaplen as usize).count() as u64;
            let counts = tap.counts();
            assert_eq!([counts.captured, counts.truncated], [3, cut]);
        }
    }
}

#[test]
fn a_filter_counts_what_it_does_not_take() {
    netloom_kit::root_only!("attaches BPF programs");
    for (at, hook) in ways() {
        let pair = pair();
        let options = TapOptions { filter: only(0x88b6), egress: false, ..small(at) };
        let mut tap = pair.far.run(|| Tap::attach_by(hook, 3, &options)).unwrap();
        let near = pair.near.run(|| Packets::open(2));
        let mut other = numbered(200, 9);
        other[13] = 0xb6;
        near.send_in_order(&ten_and(&other));
        passed(&tap, 1);
        tap.detach();
        assert_eq!(data(&take(&mut tap)), [other], "{at:?} {hook:?}");
        let counts = tap.counts();
        close(counts);
        assert_eq!(counts.captured, 1);
        assert!(counts.filtered >= 10, "{counts:?}");
    }
}

#[test]
fn tags_beside_the_frame_are_put_back() {
    netloom_kit::root_only!("attaches BPF programs");
    let [core, a, b] = std::array::from_fn(|_| NetNs::create());
    core.bridge(10);
    link(core.end(11), a.end(21));
    link(core.end(12), b.end(22));
    core.enslave(11, 10);
    core.enslave(12, 10);
    let tagged = [&[0x81, 0x00, 0x20, 0x05], &ETHERTYPE.to_be_bytes()[..]].concat();
    for filter in [None, only(0x8100)] {
        let options = TapOptions { filter, ..small(Where::Tc) };
        let mut taps = [11, 12].map(|index| core.run(|| Tap::attach(index, &options)).unwrap());
        let from = a.run(|| Packets::open(21));
        let mut sent = numbered(300, 3);
        sent.splice(12..14, tagged.clone());
        sent[..6].fill(0xff);
        assert!(from.send(&sent));
        for (tap, direction) in taps.iter_mut().zip([INBOUND, OUTBOUND]) {
            let is_it = |record: &Record| record.data[12..14] == [0x81, 0];
            let got =
                wait_until("the frame is captured", BOUND, || take(tap).into_iter().find(is_it));
            assert_eq!(got.data, sent);
            assert_eq!([got.original, got.flags & 3], [304, direction]);
        }
    }
}

#[test]
fn super_frames_are_whole_and_say_so() {
    netloom_kit::root_only!("attaches BPF programs");
    super::traffic::insight_only!();
    let pair = pair();
    pair.near.address(2, [10, 9, 0, 2]);
    pair.far.address(3, [10, 9, 0, 3]);
    let options = TapOptions { bytes_per_cpu: 64 << 20, ..TapOptions::at(Where::Tc) };
    let mut taps = [
        pair.near
            .run(|| Tap::attach(2, &TapOptions { ingress: false, ..options.clone() }))
            .unwrap(),
        pair.far.run(|| Tap::attach(3, &TapOptions { egress: false, ..options.clone() })).unwrap(),
    ];
    let listener = pair.far.run(|| TcpListener::bind("10.9.0.3:0").unwrap());
    let to = listener.local_addr().unwrap();
    let sent: Vec<u8> = (0..8_000_000u32).map(|i| u8::try_from(i % 251).unwrap()).collect();
    let copy = sent.clone();
    let mut sender = pair.near.run(|| TcpStream::connect(to).unwrap());
    let writer = std::thread::spawn(move || sender.write_all(&copy).unwrap());
    let mut received = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
    writer.join().unwrap();
    assert!(received == sent);
    for tap in &mut taps {
        tap.detach();
        let got = take(tap);
        let counts = tap.counts();
        close(counts);
        assert_eq!([counts.lost, counts.truncated], [0, 0]);
        let segments = |record: &&Record| record.data[12..14] == [8, 0] && record.data[23] == 6;
        let tcp: Vec<&Record> = got.iter().filter(segments).collect();
        let sequence = |r: &Record| u32::from_be_bytes(r.data[38..42].try_into().unwrap());
        let first = tcp.iter().find(|r| r.data[47] & 2 != 0).map(|r| sequence(r)).unwrap();
        let mut whole = vec![0u8; sent.len()];
        for record in &tcp {
            let payload = &record.data[14 + 20 + usize::from(record.data[46] >> 4) * 4..];
            let at = sequence(record).wrapping_sub(first).wrapping_sub(1) as usize;
            if !payload.is_empty() {
                whole[at..at + payload.len()].copy_from_slice(payload);
            }
            assert_eq!(record.original as usize, record.data.len());
        }
        assert!(whole == sent, "every byte is there");
        let longest = tcp.iter().max_by_key(|record| record.original).unwrap();
        assert!(longest.original > 60_000, "{}", longest.original);
        assert_eq!(longest.flags & (UNFINISHED | SEGMENTS), UNFINISHED | SEGMENTS);
    }
}

#[test]
fn directions_are_told_apart_and_taps_stand_side_by_side() {
    netloom_kit::root_only!("attaches BPF programs");
    let pair = pair();
    let [near, far] =
        [(&pair.near, 2), (&pair.far, 3)].map(|(space, index)| space.run(|| Packets::open(index)));
    let mut both = pair.tap(&small(Where::Tc));
    let mut out = pair.tap(&TapOptions { ingress: false, direction: false, ..small(Where::Tc) });
    let mut xdp = pair.tap(&small(Where::Xdp));
    let (toward, back) = (numbered(100, 1), numbered(200, 2));
    assert!(near.send(&toward));
    assert!(far.send(&back));
    far.collect(1, BOUND);
    near.collect(1, BOUND);
    let got = ours(&take(&mut both));
    let of = |direction| got.iter().find(|r| r.flags & 3 == direction).map(|r| r.data.clone());
    assert_eq!([of(INBOUND), of(OUTBOUND)], [Some(toward.clone()), Some(back.clone())]);
    let got = ours(&take(&mut out));
    assert_eq!((data(&got), got[0].flags), (vec![back], 0));
    let got = ours(&take(&mut xdp));
    assert_eq!((data(&got), got[0].flags), (vec![toward], 0));
    let refused = pair.far.run(|| Tap::attach(3, &small(Where::Xdp))).unwrap_err().to_string();
    assert!(refused.contains("interface 3 (eth3)"), "{refused}");
    assert!(refused.contains("\"nl_tap_xdp\" already"), "{refused}");
    let wrong = TapOptions { egress: true, ..small(Where::Xdp) };
    pair.far.run(|| Tap::attach(3, &wrong)).unwrap_err();
}

#[test]
fn a_sink_ends_frames_that_it_captures() {
    netloom_kit::root_only!("attaches BPF programs");
    for (at, hook) in ways() {
        let pair = pair();
        let options =
            TapOptions { sink: true, egress: false, filter: only(ETHERTYPE), ..small(at) };
        let mut tap = pair.far.run(|| Tap::attach_by(hook, 3, &options)).unwrap();
        let [near, far] = [(&pair.near, 2), (&pair.far, 3)]
            .map(|(space, index)| space.run(|| Packets::open(index)));
        assert!(near.send(&numbered(100, 1)));
        passed(&tap, 1);
        assert_eq!(data(&ours(&take(&mut tap))), [numbered(100, 1)]);
        drop(tap);
        assert!(near.send(&numbered(100, 2)));
        let arrived = far.collect(1, BOUND).remove(0).bytes;
        assert_eq!(arrived, numbered(100, 2), "{at:?} {hook:?}: and not the first one");
    }
}

#[test]
fn frames_for_other_stations_end_where_only_the_stack_would_drop_them() {
    netloom_kit::root_only!("attaches BPF programs");
    super::traffic::insight_only!();
    let pair = pair();
    let of_type = TapOptions { filter: only(ETHERTYPE), ..small(Where::Xdp) };
    let mut tap = pair.tap(&TapOptions { others: true, veth: true, ..of_type });
    let near = pair.near.run(|| Packets::open(2));
    // Sees all interfaces, so that the program knows nothing of it.
    let anywhere = pair.far.run(|| Packets::open(0));
    let other = |number| {
        let mut bytes = numbered(100, number);
        bytes[5] ^= 0x40;
        bytes
    };
    let mut group = numbered(100, 3);
    group[0] |= 1;
    near.send_in_order(&[other(1), numbered(100, 2), group.clone()]);
    passed(&tap, 3);
    assert_eq!(
        data(&ours(&take(&mut tap))),
        sorted(vec![other(1), numbered(100, 2), group.clone()])
    );
    let arrived: Vec<_> = anywhere.collect(2, BOUND).into_iter().map(|seen| seen.bytes).collect();
    assert_eq!(arrived, [numbered(100, 2), group], "not the one for another station");

    // The station may get another address.
    let mut own = mac(3);
    own[5] ^= 0x40;
    pair.far.change(|batch| batch.push("address", &Change::of(3).mac(own)));
    assert!(near.send(&other(4)));
    assert_eq!(anywhere.collect(1, BOUND).remove(0).bytes, other(4));
    pair.far.change(|batch| batch.push("address", &Change::of(3).mac(mac(3))));

    // Each of these sees the interface's frames.
    {
        let here = pair.far.run(|| Packets::open(3));
        assert!(near.send(&other(5)));
        assert_eq!(here.collect(1, BOUND).remove(0).bytes, other(5));
    }
    {
        let here = pair.far.run(|| Packets::open_all(3));
        assert!(near.send(&other(6)));
        assert_eq!(here.collect(1, BOUND).remove(0).bytes, other(6));
    }
    anywhere.collect(2, BOUND);
    for hook in [Hook::Tcx, Hook::Clsact] {
        let at_tc = TapOptions { egress: false, filter: only(ETHERTYPE), ..small(Where::Tc) };
        let mut second = pair.far.run(|| Tap::attach_by(hook, 3, &at_tc)).unwrap();
        assert!(near.send(&other(7)));
        assert_eq!(anywhere.collect(1, BOUND).remove(0).bytes, other(7));
        assert_eq!(data(&ours(&take(&mut second))), [other(7)], "{hook:?}");
    }
}

#[test]
fn every_frame_passes_a_tap_that_is_no_sink() {
    netloom_kit::root_only!("attaches BPF programs");
    super::traffic::insight_only!();
    let pair = pair();
    let near = pair.near.run(|| Packets::open(2));
    // Sees all interfaces, so that the program of a sink knows nothing of it.
    let anywhere = pair.far.run(|| Packets::open(0));
    let to = |number, first: u8, last: u8| {
        let mut bytes = numbered(100, number);
        bytes[0] = first;
        bytes[5] ^= last;
        bytes
    };
    let own = numbered(100, 1);
    let other = to(2, own[0], 0x40);
    let multicast = to(3, own[0] | 1, 0);
    let mut broadcast = numbered(100, 4);
    broadcast[..6].fill(0xff);
    let all = [other, own, multicast, broadcast];
    for (at, sink) in [(Where::Tc, false), (Where::Xdp, false), (Where::Xdp, true)] {
        let of_type = TapOptions { filter: only(ETHERTYPE), ..small(at) };
        let mut tap = pair.tap(&TapOptions { others: sink, veth: true, ..of_type });
        near.send_in_order(&all);
        passed(&tap, 4);
        assert_eq!(data(&ours(&take(&mut tap))), sorted(all.to_vec()), "{at:?} {sink}");
        let arriving = if sink { &all[1..] } else { &all[..] };
        let arrived = anywhere.collect(arriving.len(), BOUND);
        let arrived: Vec<_> = arrived.into_iter().map(|seen| seen.bytes).collect();
        assert_eq!(arrived, arriving, "{at:?} {sink}");
    }
}

#[test]
fn a_reading_of_the_clock_is_shared_by_frames_of_one_poll_only() {
    netloom_kit::root_only!("attaches BPF programs");
    let _kept = netloom_kit::tai_kept();
    let pair = pair();
    let options = TapOptions { filter: only(ETHERTYPE), ..small(Where::Xdp) };
    let mut tap = pair.tap(&TapOptions { others: true, veth: true, ..options });
    let near = pair.near.run(|| Packets::open(2));
    let mut other = numbered(100, 1);
    other[5] ^= 0x40;
    for number in 1..=40 {
        let before = now();
        assert!(near.send(&other));
        passed(&tap, number);
        let after = now();
        let time = ours(&take(&mut tap))[0].time;
        assert!((before..=after).contains(&time), "frame {number}: {before} {time} {after}");
    }
}

#[test]
fn a_tap_is_told_of_an_interface_that_vanished() {
    netloom_kit::root_only!("attaches BPF programs");
    for at in [Where::Xdp, Where::Tc] {
        let pair = pair();
        let tap = pair.tap(&small(at));
        assert!(tap.is_attached());
        pair.far.change(|batch| batch.push("delete", &DeleteLink(3.into())));
        wait_until("the link says so", BOUND, || (!tap.is_attached()).then_some(()));
    }
}

#[test]
fn a_socket_filter_counts_both_sides() {
    netloom_kit::root_only!("attaches BPF programs");
    let pair = pair();
    let filter = SocketFilter::load(&only(0x88b6).unwrap(), 50).unwrap();
    let near = pair.near.run(|| Packets::open(2));
    let far = pair.far.run(|| Packets::open_all(3));
    far.attach_filter(filter.as_fd());
    let mut other = numbered(200, 9);
    other[13] = 0xb6;
    near.send_in_order(&ten_and(&other));
    assert_eq!(far.collect(1, BOUND)[0].bytes, other[..50]);
    let counts = filter.counts();
    close(counts);
    assert_eq!(counts.captured, 1);
    assert!(counts.filtered >= 10, "{counts:?}");
}

#[test]
fn a_killed_process_leaves_nothing_attached() {
    netloom_kit::root_only!("attaches BPF programs");
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    super::traffic::tcx_only!();
    let pair = pair();
    let mut child = pair.far.run(|| {
        netloom_kit::again(&a_killed_process_leaves_nothing_attached)
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    });
    let output = BufReader::new(child.stdout.take().unwrap());
    let ready = output.lines().any(|line| line.unwrap().contains("attached"));
    assert!(ready);
    pair.far.run(|| Tap::attach(3, &small(Where::Xdp))).expect_err("the child's is there");
    assert_eq!(tcx(&pair), [1, 1]);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("no program is left", BOUND, || (tcx(&pair) == [0, 0]).then_some(()));
    pair.tap(&small(Where::Xdp));
}

/// Attaches taps, says so, and waits to be killed.
fn child() {
    let _taps = [Where::Xdp, Where::Tc].map(|at| Tap::attach(3, &small(at)).unwrap());
    println!("attached");
    let _ = std::io::stdin().read(&mut [0]);
}

/// How many programs are attached by tcx at ingress and egress.
fn tcx(pair: &Pair) -> [u32; 2] {
    pair.far.run(|| {
        [libbpf_sys::BPF_TCX_INGRESS, libbpf_sys::BPF_TCX_EGRESS].map(|at| {
            let mut opts = libbpf_sys::bpf_prog_query_opts {
                sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as u64,
                ..Default::default()
            };
            // SAFETY: options of the size they say, with no room for ids, which asks for their number.
            let refused = unsafe { libbpf_sys::bpf_prog_query_opts(3, at, &raw mut opts) };
            assert_eq!(refused, 0);
            // SAFETY: both members of the union are the same u32.
            unsafe { opts.__bindgen_anon_1.count }
        })
    })
}
