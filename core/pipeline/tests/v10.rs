//! What only OpenFlow 1.0 has, or does otherwise.

use netloom_openflow::flow::{FlowCommand, FlowFlags};
use netloom_openflow::matching::{Match10, VLAN_NONE, Wildcards};
use netloom_openflow::packet::PacketInReason;
use netloom_openflow::{Action, FlowMod, Instruction, Match, Message, PortNumber, Reason, Version};

use super::bench::{Bench, CONTROLLER, messages};
use super::frames::*;

fn flow(fields: Match10, actions: Vec<Action>) -> FlowMod {
    let instructions = match actions.is_empty() {
        true => vec![],
        false => vec![Instruction::ApplyActions(actions)],
    };
    FlowMod { instructions, ..FlowMod::new(FlowCommand::Add, Match::V10(fields)) }
}

fn except(flags: Wildcards) -> Wildcards {
    Wildcards::ALL.without(flags)
}

fn output(port: u32) -> Vec<Action> {
    vec![Action::output(PortNumber(port))]
}

#[test]
fn packets_without_a_match_go_to_the_controller() {
    let mut bench = Bench::new(Version::V10);
    let frame = tcp4(1, 2);
    let (trace, out) = bench.frame(3, &frame);
    let [Message::PacketIn(packet)] = &messages(&out, CONTROLLER)[..] else { panic!("{out:?}") };
    assert_eq!((packet.reason, packet.in_port()), (PacketInReason::NoMatch, Some(PortNumber(3))));
    assert_eq!(packet.data, frame);
    assert!(trace.controller && packet.buffer != u32::MAX);
    let add = FlowMod { buffer: packet.buffer, ..flow(Match10::default(), output(2)) };
    assert_eq!(bench.done(&Message::FlowMod(add)).frames.len(), 1);
}

#[test]
fn vlans_are_compared_as_none_any_or_one() {
    let mut bench = Bench::new(Version::V10);
    let none =
        Match10 { wildcards: except(Wildcards::DL_VLAN), dl_vlan: VLAN_NONE, ..Match10::default() };
    bench.done(&Message::FlowMod(flow(none, output(2))));
    let five = Match10 {
        wildcards: except(Wildcards::DL_VLAN | Wildcards::DL_VLAN_PCP),
        dl_vlan: 5,
        dl_vlan_pcp: 3,
        ..Match10::default()
    };
    bench.done(&Message::FlowMod(flow(five, output(3))));
    let frame = tcp4(1, 2);
    assert_eq!(bench.ports(1, &frame), [2]);
    assert_eq!(bench.ports(1, &tagged(&frame, 5, 3)), [3]);
    assert_eq!(bench.ports(1, &tagged(&frame, 5, 4)), [] as [u32; 0]);
    assert_eq!(bench.ports(1, &tagged(&frame, 0, 3)), [] as [u32; 0]);
}

#[test]
fn tags_are_set_added_and_stripped() {
    let mut bench = Bench::new(Version::V10);
    let mut after = |actions: Vec<Action>, frame: &[u8]| {
        let all = actions.into_iter().chain(output(2)).collect();
        bench.done(&Message::FlowMod(flow(Match10::default(), all)));
        bench.one(1, frame).bytes
    };
    let frame = tcp4(1, 2);
    assert_eq!(after(vec![Action::SetVlanVid(5)], &frame), tagged(&frame, 5, 0));
    assert_eq!(after(vec![Action::SetVlanPcp(3)], &frame), tagged(&frame, 0, 3));
    assert_eq!(after(vec![Action::SetVlanVid(5)], &tagged(&frame, 7, 3)), tagged(&frame, 5, 3));
    assert_eq!(after(vec![Action::StripVlan], &tagged(&frame, 7, 3)), frame);
    assert_eq!(after(vec![Action::StripVlan], &frame), frame);
    let set = vec![
        Action::SetDlSrc([9; 6]),
        Action::SetNwDst(0x0a00_0009),
        Action::SetNwTos(0xb8),
        Action::SetTpDst(99),
    ];
    let changed = after(set, &frame);
    assert!(is_right(&changed));
    assert_eq!((changed[6], changed[15], changed[33], changed[37]), (9, 0xb8, 9, 99));
}

#[test]
fn what_cannot_be_modified_is_added() {
    let mut bench = Bench::new(Version::V10);
    let command = FlowCommand::Modify;
    let modify =
        |cookie, port| FlowMod { command, cookie, ..flow(Match10::default(), output(port)) };
    bench.done(&Message::FlowMod(modify(1, 2)));
    assert_eq!(bench.ports(1, &arp()), [2]);
    bench.done(&Message::FlowMod(modify(2, 3)));
    assert_eq!(bench.ports(1, &arp()), [3]);
    assert_eq!(bench.switch.rules().map(|rule| rule.cookie).collect::<Vec<_>>(), [2]);
}

#[test]
fn enqueue_emergency_arguments() {
    let mut bench = Bench::new(Version::V10);
    let enqueue = Action::Enqueue { port: PortNumber(2), queue: 1 };
    bench.done(&Message::FlowMod(flow(Match10::default(), vec![enqueue])));
    assert_eq!(bench.one(1, &arp()).queue, Some(1));
    let emergency = FlowMod { flags: FlowFlags::EMERGENCY, ..flow(Match10::default(), vec![]) };
    let refused = bench.refused(&Message::FlowMod(emergency));
    assert_eq!(refused, Some(Reason::FlowModFailedTableFull));
    for action in [Action::SetVlanVid(0x1000), Action::SetVlanPcp(8), Action::SetNwTos(1)] {
        let change = Message::FlowMod(flow(Match10::default(), vec![action]));
        assert_eq!(bench.refused(&change), Some(Reason::BadActionBadArgument));
    }
}

#[test]
fn arp_is_compared_by_operation_and_addresses() {
    let mut bench = Bench::new(Version::V10);
    let request = Match10 {
        wildcards: except(Wildcards::DL_TYPE | Wildcards::NW_PROTO).with_prefixes(0, 24),
        dl_type: 0x0806,
        nw_proto: 1,
        nw_dst: 0x0a00_0000,
        ..Match10::default()
    };
    bench.done(&Message::FlowMod(flow(request, output(2))));
    assert_eq!(bench.ports(1, &arp()), [2]);
    let mut reply = arp();
    reply[21] = 2;
    assert_eq!(bench.ports(1, &reply), [] as [u32; 0]);
}

#[test]
fn frames_of_802_3_have_the_type_of_their_snap_header() {
    let mut bench = Bench::new(Version::V10);
    let typed = |dl_type, port| {
        let wildcards = except(Wildcards::DL_TYPE);
        flow(Match10 { wildcards, dl_type, ..Match10::default() }, output(port))
    };
    bench.done(&Message::FlowMod(typed(0x88b5, 2)));
    bench.done(&Message::FlowMod(typed(0x05ff, 3)));
    let snap = ethernet(9, &[0xaa, 0xaa, 3, 0, 0, 0, 0x88, 0xb5, 1]);
    assert_eq!(bench.ports(1, &snap), [2]);
    assert_eq!(bench.ports(1, &ethernet(9, &[0x42, 0x42, 3])), [3]);
}

#[test]
fn ports_of_fragments_are_zero() {
    let mut bench = Bench::new(Version::V10);
    let port = |tp_dst, to| {
        let wildcards = except(Wildcards::DL_TYPE | Wildcards::NW_PROTO | Wildcards::TP_DST);
        let fields =
            Match10 { wildcards, dl_type: 0x800, nw_proto: 6, tp_dst, ..Match10::default() };
        flow(fields, output(to))
    };
    bench.done(&Message::FlowMod(port(80, 2)));
    bench.done(&Message::FlowMod(port(0, 3)));
    let mut frame = tcp4(1, 80);
    assert_eq!(bench.ports(1, &frame), [2]);
    frame[20] = 0x20;
    assert_eq!(bench.ports(1, &frame), [3]);
}
