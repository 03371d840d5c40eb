//! Unmodified VDE programs on our switches, by the plug-in for libvdeplug.
use std::net::Ipv4Addr;
use std::process::Stdio;

use netloom_tests_peers::{
    Running, SOON, Station, Switch, VdePlug, arp_question, folder, frame, is_arp_answer, isolated,
    needs, needs_tun, wait_until, with_plugin,
};

const ALL: [u8; 6] = [0xff; 6];
const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

/// The longest frame that vde_plug takes: an MTU of 9216, Ethernet header, VLAN tag.
const LONGEST: usize = 9234;

/// Two that have heard of each other, so that frames between them go by an edge.
fn acquainted(switch: &Switch) -> (VdePlug, VdePlug) {
    let (mut a, mut b) = (VdePlug::start(&switch.name()), VdePlug::start(&switch.name()));
    // A client that joins later does not get earlier frames: said until it is heard.
    let hello = frame(ALL, A, 0, 60);
    let mut heard = None;
    while heard.is_none() {
        a.send(&hello);
        heard = b.receive_within(std::time::Duration::from_millis(200));
    }
    assert_eq!(heard.as_ref(), Some(&hello));
    b.send(&frame(A, B, 0, 60));
    assert_eq!(a.receive(), frame(A, B, 0, 60));
    // Behind this one no hello is left on its way: what is for all goes the same way, in order.
    let last = frame(ALL, A, 1, 60);
    a.send(&last);
    while b.receive() != last {}
    (a, b)
}

#[test]
fn two_vde_plugs_pass_each_others_frames() {
    needs!("vde_plug");
    let folder = folder();
    let switch = Switch::start(folder.path(), "switch");
    let (mut a, mut b) = acquainted(&switch);
    for (number, length) in (1..).zip([18, 60, 61, 64, 1514, 1518, 4096, LONGEST]) {
        let (there, back) = (frame(B, A, number, length), frame(A, B, number, length));
        a.send(&there);
        assert_eq!(b.receive(), there, "{length} bytes");
        b.send(&back);
        assert_eq!(a.receive(), back, "{length} bytes");
    }
    assert!(a.is_quiet() && b.is_quiet(), "frames nobody sent");
    for plug in [a, b] {
        assert_eq!(plug.finish(), "", "vde_plug complained");
    }
}

#[test]
fn no_frame_of_a_stream_is_lost_and_all_are_in_order() {
    needs!("vde_plug");
    let folder = folder();
    let switch = Switch::start(folder.path(), "switch");
    let (mut a, mut b) = acquainted(&switch);
    // Some times what a ring holds, and never as much at once: a port waits 100 ms for its reader, which a busy machine may
    // keep for longer.
    let numbers = 1..=4000_u32;
    let (begin, done) = std::sync::mpsc::sync_channel(400);
    let sender = std::thread::spawn({
        let numbers = numbers.clone();
        move || {
            for number in numbers {
                begin.send(()).expect("the reader");
                a.send(&frame(B, A, number, 1514));
            }
            a
        }
    });
    for number in numbers {
        assert!(b.receive() == frame(B, A, number, 1514), "frame {number} is another one");
        done.recv().expect("the sender");
    }
    let a = sender.join().expect("sender");
    assert!(a.is_quiet() && b.is_quiet(), "frames nobody sent");
    assert_eq!((a.finish(), b.finish()), (String::new(), String::new()), "vde_plug complained");
}

#[test]
fn a_station_of_the_library_and_a_vde_plug_talk() {
    needs!("vde_plug");
    let folder = folder();
    let switch = Switch::start(folder.path(), "switch");
    let mut station = Station::join(&switch, "station");
    let mut plug = VdePlug::start(&format!("{}?port=7&name=the plug", switch.name()));
    plug.send(&frame(ALL, B, 1, 60));
    assert_eq!(station.receive(), frame(ALL, B, 1, 60));
    for number in 1..100 {
        station.send(&frame(B, A, number, 60));
        assert_eq!(plug.receive_from(&mut station), frame(B, A, number, 60));
        plug.send(&frame(A, B, number, 1514));
        assert_eq!(station.receive(), frame(A, B, number, 1514));
    }
}

#[test]
fn the_end_of_the_switch_ends_vde_plug() {
    needs!("vde_plug");
    let folder = folder();
    let switch = Switch::start(folder.path(), "switch");
    let (mut a, mut b) = acquainted(&switch);
    assert!(a.process.is_alive() && b.process.is_alive());
    switch.kill();
    assert!(a.process.ends() && b.process.ends(), "an end without an error");
}

/// Sends a frame from one station to another of the same thread.
fn passes(from: &mut Station, to: &mut Station, frame: &[u8]) {
    from.send(frame);
    wait_until("a frame on the other switch", SOON, || {
        from.serve();
        to.receive_at_once().filter(|found| found == frame)
    });
}

#[test]
fn one_vde_plug_joins_two_switches() {
    needs!("vde_plug");
    let folder = folder();
    let switches = ["one", "two"].map(|name| Switch::start(folder.path(), name));
    let [mut here, mut there] = switches.each_ref().map(|of| Station::join(of, "station"));
    let mut cable = with_plugin("vde_plug");
    cable.args(switches.each_ref().map(Switch::name)).stdin(Stdio::null());
    let mut cable = Running(cable.spawn().expect("start vde_plug"));
    wait_until("a frame on the other switch", SOON, || {
        here.send(&frame(ALL, A, 0, 60));
        there.receive_at_once()
    });
    // Enough that edges are made and messages come while frames do.
    for number in 1..200 {
        passes(&mut there, &mut here, &frame(A, B, number, 100));
        passes(&mut here, &mut there, &frame(B, A, number, 100));
    }
    assert!(cable.is_alive());
    let [one, two] = switches;
    two.kill();
    assert!(cable.ends(), "ends with one of its switches");
    drop(one);
}

#[test]
fn a_command_of_vde_plug_inherits_nothing_and_gets_the_frames() {
    needs!("vde_plug");
    let folder = folder();
    let switch = Switch::start(folder.path(), "switch");
    let mut station = Station::join(&switch, "station");
    let list = folder.path().join("descriptors");
    // Gives every frame back, after it has told what it inherited.
    let script = format!("ls -l /proc/self/fd >{0}.new; mv {0}.new {0}; exec cat", list.display());
    let mut plug = with_plugin("vde_plug");
    // In a file: vde_plug takes an option `-c` of the command for its own.
    let file = folder.path().join("script");
    std::fs::write(&file, script).expect("write the script");
    plug.args([&switch.name(), "=", "sh"]).arg(&file).stdin(Stdio::null());
    let mut plug = Running(plug.spawn().expect("start vde_plug"));
    let text = wait_until("the command", SOON, || std::fs::read_to_string(&list).ok());
    for kind in ["memfd", "eventfd", "eventpoll", "timerfd", "socket"] {
        assert!(!text.contains(kind), "inherited:\n{text}");
    }
    for number in 0..20 {
        station.send(&frame(ALL, A, number, 60));
        assert_eq!(station.receive(), frame(ALL, A, number, 60), "given back");
    }
    assert!(plug.is_alive());
}

#[test]
fn a_chosen_port_that_is_taken_is_refused() {
    needs!("vde_plug");
    let folder = folder();
    let switch = Switch::start(folder.path(), "switch");
    let mut station = Station::join(&switch, "station");
    let mut first = VdePlug::start(&format!("{}[9]", switch.name()));
    first.send(&frame(ALL, A, 1, 60));
    station.receive();
    let mut second = VdePlug::start(&format!("{}[9]", switch.name()));
    assert!(!second.process.ends());
    let said = second.finish();
    assert!(said.contains("Device or resource busy"), "{said}");
    assert!(first.process.is_alive());
}

const TAP: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const STATION: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

/// Asks for the address of the other side's interface until that answers, then often.
fn ask_often(station: &mut Station) {
    let question = arp_question(A, STATION, TAP);
    wait_until("the first answer", SOON, || {
        station.send(&question);
        station.receive_at_once().filter(|found| is_arp_answer(found, TAP))
    });
    for _ in 0..500 {
        station.send(&question);
        station.receive_where("an answer", |found| is_arp_answer(found, TAP));
    }
}

#[test]
fn vde_plug2tap_brings_an_interface_to_the_switch() {
    isolated!({
        needs!("vde_plug2tap");
        needs_tun!();
        let folder = folder();
        let switch = Switch::start(folder.path(), "switch");
        let mut station = Station::join(&switch, "station");
        let mut plug = with_plugin("vde_plug2tap");
        plug.args(["-s", &switch.name(), "tap0"]).stdin(Stdio::null());
        let mut plug = Running(plug.spawn().expect("start vde_plug2tap"));
        let set = format!("ip address add {TAP}/24 dev tap0 && ip link set tap0 up");
        wait_until("the interface", SOON, || {
            let mut sh = std::process::Command::new("sh");
            let done = sh.args(["-c", &set]).stderr(Stdio::null()).status().expect("start sh");
            done.success().then_some(())
        });
        ask_often(&mut station);
        assert!(plug.is_alive());
        switch.kill();
        plug.ends();
    });
}

#[test]
fn vdens_has_its_namespace_on_the_switch() {
    isolated!({
        needs!("vdens");
        needs_tun!();
        let folder = folder();
        let switch = Switch::start(folder.path(), "switch");
        let mut station = Station::join(&switch, "station");
        let script = format!("ip address add {TAP}/24 dev vde0 && ip link set vde0 up && exec cat");
        let mut vdens = with_plugin("vdens");
        vdens.args([&switch.name(), "sh", "-c", &script]).stdin(Stdio::piped());
        let mut vdens = Running(vdens.spawn().expect("start vdens"));
        ask_often(&mut station);
        assert!(vdens.is_alive());
        // The shell ends with its input.
        drop(vdens.0.stdin.take());
        vdens.ends();
    });
}
