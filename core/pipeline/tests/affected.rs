//! Results that are kept over changes which are said not to be about them are what the tables say afterwards.

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::port::PortState;
use netloom_openflow::{
    Action, Bucket, Field, FlowMod, GroupMod, Instruction, Match, Message, Oxm, Port, PortNumber,
    Version, encode,
};
use netloom_pipeline::{ReadMessage, Trace};
use proptest::prelude::*;

use super::bench::{Bench, CONTROLLER, SECOND, port};
use super::cache::{doing, fields, frame};

/// A group of this number comes or changes: its kind, its buckets' ports and what they watch.
fn regroup(number: u32, kind: usize, port: u32) -> Message {
    let kinds = [GroupType::All, GroupType::Select, GroupType::FastFailover];
    let kind_of = kinds[kind % 3];
    let bucket = |out: u32, watched: usize| {
        // No circles: only later groups are gone through.
        let actions = match watched {
            1 if number == 1 => vec![Action::Group(2)],
            _ => vec![Action::output(PortNumber(out))],
        };
        let select = kind_of == GroupType::Select;
        let bucket = Bucket::new(u16::from(select), actions);
        match (watched, kind_of) {
            (_, GroupType::All) => bucket,
            (0 | 1, _) => Bucket { watch_port: PortNumber(out), ..bucket },
            _ => Bucket { watch_group: 3 - number, ..bucket },
        }
    };
    Message::GroupMod(GroupMod {
        command: GroupCommand::Modify,
        kind: kind_of,
        group: number,
        buckets: vec![bucket(port, kind / 3), bucket(2 + port % 3, kind % 2)],
    })
}

/// A change of the tables: command, table, match, priority, what is done, idle and hard timeout.
type Changed = (usize, u8, Vec<Oxm>, u16, usize, u16, u16);

fn changed() -> impl Strategy<Value = Changed> {
    (0..12usize, 0..2u8, fields(), 0..4u16, 0..9usize, 0..9u16, 0..9u16)
}

/// As a message; those of 1.0 have no second table.
fn message(change: &Changed, version: Version) -> Message {
    let (command, table, fields, priority, kind, idle, hard) = change;
    if *command >= 10 && version == Version::V13 {
        let port = 2 + u32::from(*idle) % 3;
        return regroup(u32::from(*table) + 1, *kind, port);
    }
    let command = match command {
        0..6 => FlowCommand::Add,
        6 => FlowCommand::Modify,
        7 => FlowCommand::ModifyStrict,
        8 => FlowCommand::Delete,
        _ => FlowCommand::DeleteStrict,
    };
    let out = 2 + u32::try_from(*kind % 3).unwrap();
    let instructions = match (version, table) {
        (Version::V10, _) => vec![Instruction::ApplyActions(vec![Action::output(PortNumber(out))])],
        (Version::V13, 0) => doing(*kind, out),
        (Version::V13, _) => doing(0, out),
    };
    let matching = match version {
        Version::V10 => Match::V10(Match::Oxm(fields.clone()).to_10().0),
        Version::V13 => Match::Oxm(fields.clone()),
    };
    Message::FlowMod(FlowMod {
        table: if version == Version::V10 { 0 } else { *table },
        priority: *priority,
        instructions,
        // Few expire.
        idle_timeout: idle.saturating_sub(6),
        hard_timeout: hard.saturating_sub(6),
        ..FlowMod::new(command, matching)
    })
}

/// A port goes, comes, loses or gets its carrier.
fn disturb(bench: &mut Bench, number: u32, how: usize, kept: &mut Vec<Kept>) {
    let affected = bench.switch.affected_by_port(PortNumber(number));
    kept.retain(|kept| !affected.reaches(&kept.trace, &bench.switch));
    let before = bench.switch.generation();
    let mut out = Default::default();
    let state = if how == 1 { PortState::LINK_DOWN } else { PortState::default() };
    match how {
        0 => bench.switch.remove_port(PortNumber(number), &mut out),
        _ => bench.switch.set_port(Port { state, ..port(number) }, &[], bench.now, &mut out),
    }
    assert!(bench.switch.generation() - before <= affected.steps());
}

/// Facts about a result.
struct Kept {
    trace: Trace,
    frame: (u32, Vec<u8>),
}

/// The actions, the entries and buckets that count the packet, and where it ends.
fn outcome(trace: &Trace) -> impl PartialEq + std::fmt::Debug {
    let rules: Vec<_> = trace.steps.iter().map(|step| (step.table, step.rule)).collect();
    (rules, trace.effects.clone(), trace.groups.clone(), trace.drops.clone(), trace.growth.clone())
}

/// The frames that a kept result stands for are treated as it says.
fn holds(bench: &Bench, kept: &[Kept], frames: &[(u32, Vec<u8>)]) -> Result<(), TestCaseError> {
    let mut twin = bench.switch.twin();
    for (port, bytes) in frames {
        let mut out = Default::default();
        let now = twin.frame(PortNumber(*port), bytes, bench.now, &mut out);
        for Kept { trace, frame } in kept {
            if now.key.masked(&trace.consulted) == trace.key.masked(&trace.consulted) {
                prop_assert_eq!(outcome(&now), outcome(trace), "kept since {:?}", frame);
            }
        }
    }
    Ok(())
}

fn group(group: u32) -> Message {
    let bucket = |port| Bucket::new(1, vec![Action::output(PortNumber(port))]);
    Message::GroupMod(GroupMod {
        command: GroupCommand::Add,
        kind: GroupType::Select,
        group,
        buckets: vec![bucket(2), bucket(3)],
    })
}

fn try_all(
    version: Version,
    changes: &[Changed],
    frames: &[(u32, Vec<u8>)],
) -> Result<(), TestCaseError> {
    let mut bench = Bench::new(version);
    if version == Version::V13 {
        [1, 2].iter().for_each(|number| drop(bench.done(&group(*number))));
    }
    let mut kept: Vec<Kept> = vec![];
    let (first, later) = changes.split_at(changes.len() / 2);
    for change in first {
        // One that is not valid is refused.
        bench.refused(&message(change, version));
    }
    for change in later {
        for (port, bytes) in frames {
            let (trace, _) = bench.frame(*port, bytes);
            if trace.uncacheable.is_none() {
                kept.push(Kept { trace, frame: (*port, bytes.clone()) });
            }
        }
        let bytes = encode(version, 7, &message(change, version)).unwrap();
        let affected =
            bench.switch.affected_by(CONTROLLER, &ReadMessage::of(&bytes)).expect("a known change");
        kept.retain(|kept| !affected.reaches(&kept.trace, &bench.switch));
        let before = bench.switch.generation();
        bench.bytes(CONTROLLER, &bytes);
        prop_assert!(bench.switch.generation() - before <= affected.steps());
        holds(&bench, &kept, frames)?;
        let (_, _, _, priority, kind, idle, hard) = change;
        disturb(&mut bench, 1 + u32::from(*idle) % 4, usize::from(*hard) % 3, &mut kept);
        holds(&bench, &kept, frames)?;
        if kind + usize::from(*priority) < 4 {
            disturb(&mut bench, 1 + u32::from(*idle) % 4, 2, &mut kept);
            holds(&bench, &kept, frames)?;
        }
        // Half a second, after which some entries have expired.
        bench.now += SECOND / 2;
        let affected = bench.switch.affected_by_time(bench.now).expect("no addresses");
        kept.retain(|kept| !affected.reaches(&kept.trace, &bench.switch));
        let before = bench.switch.generation();
        bench.pass(0);
        prop_assert!(bench.switch.generation() - before <= affected.steps());
        holds(&bench, &kept, frames)?;
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_is_kept_over_changes_is_what_the_tables_say(
        changes in proptest::collection::vec(changed(), 2..24),
        frames in proptest::collection::vec(frame(), 2..16),
    ) {
        try_all(Version::V13, &changes, &frames)?;
        try_all(Version::V10, &changes, &frames)?;
    }
}

fn add(bench: &mut Bench, fields: Vec<Oxm>, priority: u16) -> bool {
    let (trace, _) = bench.frame(1, &super::frames::tcp4(1, 80));
    assert_eq!(trace.uncacheable, None);
    let actions = vec![Action::output(PortNumber(2))];
    let change = FlowMod {
        priority,
        instructions: vec![Instruction::ApplyActions(actions)],
        ..FlowMod::new(FlowCommand::Add, Match::Oxm(fields))
    };
    let bytes = encode(Version::V13, 7, &Message::FlowMod(change)).unwrap();
    let affected = bench.switch.affected_by(CONTROLLER, &ReadMessage::of(&bytes)).unwrap();
    let reached = affected.reaches(&trace, &bench.switch);
    bench.bytes(CONTROLLER, &bytes);
    reached
}

/// Entries for other packets, or that lose, concern no result; those that win, replace or change its entry do.
#[test]
fn only_what_a_change_is_about_is_given_up() {
    let mut bench = Bench::new(Version::V13);
    bench.done(&Message::FlowMod(FlowMod {
        priority: 1,
        instructions: doing(0, 3),
        ..FlowMod::new(FlowCommand::Add, Match::default())
    }));
    let port = |port: u128| vec![Oxm::exact(Field::InPort, port)];
    let host = |host| vec![Oxm::exact(Field::EthDst, host)];
    assert!(add(&mut bench, port(1), 5));
    assert!(!add(&mut bench, port(2), 9), "another port");
    assert!(add(&mut bench, port(1), 5), "in its place");
    assert!(!add(&mut bench, host(1), 4), "a lower priority");
    let from = vec![Oxm::exact(Field::EthSrc, 2)];
    assert!(!add(&mut bench, from, 5), "the one that came first wins");
    assert!(add(&mut bench, host(3), 9), "the address is not consulted yet");
    assert!(!add(&mut bench, host(4), 9), "it is consulted now, and another one");
    assert!(add(&mut bench, vec![], 10));
}

/// A group that a result did not go through decided which bucket of another one is live.
#[test]
fn a_group_that_is_watched_reaches_what_it_decided() {
    let mut bench = Bench::new(Version::V13);
    let failover = |command, group, buckets| {
        let kind = GroupType::FastFailover;
        Message::GroupMod(GroupMod { command, kind, group, buckets })
    };
    let bucket = |out| Bucket::new(0, vec![Action::output(PortNumber(out))]);
    let alive = Bucket { watch_port: PortNumber(2), ..bucket(2) };
    bench.done(&failover(GroupCommand::Add, 2, vec![alive.clone()]));
    let buckets = vec![Bucket { watch_group: 2, ..bucket(2) }, alive];
    bench.done(&failover(GroupCommand::Add, 1, buckets));
    bench.done(&Message::FlowMod(FlowMod {
        instructions: vec![Instruction::ApplyActions(vec![Action::Group(1)])],
        ..FlowMod::new(FlowCommand::Add, Match::default())
    }));
    let (trace, _) = bench.frame(1, &super::frames::tcp4(1, 80));
    assert_eq!((trace.groups.as_slice(), trace.uncacheable), (&[(1, 0)][..], None));
    let change = encode(Version::V13, 7, &failover(GroupCommand::Modify, 2, vec![])).unwrap();
    let affected = bench.switch.affected_by(CONTROLLER, &ReadMessage::of(&change)).unwrap();
    assert!(affected.reaches(&trace, &bench.switch));
    bench.bytes(CONTROLLER, &change);
    let (now, _) = bench.frame(1, &super::frames::tcp4(1, 80));
    assert_eq!(now.groups, [(1, 1)]);
}

/// The deletion of a group.
fn deletion(number: u32) -> Vec<u8> {
    let delete = match group(number) {
        Message::GroupMod(change) => GroupMod { command: GroupCommand::Delete, ..change },
        _ => panic!("no group"),
    };
    encode(Version::V13, 7, &Message::GroupMod(delete)).unwrap()
}

/// The deletion of a group concerns what goes through it, or through an entry that uses it; not others.
#[test]
fn a_group_that_goes_reaches_those_that_use_it() {
    let mut bench = Bench::new(Version::V13);
    [1, 2].iter().for_each(|number| drop(bench.done(&group(*number))));
    let entry = |port: u128, actions: Vec<Action>| {
        let matching = Match::Oxm(vec![Oxm::exact(Field::InPort, port)]);
        let instructions = vec![Instruction::WriteActions(actions)];
        Message::FlowMod(FlowMod { instructions, ..FlowMod::new(FlowCommand::Add, matching) })
    };
    bench.done(&entry(1, vec![Action::Group(1)]));
    bench.done(&entry(2, vec![Action::output(PortNumber(3))]));
    let [by_group, by_port] = [1, 2].map(|port| bench.frame(port, &super::frames::tcp4(1, 80)).0);
    for (number, reaches) in [(1, true), (2, false), (9, false)] {
        let bytes = deletion(number);
        let affected = bench.switch.affected_by(CONTROLLER, &ReadMessage::of(&bytes)).unwrap();
        assert_eq!(affected.reaches(&by_group, &bench.switch), reaches, "group {number}");
        assert!(!affected.reaches(&by_port, &bench.switch));
        let before = bench.switch.generation();
        bench.bytes(CONTROLLER, &bytes);
        assert!(bench.switch.generation() - before <= affected.steps());
    }
}

/// An unknown change may reach every result; an unreadable message reaches none.
#[test]
fn what_is_not_known_reaches_everything() {
    let bench = Bench::new(Version::V13);
    let bytes = deletion(netloom_openflow::action::GROUP_ALL);
    assert!(bench.switch.affected_by(CONTROLLER, &ReadMessage::of(&bytes)).is_none());
    let cut = bench.switch.affected_by(CONTROLLER, &ReadMessage::of(&bytes[..9]));
    assert_eq!(cut.map(|affected| affected.steps()), Some(0));
}
