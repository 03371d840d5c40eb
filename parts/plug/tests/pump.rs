//! Frames through pumps between real interfaces in fresh namespaces.

use super::world;

use std::time::{Duration, Instant};

use netloom_kit::{isolated, needs, needs_tun, wait_until};
use netloom_netlink::{Change, DeleteLink};
use netloom_packet::{VnetHeader, checksum};
use netloom_plug::{Counters, End, Lock, Member, Taken};
use netloom_port::{HEADER, PacketPort, Port, Received, RingOptions, RingPort, Sent};
use rustix::process::{Flock, FlockType, fcntl_getlk};
use world::{Memory, Net, Running, Site, change, stream, tap_node, tcp_counts};

const WAIT: Duration = Duration::from_secs(30);

/// A tagged or plain frame of IEEE 802's number for experiments.
fn frame(tag: &[u8], text: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(tag);
    frame.extend([0x88, 0xb5]);
    frame.extend(text);
    frame.resize(frame.len().max(60), 0);
    frame
}

fn send(port: &mut dyn Port, frame: &[u8]) {
    let whole = [&[0; HEADER][..], frame].concat();
    assert_eq!(port.send(&whole).unwrap(), Sent::Done);
}

/// The next frame of experiments, without its header.
fn next(port: &mut dyn Port) -> Vec<u8> {
    let mut buffer = vec![0; netloom_port::MOST_FRAME];
    wait_until("a frame", WAIT, || match port.receive(&mut buffer).unwrap() {
        Received::Frame { start, length } => Some(buffer[start + HEADER..start + length].to_vec()),
        _ => None,
    })
}

fn packet_port(node: &Net) -> PacketPort {
    node.run(|| PacketPort::open(10).unwrap())
}

fn ring(site: &Site) -> Box<RingPort> {
    Box::new(site.port(RingOptions::default()))
}

#[test]
fn streams_cross_whole_both_ways_with_offloads_on() {
    isolated!({
        for transmit in [0, 4] {
            let sites = [0, 1].map(Site::new);
            let nodes = [&sites[0].node, &sites[1].node];
            let [a, b] = Memory::pair(4 << 20, true);
            let seen = [b.watch(), a.watch()];
            let options = RingOptions { transmit, ..RingOptions::default() };
            let [a, b] = [(&sites[0], a), (&sites[1], b)]
                .map(|(site, end)| Running::merging(Box::new(site.port(options)), Box::new(end)));
            let bytes = 64 << 20;
            let rates = [0, 1].map(|to| stream(nodes, to, bytes));
            for to in [0, 1] {
                let seen = seen[to]();
                assert!(seen.segments >= u64::try_from(bytes / 1500).unwrap(), "{seen:?}");
                assert_eq!(seen.wrong, 0, "{seen:?}");
                assert!(seen.longest > 60_000, "super-frames stay whole: {seen:?}");
                assert_eq!(tcp_counts(nodes[to]).0, 0, "wrong checksums at node {to}");
            }
            let again = nodes.map(|node| tcp_counts(node).1);
            println!("ring of {transmit} MiB for sending: {rates:.2?} Gb/s, sent again {again:?}");
            drop((a, b));
        }
    });
}

#[test]
fn streams_cross_between_a_tap_and_a_veth() {
    isolated!({
        needs_tun!();
        let site = Site::new(0);
        let (node, tap) = tap_node(1);
        let [a, b] = Memory::pair(4 << 20, true);
        let seen = [b.watch(), a.watch()];
        let pumps =
            [Running::start(ring(&site), Box::new(a)), Running::start(Box::new(tap), Box::new(b))];
        let nodes = [&site.node, &node];
        let rates = [0, 1].map(|to| stream(nodes, to, 64 << 20));
        println!("to the veth, to the tap: {rates:.2?} Gb/s");
        for to in [0, 1] {
            assert_eq!(seen[to]().wrong, 0);
            assert_eq!(tcp_counts(nodes[to]).0, 0, "wrong checksums at node {to}");
        }
        drop(pumps);
    });
}

#[test]
fn merged_packets_are_lost_and_counted_where_offloads_are_not_handled() {
    isolated!({
        let sites = [0, 1].map(Site::new);
        let [a, b] = Memory::pair(4 << 20, true);
        let seen = a.watch();
        let old = RingOptions { without_offloads: true, ..RingOptions::default() };
        let a = Running::start(Box::new(sites[0].port(old)), Box::new(a));
        let b = Running::start(ring(&sites[1]), Box::new(b));
        let listener = sites[1].node.run(|| std::net::TcpListener::bind("10.9.0.2:7000").unwrap());
        // Its checksums are unfinished and nobody tells, so that not even a connection comes about.
        let from = sites[0].node.run(|| {
            let place = "10.9.0.2:7000".parse().unwrap();
            std::net::TcpStream::connect_timeout(&place, Duration::from_millis(300)).is_ok()
        });
        assert!(!from, "a connection without checksums");
        // A super-frame, by hand.
        let mut node = packet_port(&sites[0].node);
        let mut merged = vec![1, 1, 54, 0, 0xa8, 5, 34, 0, 16, 0];
        merged.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0]);
        merged.extend((40 + 10 * 1448_u16).to_be_bytes());
        merged.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
        merged.extend([0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        merged.resize(HEADER + 54 + 10 * 1448, 7);
        for _ in 0..5 {
            assert_eq!(node.send(&merged).unwrap(), Sent::Done);
        }
        let counters = counted(&a, |counters| counters.lost.truncated >= 5);
        assert_eq!(counters.lost.truncated, 5, "{counters:?}");
        assert!(seen().longest <= 1514, "{:?}", seen());
        drop((b, listener));
    });
}

/// Packets of a TCP stream with their checksums, the last one with PSH.
fn segments(count: u16) -> Vec<Vec<u8>> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend((40 + count * 1000).to_be_bytes());
    frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
    frame.extend([0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    frame.extend((0..u32::from(count) * 1000).map(|n| n.to_le_bytes()[0]));
    let header = VnetHeader {
        needs_csum: true,
        gso: netloom_packet::Gso::TcpV4,
        gso_size: 1000,
        csum_start: 34,
        csum_offset: 16,
        ..VnetHeader::default()
    };
    packets(&[&header.encode()[..], &frame].concat())
}

/// The packets of a frame with its header, finished.
fn packets(whole: &[u8]) -> Vec<Vec<u8>> {
    let (header, frame) = whole.split_at(HEADER);
    let mut all = vec![];
    let out = &mut |header: &VnetHeader, packet: &[u8]| {
        let mut packet = packet.to_vec();
        checksum::finish(header, &mut packet).unwrap();
        all.push(packet);
    };
    netloom_packet::segment(&VnetHeader::parse(header).unwrap(), frame, out).unwrap();
    all
}

#[test]
fn single_packets_are_merged_and_none_is_changed() {
    isolated!({
        let site = Site::new(0);
        let port = ring(&site);
        let mut witness = site.core.run(|| PacketPort::open(100).unwrap());
        let mut node = packet_port(&site.node);
        let mut sent = segments(40);
        sent.insert(20, frame(&[], b"in between"));
        sent.push(frame(&[], b"behind"));
        for frame in &sent {
            send(&mut node, frame);
        }
        // What this one has, the ring has, too.
        let mut seen = 0;
        while seen < sent.len() {
            seen += usize::from(sent.contains(&next(&mut witness)));
        }
        let [a, mut b] = Memory::pair(4 << 20, false);
        let pump = Running::merging(port, Box::new(a));
        let (mut got, mut merged) = (vec![], 0);
        let mut buffer = vec![0; netloom_port::MOST_FRAME];
        wait_until("all packets", WAIT, || {
            while let Taken::Frame { start, length } = b.receive(&mut buffer).unwrap() {
                let packets = packets(&buffer[start..start + length]);
                merged += usize::from(packets.len() > 1);
                got.extend(packets.into_iter().filter(|packet| sent.contains(packet)));
            }
            (got.len() >= sent.len()).then_some(())
        });
        assert!(got == sent, "{} of {}", got.len(), sent.len());
        assert_eq!(merged, 2, "those before and those behind another frame");
        drop(pump);
    });
}

/// Counters, as soon as they are as wanted.
fn counted(pump: &Running, wanted: impl Fn(&Counters) -> bool) -> Counters {
    wait_until("counters", WAIT, || {
        let counters = pump.reading.read();
        wanted(&counters).then_some(counters)
    })
}

#[test]
fn tags_cross_and_are_where_they_were() {
    isolated!({
        let sites = [0, 1].map(Site::new);
        let [a, b] = Memory::pair(1 << 20, false);
        let pumps = [
            Running::start(ring(&sites[0]), Box::new(a)),
            Running::start(ring(&sites[1]), Box::new(b)),
        ];
        let [mut a, mut b] = [0, 1].map(|i: usize| packet_port(&sites[i].node));
        let double = [0x88, 0xa8, 0, 5, 0x81, 0, 0x60, 9];
        for tag in [&[][..], &[0x81, 0, 0x20, 7], &[0x88, 0xa8, 0, 5], &double] {
            send(&mut a, &frame(tag, b"forth"));
            assert_eq!(next(&mut b), frame(tag, b"forth"));
            send(&mut b, &frame(tag, b"back"));
            assert_eq!(next(&mut a), frame(tag, b"back"));
        }
        drop(pumps);
    });
}

#[test]
fn an_interface_goes_down_and_up_and_is_made_again() {
    isolated!({
        let sites = [0, 1].map(Site::new);
        let [a, b] = Memory::pair(1 << 20, false);
        let lost = a.lost();
        let pump = Running::start(ring(&sites[0]), Box::new(a));
        let other = Running::start(ring(&sites[1]), Box::new(b));
        let mut far = packet_port(&sites[1].node);
        let mut near = packet_port(&sites[0].node);
        let cross = |near: &mut PacketPort, far: &mut PacketPort, text: &[u8]| {
            send(near, &frame(&[], text));
            assert_eq!(next(far), frame(&[], text));
            send(far, &frame(&[], text));
            assert_eq!(next(near), frame(&[], text));
        };
        cross(&mut near, &mut far, b"before");
        sites[0].core.run(|| change("p0", &Change::of(100).down()));
        send(&mut far, &frame(&[], b"lost"));
        counted(&pump, |c| c.lost.down + c.lost.unsent == 1);
        wait_until("the switch's port knows of it", WAIT, || {
            (lost.load(std::sync::atomic::Ordering::Relaxed) == 1).then_some(())
        });
        sites[0].core.run(|| change("p0", &Change::of(100).up()));
        // It was told that it is down.
        let mut near = packet_port(&sites[0].node);
        wait_until("carrier", WAIT, || {
            let whole = [&[0; HEADER][..], &frame(&[], b"up")].concat();
            (near.send(&whole).unwrap() == Sent::Done).then_some(())
        });
        assert_eq!(next(&mut far), frame(&[], b"up"));
        cross(&mut near, &mut far, b"after");

        sites[0].core.run(|| change("p0", &DeleteLink::new(100)));
        let (end, member) = pump.ended();
        assert_eq!(end, End::InterfaceGone);
        sites[0].connect(0);
        let pump = Running::start(ring(&sites[0]), member);
        let mut near = packet_port(&sites[0].node);
        cross(&mut near, &mut far, b"again");
        drop((pump, other));
    });
}

#[test]
fn what_finds_no_room_waits_and_is_lost_only_after_the_bound() {
    isolated!({
        let site = Site::new(0);
        let [a, mut b] = Memory::pair(2048, false);
        let pump = Running::start(ring(&site), Box::new(a));
        let mut node = packet_port(&site.node);
        let numbered = |i: u8| frame(&[], &[i; 900]);
        // Two have room. The others wait, and come when they are read within the bound.
        for i in 0..50 {
            send(&mut node, &numbered(i));
        }
        let (mut taken, mut last, mut longest) = (vec![], Instant::now(), Duration::ZERO);
        let lost = wait_until("all are read or lost", WAIT, || {
            longest = longest.max(last.elapsed());
            last = Instant::now();
            taken.extend(b.take());
            let lost = pump.reading.read().lost.stalled;
            (taken.len() as u64 + lost >= 50).then_some(lost)
        });
        // Otherwise this thread got no processor for longer than the bound.
        if longest < Duration::from_millis(100) {
            assert_eq!((lost, taken), (0, (0..50).map(numbered).collect()));
        }
        // Nobody reads: the third is lost after the bound, the others at once.
        for i in 0..50 {
            send(&mut node, &numbered(i));
        }
        let counters = counted(&pump, |c| c.lost.stalled >= lost + 48);
        assert_eq!(counters.lost.stalled, lost + 48);
        // The opposite direction goes on meanwhile.
        b.give(&frame(&[], b"down"));
        assert_eq!(next(&mut node), frame(&[], b"down"));
        // It is read again: it goes on.
        for i in 0..2 {
            assert_eq!(wait_until("a frame", WAIT, || b.take()), numbered(i));
        }
        send(&mut node, &numbered(77));
        assert_eq!(wait_until("a frame", WAIT, || b.take()), numbered(77));
        drop(pump);
    });
}

/// Set in a process that is to hold a port and a lock until it is killed.
const HOLD: &str = "NETLOOM_TEST_HOLD_PORT";

/// How often an interface has been asked to receive what is for others, as ip(8) tells.
fn promiscuity(name: &str) -> u32 {
    let out = std::process::Command::new("ip").args(["-d", "link", "show", name]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let mut words = text.split_whitespace().skip_while(|word| *word != "promiscuity");
    words.nth(1).expect("promiscuity").parse().unwrap()
}

#[test]
fn a_killed_process_leaves_the_interface_as_it_was_and_its_lock_free() {
    if let Ok(path) = std::env::var(HOLD) {
        let options = RingOptions { promiscuous: true, ..RingOptions::default() };
        let _port = RingPort::open(100, options).unwrap();
        let _lock = Lock::take(std::path::Path::new(&path)).unwrap();
        loop {
            std::thread::park();
        }
    }
    isolated!({
        needs!("ip");
        let site = Site::new(0);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let holder = || {
            let file = std::fs::File::options().read(true).write(true).open(&path).ok()?;
            let whole = Flock::from(FlockType::WriteLock);
            fcntl_getlk(&file, &whole)
                .unwrap()
                .map(|found| found.pid.unwrap().as_raw_nonzero().get())
        };
        let before = site.core.run(|| promiscuity("p0"));
        let mut child = site.core.run(|| {
            netloom_kit::again(&a_killed_process_leaves_the_interface_as_it_was_and_its_lock_free)
                .env(HOLD, &path)
                .spawn()
                .unwrap()
        });
        let pid = wait_until("the lock", WAIT, holder);
        assert_eq!(pid, i32::try_from(child.id()).unwrap());
        let taken = Lock::take(&path).unwrap_err();
        assert!(matches!(taken, netloom_plug::Error::Failed(_)), "{taken}");
        assert_eq!(site.core.run(|| promiscuity("p0")), before + 1);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(holder(), None);
        // The kernel closes what a process had before it can be waited for.
        assert_eq!(site.core.run(|| promiscuity("p0")), before);
        drop(Lock::take(&path).unwrap());
    });
}
