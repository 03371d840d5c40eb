//! A port and a switch that is played by the test: edges, order, wake-ups, faults, and the switch's
//! end and return.

use super::port_hand;

use netloom_shm::inbox::{Counter, PeerInbox};
use netloom_shm::protocol::{Direction, MIRRORED, Message, Reason, Refused};
use netloom_shm::{Error, HEADER, JoinOptions, MOST_FRAME, Received, Sent, SwitchPort};
use port_hand::{ALL, BOUND, Hand, acquaint, acquainted, frame, mac, readable, take};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

fn count(port: &mut SwitchPort, counter: Counter) -> u64 {
    port.service().expect("service");
    port.counters().get(counter)
}

#[test]
fn what_is_sent_while_an_edge_is_opened_comes_first_and_behind_what_was_relayed() {
    let hand = Hand::new("order");
    let [(mut a, mut at), (mut b, mut bt)] = acquainted(&hand);
    a.send(&frame(mac(9), mac(1), b"up")).expect("send");
    for n in 0..3 {
        assert_eq!(a.send(&frame(mac(2), mac(1), &[n])).expect("send"), Sent::Done);
    }
    let ring = at.open_to(2);
    // The edge is told of before the relayed frame is read, which must come first nevertheless.
    hand.relay(&mut at, &mut bt);
    hand.connect(&mut at, &mut bt, &ring);
    for n in 3..6 {
        assert_eq!(a.send(&frame(mac(2), mac(1), &[n])).expect("send"), Sent::Done);
    }
    assert_eq!(take(&mut b), Some(frame(mac(9), mac(1), b"up")));
    for n in 0..6 {
        assert_eq!(take(&mut b), Some(frame(mac(2), mac(1), &[n])), "{n}");
    }
    assert_eq!(take(&mut b), None);
    assert!(hand.risen(&mut at).is_empty() && at.message().is_none());
    assert_eq!(count(&mut a, Counter::SentFrames), 8);
    let seen = PeerInbox::open(bt.inbox.as_fd()).expect("inbox").table();
    assert_eq!(seen.iter().map(|e| (e.mac, e.port)).collect::<Vec<_>>(), [(mac(1), 1)]);
}

#[test]
fn the_descriptor_is_readable_as_long_as_frames_are_left() {
    let hand = Hand::new("level");
    let [(mut a, mut at), (mut b, mut bt)] = acquainted(&hand);
    assert!(!readable(b.as_fd()));
    a.send(&frame(mac(2), mac(1), &[0])).expect("send");
    hand.open(&mut at, &mut bt);
    assert!(take(&mut a).is_none());
    let mut next = 0;
    for burst in [1, 2, 3, 200, 1, 1] {
        for n in 1..burst {
            a.queue(&frame(mac(2), mac(1), &[next + n])).expect("queue");
        }
        a.flush();
        for n in 0..burst {
            assert!(readable(b.as_fd()), "frame {n} of {burst}");
            assert_eq!(take(&mut b), Some(frame(mac(2), mac(1), &[next + n])));
        }
        assert!(!readable(b.as_fd()), "after {burst}");
        assert_eq!(take(&mut b), None);
        assert!(!readable(b.as_fd()));
        next = next.wrapping_add(burst - 1).wrapping_add(1) % 50;
        a.send(&frame(mac(2), mac(1), &[next])).expect("send");
    }
}

#[test]
fn the_descriptor_tells_of_frames_from_the_joining_on() {
    let hand = Hand::new("first");
    let (mut a, mut at) = hand.port(1);
    assert!(!readable(a.as_fd()));
    let first = frame(ALL, mac(2), b"first");
    assert_eq!(at.down.queue(2, &first), netloom_shm::ring::Pushed::Done);
    assert!(at.down.flush(), "it is asleep");
    assert!(readable(a.as_fd()));
    assert_eq!(take(&mut a), Some(first));
    assert!(!readable(a.as_fd()));
}

#[test]
fn who_was_woken_for_nothing_can_know() {
    let hand = Hand::new("woken");
    let (mut a, mut at) = hand.port(1);
    let some = frame(ALL, mac(2), b"some");
    for round in 0..3 {
        at.tell(&Message::PortGone { number: 9, generation: 1 }, &[]);
        assert!(readable(a.as_fd()));
        assert_eq!(take(&mut a), None);
        assert!(a.was_woken().unwrap() && !readable(a.as_fd()), "round {round}");
        assert_eq!(take(&mut a), None);
        assert!(!a.was_woken().unwrap());
        assert_eq!(at.down.queue(2, &some), netloom_shm::ring::Pushed::Done);
        at.down.flush();
        assert!(take(&mut a).is_some() && take(&mut a).is_none());
        assert!(!a.was_woken().unwrap());
    }
}

#[test]
fn two_that_do_not_read_while_they_send_lose_nothing() {
    let hand = Hand::new("both");
    let [mut one, mut two] = [1, 2].map(|number| {
        let mut options = hand.options(&format!("p{number}"));
        // However long the other's thread gets no processor.
        options.wait = BOUND;
        hand.admit(&options, number)
    });
    acquaint(&hand, &mut one, &mut two);
    let [(mut a, mut at), (mut b, mut bt)] = [one, two];
    a.send(&frame(mac(2), mac(1), b"a")).expect("send");
    b.send(&frame(mac(1), mac(2), b"b")).expect("send");
    hand.open(&mut at, &mut bt);
    hand.open(&mut bt, &mut at);
    // 3 MB each way, through rings of 1 MiB.
    let most = 2000;
    let talk = |mut port: SwitchPort, to: u8, from: u8| {
        let (to, from) = (mac(to), mac(from));
        let payload = [7; 1486];
        for _ in 0..most {
            assert_eq!(port.send(&frame(to, from, &payload)).expect("send"), Sent::Done);
        }
        let mut buffer = vec![0; MOST_FRAME];
        let mut got = 0;
        while got <= most {
            match port.receive_wait(&mut buffer, Some(BOUND)).expect("receive") {
                Received::Frame { .. } => got += 1,
                other => panic!("{other:?} after {got}"),
            }
        }
        assert_eq!(port.counters().dropped(), 0);
        port
    };
    std::thread::scope(|scope| {
        let a = scope.spawn(|| talk(a, 2, 1));
        let b = scope.spawn(|| talk(b, 1, 2));
        // Kept until both are done.
        [a.join().expect("no panic"), b.join().expect("no panic")]
    });
}

#[test]
fn who_does_not_read_is_waited_for_once() {
    let hand = Hand::new("stalled");
    let [(mut a, mut at), (mut b, mut bt)] = acquainted(&hand);
    let long = frame(mac(2), mac(1), &[0; 60_000]);
    a.send(&long).expect("send");
    hand.open(&mut at, &mut bt);
    let started = Instant::now();
    let mut sent = 1;
    while a.send(&long).expect("send") == Sent::Done {
        sent += 1;
    }
    for _ in 0..1000 {
        assert_eq!(a.send(&long).expect("send"), Sent::Stalled);
    }
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(100), "{took:?}");
    assert_eq!(count(&mut a, Counter::DroppedStalled), 1001);
    assert_eq!(count(&mut a, Counter::Waits), 1);
    for _ in 0..sent {
        assert!(take(&mut b).is_some());
    }
    assert_eq!(a.send(&long).expect("send"), Sent::Done);
    assert_eq!(take(&mut b), Some(long));
}

#[test]
fn what_was_sent_is_waited_for_at_the_end_and_what_is_left_is_told() {
    let hand = Hand::new("drain");
    let [(mut a, mut at), (mut b, mut bt)] = acquainted(&hand);
    let numbered = |n: u16| frame(mac(2), mac(1), &n.to_be_bytes());
    a.send(&numbered(0)).expect("send");
    hand.open(&mut at, &mut bt);
    for n in 1..500 {
        a.queue(&numbered(n)).expect("queue");
    }
    // Nobody reads.
    assert_eq!(a.drain(Duration::from_millis(5)).expect("drain"), 500);
    let reads = std::thread::spawn(move || {
        let mut taken = 0;
        while taken < 500 {
            taken += usize::from(take(&mut b).is_some());
        }
        // By this it tells that it has all.
        while take(&mut b).is_some() {}
        (b, bt)
    });
    assert_eq!(a.drain(Duration::from_secs(20)).expect("drain"), 0);
    // Kept until it is drained.
    let kept = reads.join().expect("no panic");
    // Many rings full, across their ends: what is left is counted by frames.
    let mut b = kept.0;
    let mut sent = 0_u64;
    for n in 0..20_000_u16 {
        a.send(&frame(mac(2), mac(1), &vec![1; usize::from(n % 1400)])).expect("send");
        sent += 1;
        if n % 64 == 0 {
            while take(&mut b).is_some() {
                sent -= 1;
            }
        }
    }
    assert_eq!(a.drain(Duration::ZERO).expect("drain"), sent);
}

#[test]
fn a_send_that_does_not_wait_takes_no_frame_without_room() {
    let hand = Hand::new("try");
    let [(mut a, mut at), (mut b, mut bt)] = acquainted(&hand);
    let long = frame(mac(2), mac(1), &[0; 60_000]);
    // Before the edge is there, and when it is full.
    let mut taken = 0;
    while a.try_send(&long).expect("send") == Sent::Done {
        taken += 1;
    }
    assert_eq!(a.try_send(&long).expect("send"), Sent::Full);
    hand.open(&mut at, &mut bt);
    while a.try_send(&long).expect("send") == Sent::Done {
        taken += 1;
    }
    for _ in 0..1000 {
        assert_eq!(a.try_send(&long).expect("send"), Sent::Full);
    }
    assert_eq!(count(&mut a, Counter::Waits) + a.counters().dropped(), 0);
    for _ in 0..taken {
        assert_eq!(take(&mut b).as_ref(), Some(&long));
    }
    assert_eq!(take(&mut b), None);
    assert_eq!(a.try_send(&long).expect("send"), Sent::Done);
    assert_eq!(take(&mut b), Some(long));
}

#[test]
fn what_is_held_for_an_edge_goes_out_before_its_port_ends() {
    let hand = Hand::new("last");
    let [(mut a, mut at), (mut b, mut bt)] = acquainted(&hand);
    a.send(&frame(mac(2), mac(1), b"1")).expect("send");
    // The answer is there, and nobody has looked.
    hand.open(&mut at, &mut bt);
    drop(a);
    assert_eq!(take(&mut b), Some(frame(mac(2), mac(1), b"1")));
}

#[test]
fn a_first_frame_goes_out_though_other_messages_come_first() {
    let hand = Hand::new("alone");
    let [(mut a, mut at), (mut b, mut bt)] = acquainted(&hand);
    at.tell(&Message::PortGone { number: 9, generation: 1 }, &[]);
    let took = std::thread::scope(|scope| {
        let switch = scope.spawn(|| {
            at.channel.wait(BOUND).expect("wait");
            hand.open(&mut at, &mut bt);
        });
        let started = Instant::now();
        a.send(&frame(mac(2), mac(1), b"1")).expect("send");
        let took = started.elapsed();
        switch.join().expect("no panic");
        took
    });
    // A switch that took too long is waited for no longer.
    if took < Duration::from_millis(5) {
        assert_eq!(take(&mut b), Some(frame(mac(2), mac(1), b"1")));
    }
}

#[test]
fn an_edge_that_is_refused_loses_what_was_held() {
    let hand = Hand::new("refused");
    let [(mut a, mut at), (b, bt)] = acquainted(&hand);
    drop((b, bt));
    a.send(&frame(mac(2), mac(1), b"1")).expect("send");
    at.open_to(2);
    let refused = Refused { reason: Reason::NoPort, number: 2, text: "gone" };
    at.tell(&Message::Refused(refused), &[]);
    assert_eq!(count(&mut a, Counter::DroppedGone), 1);
    // Its station is forgotten, and is looked for everywhere.
    let again = frame(mac(2), mac(1), b"2");
    assert_eq!(a.send(&again).expect("send"), Sent::Done);
    assert_eq!(hand.risen(&mut at), [again]);
}

#[test]
fn an_edge_that_may_not_be_is_not_asked_for_again() {
    let hand = Hand::new("denied");
    let [(mut a, mut at), (_b, _bt)] = acquainted(&hand);
    a.send(&frame(mac(2), mac(1), b"1")).expect("send");
    at.open_to(2);
    let refused = Refused { reason: Reason::Denied, number: 2, text: "no VLAN" };
    at.tell(&Message::Refused(refused), &[]);
    assert_eq!(count(&mut a, Counter::DroppedGone), 1);
    // The switch is to judge what comes next.
    let again = frame(mac(2), mac(1), b"2");
    assert_eq!(a.send(&again).expect("send"), Sent::Done);
    assert_eq!((hand.risen(&mut at), at.message().is_none()), (vec![again], true));
}

fn station(number: u8, vid: u16, mac: [u8; 6]) -> Message<'static> {
    Message::Station { number, vid, mac }
}

#[test]
fn frames_to_a_station_that_the_switch_tells_of_go_by_an_edge_behind_the_earlier_ones() {
    let hand = Hand::new("told");
    let [(mut a, mut at), (mut b, mut bt)] = [hand.port(1), hand.port(2)];
    let numbered = |n: u8| frame(mac(2), mac(1), &[n]);
    a.send(&numbered(0)).expect("send");
    at.tell(&station(2, 0, mac(2)), &[]);
    let mut sent = 1;
    // Messages are looked for once every few frames, not at each.
    let ring = loop {
        assert_eq!(a.send(&numbered(sent)).expect("send"), Sent::Done);
        sent += 1;
        if let Some((text, mut fds)) = at.message() {
            assert_eq!(text, "Open { to: 2 }");
            break fds.pop().expect("a ring");
        }
        assert!(sent < 100, "it does not listen");
    };
    for _ in 0..10 {
        a.send(&numbered(sent)).expect("send");
        sent += 1;
    }
    hand.relay(&mut at, &mut bt);
    hand.connect(&mut at, &mut bt, &ring);
    a.send(&numbered(sent)).expect("send");
    for n in 0..=sent {
        assert_eq!(take(&mut b), Some(numbered(n)), "{n} of {sent}");
    }
    assert_eq!(take(&mut b), None);
    assert!(hand.risen(&mut at).is_empty());
    assert_eq!(a.counters().dropped(), 0);
}

#[test]
fn what_a_port_has_heard_itself_counts_more_than_what_it_is_told() {
    let hand = Hand::new("heard");
    let [(mut a, mut at), (_b, _bt)] = acquainted(&hand);
    // Of itself, of a VLAN where there are none, and of a station that it knows.
    for told in [station(1, 0, mac(7)), station(2, 9, mac(8)), station(3, 0, mac(2))] {
        at.tell(&told, &[]);
    }
    a.service().expect("service");
    for n in [7, 8] {
        let unknown = frame(mac(n), mac(1), b"?");
        a.send(&unknown).expect("send");
        assert_eq!(hand.risen(&mut at), [unknown]);
    }
    a.send(&frame(mac(2), mac(1), b"1")).expect("send");
    at.open_to(2);
}

/// The kernel gives frames to a port that it does not see: their station is told of, and is not forgotten.
#[test]
fn a_station_that_a_port_is_told_of_again_is_as_if_it_had_spoken() {
    let hand = Hand::new("again");
    let [(mut a, mut at), (_b, _bt)] = acquainted(&hand);
    let inbox = PeerInbox::open(at.inbox.as_fd()).expect("its inbox");
    let seen = || inbox.find(mac(2), 0).map(|entry| (entry.port, entry.seen)).expect("a station");
    let before = seen();
    netloom_kit::wait_until("the station is younger", BOUND, || {
        at.tell(&station(2, 0, mac(2)), &[]);
        a.service().expect("service");
        (seen().1 > before.1).then_some(())
    });
    let younger = seen();
    // At another port it is not believed to be.
    at.tell(&station(3, 0, mac(2)), &[]);
    a.service().expect("service");
    assert_eq!((seen().0, younger.0), (2, 2));
}

#[test]
fn a_port_that_is_to_tells_of_a_station_that_has_moved() {
    let hand = Hand::new("moved");
    let options = |tells_moves| JoinOptions { tells_moves, ..hand.options("p") };
    for tells in [true, false] {
        let (mut a, mut at) = hand.admit(&options(tells), 1);
        let mut others = [hand.port(2), hand.port(3)];
        let hello = frame(ALL, mac(9), b"hello");
        for (from, told) in [(0, false), (0, false), (1, true), (1, false), (0, true)] {
            let (port, member) = &mut others[from];
            port.send(&hello).expect("send");
            hand.relay(member, &mut at);
            assert_eq!(take(&mut a), Some(hello.clone()));
            let message = at.message().map(|(text, _)| text);
            assert_eq!(message.as_deref(), (told && tells).then_some("Moved"));
        }
    }
}

#[test]
fn what_stands_in_the_ring_of_one_that_is_gone_is_read() {
    let hand = Hand::new("gone");
    let [(mut a, mut at), (mut b, mut bt)] = acquainted(&hand);
    a.send(&frame(mac(2), mac(1), b"1")).expect("send");
    b.send(&frame(mac(1), mac(2), b"2")).expect("send");
    hand.open(&mut at, &mut bt);
    hand.open(&mut bt, &mut at);
    b.service().expect("service");
    assert!(take(&mut a).is_some() && take(&mut a).is_none());
    for n in 0..100 {
        a.send(&frame(mac(2), mac(1), &[n])).expect("send");
    }
    drop((a, at));
    // Another life of the number is not meant.
    bt.tell(&Message::PortGone { number: 1, generation: 77 }, &[]);
    bt.tell(&Message::PortGone { number: 1, generation: 1 }, &[]);
    assert!(readable(b.as_fd()));
    b.service().expect("service");
    assert_eq!(take(&mut b), Some(frame(mac(2), mac(1), b"1")));
    for n in 0..100 {
        assert!(readable(b.as_fd()));
        assert_eq!(take(&mut b), Some(frame(mac(2), mac(1), &[n])));
    }
    assert_eq!(take(&mut b), None);
    // The next port of that number is a new one.
    let mut one = hand.port(1);
    let mut two = (b, bt);
    acquaint(&hand, &mut one, &mut two);
    two.0.send(&frame(mac(1), mac(2), b"3")).expect("send");
    hand.open(&mut two.1, &mut one.1);
    two.0.service().expect("service");
    assert_eq!(take(&mut one.0), Some(frame(mac(1), mac(2), b"3")));
}

#[test]
fn an_edge_that_holds_what_cannot_be_is_closed_alone() {
    let hand = Hand::new("corrupt");
    let [mut one, mut two] = acquainted(&hand);
    let forged = forged_ring();
    let bell = netloom_shm::wake::Bell::create().expect("bell");
    let edge = Message::Edge { from: 9, generation: 9 };
    two.1.tell(&edge, &[forged.as_fd(), bell.fd()]);
    one.0.send(&frame(mac(2), mac(1), b"1")).expect("send");
    hand.open(&mut one.1, &mut two.1);
    one.0.service().expect("service");
    assert_eq!(take(&mut two.0), Some(frame(mac(2), mac(1), b"1")));
    assert_eq!(take(&mut two.0), None);
    assert_eq!(count(&mut two.0, Counter::CorruptEdges), 1);
    let (text, _) = two.1.message().expect("a message");
    assert_eq!(text, "Close { number: 9, direction: In }");
    // The same for a descriptor that is not memory.
    let plain = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
    two.1.tell(&edge, &[plain.as_fd(), bell.fd()]);
    assert_eq!(count(&mut two.0, Counter::CorruptEdges), 2);
    one.0.send(&frame(mac(2), mac(1), b"2")).expect("send");
    assert_eq!(take(&mut two.0), Some(frame(mac(2), mac(1), b"2")));
}

/// A ring of 256 KiB whose head is beyond what it can be.
fn forged_ring() -> std::os::fd::OwnedFd {
    use netloom_shm::layout;
    use rustix::fs::{MemfdFlags, SealFlags};
    let arena: u64 = 256 * 1024;
    let fd = rustix::fs::memfd_create("forged", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .expect("memory");
    rustix::fs::ftruncate(&fd, layout::ring::ARENA_AT as u64 + arena).expect("size");
    let write = |at: usize, bytes: &[u8]| {
        rustix::io::pwrite(&fd, bytes, at as u64).expect("write");
    };
    write(layout::MAGIC_AT, &layout::ring::MAGIC.to_ne_bytes());
    write(layout::VERSION_AT, &layout::VERSION.to_ne_bytes());
    write(layout::LENGTH_AT, &arena.to_ne_bytes());
    write(layout::ring::GENERATION_AT, &1u32.to_ne_bytes());
    write(layout::ring::HEAD_AT, &(1u64 << 40).to_ne_bytes());
    let seals = SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&fd, seals).expect("seal");
    fd
}

#[test]
fn an_edge_closed_by_its_reader_is_asked_for_again_after_a_second() {
    let hand = Hand::new("closed");
    let [(mut a, mut at), (_b, mut bt)] = acquainted(&hand);
    a.send(&frame(mac(2), mac(1), b"1")).expect("send");
    hand.open(&mut at, &mut bt);
    a.service().expect("service");
    at.close(2, Direction::Out);
    a.service().expect("service");
    assert_eq!(a.send(&frame(mac(2), mac(1), b"2")).expect("send"), Sent::Stalled);
    assert!(at.message().is_none());
    let end = Instant::now() + BOUND;
    while {
        a.service().expect("service");
        a.send(&frame(mac(2), mac(1), b"3")).expect("send") == Sent::Stalled
    } {
        assert!(Instant::now() < end);
    }
    at.open_to(2);
}

#[test]
fn an_edge_for_which_no_descriptor_is_left_is_asked_for_again_after_a_second() {
    // Its lines and its limit are not this test's.
    let done = netloom_kit::again(&without_descriptors).output().expect("run");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

#[test]
#[ignore = "helper: started by other tests"]
fn without_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let hand = Hand::new("none-left");
    let [(mut a, mut at), (mut b, mut bt)] = acquainted(&hand);
    // The lowest that is free: below it none is.
    let free = std::fs::File::open("/dev/null").expect("open");
    let next = u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&free)).expect("a number");
    drop(free);
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(next), ..before }).expect("limit");
    let failed = a.send(&frame(mac(2), mac(1), b"1")).expect_err("no ring can be made");
    assert!(netloom_sys::describe(&failed).contains("Too many open files"), "{failed:?}");
    // Frames to others go on, and those to this one are not held for an edge that nobody opens.
    assert_eq!(a.send(&frame(ALL, mac(1), b"2")).expect("send"), Sent::Done);
    let held = matches!(a.send(&frame(mac(2), mac(1), b"3")), Ok(Sent::Done));
    assert!(!held, "it waits for ever");
    setrlimit(Resource::Nofile, before).expect("limit");
    hand.relay(&mut at, &mut bt);
    assert_eq!(take(&mut b), Some(frame(ALL, mac(1), b"2")));
    let end = Instant::now() + BOUND;
    while {
        a.service().expect("service");
        a.send(&frame(mac(2), mac(1), b"4")).expect("send") == Sent::Stalled
    } {
        assert!(Instant::now() < end);
    }
    hand.open(&mut at, &mut bt);
    a.service().expect("service");
    assert_eq!(take(&mut b), Some(frame(mac(2), mac(1), b"4")));
}

#[test]
fn nonsense_of_a_switch_changes_nothing() {
    let hand = Hand::new("nonsense");
    let [(mut a, mut at), (mut b, mut bt)] = acquainted(&hand);
    let bell = netloom_shm::wake::Bell::create().expect("bell");
    at.tell(&Message::Opened { to: 9, generation: 1 }, &[at_fd(&bt.inbox).as_fd(), bell.fd()]);
    at.tell(&Message::Edge { from: 1, generation: 1 }, &[bell.fd(), bell.fd()]);
    at.tell(&Message::PortGone { number: 200, generation: 1 }, &[]);
    at.close(200, Direction::In);
    at.close(200, Direction::Out);
    at.tell(&Message::Bye, &[]);
    at.tell(&Message::Open { to: 3 }, &[bell.fd()]);
    at.tell(&Message::Refused(Refused { reason: Reason::Full, number: 0, text: "" }), &[]);
    rustix::net::send(&at.channel, b"nonsense", rustix::net::SendFlags::empty()).expect("send");
    a.send(&frame(mac(2), mac(1), b"1")).expect("send");
    hand.open(&mut at, &mut bt);
    a.service().expect("service");
    assert_eq!(take(&mut b), Some(frame(mac(2), mac(1), b"1")));
    assert_eq!(a.counters().dropped(), 0);
}

fn at_fd(fd: &std::os::fd::OwnedFd) -> std::os::fd::OwnedFd {
    fd.try_clone().expect("clone")
}

/// A TCP super-frame with an unfinished checksum and this many bytes of payload, in segments of 1448.
fn super_frame(payload: usize) -> Vec<u8> {
    let mut frame = [&mac(2)[..], &mac(1), &[8, 0]].concat();
    let length = u16::try_from(40 + payload).expect("small").to_be_bytes();
    frame.extend([0x45, 0, length[0], length[1], 0, 1, 0x40, 0, 64, 6, 0, 0]);
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = netloom_packet::checksum::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend([0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    frame.extend((0..payload).map(|n| n.to_le_bytes()[0]));
    let headers = netloom_packet::Headers::parse(&frame).expect("headers");
    let ip = headers.ip.expect("IP");
    let pseudo = netloom_packet::checksum::pseudo_header(&frame, 14, &ip, 20 + payload);
    frame[50..52].copy_from_slice(&netloom_packet::checksum::fold(pseudo).to_be_bytes());
    let header = netloom_packet::VnetHeader {
        needs_csum: true,
        gso: netloom_packet::Gso::TcpV4,
        hdr_len: 54,
        gso_size: 1448,
        csum_start: 34,
        csum_offset: 16,
        ..netloom_packet::VnetHeader::default()
    };
    [&header.encode()[..], &frame].concat()
}

fn payload_of(frame: &[u8]) -> &[u8] {
    let body = &frame[HEADER..];
    let headers = netloom_packet::Headers::parse(body).expect("headers");
    let ip = headers.ip.expect("IP");
    assert!(netloom_packet::checksum::verifies(body, headers.network, &ip));
    &body[ip.payload.expect("payload")..ip.end]
}

#[test]
fn super_frames_are_cut_and_finished_where_they_cannot_be_taken() {
    let hand = Hand::new("super");
    let mut one = hand.port(1);
    let mut plain = hand.options("p2");
    (plain.super_frames, plain.checksums) = (false, false);
    let mut two = hand.admit(&plain, 2);
    acquaint(&hand, &mut one, &mut two);
    let whole = super_frame(60_000);
    one.0.send(&whole).expect("send");
    hand.open(&mut one.1, &mut two.1);
    one.0.service().expect("service");
    two.0.service().expect("service");
    for small in [false, true] {
        let mut buffer = vec![0; if small { 1600 } else { MOST_FRAME }];
        let mut payload: Vec<u8> = vec![];
        let mut packets = 0;
        while let Received::Frame { start, length } = two.0.receive(&mut buffer).expect("receive") {
            let frame = &buffer[start..start + length];
            assert_eq!(frame[..HEADER], [0; HEADER]);
            assert!(frame.len() <= HEADER + 54 + 1448);
            payload.extend(payload_of(frame));
            packets += 1;
        }
        assert_eq!(packets, 60_000usize.div_ceil(1448));
        assert_eq!(payload, whole[HEADER + 54..]);
        one.0.send(&whole).expect("send");
    }
    assert_eq!(count(&mut two.0, Counter::Segmented), 2);
    assert_eq!(count(&mut one.0, Counter::SentSuper), 3);
}

#[test]
fn headers_that_cannot_be_and_forged_copies_are_dropped() {
    let hand = Hand::new("headers");
    let [(mut a, mut at), (mut b, mut bt)] = acquainted(&hand);
    a.send(&frame(mac(2), mac(1), b"1")).expect("send");
    hand.open(&mut at, &mut bt);
    a.service().expect("service");
    assert!(take(&mut b).is_some());
    for (place, value) in [(1, 9), (1, 1), (0, 1)] {
        let mut wrong = frame(mac(2), mac(1), b"wrong");
        wrong[place] = value;
        if value == 1 && place == 0 {
            wrong[6] = 200;
        }
        a.send(&wrong).expect("send");
    }
    assert_eq!(take(&mut b), None);
    assert_eq!(count(&mut b, Counter::DroppedHeader), 3);
    // Nobody mirrors to this port.
    let pushed = bt.down.queue(MIRRORED | 1, &frame(mac(2), mac(1), b"copy"));
    assert_eq!(pushed, netloom_shm::ring::Pushed::Done);
    bt.down.flush();
    assert_eq!(take(&mut b), None);
    assert_eq!(count(&mut b, Counter::DroppedForged), 1);
}

#[test]
fn frames_that_are_none_are_refused_where_they_are_sent() {
    let hand = Hand::new("refuse");
    let (mut a, mut at) = hand.port(1);
    let whole = frame(ALL, mac(1), &[0; 65_600]);
    assert_eq!(a.send(&whole[..HEADER + 13]).expect("send"), Sent::Refused);
    assert_eq!(a.send(&[]).expect("send"), Sent::Refused);
    assert_eq!(a.send(&whole).expect("send"), Sent::Refused);
    let pause = frame([1, 0x80, 0xc2, 0, 0, 1], mac(1), &[]);
    assert_eq!(a.send(&pause).expect("send"), Sent::Refused);
    assert!(hand.risen(&mut at).is_empty());
    let counters = a.counters();
    let found = [Counter::DroppedRunt, Counter::DroppedOversize, Counter::DroppedReserved]
        .map(|counter| counters.get(counter));
    assert_eq!(found, [2, 1, 1]);
}

#[test]
fn a_port_that_does_not_look_for_its_switch_ends_with_it() {
    let hand = Hand::new("end");
    let mut options = hand.options("p1");
    options.reconnect = false;
    let (mut a, mut at) = hand.admit(&options, 1);
    assert!(!readable(a.control_fd()) && !readable(a.as_fd()));
    at.tell(&Message::PortGone { number: 9, generation: 1 }, &[]);
    assert!(readable(a.as_fd()) && !readable(a.control_fd()));
    let last = frame(ALL, mac(2), b"last");
    assert_eq!(at.down.queue(2, &last), netloom_shm::ring::Pushed::Done);
    at.down.flush();
    drop(at);
    assert!(readable(a.as_fd()) && readable(a.control_fd()));
    let mut buffer = vec![0; MOST_FRAME];
    let found = a.receive(&mut buffer).expect("receive");
    assert!(matches!(found, Received::Frame { .. }), "{found:?}");
    assert_eq!(a.receive(&mut buffer).expect("receive"), Received::Gone);
    let found = a.receive_wait(&mut buffer, None).expect("receive");
    assert_eq!(found, Received::Gone);
    assert_eq!(a.send(&frame(ALL, mac(1), &[])).expect("send"), Sent::Gone);
    assert!(readable(a.control_fd()));
}

/// Serves a port until it has come back to the switch.
fn back(hand: &Hand, port: &mut SwitchPort, number: u8, generation: u32) -> port_hand::Member {
    std::thread::scope(|scope| {
        let member = scope.spawn(|| hand.welcome(number, generation).expect("welcome"));
        let mut buffer = vec![0; MOST_FRAME];
        let end = Instant::now() + BOUND;
        while !member.is_finished() {
            assert!(Instant::now() < end, "it does not come back");
            let found = port.receive_wait(&mut buffer, Some(Duration::from_millis(10)));
            assert_eq!(found.expect("receive"), Received::Empty);
        }
        port.service().expect("service");
        member.join().expect("no panic")
    })
}

#[test]
fn edges_go_on_without_the_switch_and_its_successor_takes_them_over() {
    let mut hand = Hand::new("restart");
    let [(mut a, mut at), (mut b, mut bt)] = acquainted(&hand);
    a.send(&frame(mac(2), mac(1), b"1")).expect("send");
    hand.open(&mut at, &mut bt);
    a.service().expect("service");
    assert!(take(&mut b).is_some());
    // An Open that the old switch does not answer any more.
    b.send(&frame(mac(1), mac(2), b"held")).expect("send");
    let (a_token, token) = ([1; 16], [2; 16]);
    drop((at, bt));
    hand.start_again();
    assert!(readable(a.as_fd()) && readable(a.control_fd()));
    a.service().expect("service");
    for n in 0..100 {
        assert_eq!(a.send(&frame(mac(2), mac(1), &[n])).expect("send"), Sent::Done);
        assert_eq!(take(&mut b), Some(frame(mac(2), mac(1), &[n])));
        assert_eq!(a.send(&frame(ALL, mac(1), &[n])).expect("send"), Sent::Done);
    }
    let mut at = back(&hand, &mut a, 1, 1);
    let mut bt = back(&hand, &mut b, 2, 2);
    assert!(readable(a.control_fd()), "it remembers");
    assert_eq!((at.token, bt.token), (a_token, token));
    assert_eq!(
        format!("{:?}", at.edges),
        "[EdgeName { number: 2, direction: Out, generation: 2 }]"
    );
    assert_eq!(format!("{:?}", bt.edges), "[EdgeName { number: 1, direction: In, generation: 1 }]");
    // What would have gone up meanwhile.
    let risen = hand.risen(&mut at);
    assert_eq!(risen, (0..100).map(|n| frame(ALL, mac(1), &[n])).collect::<Vec<_>>());
    // The Open comes again, with what was held.
    hand.open(&mut bt, &mut at);
    b.service().expect("service");
    assert_eq!(take(&mut a), Some(frame(mac(1), mac(2), b"held")));
    a.send(&frame(mac(2), mac(1), b"2")).expect("send");
    assert_eq!(take(&mut b), Some(frame(mac(2), mac(1), b"2")));
    assert_eq!((a.counters().dropped(), b.counters().dropped()), (0, 0));
}

#[test]
fn a_port_that_a_new_switch_does_not_know_begins_anew() {
    let mut hand = Hand::new("fresh");
    let [(mut a, mut at), (b, mut bt)] = acquainted(&hand);
    a.send(&frame(mac(2), mac(1), b"1")).expect("send");
    hand.open(&mut at, &mut bt);
    a.service().expect("service");
    drop((at, b, bt));
    hand.start_again();
    let mut at = back(&hand, &mut a, 7, 70);
    assert_eq!(a.number(), 7);
    // It has no edges, and knows nobody.
    let lost = frame(mac(2), mac(1), b"2");
    assert_eq!(a.send(&lost).expect("send"), Sent::Done);
    assert_eq!(hand.risen(&mut at), [lost]);
}

#[test]
fn what_cannot_join_says_why() {
    let hand = Hand::new("join");
    let mut options = hand.options("");
    assert!(matches!(SwitchPort::join(&options), Err(Error::Name { .. })));
    options.name = "x".into();
    options.number = 256;
    assert!(matches!(SwitchPort::join(&options), Err(Error::Name { .. })));
    options.number = 0;
    let refused = std::thread::scope(|scope| {
        let port = scope.spawn(|| SwitchPort::join(&options).map(drop));
        let mut channel = hand.accept();
        channel.wait(BOUND).expect("wait");
        let refused = Refused { reason: Reason::Full, number: 0, text: "255 ports are here" };
        channel.send(&Message::Refused(refused), &[]).expect("send");
        port.join().expect("no panic")
    });
    let text = refused.expect_err("refused").to_string();
    assert!(text.ends_with("join: 255 ports are here (full)"), "{text}");
    options.switch = "/nonexistent/socket".into();
    let error = SwitchPort::join(&options).expect_err("no switch");
    assert_eq!(error.raw_os_error(), Some(2), "{error}");
}
