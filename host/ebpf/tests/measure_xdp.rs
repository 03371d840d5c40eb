//! Points at a card's entrance (XDP): equal to those of traffic control, and good neighbours.

use super::measure_support;
use super::support;
use super::traffic;

use std::time::Duration;

use support::net::{NetNs, link};

use measure_support::frames;
use measure_support::noise::Noise;
use netloom_ebpf::measure::{Clock, Config, Counts, FlowBlock, Marking, Measure, Trial};
use netloom_ebpf::{Direction, Error};
use netloom_kit::root_only;
use netloom_marking::session::{NamedFilter, Program, Sampling};
use netloom_marking::{
    Filter, HashFunction, Hasher, Marks, PayloadPart, Precedence, Profile, Schedule, Selection,
};

const NEAR: u32 = 2;
const FAR: u32 = 3;
const BOUND: Duration = Duration::from_secs(20);
/// Blocks that last longer than a test.
const HOUR: u64 = 3_600_000_000_000;

fn filters() -> Vec<NamedFilter> {
    let all = [
        (1, Filter { proto: Some(6), ..Filter::default() }),
        (2, Filter { src_ip: Some("10.0.0.0/23".parse().unwrap()), ..Filter::default() }),
        (3, Filter { dst_port: Some(2), ..Filter::default() }),
        (4, Filter { proto: Some(17), ..Filter::default() }),
    ];
    all.map(|(id, filter)| NamedFilter { id, filter }).to_vec()
}

fn config(program: Program, function: HashFunction, profile: Profile) -> Config {
    let hasher = Hasher { function, profile, seed: 9, payload: PayloadPart::default() };
    Config {
        program,
        // In the middle of block 0, so that both marks are of a block that counts. By TAI there was time
        // before, however short ago the machine was started.
        schedule: Schedule::new(netloom_sys::clock::tai() - HOUR / 2, HOUR, HOUR / 4).unwrap(),
        marks: Marks::new(0, 16, 0x38, 0x20).unwrap(),
        filters: filters(),
        precedence: Precedence::First,
        joined: Vec::new(),
        sampling: Some(Sampling {
            hasher,
            selection: Selection::new(function, 0, 1).unwrap(),
            npkts: None,
        }),
        marking: Marking::Off,
        clock: Clock::Tai,
        flows: 0,
        cache: 4096,
        samples: 20_000,
        stay: false,
    }
}

/// Of a flow: its id, what was counted, hashes and identities of samples.
type Essence = (u32, [u64; 5], Vec<(u32, u32)>);

/// What does not depend on when it was.
fn essence(blocks: Vec<FlowBlock>) -> Vec<Essence> {
    let of = |block: FlowBlock| {
        let record = &block.record;
        let counts = [
            record.all.packets,
            record.double.packets,
            record.bytes,
            record.late,
            record.unhashable,
        ];
        let sampled = block.sampled.map(|sampled| sampled.samples).unwrap_or_default();
        let mut hashes: Vec<_> = sampled.iter().map(|s| (s.hash, s.identity)).collect();
        hashes.sort_unstable();
        (block.id, counts, hashes)
    };
    blocks.into_iter().map(of).collect()
}

fn both_banks(point: &mut Measure) -> Vec<Essence> {
    (0..2).flat_map(|block| essence(point.read_bank(block).unwrap())).collect()
}

fn seen(point: &Measure) -> Counts {
    Counts { searched: 0, overflow: 0, ..point.counts().unwrap() }
}

#[test]
fn frames_are_seen_as_by_traffic_control() {
    root_only!("runs BPF programs");
    traffic::insight_only!();
    let kinds = [
        (Program::All, HashFunction::Bob, Profile::Portable),
        (Program::Fixed, HashFunction::Bob, Profile::Portable),
        (Program::Fixed, HashFunction::Crc32, Profile::Rfc5475),
        (Program::Fixed, HashFunction::Ipsx, Profile::Source),
    ];
    for (seed, (program, function, profile)) in (30..).zip(kinds) {
        let config = config(program, function, profile);
        let mut tc = Trial::load(&config, Direction::Ingress).unwrap();
        let mut xdp = Trial::load_xdp(&config)
            .unwrap_or_else(|e| panic!("{e}: {:?}", std::error::Error::source(&e)));
        let mut noise = Noise::new(seed);
        let classes = [0, 16 << 2, 0x80, 16 << 2 | 0x80, 4];
        for n in 0..4000 {
            let frame = frames::any(&mut noise, &classes);
            if !frames::is_taken(&frame) {
                continue;
            }
            tc.run(&frame.bytes, None, 0, 1).unwrap();
            let passed = xdp.run(&frame.bytes, None, 0, 1).unwrap();
            assert_eq!((passed.verdict, &passed.bytes), (2, &frame.bytes));
            let [by_tc, by_xdp] = [&mut tc, &mut xdp].map(|trial| seen(trial.point()));
            assert_eq!(by_xdp, by_tc, "{function:?} frame {n}: {:02x?}", frame.bytes);
        }
        let found = both_banks(tc.point());
        assert!(found.iter().map(|(_, counts, _)| counts[0]).sum::<u64>() > 500);
        assert_eq!(both_banks(xdp.point()), found);
    }
}

/// The XDP program of an interface of the calling thread's namespace; 0: none.
fn xdp_at(ifindex: u32) -> u32 {
    let mut id = 0;
    let index = i32::try_from(ifindex).unwrap();
    // SAFETY: the id is ours and outlives the call.
    let refused = unsafe { libbpf_sys::bpf_xdp_query_id(index, 0, &raw mut id) };
    assert_eq!(refused, 0);
    id
}

#[test]
fn a_card_is_measured_as_its_interface_and_let_go() {
    root_only!("attaches BPF programs");
    let (near, far) = (NetNs::create(), NetNs::create());
    link(near.end(NEAR), far.end(FAR));
    near.address(NEAR, [10, 7, 0, 1]);
    far.address(FAR, [10, 7, 0, 2]);
    let config = config(Program::Combined, HashFunction::Bob, Profile::Portable);
    let mut xdp = far.run(|| Measure::attach_xdp(FAR, &config).unwrap());
    let mut tc = far.run(|| Measure::attach(FAR, Direction::Ingress, &config).unwrap());
    // One more is refused, by name.
    let again = far.run(|| Measure::attach_xdp(FAR, &config).unwrap_err());
    assert!(matches!(again, Error::Exists { .. }), "{again}");
    // A queue of the card holds 256: more are sent when these have been counted.
    for part in 1..=5 {
        traffic::udp(&near, ([10, 7, 0, 2].into(), 5000), 100, 300);
        netloom_kit::wait_until("datagrams are counted", BOUND, || {
            (both_banks(&mut tc)[3].1[0] >= part * 100).then_some(())
        });
    }
    traffic::tcp(&near, &far, [10, 7, 0, 2].into(), 5001, 200_000);
    let found = both_banks(&mut tc);
    assert!(found[0].1[0] > 100 && found[3].1[0] == 500, "{found:?}");
    assert_eq!(both_banks(&mut xdp), found);
    assert_eq!(seen(&xdp), seen(&tc));
    assert!(xdp.is_attached());
    assert_ne!(far.run(|| xdp_at(FAR)), 0);
    drop(xdp);
    assert_eq!(far.run(|| xdp_at(FAR)), 0);
    // It goes with its interface, too.
    let point = far.run(|| Measure::attach_xdp(FAR, &config).unwrap());
    near.change(|batch| {
        batch.push("link", &netloom_netlink::DeleteLink(netloom_netlink::LinkRef::Index(NEAR)))
    });
    netloom_kit::wait_until("it is gone", BOUND, || (!point.is_attached()).then_some(()));
}

#[test]
fn what_xdp_cannot_is_refused() {
    root_only!("attaches BPF programs");
    let space = NetNs::create();
    let plain = config(Program::All, HashFunction::Bob, Profile::Portable);
    for config in [
        Config { marking: Marking::Single, ..plain.clone() },
        Config { stay: true, ..plain.clone() },
    ] {
        let refused = space.run(|| Measure::attach_xdp(1, &config).unwrap_err());
        assert!(matches!(refused, Error::Unknown { .. }), "{refused}");
    }
}
