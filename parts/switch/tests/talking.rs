//! Ports that talk: order, edges, VLANs, locks and mirrors as ports see them, and what the switch
//! does while they talk: nothing.

use super::world;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netloom_shm::ring::Pushed;
use netloom_shm::{HEADER, JoinOptions, Received, Sent, SwitchPort};
use netloom_switch::control::requests::PortChange;
use netloom_switch::rules::{self, Direction, Mirror, Source, Vid, Vlan};
use world::{ALL, BOUND, Raw, Station, Switch, frame, join, mac, next, send};

const NOTHING: Duration = Duration::from_millis(50);

/// Two stations that know each other's address, and have edges both ways.
fn acquaint(a: &Station, b: &Station) {
    let (x, y) = (mac(a.number), mac(b.number));
    a.send(&frame(ALL, x, b"who"));
    b.until(&frame(ALL, x, b"who"));
    b.send(&frame(x, y, b"me"));
    a.until(&frame(x, y, b"me"));
    a.send(&frame(y, x, b"yes"));
    b.until(&frame(y, x, b"yes"));
}

#[test]
fn frames_keep_their_order_while_their_edge_is_opened() {
    let switch = Switch::start();
    let a = Station::join(&switch, "a");
    for round in 0..20u8 {
        let b = Station::join(&switch, &format!("b{round}"));
        // An address of its own each: a may not have been told yet that the last one is gone.
        let (x, y) = (mac(1), mac(100 + round));
        let numbered = |n: u32| frame(y, x, &n.to_le_bytes());
        // By way of the switch: nobody has heard of b.
        (0..300).for_each(|n| a.send(&numbered(n)));
        b.send(&frame(x, y, b"here"));
        a.until(&frame(x, y, b"here"));
        // By the edge, which is opened while some of the first may be on their way.
        (300..600).for_each(|n| a.send(&numbered(n)));
        (0..600).for_each(|n| assert_eq!(b.next(), numbered(n), "round {round}"));
        assert_eq!(switch.ask().show().unwrap().ports[0].edges_out, 1);
    }
}

#[test]
fn a_hundred_thousand_frames_come_in_order_with_an_edge_opened_in_the_middle() {
    const COUNT: u32 = 100_000;
    let switch = Switch::start();
    // So long that only a fault can end the wait for a reader.
    let options = JoinOptions { wait: BOUND, ..JoinOptions::new(switch.path(), "a") };
    let (mut a, mut b) = (SwitchPort::join(&options).unwrap(), join(&switch, "b"));
    let (x, y) = (mac(1), mac(2));
    let (half, done) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut seen, mut last) = (0, None);
            while last != Some(COUNT - 1) {
                let got = next(&mut b);
                let n = u32::from_le_bytes(got[14..18].try_into().unwrap());
                assert!(last.is_none_or(|last| n > last), "{n} after {last:?}");
                // By the edge nothing is lost; by way of the switch what finds no room is.
                assert!(last.is_none_or(|last| n == last + 1) || n <= COUNT / 2 + 2000, "{n}");
                (seen, last) = (seen + 1, Some(n));
                if half.load(Ordering::Relaxed) && !done.swap(true, Ordering::Relaxed) {
                    send(&mut b, &frame(x, y, b"here"));
                }
            }
            seen
        });
        let mut buffer = vec![0; 70_000];
        for n in 0..COUNT {
            assert_eq!(send_it(&mut a, &frame(y, x, &n.to_le_bytes())), Sent::Done);
            if n == COUNT / 2 {
                half.store(true, Ordering::Relaxed);
                while !matches!(a.receive(&mut buffer).unwrap(), Received::Frame { .. }) {}
            }
        }
        let seen = reader.join().unwrap();
        println!("{seen} of {COUNT}");
        assert!(seen > COUNT / 2);
    });
    assert_eq!(switch.ask().show().unwrap().ports[0].edges_out, 1);
}

/// What went by way of the switch comes before what goes by the edge that was asked for behind it,
/// also when the uplink is full of short frames.
#[test]
fn a_sender_is_not_overtaken_by_its_own_edge() {
    // As many as an uplink takes, less some.
    const COUNT: u32 = 3200;
    for round in 0..10 {
        let switch = Switch::start();
        let (mut a, mut b) = (join(&switch, "a"), join(&switch, "b"));
        let numbered = |n: u32| frame(mac(2), mac(1), &n.to_le_bytes());
        // Others keep the switch busy between two turns of the sender, with frames that nobody gets.
        let mut others: Vec<Raw> =
            (0..8).map(|n| Raw::join(&switch.path(), &format!("other {n}"))).collect();
        send(&mut b, &frame(ALL, mac(2), b"here"));
        wait_for_frames(&a);
        // Without the switch the frames stay in the uplink, and the wish for an edge behind them.
        let pid = rustix::process::Pid::from_child(&switch.process.0);
        netloom_kit::stop(pid.as_raw_nonzero().get());
        for other in &mut others {
            let own = mac(other.joined.number);
            let to_itself = world::whole(&frame(own, own, b"noise"));
            while other.up.queue(0, &to_itself) == Pushed::Done {}
            other.up.flush();
        }
        (0..COUNT).for_each(|n| send(&mut a, &numbered(n)));
        assert_eq!(next(&mut a), frame(ALL, mac(2), b"here"));
        send(&mut a, &numbered(COUNT));
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        let seen = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut seen, mut last) = (0, None);
                while last != Some(COUNT) {
                    let got = next(&mut b);
                    let n = u32::from_le_bytes(got[14..18].try_into().unwrap());
                    assert!(last.is_none_or(|last| n > last), "round {round}: {n} after {last:?}");
                    (seen, last) = (seen + 1, Some(n));
                }
                // Nothing comes late.
                assert_eq!(world::try_next(&mut b, NOTHING), None, "round {round}");
                seen
            });
            while !reader.is_finished() {
                a.service().unwrap();
                std::thread::yield_now();
            }
            reader.join().unwrap()
        });
        assert!(seen > COUNT / 4, "{seen}");
        assert_eq!(switch.ask().show().unwrap().ports[0].edges_out, 1);
    }
}

fn wait_for_frames(port: &SwitchPort) {
    assert!(netloom_sys::process::wait_readable(port.as_fd(), BOUND), "no frame came");
}

fn send_it(port: &mut SwitchPort, frame: &[u8]) -> Sent {
    port.send(&world::whole(frame)).unwrap()
}

#[test]
fn sixty_four_ports_in_a_ring_have_as_many_edges_as_they_use() {
    let switch = Switch::start();
    let at = |n| {
        let path = switch.path();
        let options = JoinOptions { arena: 256 * 1024, ..JoinOptions::new(path, &format!("p{n}")) };
        Station::with(&options)
    };
    let ports: Vec<Station> = (0..64).map(at).collect();
    let empty = switch.ask().show().unwrap();
    assert_eq!((empty.edges, empty.ports.len()), (0, 64));
    ports.iter().for_each(|port| port.send(&frame(ALL, mac(port.number), b"hello")));
    ports.iter().for_each(|port| (0..63).for_each(|_| drop(port.next())));
    for round in 0..50u8 {
        let next = |n: usize| &ports[(n + 1) % 64];
        let to_next = |n| frame(mac(next(n).number), mac(ports[n].number), &[round]);
        (0..64).for_each(|n| ports[n].send(&to_next(n)));
        (0..64).for_each(|n| assert_eq!(next(n).next(), to_next(n)));
    }
    let shown = switch.ask().show().unwrap();
    assert_eq!(shown.edges, 64);
    assert!(shown.ports.iter().all(|p| (p.edges_out, p.edges_in) == (1, 1)));
    assert_eq!(shown.memory_kib - empty.memory_kib, 64 * (256 + 4));
    let tables = switch.ask().macs(None).unwrap();
    assert!(tables[1..].iter().all(|t| t.entries.len() == 63), "{:?}", tables[1]);
}

#[test]
fn the_switch_sleeps_while_eight_stations_talk() {
    let switch = Switch::start();
    let ports: Vec<Station> = (0..8).map(|n| Station::join(&switch, &format!("p{n}"))).collect();
    let pairs = || ports.chunks(2).map(|pair| (&pair[0], &pair[1]));
    pairs().for_each(|(a, b)| acquaint(a, b));
    // What it still had to do for that is done when it has answered and uses nothing any more.
    switch.ask().show().unwrap();
    let mut before = None;
    let cpu = netloom_kit::wait_until("the switch sleeps", world::BOUND, || {
        let now = switch.process.cpu();
        (before.replace(now) == Some(now)).then_some(now)
    });
    let started = Instant::now();
    let mut count = 0;
    while started.elapsed() < Duration::from_secs(1) {
        for (a, b) in pairs() {
            let to = frame(mac(b.number), mac(a.number), b"ping");
            a.send(&to);
            b.until(&to);
            let back = frame(mac(a.number), mac(b.number), b"pong");
            b.send(&back);
            a.until(&back);
            count += 2;
        }
    }
    let (used, took) = (switch.process.cpu() - cpu, started.elapsed().as_nanos());
    println!("{count} frames; the switch used {used} ns of {took} ns");
    // It is not woken at all: this is what a look at the clock may find.
    assert!(used < 1_000_000, "{used} ns");
}

#[test]
fn access_and_trunk_ports_see_and_make_tags() {
    let switch = Switch::start();
    let asked = switch.ask();
    asked.set_vlan(1, Vid::new(10).map(Vlan::Access)).unwrap();
    asked.set_vlan(2, Vid::new(20).map(Vlan::Access)).unwrap();
    let trunk = Vlan::Trunk { native: None, allowed: "10-11".parse().unwrap() };
    asked.set_vlan(3, Some(trunk)).unwrap();
    let at = |number, name: &str| {
        Station::with(&JoinOptions { number, ..JoinOptions::new(switch.path(), name) })
    };
    let [red, blue, trunk] = [at(1, "red"), at(2, "blue"), at(3, "trunk")];
    let plain = frame(ALL, mac(1), b"red");
    let tagged = |vid: u8, frame: &[u8]| {
        let mut frame = frame.to_vec();
        frame.splice(12..12, [0x81, 0, 0, vid]);
        frame
    };
    red.send(&plain);
    assert_eq!(trunk.next(), tagged(10, &plain));
    // Directly, both ways, some times: the first opens the edge.
    for n in 0..5 {
        let down = frame(mac(1), mac(3), &[n]);
        trunk.send(&tagged(10, &down));
        assert_eq!(red.next(), down);
        let up = frame(mac(3), mac(1), &[n]);
        red.send(&up);
        assert_eq!(trunk.next(), tagged(10, &up));
    }
    // Of another VLAN, of one that the trunk has not, without a tag.
    trunk.send(&tagged(11, &frame(mac(1), mac(3), b"other")));
    assert_eq!(trunk.try_send(&tagged(20, &frame(ALL, mac(3), b"none"))), Sent::Refused);
    assert_eq!(trunk.try_send(&frame(ALL, mac(3), b"plain")), Sent::Refused);
    assert_eq!(red.try_next(NOTHING), None);
    assert_eq!(blue.try_next(NOTHING), None);
    assert_eq!(asked.show().unwrap().edges, 2);
}

#[test]
fn who_sends_is_known_from_the_ring() {
    let switch = Switch::start();
    let [a, b, c] = ["a", "b", "c"].map(|name| Station::join(&switch, name));
    acquaint(&b, &c);
    let lock = |macs: &[[u8; 6]]| PortChange {
        macs: Some(macs.iter().map(|mac| rules::Mac(*mac)).collect()),
        ..PortChange::default()
    };
    switch.ask().set_port("a", lock(&[mac(1)])).unwrap();
    // By the edge, where no switch is between: c itself sees that it is b's ring.
    b.try_send(&frame(mac(3), mac(1), b"spoofed"));
    b.send(&frame(mac(3), mac(2), b"honest"));
    c.until(&frame(mac(3), mac(2), b"honest"));
    assert_eq!(c.try_next(NOTHING), None);
    a.send(&frame(ALL, mac(1), b"owner"));
    c.until(&frame(ALL, mac(1), b"owner"));
}

#[test]
fn a_mirror_shows_both_directions_of_an_edge() {
    let switch = Switch::start();
    let [a, b, watcher] = ["a", "b", "watcher"].map(|name| Station::join(&switch, name));
    acquaint(&a, &b);
    // The only one of these that was for all.
    watcher.until(&frame(ALL, mac(1), b"who"));
    let session = |direction, filter: &str| Mirror {
        to: 3,
        temporary: false,
        sources: vec![Source { port: 1, direction }],
        filter: filter.parse().unwrap(),
    };
    let asked = switch.ask();
    for (direction, filter, to_seen, back_seen) in [
        (Direction::Both, "all", true, true),
        (Direction::In, "all", true, false),
        (Direction::Out, "mac 02:00:00:00:00:02", false, true),
        (Direction::Both, "udp", false, false),
    ] {
        let session = asked.add_mirror(session(direction, filter)).unwrap();
        for n in 0..3 {
            let to = frame(mac(2), mac(1), &[n]);
            a.send(&to);
            assert_eq!(b.next(), to);
            let back = frame(mac(1), mac(2), &[n]);
            b.send(&back);
            assert_eq!(a.next(), back);
            // Copies come from two ports, so in any order.
            let mut copies: Vec<_> = [(to_seen, to), (back_seen, back)]
                .into_iter()
                .filter(|c| c.0)
                .map(|c| c.1)
                .collect();
            let mut seen: Vec<_> = copies.iter().map(|_| watcher.next()).collect();
            seen.sort();
            copies.sort();
            assert_eq!(seen, copies);
        }
        asked.delete_mirror(session).unwrap();
        assert_eq!(watcher.try_next(NOTHING), None);
    }
}

#[test]
fn a_port_that_wants_copies_alone_is_spared_what_is_flooded() {
    let switch = Switch::start();
    let [a, b] = ["a", "b"].map(|name| Station::join(&switch, name));
    acquaint(&a, &b);
    let options = JoinOptions { only_copies: true, ..JoinOptions::new(switch.path(), "capture") };
    let mut watcher = SwitchPort::join(&options).unwrap();
    let mut buffer = vec![0; netloom_shm::MOST_FRAME];
    let mut next = |wait| match watcher.receive_wait(&mut buffer, Some(wait)).unwrap() {
        Received::Frame { start, length } => Some(buffer[start + HEADER..start + length].to_vec()),
        _ => None,
    };
    a.send(&frame(ALL, mac(1), b"to all"));
    b.until(&frame(ALL, mac(1), b"to all"));
    assert_eq!(next(NOTHING), None);
    let source = Source { port: 1, direction: Direction::In };
    let filter = "all".parse().unwrap();
    let mirror = Mirror { to: 3, temporary: true, sources: vec![source], filter };
    switch.ask().add_mirror(mirror).unwrap();
    a.send(&frame(ALL, mac(1), b"again"));
    assert_eq!(next(BOUND), Some(frame(ALL, mac(1), b"again")));
    assert_eq!(next(NOTHING), None, "once");
}

#[test]
fn a_reader_that_never_reads_bounds_its_senders_and_nobody_else() {
    let switch = Switch::start();
    let [a, b] = ["a", "b"].map(|name| Station::join(&switch, name));
    acquaint(&a, &b);
    let mut deaf = join(&switch, "deaf");
    send(&mut deaf, &frame(ALL, mac(3), b"here"));
    a.until(&frame(ALL, mac(3), b"here"));
    b.until(&frame(ALL, mac(3), b"here"));
    let big = frame(mac(3), mac(1), &[1; 9000]);
    let (mut longest, mut lost) = (Duration::ZERO, 0);
    for n in 0..2000u16 {
        let before = Instant::now();
        let sent = a.try_send(&big);
        longest = longest.max(before.elapsed());
        lost += u32::from(sent == Sent::Stalled);
        let small = frame(mac(2), mac(1), &n.to_le_bytes());
        a.send(&small);
        assert_eq!(b.next(), small);
    }
    println!("{lost} of 2000 lost, the longest wait was {longest:?}");
    assert!(lost > 1500, "{lost}");
    assert!(longest >= Duration::from_millis(90), "it was waited for: {longest:?}");
    // When it reads again it gets what it has room for.
    while world::try_next(&mut deaf, NOTHING).is_some() {}
    a.send(&frame(mac(3), mac(1), b"again"));
    assert_eq!(next(&mut deaf), frame(mac(3), mac(1), b"again"));
}
