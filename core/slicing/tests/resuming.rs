//! A slicer that ends and another one that goes on: what slices have stays, and what is nobody's goes.

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::GroupCommand;
use netloom_openflow::meter::MeterCommand;
use netloom_openflow::multipart::{FlowRequest, FlowStats, MultipartRequest};
use netloom_openflow::{Match, Message, Reply, Request, Version, text};
use netloom_slicing::{Error, Memory, Quota, Slice, SliceId};

use crate::integration::lab::{A, B, Lab, SECOND, at, frame, slice, tagged, with_quota};

fn discovering(slices: Vec<Slice>) -> Vec<Slice> {
    slices.into_iter().map(|slice| Slice { lldp: true, ..slice }).collect()
}

fn two() -> Vec<Slice> {
    discovering(vec![slice("red", vec![at(&[1, 2])]), slice("blue", vec![at(&[3, 4])])])
}

/// The entries of the switch, each with the number that it has there: one that was recreated has another.
fn entries(lab: &Lab) -> Vec<u64> {
    let mut all: Vec<u64> = lab.switch.rules().map(|rule| rule.id.number).collect();
    all.sort_unstable();
    all
}

fn flows(lab: &mut Lab, whose: SliceId) -> Vec<FlowStats> {
    let matching = match lab.version {
        Version::V10 => Match::V10(Match::default().to_10().0),
        Version::V13 => Match::default(),
    };
    let body = Request::Flow(FlowRequest::new(matching));
    let request = Message::MultipartRequest(MultipartRequest { flags: 0, body });
    match &lab.ask(whose, request)[..] {
        [Message::MultipartReply(reply)] => match &reply.body {
            Reply::Flow(flows) => flows.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn rules_that_are_there_stay_untouched_and_are_their_controllers_again() {
    for version in [Version::V10, Version::V13] {
        let mut lab = Lab::new(version, two());
        lab.add(A, "cookie=7,priority=3,actions=flood");
        lab.add(A, "in_port=1,idle_timeout=60,actions=output:2");
        lab.add(B, "in_port=2,actions=output:1");
        lab.ports(1, &frame("ip"));
        let before = (entries(&lab), flows(&mut lab, A), flows(&mut lab, B));
        let resumed = lab.restart(two()).unwrap();
        assert_eq!((resumed.rules, resumed.lost), (3, 0), "{version}");
        assert_eq!((resumed.made, resumed.removed), (0, 0), "{version}: {resumed:?}");
        assert!(lab.refused.is_empty(), "{:?}", lab.refused);
        let after = (entries(&lab), flows(&mut lab, A), flows(&mut lab, B));
        assert_eq!(before, after, "{version}");
        assert_eq!(lab.ports(4, &frame("ip")), [3]);
        // Deletes are about them, and their entries go.
        let change = lab.flow(FlowCommand::Delete, "");
        assert_eq!(lab.ask(A, change), []);
        assert_eq!((flows(&mut lab, A).len(), lab.entries()), (0, 1));
        assert_eq!(lab.slicer.counters(B).rules, 1);
        // And again: numbers are not given twice.
        lab.add(A, "actions=output:1");
        let resumed = lab.restart(two()).unwrap();
        assert_eq!((resumed.rules, resumed.made, resumed.removed), (2, 0, 0));
    }
}

#[test]
fn a_slice_that_is_gone_takes_its_rules_with_it_and_the_others_keep_theirs() {
    let three = discovering(vec![
        slice("red", vec![at(&[1])]),
        slice("grey", vec![at(&[2])]),
        slice("blue", vec![at(&[3, 4])]),
    ]);
    let mut lab = Lab::new(Version::V13, three.clone());
    for id in 0..3 {
        lab.add(SliceId(id), "table=1,actions=flood");
        lab.add(SliceId(id), "actions=goto_table:1");
    }
    let blue = SliceId(2);
    let datapath = lab.slicer.datapath_id(blue);
    let resumed = lab.restart(vec![three[0].clone(), three[2].clone()]).unwrap();
    // One entry in each table.
    assert_eq!((resumed.rules, resumed.lost, resumed.removed, resumed.made), (4, 2, 4, 0));
    assert_eq!(lab.slicer.slicing().find("blue"), Some(blue));
    assert_eq!(lab.slicer.datapath_id(blue), datapath);
    assert_eq!(lab.ports(3, &frame("ip")), [4]);
    assert_eq!(lab.ports(2, &frame("ip")), Vec::<u32>::new());
    // A new slice gets the number that is free, and nothing of the old one.
    let four = [three, discovering(vec![slice("new", vec![tagged(&[2], 9)])])].concat();
    lab.restart([&four[..1], &four[2..]].concat()).unwrap();
    assert_eq!(lab.slicer.slicing().find("new"), Some(SliceId(1)));
    assert!(flows(&mut lab, SliceId(1)).is_empty());
    assert_eq!(lab.ports(3, &frame("ip")), [4]);
}

#[test]
fn rules_are_proved_by_the_slices_as_they_are_now() {
    let mut lab = Lab::new(Version::V13, two());
    lab.add(A, "in_port=1,actions=output:2");
    lab.add(A, "in_port=2,actions=output:1");
    lab.add(B, "actions=flood");
    // Port 2 is blue's now: red may not send there, and has no packets from there.
    let moved =
        discovering(vec![slice("red", vec![at(&[1])]), slice("blue", vec![at(&[2, 3, 4])])]);
    let resumed = lab.restart(moved).unwrap();
    assert_eq!((resumed.rules, resumed.lost), (1, 2), "{resumed:?}");
    assert_eq!(lab.ports(1, &frame("ip")), Vec::<u32>::new());
    assert_eq!(lab.ports(3, &frame("ip")), [2, 4]);
    // Ports that were there before have the numbers that they had.
    let seen: Vec<_> =
        lab.slicer.ports(B).iter().map(|(seen, port)| (seen.0, port.number.0)).collect();
    assert_eq!(seen, [(1, 3), (2, 4), (3, 2)]);
}

#[test]
fn what_is_missing_is_made_and_what_is_nobody_s_removed() {
    let mut lab = Lab::new(Version::V13, two());
    lab.add(A, "in_port=1,actions=output:2");
    lab.add(A, "in_port=2,idle_timeout=5,actions=output:1");
    lab.add(B, "in_port=1,actions=output:2");
    // While nobody looks: one entry is removed, one expires, one is changed, and one comes.
    let memory = lab.memory.clone();
    for (command, said) in [
        (FlowCommand::Delete, "in_port=1"),
        (FlowCommand::Delete, "in_port=2"),
        (FlowCommand::ModifyStrict, "in_port=3,actions=output:1"),
        (FlowCommand::Add, "in_port=3,priority=7,actions=output:1"),
    ] {
        let change = lab.flow(command, said);
        lab.by_the_way(&change);
    }
    lab.memory = memory;
    let resumed = lab.restart(two()).unwrap();
    assert_eq!((resumed.rules, resumed.lost, resumed.removed), (2, 1, 1), "{resumed:?}");
    assert_eq!((lab.ports(1, &frame("ip")), lab.ports(3, &frame("ip"))), (vec![2], vec![4]));
    assert_eq!(lab.ports(2, &frame("ip")), Vec::<u32>::new());
    assert_eq!(flows(&mut lab, A).len(), 1);
}

#[test]
fn groups_and_meters_are_as_they_were() {
    let quota = Quota { kilobits: Some(1000), ..Quota::default() };
    let slices = || {
        let red = with_quota(slice("red", vec![at(&[1, 2])]), quota);
        discovering(vec![red, slice("blue", vec![at(&[3, 4])])])
    };
    let mut lab = Lab::new(Version::V13, slices());
    let group = |command, said| Message::GroupMod(text::group(command, said).unwrap());
    let meter = |said| Message::MeterMod(text::meter(MeterCommand::Add, said).unwrap());
    for whose in [A, B] {
        let add = group(GroupCommand::Add, "group_id=1,type=all,bucket=actions=output:2");
        assert_eq!(lab.ask(whose, add), []);
        lab.add(whose, "in_port=1,actions=group:1");
    }
    assert_eq!(lab.ask(B, meter("meter=1,kbps,band=type=drop,rate=100")), []);
    lab.add(B, "in_port=2,actions=meter:1,output:1");
    let before = entries(&lab);
    let resumed = lab.restart(slices()).unwrap();
    assert_eq!((resumed.made, resumed.removed, entries(&lab)), (0, 0, before));
    assert_eq!((lab.ports(1, &frame("ip")), lab.ports(3, &frame("ip"))), (vec![2], vec![4]));
    let again = group(GroupCommand::Add, "group_id=1,type=all,bucket=actions=output:2");
    assert_eq!(lab.refused(A, again).reason, netloom_openflow::Reason::GroupModFailedGroupExists);
    // A new group does not take another's number.
    let add = group(GroupCommand::Add, "group_id=2,type=all,bucket=actions=output:1");
    assert_eq!(lab.ask(A, add), []);
    let meters = lab.switch.meters().count();
    // Without its rate and without blue, their meters go, and with them no rule of red.
    lab.restart(discovering(vec![slice("red", vec![at(&[1, 2])])])).unwrap();
    assert_eq!((meters, lab.switch.meters().count(), lab.switch.groups().count()), (2, 0, 2));
    assert_eq!(lab.ports(1, &frame("ip")), [2]);
}

#[test]
fn what_cannot_be_trusted_is_not() {
    let mut lab = Lab::new(Version::V13, two());
    lab.add(A, "actions=flood");
    let all = lab.flow(FlowCommand::Delete, "");
    lab.by_the_way(&all);
    assert!(matches!(lab.restart(two()), Err(Error::Memory(_))), "the switch is empty");
    // Any cut is read as what was there before, any changed byte is noticed.
    let whole = lab.memory.clone();
    for end in 0..whole.len() {
        Memory::read(&whole[..end]).expect("a beginning");
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x40;
        let read = Memory::read(&changed);
        assert!(read.is_err() || read.ok() != Memory::read(&whole).ok(), "{at}");
    }
}

#[test]
fn timeouts_go_on_from_where_they_were() {
    let mut lab = Lab::new(Version::V13, two());
    lab.add(A, "hard_timeout=10,send_flow_rem,actions=output:2");
    lab.wait(4 * SECOND);
    lab.restart(two()).unwrap();
    assert_eq!(flows(&mut lab, A)[0].duration.seconds, 4);
    lab.wait(7 * SECOND);
    let removed = lab.told(A);
    let [Message::FlowRemoved(removed)] = &removed[..] else { panic!("{removed:?}") };
    assert_eq!((removed.duration.seconds, lab.entries()), (11, 0));
}
