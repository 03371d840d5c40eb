//! What programs do with a frame equals what the pipeline does, byte for byte.

use netloom_ebpf::flow::{Entry, List, Trial};
use netloom_kit::root_only;
use netloom_openflow::flow::FlowCommand;
use netloom_openflow::matching::Match10;
use netloom_openflow::{
    Action, Field, FlowMod, Instruction, Match, Message, Oxm, PortNumber, Version, encode,
};
use netloom_pipeline::Trace;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::flow_bench::Bench;
use super::flow_keys::{SMALL, frame};

fn set(field: Field, value: u128) -> Action {
    Action::SetField(Oxm::exact(field, value))
}

/// Actions of both versions and of all kinds that may become operations.
pub fn action() -> impl Strategy<Value = Action> {
    let value = any::<u128>();
    (0..42usize, value).prop_map(|(kind, value)| {
        let [low, ..] = value.to_le_bytes();
        let word = u16::from_le_bytes([low, value.to_le_bytes()[1]]);
        let half = u32::try_from(value & 0xffff_ffff).unwrap();
        let mac = [2, 0, 0, low, low, 7];
        let fields = [
            Field::EthDst,
            Field::EthSrc,
            Field::VlanVid,
            Field::VlanPcp,
            Field::IpDscp,
            Field::IpEcn,
            Field::Ipv4Src,
            Field::Ipv4Dst,
            Field::Ipv6Src,
            Field::Ipv6Dst,
            Field::Ipv6Flabel,
            Field::TcpSrc,
            Field::TcpDst,
            Field::UdpSrc,
            Field::UdpDst,
            Field::Icmpv4Type,
            Field::Icmpv4Code,
            Field::Icmpv6Type,
            Field::Icmpv6Code,
            Field::Ipv6NdTarget,
            Field::Ipv6NdSll,
            Field::Ipv6NdTll,
            Field::ArpOp,
            Field::ArpSha,
            Field::ArpSpa,
            Field::ArpTha,
            Field::ArpTpa,
            Field::MplsLabel,
            Field::MplsTc,
            Field::PbbIsid,
        ];
        match kind.checked_sub(fields.len()) {
            None => set(fields[kind], value & fields[kind].full()),
            Some(0) => Action::SetVlanVid(word & 0xfff),
            Some(1) => Action::SetVlanPcp(low & 7),
            Some(2) => Action::PopVlan,
            Some(3) => Action::SetDlSrc(mac),
            Some(4) => Action::SetNwDst(half),
            Some(5) => Action::SetNwTos(low & 0xfc),
            Some(6) => Action::SetTpSrc(word),
            Some(7) => Action::SetTpDst(word),
            Some(8) => Action::SetNwTtl(low),
            Some(9) => Action::DecNwTtl,
            Some(10) => Action::SetMplsTtl(low),
            _ => Action::PushVlan(0x8100),
        }
    })
}

/// A frame and the port that it is sent by.
type Sent = (u32, Vec<u8>);

/// What the pipeline does with a frame of port 1 under these actions, if it takes such an entry.
fn reference(version: Version, actions: &[Action], frame: &[u8]) -> Option<(Trace, Vec<Sent>)> {
    let mut bench = Bench::new(version);
    let change = Message::FlowMod(FlowMod {
        instructions: vec![Instruction::ApplyActions(actions.to_vec())],
        ..FlowMod::new(FlowCommand::Add, match_for(version, frame))
    });
    if encode(version, 1, &change).is_err() || bench.refused(&change).is_some() {
        return None;
    }
    let (trace, out) = bench.frame(1, frame);
    let frames = out.frames.into_iter().map(|frame| (frame.port.0, frame.bytes)).collect();
    Some((trace, frames))
}

/// What an entry for a frame matches: in 1.0, where actions need nothing, everything.
pub fn match_for(version: Version, frame: &[u8]) -> Match {
    match version {
        Version::V10 => Match::V10(Match10::default()),
        Version::V13 => Match::Oxm(fields_for(frame)),
    }
}

/// The exact match of a frame, so that actions on its fields are allowed.
fn fields_for(frame: &[u8]) -> Vec<Oxm> {
    let (_, key) = netloom_pipeline::headers::parse(frame);
    let mut fields = vec![];
    let mut add = |field: Field| fields.push(Oxm::exact(field, key.get(field)));
    add(Field::EthType);
    if key.get(Field::VlanVid) != 0 {
        add(Field::VlanVid);
    }
    match key.get(Field::EthType) {
        0x800 | 0x86dd => {
            add(Field::IpProto);
            match (key.get(Field::EthType), key.get(Field::IpProto)) {
                (0x86dd, 58) => add(Field::Icmpv6Type),
                (0x800, 1) => add(Field::Icmpv4Type),
                _ => {}
            }
        }
        _ => {}
    }
    fields
}

/// Those of these actions that an entry for this frame may have.
pub fn allowed(version: Version, actions: &[Action], frame: &[u8]) -> Vec<Action> {
    let one = |action: &&Action| reference(version, std::slice::from_ref(*action), frame).is_some();
    actions.iter().filter(one).cloned().collect()
}

fn check(
    trial: &mut Trial,
    done: &mut usize,
    version: Version,
    actions: &[Action],
    frame: &[u8],
) -> Result<(), TestCaseError> {
    if frame.len() < 54 {
        return Ok(());
    }
    let mut actions = allowed(version, actions, frame);
    actions.push(Action::output(PortNumber(2)));
    let Some((trace, expected)) = reference(version, &actions, frame) else { return Ok(()) };
    if trace.uncacheable.is_some() || trace.steps.is_empty() {
        return Ok(());
    }
    let key = trace.steps[0].key;
    let Some(list) = List::of(&trace.effects, &key, |port| Some(port.0)) else { return Ok(()) };
    let entry = Entry {
        slot: 3,
        generation: trial.flow.generation(),
        key: &key,
        mask: &trace.consulted,
        list: &list,
    };
    prop_assert!(trial.flow.install(&entry).unwrap());
    let before = trial.flow.counts(3);
    let ran = trial.run(frame, 1).unwrap();
    if !ran.sent && trial.flow.upcalls().receive(1, &mut |_| {}) == 1 {
        // Left to the pipeline: a frame with oddities, or whose TTL runs out.
        prop_assert_eq!(before, trial.flow.counts(3));
        return Ok(());
    }
    *done += 1;
    let after = trial.flow.counts(3);
    let grown = (after.packets - before.packets, after.bytes - before.bytes);
    prop_assert_eq!(grown, (1, u64::try_from(frame.len()).unwrap()));
    prop_assert_eq!(ran.sent, !expected.is_empty(), "{:?} {:02x?}", actions, frame);
    if let Some((_, bytes)) = expected.first() {
        // A tag that was added is beside the frame.
        let beside = bytes.len() - ran.bytes.len();
        prop_assert!(beside == 0 || beside == 4, "{:?} {:02x?}", actions, frame);
        let mut shown = bytes.clone();
        shown.drain(12..12 + beside);
        prop_assert_eq!(shown, ran.bytes, "{:?} {:02x?}", actions, frame);
    }
    Ok(())
}

#[test]
fn edits_equal_the_pipelines() {
    root_only!("runs BPF programs");
    let trial = Trial::load(&SMALL).unwrap();
    let trial = std::cell::RefCell::new((trial, 0));
    let mut runner =
        TestRunner::new(Config { cases: 3000, failure_persistence: None, ..Config::default() });
    let versions = proptest::sample::select(vec![Version::V10, Version::V13]);
    let cases = (versions, proptest::collection::vec(action(), 0..5), frame());
    runner
        .run(&cases, |(version, actions, frame)| {
            let (trial, done) = &mut *trial.borrow_mut();
            check(trial, done, version, &actions, &frame)
        })
        .unwrap();
    let done = trial.borrow().1;
    assert!(done > 600, "only {done} frames were treated by a result");
}
