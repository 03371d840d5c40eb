//! Real interfaces: every sent frame is in the file, once, byte for byte, by every engine.

use super::world;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use netloom_capture::engine::{Direction, Pcap, Ring, Switch, Tpacket, TpacketOptions};
use netloom_capture::{
    Description, Engine, FileOptions, Options, Pipeline, Report, Source, Target,
};
use netloom_ebpf::capture::{TapOptions, Where};
use netloom_filter::{Insn, Program};
use netloom_kit::{isolated, needs, program, root_only, wait_for_carrier, wait_until};
use netloom_libpcap::LiveOptions;
use netloom_netlink::{Batch, Change, DeleteLink, EndSpec, Socket, VethSpec};
use netloom_pcap::ng;
use netloom_rawsock::{Frames, Sender};
use world::{BOUND, Packet, Seen, end, read, wait_for};

const A: u32 = 77;
const B: u32 = 78;

/// A pair that carries nothing of its own accord.
fn pair(indexes: [u32; 2]) {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    let end = |name, index| EndSpec { index: Some(index), ..EndSpec::new(name) };
    let mut batch = Batch::new();
    batch.push("pair", &VethSpec::new(end("a", indexes[0]), end("b", indexes[1])));
    indexes.iter().for_each(|index| batch.push("up", &Change::of(*index).up()));
    Socket::open().unwrap().run(&mut batch).unwrap();
    wait_for_carrier(indexes[0]);
}

/// The n-th frame: to all, of IEEE 802's number for local experiments, of many lengths.
fn frame(n: u32) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.extend(n.to_be_bytes());
    let length = 60 + usize::try_from(n * 37 % 1400).unwrap();
    frame.resize(length, u8::try_from(n % 251).unwrap());
    frame
}

/// Sends frames of these numbers by the interface, through its queue; by one CPU, since frames of several have no order.
fn send(index: u32, numbers: std::ops::Range<u32>) {
    let send = || {
        let mut one = rustix::thread::CpuSet::new();
        one.set(rustix::thread::sched_getcpu());
        rustix::thread::sched_setaffinity(None, &one).unwrap();
        let mut sender = Sender::open(index, netloom_rawsock::Path::Queue).unwrap();
        let all: Vec<Vec<u8>> = numbers.map(frame).collect();
        for part in all.chunks(1024) {
            let set: Vec<&[u8]> = part.iter().map(Vec::as_slice).collect();
            sender.send(&mut Frames::round(&set, set.len()).unwrap()).unwrap();
        }
    };
    std::thread::scope(|scope| scope.spawn(send).join().unwrap());
}

/// Takes the frames whose number is even.
fn even() -> Program {
    let [load, test, return_it] = [0x30, 0x45, 0x06];
    Program::new(vec![
        Insn::new(load, 0, 0, 17),
        Insn::new(test, 0, 1, 1),
        Insn::new(return_it, 0, 0, 0),
        Insn::new(return_it, 0, 0, u32::MAX),
    ])
    .unwrap()
}

/// A way to take frames that an interface receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Tpacket(usize),
    Tap(Where),
    Pcap,
}

/// The captured frames, and the engine.
#[derive(Clone, Debug, Default)]
struct Take {
    filter: Option<Program>,
    snaplen: u32,
    direction: Direction,
}

fn engines(way: Way, index: u32, number: u32, take: &Take) -> Vec<Box<dyn Engine>> {
    let Take { filter, snaplen, direction } = take.clone();
    match way {
        Way::Tpacket(threads) => {
            let options =
                TpacketOptions { threads, filter, snaplen, direction, ..TpacketOptions::default() };
            let rings = Tpacket::open(index, &options).unwrap();
            rings.into_iter().map(|ring| Box::new(ring) as Box<dyn Engine>).collect()
        }
        Way::Tap(at) => {
            let egress = at == Where::Tc && direction != Direction::In;
            let ingress = direction != Direction::Out;
            let options = TapOptions {
                filter,
                snaplen,
                interface: number,
                ingress,
                egress,
                ..TapOptions::at(at)
            };
            vec![Box::new(Ring::attach(index, &options).unwrap())]
        }
        Way::Pcap => {
            let name = if index == A { "a" } else { "b" };
            let filter = filter.map(|_| "ether[17] & 1 = 0".to_owned());
            let snaplen = if snaplen == 0 { 262_144 } else { snaplen };
            let options = LiveOptions { filter, snaplen, ..LiveOptions::default() };
            vec![Box::new(Pcap::open(name, &options).unwrap())]
        }
    }
}

fn source(name: &str, engines: Vec<Box<dyn Engine>>) -> Source {
    Source { description: Description::new(name), engines, reopen: None, statistics: None }
}

fn start(path: &Path, sources: Vec<Source>) -> Pipeline {
    Pipeline::start(Options::default(), sources, Target::Files(FileOptions::new(path))).unwrap()
}

/// The numbers of frames, each of which is whole.
fn numbers(seen: &Seen, interface: u32) -> Vec<u32> {
    let of = |packet: &&Packet| packet.interface == interface;
    seen.packets.iter().filter(of).map(number).collect()
}

fn number(packet: &Packet) -> u32 {
    let n = u32::from_be_bytes(packet.data[14..18].try_into().unwrap());
    assert!(packet.data == frame(n), "frame {n} is not what was sent");
    assert_eq!(packet.original as usize, packet.data.len());
    n
}

/// Captures what `a` sends to `b`, at `b`.
fn captured(way: Way, take: &Take, count: u32, most: u64) -> (Report, Seen) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let capture = start(&path, vec![source("b", engines(way, B, 0, take))]);
    send(A, 0..count);
    wait_for(&capture, &format!("all frames by {way:?}"), |s| s.total.captured >= most);
    let report = end(capture);
    assert!(report.failure.is_none(), "{:?}", report.failure);
    count_by_others(&path, report.last.total.written);
    (report, read(&path))
}

/// What another reader says of the file.
fn count_by_others(path: &Path, packets: u64) {
    // It changes its user, for which there is none in a namespace of an ordinary user's.
    if let Some(tcpdump) = program("tcpdump").filter(|_| root_outside(netloom_kit::is_root())) {
        let mut read = std::process::Command::new(tcpdump);
        let out = read.args(["--count", "-r"]).arg(path).output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(said.starts_with(&format!("{packets} packet")), "{said} {out:?}");
    }
    if let Some(capinfos) = program("capinfos") {
        let mut read = std::process::Command::new(capinfos);
        let out = read.args(["-c", "-M", "-T", "-r"]).arg(path).output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(said.trim_end().ends_with(&format!("\t{packets}")), "{said} {out:?}");
    }
}

/// All that was sent, in order; a filter takes its part; a snaplen cuts.
fn takes_what_is_sent(way: Way, counts_filtered: bool) {
    // The clock of taps.
    let _kept = netloom_kit::tai_kept();
    pair([A, B]);
    let (report, seen) = captured(way, &Take::default(), 5000, 5000);
    let total = report.last.total;
    assert_eq!((total.offered, total.written, total.lost.total()), (5000, 5000, 0));
    let mut got = numbers(&seen, 0);
    if way == Way::Tpacket(2) {
        got.sort_unstable();
    }
    assert!(got == (0..5000).collect::<Vec<_>>(), "all, in order");
    let times: Vec<u64> = seen.packets.iter().map(|packet| packet.time).collect();
    assert!(way == Way::Tpacket(2) || times.is_sorted());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let age = u64::try_from(now.as_nanos()).unwrap() - times[0];
    assert!(age < 60_000_000_000, "times are Unix times: {age} ns ago");

    let take = Take { filter: Some(even()), ..Take::default() };
    let (report, seen) = captured(way, &take, 5000, 2500);
    let total = report.last.total;
    let refused = if counts_filtered { 2500 } else { 0 };
    assert_eq!((total.filtered, total.written, total.lost.total()), (refused, 2500, 0));
    let mut got = numbers(&seen, 0);
    got.sort_unstable();
    assert!(got == (0..5000).step_by(2).collect::<Vec<_>>(), "the even ones");

    let take = Take { snaplen: 100, ..Take::default() };
    let (report, seen) = captured(way, &take, 1000, 1000);
    let mut cut = 0;
    for packet in &seen.packets {
        let whole = frame(u32::from_be_bytes(packet.data[14..18].try_into().unwrap()));
        assert_eq!(packet.data, whole[..whole.len().min(100)]);
        assert_eq!(packet.original as usize, whole.len());
        cut += u64::from(whole.len() > 100);
    }
    assert_eq!((report.last.total.written, report.last.total.truncated), (1000, cut));
}

#[test]
fn a_packet_socket_takes_what_is_sent() {
    // Only root may load the filter that counts.
    let root = netloom_kit::is_root();
    isolated!({ takes_what_is_sent(Way::Tpacket(1), root_outside(root)) });
}

#[test]
fn two_packet_sockets_share_what_is_sent() {
    let root = netloom_kit::is_root();
    isolated!({ takes_what_is_sent(Way::Tpacket(2), root_outside(root)) });
}

/// Whether real root started the test, not a user that is root in its own namespace.
fn root_outside(root: bool) -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    root && map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[test]
fn a_tap_at_tc_takes_what_is_sent() {
    root_only!("loads BPF programs");
    isolated!({ takes_what_is_sent(Way::Tap(Where::Tc), true) });
}

#[test]
fn a_tap_at_xdp_takes_what_is_sent() {
    root_only!("loads BPF programs");
    isolated!({ takes_what_is_sent(Way::Tap(Where::Xdp), true) });
}

#[test]
fn libpcap_takes_what_is_sent() {
    needs!("libpcap");
    isolated!({ takes_what_is_sent(Way::Pcap, false) });
}

/// One file of what one end sends and the other receives.
fn both_ends(way: Way) {
    pair([A, B]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let of = |index, number, direction| {
        engines(way, index, number, &Take { direction, ..Take::default() })
    };
    let sources =
        vec![source("a", of(A, 0, Direction::Out)), source("b", of(B, 1, Direction::Both))];
    let capture = start(&path, sources);
    send(A, 0..3000);
    send(B, 3000..3500);
    wait_for(&capture, "all frames", |s| s.total.captured >= 6500);
    let report = end(capture);
    let ledgers: Vec<_> = report.last.interfaces.iter().map(|i| i.ledger).collect();
    assert_eq!((ledgers[0].written, ledgers[1].written), (3000, 3500));
    let seen = read(&path);
    assert!(numbers(&seen, 0) == (0..3000).collect::<Vec<_>>());
    assert!(numbers(&seen, 1) == (0..3500).collect::<Vec<_>>());
    let mut directions: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for packet in &seen.packets {
        *directions.entry((packet.interface, packet.flags & 3)).or_default() += 1;
    }
    let expected = [((0, ng::OUTBOUND), 3000), ((1, ng::INBOUND), 3000), ((1, ng::OUTBOUND), 500)];
    assert_eq!(directions.into_iter().collect::<Vec<_>>(), expected);
    let last: Vec<_> = seen.statistics.iter().rev().take(2).collect();
    assert_eq!((last[0].interface, last[0].delivered), (1, Some(3500)));
    assert_eq!((last[1].interface, last[1].delivered), (0, Some(3000)));
    count_by_others(&path, 6500);
}

#[test]
fn packet_sockets_of_two_interfaces_share_a_file() {
    isolated!({ both_ends(Way::Tpacket(1)) });
}

#[test]
fn taps_at_two_interfaces_share_a_file() {
    root_only!("loads BPF programs");
    isolated!({ both_ends(Way::Tap(Where::Tc)) });
}

/// What comes in at `b`, which is looked for when it is gone.
fn returning(way: Way) -> Source {
    let take = || Take { direction: Direction::In, ..Take::default() };
    let mut of_b = source("b", engines(way, B, 0, &take()));
    of_b.reopen = Some(Box::new(move |_| {
        let link = Socket::open().unwrap().link("b").unwrap()?;
        engines(way, link.index, 0, &take()).pop()
    }));
    of_b
}

/// Deletes the pair and makes another one with its names.
fn replace() {
    let mut batch = Batch::new();
    batch.push("pair", &DeleteLink::new(A));
    Socket::open().unwrap().run(&mut batch).unwrap();
    pair([A + 10, B + 10]);
}

/// The pair is deleted, and made again with other numbers.
fn goes_and_returns(way: Way) {
    pair([A, B]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let capture = start(&path, vec![returning(way)]);
    send(A, 0..1000);
    wait_for(&capture, "frames before", |s| s.total.captured == 1000);
    replace();
    // Nobody tells when it was found: frames that come before are not offered.
    let mut sent = 1000;
    wait_until("frames after", BOUND, || {
        send(A + 10, sent..sent + 1);
        sent += 1;
        (capture.snapshot().total.captured > 1000).then_some(())
    });
    send(A + 10, sent..2000);
    wait_until("the last frame", BOUND, || {
        read(&path).packets.last().is_some_and(|last| number(last) == 1999).then_some(())
    });
    let report = end(capture);
    assert!(report.failure.is_none(), "{:?}", report.failure);
    let seen = read(&path);
    let got = numbers(&seen, 0);
    assert_eq!((seen.interfaces.len(), got.len() as u64), (1, report.last.total.written));
    let next = got[1000];
    assert!(got.into_iter().eq((0..1000).chain(next..2000)));
    let told: Vec<_> = seen.packets.iter().filter_map(|packet| packet.comment.as_ref()).collect();
    assert_eq!(told.len(), 1);
    // Each CPU has a ring: the one that is read first need not have the first frame.
    let at = seen.packets.iter().position(|packet| packet.comment.is_some());
    assert!(at >= Some(1000) && told[0].starts_with("b was gone from 2"), "{at:?} {told:?}");
}

#[test]
fn a_packet_socket_finds_its_interface_again() {
    isolated!({ goes_and_returns(Way::Tpacket(1)) });
}

#[test]
fn a_tap_finds_its_interface_again() {
    root_only!("loads BPF programs");
    isolated!({ goes_and_returns(Way::Tap(Where::Tc)) });
}

#[test]
fn libpcap_finds_its_interface_again() {
    needs!("libpcap");
    isolated!({ goes_and_returns(Way::Pcap) });
}

/// By name it was there all the time.
#[test]
fn libpcap_finds_an_interface_again_that_was_replaced_before_it_looked() {
    needs!("libpcap");
    isolated!({
        pair([A, B]);
        let folder = tempfile::tempdir().unwrap();
        let of_b = returning(Way::Pcap);
        replace();
        let capture = start(&folder.path().join("a.pcapng"), vec![of_b]);
        wait_until("a frame of the new one", BOUND, || {
            send(A + 10, 0..1);
            (capture.snapshot().total.captured > 0).then_some(())
        });
        let report = end(capture);
        assert!(report.failure.is_none(), "{:?}", report.failure);
    });
}

use super::port_hand;

#[test]
fn a_mirror_port_takes_what_a_switch_sends_it() {
    let hand = port_hand::Hand::new("capture");
    let (port, mut at) = hand.port(1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let engine: Box<dyn Engine> = Box::new(Switch::new(port, Some(even())));
    let capture = start(&path, vec![source("lan", vec![engine])]);
    let super_frame = netloom_packet::VnetHeader {
        needs_csum: true,
        gso: netloom_packet::Gso::TcpV4,
        gso_size: 1448,
        hdr_len: 54,
        csum_start: 34,
        csum_offset: 16,
        ..netloom_packet::VnetHeader::default()
    };
    let (mut sent, mut supers) = (0, 0);
    for n in 0..2000 {
        let (header, frame) = if n % 500 == 2 {
            supers += 1;
            (super_frame.encode(), frame(n).repeat(20))
        } else {
            ([0; 10], frame(n))
        };
        let whole = [&header[..], &frame].concat();
        wait_until("room in the ring", BOUND, || {
            let put = at.down.queue(2, &whole) == netloom_shm::ring::Pushed::Done;
            at.down.flush();
            put.then_some(())
        });
        sent += 1;
    }
    wait_for(&capture, "all frames", |s| s.total.offered == sent);
    let report = end(capture);
    let total = report.last.total;
    assert_eq!((total.offered, total.filtered, total.written), (2000, 1000, 1000));
    let seen = read(&path);
    let flagged = ng::CHECKSUM_UNFINISHED | ng::SEGMENTS;
    let (whole, plain): (Vec<_>, Vec<_>) = seen.packets.iter().partition(|p| p.flags == flagged);
    assert_eq!((whole.len(), plain.len()), (supers, 1000 - supers));
    for (n, packet) in (0..2000).step_by(2).zip(&seen.packets) {
        let times = if n % 500 == 2 { 20 } else { 1 };
        assert!(packet.data == frame(n).repeat(times), "frame {n}");
    }
    assert!(Duration::ZERO < report.last.elapsed);
}
