//! Ports with taps beside them: frames without a result come to the tap as they are, those with one pass as the rules of a
//! learning switch say.

use std::fs::File;
use std::time::Duration;

use netloom_bridge::{
    Direction, Mac, MacLock, MirrorSession, Mirrors, PortRules, Retag, SwitchRules, Tpid, Vid,
    VidSet, VlanMode, direct, retag,
};
use netloom_ebpf::flow::{Attacher, Entry, Flow, Limit, List, Options, one_tag_at_most};
use netloom_kit::root_only;
use netloom_netlink::Change;
use netloom_pipeline::FlowKey;
use netloom_sys::process::wait_readable;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::flow_frames as frames;
use super::flow_keys::SMALL;
use super::flow_live::{inner, outer, wait};
use super::support::net::{NetNs, link};
use super::support::packet::Packets;
use super::support::relay::{self, tap};

const BOUND: Duration = Duration::from_secs(30);
const OPTIONS: Options = Options { beside: true, ..SMALL };
const TYPES: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
/// VLANs that frames and rules have.
const VLANS: [u16; 3] = [1, 7, 4094];

/// The index of the tap beside a port.
fn beside(port: u32) -> u32 {
    30 + port
}

struct World {
    core: NetNs,
    outside: NetNs,
    flow: Flow,
    taps: Vec<File>,
    /// The next result's slot.
    slot: u32,
}

impl World {
    fn new() -> World {
        let (core, outside) = (NetNs::create(), NetNs::create());
        for port in [1, 2] {
            link(core.end(inner(port)), outside.end(outer(port)));
        }
        let taps = core.run(|| [1, 2].map(|port| tap(&format!("tap{port}"), beside(port))).into());
        core.change(|batch| {
            for port in [1, 2] {
                batch.push("tap", &Change::of(beside(port)).mtu(65_521).up());
            }
        });
        let flow = core.run(|| {
            let flow = Flow::create(&OPTIONS).unwrap();
            let attacher = Attacher::of(flow.programs().unwrap()).unwrap().unwrap();
            for port in [1, 2] {
                let at = (inner(port), beside(port));
                attacher.attach_tap(at).unwrap();
                attacher.attach(at, port, Limit::default()).unwrap();
            }
            flow
        });
        World { core, outside, flow, taps, slot: 0 }
    }

    fn station(&self, port: u32) -> Packets {
        self.outside.run(|| Packets::open_all(outer(port)).with_tags())
    }

    /// The next frame at the tap beside port 1.
    fn at_tap(&self) -> Vec<u8> {
        assert!(wait_readable(&self.taps[0], BOUND), "no frame came");
        let mut room = vec![0; 70_000];
        let length = rustix::io::read(&self.taps[0], &mut room).unwrap();
        room[relay::HEADER..length].to_vec()
    }

    /// Sends a frame to port 1; returns whether there was a result for it.
    fn send(&mut self, sender: &Packets, frame: &[u8]) -> bool {
        let before = self.flow.stats();
        assert!(sender.send(frame));
        wait("the frame arrives", || {
            let now = self.flow.stats();
            now.exact + now.masked + now.missed > before.exact + before.masked + before.missed
        });
        // Until the program has ended.
        self.flow.set_generation(self.flow.generation());
        self.flow.stats().missed == before.missed
    }

    /// Keeps a result for frames like one that came to port 1, as a switch would.
    fn learn(&mut self, (rules, mirrors): (&SwitchRules, &Mirrors)) {
        let mut told: Option<(FlowKey, Vec<u8>)> = None;
        self.flow.upcalls().receive(1, &mut |upcall| {
            told = upcall.key.map(|key| (key, upcall.frame.to_vec()));
        });
        let Some((key, start)) = told else { return };
        let Some(found) = direct(rules, mirrors, 1, 2, &start) else { return };
        if !one_tag_at_most(&key, &start) {
            return;
        }
        let Some(list) = List::retagged(found.how, (inner(2), 2)) else { return };
        let generation = self.flow.generation();
        let mask = Flow::bridged_mask();
        let entry = Entry { slot: self.slot % 64, generation, key: &key, mask: &mask, list: &list };
        assert!(self.flow.install(&entry).unwrap());
        self.slot += 1;
    }
}

/// A frame in the form in which a port gets it.
fn changed(frame: &[u8], how: Retag) -> Vec<u8> {
    let mut room = [vec![0; 4], frame.to_vec()].concat();
    let edit = retag(&mut room, 4, how).unwrap();
    room[edit.start..].to_vec()
}

fn vid(number: u16) -> Vid {
    Vid::new(number).unwrap()
}

fn mode() -> impl Strategy<Value = VlanMode> {
    let set = || prop::collection::vec(prop::sample::select(&VLANS[..]), 1..5);
    let set = move || set().prop_map(|all| all.into_iter().map(vid).collect::<VidSet>());
    let one = || prop::sample::select(&VLANS[..]).prop_map(vid);
    let tpid = prop::sample::select(&TYPES[..]).prop_map(|kind| Tpid::new(kind).unwrap());
    prop_oneof![
        2 => Just(VlanMode::Any),
        2 => one().prop_map(VlanMode::Access),
        4 => (prop::option::of(one()), set())
            .prop_map(|(native, allowed)| VlanMode::Trunk { native, allowed }),
        2 => (one(), prop::option::of(set()), tpid)
            .prop_map(|(vid, cvlans, tpid)| VlanMode::Qinq { vid, cvlans, tpid }),
    ]
}

fn address(last: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, last])
}

/// Rules of two ports: their VLANs, and whether the first is locked to one of two addresses.
fn rules() -> impl Strategy<Value = SwitchRules> {
    (mode(), mode(), any::<bool>()).prop_map(|(one, other, locked)| {
        let lock = if locked { &[address(1)][..] } else { &[] };
        let macs = MacLock::new(lock).unwrap();
        let one = PortRules { vlan: one, macs, ..PortRules::OPEN };
        let other = PortRules { vlan: other, ..PortRules::OPEN };
        SwitchRules::of([(1, one), (2, other)]).unwrap()
    })
}

/// A session that copies what the first port sends or the second gets, or the other ways, which nobody takes; or none.
fn mirrors() -> impl Strategy<Value = Mirrors> {
    let source = prop::sample::select(vec![
        (1, Direction::In),
        (2, Direction::Out),
        (1, Direction::Out),
        (2, Direction::In),
    ]);
    prop::option::weighted(0.4, source).prop_map(|source| {
        let session = |source| MirrorSession { to: 3, sources: vec![source], ..Default::default() };
        Mirrors::new(source.map(session).into_iter().collect()).unwrap()
    })
}

/// A frame with some tags, from one of two addresses to one of two others.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![1 => Just(0), 4 => prop::sample::select(&VLANS[..])];
    let kind =
        prop_oneof![6 => Just(0x8100), 2 => Just(0x88a8), 1 => prop::sample::select(&TYPES[..])];
    let tag =
        (kind, number, 0..16_u16).prop_map(|(kind, number, bits)| (kind, bits << 12 | number));
    let tags = prop_oneof![
        3 => Just(vec![]),
        4 => prop::collection::vec(tag.clone(), 1),
        1 => prop::collection::vec(tag, 2..4),
    ];
    let body = prop::sample::select(vec![
        frames::ethernet(0x88b5, &[0x5a; 46]),
        frames::ethernet(0x88b5, &[0x5a; 10]),
        frames::ethernet(0x0026, &[0x42, 0x42, 3, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        frames::arp(),
        frames::summed(frames::ethernet(0x0800, &frames::ipv4(6, 64, &frames::tcp(1, 2)))),
        frames::summed(frames::ethernet(0x0800, &frames::ipv4(17, 64, &frames::udp(1, 2)))),
        frames::summed(frames::ethernet(0x86dd, &frames::ipv6(17, &frames::udp(1, 2)))),
    ]);
    (body, tags, 1..3_u8, 3..5_u8).prop_map(|(mut frame, tags, from, to)| {
        (frame[5], frame[11]) = (to, from);
        for (kind, content) in tags.into_iter().rev() {
            let (kind, content) = (kind.to_be_bytes(), content.to_be_bytes());
            frame.splice(12..12, [kind[0], kind[1], content[0], content[1]]);
        }
        frame
    })
}

/// How frames ended.
#[derive(Debug, Default)]
struct Ended {
    passed: u64,
    bytes: [u64; 2],
    changed: usize,
    left: usize,
}

fn check(
    world: &mut World,
    [sender, receiver]: [&Packets; 2],
    ended: &mut Ended,
    (rules, mirrors, frames): (SwitchRules, Mirrors, Vec<Vec<u8>>),
) -> Result<(), TestCaseError> {
    world.flow.set_generation(world.flow.generation() + 1);
    // Each frame twice: what the first one brought about is there for the second.
    for frame in frames.iter().chain(&frames) {
        if !world.send(sender, frame) {
            prop_assert_eq!(world.at_tap(), &frame[..]);
            world.learn((&rules, &mirrors));
            ended.left += 1;
            continue;
        }
        let reference = direct(&rules, &mirrors, 1, 2, frame);
        prop_assert!(reference.is_some(), "{:?} {:02x?}", rules, frame);
        let Some(found) = reference else { continue };
        let expected = changed(frame, found.how);
        prop_assert_eq!(receiver.next_whole(BOUND), &expected[..], "{:?} {:02x?}", found, frame);
        ended.passed += 1;
        ended.changed += usize::from(found.how != Retag::Keep);
        for (sum, frame) in ended.bytes.iter_mut().zip([frame, &expected]) {
            *sum += frame.len() as u64;
        }
    }
    Ok(())
}

#[test]
fn frames_pass_as_the_rules_of_the_switch_say_or_come_to_the_tap() {
    root_only!("attaches BPF programs");
    let mut world = World::new();
    let (sender, receiver) = (world.station(1), world.station(2));
    let mut ended = Ended::default();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let cases = (rules(), mirrors(), prop::collection::vec(frame(), 6));
    let cell = std::cell::RefCell::new((&mut world, &mut ended));
    let ran = runner.run(&cases, |case| {
        let (world, ended) = &mut *cell.borrow_mut();
        check(world, [&sender, &receiver], ended, case)
    });
    ran.unwrap_or_else(|e| panic!("{e}"));
    assert!(ended.passed > 150 && ended.changed > 80 && ended.left > 300, "{ended:?}");
    let (one, other) = (world.flow.carried(1), world.flow.carried(2));
    assert_eq!((one.sent, one.sent_bytes, one.received), (ended.passed, ended.bytes[0], 0));
    assert_eq!((other.received, other.received_bytes), (ended.passed, ended.bytes[1]));
    assert_eq!(world.flow.stats().failed, 0);
}

#[test]
fn what_is_written_to_a_tap_leaves_by_its_port_and_a_port_that_goes_takes_no_frame() {
    root_only!("attaches BPF programs");
    let world = World::new();
    let station = world.station(2);
    let frame = frames::ethernet(0x88b5, &[0x5a; 46]);
    let written = [vec![0; relay::HEADER], frame.clone()].concat();
    assert_eq!(rustix::io::write(&world.taps[1], &written).unwrap(), written.len());
    assert_eq!(station.next_whole(BOUND), frame);
    // Another process finds the programs, and adds to them.
    let at = (inner(2), beside(2));
    world.core.run(|| {
        let again = Flow::reopen_beside(at).unwrap().unwrap();
        assert_eq!(again.ports().unwrap(), [(inner(1), 1), (inner(2), 2)]);
        let attacher = Attacher::of(again.programs().unwrap()).unwrap().unwrap();
        attacher.detach(at).unwrap();
        assert_eq!(attacher.ports().unwrap(), [(inner(1), 1)]);
        assert_eq!(rustix::io::write(&world.taps[1], &written).unwrap(), written.len());
        attacher.attach_tap(at).unwrap();
        attacher.attach(at, 9, Limit::default()).unwrap();
        assert_eq!(again.ports().unwrap(), [(inner(1), 1), (inner(2), 9)]);
    });
    // Programs of a switch that nobody can take over make way.
    world.core.run(|| {
        let other = Flow::create(&OPTIONS).unwrap();
        let attacher = Attacher::of(other.programs().unwrap()).unwrap().unwrap();
        attacher.attach_tap(at).unwrap();
        attacher.attach(at, 3, Limit::default()).unwrap();
        assert_eq!(attacher.ports().unwrap(), [(inner(2), 3)]);
        assert!(Flow::reopen_beside(at).unwrap().is_some());
    });
    let second = [&written[..], b"second"].concat();
    assert_eq!(rustix::io::write(&world.taps[1], &second).unwrap(), second.len());
    // The one between did not leave.
    assert_eq!(station.next_whole(BOUND), [&frame[..], b"second"].concat());
}
