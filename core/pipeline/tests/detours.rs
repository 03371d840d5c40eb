//! What a detour leaves to a router's own stack, and what of the rest a cache may keep.

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::{
    Action, Bucket, Detour, Field, FlowMod, GroupMod, Instruction, Match, Message, Oxm, PortNumber,
    Reason, Version,
};

use super::bench::Bench;
use super::frames::{ethernet, ipv4, ipv6, udp};

/// The port that forwards, and that of the stack.
const ON: u32 = 2;
const STACK: u32 = 3;

/// A switch that forwards by decrementing, but for a detour.
fn bench(mtu: u16) -> Bench {
    let mut bench = Bench::new(Version::V13);
    for ethertype in [0x0800, 0x86dd] {
        let detour = Detour { mtu, to: PortNumber(STACK) }.action();
        let on = vec![Action::DecNwTtl, Action::output(PortNumber(ON))];
        let instructions =
            vec![Instruction::ApplyActions(vec![detour]), Instruction::WriteActions(on)];
        let matching = Match::Oxm(vec![Oxm::exact(Field::EthType, ethertype)]);
        bench.done(&Message::FlowMod(FlowMod {
            instructions,
            ..FlowMod::new(FlowCommand::Add, matching)
        }));
    }
    bench
}

fn v4(ttl: u8) -> Vec<u8> {
    ethernet(0x0800, &ipv4(17, ttl, &udp(1, 2)))
}

/// With a byte of its IPv4 header changed.
fn changed(mut frame: Vec<u8>, at: usize, by: u8) -> Vec<u8> {
    frame[14 + at] ^= by;
    frame
}

/// The port by which a frame leaves, and whether the result may be kept.
fn way(bench: &mut Bench, frame: &[u8]) -> (u32, bool) {
    let (trace, out) = bench.frame(1, frame);
    assert_eq!(out.frames.len(), 1, "{trace:?}");
    (out.frames[0].port.0, trace.uncacheable.is_none())
}

#[test]
fn packets_that_a_router_answers_or_drops_take_the_detour() {
    let mut bench = bench(0);
    let six = |ttl| {
        let mut frame = ethernet(0x86dd, &ipv6(17, &udp(1, 2)));
        frame[21] = ttl;
        frame
    };
    for frame in [v4(64), v4(2), six(64), six(2)] {
        assert_eq!(way(&mut bench, &frame), (ON, true), "{frame:?}");
    }
    // Used up; with options of nothing; a header that is not what was sent.
    let options = [&[0x46, 0, 0, 37, 0, 1, 0, 0, 64, 17, 0x66, 0xbd, 10, 0, 0, 1][..]].concat();
    let options = [&options, &[10, 0, 0, 2, 1, 1, 1, 0][..], &udp(1, 2)].concat();
    let stack = [v4(1), v4(0), six(1), six(0), ethernet(0x0800, &options), changed(v4(64), 11, 1)];
    for frame in stack {
        let (trace, out) = bench.frame(1, &frame);
        assert_eq!(out.frames.len(), 1, "{trace:?}");
        assert_eq!((out.frames[0].port.0, trace.uncacheable.is_none()), (STACK, false));
        assert_eq!(out.frames[0].bytes, frame, "as it came");
    }
    for at in [1, 4, 8, 12, 16, 19] {
        assert_eq!(way(&mut bench, &changed(v4(64), at, 0x10)).0, STACK, "byte {at}");
    }
}

#[test]
fn what_is_too_long_for_the_next_link_takes_the_detour() {
    let mut bench = bench(100);
    let long = |length: usize| ethernet(0x0800, &ipv4(17, 64, &vec![0; length - 20]));
    // Its length decides: no result is kept.
    assert_eq!(way(&mut bench, &long(100)), (ON, false));
    assert_eq!(way(&mut bench, &long(101)), (STACK, false));
}

/// Neither an action set nor a bucket, whose actions become one, has a place for it.
#[test]
fn a_detour_that_would_never_be_taken_is_refused() {
    let detour = || vec![Detour { mtu: 1500, to: PortNumber(STACK) }.action()];
    let mut bench = Bench::new(Version::V13);
    let written = FlowMod {
        instructions: vec![Instruction::WriteActions(detour())],
        ..FlowMod::new(FlowCommand::Add, Match::Oxm(vec![]))
    };
    let refused = bench.refused(&Message::FlowMod(written));
    assert_eq!(refused, Some(Reason::BadActionBadExperimenter));
    let (command, kind, buckets) =
        (GroupCommand::Add, GroupType::All, vec![Bucket::new(0, detour())]);
    let refused = bench.refused(&Message::GroupMod(GroupMod { command, kind, group: 1, buckets }));
    assert_eq!(refused, Some(Reason::BadActionBadExperimenter));
}
