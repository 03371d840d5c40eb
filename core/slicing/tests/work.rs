//! What a slice asks for is done some at a time: counted in steps of work, so that it holds on any machine.

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::multipart::{Aggregate, FlowRequest, MORE, MultipartRequest};
use netloom_openflow::{
    Action, Bucket, Field, GroupMod, Match, Message, Oxm, PortNumber, Reason, Reply, Request,
    Version,
};
use netloom_slicing::{Out, Quota, Slice, SliceId, Space, Vlan, Work};

use crate::integration::lab::{A, B, Lab, at, slice, with_quota};

const V13: Version = Version::V13;

/// Steps of a turn.
const STEPS: u64 = 2000;

/// Two slices of many VLANs: a proof is about each of them.
fn many() -> Vec<Slice> {
    let vlans = |from, to| Some((from..to).map(Vlan::Id).collect());
    let red = Space { vlans: vlans(1, 801), ..at(&[1, 2]) };
    let blue = Space { vlans: vlans(1001, 1401), ..at(&[1, 2, 3, 4]) };
    vec![slice("red", vec![red]), slice("blue", vec![blue])]
}

/// Cubes of both, which the last part of a turn may look at.
const CUBES: u64 = 1600 + 1600;

fn group(number: u32, buckets: Vec<Bucket>) -> Message {
    let (command, kind) = (GroupCommand::Add, GroupType::All);
    Message::GroupMod(GroupMod { command, kind, group: number, buckets })
}

fn bucket(rewrites: &[(Field, u128)]) -> Bucket {
    let set = |(field, value): &(Field, u128)| Action::SetField(Oxm::exact(*field, *value));
    let actions = rewrites.iter().map(set).chain([Action::output(PortNumber(2))]);
    Bucket::new(0, actions.collect())
}

/// Sends a message, and goes on in turns; another slice is answered in each. Returns what follows, and the steps of all
/// turns.
fn in_turns(lab: &mut Lab, message: Message) -> (Vec<Out>, Vec<u64>) {
    let (now, mut work) = (lab.now, Work::steps(STEPS));
    let mut out = lab.slicer.begin_message(now, A, 77, message, &[], &mut work);
    let mut turns = vec![work.done()];
    loop {
        let next = lab.slicer.unfinished().next();
        let Some((slice, _)) = next else { break };
        assert_eq!(slice, A);
        assert!(lab.slicer.is_busy(A) && !lab.slicer.is_busy(B));
        let mut of_other = Work::steps(STEPS);
        let echo = Message::EchoRequest(vec![7]);
        let answer = lab.slicer.begin_message(now, B, 5, echo, &[], &mut of_other);
        let reply = Message::EchoReply(vec![7]);
        assert_eq!(answer, [Out::ToController { slice: B, xid: 5, message: reply }]);
        assert!(of_other.done() < 10);
        let mut work = Work::steps(STEPS);
        out.extend(lab.slicer.proceed(now, slice, &mut work));
        turns.push(work.done());
    }
    (out, turns)
}

fn flow_in_turns(lab: &mut Lab, command: FlowCommand, said: &str) -> (Vec<Out>, Vec<u64>) {
    let message = lab.flow(command, said);
    in_turns(lab, message)
}

fn most(turns: &[u64]) -> u64 {
    turns.iter().copied().max().unwrap_or(0)
}

#[test]
fn a_group_that_takes_long_is_proved_in_turns() {
    let mut lab = Lab::new(V13, many());
    // Each changes what spaces look at, so that it is compared with all VLANs.
    let buckets = |from: u128| {
        let one = |at| bucket(&[(Field::EthDst, from + at), (Field::VlanVid, 0x1001)]);
        (0..300).map(one).collect::<Vec<_>>()
    };
    let (out, turns) = in_turns(&mut lab, group(1, buckets(0)));
    assert!(most(&turns) <= STEPS + CUBES, "{}", most(&turns));
    assert!(turns.len() > 100, "{}", turns.len());
    assert!(matches!(&out[..], [Out::ToSwitch { message: Message::GroupMod(of), .. }]
        if of.buckets.len() == 300));
    // One that is wrong in the end is refused.
    let mut wrong = buckets(1000);
    wrong.push(bucket(&[(Field::VlanVid, 0x1000 + 1001)]));
    let (out, turns) = in_turns(&mut lab, group(2, wrong));
    assert!(most(&turns) <= STEPS + CUBES && turns.len() > 100);
    let [Out::ToController { message: Message::Error(error), .. }, Out::Refused { refusal, .. }] =
        &out[..]
    else {
        panic!("{out:?}")
    };
    assert_eq!(error.reason(V13), Some(Reason::BadActionEperm));
    assert!(refusal.words.len() < 2000, "{}", refusal.words.len());
}

#[test]
fn equal_buckets_are_proved_once_and_again_in_no_other_group() {
    let mut lab = Lab::new(V13, many());
    let one = || bucket(&[(Field::VlanVid, 0x1007)]);
    let (_, turns) = in_turns(&mut lab, group(1, vec![one()]));
    let alone: u64 = turns.iter().sum();
    assert!(alone > 1600, "{alone}");
    let (_, turns) = in_turns(&mut lab, group(2, vec![one(); 1000]));
    let again: u64 = turns.iter().sum();
    // What it takes to write them, and no proof.
    assert!(again < 1000 * 10 && again < alone, "{again} {alone}");
    assert_eq!(lab.slicer.counters(A).buckets, 1001);
}

#[test]
fn a_rule_of_many_entries_comes_and_goes_in_turns() {
    let mut lab = Lab::new(V13, many());
    let (out, turns) = flow_in_turns(&mut lab, FlowCommand::Add, "actions=flood");
    assert!(most(&turns) <= STEPS + CUBES && turns.len() > 20, "{turns:?}");
    assert_eq!(out.len(), 1600);
    lab.run(out);
    assert_eq!(lab.entries(), 1600);
    let (out, turns) = flow_in_turns(&mut lab, FlowCommand::ModifyStrict, "actions=output:2");
    assert!(most(&turns) <= STEPS + CUBES && turns.len() > 10, "{turns:?}");
    lab.run(out);
    let (out, turns) = flow_in_turns(&mut lab, FlowCommand::DeleteStrict, "");
    assert!(most(&turns) <= STEPS + CUBES && turns.len() > 10, "{turns:?}");
    lab.run(out);
    assert_eq!((lab.entries(), lab.slicer.counters(A).rules), (0, 0));
}

/// A rule of 1,600 entries, each with a long list of actions: few of them are sent in a turn, and all of them count.
#[test]
fn long_rules_of_many_entries_are_sent_and_counted_as_the_switch_has_them() {
    const ACTIONS: usize = 400;
    let long = || {
        let mut rule = netloom_openflow::FlowMod::new(FlowCommand::Add, Match::default());
        let mut actions = vec![Action::DecNwTtl; ACTIONS - 1];
        actions.push(Action::output(PortNumber(2)));
        rule.instructions = vec![netloom_openflow::Instruction::ApplyActions(actions)];
        Message::FlowMod(rule)
    };
    let mut lab = Lab::new(V13, many());
    let mut out = lab.slicer.begin_message(lab.now, A, 7, long(), &[], &mut Work::steps(STEPS));
    let (mut sent, mut most) = (0, 0);
    loop {
        most = most.max(out.len());
        sent += out.len();
        if lab.slicer.unfinished().next().is_none() {
            break;
        }
        out = lab.slicer.proceed(lab.now, A, &mut Work::steps(STEPS));
    }
    assert_eq!(sent, 1600);
    assert!(most <= usize::try_from(STEPS).unwrap() / ACTIONS + 1, "{most} in a turn");
    let bytes = lab.slicer.counters(A).bytes;
    let entries = u64::try_from(1600 * ACTIONS * size_of::<Action>()).unwrap();
    assert!(bytes > entries, "{bytes}");
    let quota = Quota { bytes: Some(entries / 2), ..Quota::default() };
    let mut small = many();
    small[0] = with_quota(small[0].clone(), quota);
    let mut lab = Lab::new(V13, small);
    assert_eq!(lab.refused(A, long()).reason, Reason::FlowModFailedTableFull);
    assert_eq!((lab.slicer.counters(A).bytes, lab.entries()), (0, 0));
}

/// Rules of A, each with a cookie of its own.
fn with_rules(count: u32) -> Lab {
    let two = vec![slice("red", vec![at(&[1, 2])]), slice("blue", vec![at(&[3, 4])])];
    let mut lab = Lab::new(V13, two);
    for number in 0..count {
        lab.add(
            A,
            &format!("cookie={number},ip,nw_dst={},in_port=1,actions=output:2", address(number)),
        );
    }
    lab.add(B, "actions=flood");
    lab
}

fn address(number: u32) -> std::net::Ipv4Addr {
    std::net::Ipv4Addr::from(0x0a00_0000 + number)
}

fn ask(body: Request) -> Message {
    Message::MultipartRequest(MultipartRequest { flags: 0, body })
}

#[test]
fn many_rules_are_told_in_parts_and_asked_for_in_blocks() {
    const RULES: u32 = 5000;
    let mut lab = with_rules(RULES);
    // Not all numbers are there.
    let odd = lab.flow(FlowCommand::Delete, "ip,nw_dst=0.0.0.1/0.0.0.1");
    assert_eq!(lab.ask(A, odd), []);
    lab.ports(1, &crate::integration::lab::frame("ip,nw_dst=10.0.0.2"));
    let answers = lab.ask(A, ask(Request::Flow(FlowRequest::new(Match::default()))));
    let mut cookies = vec![];
    for (at, answer) in answers.iter().enumerate() {
        let Message::MultipartReply(part) = answer else { panic!("{answer:?}") };
        assert_eq!(part.flags & MORE != 0, at + 1 < answers.len());
        let Reply::Flow(flows) = &part.body else { panic!("{part:?}") };
        cookies.extend(flows.iter().map(|flow| (flow.cookie, flow.packets)));
    }
    let expected: Vec<(u64, u64)> =
        (0..u64::from(RULES)).step_by(2).map(|number| (number, u64::from(number == 2))).collect();
    assert_eq!(cookies, expected);
    assert!(answers.len() > 3);
    let sums = lab.ask(A, ask(Request::Aggregate(FlowRequest::new(Match::default()))));
    let [Message::MultipartReply(sums)] = &sums[..] else { panic!("{sums:?}") };
    let Reply::Aggregate(Aggregate { packets: 1, flows: 2500, .. }) = sums.body else {
        panic!("{sums:?}")
    };
    // The switch is asked for few at a time, one after another.
    let request = ask(Request::Flow(FlowRequest::new(Match::default())));
    let now = lab.now;
    let out = lab.slicer.begin_message(now, A, 77, request, &[], &mut Work::steps(STEPS));
    let [Out::ToSwitch { message: Message::MultipartRequest(asked), .. }] = &out[..] else {
        panic!("{out:?}")
    };
    let Request::Flow(asked) = &asked.body else { panic!("{asked:?}") };
    let is_asked = |cookie: u64| (cookie ^ asked.cookie) & asked.cookie_mask == 0;
    let count = lab.switch.rules().filter(|rule| is_asked(rule.cookie)).count();
    assert!((200..=1024).contains(&count), "{count}");
    // Nothing more is read of it meanwhile; of the other everything is.
    assert!(lab.slicer.is_busy(A) && lab.slicer.unfinished().next().is_none());
    assert!(!lab.slicer.is_busy(B) && lab.slicer.may_ask(B));
    lab.run(out);
    assert!(!lab.slicer.is_busy(A));
}

/// In 1.0 it is asked for what is at a slice's ports, one after another.
#[test]
fn in_1_0_the_switch_is_asked_for_the_entries_of_a_slice_alone() {
    let two = vec![slice("red", vec![at(&[1, 2])]), slice("blue", vec![at(&[3, 4])])];
    let mut lab = Lab::new(Version::V10, two);
    for number in 0..50 {
        lab.add(B, &format!("ip,nw_dst={},actions=output:1", address(number)));
    }
    lab.add(A, "actions=output:1");
    lab.add(A, "priority=7,in_port=2,actions=output:1");
    let match10 = Match::V10(netloom_openflow::matching::Match10::default());
    let request = ask(Request::Flow(FlowRequest::new(match10)));
    let mut asked = vec![];
    let mut out = lab.slicer.begin_message(lab.now, A, 77, request.clone(), &[], &mut Work::all());
    while let [Out::ToSwitch { xid, message }] = &out[..] {
        let answers = lab.switch_says(*xid, message);
        asked.push(answers.iter().map(|(_, message)| flows_in(message)).sum::<usize>());
        for (xid, message) in answers {
            out = lab.slicer.from_switch(lab.now, xid, message);
        }
        if out.is_empty() {
            out = lab.slicer.proceed(lab.now, A, &mut Work::all());
        }
    }
    // One port after the other, and nothing of the other slice.
    assert_eq!(asked, [2, 1]);
    let [Out::ToController { message, .. }] = &out[..] else { panic!("{out:?}") };
    assert_eq!(flows_in(message), 2);
}

fn flows_in(message: &Message) -> usize {
    match message {
        Message::MultipartReply(netloom_openflow::MultipartReply {
            body: Reply::Flow(flows),
            ..
        }) => flows.len(),
        other => panic!("{other:?}"),
    }
}

/// State is written some at a time, however long its parts are.
#[test]
fn long_groups_and_rules_are_written_one_after_another() {
    let mut lab = Lab::new(V13, vec![slice("red", vec![at(&[1, 2])])]);
    let long = vec![Action::DecNwTtl; 4000];
    for number in 1..=20 {
        assert_eq!(lab.ask(A, group(number, vec![Bucket::new(0, long.clone())])), []);
        let mut rule = netloom_openflow::FlowMod::new(FlowCommand::Add, Match::default());
        rule.priority = u16::try_from(number).unwrap();
        rule.instructions = vec![netloom_openflow::Instruction::ApplyActions(long.clone())];
        assert_eq!(lab.ask(A, Message::FlowMod(rule)), []);
    }
    let (mut written, mut most, mut more) = (Default::default(), 0, true);
    while more {
        let mut bytes = vec![];
        more = lab.slicer.write_some(&mut written, 32 << 10, &mut bytes);
        most = most.max(bytes.len());
    }
    assert!(most < (32 << 10) + 65_536, "{most}");
}

#[test]
fn rules_are_found_and_deleted_in_turns() {
    let mut lab = with_rules(3000);
    let (out, turns) = flow_in_turns(&mut lab, FlowCommand::Delete, "ip,nw_dst=10.0.0.0/21");
    assert!(most(&turns) <= STEPS + 100 && turns.len() > 10, "{turns:?}");
    lab.run(out);
    assert_eq!(lab.slicer.counters(A).rules, 3000 - 2048);
    let (out, turns) = flow_in_turns(&mut lab, FlowCommand::Modify, "actions=drop");
    assert!(most(&turns) <= STEPS + 100 && turns.len() > 10, "{turns:?}");
    lab.run(out);
    // All that a slice has goes by one message for the switch.
    let (out, turns) = flow_in_turns(&mut lab, FlowCommand::Delete, "");
    assert!(most(&turns) <= STEPS + 100 && turns.len() > 1, "{turns:?}");
    assert_eq!(out.len(), 1);
    lab.run(out);
    // The other's rule has an entry for each of its ports.
    assert_eq!((lab.slicer.counters(A).bytes, lab.entries()), (0, 2));
}

#[test]
fn what_would_become_longer_than_a_message_is_refused_before_it_is_made() {
    let ports: Vec<u32> = (1..=1000).collect();
    let mut lab =
        Lab::new(V13, vec![slice("red", vec![at(&ports)]), slice("blue", vec![at(&[2000])])]);
    let floods = vec![Action::output(PortNumber::ALL); 3000];
    let mut rule = netloom_openflow::FlowMod::new(FlowCommand::Add, Match::default());
    rule.instructions = vec![netloom_openflow::Instruction::ApplyActions(floods.clone())];
    assert_eq!(lab.refused(A, Message::FlowMod(rule)).reason, Reason::BadActionTooMany);
    let packet = netloom_openflow::PacketOut {
        buffer: u32::MAX,
        in_port: PortNumber(1),
        actions: floods,
        data: vec![0; 60],
    };
    assert_eq!(lab.refused(A, Message::PacketOut(packet)).reason, Reason::BadActionTooMany);
    let flood = Bucket::new(0, vec![Action::output(PortNumber::ALL)]);
    let refusal = lab.refused(A, group(1, vec![flood; 100]));
    assert_eq!(refusal.reason, Reason::GroupModFailedOutOfBuckets);
    let counters = lab.slicer.counters(A);
    assert_eq!((counters.rules, counters.groups, counters.bytes), (0, 0, 0));
}

#[test]
fn ranges_that_need_too_many_entries_together_are_refused() {
    let range = Some(0..=4095);
    let space = Space {
        ethertype: Some(0x0800),
        protocol: Some(6),
        port_source: range.clone(),
        port_destination: range,
        ..at(&[1])
    };
    let mut lab = Lab::new(V13, vec![slice("red", vec![space])]);
    let add = lab.flow(FlowCommand::Add, "actions=drop");
    assert_eq!(lab.refused(A, add).reason, Reason::FlowModFailedTableFull);
}

#[test]
fn groups_buckets_meters_and_memory_have_quotas_of_their_own() {
    let lab = |quota| {
        let red = with_quota(slice("red", vec![at(&[1, 2])]), quota);
        Lab::new(V13, vec![red, slice("blue", vec![at(&[3, 4])])])
    };
    let one = || vec![bucket(&[])];
    let mut few =
        lab(Quota { groups: Some(2), buckets: Some(5), meters: Some(1), ..Quota::default() });
    for number in 1..=2 {
        assert_eq!(few.ask(A, group(number, one())), []);
    }
    assert_eq!(few.refused(A, group(3, one())).reason, Reason::GroupModFailedOutOfGroups);
    let modify = |buckets| {
        let (command, kind) = (GroupCommand::Modify, GroupType::All);
        Message::GroupMod(GroupMod { command, kind, group: 2, buckets })
    };
    let five = modify(vec![bucket(&[]); 5]);
    assert_eq!(few.refused(A, five).reason, Reason::GroupModFailedOutOfBuckets);
    assert_eq!(few.ask(A, modify(vec![bucket(&[]); 4])), []);
    let counters = few.slicer.counters(A);
    assert_eq!((counters.groups, counters.buckets), (2, 5));
    let meter = |number| {
        let said = format!("meter={number},kbps,band=type=drop,rate=100");
        let add = netloom_openflow::meter::MeterCommand::Add;
        Message::MeterMod(netloom_openflow::text::meter(add, &said).unwrap())
    };
    assert_eq!(few.ask(A, meter(1)), []);
    assert_eq!(few.refused(A, meter(2)).reason, Reason::MeterModFailedOutOfMeters);
    // Others have as much as before, and what is deleted is free again.
    assert_eq!(few.ask(B, group(1, one())), []);
    let all = GroupMod {
        command: GroupCommand::Delete,
        kind: GroupType::All,
        group: netloom_openflow::action::GROUP_ALL,
        buckets: vec![],
    };
    assert_eq!(few.ask(A, Message::GroupMod(all)), []);
    assert_eq!(few.ask(A, group(3, one())), []);
    // Bytes: a few rules with long lists, or groups, or meters.
    let mut small = lab(Quota { bytes: Some(64 * 1024), ..Quota::default() });
    let mut rule = netloom_openflow::FlowMod::new(FlowCommand::Add, Match::default());
    let long = vec![Action::DecNwTtl; 300];
    rule.instructions = vec![netloom_openflow::Instruction::ApplyActions(long)];
    assert_eq!(small.ask(A, Message::FlowMod(rule.clone())), []);
    rule.priority = 7;
    let refusal = small.refused(A, Message::FlowMod(rule.clone()));
    assert_eq!(refusal.reason, Reason::FlowModFailedTableFull);
    assert!(refusal.words.contains("65536 bytes (memory)"), "{}", refusal.words);
    let large = (0..400).map(|at| bucket(&[(Field::EthDst, at)])).collect();
    let refusal = small.refused(A, group(1, large));
    assert_eq!(refusal.reason, Reason::GroupModFailedOutOfBuckets);
    // To make it smaller is possible.
    rule.priority = 0x8000;
    rule.command = FlowCommand::ModifyStrict;
    rule.instructions = vec![];
    assert_eq!(small.ask(A, Message::FlowMod(rule)), []);
    assert!(small.slicer.counters(A).bytes < 2000);
}

#[test]
fn what_was_proved_is_not_proved_again_for_a_switch_that_comes_back() {
    let mut lab = Lab::new(V13, many());
    let (out, turns) = flow_in_turns(&mut lab, FlowCommand::Add, "actions=mod_vlan_vid:7,output:2");
    lab.run(out);
    let proofs: u64 = turns.iter().sum();
    let buckets = (0..50).map(|at| bucket(&[(Field::VlanVid, 0x1001 + at)])).collect();
    let (out, turns) = in_turns(&mut lab, group(1, buckets));
    lab.run(out);
    let proofs: u64 = proofs + turns.iter().sum::<u64>();
    let (resumed, turns) = lab.comes_back(STEPS);
    assert_eq!((resumed.rules, resumed.made, resumed.removed), (1, 0, 0), "{resumed:?}");
    assert!(most(&turns) <= STEPS + CUBES, "{}", most(&turns));
    let again: u64 = turns.iter().sum();
    // To compare 1,600 entries takes some steps each; the proofs took many times as many.
    assert!(again < 20 * 1600 && proofs > 10 * again, "{again} {proofs}");
    let counters = lab.slicer.counters(A);
    assert_eq!((counters.rules, counters.groups, counters.buckets), (1, 1, 50));
}

#[test]
fn slices_are_told_apart_by_the_hundred() {
    let tagged = |id: u16| Space { vlans: Some(vec![Vlan::Id(id)]), ..at(&[1, 2]) };
    let all = (0..1000).map(|at| slice(&format!("s{at}"), vec![tagged(at + 1)])).collect();
    let mut lab = Lab::new(V13, all);
    for id in [0, 254, 255, 256, 999] {
        lab.add(SliceId(id), "table=1,actions=flood");
        lab.add(SliceId(id), "actions=goto_table:1");
        let frame = crate::integration::lab::frame(&format!("dl_vlan={}", id + 1));
        assert_eq!(lab.ports(1, &frame), [2], "{id}");
        let datapath = lab.slicer.datapath_id(SliceId(id)).expect("one");
        assert_eq!(datapath >> 48, u64::from(id) + 1);
    }
    let other = crate::integration::lab::frame("dl_vlan=100");
    assert_eq!(lab.ports(1, &other), Vec::<u32>::new());
}
