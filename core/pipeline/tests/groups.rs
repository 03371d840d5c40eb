//! Groups and meters (sections 5.6, 5.7, 6.5, 6.6).

use netloom_openflow::action::GROUP_ALL;
use netloom_openflow::flow::{FlowFlags, RemovedReason};
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::meter::{Band, BandKind, METER_CONTROLLER, MeterCommand, MeterFlags};
use netloom_openflow::port::PortState;
use netloom_openflow::{
    Action, Bucket, Field, FlowMod, GroupMod, Instruction, Message, MeterMod, MultipartReply,
    MultipartRequest, Oxm, PortNumber, Reason, Reply, Request, Version,
};
use netloom_pipeline::{Drop, Effect, Outputs};

use super::bench::{Bench, CONTROLLER, messages, port};
use super::frames::*;
use super::tables::{flow, output};

fn group(group: u32, kind: GroupType, buckets: Vec<Bucket>) -> Message {
    Message::GroupMod(GroupMod { command: GroupCommand::Add, kind, group, buckets })
}

fn to(port: u32) -> Bucket {
    Bucket::new(1, vec![Action::output(PortNumber(port))])
}

fn watching(port: u32) -> Bucket {
    Bucket { watch_port: PortNumber(port), weight: 0, ..to(port) }
}

fn through(number: u32) -> Vec<Instruction> {
    vec![Instruction::ApplyActions(vec![Action::Group(number), Action::output(PortNumber(4))])]
}

#[test]
fn every_bucket_of_all_gets_a_copy_of_its_own() {
    let mut bench = Bench::new(Version::V13);
    let set = Action::SetField(Oxm::exact(Field::EthDst, 0x0200_0000_0099));
    let changing = Bucket::new(0, vec![Action::output(PortNumber(2)), set]);
    bench.done(&group(1, GroupType::All, vec![changing, to(3), to(1)]));
    bench.done(&Message::FlowMod(flow(1, &[], through(1))));
    let (trace, out) = bench.frame(1, &tcp4(1, 2));
    let sent: Vec<_> = out.frames.iter().map(|frame| (frame.port.0, frame.bytes[5])).collect();
    // Not back by the port of arrival; the packet goes on unchanged.
    assert_eq!(sent, [(2, 0x99), (3, 0xb), (4, 0xb)]);
    assert_eq!(trace.drops, [Drop::Hairpin]);
    assert_eq!(trace.groups, [(1, 0), (1, 1), (1, 2)]);
    assert_eq!(trace.effects.iter().filter(|e| **e == Effect::Copy).count(), 3);
    let request = MultipartRequest { flags: 0, body: Request::GroupStats(GROUP_ALL) };
    match &bench.say(CONTROLLER, &Message::MultipartRequest(request))[0] {
        Message::MultipartReply(MultipartReply { body: Reply::GroupStats(all), .. }) => {
            assert_eq!((all[0].packets, all[0].bytes, all[0].references), (1, 70, 1));
            assert_eq!(all[0].buckets, [(1, 70), (1, 70), (1, 70)]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn select_keeps_flows_together_and_follows_weights() {
    let mut bench = Bench::new(Version::V13);
    let weighted = |port, weight| Bucket { weight, ..to(port) };
    bench.done(&group(1, GroupType::Select, vec![weighted(2, 1), weighted(3, 3)]));
    let only = vec![Instruction::WriteActions(vec![Action::Group(1)])];
    bench.done(&Message::FlowMod(flow(1, &[], only)));
    let mut counts = [0; 5];
    for source in 0..1000 {
        let sent = bench.ports(1, &tcp4(source, 80));
        assert_eq!(sent, bench.ports(1, &tcp4(source, 80)));
        counts[usize::try_from(sent[0]).unwrap()] += 1;
    }
    assert!((150..350).contains(&counts[2]) && counts[2] + counts[3] == 1000, "{counts:?}");
}

#[test]
fn fast_failover_takes_the_first_live_bucket() {
    let mut bench = Bench::new(Version::V13);
    bench.done(&group(1, GroupType::FastFailover, vec![watching(2), watching(3)]));
    bench.done(&Message::FlowMod(flow(
        1,
        &[],
        vec![Instruction::ApplyActions(vec![Action::Group(1)])],
    )));
    assert_eq!(bench.ports(1, &tcp4(1, 2)), [2]);
    let generation = bench.switch.generation();
    let mut down = port(2);
    down.state = PortState::LINK_DOWN;
    bench.switch.set_port(down, &[], bench.now, &mut Outputs::default());
    assert_ne!(bench.switch.generation(), generation);
    assert_eq!(bench.ports(1, &tcp4(1, 2)), [3]);
    bench.switch.remove_port(PortNumber(3), &mut Outputs::default());
    let (trace, _) = bench.frame(1, &tcp4(1, 2));
    assert_eq!(trace.drops, [Drop::Group]);
    bench.switch.set_port(port(2), &[], bench.now, &mut Outputs::default());
    assert_eq!(bench.ports(1, &tcp4(1, 2)), [2]);
}

#[test]
fn wrong_groups_are_refused() {
    let mut bench = Bench::new(Version::V13);
    bench.done(&group(1, GroupType::All, vec![to(2)]));
    let chained = |number| Bucket::new(0, vec![Action::Group(number)]);
    let mut refused = |message: &Message| bench.refused(message);
    let all = |number, buckets| group(number, GroupType::All, buckets);
    assert_eq!(refused(&all(1, vec![])), Some(Reason::GroupModFailedGroupExists));
    assert_eq!(refused(&all(0xffff_ff01, vec![])), Some(Reason::GroupModFailedInvalidGroup));
    let two = group(2, GroupType::Indirect, vec![to(2), to(3)]);
    assert_eq!(refused(&two), Some(Reason::GroupModFailedInvalidGroup));
    assert_eq!(refused(&all(2, vec![chained(2)])), Some(Reason::GroupModFailedLoop));
    assert_eq!(refused(&all(2, vec![chained(9)])), Some(Reason::BadActionBadOutGroup));
    let ff = group(2, GroupType::FastFailover, vec![to(2)]);
    assert_eq!(refused(&ff), Some(Reason::GroupModFailedBadWatch));
    assert_eq!(refused(&all(2, vec![chained(1)])), None);
    let command = |command, number, buckets| {
        Message::GroupMod(GroupMod { command, kind: GroupType::All, group: number, buckets })
    };
    let modify = |number, buckets| command(GroupCommand::Modify, number, buckets);
    assert_eq!(refused(&modify(1, vec![chained(2)])), Some(Reason::GroupModFailedLoop));
    assert_eq!(refused(&modify(7, vec![])), Some(Reason::GroupModFailedUnknownGroup));
    let delete = |number| command(GroupCommand::Delete, number, vec![]);
    assert_eq!(refused(&delete(1)), Some(Reason::GroupModFailedChainedGroup));
    assert_eq!(refused(&delete(7)), None);
    assert_eq!(
        refused(&Message::FlowMod(flow(1, &[], through(9)))),
        Some(Reason::BadActionBadOutGroup)
    );
}

/// OpenFlow 1.3.5, section 6.5: "group top-level statistics are preserved (continued), group bucket statistics are
/// reset".
#[test]
fn a_modified_group_keeps_its_own_counters() {
    let mut bench = Bench::new(Version::V13);
    bench.done(&group(1, GroupType::All, vec![to(2)]));
    bench.done(&Message::FlowMod(flow(0, &[], through(1))));
    assert_eq!(bench.ports(1, &tcp4(1, 2)), [2, 4]);
    let (kind, command) = (GroupType::All, GroupCommand::Modify);
    bench.done(&Message::GroupMod(GroupMod { command, kind, group: 1, buckets: vec![to(3)] }));
    let counters = |bench: &mut Bench| {
        let request = MultipartRequest { flags: 0, body: Request::GroupStats(1) };
        match &bench.say(CONTROLLER, &Message::MultipartRequest(request))[0] {
            Message::MultipartReply(MultipartReply { body: Reply::GroupStats(all), .. }) => {
                (all[0].packets, all[0].bytes, all[0].buckets.clone())
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(counters(&mut bench), (1, 70, vec![(0, 0)]));
    assert_eq!(bench.ports(1, &tcp4(1, 2)), [3, 4]);
    assert_eq!(counters(&mut bench), (2, 140, vec![(1, 70)]));
}

#[test]
fn entries_go_with_their_group() {
    let mut bench = Bench::new(Version::V13);
    bench.done(&group(1, GroupType::All, vec![to(2)]));
    let flags = FlowFlags::SEND_FLOW_REM;
    bench.done(&Message::FlowMod(FlowMod { flags, ..flow(1, &[], through(1)) }));
    bench.done(&Message::FlowMod(flow(0, &[], output(3))));
    let delete = GroupMod {
        command: GroupCommand::Delete,
        kind: GroupType::All,
        group: GROUP_ALL,
        buckets: vec![],
    };
    let out = bench.done(&Message::GroupMod(delete));
    let [Message::FlowRemoved(removed)] = &messages(&out, CONTROLLER)[..] else {
        panic!("{out:?}")
    };
    assert_eq!(removed.reason, RemovedReason::GroupDelete);
    assert_eq!(bench.ports(1, &tcp4(1, 2)), [3]);
}

fn meter(command: MeterCommand, meter: u32, flags: MeterFlags, bands: Vec<Band>) -> Message {
    Message::MeterMod(MeterMod { command, flags, meter, bands })
}

#[test]
fn meters_drop_and_remark_and_take_their_entries_with_them() {
    let mut bench = Bench::new(Version::V13);
    let flags = MeterFlags::PKTPS | MeterFlags::BURST;
    let band = |rate, burst, kind| Band { rate, burst, kind };
    let bands = vec![band(1, 1, BandKind::DscpRemark(1)), band(10, 3, BandKind::Drop)];
    bench.done(&meter(MeterCommand::Add, 5, flags, bands));
    let mut instructions = output(2);
    instructions.push(Instruction::Meter(5));
    bench.done(&Message::FlowMod(flow(1, &[Oxm::exact(Field::EthType, 0x800)], instructions)));
    // AF11.
    let mut frame = tcp4(1, 2);
    frame[15] = 10 << 2;
    frame[25] = frame[25].wrapping_sub(10 << 2);
    let tos: Vec<_> = (0..5)
        .map(|_| bench.frame(1, &frame).1.frames.first().map(|frame| frame.bytes[15] >> 2))
        .collect();
    assert_eq!(tos, [Some(10), Some(12), Some(12), None, None]);
    let changed = |flags, bands| meter(MeterCommand::Add, 6, flags, bands);
    let drop = || vec![band(1, 1, BandKind::Drop)];
    let both = changed(MeterFlags::PKTPS | MeterFlags::KBPS, drop());
    assert_eq!(bench.refused(&both), Some(Reason::MeterModFailedBadFlags));
    let none = changed(flags, vec![band(0, 1, BandKind::Drop)]);
    assert_eq!(bench.refused(&none), Some(Reason::MeterModFailedBadRate));
    let again = meter(MeterCommand::Add, 5, flags, drop());
    assert_eq!(bench.refused(&again), Some(Reason::MeterModFailedMeterExists));
    let unknown = meter(MeterCommand::Modify, 6, flags, drop());
    assert_eq!(bench.refused(&unknown), Some(Reason::MeterModFailedUnknownMeter));
    let zero = meter(MeterCommand::Add, 0, flags, drop());
    assert_eq!(bench.refused(&zero), Some(Reason::MeterModFailedInvalidMeter));
    let missing = vec![Instruction::Meter(99)];
    let refused = bench.refused(&Message::FlowMod(flow(1, &[], missing)));
    assert_eq!(refused, Some(Reason::MeterModFailedInvalidMeter));
    bench.done(&meter(MeterCommand::Delete, 5, flags, vec![]));
    assert_eq!(bench.switch.rules().count(), 0);
}

#[test]
fn a_meter_protects_controllers() {
    let mut bench = Bench::new(Version::V13);
    let flags = MeterFlags::PKTPS | MeterFlags::BURST;
    let bands = vec![Band { rate: 1, burst: 2, kind: BandKind::Drop }];
    bench.done(&meter(MeterCommand::Add, METER_CONTROLLER, flags, bands));
    bench.done(&Message::FlowMod(flow(0, &[], output(PortNumber::CONTROLLER.0))));
    let told: usize = (0..9).map(|_| bench.frame(1, &arp()).1.messages.len()).sum();
    assert_eq!(told, 2);
}
