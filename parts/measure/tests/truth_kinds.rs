//! Kinds of traffic over a bridge: packets and bytes at four points against taps at both ends and against
//! what the kernel or the receiving program has counted.

use super::truth_support;

use std::collections::BTreeMap;

use netloom_ebpf::measure::Config;
use netloom_kit::{lacks, root_only};
use netloom_marking::match_samples;
use netloom_marking::session::Program;
use netloom_netlink::offload::Offloads;
use netloom_packet::checksum::{add, checksum, fold};
use netloom_port::{PacketPort, Port, Sent};
use rustix::net::{AddressFamily, SendFlags, SocketAddrV4, SocketType, ipproto};

use truth_support::TO;
use truth_support::kinds::{Count, block_of, datagrams, flows, stream, until};
use truth_support::net::{A, B, Line, RIGHT, V4, mac};
use truth_support::points::{Block, Points, bob, config, short};
use truth_support::tap::{Noted, Tap};

/// The counts of one flow.
#[derive(Default)]
struct Counted {
    /// Of all blocks, at both ends' taps and at all points.
    total: Count,
    /// Super-frames that the sender's tap saw.
    supers: u64,
}

/// Does `traffic` until a time that is in the second block, and compares points and taps by block.
/// `hidden` are bytes of each packet that the receiver's tap does not show. What there was, by IPv4 and by
/// IPv6, and what the points said.
fn through(
    line: &Line,
    wanted: &Config,
    [protocol, hidden]: [u8; 2],
    traffic: impl FnOnce(u64),
) -> ([Counted; 2], Vec<(u64, Block)>) {
    let taps = [Tap::open(&line.a, A), Tap::open(&line.b, B)];
    between(taps, line, wanted, [protocol, hidden], traffic)
}

/// The same by these taps at both ends.
fn between(
    taps: [Tap; 2],
    line: &Line,
    wanted: &Config,
    [protocol, hidden]: [u8; 2],
    traffic: impl FnOnce(u64),
) -> ([Counted; 2], Vec<(u64, Block)>) {
    let mut points = Points::attach(line, wanted);
    let first = points.begun();
    let start = points.schedule.start();
    traffic(start + first * short() + short() * 9 / 8);
    let blocks = points.blocks(first);
    let ours = |noted: &Noted| noted.read.protocol == protocol;
    let seen = [(0, true), (1, false)].map(|(end, out)| {
        let mut all = taps[end].all(out);
        all.retain(ours);
        all
    });
    let mut truth =
        [(0, 0), (1, u64::from(hidden))].map(|(end, hidden)| by_block(&seen[end], start, hidden));
    assert_eq!(truth[0], truth[1], "the taps");
    for (number, flows) in &blocks {
        for (point, flows) in flows.iter().enumerate() {
            for (flow, counted) in flows.iter().enumerate() {
                let (record, key) = (&counted.record, (flow == 1, *number));
                let known = truth[0].get(&key).copied().unwrap_or_default();
                let counted = [record.all.packets, record.bytes];
                assert_eq!(counted, known, "block {number} point {point} flow {flow}");
                assert!(record.completeness.is_complete(), "{:?}", record.completeness.reasons());
            }
        }
    }
    let mut counted: [Counted; 2] = Default::default();
    for ((v6, number), count) in std::mem::take(&mut truth[0]) {
        assert!(blocks.iter().any(|(known, _)| *known == number), "{number}");
        let total = &mut counted[usize::from(v6)].total;
        *total = [total[0] + count[0], total[1] + count[1]];
    }
    for noted in seen[0].iter().filter(|noted| noted.read.packets > 1) {
        counted[usize::from(noted.read.v6)].supers += 1;
    }
    assert_eq!(points.all[3].counts().unwrap().unmarked, 0);
    (counted, blocks)
}

/// Packets and bytes that a tap saw, by family and block.
fn by_block(seen: &[Noted], start: u64, hidden: u64) -> BTreeMap<(bool, u64), Count> {
    let mut counts: BTreeMap<(bool, u64), Count> = BTreeMap::new();
    for noted in seen {
        let read = &noted.read;
        let [packets, bytes] = counts.entry((read.v6, block_of(noted, start))).or_default();
        *packets += read.packets;
        *bytes += read.bytes + read.packets * hidden;
    }
    counts
}

/// Bytes of headers of Ethernet, IP and UDP, by family.
const HEADERS: [u64; 2] = [42, 62];

#[test]
fn datagrams_are_what_the_receiver_got() {
    root_only!("attaches BPF programs");
    let line = Line::bridged();
    let config = config(Program::All, &flows("17"), short());
    let mut ends = Default::default();
    let (counted, _) = through(&line, &config, [17, 0], |end| {
        ends = datagrams(&line, None, &[1, 100, 1400, 0], end);
    });
    for ((counted, [sent, came]), headers) in counted.iter().zip(ends).zip(HEADERS) {
        assert_eq!(sent, came);
        assert_eq!(counted.total, [came[0], came[1] + came[0] * headers]);
        assert_eq!(counted.supers, 0);
    }
}

/// Whether sockets and taps of this kernel tell, and take, datagrams that are segmented later (Linux 6.2).
fn tells_segments(line: &Line) -> bool {
    line.middle
        .run(|| netloom_port::Tap::create("segments", Default::default()).unwrap().udp_segments())
}

#[test]
fn segmented_datagrams_are_counted_one_by_one() {
    root_only!("attaches BPF programs");
    let line = Line::bridged();
    let config = config(Program::All, &flows("17"), short());
    let mut ends = Default::default();
    // Whole segments, one more with a rest, less than one, exactly one, hardly any.
    let sizes = [12_000, 12_001, 1_199, 1_200, 1, 54_000];
    let taps = [(&line.a, A), (&line.b, B)];
    let taps = taps.map(|(space, index)| match tells_segments(&line) {
        true => Tap::open(space, index),
        false => Tap::of_segments(space, index, 1_200),
    });
    let (counted, _) = between(taps, &line, &config, [17, 0], |end| {
        ends = datagrams(&line, Some(1_200), &sizes, end);
    });
    for ((counted, [sent, came]), headers) in counted.iter().zip(ends).zip(HEADERS) {
        assert_eq!(sent[1], came[1]);
        assert_eq!(came[0], sent[0] / 6 * (10 + 11 + 1 + 1 + 1 + 45));
        assert_eq!(counted.total, [came[0], came[1] + came[0] * headers]);
        assert_eq!(counted.supers, sent[0] / 2);
    }
}

#[test]
fn streams_are_counted_by_their_segments() {
    root_only!("attaches BPF programs");
    let line = Line::bridged();
    let config = config(Program::All, &flows("6"), short());
    let sent = || line.a.counted("Tcp", "OutSegs") + line.a.counted("Tcp", "RetransSegs");
    let before = sent();
    let mut bytes = 0;
    let (counted, _) = through(&line, &config, [6, 0], |end| {
        bytes = std::thread::scope(|scope| {
            let six = scope.spawn(|| stream(&line, true, end));
            stream(&line, false, end) + six.join().unwrap()
        });
    });
    assert!(bytes > 2_000_000, "{bytes}");
    let packets = counted.iter().map(|counted| counted.total[0]).sum::<u64>();
    assert_eq!(packets, sent() - before, "segments that TCP sent");
    assert!(counted.iter().all(|counted| counted.supers > 10));
    eprintln!("{bytes} bytes of data in {packets} segments");
}

#[test]
fn echoes_are_those_that_the_other_end_answers() {
    root_only!("attaches BPF programs");
    let line = Line::bridged();
    let config = config(Program::All, &flows("1"), short());
    let before = line.b.counted("Icmp", "InEchos");
    let mut sent = 0;
    let (counted, _) = through(&line, &config, [1, 0], |end| {
        let (family, kind) = (AddressFamily::INET, SocketType::RAW);
        let icmp = Some(ipproto::ICMP);
        let socket = line.a.run(|| rustix::net::socket(family, kind, icmp).unwrap());
        let to = SocketAddrV4::new(V4[1].parse().unwrap(), 0);
        sent = until(end, |turn| {
            let turn = u16::try_from(turn).unwrap();
            let [high, low] = turn.to_be_bytes();
            // Type 8, code 0, checksum, identifier 1, sequence, no data.
            let sum = (!fold(0x0800 + 1 + u64::from(turn))).to_be_bytes();
            let echo = [8, 0, sum[0], sum[1], 0, 1, high, low];
            rustix::net::sendto(&socket, &echo, SendFlags::empty(), &to).unwrap();
        });
    });
    assert_eq!(line.b.counted("Icmp", "InEchos") - before, sent);
    assert_eq!(counted[0].total, [sent, sent * 42]);
}

#[test]
fn fragments_are_packets() {
    root_only!("attaches BPF programs");
    let line = Line::bridged();
    let config = config(Program::All, &flows("17"), short());
    let made = || [line.a.counted("Ip", "FragCreates"), fragments_v6(&line)];
    let before = made();
    let mut ends = Default::default();
    let (counted, _) = through(&line, &config, [17, 0], |end| {
        ends = datagrams(&line, None, &[8_000, 1_500, 60_000], end);
    });
    let after = made();
    for (flow, headers) in [(0, 14 + 20), (1, 14 + 40 + 8)] {
        let ([sent, came], [packets, bytes]) = (ends[flow], counted[flow].total);
        assert_eq!(sent, came);
        assert_eq!(packets, after[flow] - before[flow]);
        // Each has its own headers; only the first of a datagram has that of UDP.
        assert_eq!(bytes, came[1] + came[0] * 8 + packets * headers);
    }
}

/// Fragments that IPv6 has made.
fn fragments_v6(line: &Line) -> u64 {
    let text = line.a.run(|| std::fs::read_to_string("/proc/thread-self/net/snmp6").unwrap());
    let line = text.lines().find(|line| line.starts_with("Ip6FragCreates")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A frame of UDP with these tags, a header before it: a super-frame if the data is longer than `size`.
fn tagged(tags: &[[u8; 4]], data: usize, size: u16) -> Vec<u8> {
    let mut frame = [&mac(B)[..], &mac(A)].concat();
    tags.iter().for_each(|tag| frame.extend(tag));
    let ip = frame.len() + 2;
    let total = u16::try_from(28 + data).unwrap().to_be_bytes();
    let addresses = [10, 9, 0, 1, 10, 9, 0, 2];
    frame.extend([8, 0, 0x45, 0, total[0], total[1], 0, 1, 0, 0, 64, 17, 0, 0]);
    frame.extend(addresses);
    let sum = checksum(&frame[ip..]);
    frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    let length = u16::try_from(8 + data).unwrap();
    // Of the checksum only the addresses' part, as offload has it.
    let begun = fold(add(17 + u64::from(length), &addresses));
    for word in [4000, TO, length, begun] {
        frame.extend(word.to_be_bytes());
    }
    frame.resize(frame.len() + data, 0x77);
    let mut header = vec![1, 0];
    if data > usize::from(size) {
        header[1] = 5; // VIRTIO_NET_HDR_GSO_UDP_L4
    }
    let start = u16::try_from(ip + 20).unwrap();
    let size = if header[1] == 0 { 0 } else { size };
    for word in [start + 8, size, start, 6] {
        header.extend(word.to_ne_bytes());
    }
    [header, frame].concat()
}

/// Sends frames of datagrams of these lengths with one tag and with two, and has them counted: their packets, their
/// data, and how many are super-frames.
fn tagged_are_counted(lengths: &[usize], [packets, data, supers]: [u64; 3]) {
    let (inner, outer) = ([0x81, 0, 0x60, 5], [0x88, 0xa8, 0, 7]);
    for (tags, hidden) in [(&[inner][..], 4), (&[outer, inner][..], 4)] {
        let line = Line::bridged();
        let config = config(Program::All, &flows("17"), short());
        let mut port = line.a.run(|| PacketPort::open_behind_egress(A).unwrap());
        let frames: Vec<_> = lengths.iter().map(|length| tagged(tags, *length, 1_000)).collect();
        let mut turns = 0;
        let ([counted, _], _) = through(&line, &config, [17, hidden], |end| {
            turns = until(end, |_| {
                for frame in &frames {
                    assert_eq!(port.send(frame).unwrap(), Sent::Done);
                }
            });
        });
        let headers = 42 + 4 * tags.len() as u64;
        assert_eq!(counted.total, [turns * packets, turns * (packets * headers + data)]);
        assert_eq!(counted.supers, turns * supers);
    }
}

#[test]
fn tagged_frames_are_counted_with_their_tags() {
    root_only!("attaches BPF programs");
    tagged_are_counted(&[100, 1_000], [2, 1_100, 0]);
}

#[test]
fn tagged_super_frames_are_counted_with_their_tags() {
    root_only!("attaches BPF programs");
    if !tells_segments(&Line::open()) {
        lacks!("linux-6.2", "packet sockets take no datagrams to be segmented");
    }
    tagged_are_counted(&[100, 10_001], [12, 10_101, 1]);
}

#[test]
fn segments_are_the_same_packets_before_and_behind_who_makes_them() {
    root_only!("attaches BPF programs");
    let line = Line::bridged();
    // The middle sends packets one by one, the sender super-frames.
    line.middle.run(|| {
        let features =
            ["tx-tcp-segmentation", "tx-tcp-mangleid-segmentation", "tx-tcp-ecn-segmentation"];
        Offloads::open().unwrap().set(RIGHT, &features.map(|name| (name, false))).unwrap();
    });
    let config =
        Config { sampling: Some(bob(0, None)), ..config(Program::Fixed, &flows("6"), short()) };
    let ([counted, _], points) = through(&line, &config, [6, 0], |end| {
        stream(&line, false, end);
    });
    assert!(counted.supers > 10);
    let mut packets = 0;
    for (number, points) in &points {
        let lists = [0, 3].map(|at| {
            let flow = &points[at][0];
            assert_eq!(flow.record.unhashable, 0);
            let sampled = flow.sampled.as_ref().unwrap();
            assert_eq!(sampled.unkept, 0, "{}", flow.record.all.packets);
            (sampled.selection, &sampled.samples[..])
        });
        let matched = match_samples(lists[0], lists[1]);
        assert_eq!((matched.lost, matched.gained), (0, 0), "{number}");
        packets += matched.delays.len() as u64 + matched.ambiguous;
    }
    assert_eq!(packets, counted.total[0]);
}
