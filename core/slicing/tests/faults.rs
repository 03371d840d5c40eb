//! The tests of isolation are tested: each fault planted into the proof is found by them.

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::{Action, Bucket, Field, GroupMod, Message, Oxm, PortNumber, Version, text};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use crate::fault::{Fault, plant};
use crate::integration::cases::{self, Case, Event};
use crate::integration::judge;
use crate::integration::lab::{A, B, frame};

/// Found by random cases.
const OFTEN: [Fault; 9] = [
    Fault::Others,
    Fault::Rewrite,
    Fault::Boundary,
    Fault::Ports,
    Fault::Narrow,
    Fault::Tag,
    Fault::Sets,
    Fault::PacketOuts,
    Fault::PacketIns,
];

/// Whether a case finds a fault.
fn finds(fault: Fault, case: &Case) -> bool {
    plant(Some(fault));
    let wrong = judge::strays(case)
        .and_then(|_| judge::influence(case, A))
        .and_then(|_| judge::influence(case, B));
    plant(None);
    wrong.is_err()
}

/// How many random cases it takes to find a fault.
fn found(fault: Fault) -> Option<usize> {
    let mut runner = TestRunner::deterministic();
    (0..1500).find(|number| {
        let version = if number % 3 == 0 { Version::V10 } else { Version::V13 };
        let case = cases::case(version).new_tree(&mut runner).unwrap().current();
        finds(fault, &case)
    })
}

#[test]
fn random_cases_find_planted_faults() {
    let all: Vec<_> = OFTEN.iter().map(|fault| (*fault, found(*fault))).collect();
    let missed: Vec<_> = all.iter().filter(|(_, cases)| cases.is_none()).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

fn rule(said: &str) -> Event {
    let change = text::flow(FlowCommand::Add, said, Version::V13).unwrap();
    Event::Said(A, Message::FlowMod(change))
}

fn case(meeting: usize, events: Vec<Event>) -> Case {
    Case { version: Version::V13, slices: cases::meetings()[meeting].clone(), events }
}

/// Faults that few packets show: each has its own.
#[test]
fn cases_made_for_it_find_a_planted_fault() {
    let set = Action::SetField(Oxm::exact(Field::VlanVid, 0x1014));
    let buckets = vec![Bucket::new(0, vec![set, Action::output(PortNumber(2))])];
    let (command, kind) = (GroupCommand::Add, GroupType::All);
    let group = Message::GroupMod(GroupMod { command, kind, group: 1, buckets });
    let groups = case(
        0,
        vec![
            Event::Said(A, group),
            rule("dl_vlan=10,actions=group:1"),
            Event::Frame(1, frame("dl_vlan=10")),
        ],
    );
    let mut twice = frame("tcp,dl_vlan=20");
    twice.splice(12..12, [0x81, 0, 0, 10]);
    let pop = case(
        1,
        vec![rule("in_port=2,dl_vlan=10,actions=pop_vlan,in_port"), Event::Frame(2, twice)],
    );
    let mut fragment = frame("tcp,tp_dst=80");
    fragment[20] |= 0x20;
    let certain = case(
        2,
        vec![
            rule("in_port=1,tcp,actions=set_field:90->tcp_dst,output:2"),
            Event::Frame(1, fragment),
        ],
    );
    for (fault, case) in [(Fault::Groups, groups), (Fault::Pop, pop), (Fault::Certain, certain)] {
        assert_eq!(judge::strays(&case), Ok(0), "{fault:?}");
        assert!(finds(fault, &case), "{fault:?}");
    }
}
