//! What the switch tells senders of stations, and which ports may have edges: hostile members included.

use super::world;

use std::time::Duration;

use netloom_shm::protocol::Message;
use netloom_shm::ring::Writer;
use netloom_shm::{JoinOptions, Sent, SwitchPort};
use netloom_switch::control::requests::PortChange;
use netloom_switch::rules::{Direction, Mirror, Source, Vid, Vlan};
use world::{ALL, BOUND, Raw, Station, Switch, frame, join, mac, next, send, tell, whole};

const NOTHING: Duration = Duration::from_millis(50);

/// Waits until the switch knows a station behind this port.
fn heard_of(switch: &Switch, mac: [u8; 6], port: u16) {
    netloom_kit::wait_until("the switch to hear of a station", BOUND, || {
        let tables = switch.ask().macs(Some(0.into())).unwrap();
        let is_there = |table: &netloom_switch::control::requests::MacTable| {
            table.entries.iter().any(|entry| entry.mac.0 == mac && entry.port == port)
        };
        tables.iter().any(is_there).then_some(())
    });
}

fn edges(switch: &Switch, name: &str) -> (usize, usize) {
    let shown = switch.ask().show().unwrap();
    let port = shown.ports.iter().find(|port| port.name == name).unwrap();
    (port.edges_out, port.edges_in)
}

#[test]
fn a_station_heard_of_before_its_sender_joined_gets_all_in_order_and_by_an_edge() {
    const COUNT: u32 = 20_000;
    let switch = Switch::start();
    let mut station = join(&switch, "station");
    send(&mut station, &frame(ALL, mac(1), b"here"));
    heard_of(&switch, mac(1), 1);
    // So long that only a fault can end the wait.
    let options = JoinOptions { wait: BOUND, ..JoinOptions::new(switch.path(), "sender") };
    let mut sender = SwitchPort::join(&options).unwrap();
    let numbered = |n: u32| frame(mac(1), mac(2), &n.to_le_bytes());
    let mut give = |n: u32| assert_eq!(sender.send(&whole(&numbered(n))).unwrap(), Sent::Done);
    // As many as have room in the station's ring from the switch, however late they are relayed.
    let mut sent = 0;
    (0..1000).for_each(&mut give);
    sent += 1000;
    netloom_kit::wait_until("an edge to the station", BOUND, || {
        give(sent);
        sent += 1;
        (edges(&switch, "sender").0 == 1).then_some(())
    });
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            (0..sent + COUNT)
                .for_each(|n| assert_eq!(next(&mut station), numbered(n), "of {sent}"));
        });
        (sent..sent + COUNT).for_each(give);
        reader.join().unwrap();
    });
    let relay = switch.ask().show().unwrap().relay;
    assert!(relay["received-frames"] <= u64::from(sent) + 1, "{relay:?}");
}

#[test]
fn what_was_sent_before_a_port_closed_comes_through_the_switch() {
    let switch = Switch::start();
    let station = Station::join(&switch, "station");
    station.send(&frame(ALL, mac(1), b"here"));
    heard_of(&switch, mac(1), 1);
    for round in 0..20 {
        let mut sender = join(&switch, &format!("sender {round}"));
        for n in 0..10 {
            send(&mut sender, &frame(mac(1), mac(2), &[n]));
        }
        drop(sender);
        (0..10).for_each(|n| assert_eq!(station.next(), frame(mac(1), mac(2), &[n])));
    }
}

/// A member that says it were another's station gets what is for it until the station is heard of, as on any
/// switch, and nothing at all if the address is locked.
#[test]
fn who_lies_about_stations_is_believed_no_longer_than_on_any_switch() {
    let switch = Switch::start();
    let [honest, liar] = ["honest", "liar"].map(|name| Station::join(&switch, name));
    let sender = Station::join(&switch, "sender");
    let victim = mac(9);
    liar.send(&frame(ALL, victim, b"here I am"));
    for other in [&honest, &sender] {
        other.until(&frame(ALL, victim, b"here I am"));
    }
    sender.send(&frame(victim, mac(3), b"stolen"));
    liar.until(&frame(victim, mac(3), b"stolen"));
    honest.send(&frame(ALL, victim, b"no, here"));
    sender.until(&frame(ALL, victim, b"no, here"));
    sender.send(&frame(victim, mac(3), b"mine"));
    honest.until(&frame(victim, mac(3), b"mine"));

    let locked = mac(10);
    let lock = PortChange {
        macs: Some(vec![netloom_switch::rules::Mac(locked)]),
        ..PortChange::default()
    };
    switch.ask().set_port("honest", lock).unwrap();
    let mut forger = Raw::join(&switch.path(), "forger");
    forger.send(&frame(ALL, locked, b"here I am"));
    netloom_kit::wait_until("the lie to be found out", BOUND, || {
        let relay = switch.ask().show().unwrap().relay;
        (relay.get("dropped-spoofed") == Some(&1)).then_some(())
    });
    let late = Station::join(&switch, "late");
    (0..100u8).for_each(|n| late.send(&frame(locked, mac(5), &[n])));
    (0..100u8).for_each(|n| honest.until(&frame(locked, mac(5), &[n])));
    assert_eq!(edges(&switch, "forger").1, 0);
}

/// It is told of stations and does not listen: the others go on, and it stays.
#[test]
fn who_does_not_listen_is_relayed_for_and_told_little() {
    let switch = Switch::start();
    let [a, b] = ["a", "b"].map(|name| Station::join(&switch, name));
    let times = netloom_kit::rounds(200);
    for n in 0..200u8 {
        a.send(&frame(ALL, [2, 0, 0, 0, 1, n], b"one more"));
    }
    b.until(&frame(ALL, [2, 0, 0, 0, 1, 199], b"one more"));
    let mut deaf = Raw::join(&switch.path(), "deaf");
    for round in 0..times {
        let to = [2, 0, 0, 0, 1, u8::try_from(round % 200).unwrap()];
        for n in 0..5 {
            deaf.send(&frame(to, mac(3), &[n]));
        }
        (0..5).for_each(|n| assert_eq!(a.next(), frame(to, mac(3), &[n])));
    }
    b.send(&frame(ALL, mac(2), b"well?"));
    a.until(&frame(ALL, mac(2), b"well?"));
    deaf.down_until(&frame(ALL, mac(2), b"well?"));
    let mut told = 0;
    while let netloom_shm::protocol::Incoming::Message { message, .. } =
        deaf.channel.receive().unwrap()
    {
        assert!(matches!(message, Message::Station { number: 1, vid: 0, .. }), "{message:?}");
        told += 1;
    }
    println!("told {told} times");
    assert!(told > 0);
    // It asks late, and gets its edge.
    let ring = Writer::create(256 * 1024, 1).unwrap();
    tell(&mut deaf.channel, &Message::Open { to: 1 }, &[ring.fd()]);
    assert!(deaf.message().unwrap().contains("Opened"));
    netloom_kit::done("stations that a deaf sender was told of", u64::from(times));
}

fn access(vlan: u16) -> Option<Vlan> {
    Some(Vlan::Access(Vid::new(vlan).unwrap()))
}

/// Asks for an edge; whether there is one.
fn opens(port: &mut Raw, to: u8) -> bool {
    let ring = Writer::create(256 * 1024, 1).unwrap();
    tell(&mut port.channel, &Message::Open { to }, &[ring.fd()]);
    loop {
        match port.message().expect("an answer") {
            text if text.contains("Opened") => return true,
            text if text.contains("Denied") => return false,
            _ => {}
        }
    }
}

/// Whatever two members agree on, they get no memory in common across VLANs.
#[test]
fn ports_without_a_common_vlan_have_no_edge() {
    let switch = Switch::start();
    let names = ["red", "blue", "trunk", "red too"];
    let [mut red, mut blue, mut trunk, mut red_too] =
        names.map(|name| Raw::join(&switch.path(), name));
    let asked = switch.ask();
    for (name, vlan) in [("red", access(10)), ("red too", access(10)), ("blue", access(20))] {
        asked.set_vlan(name, vlan).unwrap();
    }
    let both = Vlan::Trunk { native: None, allowed: "10,20".parse().unwrap() };
    asked.set_vlan("trunk", Some(both)).unwrap();
    assert!(!opens(&mut red, 2) && !opens(&mut blue, 1));
    assert!(opens(&mut red, 4) && opens(&mut red_too, 1));
    assert!(
        opens(&mut red, 3) && opens(&mut trunk, 1) && opens(&mut trunk, 2) && opens(&mut blue, 3)
    );
    assert_eq!((edges(&switch, "red"), edges(&switch, "blue")), ((2, 2), (1, 1)));
    // Copies of a mirror session cross VLANs, in its direction only.
    let source = Source { port: 1, direction: Direction::In };
    let mirror =
        Mirror { to: 2, temporary: false, sources: vec![source], filter: "all".parse().unwrap() };
    let number = asked.add_mirror(mirror).unwrap();
    assert!(opens(&mut red, 2) && !opens(&mut blue, 1));
    asked.delete_mirror(number).unwrap();
    assert_eq!((edges(&switch, "red"), edges(&switch, "blue")), ((2, 2), (1, 1)));
    // An edge that the rules no longer permit is closed at both ends.
    asked.set_vlan("trunk", access(20)).unwrap();
    assert_eq!((edges(&switch, "red"), edges(&switch, "blue")), ((1, 1), (1, 1)));
}

#[test]
fn stations_find_each_other_again_when_they_share_a_vlan_again() {
    let switch = Switch::start();
    let [a, b] = ["a", "b"].map(|name| Station::join(&switch, name));
    a.send(&frame(ALL, mac(1), b"who"));
    b.until(&frame(ALL, mac(1), b"who"));
    b.send(&frame(mac(1), mac(2), b"me"));
    a.until(&frame(mac(1), mac(2), b"me"));
    for round in 0..5u8 {
        a.send(&frame(mac(2), mac(1), &[round]));
        b.until(&frame(mac(2), mac(1), &[round]));
        switch.ask().set_vlan("b", access(20)).unwrap();
        assert_eq!(switch.ask().show().unwrap().edges, 0);
        a.send(&frame(mac(2), mac(1), b"across"));
        b.send(&frame(mac(1), mac(2), b"across"));
        assert_eq!((a.try_next(NOTHING), b.try_next(NOTHING)), (None, None));
        switch.ask().set_vlan("b", access(1)).unwrap();
        // Nothing is known of the time before, and nothing waits for a second.
        b.send(&frame(mac(1), mac(2), &[round, 1]));
        a.until(&frame(mac(1), mac(2), &[round, 1]));
    }
}
