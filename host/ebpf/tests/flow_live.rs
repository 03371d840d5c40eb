//! A switch between veth pairs: frames in at one end, and out of others as the pipeline would send them.

use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use netloom_ebpf::flow::{Entry, Flow, Limit, List, PortCounts};
use netloom_ebpf::{Hook, feature};
use netloom_kit::root_only;
use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::{GroupCommand, GroupType};
use netloom_openflow::{
    Action, Bucket, FlowMod, GroupMod, Instruction, Match, Message, PortNumber, Version,
};
use netloom_pipeline::{FlowKey, Frame, Trace};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::flow_bench::Bench;
use super::flow_edits::{action, allowed, match_for};
use super::flow_frames as frames;
use super::flow_keys::{SMALL, frame};
use super::support::net::{NetNs, link};
use super::support::packet::Packets;

/// How long a frame may take.
const BOUND: Duration = Duration::from_secs(30);
/// Ports of the switch, and the interfaces at both ends of their links.
pub const PORTS: [u32; 3] = [1, 2, 3];

pub fn inner(port: u32) -> u32 {
    10 + port
}

pub fn outer(port: u32) -> u32 {
    20 + port
}

/// A switch with a link for each port, all of which lead to one other namespace.
pub struct World {
    pub core: NetNs,
    pub outside: NetNs,
    pub flow: Flow,
}

impl World {
    pub fn new(hook: Hook) -> World {
        let (core, outside) = (NetNs::create(), NetNs::create());
        for port in PORTS {
            link(core.end(inner(port)), outside.end(outer(port)));
        }
        let flow = core.run(|| {
            let flow = Flow::create_by(hook, &SMALL).unwrap();
            for port in PORTS {
                flow.attach(inner(port), port, Limit::default()).unwrap();
            }
            flow
        });
        World { core, outside, flow }
    }

    /// A packet socket at the far end of a port.
    pub fn station(&self, port: u32) -> Packets {
        self.outside.run(|| Packets::open_all(outer(port)).with_tags())
    }

    /// Keeps a result for a slot.
    pub fn install(&mut self, slot: u32, trace: &Trace, key: &FlowKey) -> bool {
        let to = |port: PortNumber| Some(inner(port.0));
        let Some(list) = List::of(&trace.effects, key, to) else { return false };
        let generation = self.flow.generation();
        let mask = &trace.consulted;
        let entry = Entry { slot, generation, key, mask, list: &list };
        assert!(self.flow.install(&entry).unwrap());
        true
    }

    /// Sends all frames of a port by another.
    pub fn join(&mut self, slot: u32, from: u32, to: u32) {
        let mut bench = Bench::new(Version::V13);
        let change = FlowMod {
            instructions: output(&[Action::output(PortNumber(to))]),
            ..FlowMod::new(FlowCommand::Add, Match::default())
        };
        bench.done(&Message::FlowMod(change));
        let (trace, _) = bench.frame(from, &frames::arp());
        assert!(self.install(slot, &trace, &trace.steps[0].key));
    }
}

fn output(actions: &[Action]) -> Vec<Instruction> {
    vec![Instruction::ApplyActions(actions.to_vec())]
}

/// Waits until something is so.
pub fn wait(what: &str, mut is: impl FnMut() -> bool) {
    netloom_kit::wait_until(what, BOUND, || is().then_some(()));
}

pub fn hooks() -> Vec<Hook> {
    let tcx = feature::tcx_supported().map(|()| Hook::Tcx);
    let clsact = feature::clsact_supported().map(|()| Hook::Clsact);
    [tcx, clsact].into_iter().flatten().collect()
}

/// What the pipeline does with a frame of port 1: it goes to a group of all, whose buckets do these actions, or without one.
fn reference(
    version: Version,
    lists: &[Vec<Action>],
    grouped: bool,
    frame: &[u8],
) -> Option<(Trace, Vec<Frame>)> {
    let mut bench = Bench::new(version);
    let actions = if grouped {
        let buckets = lists.iter().map(|actions| Bucket::new(1, actions.clone())).collect();
        let group = Message::GroupMod(GroupMod {
            command: GroupCommand::Add,
            kind: GroupType::All,
            group: 1,
            buckets,
        });
        if bench.refused(&group).is_some() {
            return None;
        }
        vec![Action::Group(1)]
    } else {
        lists.concat()
    };
    let change = Message::FlowMod(FlowMod {
        instructions: output(&actions),
        ..FlowMod::new(FlowCommand::Add, match_for(version, frame))
    });
    if bench.refused(&change).is_some() {
        return None;
    }
    let (trace, out) = bench.frame(1, frame);
    Some((trace, out.frames))
}

/// A version, lists of actions and the port that each sends by, whether a group has them, and a frame.
type Case = (Version, Vec<(Vec<Action>, u32)>, bool, Vec<u8>);

/// How cases ended.
#[derive(Debug, Default)]
struct Ended {
    treated: usize,
    copies: usize,
    left: usize,
}

fn check(
    world: &mut World,
    stations: &[Packets],
    ended: &mut Ended,
    (version, lists, grouped, frame): Case,
) -> Result<(), TestCaseError> {
    let grouped = grouped && version == Version::V13;
    let with_output = |(actions, port): &(Vec<Action>, u32)| {
        let mut actions = allowed(version, actions, &frame);
        actions.push(Action::output(PortNumber(*port)));
        actions
    };
    let lists: Vec<_> = lists.iter().map(with_output).collect();
    let Some((trace, expected)) = reference(version, &lists, grouped, &frame) else {
        return Ok(());
    };
    if trace.uncacheable.is_some() || trace.steps.is_empty() {
        return Ok(());
    }
    let key = trace.steps[0].key;
    if !world.install(1, &trace, &key) {
        return Ok(());
    }
    let before = world.flow.stats();
    assert!(stations[0].send(&frame));
    wait("the frame arrives", || {
        let now = world.flow.stats();
        (now.exact + now.masked + now.missed) > (before.exact + before.masked + before.missed)
    });
    // Until the program has ended.
    world.flow.set_generation(world.flow.generation());
    let count = world.flow.counts(1);
    if count.packets == 0 {
        let heard = world.flow.upcalls().receive(1, &mut |upcall| assert_eq!(upcall.frame, frame));
        prop_assert_eq!(heard, 1);
        ended.left += 1;
        return Ok(());
    }
    prop_assert_eq!((count.packets, count.bytes), (1, u64::try_from(frame.len()).unwrap()));
    ended.treated += 1;
    ended.copies += usize::from(expected.len() > 1);
    for one in &expected {
        let station = &stations[usize::try_from(one.port.0).unwrap() - 1];
        prop_assert_eq!(station.next_whole(BOUND), &one.bytes[..], "{:?} {:02x?}", lists, frame);
    }
    Ok(())
}

#[test]
fn frames_leave_as_the_pipeline_sends_them() {
    root_only!("attaches BPF programs");
    for hook in hooks() {
        let world = World::new(hook);
        let stations = PORTS.map(|port| world.station(port));
        let world = std::cell::RefCell::new((world, Ended::default()));
        let list = (proptest::collection::vec(action(), 0..3), 2..4u32);
        let lists = proptest::collection::vec(list, 1..4);
        let versions = proptest::sample::select(vec![Version::V10, Version::V13]);
        let whole = frame()
            .prop_filter("of a length that links carry", |frame| (41..1400).contains(&frame.len()));
        let cases = (versions, lists, any::<bool>(), whole);
        let config = Config { cases: 600, failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&cases, |case| {
                let (world, ended) = &mut *world.borrow_mut();
                check(world, &stations, ended, case)
            })
            .unwrap();
        let (world, ended) = world.into_inner();
        assert!(ended.treated > 100 && ended.copies > 20, "{ended:?}");
        assert_eq!(world.flow.stats().failed, 0);
        // Nothing else was sent.
        for station in stations {
            assert_eq!(station.next(), None);
        }
    }
}

/// Tags beside the frame, as veth pairs pass them, are part of it.
#[test]
fn tagged_frames_are_told_whole_with_their_keys() {
    root_only!("attaches BPF programs");
    let mut world = World::new(Hook::probe());
    let station = world.station(1);
    let once = frames::tagged(&frames::udp4(1, 2), 7, 3);
    let mut service = frames::tagged(&once, 9, 5);
    service[12..14].copy_from_slice(&[0x88, 0xa8]);
    for frame in [frames::tcp6(1, 2), once, service] {
        assert!(station.send(&frame));
        let mut heard = vec![];
        wait("an upcall", || {
            world.flow.upcalls().receive(1, &mut |upcall| {
                heard.push((upcall.port, upcall.key, upcall.header, upcall.frame.to_vec()));
            }) == 1
        });
        let (port, key, header, bytes) = heard.remove(0);
        assert_eq!((port, header), (1, netloom_packet::VnetHeader::default()));
        assert_eq!(bytes, frame);
        let (_, expected) = netloom_pipeline::headers::parse(&frame);
        let mut key = key.unwrap();
        key.0[0] = 0;
        assert_eq!(key, expected);
    }
}

#[test]
fn a_port_that_floods_has_a_limit() {
    root_only!("attaches BPF programs");
    let world = World::new(Hook::probe());
    let limit = Limit { rate: 1, burst: 5 };
    world.core.run(|| world.flow.attach(inner(1), 1, limit).unwrap());
    world.station(1).send_in_order(&vec![frames::arp(); 20]);
    let mut counts = PortCounts::default();
    wait("all frames", || {
        counts = world.flow.port_counts(inner(1)).unwrap().unwrap();
        counts.upcalls + counts.limited == 20
    });
    assert!(counts.upcalls >= 5, "{counts:?}");
    assert!(counts.limited > 0 && counts.full == 0 && counts.long == 0, "{counts:?}");
}

/// A ring that nobody reads fills up, and says so.
#[test]
fn a_full_ring_is_counted() {
    root_only!("attaches BPF programs");
    let mut world = World::new(Hook::probe());
    // Fewer than a receive queue holds.
    let mut frame = frames::arp();
    frame.resize(1000, 0);
    world.station(1).send_in_order(&vec![frame; 200]);
    let mut counts = PortCounts::default();
    wait("all frames", || {
        counts = world.flow.port_counts(inner(1)).unwrap().unwrap();
        counts.upcalls + counts.full == 200
    });
    assert!(counts.full > 0, "{counts:?}");
    let mut heard = 0;
    while world.flow.upcalls().receive(100, &mut |_| heard += 1) > 0 {}
    assert_eq!(heard, counts.upcalls);
    world.station(1).send_in_order(&[frames::arp()]);
    wait("room again", || world.flow.upcalls().receive(1, &mut |_| {}) == 1);
}

#[test]
fn another_process_takes_over() {
    root_only!("attaches BPF programs");
    for hook in hooks() {
        let mut world = World::new(hook);
        world.flow.set_generation(3);
        world.join(5, 1, 2);
        world.join(6, 2, 1);
        let (one, two) = (world.station(1), world.station(2));
        assert!(one.send(&frames::arp()));
        assert_eq!(two.next_whole(BOUND), frames::arp());
        let World { core, outside, flow } = world;
        drop(flow);
        // Nobody is there, and frames are forwarded.
        assert!(two.send(&frames::udp4(1, 2)));
        assert_eq!(one.next_whole(BOUND), frames::udp4(1, 2));
        let flow = core.run(|| Flow::reopen(inner(2)).unwrap().unwrap());
        let mut world = World { core, outside, flow };
        let mut kept: Vec<u32> = world.flow.kept().map(|kept| kept.slot).collect();
        kept.sort_unstable();
        assert_eq!((kept, world.flow.results(), world.flow.generation()), (vec![5, 6], 2, 3));
        assert_eq!(world.flow.counts(5).packets, 1);
        assert_eq!(world.flow.counts(6).packets, 1);
        let ports = PORTS.map(|port| (inner(port), port)).to_vec();
        assert_eq!(world.flow.ports().unwrap(), ports);
        // New results do not disturb existing ones.
        world.join(7, 3, 1);
        world.flow.remove(5);
        world.flow.settle();
        assert!(world.station(3).send(&frames::tcp4(1, 2)));
        assert_eq!(one.next_whole(BOUND), frames::tcp4(1, 2));
        assert!(one.send(&frames::arp()));
        wait("an upcall", || world.flow.upcalls().receive(1, &mut |_| {}) == 1);
        assert!(two.send(&frames::arp()));
        assert_eq!(one.next_whole(BOUND), frames::arp());
        assert_eq!(world.flow.counts(6).packets, 2);
        world.core.run(|| {
            PORTS.iter().for_each(|port| world.flow.detach(inner(*port)).unwrap());
            assert!(Flow::reopen(inner(1)).unwrap().is_none());
        });
    }
}

/// A program of the fast path's name without its maps, which drops all.
fn foreign_program() -> OwnedFd {
    // r0 = 2; exit
    let code: [u64; 2] = [0xb7 | 2 << 32, 0x95];
    let mut opts = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as u64,
        ..Default::default()
    };
    // SAFETY: names end in a zero, the code has the stated number of instructions, and all outlive the call.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
            c"nl_flow".as_ptr(),
            c"GPL".as_ptr(),
            code.as_ptr().cast(),
            2,
            &raw mut opts,
        )
    };
    assert!(fd >= 0, "{}", std::io::Error::from_raw_os_error(-fd));
    // SAFETY: the descriptor is new and nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

#[test]
fn programs_of_another_version_make_way() {
    root_only!("attaches BPF programs");
    for hook in hooks() {
        let mut world = World::new(hook);
        let old = crate::program::Program::new("nl_flow", foreign_program());
        let (ingress, end) = (crate::Direction::Ingress, crate::attach::Order::End);
        world.core.run(|| {
            assert!(!Flow::displace(inner(1)).unwrap(), "it is of this version");
            world.flow.detach(inner(1)).unwrap();
            crate::attach::attach(hook, &old, inner(1), ingress, end).unwrap();
            assert!(Flow::reopen(inner(1)).is_err());
            assert!(Flow::displace(inner(1)).unwrap());
            assert!(!Flow::displace(inner(1)).unwrap(), "none is left");
            world.flow.attach(inner(1), 1, Limit::default()).unwrap();
        });
        world.join(1, 1, 2);
        let (one, two) = (world.station(1), world.station(2));
        assert!(one.send(&frames::arp()));
        assert_eq!(two.next_whole(BOUND), frames::arp());
    }
}

/// A wire and a point that come later see the frames before the switch takes them.
#[test]
fn what_is_attached_later_comes_first() {
    root_only!("attaches BPF programs");
    for hook in hooks() {
        let mut world = World::new(hook);
        world.join(1, 1, 2);
        let (one, two) = (world.station(1), world.station(2));
        let sink = world.core.run(|| super::support::relay::tap("sink", 40));
        world.core.up(40);
        let splice = world.core.run(|| {
            let splice = netloom_ebpf::wire::Splice::create_by(hook).unwrap();
            splice.insert(inner(1), netloom_ebpf::Direction::Ingress, 40).unwrap();
            splice
        });
        assert!(one.send(&frames::arp()));
        let mut room = [0; 200];
        wait("the frame in the wire", || {
            std::io::Read::read(&mut &sink, &mut room).is_ok_and(|length| {
                length == frames::arp().len() + 10 && room[10..length] == frames::arp()
            })
        });
        assert_eq!(two.next(), None);
        assert!(splice.remove(inner(1), netloom_ebpf::Direction::Ingress).unwrap());
        assert!(one.send(&frames::arp()));
        assert_eq!(two.next_whole(BOUND), frames::arp());
    }
}
