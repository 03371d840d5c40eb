//! What one packet may cost, whatever groups and actions it meets: counted, so that it holds on any machine.

use netloom_openflow::action::GROUP_ANY;
use netloom_openflow::flow::NO_BUFFER;
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::{
    Action, Bucket, FlowMod, GroupMod, Instruction, Message, MultipartRequest, PacketOut,
    PortNumber, Reason, Reply, Request, Version,
};
use netloom_pipeline::{Drop, Options, Outputs};

use super::bench::{Bench, CONTROLLER};
use super::frames::tcp4;
use super::tables::flow;

/// Frames and bytes of these that one packet may become.
const MOST_FRAMES: usize = 16_384;
const MOST_BYTES: usize = 16 << 20;

fn group_mod(command: GroupCommand, group: u32, kind: GroupType, buckets: Vec<Bucket>) -> Message {
    Message::GroupMod(GroupMod { command, kind, group, buckets })
}

fn group(number: u32, kind: GroupType, buckets: Vec<Bucket>) -> Message {
    group_mod(GroupCommand::Add, number, kind, buckets)
}

fn through(number: u32) -> Bucket {
    Bucket::new(0, vec![Action::Group(number)])
}

/// Lives while this group does.
fn watching(group: u32) -> Bucket {
    Bucket { watch_group: group, watch_port: PortNumber::ANY, ..Bucket::new(0, vec![]) }
}

/// A packet of a controller.
fn packet_out(actions: Vec<Action>, length: usize) -> Message {
    let mut data = tcp4(1, 2);
    data.resize(length, 0);
    Message::PacketOut(PacketOut {
        buffer: NO_BUFFER,
        in_port: PortNumber::CONTROLLER,
        actions,
        data,
    })
}

fn tables() -> Message {
    Message::MultipartRequest(MultipartRequest { flags: 0, body: Request::Table })
}

fn bytes(out: &Outputs) -> usize {
    out.frames.iter().map(|frame| frame.bytes.len()).sum()
}

#[test]
fn copies_of_groups_within_groups_are_bounded() {
    let mut bench = Bench::new(Version::V13);
    bench.done(&group(
        1,
        GroupType::All,
        vec![Bucket::new(0, vec![Action::output(PortNumber(2))]); 100],
    ));
    for number in 2..30 {
        bench.done(&group(number, GroupType::All, vec![through(number - 1); 4]));
    }
    let out = bench.done(&packet_out(vec![Action::Group(29)], 60));
    assert!(!out.frames.is_empty() && out.frames.len() <= MOST_FRAMES, "{}", out.frames.len());
    let to_all = vec![Instruction::ApplyActions(vec![Action::Group(29)])];
    bench.done(&Message::FlowMod(flow(1, &[], to_all)));
    let (trace, out) = bench.frame(1, &tcp4(1, 2));
    assert!(out.frames.len() <= MOST_FRAMES && trace.drops.contains(&Drop::Limit));
    assert!(trace.uncacheable.is_some());
}

/// Each bucket that does nothing is work, too.
#[test]
fn empty_buckets_are_bounded() {
    let mut bench = Bench::new(Version::V13);
    bench.done(&group(1, GroupType::All, vec![Bucket::new(0, vec![]); 2000]));
    let to_all = vec![Instruction::ApplyActions(vec![Action::Group(1); 400])];
    bench.done(&Message::FlowMod(flow(1, &[], to_all)));
    let (trace, _) = bench.frame(1, &tcp4(1, 2));
    assert!(trace.groups.len() <= MOST_FRAMES, "{}", trace.groups.len());
    assert!(trace.effects.len() <= 4 * MOST_FRAMES);
}

#[test]
fn what_long_packets_become_is_bounded_in_bytes() {
    let mut bench = Bench::new(Version::V13);
    // Each goes by three ports.
    let all = Action::output(PortNumber::ALL);
    let out = bench.done(&packet_out(vec![all; 1000], 40_000));
    assert!(!out.frames.is_empty() && bytes(&out) <= MOST_BYTES, "{}", bytes(&out));
    let buckets = vec![Bucket::new(0, vec![Action::output(PortNumber(2))]); 2000];
    bench.done(&group(1, GroupType::All, buckets));
    let out = bench.done(&packet_out(vec![Action::Group(1)], 60_000));
    assert!(!out.frames.is_empty() && bytes(&out) <= MOST_BYTES, "{}", bytes(&out));
}

#[test]
fn a_flood_reaches_all_ports_of_a_large_switch() {
    let mut bench = Bench::new(Version::V13);
    for number in 5..=1000 {
        bench.switch.set_port(super::bench::port(number), &[], bench.now, &mut Outputs::default());
    }
    let out = bench.done(&packet_out(vec![Action::output(PortNumber::ALL)], 9000));
    assert_eq!(out.frames.len(), 1000);
}

/// A packet-out through the tables, again and again.
#[test]
fn ways_through_the_tables_are_bounded() {
    let mut bench = Bench::with(Version::V13, Options::default());
    for table in 0..253 {
        let goes_on = vec![Instruction::GotoTable(table + 1)];
        bench.done(&Message::FlowMod(FlowMod { table, ..flow(1, &[], goes_on) }));
    }
    bench.done(&packet_out(vec![Action::output(PortNumber::TABLE); 4000], 60));
    let Message::MultipartReply(told) = &bench.say(CONTROLLER, &tables())[0] else { panic!() };
    let Reply::Table(all) = &told.body else { panic!("{told:?}") };
    let lookups: u64 = all.iter().map(|table| table.lookups).sum();
    assert!(lookups > 254 && lookups <= 16_384, "{lookups}");
}

/// Whether a bucket lives is a question that groups answer for each other, in as many ways as there are paths.
#[test]
fn groups_that_watch_each_other_are_looked_at_once() {
    let mut bench = Bench::new(Version::V13);
    let watches_port = |port| Bucket { watch_port: PortNumber(port), ..watching(GROUP_ANY) };
    bench.done(&group(1, GroupType::FastFailover, vec![watches_port(99)]));
    for number in 2..64 {
        let buckets = vec![watching(number - 1), watching(number - 1)];
        bench.done(&group(number, GroupType::FastFailover, buckets));
    }
    let to = |number| vec![Action::Group(number)];
    assert_eq!(bench.done(&packet_out(to(63), 60)).frames, []);
    // One that is alive at the end of the chain makes all of them so.
    let live = Bucket { actions: vec![Action::output(PortNumber(2))], ..watching(63) };
    bench.done(&group(64, GroupType::FastFailover, vec![live]));
    assert_eq!(bench.done(&packet_out(to(64), 60)).frames, []);
    let alive = vec![watches_port(3)];
    bench.done(&group_mod(GroupCommand::Modify, 1, GroupType::FastFailover, alive));
    assert_eq!(bench.done(&packet_out(to(64), 60)).frames.len(), 1);
    // In a circle, too.
    let circle = vec![watching(63), watching(64), watching(1)];
    bench.done(&group_mod(GroupCommand::Modify, 1, GroupType::FastFailover, circle));
    assert_eq!(bench.done(&packet_out(to(64), 60)).frames, []);
}

#[test]
fn a_long_chain_of_watching_costs_one_packet_no_more_than_others() {
    let mut bench = Bench::new(Version::V13);
    for number in 1..20_000 {
        bench.done(&group(number, GroupType::Select, vec![watching(number.max(2) - 1)]));
    }
    let instructions = vec![Instruction::ApplyActions(vec![Action::Group(19_999); 100])];
    bench.done(&Message::FlowMod(flow(1, &[], instructions)));
    let (trace, _) = bench.frame(1, &tcp4(1, 2));
    assert!(trace.asked.len() <= MOST_FRAMES, "{}", trace.asked.len());
}

#[test]
fn a_search_for_circles_is_bounded() {
    let mut bench = Bench::new(Version::V13);
    bench.done(&group(1, GroupType::All, vec![]));
    // Each goes through all before it.
    for number in 2..=600 {
        let buckets = (1..number).map(through).collect();
        bench.done(&group(number, GroupType::All, buckets));
    }
    let modify = |number, to: u32| {
        group_mod(GroupCommand::Modify, number, GroupType::All, vec![through(to)])
    };
    assert_eq!(bench.refused(&modify(1, 600)), Some(Reason::GroupModFailedChainingUnsupported));
    assert_eq!(bench.refused(&modify(500, 100)), None);
    assert_eq!(bench.refused(&modify(100, 200)), Some(Reason::GroupModFailedLoop));
}
