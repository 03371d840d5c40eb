//! Traffic through a switch: super-frames stay whole and are counted as their packets, TCP keeps its offloads, and no
//! packet is forgotten while results come and go.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netloom_ebpf::Hook;
use netloom_kit::root_only;
use netloom_packet::vnet::{self, Gso, VnetHeader};

use super::flow_frames as frames;
use super::flow_live::{World, inner, outer, wait};
use super::support::net::NetNs;

const BOUND: Duration = Duration::from_secs(60);

/// A TCP super-frame behind its header, with an unfinished checksum.
fn super_frame(v6: bool, payload: usize, size: u16) -> (VnetHeader, Vec<u8>) {
    let mut segment = frames::tcp(1000, 80);
    segment.truncate(20);
    segment.resize(20 + payload, 0x42);
    let (ethertype, packet) = if v6 {
        (0x86dd, frames::ipv6(6, &segment))
    } else {
        (0x800, frames::ipv4(6, 64, &segment))
    };
    let mut frame = frames::ethernet(ethertype, &packet);
    let transport: u16 = if v6 { 54 } else { 34 };
    let header = VnetHeader {
        needs_csum: true,
        gso: if v6 { Gso::TcpV6 } else { Gso::TcpV4 },
        hdr_len: transport + 20,
        gso_size: size,
        csum_start: transport,
        csum_offset: 16,
        ..VnetHeader::default()
    };
    let view = netloom_packet::Headers::parse(&frame).unwrap();
    let ip = view.ip.unwrap();
    let length = ip.end - ip.transport;
    let pseudo = netloom_packet::checksum::pseudo_header(&frame, view.network, &ip, length);
    let sum = netloom_packet::checksum::fold(pseudo).to_be_bytes();
    let at = usize::from(transport) + 16;
    frame[at..at + 2].copy_from_slice(&sum);
    (header, frame)
}

#[test]
fn super_frames_are_told_and_counted_as_their_packets() {
    root_only!("attaches BPF programs");
    let mut world = World::new(Hook::probe());
    let sender = world.station(1).with_header();
    let receiver = world.station(2).with_header();
    for (v6, payload, size) in
        [(false, 30_000, 1448), (true, 14_400, 1440), (false, 2897, 1448), (true, 60_000, 700)]
    {
        let (header, frame) = super_frame(v6, payload, size);
        let whole = [&header.encode()[..], &frame].concat();
        world.flow.remove(0);
        assert!(sender.send(&whole));
        let mut told = vec![];
        wait("an upcall", || {
            world.flow.upcalls().receive(1, &mut |upcall| {
                told.push((upcall.header, upcall.frame.to_vec()));
            }) == 1
        });
        let (told, bytes) = told.remove(0);
        assert_eq!(VnetHeader { hdr_len: header.hdr_len, ..told }, header);
        assert_eq!(bytes, frame);
        world.join(0, 1, 2);
        assert!(sender.send(&whole));
        let (got, _) = receiver.next_tagged(BOUND);
        let got_header = VnetHeader::parse(&got).unwrap();
        assert_eq!((got_header.gso, got_header.gso_size), (header.gso, size));
        assert!(got_header.needs_csum);
        assert_eq!(got[vnet::LEN..], frame);
        let (mut packets, mut bytes) = (0, 0);
        netloom_packet::segment(&header, &frame, &mut |_, packet| {
            packets += 1;
            bytes += u64::try_from(packet.len()).unwrap();
        })
        .unwrap();
        let count = world.flow.counts(0);
        assert_eq!((count.packets, count.bytes), (packets, bytes), "{header:?}");
        assert!(count.used > 0);
    }
}

/// Two stations of their own namespaces at ports 1 and 2.
fn stations(world: &World) -> [NetNs; 2] {
    [1, 2].map(|port: u8| {
        let station = NetNs::create();
        let name = format!("eth{}", outer(u32::from(port)));
        world.outside.run(|| {
            let fd = station.fd();
            let mut batch = netloom_netlink::Batch::new();
            batch.push(name.as_str(), &netloom_netlink::MoveLink::new(outer(u32::from(port)), fd));
            netloom_netlink::Socket::open().unwrap().run(&mut batch).unwrap();
        });
        station.up(outer(u32::from(port)));
        station.address(outer(u32::from(port)), [10, 9, 0, port]);
        station.run(|| netloom_kit::wait_for_carrier(outer(u32::from(port))));
        world.core.run(|| netloom_kit::wait_for_carrier(inner(u32::from(port))));
        station
    })
}

/// A counter of TCP in the calling thread's namespace.
fn tcp_counter(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let lines: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("Tcp:"))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let at = lines[0].iter().position(|word| *word == name).unwrap();
    lines[1][at].parse().unwrap()
}

#[test]
fn tcp_keeps_its_offloads_and_is_counted() {
    root_only!("attaches BPF programs");
    const BYTES: usize = 64 << 20;
    let mut world = World::new(Hook::probe());
    let [one, two] = stations(&world);
    world.join(1, 1, 2);
    world.join(2, 2, 1);
    let listener = two.run(|| TcpListener::bind((Ipv4Addr::new(10, 9, 0, 2), 0)).unwrap());
    let address = listener.local_addr().unwrap();
    let got = std::thread::scope(|scope| {
        scope.spawn(|| {
            one.run(|| {
                let mut stream = TcpStream::connect(address).unwrap();
                let block = vec![7u8; 1 << 20];
                (0..BYTES >> 20).for_each(|_| stream.write_all(&block).unwrap());
            });
        });
        let (mut stream, _) = listener.accept().unwrap();
        let mut room = vec![0; 1 << 20];
        let mut sum = 0;
        while let Ok(n @ 1..) = stream.read(&mut room) {
            sum += n;
        }
        sum
    });
    assert_eq!(got, BYTES);
    // At least what arrived, each packet with its headers, and at most what was sent, with a few ARP frames before it:
    // a receive queue may have dropped some on either side of the switch.
    let (arp, payload, headers) = (8, 1460, 54);
    let least = u64::try_from(BYTES / payload).unwrap();
    let [count, back] = [1, 2].map(|slot| world.flow.counts(slot));
    assert!(count.packets >= least, "{count:?}");
    assert!(count.bytes >= u64::try_from(BYTES).unwrap() + least * headers, "{count:?}");
    for (station, count) in [(&one, count), (&two, back)] {
        let sent = station.run(|| tcp_counter("OutSegs") + tcp_counter("RetransSegs"));
        assert!(count.packets > 0 && count.packets <= sent + arp, "{count:?} of {sent}");
    }
    let stats = world.flow.stats();
    let packets = world.flow.counts(1).packets + world.flow.counts(2).packets;
    let frames = stats.exact + stats.masked;
    assert!(frames < packets / 2, "{frames} frames stood for {packets} packets");
    assert_eq!(stats.failed, 0);
}

/// Each packet is counted by exactly one result, or told, whatever happens to results meanwhile.
#[test]
fn nothing_is_forgotten_while_results_come_and_go() {
    root_only!("attaches BPF programs");
    const FRAMES: u64 = 200_000;
    let mut world = World::new(Hook::probe());
    let senders = [world.station(1), world.station(3)];
    let done = AtomicBool::new(false);
    let (mut counted, mut told, mut generation) = (0, 0, 0);
    std::thread::scope(|scope| {
        for sender in &senders {
            scope.spawn(|| {
                let frame = frames::udp4(1, 2);
                for _ in 0..FRAMES / 2 {
                    while !sender.send(&frame) {}
                }
                done.store(true, Ordering::Release);
            });
        }
        let mut slot = 0;
        while !done.load(Ordering::Acquire) {
            world.join(slot, 1, 2);
            world.join(slot + 1, 3, 2);
            told += world.flow.upcalls().receive(64, &mut |_| {});
            // By removal and by a new generation, in turn; then the counters are final.
            if slot == 0 {
                world.flow.remove(slot);
                world.flow.remove(slot + 1);
                world.flow.settle();
            } else {
                generation += 1;
                world.flow.set_generation(generation);
            }
            counted += world.flow.counts(slot).packets + world.flow.counts(slot + 1).packets;
            slot = 2 - slot;
        }
    });
    // Frames sent after the last round found no result in force. A receive queue may have dropped some before.
    let mut told = u64::try_from(told).unwrap();
    wait("each frame counted once", || {
        let seen = world.flow.stats();
        let lost = [1, 3].map(|port| world.flow.port_counts(inner(port)).unwrap().unwrap().full);
        loop {
            match world.flow.upcalls().receive(1000, &mut |_| {}) {
                0 => break,
                more => told += u64::try_from(more).unwrap(),
            }
        }
        counted + told + lost[0] + lost[1] == seen.exact + seen.masked + seen.missed
    });
    assert!(counted > 0 && told > 0 && counted + told <= FRAMES);
}
