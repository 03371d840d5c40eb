//! Clients of classic VDE, made by hand, on a switch: what they get, and what a hostile one cannot.

use super::world;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use netloom_digest::splitmix::SplitMix64;
use netloom_kit::wait_until;
use netloom_switch::control::requests::{PortChange, Presence};
use netloom_vde::request::Request;
use world::classic::{Client, Vde};
use world::{ALL, BOUND, Process, Station, Switch, frame, mac};

/// A switch with what offers it; that ends first.
fn offered() -> (Vde, Switch) {
    let switch = Switch::start();
    (Vde::start(&switch), switch)
}

/// A station and a client that have heard of each other.
fn acquainted(switch: &Switch, vde: &Vde) -> (Station, Client) {
    let (station, client) = (Station::join(switch, "station"), Client::join(vde, "client"));
    station.send(&frame(ALL, mac(1), b"hello"));
    client.until(&frame(ALL, mac(1), b"hello"));
    client.send(&frame(mac(1), mac(2), b"hello yourself"));
    station.until(&frame(mac(1), mac(2), b"hello yourself"));
    (station, client)
}

fn ports(switch: &Switch) -> Vec<(u16, String)> {
    let shown = switch.ask().show().expect("an answer");
    let here = shown.ports.into_iter().filter(|port| port.presence == Presence::Here);
    here.map(|port| (port.number, port.name)).collect()
}

/// A client can join and talk.
fn is_well(switch: &Switch, vde: &Vde) {
    let (one, other) = (Client::join(vde, "one"), Client::join(vde, "other"));
    one.send(&frame(ALL, mac(8), b"well?"));
    other.until(&frame(ALL, mac(8), b"well?"));
    drop((one, other));
    wait_until("the ports are free", BOUND, || {
        let names = ports(switch);
        (!names.iter().any(|(_, name)| name == "one" || name == "other")).then_some(())
    });
}

#[test]
fn a_client_and_a_station_talk() {
    let (vde, switch) = offered();
    let (station, client) = acquainted(&switch, &vde);
    assert_eq!(client.at, vde.folder.join("002.1"));
    assert_eq!(ports(&switch), [(1, "station".into()), (2, "client".into())]);
    for length in [0, 1, 46, 1500, 9000, 30_000] {
        let payload = vec![7; length];
        client.send(&frame(mac(1), mac(2), &payload));
        station.until(&frame(mac(1), mac(2), &payload));
        station.send(&frame(mac(2), mac(1), &payload));
        client.until(&frame(mac(2), mac(1), &payload));
    }
    // Bytes that are not a frame are dropped, and counted.
    client.send(&[1; 13]);
    client.send(&frame(mac(1), mac(2), b"after"));
    station.until(&frame(mac(1), mac(2), b"after"));
    let lost = vde.console().says("port/lost");
    assert!(lost.contains("Port 0002 not read 0 no room 0 malformed 1\n"), "{lost}");
}

#[test]
fn frames_of_a_stream_are_all_there_and_in_order() {
    let (vde, _switch) = offered();
    let (one, other) = (Client::join(&vde, "one"), Client::join(&vde, "other"));
    one.send(&frame(ALL, mac(1), b"hello"));
    other.until(&frame(ALL, mac(1), b"hello"));
    other.send(&frame(mac(1), mac(2), b"hello"));
    one.until(&frame(mac(1), mac(2), b"hello"));
    // As many at a time as sockets hold, so that none is lost however slow the reader is.
    for first in (0..20_000).step_by(16) {
        (first..first + 16).for_each(|n| one.send(&world::numbered(mac(2), mac(1), n)));
        for number in first..first + 16 {
            assert_eq!(world::number_of(&other.receive()), Some(number));
        }
    }
}

#[test]
fn a_client_gets_the_port_that_it_asks_for_and_nobody_elses() {
    let (vde, switch) = offered();
    let own = |name: &str| switch.folder.path().join(name);
    let join = |port, name: &str| Client::try_join(&vde.control(), &own(name), port, name);
    let seven = join(7, "seven").expect("an answer");
    assert_eq!(seven.at, vde.folder.join("007.1"));
    assert!(join(7, "thief").is_none());
    let reserved = PortChange { name: Some(Some("mine".into())), ..PortChange::default() };
    switch.ask().set_port(1, reserved).unwrap();
    assert!(join(1, "thief").is_none());
    assert!(join(0, "any").expect("an answer").at.ends_with("002.2"));
    assert!(join(0, "mine").expect("an answer").at.ends_with("001.3"));
    // Of the same name: two cards of one machine.
    let again = join(0, "seven").expect("an answer");
    assert!(ports(&switch).iter().any(|(_, name)| name.starts_with("seven ")));
    let shown = vde.console().says("ds/showinfo");
    assert!(shown.contains("2 refused\nlast refused: user "), "{shown}");
    assert!(shown.contains("port 1 is reserved for \"mine\""), "{shown}");
    drop(again);
}

#[test]
fn who_leaves_frees_the_port() {
    let (vde, switch) = offered();
    let client = Client::join(&vde, "client");
    let at = client.at.clone();
    assert!(at.exists());
    // Its data socket alone is not the client.
    let Client { control, data, .. } = client;
    drop(data);
    let station = Station::join(&switch, "station");
    station.send(&frame(ALL, mac(1), b"nobody reads this"));
    wait_until("the frame is counted", BOUND, || {
        vde.console().says("port/lost").contains("not read 1").then_some(())
    });
    assert_eq!(ports(&switch).len(), 2);
    drop(control);
    wait_until("the port is free", BOUND, || (ports(&switch).len() == 1).then_some(()));
    assert!(!at.exists());
    is_well(&switch, &vde);
}

#[test]
fn what_is_no_request_is_refused() {
    let (vde, switch) = offered();
    let mut random = SplitMix64::new(3);
    let path = vde.folder.join(".own").to_str().expect("text").as_bytes().to_vec();
    let good = Request { port: 0, path, description: "x".into() }.write();
    let times = u64::from(netloom_kit::rounds(300));
    for round in 0..times {
        let mut bytes = match round % 3 {
            0 => {
                let length = random.index(400) + 1;
                random.bytes(length)
            }
            // Its data socket does not exist.
            1 => good.clone(),
            _ => good[..random.index(good.len() - 1) + 1].to_vec(),
        };
        if round % 2 == 0 {
            let at = random.index(bytes.len());
            bytes[at] ^= 1 << random.index(8);
        }
        let mut stream = vde.connect();
        stream.write_all(&bytes).expect("say");
        // Closed without an answer; or reset, where not all was read.
        assert!(matches!(stream.read(&mut [0; 200]), Ok(0) | Err(_)), "round {round}");
    }
    is_well(&switch, &vde);
    netloom_kit::done("requests of VDE that are none", times);
}

#[test]
fn who_connects_and_says_nothing_keeps_nobody_out() {
    let (vde, switch) = offered();
    let silent: Vec<UnixStream> = (0..300).map(|_| vde.connect()).collect();
    is_well(&switch, &vde);
    drop(silent);
    is_well(&switch, &vde);
}

#[test]
fn who_does_not_read_loses_only_its_own() {
    let (vde, switch) = offered();
    let (station, reader) = acquainted(&switch, &vde);
    let lazy = Client::join(&vde, "lazy");
    lazy.send(&frame(ALL, mac(3), b"hello"));
    station.until(&frame(ALL, mac(3), b"hello"));
    let (mut dropped, mut number) = (false, 0);
    while !dropped {
        for _ in 0..500 {
            station.try_send(&frame(mac(3), mac(1), &[0; 1400]));
        }
        number += 1;
        station.send(&world::numbered(mac(2), mac(1), number));
        while world::number_of(&reader.receive()) != Some(number) {}
        let lost = vde.console().says("port/lost");
        dropped = lost.lines().any(|l| l.starts_with("Port 0003") && !l.contains("not read 0 "));
        assert!(number < 10_000, "{lost}");
    }
    // It has only missed frames.
    lazy.send(&frame(mac(1), mac(3), b"still here"));
    station.until(&frame(mac(1), mac(3), b"still here"));
    is_well(&switch, &vde);
}

#[test]
fn who_floods_leaves_others_their_turn() {
    let (vde, switch) = offered();
    let (station, client) = acquainted(&switch, &vde);
    let flooder = Client::join(&vde, "flooder");
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (begun, begins) = std::sync::mpsc::channel();
    let flood = std::thread::spawn({
        let stop = stop.clone();
        move || {
            flooder.data.set_nonblocking(true).expect("non-blocking");
            let mut begun = Some(begun);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let sent = flooder.data.send(&frame(ALL, mac(9), &[0; 1400])).is_ok();
                if let Some(begun) = begun.take_if(|_| sent) {
                    begun.send(()).expect("somebody waits");
                }
            }
        }
    });
    begins.recv().expect("the flood begins");
    for number in 0..200 {
        client.send(&world::numbered(mac(1), mac(2), number));
        while world::number_of(&station.next()) != Some(number) {}
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    flood.join().expect("the flooder");
}

#[test]
fn clients_go_on_without_the_switch_and_meet_it_again() {
    let (vde, mut switch) = offered();
    let (_station, client) = acquainted(&switch, &vde);
    let friend = Client::join(&vde, "friend");
    switch.process.kill();
    let later = vde.console().says("port/print");
    assert_eq!(later, "0000 DATA END WITH '.'\n.\n1011 Resource temporarily unavailable\n");
    let own = vde.folder.join(".new");
    assert!(Client::try_join(&vde.control(), &own, 0, "new").is_none());
    switch.start_again();
    wait_until("all ports are back", BOUND, || {
        let names = ports(&switch);
        let back = |name: &str| names.iter().any(|(_, found)| found == name);
        (back("client") && back("friend")).then_some(())
    });
    client.send(&frame(ALL, mac(2), b"back"));
    friend.until(&frame(ALL, mac(2), b"back"));
    is_well(&switch, &vde);
}

#[test]
fn a_kill_leaves_no_socket_that_looks_alive() {
    let (mut vde, switch) = offered();
    let client = Client::join(&vde, "client");
    vde.process.kill();
    for name in ["ctl", "mgmt"] {
        let refused = UnixStream::connect(vde.folder.join(name)).expect_err("nobody listens");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    }
    let at = client.at.clone();
    assert!(at.exists() && client.ends());
    wait_until("the port is free", BOUND, || ports(&switch).is_empty().then_some(()));
    vde.start_again();
    assert!(!at.exists(), "the old data socket");
    is_well(&switch, &vde);
    netloom_kit::done("kills of what offers VDE", 1);
}

#[test]
fn the_folder_goes_with_the_process() {
    let (mut vde, _switch) = offered();
    let client = Client::join(&vde, "client");
    let pid = rustix::process::Pid::from_child(&vde.process.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("ask it to end");
    assert!(vde.process.0.wait().expect("wait").success());
    assert!(!vde.folder.exists());
    assert!(client.ends());
}

#[test]
fn who_says_more_than_a_request_ends() {
    let (vde, switch) = offered();
    let mut client = Client::join(&vde, "client");
    client.control.write_all(b"more").expect("say");
    assert!(client.ends());
    is_well(&switch, &vde);
}

#[test]
fn the_console_tells_and_changes() {
    let (vde, switch) = offered();
    let (station, client) = acquainted(&switch, &vde);
    let mut console = vde.console();
    let shown = console.says("port/print 2");
    assert!(
        shown.contains("Port 0002 untagged_vlan=0000 ACTIVE - Unnamed Allocatable\n"),
        "{shown}"
    );
    assert!(shown.contains("  -- endpoint ID 0001 module unix prog   : client\n"), "{shown}");
    let found = console.says("hash/find 02:00:00:00:00:01");
    assert!(found.contains(" VLAN 0000 to port: 001  age "), "{found}");
    for line in ["vlan/create 7", "port/setvlan 2 7"] {
        assert_eq!(console.says(line), "1000 Success\n", "{line}");
    }
    assert!(console.says("vlan/print 7").contains(" -- Port 0002 tagged=0 active=1"));
    assert_eq!(console.says("vlan/remove 7"), "1098 Address already in use\n");
    client.send(&frame(mac(1), mac(2), b"across"));
    station.send(&frame(ALL, mac(1), b"across"));
    assert_eq!(client.try_next(Duration::from_millis(300)), None);
    assert_eq!(console.says("vlan/addport 7 1"), "1000 Success\n");
    let both = console.says("vlan/print");
    assert!(
        both.contains("VLAN 0007\n -- Port 0001 tagged=1") && both.contains("VLAN 0001\n"),
        "{both}"
    );
    for line in ["port/setvlan 2 0", "vlan/delport 7 1", "vlan/remove 7"] {
        assert_eq!(console.says(line), "1000 Success\n", "{line}");
    }
    for (line, code) in [
        ("port/setvlan 2 9", "1006 No such device or address\n"),
        ("port/setvlan 99 0", "1006 No such device or address\n"),
        ("vlan/create 1", "1017 File exists\n"),
        ("port/epclose 1 0", "1006 No such device or address\n"),
        ("port/setuser 2 nobody-of-this-name", "1022 Invalid argument\n"),
        ("shutdown", "1038 Function not implemented\n"),
    ] {
        assert_eq!(console.says(line), code, "{line}");
    }
    assert_eq!(console.says("port/epclose 2 1"), "1000 Success\n");
    assert!(client.ends());
}

#[test]
fn only_who_may_joins_and_nobody_by_anothers_socket() {
    netloom_kit::root_only!("is other users");
    let switch = Switch::reachable("666");
    let open = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("open");
    };
    open(switch.folder.path());
    let vde = Vde::with_mode(&switch, "666");
    let own = switch.folder.path().join("own");
    let text = |path: &std::path::Path| path.to_str().expect("text").to_owned();
    let client = |own: &std::path::Path, uid| {
        let mut process = Process::start(&["client", &text(&vde.control()), &text(own)], Some(uid));
        (process.line(), process)
    };
    assert_eq!(client(&own, 65534).0, "joined");
    // What belongs to root, or to another user, is not to be reached through a process of root.
    let roots = switch.folder.path().join("roots");
    let _held = UnixDatagram::bind(&roots).expect("bind");
    open(&roots);
    assert_eq!(client(&roots, 65534).0, "refused");
    let link = switch.folder.path().join("link");
    std::os::unix::fs::symlink(&roots, &link).expect("link");
    assert_eq!(client(&link, 65534).0, "refused");
    // A port that is another's.
    let change = PortChange { uid: Some(Some(65533)), ..PortChange::default() };
    for number in 1..=255 {
        switch.ask().set_port(number, change.clone()).unwrap();
    }
    assert_eq!(client(&own, 65534).0, "refused");
    let (joined, process) = client(&switch.folder.path().join("another"), 65533);
    assert_eq!(joined, "joined");
    let shown = vde.console().says("port/print");
    assert!(shown.contains(" Current User: 65533 Access Control: (User: 65533 - "), "{shown}");
    drop(process);
}
