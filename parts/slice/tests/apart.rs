//! Slices see and touch their own alone.

use std::os::unix::net::UnixListener;

use netloom_openflow::{Message, PortNumber};
use netloom_slice::Error;

use super::world::{Peer, Slicer, Switch, two, wait};

/// A frame from a station to another, of a protocol for experiments.
fn frame(from: u8, to: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 1, to, 2, 0, 0, 0, 1, from, 0x88, 0xb5];
    frame.resize(60, 0);
    frame
}

#[test]
fn each_has_a_switch_of_its_own() {
    let slicer = Slicer::start(&two(""));
    let switch = Switch::start(slicer.openflow());
    slicer.ready();
    let (mut red, mut blue) = (slicer.peer("red"), slicer.peer("blue"));
    let names = |peer: &mut Peer| -> Vec<(u32, String)> {
        peer.ports().iter().map(|port| (port.number.0, port.name.text().into_owned())).collect()
    };
    assert_eq!(names(&mut red), [(1, "p1".into()), (2, "p2".into())]);
    assert_eq!(names(&mut blue), [(1, "p3".into()), (2, "p4".into())]);
    let Message::FeaturesReply(of_red) = red.ask(&Message::FeaturesRequest) else { panic!() };
    let Message::FeaturesReply(of_blue) = blue.ask(&Message::FeaturesRequest) else { panic!() };
    assert_ne!(of_red.datapath_id, of_blue.datapath_id);
    // The same rule is about other ports.
    red.add("in_port=1,actions=output:2").expect("within red");
    blue.add("actions=flood").expect("within blue");
    assert_eq!((red.flows(), blue.flows()), (1, 1));
    assert_eq!(switch.frame(1, &frame(1, 2)), [2]);
    assert!(switch.frame(2, &frame(2, 1)).is_empty());
    assert_eq!(switch.frame(3, &frame(3, 4)), [4]);
    let shown = slicer.of("red");
    assert_eq!((shown.rules, shown.ports.len(), shown.most_entries), (1, 2, Some(20_000)));
}

#[test]
fn what_is_outside_is_refused_with_its_error_and_an_example() {
    let slicer = Slicer::start(
        "switches: {s: {}}\nslices:\n  red: {switches: {s: {vlan: 7}}}\n  blue: {switches: {s: {vlan: 8}}}\n",
    );
    let switch = Switch::start(slicer.openflow());
    slicer.ready();
    let mut red = slicer.peer("red");
    red.add("dl_vlan=7,actions=output:2").expect("its own VLAN");
    let refused = red.add("dl_vlan=7,actions=mod_vlan_vid:8,output:2").expect_err("another's VLAN");
    assert!(refused.starts_with("OFPB"), "{refused}");
    assert_eq!(switch.entries(), 1);
    let shown = slicer.of("red");
    assert_eq!(shown.refused, 1);
    let refusal = shown.refusals.last().expect("it is told");
    let example = refusal.example.as_ref().expect("an example");
    assert_eq!(example, "a packet with VLAN 7");
    assert!(refusal.words.contains("which is of slice \"blue\""), "{refusal:?}");
}

#[test]
fn answers_go_to_whoever_asked() {
    let slicer = Slicer::start(&two(""));
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    let (mut one, mut other) = (slicer.peer("red"), slicer.peer("red"));
    for xid in 0..50 {
        one.send(xid, &Message::BarrierRequest);
        other.send(xid, &Message::EchoRequest(vec![1]));
        other.send(xid, &Message::BarrierRequest);
    }
    for xid in 0..50 {
        assert_eq!(one.hear(), Some((xid, Message::BarrierReply)));
    }
    let mut replies = 0;
    while replies < 100 {
        let (_, message) = other.hear().expect("an answer");
        assert!(matches!(message, Message::BarrierReply | Message::EchoReply(_)));
        replies += 1;
    }
}

#[test]
fn controllers_are_connected_to_and_get_their_packets_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("controller");
    let listener = UnixListener::bind(&path).expect("listen");
    let more = format!(", controllers: \"unix:{}\", datapaths: {{s: 0x77}}", path.display());
    let slicer = Slicer::start(&two(&more));
    let switch = Switch::start(slicer.openflow());
    let (socket, _) = listener.accept().expect("the slicer connects");
    let mut red = Peer::over(socket);
    let Message::FeaturesReply(features) = red.ask(&Message::FeaturesRequest) else { panic!() };
    assert_eq!(features.datapath_id, 0x77);
    red.add("actions=CONTROLLER:65535").expect("within red");
    switch.frame(3, &frame(3, 4));
    switch.frame(2, &frame(2, 1));
    let packet = red.packet();
    assert_eq!(packet.data, frame(2, 1), "the first is not red's");
    assert_eq!(slicer.of("red").controllers.len(), 1);
    assert!(slicer.of("red").controllers[0].connected);
    // It is connected to again.
    drop(red);
    let (socket, _) = listener.accept().expect("the slicer connects again");
    let mut red = Peer::over(socket);
    assert_eq!((red.flows(), switch.entries()), (1, 2), "its rules are there still");
    assert_eq!(red.ports().first().map(|port| port.number), Some(PortNumber(1)));
}

#[test]
fn slices_change_while_it_runs_if_they_stay_apart() {
    let slicer = Slicer::start(&two(""));
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    let mut policy = slicer.application.policy.clone();
    let ports = |name: &str| Some(vec![name.to_owned()]);
    let set = |policy: &mut netloom_slice::Policy, slice: usize, port: &str| {
        let spaces = policy.slices[slice].slice.switches.get_mut("s").expect("a switch");
        spaces[0].ports = ports(port);
    };
    set(&mut policy, 0, "3");
    let Err(Error::Refused(why)) = slicer.control().set_policy(&policy) else {
        panic!("blue has port 3")
    };
    assert!(why.contains("share packets") && why.contains("at port 3"), "{why}");
    set(&mut policy, 1, "4");
    slicer.control().set_policy(&policy).expect("apart again");
    wait("red has port 3 alone", || {
        let ports = slicer.of("red").ports;
        (ports.len() == 1 && ports[0].real == 3).then_some(())
    });
}

#[test]
fn its_sockets_are_its_owner_s() {
    use std::os::unix::fs::PermissionsExt;
    let slicer = Slicer::start(&two(""));
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    for name in ["control", "openflow", "red.s", "blue.s"] {
        let path = slicer.folder.path().join(name);
        wait(name, || path.exists().then_some(()));
        let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
