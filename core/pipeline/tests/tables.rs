//! Flow tables: priorities, changes, timeouts, statistics (sections 5.1 to 5.5 and 6.4).

use netloom_openflow::flow::{FlowCommand, FlowFlags, RemovedReason, TABLE_ALL};
use netloom_openflow::multipart::FlowRequest;
use netloom_openflow::packet::PacketInReason;
use netloom_openflow::{
    Action, Field, FlowMod, Instruction, Match, Message, MultipartReply, MultipartRequest, Oxm,
    PacketOut, PortNumber, Reason, Reply, Request, Version,
};
use netloom_pipeline::{Drop, Options};

use super::bench::{Bench, CONTROLLER, messages};
use super::frames::*;

pub fn output(port: u32) -> Vec<Instruction> {
    vec![Instruction::ApplyActions(vec![Action::output(PortNumber(port))])]
}

pub fn flow(priority: u16, fields: &[Oxm], instructions: Vec<Instruction>) -> FlowMod {
    FlowMod {
        priority,
        instructions,
        ..FlowMod::new(FlowCommand::Add, Match::Oxm(fields.to_vec()))
    }
}

fn ip(field: Field, value: u128, mask: u128) -> Vec<Oxm> {
    vec![Oxm::exact(Field::EthType, 0x800), Oxm::masked(field, value, mask)]
}

fn flows(bench: &mut Bench) -> Vec<netloom_openflow::multipart::FlowStats> {
    let body = Request::Flow(FlowRequest::new(Match::default()));
    let request = Message::MultipartRequest(MultipartRequest { flags: 0, body });
    match bench.say(CONTROLLER, &request).remove(0) {
        Message::MultipartReply(MultipartReply { body: Reply::Flow(flows), .. }) => flows,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_highest_priority_wins_whatever_the_mask() {
    let mut bench = Bench::new(Version::V13);
    let net = ip(Field::Ipv4Dst, 0x0a00_0000, 0xff00_0000);
    bench.done(&Message::FlowMod(flow(5, &net, output(2))));
    let host = ip(Field::Ipv4Dst, 0x0a00_0002, 0xffff_ffff);
    bench.done(&Message::FlowMod(flow(1, &host, output(3))));
    assert_eq!(bench.ports(1, &tcp4(1, 2)), [2]);
    bench.done(&Message::FlowMod(flow(9, &[Oxm::exact(Field::InPort, 1)], vec![])));
    let (trace, out) = bench.frame(1, &tcp4(1, 2));
    assert_eq!((out.frames, trace.drops), (vec![], vec![Drop::NoOutput]));
    assert_eq!(bench.ports(4, &tcp4(1, 2)), [2]);
    assert_eq!(bench.ports(2, &tcp4(1, 2)), [] as [u32; 0]);
    let (trace, _) = bench.frame(3, &arp());
    assert_eq!(trace.drops, [Drop::NoMatch]);
}

#[test]
fn instructions_are_done_in_their_order_not_as_written() {
    let mut bench = Bench::new(Version::V13);
    let first = vec![
        Instruction::GotoTable(3),
        Instruction::WriteMetadata { value: 0x55, mask: 0xf0 },
        Instruction::WriteActions(vec![Action::output(PortNumber(2))]),
        Instruction::ApplyActions(vec![Action::output(PortNumber(3))]),
    ];
    bench.done(&Message::FlowMod(flow(1, &[], first)));
    let metadata = [Oxm::masked(Field::Metadata, 0x50, 0xff)];
    let second = vec![Instruction::WriteActions(vec![Action::SetField(Oxm::exact(
        Field::EthDst,
        0x0200_0000_0099,
    ))])];
    bench.done(&Message::FlowMod(FlowMod { table: 3, ..flow(1, &metadata, second) }));
    let (trace, out) = bench.frame(1, &tcp4(1, 2));
    assert_eq!(trace.steps.iter().map(|step| step.table).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(
        out.frames.iter().map(|f| (f.port.0, f.bytes[5])).collect::<Vec<_>>(),
        [(3, 0xb), (2, 0x99)]
    );
    let clear = vec![Instruction::ClearActions];
    bench.done(&Message::FlowMod(FlowMod { table: 3, ..flow(9, &metadata, clear) }));
    assert_eq!(bench.ports(1, &tcp4(1, 2)), [3]);
}

#[test]
fn adding_replaces_and_keeps_counters_unless_told() {
    let mut bench = Bench::new(Version::V13);
    let add = flow(1, &[], output(2));
    bench.done(&Message::FlowMod(add.clone()));
    bench.ports(1, &tcp4(1, 2));
    bench.done(&Message::FlowMod(FlowMod { instructions: output(3), ..add.clone() }));
    let all = flows(&mut bench);
    assert_eq!((all.len(), all[0].packets, all[0].bytes), (1, 1, 70));
    assert_eq!(bench.ports(1, &tcp4(1, 2)), [3]);
    let flags = FlowFlags::RESET_COUNTS;
    bench.done(&Message::FlowMod(FlowMod { flags, ..add }));
    assert_eq!(flows(&mut bench)[0].packets, 0);
    let flags = FlowFlags::NO_PACKET_COUNTS;
    bench.done(&Message::FlowMod(FlowMod { flags, ..flow(2, &[], output(2)) }));
    bench.ports(1, &tcp4(1, 2));
    let all = flows(&mut bench);
    assert_eq!((all[1].packets, all[1].bytes), (0, 70));
}

#[test]
fn overlap_table_full_and_wrong_tables_are_refused() {
    let mut bench =
        Bench::with(Version::V13, Options { max_entries: 2, tables: 4, ..Options::default() });
    let net = ip(Field::Ipv4Dst, 0x0a00_0000, 0xff00_0000);
    bench.done(&Message::FlowMod(flow(5, &net, output(2))));
    let checked = |priority, fields: &[Oxm]| {
        let flags = FlowFlags::CHECK_OVERLAP;
        Message::FlowMod(FlowMod { flags, ..flow(priority, fields, output(2)) })
    };
    let host = ip(Field::Ipv4Src, 1, 0xffff_ffff);
    assert_eq!(bench.refused(&checked(5, &host)), Some(Reason::FlowModFailedOverlap));
    assert_eq!(bench.refused(&checked(6, &host)), None);
    let third = Message::FlowMod(flow(7, &[], output(2)));
    assert_eq!(bench.refused(&third), Some(Reason::FlowModFailedTableFull));
    // Replacing needs no room.
    assert_eq!(bench.refused(&Message::FlowMod(flow(5, &net, output(3)))), None);
    let table = |table| Message::FlowMod(FlowMod { table, ..flow(7, &[], output(2)) });
    assert_eq!(bench.refused(&table(4)), Some(Reason::FlowModFailedBadTableId));
    assert_eq!(bench.refused(&table(TABLE_ALL)), Some(Reason::FlowModFailedBadTableId));
    assert_eq!(bench.refused(&table(3)), None);
}

#[test]
fn modify_and_delete_choose_by_match_cookie_and_output() {
    let mut bench = Bench::new(Version::V13);
    let net = ip(Field::Ipv4Dst, 0x0a00_0000, 0xff00_0000);
    let host = ip(Field::Ipv4Dst, 0x0a00_0002, 0xffff_ffff);
    let setup = |bench: &mut Bench| {
        bench.done(&Message::FlowMod(FlowMod { cookie: 0x11, ..flow(5, &net, output(2)) }));
        bench.done(&Message::FlowMod(FlowMod { cookie: 0x21, ..flow(6, &host, output(3)) }));
        bench.done(&Message::FlowMod(FlowMod { table: 2, ..flow(5, &[], output(2)) }));
    };
    setup(&mut bench);
    let change = |command, fields: &[Oxm]| FlowMod { command, ..flow(5, fields, output(4)) };
    // Not strict: also narrower ones; only in the table.
    bench.done(&Message::FlowMod(change(FlowCommand::Modify, &net)));
    assert_eq!(bench.ports(1, &tcp4(1, 2)), [4]);
    assert_eq!(flows(&mut bench).iter().filter(|f| f.instructions == output(4)).count(), 2);
    setup(&mut bench);
    bench.done(&Message::FlowMod(change(FlowCommand::ModifyStrict, &net)));
    assert_eq!(bench.ports(1, &tcp4(1, 2)), [3]);
    // Nothing to modify: nothing is added.
    bench.done(&Message::FlowMod(change(FlowCommand::ModifyStrict, &ip(Field::Ipv4Src, 1, 1))));
    assert_eq!(flows(&mut bench).len(), 3);
    let delete = FlowMod { command: FlowCommand::Delete, table: TABLE_ALL, ..flow(0, &[], vec![]) };
    let by_cookie = FlowMod { cookie: 0x20, cookie_mask: 0xf0, ..delete.clone() };
    bench.done(&Message::FlowMod(by_cookie));
    assert_eq!(flows(&mut bench).len(), 2);
    bench.done(&Message::FlowMod(FlowMod { out_port: PortNumber(2), ..delete.clone() }));
    assert_eq!(flows(&mut bench).len(), 1);
    let strict = FlowMod { command: FlowCommand::DeleteStrict, ..flow(6, &net, vec![]) };
    bench.done(&Message::FlowMod(strict.clone()));
    assert_eq!(flows(&mut bench).len(), 1);
    bench.done(&Message::FlowMod(FlowMod { priority: 5, ..strict }));
    assert_eq!(flows(&mut bench).len(), 0);
}

#[test]
fn entries_expire_exactly_and_are_told_of() {
    let mut bench = Bench::new(Version::V13);
    let flags = FlowFlags::SEND_FLOW_REM;
    let idle = FlowMod { idle_timeout: 5, hard_timeout: 20, flags, ..flow(1, &[], output(2)) };
    bench.done(&Message::FlowMod(idle));
    let start = bench.now;
    assert_eq!(bench.switch.deadline(), Some(start + 5 * super::bench::SECOND));
    for _ in 0..4 {
        assert!(bench.pass(4).messages.is_empty());
        assert_eq!(bench.ports(1, &tcp4(1, 2)), [2]);
    }
    assert!(bench.pass(3).messages.is_empty());
    let out = bench.pass(1);
    let [Message::FlowRemoved(removed)] = &messages(&out, CONTROLLER)[..] else {
        panic!("{out:?}")
    };
    assert_eq!(
        (removed.reason, removed.packets, removed.duration.seconds),
        (RemovedReason::HardTimeout, 4, 20)
    );
    assert_eq!(bench.switch.deadline(), None);
    bench.done(&Message::FlowMod(FlowMod { idle_timeout: 5, flags, ..flow(1, &[], output(2)) }));
    let out = bench.pass(5);
    let [Message::FlowRemoved(removed)] = &messages(&out, CONTROLLER)[..] else {
        panic!("{out:?}")
    };
    assert_eq!((removed.reason, removed.packets), (RemovedReason::IdleTimeout, 0));
    let delete = FlowMod { command: FlowCommand::Delete, ..flow(0, &[], vec![]) };
    bench.done(&Message::FlowMod(FlowMod { flags, ..flow(1, &[], output(2)) }));
    let out = bench.done(&Message::FlowMod(delete));
    assert!(matches!(
        &messages(&out, CONTROLLER)[..],
        [Message::FlowRemoved(removed)] if removed.reason == RemovedReason::Delete
    ));
}

#[test]
fn packets_wait_for_their_flow_mod_once() {
    let mut bench = Bench::new(Version::V13);
    let to_controller = vec![Instruction::ApplyActions(vec![Action::Output {
        port: PortNumber::CONTROLLER,
        max_len: 20,
    }])];
    bench.done(&Message::FlowMod(flow(0, &[], to_controller)));
    let frame = tcp4(1, 2);
    let (trace, out) = bench.frame(1, &frame);
    assert!(trace.controller && trace.uncacheable.is_some());
    let [Message::PacketIn(packet)] = &messages(&out, CONTROLLER)[..] else { panic!("{out:?}") };
    assert_eq!((packet.data.len(), usize::from(packet.total_len)), (20, frame.len()));
    assert_eq!((packet.reason, packet.in_port()), (PacketInReason::NoMatch, Some(PortNumber(1))));
    let add = FlowMod { buffer: packet.buffer, ..flow(5, &[], output(3)) };
    let out = bench.done(&Message::FlowMod(add.clone()));
    assert_eq!((out.frames.len(), &out.frames[0].bytes), (1, &frame));
    let again = Message::FlowMod(add);
    assert_eq!(bench.refused(&again), Some(Reason::BadRequestBufferEmpty));
    let out = Message::PacketOut(PacketOut {
        buffer: 4000,
        in_port: PortNumber::CONTROLLER,
        actions: vec![],
        data: vec![],
    });
    assert_eq!(bench.refused(&out), Some(Reason::BadRequestBufferUnknown));
}

#[test]
fn entries_are_listed_by_their_places_however_many_have_gone() {
    let mut bench = Bench::new(Version::V13);
    let by_port = |port: u16| flow(port, &[Oxm::exact(Field::InPort, port.into())], output(3));
    let listed =
        |bench: &Bench| -> Vec<u16> { bench.switch.rules().map(|rule| rule.priority).collect() };
    for port in 0..300 {
        bench.done(&Message::FlowMod(by_port(port)));
    }
    assert_eq!(listed(&bench), (0..300).collect::<Vec<_>>());
    let stays = |port: &u16| port % 64 == 63 || *port == 128;
    for port in (0..300).filter(|port| !stays(port)) {
        let delete = FlowMod { command: FlowCommand::DeleteStrict, ..by_port(port) };
        bench.done(&Message::FlowMod(delete));
    }
    assert_eq!(listed(&bench), [63, 127, 128, 191, 255]);
    // The first free places are taken again.
    bench.done(&Message::FlowMod(by_port(900)));
    bench.done(&Message::FlowMod(by_port(901)));
    assert_eq!(listed(&bench), [900, 901, 63, 127, 128, 191, 255]);
    bench.done(&Message::FlowMod(FlowMod::new(FlowCommand::Delete, Match::default())));
    assert_eq!(listed(&bench), [0; 0]);
}

#[test]
fn packet_outs_go_to_ports_floods_and_tables() {
    let mut bench = Bench::new(Version::V13);
    bench.done(&Message::FlowMod(flow(1, &[Oxm::exact(Field::InPort, 4)], output(3))));
    let out = |in_port, actions: &[PortNumber]| {
        Message::PacketOut(PacketOut {
            buffer: u32::MAX,
            in_port,
            actions: actions.iter().map(|port| Action::output(*port)).collect(),
            data: tcp4(1, 2),
        })
    };
    let ports = |bench: &mut Bench, message: &Message| {
        bench.done(message).frames.iter().map(|frame| frame.port.0).collect::<Vec<_>>()
    };
    let from = PortNumber::CONTROLLER;
    assert_eq!(ports(&mut bench, &out(from, &[PortNumber(2), PortNumber(2)])), [2, 2]);
    assert_eq!(ports(&mut bench, &out(from, &[PortNumber::FLOOD])), [1, 2, 3, 4]);
    assert_eq!(ports(&mut bench, &out(PortNumber(2), &[PortNumber::ALL])), [1, 3, 4]);
    assert_eq!(ports(&mut bench, &out(PortNumber(4), &[PortNumber::TABLE])), [3]);
    assert_eq!(ports(&mut bench, &out(PortNumber(4), &[PortNumber::IN_PORT])), [4]);
    assert_eq!(ports(&mut bench, &out(PortNumber(4), &[PortNumber(4)])), [] as [u32; 0]);
    assert_eq!(bench.refused(&out(PortNumber(0), &[])), Some(Reason::BadRequestBadPort));
}

#[test]
fn a_ttl_that_ends_stops_the_packet() {
    let mut bench = Bench::new(Version::V13);
    let actions = vec![Action::DecNwTtl, Action::output(PortNumber(2))];
    let fields = [Oxm::exact(Field::EthType, 0x800)];
    bench.done(&Message::FlowMod(flow(1, &fields, vec![Instruction::ApplyActions(actions)])));
    let frame = |ttl| summed(ethernet(0x0800, &ipv4(6, ttl, &tcp(1, 2))));
    assert_eq!(bench.ports(1, &frame(2)), [2]);
    let (trace, out) = bench.frame(1, &frame(1));
    assert_eq!((trace.drops, out.frames.len()), (vec![Drop::Ttl], 0));
}

#[test]
fn normal_forwarding_learns() {
    let mut bench = Bench::new(Version::V13);
    bench.done(&Message::FlowMod(flow(1, &[], output(PortNumber::NORMAL.0))));
    let there = tcp4(1, 2);
    let mut back = there.clone();
    back[..6].copy_from_slice(&there[6..12]);
    back[6..12].copy_from_slice(&there[..6]);
    assert_eq!(bench.ports(1, &there), [2, 3, 4]);
    assert_eq!(bench.ports(3, &back), [1]);
    assert_eq!(bench.ports(1, &there), [3]);
    assert_eq!(bench.ports(3, &there), [] as [u32; 0]);
}
