//! Messages about many entries are done some at a time, within bounds of memory.

use std::collections::BTreeSet;

use netloom_openflow::action::GROUP_ALL;
use netloom_openflow::flow::{FlowCommand, FlowFlags};
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::meter::{Band, BandKind, METER_ALL, MeterCommand, MeterFlags};
use netloom_openflow::multipart::{FlowRequest, FlowStats, MORE};
use netloom_openflow::{
    Action, Bucket, Field, FlowMod, GroupMod, Instruction, Match, Message, MeterMod,
    MultipartReply, MultipartRequest, Oxm, PortNumber, Reason, Reply, Request, Version, encode,
};
use netloom_pipeline::{ConnectionId, Options, Outputs, ReadMessage, Work};

use super::bench::{Bench, CONTROLLER, messages};
use super::tables::{flow, output};

/// Entries of a test, which are many.
const MANY: u16 = 2000;

/// Steps of a part: some of the entries.
const STEPS: u64 = 2000;

/// Another connection.
const OTHER: ConnectionId = ConnectionId(2);

fn entry(priority: u16, instructions: Vec<Instruction>) -> Message {
    Message::FlowMod(flow(priority, &[], instructions))
}

fn filled(options: Options) -> Bench {
    let mut bench = Bench::with(Version::V13, Options { tables: 4, ..options });
    bench.connect(OTHER);
    for priority in 0..MANY {
        bench.done(&entry(priority, output(2)));
    }
    bench
}

fn of_all(command: FlowCommand) -> FlowMod {
    FlowMod::new(command, Match::Oxm(vec![]))
}

fn ask(body: Request) -> Message {
    Message::MultipartRequest(MultipartRequest { flags: 0, body })
}

fn all_flows() -> FlowRequest {
    FlowRequest::new(Match::Oxm(vec![]))
}

/// A message is read, and no more.
fn begin(bench: &mut Bench, message: &Message) -> Outputs {
    let bytes = encode(Version::V13, 7, message).unwrap();
    let mut out = Outputs::default();
    bench.switch.read_message(CONTROLLER, ReadMessage::of(&bytes), bench.now, &mut out);
    out
}

/// One part of what a message asked for; what changes was said before.
fn proceed(bench: &mut Bench, out: &mut Outputs) {
    let before: BTreeSet<u64> = bench.switch.rules().map(|rule| rule.id.number).collect();
    let generation = bench.switch.generation();
    let affected = bench.switch.affected_next(CONTROLLER, &mut Work::steps(STEPS));
    bench.switch.proceed(CONTROLLER, &mut Work::steps(STEPS), bench.now, out);
    let after: BTreeSet<u64> = bench.switch.rules().map(|rule| rule.id.number).collect();
    let changed = bench.switch.generation() - generation;
    assert!(changed <= affected.steps() && (before == after || changed > 0));
}

/// Goes on to the end; returns in how many parts.
fn rest(bench: &mut Bench, out: &mut Outputs) -> usize {
    let mut parts = 0;
    while bench.switch.is_busy(CONTROLLER) {
        proceed(bench, out);
        parts += 1;
    }
    parts
}

fn told(out: &Outputs) -> (Vec<FlowStats>, usize) {
    let mut all = vec![];
    let parts = messages(out, CONTROLLER);
    for (at, part) in parts.iter().enumerate() {
        let Message::MultipartReply(MultipartReply { flags, body: Reply::Flow(flows) }) = part
        else {
            panic!("{part:?}");
        };
        assert_eq!(flags & MORE != 0, at + 1 < parts.len());
        all.extend(flows.clone());
    }
    (all, parts.len())
}

#[test]
fn a_deletion_leaves_others_their_turn_and_what_comes_later() {
    let mut bench = filled(Options::default());
    let mut out = begin(&mut bench, &Message::FlowMod(of_all(FlowCommand::Delete)));
    assert!(bench.switch.is_busy(CONTROLLER) && !bench.switch.is_busy(OTHER));
    proceed(&mut bench, &mut out);
    let left = bench.switch.entries();
    assert!(left > 0 && left < u64::from(MANY), "{left}");
    // Another connection is answered, and its entry stays though its place is behind.
    assert!(matches!(bench.say(OTHER, &Message::BarrierRequest)[..], [Message::BarrierReply]));
    let late = FlowMod { table: 3, ..flow(9, &[], output(3)) };
    assert!(bench.say(OTHER, &Message::FlowMod(late)).is_empty());
    assert!(rest(&mut bench, &mut out) > 3);
    let left: Vec<_> = bench.switch.rules().map(|rule| (rule.id.table, rule.priority)).collect();
    assert_eq!(left, [(3, 9)]);
    assert_eq!(bench.switch.unfinished().count(), 0);
}

#[test]
fn entries_are_told_in_parts_and_each_once() {
    let mut bench = filled(Options::default());
    let mut out = begin(&mut bench, &ask(Request::Flow(all_flows())));
    assert!(bench.switch.is_busy(CONTROLLER));
    bench.say(OTHER, &Message::FlowMod(FlowMod { table: 3, ..flow(9, &[], output(3)) }));
    assert!(rest(&mut bench, &mut out) > 3);
    let (all, parts) = told(&out);
    let priorities: BTreeSet<u16> = all.iter().map(|one| one.priority).collect();
    assert_eq!((all.len(), priorities.len()), (usize::from(MANY), usize::from(MANY)));
    assert!(parts > 3, "{parts}");
    // A request about no entry is answered by an empty part, and sums by one.
    let none = FlowRequest { cookie: 1, cookie_mask: 1, ..all_flows() };
    let mut out = begin(&mut bench, &ask(Request::Flow(none)));
    rest(&mut bench, &mut out);
    assert_eq!(told(&out), (vec![], 1));
    let mut out = begin(&mut bench, &ask(Request::Aggregate(all_flows())));
    rest(&mut bench, &mut out);
    match &messages(&out, CONTROLLER)[..] {
        [Message::MultipartReply(MultipartReply { flags: 0, body: Reply::Aggregate(sums) })] => {
            assert_eq!(sums.flows, u32::from(MANY) + 1);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_modification_for_which_there_is_no_memory_changes_nothing() {
    let mut bench = filled(Options { memory: 4 << 20, ..Options::default() });
    let before = bench.switch.bytes();
    let long = vec![Instruction::ApplyActions(vec![Action::DecNwTtl; 500])];
    let change = FlowMod { instructions: long, ..of_all(FlowCommand::Modify) };
    let mut out = begin(&mut bench, &Message::FlowMod(change));
    rest(&mut bench, &mut out);
    match &messages(&out, CONTROLLER)[..] {
        [Message::Error(error)] => {
            assert_eq!(error.reason(Version::V13), Some(Reason::FlowModFailedTableFull));
            assert_eq!(error.data.len(), 64);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.switch.bytes(), before);
    assert!(bench.switch.rules().all(|rule| rule.said == output(2)));
    // One that fits changes all.
    let change = FlowMod { instructions: output(3), ..of_all(FlowCommand::Modify) };
    let mut out = begin(&mut bench, &Message::FlowMod(change));
    assert!(rest(&mut bench, &mut out) > 3);
    assert!(bench.switch.rules().all(|rule| rule.said == output(3)));
    assert_eq!(bench.switch.bytes(), before);
}

fn group(number: u32, buckets: usize) -> Message {
    let bucket = Bucket::new(0, vec![Action::output(PortNumber(2))]);
    Message::GroupMod(GroupMod {
        command: GroupCommand::Add,
        kind: GroupType::All,
        group: number,
        buckets: vec![bucket; buckets],
    })
}

fn meter(command: MeterCommand, number: u32) -> Message {
    let band = Band { kind: BandKind::Drop, rate: 1000, burst: 0 };
    let bands = if command == MeterCommand::Add { vec![band; 16] } else { vec![] };
    Message::MeterMod(MeterMod { command, flags: MeterFlags::KBPS, meter: number, bands })
}

#[test]
fn entries_groups_and_meters_share_their_memory_and_return_it() {
    let options = Options { memory: 1 << 20, tables: 4, ..Options::default() };
    let mut bench = Bench::with(Version::V13, options);
    let full = |bench: &mut Bench, one: &dyn Fn(u32) -> Message| {
        (1..5000).find_map(|number| Some((number, bench.refused(&one(number))?))).unwrap()
    };
    let (groups, why) = full(&mut bench, &|number| group(number, 100));
    assert_eq!(why, Reason::GroupModFailedOutOfGroups);
    assert!(groups > 10 && bench.switch.bytes() <= 1 << 20);
    bench.done(&Message::GroupMod(GroupMod {
        command: GroupCommand::Delete,
        kind: GroupType::All,
        group: GROUP_ALL,
        buckets: vec![],
    }));
    assert_eq!(bench.switch.bytes(), 0);
    let (meters, why) = full(&mut bench, &|number| meter(MeterCommand::Add, number));
    assert_eq!(why, Reason::MeterModFailedOutOfMeters);
    assert!(meters > 100);
    bench.done(&meter(MeterCommand::Delete, METER_ALL));
    assert_eq!(bench.switch.bytes(), 0);
    let priority = |number: u32| u16::try_from(number).unwrap();
    let (entries, why) = full(&mut bench, &|number| entry(priority(number), output(2)));
    assert_eq!(why, Reason::FlowModFailedTableFull);
    // Another table shares the memory; one that replaces another needs none.
    let other = FlowMod { table: 2, ..flow(1, &[], output(2)) };
    assert_eq!(bench.refused(&Message::FlowMod(other)), Some(Reason::FlowModFailedTableFull));
    bench.done(&entry(1, output(3)));
    assert_eq!(bench.switch.entries(), u64::from(entries) - 1);
    bench.done(&Message::FlowMod(of_all(FlowCommand::Delete)));
    assert_eq!((bench.switch.entries(), bench.switch.bytes()), (0, 0));
}

#[test]
fn entries_that_use_a_group_or_a_meter_go_with_it_however_many() {
    let mut bench = filled(Options::default());
    bench.done(&group(5, 1));
    bench.done(&meter(MeterCommand::Add, 6));
    let through = vec![Instruction::ApplyActions(vec![Action::Group(5)])];
    let metered = vec![Instruction::Meter(6)];
    for priority in 0..MANY / 2 {
        bench.done(&entry(priority, through.clone()));
        bench.done(&Message::FlowMod(FlowMod { table: 1, ..flow(priority, &[], metered.clone()) }));
    }
    let references = |bench: &mut Bench| {
        let groups = bench.say(CONTROLLER, &ask(Request::GroupStats(5)));
        let meters = bench.say(CONTROLLER, &ask(Request::MeterStats(6)));
        let (Message::MultipartReply(groups), Message::MultipartReply(meters)) =
            (&groups[0], &meters[0])
        else {
            panic!("{groups:?} {meters:?}");
        };
        match (&groups.body, &meters.body) {
            (Reply::GroupStats(groups), Reply::MeterStats(meters)) => {
                (groups[0].references, meters[0].flows)
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(references(&mut bench), (u32::from(MANY / 2), u32::from(MANY / 2)));
    let gone =
        GroupMod { command: GroupCommand::Delete, kind: GroupType::All, group: 5, buckets: vec![] };
    let mut out = begin(&mut bench, &Message::GroupMod(gone));
    assert!(rest(&mut bench, &mut out) > 1);
    let uses = |rule: &netloom_pipeline::Rule| rule.said == through;
    assert!(!bench.switch.rules().any(uses));
    assert_eq!(bench.switch.entries(), u64::from(MANY));
    let mut out = begin(&mut bench, &meter(MeterCommand::Delete, 6));
    assert!(rest(&mut bench, &mut out) > 1);
    assert_eq!(bench.switch.entries(), u64::from(MANY / 2));
}

#[test]
fn what_one_that_is_gone_has_ordered_is_done() {
    let mut bench = filled(Options::default());
    begin(&mut bench, &Message::FlowMod(of_all(FlowCommand::Delete)));
    bench.switch.disconnect(CONTROLLER, &mut Outputs::default());
    assert!(bench.switch.is_busy(CONTROLLER));
    rest(&mut bench, &mut Outputs::default());
    assert_eq!(bench.switch.entries(), 0);
    // An answer for nobody is not made.
    let mut bench = filled(Options::default());
    begin(&mut bench, &ask(Request::Flow(all_flows())));
    bench.switch.disconnect(CONTROLLER, &mut Outputs::default());
    assert!(!bench.switch.is_busy(CONTROLLER));
    // Of very many that go, the last are not kept.
    for number in 100..500 {
        bench.connect(ConnectionId(number));
        let delete = FlowMod { table: 2, ..of_all(FlowCommand::Delete) };
        let bytes = encode(Version::V13, 7, &Message::FlowMod(delete)).unwrap();
        let (id, now) = (ConnectionId(number), bench.now);
        bench.switch.read_message(id, ReadMessage::of(&bytes), now, &mut Outputs::default());
        bench.switch.disconnect(id, &mut Outputs::default());
    }
    assert!(bench.switch.unfinished().count() < 260);
}

#[test]
fn entries_that_expire_together_go_some_at_a_time() {
    let mut bench = Bench::new(Version::V13);
    for priority in 0..MANY {
        let flags = FlowFlags::SEND_FLOW_REM;
        let change = FlowMod { hard_timeout: 1, flags, ..flow(priority, &[], output(2)) };
        bench.done(&Message::FlowMod(change));
    }
    let mut gone = messages(&bench.pass(2), CONTROLLER).len();
    assert!(gone > 0 && gone < usize::from(MANY), "{gone}");
    let mut turns = 1;
    while bench.switch.deadline().is_some_and(|at| at <= bench.now) {
        gone += messages(&bench.pass(0), CONTROLLER).len();
        turns += 1;
    }
    assert_eq!((gone, bench.switch.entries()), (usize::from(MANY), 0));
    assert!(turns > 3, "{turns}");
}

/// Masks and chains of one key make a removal long, whatever the order.
#[test]
fn entries_of_many_masks_and_priorities_are_found_and_removed() {
    let mut bench = Bench::new(Version::V13);
    let masked = |mask: u128| vec![Oxm::masked(Field::EthDst, mask, mask)];
    for number in 1..=1000_u16 {
        let priority = number % 7;
        let fields = masked(u128::from(number));
        bench.done(&Message::FlowMod(flow(priority, &fields, output(2))));
        bench.done(&Message::FlowMod(flow(number, &[], output(3))));
    }
    let mut out = begin(&mut bench, &Message::FlowMod(of_all(FlowCommand::Delete)));
    assert!(rest(&mut bench, &mut out) > 10);
    assert_eq!((bench.switch.entries(), bench.switch.bytes()), (0, 0));
    // The table is as good as new.
    bench.done(&entry(1, output(2)));
    assert_eq!(bench.ports(1, &super::frames::tcp4(1, 2)), [2]);
}

#[test]
fn parts_of_requests_that_are_never_whole_are_bounded() {
    let mut bench = Bench::new(Version::V13);
    let mut some = bench.switch.table_features();
    some.truncate(1);
    let part = MultipartRequest { flags: MORE, body: Request::TableFeatures(some) };
    let part = Message::MultipartRequest(part);
    let length = encode(Version::V13, 7, &part).unwrap().len();
    let mut taken = 0;
    for number in 10..30 {
        bench.connect(ConnectionId(number));
        for _ in 0..(1 << 20) / length {
            match &bench.say(ConnectionId(number), &part)[..] {
                [] => taken += length,
                [Message::Error(error)] => {
                    let reason = error.reason(Version::V13);
                    assert_eq!(reason, Some(Reason::BadRequestMultipartBufferOverflow));
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(taken <= 5 << 20, "{taken}");
    // One that comes whole is answered still.
    let whole = ask(Request::TableFeatures(vec![]));
    assert!(matches!(bench.say(CONTROLLER, &whole)[..], [Message::MultipartReply(_), ..]));
}

/// How many groups and meters a switch tells of.
fn kept(bench: &mut Bench) -> usize {
    [Request::GroupDesc, Request::MeterConfig(METER_ALL)]
        .into_iter()
        .flat_map(|body| bench.say(OTHER, &ask(body)))
        .map(|answer| match answer {
            Message::MultipartReply(MultipartReply { body: Reply::GroupDesc(all), .. }) => {
                all.len()
            }
            Message::MultipartReply(MultipartReply { body: Reply::MeterConfig(all), .. }) => {
                all.len()
            }
            other => panic!("{other:?}"),
        })
        .sum()
}

#[test]
fn all_groups_and_meters_are_gone_at_once_and_their_memory_in_parts() {
    let mut bench = Bench::new(Version::V13);
    bench.connect(OTHER);
    let before = bench.switch.bytes();
    let group = |command, group, through| {
        let buckets = vec![Bucket::new(0, vec![Action::Group(through)])];
        Message::GroupMod(GroupMod { command, kind: GroupType::All, group, buckets })
    };
    let meter = |command, meter| {
        let bands = vec![Band { rate: 1, burst: 0, kind: BandKind::Drop }];
        Message::MeterMod(MeterMod { command, flags: MeterFlags::KBPS, meter, bands })
    };
    let leaf = GroupMod { buckets: vec![], ..group_of(&group(GroupCommand::Add, 1, 1)) };
    bench.done(&Message::GroupMod(leaf.clone()));
    for number in 2..=u32::from(MANY) {
        bench.done(&group(GroupCommand::Add, number, 1));
        bench.done(&meter(MeterCommand::Add, number));
    }
    for delete in
        [group(GroupCommand::Delete, GROUP_ALL, 1), meter(MeterCommand::Delete, METER_ALL)]
    {
        let (had, there) = (bench.switch.bytes(), kept(&mut bench));
        begin(&mut bench, &delete);
        assert!(bench.switch.is_busy(CONTROLLER));
        assert!(kept(&mut bench) < there / 2 + 2, "{delete:?}");
        // What another one makes meanwhile stays, and is bound by nothing that was before.
        if matches!(delete, Message::GroupMod(_)) {
            assert_eq!(bench.say(OTHER, &Message::GroupMod(leaf.clone())), []);
            let one = GroupMod { command: GroupCommand::Delete, ..leaf.clone() };
            assert_eq!(bench.say(OTHER, &Message::GroupMod(one)), []);
        }
        let mut parts = 0;
        while bench.switch.is_busy(CONTROLLER) {
            let mut work = Work::steps(STEPS);
            bench.switch.affected_next(CONTROLLER, &mut work);
            bench.switch.proceed(CONTROLLER, &mut work, bench.now, &mut Outputs::default());
            parts += 1;
        }
        assert!(parts > 10, "{parts}");
        assert!(bench.switch.bytes() < had);
    }
    assert_eq!((bench.switch.bytes(), kept(&mut bench)), (before, 0));
}

fn group_of(message: &Message) -> GroupMod {
    let Message::GroupMod(group) = message else { panic!("{message:?}") };
    group.clone()
}

#[test]
fn groups_are_counted_by_kind_and_not_one_by_one() {
    let most = 20_000;
    let mut bench = Bench::with(Version::V13, Options { max_groups: most, ..Options::default() });
    let group = |command, kind, group| {
        let buckets = vec![Bucket::new(0, vec![])];
        Message::GroupMod(GroupMod { command, kind, group, buckets })
    };
    let (all, select) = (GroupType::All, GroupType::Select);
    let begun = std::time::Instant::now();
    for number in 1..=most {
        bench.done(&group(GroupCommand::Add, all, number));
    }
    // Looked at one by one they take some 200,000,000 looks.
    println!("{most} groups in {:?}", begun.elapsed());
    let full = Some(Reason::GroupModFailedOutOfGroups);
    assert_eq!(bench.refused(&group(GroupCommand::Add, all, most + 1)), full);
    bench.done(&group(GroupCommand::Add, select, most + 1));
    bench.done(&group(GroupCommand::Modify, all, 1));
    assert_eq!(bench.refused(&group(GroupCommand::Modify, all, most + 1)), full);
    bench.done(&group(GroupCommand::Modify, select, 1));
    bench.done(&group(GroupCommand::Modify, all, most + 1));
    assert_eq!(bench.refused(&group(GroupCommand::Add, all, most + 2)), full);
    bench.done(&group(GroupCommand::Delete, all, 2));
    bench.done(&group(GroupCommand::Add, all, most + 2));
    bench.done(&group(GroupCommand::Delete, all, GROUP_ALL));
    bench.done(&group(GroupCommand::Add, all, 1));
}
