//! Rules that are several entries of the real switch: changed, removed and told of as one.

use netloom_openflow::flow::{FlowCommand, RemovedReason};
use netloom_openflow::{Message, Version};
use netloom_slicing::Space;

use crate::integration::lab::{A, B, Lab, SECOND, at, frame, slice};

fn two(version: Version) -> Lab {
    Lab::new(version, vec![slice("red", vec![at(&[1, 2])]), slice("blue", vec![at(&[3, 4])])])
}

fn change(lab: &mut Lab, command: FlowCommand, said: &str) {
    let message = lab.flow(command, said);
    let answers = lab.ask(A, message);
    let removed = |one: &Message| matches!(one, Message::FlowRemoved(_));
    assert!(answers.iter().all(removed), "{said}: {answers:?} {:?}", lab.refused);
}

#[test]
fn a_deletion_touches_only_its_slices_rules() {
    for version in [Version::V10, Version::V13] {
        let mut lab = two(version);
        lab.add(A, "priority=1,actions=FLOOD");
        lab.add(A, "priority=2,tcp,actions=drop");
        lab.add(B, "priority=1,actions=FLOOD");
        assert_eq!(lab.entries(), 6);
        change(&mut lab, FlowCommand::Delete, "tcp");
        assert_eq!(lab.entries(), 4);
        change(&mut lab, FlowCommand::DeleteStrict, "priority=2");
        assert_eq!(lab.entries(), 4);
        change(&mut lab, FlowCommand::Delete, "");
        assert_eq!(lab.entries(), 2);
        assert_eq!(lab.ports(3, &frame("ip")), [4]);
        assert_eq!(lab.slicer.counters(A).entries, 0);
        assert_eq!(lab.slicer.counters(B).entries, 2);
    }
}

#[test]
fn a_modification_is_proved_and_changes_all_entries() {
    for version in [Version::V10, Version::V13] {
        let mut lab = two(version);
        lab.add(A, "actions=output:1");
        change(&mut lab, FlowCommand::Modify, "actions=output:2");
        assert_eq!(lab.ports(1, &frame("ip")), [2]);
        let foreign = lab.flow(FlowCommand::Modify, "actions=output:3");
        lab.refused(A, foreign);
        assert_eq!(lab.ports(1, &frame("ip")), [2]);
        assert_eq!(lab.entries(), 2);
    }
}

#[test]
fn one_removal_is_told_with_the_sums() {
    for version in [Version::V10, Version::V13] {
        let mut lab = two(version);
        lab.add(A, "cookie=3,priority=4,send_flow_rem,actions=FLOOD");
        for port in [1, 2, 2] {
            lab.ports(port, &frame("ip"));
        }
        lab.now += 5 * SECOND;
        let message = lab.flow(FlowCommand::Delete, "");
        let told = lab.ask(A, message);
        let [Message::FlowRemoved(removed)] = &told[..] else { panic!("{told:?}") };
        assert_eq!((removed.cookie, removed.priority, removed.packets), (3, 4, 3));
        assert_eq!(removed.reason, RemovedReason::Delete);
        assert_eq!(removed.duration.seconds, 5);
        assert!(lab.told(B).is_empty());
    }
}

#[test]
fn a_rule_is_idle_when_all_its_entries_are() {
    let mut lab = two(Version::V13);
    lab.add(A, "idle_timeout=10,send_flow_rem,actions=FLOOD");
    for _ in 0..5 {
        lab.wait(6 * SECOND);
        assert_eq!(lab.ports(1, &frame("ip")), [2], "packets at one port keep it");
        assert_eq!(lab.entries(), 2);
    }
    lab.told.clear();
    lab.wait(4 * SECOND);
    assert_eq!(lab.entries(), 2);
    for _ in 0..4 {
        lab.wait(5 * SECOND);
    }
    assert_eq!(lab.entries(), 0);
    let told = lab.told(A);
    let [Message::FlowRemoved(removed)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((removed.reason, removed.packets), (RemovedReason::IdleTimeout, 5));
}

#[test]
fn a_hard_timeout_ends_all_entries() {
    let mut lab = two(Version::V13);
    lab.add(A, "hard_timeout=10,idle_timeout=3,send_flow_rem,actions=FLOOD");
    for _ in 0..5 {
        lab.wait(2 * SECOND);
        lab.ports(1, &frame("ip"));
    }
    lab.told.clear();
    lab.wait(2 * SECOND);
    assert_eq!(lab.entries(), 0);
    assert_eq!(lab.slicer.counters(A).rules, 0);
}

#[test]
fn an_equal_rule_replaces_and_an_overlap_is_refused() {
    for version in [Version::V10, Version::V13] {
        let mut lab = two(version);
        lab.add(A, "cookie=1,actions=output:1");
        lab.add(A, "cookie=2,actions=output:2");
        assert_eq!((lab.entries(), lab.slicer.counters(A).rules), (2, 1));
        let overlap = lab.flow(FlowCommand::Add, "check_overlap,tcp,actions=drop");
        let reason = lab.refused(A, overlap).reason;
        assert_eq!(reason, netloom_openflow::Reason::FlowModFailedOverlap);
        // Other slices' rules are none of its business.
        let other = lab.flow(FlowCommand::Add, "check_overlap,actions=drop");
        assert_eq!(lab.ask(B, other), []);
    }
}

#[test]
fn a_range_becomes_exact_entries_where_the_switch_has_no_masks() {
    for version in [Version::V10, Version::V13] {
        let space = Space {
            protocol: Some(6),
            ethertype: Some(0x0800),
            port_destination: Some(80..=89),
            ..at(&[1, 2])
        };
        let mut lab = Lab::new(version, vec![slice("red", vec![space])]);
        lab.add(A, "in_port=1,actions=output:2");
        assert_eq!(lab.entries(), 10);
        lab.add(A, "priority=40000,tcp,tp_dst=85,actions=drop");
        assert_eq!(lab.entries(), 12);
        for (port, out) in [(79, vec![]), (80, vec![2]), (85, vec![]), (89, vec![2]), (90, vec![])]
        {
            assert_eq!(lab.ports(1, &frame(&format!("tcp,tp_dst={port}"))), out, "{port}");
        }
    }
}

#[test]
fn later_tables_have_one_entry_for_a_rule() {
    let mut lab = two(Version::V13);
    lab.add(A, "actions=goto_table:1");
    lab.add(B, "actions=goto_table:1");
    lab.add(A, "table=1,actions=FLOOD");
    lab.add(B, "table=1,actions=drop");
    assert_eq!(lab.entries(), 2 + 2 + 1 + 1);
    assert_eq!(lab.ports(1, &frame("ip")), [2]);
    assert_eq!(lab.ports(3, &frame("ip")), Vec::<u32>::new());
}
