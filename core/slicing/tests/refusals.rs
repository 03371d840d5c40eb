//! What cannot be configured, and what controllers may not do: the right error, and an example.

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::{
    Action, Bucket, Field, GroupMod, Instruction, Message, Oxm, PacketOut, PortNumber, Reason,
    Version,
};
use netloom_slicing::{Error, Key, Prefix4, Slicing, Space};

use crate::integration::lab::{A, B, Lab, at, frame, slice, tagged};

fn prefix(ports: &[u32], address: [u8; 4], length: u8) -> Space {
    Space { ipv4_destination: Some(Prefix4 { address, length }), ..at(ports) }
}

#[test]
fn slices_that_overlap_are_refused_with_a_packet_of_both() {
    let both = vec![
        slice("red", vec![prefix(&[1, 2], [10, 1, 0, 0], 16)]),
        slice("blue", vec![tagged(&[2, 3], 10)]),
    ];
    let error = Slicing::new(both, Key([0; 16])).unwrap_err();
    let Error::Overlap { example, .. } = &error else { panic!("{error}") };
    assert_eq!(
        error.to_string(),
        "slices \"red\" and \"blue\" share packets: a packet at port 2 with eth_type 0x0800, VLAN 10, \
         ipv4_dst 10.1.0.0"
    );
    let key = example.key();
    assert_eq!(key.get(Field::Ipv4Dst), 0x0a01_0000);
    assert_eq!(key.get(Field::VlanVid), 0x100a);
    assert_eq!(key.get(Field::InPort), 2);
}

#[test]
fn spaces_that_contradict_themselves_are_refused() {
    let six = Some(6);
    let v4 = Some(Prefix4 { address: [10, 0, 0, 0], length: 8 });
    for (space, why) in [
        (Space { port_source: Some(1..=2), ..Space::default() }, "without a protocol"),
        (Space { ethertype: Some(0x86dd), ipv4_source: v4, ..Space::default() }, "does not have"),
        (Space { ethertype: Some(0x0806), protocol: six, ..Space::default() }, "does not have"),
        (tagged(&[1], 4096), "above 4095"),
        (at(&[0xffff_fffb]), "that no port has"),
        (prefix(&[1], [10, 0, 0, 0], 33), "longer than its address"),
    ] {
        let error = Slicing::new(vec![slice("red", vec![space])], Key([0; 16])).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let twice = vec![slice("red", vec![at(&[1])]), slice("red", vec![at(&[2])])];
    let error = Slicing::new(twice, Key([0; 16])).unwrap_err();
    assert_eq!(error.to_string(), "slice \"red\": the name is given twice");
}

fn vlans(version: Version) -> Lab {
    Lab::new(
        version,
        vec![slice("red", vec![tagged(&[1, 2], 10)]), slice("blue", vec![tagged(&[2, 3], 20)])],
    )
}

#[test]
fn a_foreign_port_is_a_bad_out_port() {
    for version in [Version::V10, Version::V13] {
        let mut lab = vlans(version);
        let change = lab.flow(FlowCommand::Add, "actions=output:3");
        let refusal = lab.refused(A, change);
        assert_eq!(refusal.reason, Reason::BadActionBadOutPort);
        assert_eq!(lab.entries(), 0);
    }
}

#[test]
fn a_rewrite_into_another_slice_is_refused_with_a_packet() {
    for (version, set) in
        [(Version::V10, "mod_vlan_vid:20"), (Version::V13, "set_field:4116->vlan_vid")]
    {
        let mut lab = vlans(version);
        let change = lab.flow(FlowCommand::Add, &format!("dl_vlan=10,actions={set},output:2"));
        let refusal = lab.refused(A, change);
        assert_eq!(refusal.reason, Reason::BadActionEperm);
        let text = refusal.to_string();
        assert!(text.contains("port 2") && text.contains("VLAN 20"), "{text}");
        assert!(text.contains("slice \"blue\""), "{text}");
        assert!(text.starts_with("rule \"") && text.contains("output:2"), "{text}");
        let example = refusal.example.unwrap();
        assert_eq!(example.key().get(Field::VlanVid), 0x100a);
        // At a port that is its alone it still leaves its own space.
        let change = lab.flow(FlowCommand::Add, &format!("dl_vlan=10,actions={set},output:1"));
        let refusal = lab.refused(A, change);
        assert!(refusal.to_string().contains("is not of the slice there"), "{refusal}");
        // What nobody looks at may change.
        lab.add(A, "dl_vlan=10,actions=mod_dl_dst:02:00:00:00:00:09,output:2");
        assert_eq!(lab.entries(), 2);
    }
}

#[test]
fn a_removed_tag_may_uncover_another() {
    let mut lab = vlans(Version::V13);
    let change = lab.flow(FlowCommand::Add, "dl_vlan=10,actions=pop_vlan,output:2");
    let refusal = lab.refused(A, change);
    assert!(refusal.to_string().contains("VLAN 20"), "{refusal}");
    // Where all packets are its, nothing can be uncovered that is not.
    let mut lab = Lab::new(
        Version::V13,
        vec![slice("red", vec![at(&[1]), tagged(&[2], 10)]), slice("blue", vec![tagged(&[2], 20)])],
    );
    lab.add(A, "in_port=2,actions=pop_vlan,output:1");
    let untag = lab.frame(2, &frame("tcp,dl_vlan=10"));
    assert_eq!(untag.len(), 1);
    // The other way only with the right tag.
    lab.add(A, "in_port=1,vlan_tci=0,actions=push_vlan:0x8100,set_field:4106->vlan_vid,output:2");
    let change = lab.flow(
        FlowCommand::Add,
        "in_port=1,vlan_tci=0,actions=push_vlan:0x8100,set_field:4116->vlan_vid,output:2",
    );
    lab.refused(A, change);
    let change = lab.flow(FlowCommand::Add, "in_port=1,actions=output:2");
    let refusal = lab.refused(A, change);
    assert!(refusal.to_string().contains("slice \"blue\""), "{refusal}");
}

#[test]
fn what_goes_on_has_to_be_of_the_slice() {
    let mut lab = vlans(Version::V13);
    for said in [
        "dl_vlan=10,actions=set_field:4116->vlan_vid,goto_table:1",
        "dl_vlan=10,actions=set_field:4116->vlan_vid,CONTROLLER:100",
        "dl_vlan=10,actions=write_actions(set_field:4116->vlan_vid,output:2)",
        "dl_vlan=10,actions=write_actions(set_field:4116->vlan_vid),goto_table:1",
        "table=1,dl_vlan=10,actions=write_actions(set_field:4116->vlan_vid,output:1)",
    ] {
        let change = lab.flow(FlowCommand::Add, said);
        let refusal = lab.refused(A, change);
        assert_eq!(refusal.reason, Reason::BadActionEperm, "{said}");
        assert!(refusal.example.is_some(), "{said}");
    }
    assert_eq!(lab.entries(), 0);
    lab.add(A, "dl_vlan=10,actions=write_actions(output:2),goto_table:1");
    lab.add(A, "table=1,dl_vlan=10,actions=write_actions(output:1)");
}

#[test]
fn groups_are_proved_for_all_packets() {
    let mut lab = vlans(Version::V13);
    let group = |actions| {
        let buckets = vec![Bucket::new(0, actions)];
        let (command, kind) = (GroupCommand::Add, GroupType::Indirect);
        Message::GroupMod(GroupMod { command, kind, group: 5, buckets })
    };
    let set = Action::SetField(Oxm::exact(Field::VlanVid, 0x1014));
    let out = Action::output(PortNumber(2));
    let refusal = lab.refused(A, group(vec![set, out.clone()]));
    assert_eq!(refusal.reason, Reason::BadActionEperm);
    assert_eq!(lab.ask(A, group(vec![out])), []);
    lab.add(A, "dl_vlan=10,actions=group:5");
    assert_eq!(lab.ports(1, &frame("dl_vlan=10")), [2]);
    // Numbers are the slice's own: the other has none of this number.
    let change = lab.flow(FlowCommand::Add, "dl_vlan=20,actions=group:5");
    assert_eq!(lab.refused(B, change).reason, Reason::BadActionBadOutGroup);
}

#[test]
fn metadata_that_tells_slices_apart_is_not_theirs() {
    let mut lab = vlans(Version::V13);
    let change = lab.flow(
        FlowCommand::Add,
        "dl_vlan=10,actions=write_metadata:0x0200000000000000/0xff00000000000000,goto_table:1",
    );
    assert_eq!(lab.refused(A, change).reason, Reason::BadInstructionUnsupMetadataMask);
    let change = lab.flow(
        FlowCommand::Add,
        "table=1,metadata=0x0200000000000000/0xff00000000000000,actions=drop",
    );
    assert_eq!(lab.refused(A, change).reason, Reason::BadMatchBadMask);
    lab.add(A, "dl_vlan=10,actions=write_metadata:5,goto_table:1");
    lab.add(A, "table=1,metadata=5,actions=output:2");
    assert_eq!(lab.ports(1, &frame("dl_vlan=10")), [2]);
}

#[test]
fn controllers_send_packets_of_their_slice_alone() {
    for version in [Version::V10, Version::V13] {
        let mut lab = vlans(version);
        let out = |said: &str, in_port, to| {
            let actions = vec![Action::output(PortNumber(to))];
            let buffer = netloom_openflow::flow::NO_BUFFER;
            Message::PacketOut(PacketOut { buffer, in_port, actions, data: frame(said) })
        };
        let nowhere = PortNumber::ANY;
        let controller = if version == Version::V10 { nowhere } else { PortNumber::CONTROLLER };
        assert_eq!(lab.ask(A, out("dl_vlan=10", controller, 2)), []);
        assert_eq!(lab.frames.len(), 1);
        let refusal = lab.refused(A, out("dl_vlan=20", controller, 2));
        assert!(refusal.to_string().contains("slice \"blue\""), "{refusal}");
        lab.refused(A, out("dl_vlan=20", PortNumber(1), 2));
        lab.refused(A, out("dl_vlan=30", controller, 2));
        let refusal = lab.refused(A, out("dl_vlan=10", PortNumber(9), 2));
        assert_eq!(refusal.reason, Reason::BadRequestBadPort);
        // Through the tables only as a packet of the slice.
        let table = out("dl_vlan=10", controller, PortNumber::TABLE.0);
        lab.refused(A, table);
        assert_eq!(lab.frames.len(), 1);
    }
}

/// A slice without packets cannot send others' through the tables.
#[test]
fn a_slice_of_nothing_sends_nothing() {
    for version in [Version::V10, Version::V13] {
        let mut lab =
            Lab::new(version, vec![slice("red", vec![at(&[1, 2])]), slice("blue", vec![])]);
        lab.add(A, "actions=output:1");
        let actions = vec![Action::output(PortNumber::TABLE)];
        let (buffer, data) = (netloom_openflow::flow::NO_BUFFER, frame("ip"));
        let in_port = PortNumber::ANY;
        let packet = PacketOut { buffer, in_port, actions, data };
        assert_eq!(lab.refused(B, Message::PacketOut(packet)).reason, Reason::BadActionEperm);
        assert_eq!(lab.frames, []);
    }
}

#[test]
fn an_experimenters_action_cannot_be_proved() {
    let mut lab = vlans(Version::V13);
    let Message::FlowMod(mut change) = lab.flow(FlowCommand::Add, "dl_vlan=10,actions=drop") else {
        panic!()
    };
    let unknown = Action::Experimenter { experimenter: 0x2320, data: vec![0; 8] };
    change.instructions = vec![Instruction::ApplyActions(vec![unknown])];
    let refusal = lab.refused(A, Message::FlowMod(change));
    assert_eq!(refusal.reason, Reason::BadActionBadExperimenter);
}

#[test]
fn a_match_outside_of_the_slice_is_refused() {
    for version in [Version::V10, Version::V13] {
        let mut lab = vlans(version);
        let change = lab.flow(FlowCommand::Add, "dl_vlan=30,actions=output:1");
        let refusal = lab.refused(A, change);
        assert_eq!(refusal.reason, Reason::FlowModFailedEperm);
        assert!(refusal.to_string().ends_with("for example a packet with VLAN 30"), "{refusal}");
    }
}
