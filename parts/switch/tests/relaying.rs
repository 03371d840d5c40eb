//! What the switch carries itself: order, learning, VLANs, locks, mirrors, full and hostile rings.

use super::world;

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use netloom_shm::inbox::{Counter, Inbox};
use netloom_shm::layout::HEADER;
use netloom_shm::protocol::{Channel, Direction, Incoming, MIRRORED, Message};
use netloom_shm::ring::{Pushed, Writer};
use netloom_switch::control::requests::{PortChange, PortShown};
use netloom_switch::rules::{self, Mirror, Source, Vid, Vlan};
use world::{ALL, BOUND, Raw, Switch, frame, mac, tell};

/// Long enough for what must come, since only its absence takes so long.
const NOTHING: Duration = Duration::from_millis(50);

fn ports(switch: &Switch, names: &[&str]) -> Vec<Raw> {
    names.iter().map(|name| Raw::join(&switch.path(), name)).collect()
}

fn relayed(switch: &Switch, counter: Counter) -> u64 {
    switch.ask().show().unwrap().relay.get(counter.name()).copied().unwrap_or(0)
}

#[test]
fn frames_to_all_come_in_order_to_all_but_their_sender() {
    let switch = Switch::start();
    let mut ports = ports(&switch, &["a", "b", "c"]);
    for n in 0..100u8 {
        ports[0].send(&frame(ALL, mac(1), &[n]));
    }
    for port in &mut ports[1..] {
        for n in 0..100 {
            assert_eq!(port.receive(BOUND), Some((1, frame(ALL, mac(1), &[n]))));
        }
    }
    assert_eq!(ports[0].receive(NOTHING), None);
}

#[test]
fn an_address_that_the_switch_has_heard_of_is_not_sent_to_all() {
    let switch = Switch::start();
    let mut ports = ports(&switch, &["a", "b", "c"]);
    ports[1].send(&frame(ALL, mac(2), &[]));
    assert!(ports[0].receive(BOUND).is_some() && ports[2].receive(BOUND).is_some());
    ports[0].send(&frame(mac(2), mac(1), b"one"));
    ports[0].send(&frame(mac(9), mac(1), b"unknown"));
    assert_eq!(ports[1].receive(BOUND), Some((1, frame(mac(2), mac(1), b"one"))));
    assert_eq!(ports[1].receive(BOUND), Some((1, frame(mac(9), mac(1), b"unknown"))));
    assert_eq!(ports[2].receive(BOUND), Some((1, frame(mac(9), mac(1), b"unknown"))));
    let tables = switch.ask().macs(Some(0.into())).unwrap();
    let seen: Vec<_> = tables[0].entries.iter().map(|e| (e.mac.0, e.port)).collect();
    assert!(seen.contains(&(mac(1), 1)) && seen.contains(&(mac(2), 2)), "{seen:?}");
    // To itself, and to neighbours of a bridge only.
    ports[0].send(&frame(mac(1), mac(1), b"self"));
    ports[0].send(&frame([1, 0x80, 0xc2, 0, 0, 0x0e], mac(1), b"lldp"));
    netloom_kit::wait_until("both to be dropped", BOUND, || {
        let both = relayed(&switch, Counter::DroppedElsewhere)
            + relayed(&switch, Counter::DroppedReserved);
        (both == 2).then_some(())
    });
    // A port that is gone is forgotten.
    drop(ports.remove(1));
    netloom_kit::wait_until("it to be forgotten", BOUND, || {
        let tables = switch.ask().macs(Some(0.into())).unwrap();
        tables[0].entries.iter().all(|e| e.port != 2).then_some(())
    });
}

#[test]
fn vlans_are_kept_apart() {
    let switch = Switch::start();
    let mut ports = ports(&switch, &["red", "blue", "red too", "trunk"]);
    let asked = switch.ask();
    let access = |vid| Vid::new(vid).map(Vlan::Access);
    asked.set_vlan("red", access(10)).unwrap();
    asked.set_vlan("blue", access(20)).unwrap();
    asked.set_vlan(3, access(10)).unwrap();
    let trunk = Vlan::Trunk { native: Vid::new(1), allowed: "10-19".parse().unwrap() };
    asked.set_vlan(4, Some(trunk)).unwrap();
    ports[0].send(&frame(ALL, mac(1), b"red"));
    assert_eq!(ports[2].receive(BOUND).unwrap().1, frame(ALL, mac(1), b"red"));
    assert_eq!(ports[3].receive(BOUND).unwrap().1, frame(ALL, mac(1), b"red"));
    // A trunk's tagged frame goes to that VLAN alone; one of a VLAN that it has not, nowhere.
    let tagged = |vid: u8| {
        let mut frame = frame(ALL, mac(4), b"tagged");
        frame.splice(12..12, [0x81, 0, 0, vid]);
        frame
    };
    ports[3].send(&tagged(20));
    ports[3].send(&tagged(10));
    assert_eq!(ports[0].receive(BOUND), Some((4, tagged(10))));
    assert_eq!(ports[2].receive(BOUND), Some((4, tagged(10))));
    assert_eq!(ports[1].receive(NOTHING), None);
    assert_eq!(relayed(&switch, Counter::DroppedVlan), 1);
    asked.set_vlan(1, None).unwrap();
    assert!(asked.show().unwrap().vlans);
}

#[test]
fn a_locked_address_is_its_ports_alone() {
    let switch = Switch::start();
    let mut ports = ports(&switch, &["a", "b", "c"]);
    let lock = PortChange { macs: Some(vec![rules::Mac(mac(1))]), ..PortChange::default() };
    switch.ask().set_port("a", lock).unwrap();
    ports[1].send(&frame(ALL, mac(1), b"spoofed"));
    ports[0].send(&frame(ALL, mac(7), b"not mine"));
    ports[0].send(&frame(ALL, mac(1), b"mine"));
    ports[1].send(&frame(ALL, mac(2), b"free"));
    let mut got = [ports[2].receive(BOUND), ports[2].receive(BOUND)];
    got.sort();
    assert_eq!(got[0], Some((1, frame(ALL, mac(1), b"mine"))));
    assert_eq!(got[1], Some((2, frame(ALL, mac(2), b"free"))));
    assert_eq!(relayed(&switch, Counter::DroppedSpoofed), 2);
}

#[test]
fn a_mirror_port_gets_marked_copies_of_what_is_asked_for() {
    let switch = Switch::start();
    let mut ports = ports(&switch, &["a", "b", "mirror"]);
    // So that the mirror port gets nothing but copies.
    ports[1].send(&frame(ALL, mac(2), b"hello"));
    ports[0].send(&frame(ALL, mac(1), b"hello"));
    assert!(ports[0].receive(BOUND).is_some() && ports[1].receive(BOUND).is_some());
    assert!(ports[2].receive(BOUND).is_some() && ports[2].receive(BOUND).is_some());
    let session = |direction, filter: &str| Mirror {
        to: 3,
        temporary: false,
        sources: vec![Source { port: 1, direction }],
        filter: filter.parse().unwrap(),
    };
    let asked = switch.ask();
    let mut both = |expected: [bool; 2]| {
        let to = frame(mac(2), mac(1), b"to");
        let back = frame(mac(1), mac(2), b"back");
        ports[0].send(&to);
        assert_eq!(ports[1].receive(BOUND), Some((1, to.clone())));
        ports[1].send(&back);
        assert_eq!(ports[0].receive(BOUND), Some((2, back.clone())));
        if expected[0] {
            assert_eq!(ports[2].receive(BOUND), Some((MIRRORED | 1, to)));
        }
        if expected[1] {
            assert_eq!(ports[2].receive(BOUND), Some((MIRRORED | 2, back)));
        }
        assert_eq!(ports[2].receive(NOTHING), None);
    };
    for (direction, filter, expected) in [
        (rules::Direction::Both, "all", [true, true]),
        (rules::Direction::In, "ethertype 0x88b5", [true, false]),
        (rules::Direction::Out, "mac 02:00:00:00:00:02", [false, true]),
        (rules::Direction::Both, "arp", [false, false]),
    ] {
        let number = asked.add_mirror(session(direction, filter)).unwrap();
        both(expected);
        asked.delete_mirror(number).unwrap();
    }
    both([false, false]);
    assert!(asked.delete_mirror(1).is_err());
    assert!(asked.add_mirror(Mirror { to: 1, ..session(rules::Direction::In, "all") }).is_err());
}

#[test]
fn a_temporary_session_ends_with_its_port() {
    let switch = Switch::start();
    let mut ports = ports(&switch, &["a", "lasting", "passing"]);
    let asked = switch.ask();
    let session = |to, temporary| Mirror {
        to,
        temporary,
        sources: vec![Source { port: 1, direction: rules::Direction::Both }],
        filter: "all".parse().unwrap(),
    };
    asked.add_mirror(session(2, false)).unwrap();
    asked.add_mirror(session(3, true)).unwrap();
    drop(ports.pop());
    drop(ports.pop());
    let gone = || asked.show().unwrap().ports.len() == 1;
    netloom_kit::wait_until("both have left", BOUND, || gone().then_some(()));
    let left: Vec<u16> = asked.mirrors().unwrap().keys().copied().collect();
    assert_eq!(left, [1]);
}

#[test]
fn who_does_not_read_loses_its_own_frames_and_no_one_elses() {
    let switch = Switch::start();
    let mut ports = ports(&switch, &["a", "b", "deaf"]);
    let big = frame(ALL, mac(1), &[7; 9000]);
    for n in 0..1000 {
        ports[0].send(&big);
        assert!(ports[1].receive(BOUND).is_some(), "frame {n}");
    }
    let shown = switch.ask().show().unwrap();
    let missed = |port: &PortShown| port.counters["missed"];
    assert!(missed(&shown.ports[2]) > 900, "{shown:?}");
    assert_eq!(missed(&shown.ports[1]), 0);
    // When it reads again it gets frames again.
    while ports[2].receive(NOTHING).is_some() {}
    ports[0].send(&frame(ALL, mac(1), b"again"));
    assert_eq!(ports[2].receive(BOUND).unwrap().1, frame(ALL, mac(1), b"again"));
}

#[test]
fn who_floods_loses_its_own_frames_and_is_told_of_each() {
    let times = netloom_kit::rounds(1);
    (0..times).for_each(|_| flood_and_look());
    netloom_kit::done("storms of 10,000 frames to all while others talk", times);
}

fn flood_and_look() {
    let switch = Switch::start();
    let mut flooder = world::join(&switch, "flooder");
    let mut ports = ports(&switch, &["b", "c"]);
    // Nobody reads, so that all downlinks are as full as one sender can make them.
    let sent = (0..10_000u32)
        .filter(|n| {
            let frame = world::whole(&frame(ALL, mac(9), &n.to_le_bytes()));
            flooder.send(&frame).unwrap() == netloom_shm::Sent::Done
        })
        .count();
    for n in 0..100u8 {
        ports[0].send(&frame(ALL, mac(1), &[n]));
    }
    netloom_kit::wait_until("all to be relayed or dropped", BOUND, || {
        (relayed(&switch, Counter::ReceivedFrames) == sent as u64 + 100).then_some(())
    });
    let (mut got, mut others) = (0, vec![]);
    for port in &mut ports {
        while let Some((from, frame)) = port.receive(NOTHING) {
            match from {
                1 => got += 1,
                _ => others.push((from, frame[14])),
            }
        }
    }
    assert_eq!(others, (0..100).map(|n| (2, n)).collect::<Vec<_>>());
    netloom_kit::wait_until("all to be told of", BOUND, || {
        flooder.service().unwrap();
        (flooder.counters().get(Counter::RelayDropped) + got == 2 * sent as u64).then_some(())
    });
}

/// How many flood at once, and how many frames of a flow that waits for each are sent meanwhile.
const FLOODERS: usize = 8;
const PACED: u64 = 200;

#[test]
fn a_paced_flow_loses_nothing_while_eight_flood() {
    let switch = Switch::start();
    let mut ports = ports(&switch, &["paced", "listener"]);
    let sent: [AtomicU64; FLOODERS] = std::array::from_fn(|_| AtomicU64::new(0));
    let counts = || sent.each_ref().map(|one| one.load(Ordering::Relaxed));
    let stop = AtomicBool::new(false);
    let shown = std::thread::scope(|scope| {
        for (n, sent) in (10..).zip(&sent) {
            let (switch, stop) = (&switch, &stop);
            scope.spawn(move || {
                let mut port = world::join(switch, &format!("flooder{n}"));
                let frame = world::whole(&frame(ALL, mac(n), &[n; 46]));
                while !stop.load(Ordering::Relaxed) {
                    let done = port.send(&frame).unwrap() == netloom_shm::Sent::Done;
                    sent.fetch_add(done.into(), Ordering::Relaxed);
                    port.service().unwrap();
                }
            });
        }
        let flow = std::panic::AssertUnwindSafe(|| {
            netloom_kit::wait_until("all to flood", BOUND, || {
                while ports[1].receive(Duration::ZERO).is_some() {}
                counts().iter().all(|sent| *sent > 0).then_some(())
            });
            let before = counts();
            for number in 0..PACED {
                ports[0].send(&world::numbered(ALL, mac(1), number));
                let until = std::time::Instant::now() + BOUND;
                // The listener reads what the flooders send it, too.
                let arrived = std::iter::from_fn(|| ports[1].receive(BOUND))
                    .take_while(|_| std::time::Instant::now() < until)
                    .find(|(from, _)| *from == 1);
                let (_, frame) = arrived.unwrap_or_else(|| panic!("frame {number} is lost"));
                assert_eq!(world::number_of(&frame), Some(number));
            }
            for (n, (before, after)) in before.into_iter().zip(counts()).enumerate() {
                assert!(after > before, "flooder {n} sent nothing meanwhile");
            }
            switch.ask().show().unwrap()
        });
        let outcome = std::panic::catch_unwind(flow);
        stop.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let lost = |port: &PortShown| port.counters.get("relay-dropped").copied().unwrap_or(0);
    let flooders = shown.ports.iter().filter(|port| port.name.starts_with("flooder"));
    assert!(flooders.map(lost).sum::<u64>() > 0, "no flood was more than it could have: {shown:?}");
}

/// Joins with an uplink that was forged; the port, if the switch lets it be one.
fn forger(switch: &Switch, head: u64, slots: &[u8]) -> Channel {
    let inbox = Inbox::create().unwrap();
    let ring = world::forged_ring(head, slots);
    let mut channel = world::connect(&switch.path());
    tell(&mut channel, &world::Ticket::new("forger").join(), &[inbox.fd(), ring.as_fd()]);
    channel.wait(BOUND).unwrap();
    let joined = channel.receive().unwrap();
    assert!(matches!(joined, Incoming::Message { message: Message::Joined(_), .. }), "{joined:?}");
    channel
}

#[test]
fn what_cannot_be_in_an_uplink_costs_its_port_alone() {
    let switch = Switch::start();
    let mut ports = ports(&switch, &["a", "b"]);
    let slot = |length: u32| length.to_le_bytes();
    let cases: [(u64, &[u8]); 8] = [
        (8, &[]),
        (256 * 1024 + 16, &[]),
        (u64::MAX, &[]),
        (1 << 63, &[]),
        (32, &slot(65_562)),
        (32, &slot(u32::MAX - 1)),
        (32, &slot(u32::MAX)),
        (64, &slot(100)),
    ];
    for (n, (head, slots)) in (1..).zip(cases) {
        let mut channel = forger(&switch, head, slots);
        assert!(channel.wait(BOUND).unwrap());
        assert!(matches!(channel.receive().unwrap(), Incoming::Closed), "case {n}");
        ports[0].send(&frame(ALL, mac(1), &[n]));
        assert_eq!(ports[1].receive(BOUND), Some((1, frame(ALL, mac(1), &[n]))));
        assert_eq!(relayed(&switch, Counter::CorruptEdges), u64::from(n));
    }
}

#[test]
fn holes_and_frames_that_are_too_short_are_runts() {
    let switch = Switch::start();
    let mut ports = ports(&switch, &["a"]);
    // A writer that died, or never wrote, leaves zeros: 32 bytes for each frame of none.
    let mut channel = forger(&switch, 256 * 1024, &[13, 0, 0, 0]);
    netloom_kit::wait_until("runts to be counted", BOUND, || {
        (relayed(&switch, Counter::DroppedRunt) == 256 * 1024 / 16 - 1).then_some(())
    });
    assert!(matches!(channel.receive().unwrap(), Incoming::Nothing));
    assert_eq!(ports[0].receive(NOTHING), None);
}

#[test]
fn frames_that_cannot_be_are_dropped_and_counted() {
    let switch = Switch::start();
    let mut ports = ports(&switch, &["a", "b"]);
    let whole = [&[0; HEADER][..], &[0; 13]].concat();
    assert_eq!(ports[0].up.queue(0, &whole), Pushed::Refused);
    let mut wrong = [&[0; HEADER][..], &frame(ALL, mac(1), b"header")].concat();
    wrong[1] = 77;
    assert_eq!(ports[0].up.queue(0, &wrong), Pushed::Done);
    let tagged = [&[0; HEADER][..], &ALL, &mac(1), &[0x81, 0]].concat();
    switch.ask().set_vlan(9, Vid::new(9).map(Vlan::Access)).unwrap();
    assert_eq!(ports[0].up.queue(0, &tagged), Pushed::Done);
    ports[0].send(&frame(ALL, mac(1), b"good"));
    assert_eq!(ports[1].receive(BOUND), Some((1, frame(ALL, mac(1), b"good"))));
    let shown = switch.ask().show().unwrap();
    assert_eq!(shown.relay[Counter::DroppedHeader.name()], 1);
    assert_eq!(shown.relay[Counter::DroppedRunt.name()], 1);
}

#[test]
fn an_edge_is_told_of_after_what_was_sent_before_it() {
    let times = netloom_kit::rounds(1);
    (0..times).for_each(|_| open_an_edge_behind_frames());
    netloom_kit::done("edges opened behind 200 frames that nobody was woken for", times);
}

fn open_an_edge_behind_frames() {
    let switch = Switch::start();
    let mut ports = ports(&switch, &["a", "b"]);
    for n in 0..200u8 {
        let whole = [&[0; HEADER][..], &frame(ALL, mac(1), &[n])].concat();
        assert_eq!(ports[0].up.queue(0, &whole), Pushed::Done);
    }
    // Shown, but nobody is woken: the switch must look by itself.
    ports[0].up.flush();
    let ring = Writer::create(256 * 1024, 1).unwrap();
    tell(&mut ports[0].channel, &Message::Open { to: 2 }, &[ring.fd()]);
    ports[1].channel.wait(BOUND).unwrap();
    let Incoming::Message { message: Message::Edge { from: 1, generation }, descriptors } =
        ports[1].channel.receive().unwrap()
    else {
        panic!("no edge")
    };
    assert_eq!((generation, descriptors.len()), (ports[0].joined.generation, 2));
    for n in 0..200 {
        let got = ports[1].receive(Duration::ZERO);
        assert_eq!(got, Some((1, frame(ALL, mac(1), &[n]))), "before the edge");
    }
    let opened = Message::Opened { to: 2, generation: ports[1].joined.generation };
    assert_eq!(ports[0].message(), Some(format!("{opened:?}")));
    let shown = switch.ask().show().unwrap();
    assert_eq!((shown.edges, shown.ports[0].edges_out, shown.ports[1].edges_in), (1, 1, 1));
    assert!(shown.ports[0].memory_kib >= 256 + 256 + 256 + 100);
    // Closed at one end, the other is told; once.
    tell(&mut ports[1].channel, &Message::Close { number: 1, direction: Direction::In }, &[]);
    tell(&mut ports[1].channel, &Message::Close { number: 1, direction: Direction::In }, &[]);
    let closed = Message::Close { number: 2, direction: Direction::Out };
    assert_eq!(ports[0].message(), Some(format!("{closed:?}")));
    tell(&mut ports[0].channel, &Message::Open { to: 1 }, &[ring.fd()]);
    assert!(ports[0].message().unwrap().contains("NoPort"));
    tell(
        &mut ports[0].channel,
        &Message::Open { to: 2 },
        &[switch.process.0.stdout.as_ref().unwrap().as_fd()],
    );
    assert!(ports[0].message().unwrap().contains("Memory"));
}
