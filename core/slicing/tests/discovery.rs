//! LLDP: each slice finds its own links, on switches of one network.

use netloom_openflow::{Action, Message, PacketOut, PortNumber, Version};
use netloom_slicing::Slice;

use crate::integration::lab::{A, B, Lab, at, slice, tagged};

fn lldp(port: u8) -> Vec<u8> {
    let mut frame = vec![1, 0x80, 0xc2, 0, 0, 0xe, 2, 0, 0, 0, 0, 1, 0x88, 0xcc];
    frame.extend([2, 3, 7, b'd', b'1', 4, 2, 7, port, 6, 2, 0, 120, 0, 0]);
    frame
}

fn out(frame: Vec<u8>, to: u32) -> Message {
    let (buffer, in_port) = (netloom_openflow::flow::NO_BUFFER, PortNumber::ANY);
    let actions = vec![Action::output(PortNumber(to))];
    Message::PacketOut(PacketOut { buffer, in_port, actions, data: frame })
}

fn discovering(mut slices: Vec<Slice>) -> Vec<Slice> {
    for slice in &mut slices {
        slice.lldp = true;
    }
    slices
}

fn vlans() -> Vec<Slice> {
    discovering(vec![
        slice("red", vec![tagged(&[1, 2], 10)]),
        slice("blue", vec![tagged(&[2, 1], 20)]),
    ])
}

#[test]
fn packets_of_discovery_come_back_to_their_slice_alone() {
    for version in [Version::V10, Version::V13] {
        // Port 2 of one switch leads to port 1 of the other.
        let (mut one, mut other) = (Lab::new(version, vlans()), Lab::new(version, vlans()));
        one.frames.clear();
        assert_eq!(one.ask(A, out(lldp(2), 2)), []);
        let sent = one.frames.clone();
        let [sent] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(sent.port, PortNumber(2));
        assert_ne!(sent.bytes, lldp(2));
        other.frame(1, &sent.bytes);
        let told = other.told(A);
        let [Message::PacketIn(packet)] = &told[..] else { panic!("{told:?}") };
        assert_eq!((packet.in_port(), &packet.data), (Some(PortNumber(1)), &lldp(2)));
        assert!(other.told(B).is_empty());
        assert_eq!(other.slicer.counters(A).lldp_received, 1);
        // Blue's port 1 is the real second.
        one.frames.clear();
        assert_eq!(one.ask(B, out(lldp(1), 1)), []);
        let sent = one.frames.clone();
        assert_eq!(sent[0].port, PortNumber(2));
        other.frame(1, &sent[0].bytes);
        assert!(other.told(A).is_empty());
        let told = other.told(B);
        let [Message::PacketIn(packet)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(packet.in_port(), Some(PortNumber(2)));
    }
}

#[test]
fn a_forged_mark_is_nobodys() {
    let mut lab = Lab::new(Version::V13, vlans());
    lab.ask(A, out(lldp(2), 2));
    let mut frame = lab.frames.last().unwrap().bytes.clone();
    frame[20] ^= 1;
    lab.frame(1, &frame);
    assert!(lab.told.is_empty());
}

#[test]
fn a_slice_that_does_not_discover_sends_none() {
    let slices = vec![
        slice("red", vec![tagged(&[1, 2], 10)]),
        Slice { lldp: true, ..slice("blue", vec![at(&[3, 4])]) },
    ];
    let mut lab = Lab::new(Version::V13, slices);
    lab.refused(A, out(lldp(1), 1));
    let change =
        lab.flow(netloom_openflow::flow::FlowCommand::Add, "dl_type=0x88cc,actions=CONTROLLER");
    lab.refused(
        B,
        Message::SetConfig(netloom_openflow::switch::SwitchConfig {
            fragments: netloom_openflow::switch::Fragments::Drop,
            miss_send_len: 0,
        }),
    );
    assert_eq!(lab.ask(B, change), []);
}

#[test]
fn a_rule_for_discovery_is_taken_without_an_entry() {
    let mut lab = Lab::new(Version::V13, vlans());
    lab.add(A, "priority=65535,vlan_tci=0,dl_type=0x88cc,actions=CONTROLLER:65535");
    assert_eq!((lab.entries(), lab.slicer.counters(A).rules), (0, 1));
    let change = lab.flow(netloom_openflow::flow::FlowCommand::Delete, "");
    assert_eq!(lab.ask(A, change), []);
    assert_eq!(lab.slicer.counters(A).rules, 0);
}
