//! Copies for a mirror port: from which ports they are taken, and which port makes them.

use super::port_hand;

use std::os::fd::AsFd;
use std::sync::Arc;

use netloom_bridge::MirrorFilter;
use netloom_shm::inbox::{Counter, PeerInbox};
use netloom_shm::page::{PortSet, RawRules, RawSession};
use netloom_shm::protocol::{MIRRORED, Message};
use netloom_shm::ring::{Outgoing, Pushed, Writer};
use netloom_shm::wake::Bell;
use netloom_shm::{SwitchPort, layout};
use port_hand::{ALL, Hand, Member, acquaint, frame, mac, take};

/// The mirror port, and a station that is a source of its session.
const MIRROR: u8 = 2;
const SOURCE: u8 = 1;

/// A ring to a port by one who writes into it what it likes.
fn edge_of(number: u8, to: &mut Member) -> Outgoing {
    let bell = Bell::create().expect("bell");
    let ring = Writer::create(layout::ring::LEAST_ARENA, u32::from(number)).expect("ring");
    let edge = Message::Edge { from: number, generation: number.into() };
    to.tell(&edge, &[ring.fd(), bell.fd()]);
    let inbox = PeerInbox::open(to.inbox.as_fd()).expect("inbox");
    ring.connect(Arc::new(inbox), number.into(), bell).expect("connect")
}

fn give(ring: &mut Outgoing, origin: u16, frame: &[u8]) {
    assert_eq!(ring.queue(origin, frame), Pushed::Done);
    ring.flush();
}

fn set(ports: &[u8]) -> PortSet {
    let mut set = PortSet::default();
    ports.iter().for_each(|port| set[usize::from(port / 64)] |= 1 << (port % 64));
    set
}

fn access(vid: u16, lock: Option<[u8; 6]>) -> RawRules {
    let (flags, macs) = (u8::from(lock.is_some()), lock.into_iter().collect());
    RawRules { generation: 0, mode: 1, flags, native: vid, allowed: Box::new([0; 64]), macs }
}

/// A session to the mirror port.
fn session(hand: &mut Hand, from: &[u8], toward: &[u8], filter: &MirrorFilter) {
    let (from, toward, filter) = (set(from), set(toward), filter.to_bytes());
    let session = RawSession { to: MIRROR.into(), from, toward, filter };
    hand.page.change(|edit| edit.set_session(0, Some(&session)));
}

fn forged(port: &mut SwitchPort) -> u64 {
    port.service().expect("service");
    port.counters().get(Counter::DroppedForged)
}

#[test]
fn copies_of_who_is_no_source_are_dropped_and_counted_for_it() {
    let mut hand = Hand::new("forged");
    let (mut watcher, mut at) = hand.port(MIRROR);
    let lock = mac(SOURCE);
    hand.page.change(|edit| {
        edit.set_vlan_aware(true);
        edit.set_port(1, Some(&access(10, Some(lock))));
        edit.set_port(2, Some(&access(10, None)));
        edit.set_port(3, Some(&access(20, None)));
        edit.set_port(4, Some(&access(10, None)));
    });
    let copy = frame(mac(9), lock, b"copy");
    let mut rings = [1, 3, 4].map(|number| edge_of(number, &mut at));
    let [source, stranger, neighbour] = &mut rings;
    // Without a session nobody's are taken; with one, those of members that are not sources are refused,
    // in whichever VLAN they are and whomever they name.
    give(source, MIRRORED | 1, &copy);
    assert_eq!((take(&mut watcher), forged(&mut watcher)), (None, 1));
    session(&mut hand, &[SOURCE], &[SOURCE], &MirrorFilter::default());
    for origin in [0, 1, 2, 3, 4, 0x7fff] {
        give(stranger, MIRRORED | origin, &copy);
        give(neighbour, MIRRORED | origin, &copy);
    }
    assert_eq!((take(&mut watcher), forged(&mut watcher)), (None, 13));
    let inbox = PeerInbox::open(at.inbox.as_fd()).expect("inbox");
    let drops = [1, 3, 4].map(|number| inbox.of_sender(number).drops);
    assert_eq!(drops, [1, 6, 6]);
    give(source, MIRRORED | 1, &copy);
    assert_eq!(take(&mut watcher), Some(copy));
    assert_eq!(forged(&mut watcher), 13);
}

#[test]
fn a_source_gives_copies_of_what_passes_it_alone() {
    let mut hand = Hand::new("vouched");
    let (mut watcher, mut at) = hand.port(MIRROR);
    let lock = mac(SOURCE);
    hand.page.change(|edit| {
        edit.set_vlan_aware(true);
        edit.set_port(1, Some(&access(10, None)));
        edit.set_port(3, Some(&access(20, None)));
        edit.set_port(4, Some(&access(10, Some(mac(4)))));
    });
    let filter = "ethertype 0x88b5".parse().expect("a filter");
    let mut source = edge_of(SOURCE, &mut at);
    let other = [&frame(mac(1), mac(4), b"")[..22], &[8, 0, 1, 2, 3][..]].concat();
    for (from, toward, origin, copy, is_taken) in [
        // What it sends itself, by its own rules.
        (true, false, 1, frame(mac(9), lock, b"own"), true),
        (false, true, 1, frame(mac(9), lock, b"own, not asked for"), false),
        (true, false, 1, frame(mac(9), mac(4), b"another's address"), false),
        // What it gets, by the sender's rules.
        (false, true, 4, frame(mac(1), mac(4), b"got"), true),
        (true, false, 4, frame(mac(1), mac(4), b"got, not asked for"), false),
        (false, true, 4, frame(mac(1), mac(7), b"not the sender's address"), false),
        (false, true, 3, frame(mac(1), mac(3), b"of another VLAN"), false),
        (false, true, 2, frame(mac(1), mac(2), b"sent by the mirror port"), false),
        (true, true, 4, other, false),
    ] {
        let text = String::from_utf8_lossy(&copy[24..]).into_owned();
        let sources = |is: bool| if is { vec![SOURCE] } else { vec![] };
        session(&mut hand, &sources(from), &sources(toward), &filter);
        let before = forged(&mut watcher);
        give(&mut source, MIRRORED | origin, &copy);
        assert_eq!(take(&mut watcher), is_taken.then_some(copy), "{text}");
        assert_eq!(forged(&mut watcher) - before, u64::from(!is_taken), "{text}");
    }
}

/// Which port makes the copies of a frame from port 1 to port 3, by which ports are sources.
#[test]
fn the_receiver_makes_copies_where_it_is_a_source_else_the_sender() {
    let mut hand = Hand::new("copies");
    let (_watcher, mut at) = hand.port(MIRROR);
    let [mut one, mut three] = [hand.port(1), hand.port(3)];
    acquaint(&hand, &mut one, &mut three);
    one.0.send(&frame(mac(3), mac(1), b"first")).expect("send");
    hand.open(&mut one.1, &mut three.1);
    assert!(take(&mut one.0).is_none() && take(&mut three.0).is_some());
    for (from, toward, makers) in [
        (&[1][..], &[][..], [1, 0]),
        (&[], &[3], [0, 1]),
        (&[1], &[3], [0, 1]),
        (&[3], &[1], [0, 0]),
        (&[1, 3], &[1, 3], [0, 1]),
    ] {
        session(&mut hand, from, toward, &MirrorFilter::default());
        let made = |one: &mut SwitchPort, three: &mut SwitchPort| {
            [one, three].map(|port| {
                port.service().expect("service");
                port.counters().get(Counter::Mirrored)
            })
        };
        let before = made(&mut one.0, &mut three.0);
        let sent = frame(mac(3), mac(1), b"copied once");
        one.0.send(&sent).expect("send");
        assert_eq!(take(&mut three.0), Some(sent));
        for member in [&mut one.1, &mut three.1] {
            while let Some((text, rings)) = member.message() {
                assert_eq!(text, "Open { to: 2 }");
                hand.connect(member, &mut at, &rings[0]);
            }
        }
        let after = made(&mut one.0, &mut three.0);
        assert_eq!([after[0] - before[0], after[1] - before[1]], makers, "{from:?} {toward:?}");
    }
    // Groups go to the switch, which makes the copies of what it relays.
    session(&mut hand, &[1], &[], &MirrorFilter::default());
    let before = one.0.counters().get(Counter::Mirrored);
    one.0.send(&frame(ALL, mac(1), b"to all")).expect("send");
    assert_eq!(one.0.counters().get(Counter::Mirrored), before);
}
