//! The relay driven by hand: shares, holding, and edges that stay behind earlier frames, at times that the
//! test chooses.

use std::os::fd::AsFd;

use netloom_shm::inbox::PeerInbox;
use netloom_shm::layout::ring::LEAST_ARENA;
use netloom_shm::protocol::{Capabilities, Peer};
use netloom_shm::ring::{Outgoing, Pushed, Reader, Writer};
use netloom_shm::wake::Bell;

use super::*;
use crate::pace::SHARED;
use crate::port::{Brought, Made, make};

const ALL: [u8; 6] = [0xff; 6];

struct Member {
    number: u8,
    inbox: Inbox,
    up: Outgoing,
    down: Reader,
}

fn hub() -> Hub {
    Hub::new(&Rules::default(), &Options::default()).unwrap()
}

fn join(hub: &mut Hub, number: u8) -> Member {
    let inbox = Inbox::create().unwrap();
    let uplink = Writer::create(LEAST_ARENA, 1).unwrap();
    let brought = Brought {
        client: u64::from(number),
        peer: Peer { pid: 0, uid: 0, gid: 0 },
        number,
        generation: 1,
        capabilities: Capabilities { super_frames: true, checksums: true },
        inbox: inbox.fd().try_clone_to_owned().unwrap(),
        uplink: uplink.fd().try_clone_to_owned().unwrap(),
    };
    let Made { port, given: [ring, up, _down] } =
        make(brought, &hub.inbox, Options::default().downlink).unwrap();
    hub.put(number, port);
    let theirs = Arc::new(PeerInbox::open(hub.inbox.fd()).unwrap());
    let bell = Bell::from_fd(up.try_clone().unwrap());
    let up = uplink.connect(theirs, number.into(), bell).unwrap();
    let down = Reader::open(ring.as_fd(), 0, &inbox).unwrap();
    Member { number, inbox, up, down }
}

fn mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, number]
}

/// A frame of 60 bytes with its header.
fn frame(to: [u8; 6], from: u8, n: u32) -> Vec<u8> {
    let mut frame = [&[0; HEADER][..], &to, &mac(from), &[0x88, 0xb5], &n.to_le_bytes()].concat();
    frame.resize(HEADER + 60, 0);
    frame
}

impl Member {
    /// Sends numbered frames while there is room, up to `most`; returns how many.
    fn send(&mut self, to: [u8; 6], from: u32, most: u32) -> u32 {
        let mut n = 0;
        while n < most && self.up.queue(0, &frame(to, self.number, from + n)) == Pushed::Done {
            n += 1;
        }
        self.up.flush();
        n
    }

    /// Takes up to `most` frames: their senders and numbers.
    fn take(&mut self, most: usize) -> Vec<(u16, u32)> {
        let mut buffer = vec![0; HEADER + LONGEST_FRAME];
        let mut all = vec![];
        while all.len() < most
            && let Taken::Frame { start, origin, .. } = self.down.take(&self.inbox, &mut buffer)
        {
            let number = buffer[start + HEADER + 14..][..4].try_into().unwrap();
            all.push((origin, u32::from_le_bytes(number)));
        }
        self.down.settle(&self.inbox);
        all
    }

    fn drops(&self, hub: &Hub) -> u64 {
        PeerInbox::open(hub.inbox.fd()).unwrap().of_sender(self.number.into()).drops
    }
}

/// Rings a bell and relays everything, as of one moment.
fn relay(hub: &mut Hub, now: Instant) {
    hub.wake_up();
    for _ in 0..1000 {
        assert!(hub.relay(now).is_empty());
        if hub.pause() != Some(Duration::ZERO) {
            return;
        }
    }
    panic!("it never rests");
}

fn of(frames: &[(u16, u32)], sender: u8) -> Vec<u32> {
    frames.iter().filter(|(from, _)| *from == u16::from(sender)).map(|(_, n)| *n).collect()
}

#[test]
fn who_floods_takes_nothing_from_others() {
    for flooders in [1, 8] {
        let (mut hub, now) = (hub(), Instant::now());
        let mut receiver = join(&mut hub, 1);
        let mut sender = join(&mut hub, 2);
        let mut floods: Vec<Member> = (3..3 + flooders).map(|n| join(&mut hub, n)).collect();
        // So that frames go to the receiver only.
        receiver.send(ALL, 0, 1);
        relay(&mut hub, now);
        for round in 0..20 {
            for flooder in &mut floods {
                flooder.send(mac(1), round, u32::MAX);
            }
            relay(&mut hub, now);
        }
        assert_eq!(sender.send(mac(1), 0, 100), 100);
        relay(&mut hub, now);
        let got = receiver.take(usize::MAX);
        assert_eq!(of(&got, 2), (0..100).collect::<Vec<_>>(), "{flooders} flooders");
        assert_eq!(sender.drops(&hub), 0);
        // All flooders got equal shares, give or take some frames.
        let counts: Vec<usize> = floods.iter().map(|f| of(&got, f.number).len()).collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(*least > 100 && most - least <= most / 2, "{counts:?}");
    }
}

#[test]
fn who_sends_more_than_is_taken_waits_and_loses_nothing() {
    let (mut hub, now) = (hub(), Instant::now());
    let (mut receiver, mut sender) = (join(&mut hub, 1), join(&mut hub, 2));
    let (mut sent, mut got) = (0, vec![]);
    let mut waits = 0;
    for _ in 0..400 {
        let more = sender.send(mac(1), sent, 500);
        sent += more;
        waits += u32::from(more < 500);
        relay(&mut hub, now + HOLD - Duration::from_millis(1));
        got.extend(receiver.take(100));
    }
    assert!(waits > 100, "{waits}");
    assert_eq!(hub.pause(), Some(LOOK));
    while hub.pause() == Some(LOOK) {
        relay(&mut hub, now);
        got.extend(receiver.take(100));
    }
    got.extend(receiver.take(usize::MAX));
    assert_eq!(of(&got, 2), (0..sent).collect::<Vec<_>>());
    assert_eq!(sender.drops(&hub), 0);
    assert_eq!(hub.port(1).unwrap().missed, 0);
}

#[test]
fn who_does_not_read_is_waited_for_once() {
    let (mut hub, now) = (hub(), Instant::now());
    let (mut deaf, mut sender) = (join(&mut hub, 1), join(&mut hub, 2));
    let mut other = join(&mut hub, 3);
    for member in [&mut deaf, &mut other] {
        member.send(ALL, 0, 1);
    }
    relay(&mut hub, now);
    sender.take(usize::MAX);
    other.take(usize::MAX);
    // Its uplink is held, and fills.
    while sender.send(mac(1), 0, u32::MAX) > 0 {
        relay(&mut hub, now);
    }
    let almost = now + HOLD - Duration::from_nanos(1);
    relay(&mut hub, almost);
    assert_eq!((sender.drops(&hub), sender.send(mac(1), 0, 1)), (0, 0));
    // After the wait has timed out, all its frames are dropped at once and counted for the sender.
    relay(&mut hub, now + HOLD);
    let lost = sender.drops(&hub);
    assert_eq!((lost, hub.pause()), (hub.port(1).unwrap().missed, None));
    assert!(lost > 2000, "{lost}");
    assert_eq!(sender.send(mac(1), 0, 10), 10);
    assert_eq!(sender.send(mac(3), 7, 1), 1);
    relay(&mut hub, now + HOLD);
    assert_eq!((sender.drops(&hub), other.take(usize::MAX)), (lost + 10, vec![(2, 7)]));
    // Frames with other receivers do not wait for a port that does not read either.
    assert_eq!(sender.send(ALL, 8, 1), 1);
    relay(&mut hub, now + HOLD);
    assert_eq!((sender.drops(&hub), other.take(usize::MAX)), (lost + 11, vec![(2, 8)]));
    // It reads again, and gets frames again.
    assert!(deaf.take(usize::MAX).len() > 1000);
    sender.send(mac(1), 9, 1);
    relay(&mut hub, now + HOLD);
    assert_eq!(deaf.take(usize::MAX), [(2, 9)]);
}

#[test]
fn frames_for_many_wait_for_who_keeps_up() {
    let (mut hub, now) = (hub(), Instant::now());
    let (mut slow, mut quick) = (join(&mut hub, 1), join(&mut hub, 3));
    let mut sender = join(&mut hub, 2);
    let (mut sent, mut waits) = (0, 0);
    let mut got = [vec![], vec![]];
    for step in 0..400 {
        let more = sender.send(ALL, sent, 500);
        sent += more;
        waits += u32::from(more < 500);
        // Each lot is taken in less time than frames wait for it.
        relay(&mut hub, now + SHARED / 20 * step);
        got[0].extend(slow.take(100));
        got[1].extend(quick.take(usize::MAX));
    }
    assert!(waits > 100, "{waits}");
    for step in 0..1000 {
        relay(&mut hub, now + SHARED / 20 * (400 + step));
        got[0].extend(slow.take(100));
        got[1].extend(quick.take(usize::MAX));
    }
    for got in &got {
        assert_eq!(of(got, 2), (0..sent).collect::<Vec<_>>());
    }
    assert_eq!((sender.drops(&hub), hub.pause()), (0, None));
}

#[test]
fn frames_for_many_wait_little_for_who_does_not_keep_up() {
    let (mut hub, now) = (hub(), Instant::now());
    let (mut slow, mut quick) = (join(&mut hub, 1), join(&mut hub, 3));
    let mut sender = join(&mut hub, 2);
    let mut sent = 0;
    let mut fill = |hub: &mut Hub, quick: &mut Member, sender: &mut Member, at| {
        for _ in 0..20 {
            sent += sender.send(ALL, sent, 500);
            relay(hub, at);
            quick.take(usize::MAX);
        }
        sent
    };
    fill(&mut hub, &mut quick, &mut sender, now);
    assert_eq!((sender.drops(&hub), hub.pause()), (0, Some(LOOK)));
    relay(&mut hub, now + SHARED - Duration::from_nanos(1));
    assert_eq!((sender.drops(&hub), hub.pause()), (0, Some(LOOK)));
    // The wait is over: from now on the other one is not held up, even if this one reads a frame now and then.
    let later = now + SHARED;
    for _ in 0..10 {
        relay(&mut hub, later);
        quick.take(usize::MAX);
    }
    for n in 0..10 {
        let before = sender.drops(&hub);
        assert_eq!(sender.send(ALL, 7 + n, 2), 2);
        relay(&mut hub, later);
        assert_eq!((hub.pause(), quick.take(usize::MAX).len()), (None, 2));
        assert!(sender.drops(&hub) > before);
        slow.take(1);
    }
    let lost = sender.drops(&hub);
    assert_eq!(lost, hub.port(1).unwrap().missed);
    // It has read all: it is waited for again.
    slow.take(usize::MAX);
    fill(&mut hub, &mut quick, &mut sender, later);
    assert_eq!((sender.drops(&hub), hub.pause()), (lost, Some(LOOK)));
}

#[test]
fn who_sends_to_a_known_station_is_told_where_it_is() {
    let (mut hub, now) = (hub(), Instant::now());
    let (mut station, mut sender) = (join(&mut hub, 1), join(&mut hub, 2));
    station.send(ALL, 0, 1);
    relay(&mut hub, now);
    assert_eq!(hub.hints(), []);
    sender.send(mac(9), 0, 5);
    sender.send(ALL, 0, 5);
    relay(&mut hub, now);
    assert_eq!(hub.hints(), [], "of nobody that it has not heard of");
    let hint = Hint { from: 2, to: 1, vid: None, mac: Mac(mac(1)) };
    for after in [0, 1] {
        sender.send(mac(1), 0, 100);
        relay(&mut hub, now + after * Duration::from_millis(10));
        assert_eq!(hub.hints(), [hint]);
    }
    hub.take(1);
    sender.send(mac(1), 0, 1);
    relay(&mut hub, now + Duration::from_secs(1));
    assert_eq!(hub.hints(), []);
}

#[test]
fn what_was_sent_before_its_sender_left_is_relayed() {
    let (mut hub, now) = (hub(), Instant::now());
    let (mut receiver, mut sender) = (join(&mut hub, 1), join(&mut hub, 2));
    assert_eq!(sender.send(mac(1), 0, 1000), 1000);
    hub.finish(2, now);
    hub.take(2);
    assert_eq!(of(&receiver.take(usize::MAX), 2), (0..1000).collect::<Vec<_>>());
    // A held frame, and what is behind it, are counted if there is no room in the end.
    let mut sender = join(&mut hub, 3);
    let mut sent = 0;
    for _ in 0..10 {
        sent += sender.send(mac(1), sent, 1000);
        relay(&mut hub, now);
    }
    assert_eq!(hub.pause(), Some(LOOK));
    hub.finish(3, now);
    let got = receiver.take(usize::MAX).len();
    assert_eq!(sender.drops(&hub) + got as u64, u64::from(sent));
    hub.take(3);
    relay(&mut hub, now);
    assert_eq!(hub.pause(), None);
}

#[test]
fn an_edge_comes_behind_all_that_was_sent_before() {
    let (mut hub, now) = (hub(), Instant::now());
    let (mut receiver, mut sender) = (join(&mut hub, 1), join(&mut hub, 2));
    let sent = sender.send(mac(1), 0, u32::MAX);
    assert!(sent > 3000);
    let ring = || Writer::create(LEAST_ARENA, 1).unwrap().fd().try_clone_to_owned().unwrap();
    // The second replaces the first.
    hub.ask(2, 1, ring());
    hub.ask(2, 1, ring());
    let mut got = vec![];
    let due = loop {
        assert!(hub.relay(now).is_empty());
        let due = hub.due();
        if !due.is_empty() {
            break due;
        }
        got.extend(receiver.take(50));
    };
    got.extend(receiver.take(usize::MAX));
    assert_eq!(of(&got, 2), (0..sent).collect::<Vec<_>>());
    assert_eq!(due.iter().map(|(from, open)| (*from, open.to)).collect::<Vec<_>>(), [(2, 1)]);
    // With everything relayed, it opens at once; a port that leaves gets none.
    hub.ask(2, 1, ring());
    assert_eq!((hub.relay(now).len(), hub.due().len()), (0, 1));
    hub.ask(2, 1, ring());
    hub.take(2);
    assert_eq!((hub.relay(now).len(), hub.due().len()), (0, 0));
    assert_eq!(hub.pause(), None);
}

#[test]
fn who_leaves_while_its_uplink_is_held_leaves_nothing() {
    let (mut hub, now) = (hub(), Instant::now());
    let (mut receiver, mut sender) = (join(&mut hub, 1), join(&mut hub, 2));
    for gone in [2, 1] {
        while sender.send(mac(1), 0, u32::MAX) > 0 {
            relay(&mut hub, now);
        }
        assert_eq!(hub.pause(), Some(LOOK));
        hub.take(gone);
        relay(&mut hub, now);
        assert_eq!(hub.pause(), None, "{gone}");
        if gone == 2 {
            sender = join(&mut hub, 2);
            receiver.take(usize::MAX);
        }
    }
}

/// A reader that reports an impossible position is dropped; ports that send to it are not.
#[test]
fn what_cannot_be_taken_of_a_downlink_costs_its_port_alone() {
    let (mut hub, now) = (hub(), Instant::now());
    let (receiver, mut sender) = (join(&mut hub, 1), join(&mut hub, 2));
    // Its cell reports a position of another ring with the downlink's generation, beyond the downlink's own.
    let forged = Writer::create(LEAST_ARENA, receiver.down.generation()).unwrap();
    let mut other = Reader::open(forged.fd(), 0, &receiver.inbox).unwrap();
    let own = Arc::new(PeerInbox::open(receiver.inbox.fd()).unwrap());
    let mut forged = forged.connect(own, 0, Bell::create().unwrap()).unwrap();
    let (frame, mut buffer) = (frame(ALL, 9, 0), vec![0; HEADER + LONGEST_FRAME]);
    while forged.written() < 4 * LEAST_ARENA as u64 {
        assert_eq!(forged.queue(0, &frame), Pushed::Done);
        forged.flush();
        assert!(matches!(other.take(&receiver.inbox, &mut buffer), Taken::Frame { .. }));
    }
    other.settle(&receiver.inbox);
    let mut bad = vec![];
    for _ in 0..100 {
        if !bad.is_empty() {
            break;
        }
        sender.send(mac(1), 0, u32::MAX);
        hub.wake_up();
        bad = hub.relay(now);
    }
    bad.dedup();
    assert_eq!(bad, [1]);
    hub.take(1);
    relay(&mut hub, now);
    assert_eq!(hub.pause(), None);
}
