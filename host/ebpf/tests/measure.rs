//! Points of a measurement: on test runs against the reference, and on real links.

use super::measure_support;
use super::support;
use super::traffic;

use std::io::BufRead;
use std::time::Duration;

use support::net::{NetNs, link};

use measure_support::frames;
use measure_support::model::{Kept, Model};
use measure_support::noise::Noise;
use measure_support::run::run;
use netloom_ebpf::measure::{Clock, Config, FlowBlock, Joined, Marking, Measure, points_at};
use netloom_ebpf::{Direction, Hook};
use netloom_kit::root_only;
use netloom_marking::session::{NamedFilter, Program, Sampling};
use netloom_marking::{
    Filter, HashFunction, Hasher, Marks, PayloadPart, Precedence, Profile, Schedule, Selection,
    match_samples,
};
use netloom_packet::checksum::checksum;

const START: u64 = 10_000_000;
const PERIOD: u64 = 1_000_000;
const GUARD: u64 = 100_000;
/// Verdict "on".
const NEXT: u32 = u32::MAX;

fn filter(text: [&str; 5]) -> Filter {
    let [src, dst, proto, from, to] = text;
    let given = |text: &str| (text != "*").then(|| text.to_owned());
    Filter {
        src_ip: given(src).map(|text| text.parse().unwrap()),
        dst_ip: given(dst).map(|text| text.parse().unwrap()),
        proto: given(proto).map(|text| text.parse().unwrap()),
        src_port: given(from).map(|text| text.parse().unwrap()),
        dst_port: given(to).map(|text| text.parse().unwrap()),
    }
}

/// Filters that overlap, with ids that are not their places.
fn filters() -> Vec<NamedFilter> {
    let all = [
        ["10.0.0.0/24", "*", "6", "1", "2"],
        ["10.0.1.1/32", "10.0.2.2/32", "17", "*", "3"],
        ["10.0.0.0/23", "10.0.0.0/16", "*", "*", "1"],
        ["fd00::/16", "*", "17", "*", "*"],
        ["*", "fd00::/63", "6", "2", "*"],
        ["10.0.2.0/24", "*", "1", "*", "*"],
        ["*", "*", "58", "*", "*"],
        ["10.0.1.0/24", "10.0.2.0/31", "*", "*", "*"],
        ["*", "*", "*", "3", "*"],
    ];
    (100..).zip(all).map(|(id, text)| NamedFilter { id, filter: filter(text) }).collect()
}

fn config(program: Program) -> Config {
    Config {
        program,
        schedule: Schedule::new(START, PERIOD, GUARD).unwrap(),
        marks: Marks::new(8, 16, 0x38, 0x20).unwrap(),
        filters: filters(),
        precedence: Precedence::First,
        joined: Vec::new(),
        sampling: None,
        marking: Marking::Off,
        clock: Clock::Frame,
        flows: 16,
        cache: 64,
        samples: 4096,
        stay: false,
    }
}

fn sampling(function: HashFunction, profile: Profile, length: u8, npkts: Option<u32>) -> Sampling {
    Sampling {
        hasher: Hasher { function, profile, seed: 0x1234_5678, payload: PayloadPart::default() },
        selection: Selection::new(function, 0x1_0003, length).unwrap(),
        npkts,
    }
}

pub(crate) fn stay_on_this_cpu() {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &cpus).unwrap();
}

/// Runs frames through a point and the reference, and compares all that they say.
fn compare(what: &str, config: &Config, seed: u64, frames: u64) {
    let mut noise = Noise::new(seed);
    // Each CPU has banks of its own; the reference is of one.
    stay_on_this_cpu();
    let mut point = Measure::load(Direction::Egress, config)
        .unwrap_or_else(|e| panic!("{what}: {e}: {:?}", std::error::Error::source(&e)));
    let mut model = Model::new(config);
    let classes = [8 << 2, 16 << 2, 8 << 2 | 2, 16 << 2 | 0x80, 0x83, 0, (16 << 2) | 4];
    let mut time = START - PERIOD;
    for n in 0..frames {
        let frame = frames::any(&mut noise, &classes);
        if !frames::is_taken(&frame) {
            continue;
        }
        time += noise.below(PERIOD * 12 / frames);
        // Some come late or early.
        let at = if noise.one_in(9) { time - noise.below(PERIOD * 2) } else { time };
        let expected = model.see(&frame, at);
        let ran = run(point.program(), &frame, at, 1);
        assert_eq!(ran.verdict, NEXT);
        assert_eq!(ran.bytes, expected, "{what}: frame {n}: {frame:02x?}");
        let mut counts = point.counts().unwrap();
        (counts.searched, counts.overflow) = (0, 0);
        assert_eq!(counts, model.counts, "{what}: frame {n} at {at}: {frame:02x?}");
    }
    let mut packets = 0;
    for block in 0..16 {
        for (index, flow) in point.read_bank(block).unwrap().into_iter().enumerate() {
            let mut expected = model.record(index, block);
            packets += expected.all.packets;
            expected.completeness = flow.record.completeness;
            if expected.all.packets + expected.late == 0 {
                // A block whose bank was taken, or that had nothing.
                assert_eq!(flow.record.all.packets, 0, "{what}");
                continue;
            }
            assert_eq!(flow.record, expected, "{what}: block {block} of flow {index}");
            compare_samples(what, &flow.sampled, model.kept(index, block));
        }
    }
    assert!(packets > frames / 20, "{what}: {packets} packets in blocks");
}

fn compare_samples(
    what: &str,
    found: &Option<netloom_ebpf::measure::Sampled>,
    expected: Option<Kept>,
) {
    let (selection, mut expected, crowded) = match &expected {
        None => return assert!(found.as_ref().is_none_or(|found| found.samples.is_empty())),
        Some(Kept::Fixed(selection, samples)) => (*selection, samples.clone(), false),
        Some(Kept::Dynamic(samples)) => {
            (samples.selection(), samples.kept().to_vec(), samples.crowded())
        }
    };
    let found = found.as_ref().expect("samples");
    expected.sort_by_key(|sample| sample.time);
    assert_eq!(found.samples, expected, "{what}");
    assert_eq!((found.selection, found.unkept, found.crowded), (selection, 0, crowded), "{what}");
}

#[test]
fn all_packets_are_counted_as_the_reference_does() {
    root_only!("runs BPF programs");
    for precedence in [Precedence::First, Precedence::Longest] {
        let config = Config { precedence, ..config(Program::All) };
        compare("all", &config, 1, 20_000);
    }
}

#[test]
fn marks_are_written_as_the_reference_does() {
    root_only!("runs BPF programs");
    for marking in [Marking::Single, Marking::Double] {
        for program in [Program::All, Program::Combined] {
            let config = Config { marking, ..config(program) };
            compare("marking", &config, 2, 10_000);
        }
    }
}

#[test]
fn hashes_and_samples_are_those_of_the_reference() {
    root_only!("runs BPF programs");
    traffic::insight_only!();
    let functions = [HashFunction::Bob, HashFunction::Ipsx, HashFunction::Crc32];
    let profiles = [Profile::Rfc5475, Profile::Source, Profile::Portable];
    let parts = [(0, 8), (4, 4), (3, 21), (0, 0), (12, 32)];
    for (n, function) in (0..).zip(functions) {
        for profile in profiles {
            for (offset, size) in parts {
                let mut sampling = sampling(function, profile, 1, None);
                sampling.hasher.payload = PayloadPart { offset, size };
                // Without a seed CRC-32 has no private string behind it.
                if function == HashFunction::Crc32 && offset == 0 {
                    sampling.hasher.seed = 0;
                }
                let what = format!("{function:?} {profile:?} {offset} {size}");
                let sampling = Some(sampling);
                let config = Config { sampling, ..config(Program::Fixed) };
                compare(&what, &config, 3 + n, 3_000);
            }
        }
    }
}

#[test]
fn dynamic_lengths_are_those_of_the_reference() {
    root_only!("runs BPF programs");
    traffic::insight_only!();
    for (seed, most) in [(7, 2), (8, 5), (9, 16), (10, 100)] {
        for function in [HashFunction::Bob, HashFunction::Ipsx, HashFunction::Crc32] {
            let sampling = Some(sampling(function, Profile::Portable, 0, Some(most)));
            let config = Config { sampling, ..config(Program::Dynamic) };
            compare(&format!("dynamic {function:?} {most}"), &config, seed, 6_000);
        }
    }
}

#[test]
fn empty_counts_nothing() {
    root_only!("runs BPF programs");
    let point = Measure::load(Direction::Ingress, &config(Program::Empty)).unwrap();
    let frame = frames::udp(8 << 2, [[10, 0, 0, 1], [10, 0, 0, 2]], [1, 1]);
    assert_eq!(run(point.program(), &frame, START, 1).verdict, NEXT);
    assert_eq!(point.counts().unwrap(), Default::default());
}

const NEAR: u32 = 2;
const FAR: u32 = 3;
const BOUND: Duration = Duration::from_secs(20);
const SECOND: u64 = 1_000_000_000;

/// Two namespaces with a link, a point that marks where it begins and one where it ends.
struct Way {
    near: NetNs,
    far: NetNs,
    sender: Measure,
    receiver: Measure,
}

impl Way {
    /// Points whose blocks last half a second and began a while ago.
    fn new(program: Program, sampling: Option<Sampling>, clock: Clock) -> Way {
        let (near, far) = (NetNs::create(), NetNs::create());
        link(near.end(NEAR), far.end(FAR));
        near.address(NEAR, [10, 7, 0, 1]);
        far.address(FAR, [10, 7, 0, 2]);
        let named = |id, text| NamedFilter { id, filter: filter(text) };
        let config = Config {
            schedule: Schedule::new(SECOND, SECOND / 2, SECOND / 8).unwrap(),
            filters: vec![
                named(1, ["10.7.0.1/32", "10.7.0.0/24", "6", "*", "*"]),
                named(2, ["10.7.0.1/32", "*", "17", "*", "5000"]),
            ],
            sampling,
            clock,
            ..config(program)
        };
        let marking = Config { marking: Marking::Double, ..config.clone() };
        let sender = near.run(|| Measure::attach(NEAR, Direction::Egress, &marking).unwrap());
        let receiver = far.run(|| Measure::attach(FAR, Direction::Ingress, &config).unwrap());
        Way { near, far, sender, receiver }
    }

    /// The records of both ends of all blocks until `traffic` has sent what it sends. Each is read when it is
    /// final: four later its place is another's.
    fn blocks(&mut self, traffic: impl FnOnce(&NetNs, &NetNs) + Send) -> Vec<[Vec<FlowBlock>; 2]> {
        let Way { near, far, sender, receiver } = self;
        let block = |time: u64| (time - SECOND) / (SECOND / 2);
        let mut next = block(sender.now());
        let mut found = Vec::new();
        std::thread::scope(|scope| {
            let traffic = scope.spawn(|| traffic(near, far));
            let mut last = None;
            while last.is_none_or(|last| next <= last) {
                let ready = receiver.readable_at(next);
                netloom_kit::wait_until("a block is final", BOUND, || {
                    (sender.now() > ready).then_some(())
                });
                found.push([&mut *sender, &mut *receiver].map(|p| p.read_bank(next).unwrap()));
                next += 1;
                if last.is_none() && traffic.is_finished() {
                    last = Some(block(sender.now()));
                }
            }
        });
        found
    }
}

/// Packets of a flow in all blocks, at each end; every block has the same at both but for `lost`.
fn packets(blocks: &[[Vec<FlowBlock>; 2]], flow: usize) -> [u64; 2] {
    let of = |end: usize| blocks.iter().map(|ends| ends[end][flow].record.all.packets).sum();
    [of(0), of(1)]
}

#[test]
fn super_frames_are_counted_by_their_segments() {
    root_only!("attaches BPF programs");
    let _kept = netloom_kit::tai_kept();
    let mut way = Way::new(Program::All, None, Clock::Tai);
    let near = way.near.run(|| support::packet::Packets::open_all(NEAR));
    let blocks =
        way.blocks(|near, far| traffic::tcp(near, far, [10, 7, 0, 2].into(), 5000, 60_000));
    let mut segments = 0;
    let mut supers = 0;
    while let Some(seen) = near.next() {
        let ip = &seen.bytes[14..];
        if seen.kind == libc::PACKET_OUTGOING && ip[0] == 0x45 && ip[9] == 6 {
            let data = ip.len() - 20 - usize::from(ip[32] >> 4) * 4;
            segments += u64::try_from(data.div_ceil(1448).max(1)).unwrap();
            supers += u64::from(data > 1448);
        }
    }
    assert!(supers > 0, "no super-frame was sent");
    assert_eq!(packets(&blocks, 0), [segments; 2]);
    for [sent, received] in &blocks {
        let compared = netloom_marking::compare(&sent[0].record, &received[0].record).unwrap();
        assert_eq!((compared.lost, compared.gained), (0, 0));
        assert_eq!(sent[0].record.bytes, received[0].record.bytes);
    }
    assert_eq!(way.receiver.counts().unwrap().unmarked, 0);
}

#[test]
fn loss_is_counted_to_the_packet() {
    root_only!("attaches BPF programs");
    let bob = sampling(HashFunction::Bob, Profile::Portable, 0, None);
    let mut way = Way::new(Program::Combined, Some(bob), Clock::Monotonic);
    let dropper = way.far.run(|| traffic::Dropper::attach(FAR, 7));
    let start = std::time::Instant::now();
    let blocks = way.blocks(|near, far| {
        // The neighbour is asked for by frames that are not counted, and may be dropped.
        traffic::udp(near, ([10, 7, 0, 2].into(), 5000), 700, 300);
        traffic::tcp(near, far, [10, 7, 0, 2].into(), 5001, 200_000);
    });
    let longest = i64::try_from(start.elapsed().as_nanos()).unwrap();
    let [sent, received] = [0, 1]
        .map(|flow| packets(&blocks, flow))
        .into_iter()
        .fold([0, 0], |[sent, received], [s, r]| [sent + s, received + r]);
    let (came, dropped) = dropper.counts();
    let others = way.receiver.counts().unwrap();
    // Frames outside of the flow were dropped by the same rule: passed frames of other kinds are known.
    let known = way.sender.counts().unwrap();
    let strangers = known.other + known.unmatched - others.other - others.unmatched;
    assert_eq!(sent - received, dropped - strangers);
    assert_eq!(came, received + others.other + others.unmatched + dropped);
    let mut matched = 0;
    for ends in &blocks {
        for (sent, received) in ends[0].iter().zip(&ends[1]) {
            let lists = [sent, received].map(|end| {
                let sampled = end.sampled.as_ref().unwrap();
                (sampled.selection, &sampled.samples[..])
            });
            let both = match_samples(lists[0], lists[1]);
            let lost = sent.record.all.packets - received.record.all.packets;
            assert_eq!((both.lost, both.gained), (lost, 0), "{sent:?}");
            assert_eq!(sent.record.unhashable, 0);
            assert!(both.delays.iter().all(|delay| (0..longest).contains(delay)));
            matched += both.delays.len() as u64 + both.ambiguous;
        }
    }
    assert_eq!(matched, received);
}

#[test]
fn marks_are_seen_at_the_far_end_with_right_checksums() {
    root_only!("attaches BPF programs");
    let _kept = netloom_kit::tai_kept();
    let way = Way::new(Program::All, None, Clock::Tai);
    let far = way.far.run(|| support::packet::Packets::open_all(FAR));
    let start = std::time::Instant::now();
    traffic::udp(&way.near, ([10, 7, 0, 2].into(), 5000), 50, 100);
    traffic::udp(&way.near, ([10, 7, 0, 2].into(), 6000), 5, 100);
    let (mut marked, mut others, mut twice) = (0, 0, 0);
    // The first may wait for their neighbour when the last is sent.
    while marked + others < 55 {
        let seen = far.collect(1, BOUND).remove(0);
        let ip = &seen.bytes[14..];
        if seen.bytes[12..14] != [8, 0] || ip[9] != 17 {
            continue;
        }
        assert_eq!(checksum(&ip[..20]), 0);
        let dscp = ip[1] >> 2;
        if ip[22..24] == 5000u16.to_be_bytes() {
            assert!(matches!(dscp & !0x20, 8 | 16), "{dscp}");
            marked += 1;
            twice += u32::from(dscp & 0x20 != 0);
        } else {
            assert_eq!(dscp, 0);
            others += 1;
        }
    }
    assert_eq!((marked, others), (50, 5));
    // One of each block, of two at least.
    assert!(u128::from(twice) <= 2 + start.elapsed().as_millis() / 500, "{twice}");
}

#[test]
fn filters_are_replaced_while_flows_are_known() {
    root_only!("runs BPF programs");
    stay_on_this_cpu();
    let mut point = Measure::load(Direction::Ingress, &config(Program::All)).unwrap();
    let frame = frames::udp(8 << 2, [[10, 1, 0, 1], [10, 0, 0, 2]], [1, 1]);
    let see = |point: &Measure| {
        run(point.program(), &frame, START, 1);
        point.counts().unwrap()
    };
    assert_eq!((see(&point).unmatched, see(&point).searched), (1, 1));
    let all = NamedFilter { id: 7, filter: Filter::default() };
    point.set_filters(&[all], Precedence::First).unwrap();
    assert_eq!((see(&point).unmatched, see(&point).searched), (2, 2));
    let blocks = point.read_bank(0).unwrap();
    assert_eq!((blocks.len(), blocks[0].id, blocks[0].record.all.packets), (1, 7, 2));
    // An id with the same filter goes on; with the same filter twice nothing is done.
    let other = NamedFilter { id: 8, filter: filter(["*", "*", "6", "*", "*"]) };
    point.set_filters(&[other, all], Precedence::First).unwrap();
    assert!(point.set_filters(&[all, all], Precedence::First).is_err());
    see(&point);
    let blocks = point.read_bank(0).unwrap();
    assert_eq!(
        blocks.iter().map(|b| (b.id, b.record.all.packets)).collect::<Vec<_>>(),
        [(8, 0), (7, 3)]
    );
    point.set_filters(&[other], Precedence::First).unwrap();
    point.set_filters(&[other, all], Precedence::First).unwrap();
    assert_eq!(point.read_bank(0).unwrap()[1].record.all.packets, 0);
}

#[test]
fn filters_of_one_number_are_one_flow_and_some_are_only_counted() {
    root_only!("runs BPF programs");
    stay_on_this_cpu();
    let named = |id, text| NamedFilter { id, filter: filter(text) };
    let filters = vec![
        named(5, ["10.0.0.0/8", "*", "17", "*", "*"]),
        named(NamedFilter::ASIDE, ["fd01::/16", "*", "*", "*", "*"]),
        named(9, ["*", "*", "132", "*", "*"]),
        named(5, ["fd00::/16", "*", "17", "*", "*"]),
        named(NamedFilter::ASIDE, ["10.0.0.0/8", "*", "6", "*", "*"]),
    ];
    let six = |first: u8| [[0xfd, first, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]; 2];
    let four = [[10, 0, 0, 1], [10, 0, 0, 2]];
    let config = Config { marking: Marking::Single, filters, ..config(Program::All) };
    let mut point = Measure::load(Direction::Egress, &config).unwrap();
    let mut super_frame = frames::tcp(0, four, [1, 2], 3);
    (super_frame.gso_size, super_frame.gso_segs) = (2, 3);
    for (frame, times, marked) in [
        (frames::udp(0, four, [1, 2]), 3, true),
        (frames::udp6(0, six(0), [1, 2]), 4, true),
        (frames::udp6(0, six(1), [1, 2]), 5, false),
        (super_frame, 2, false),
        (frames::tcp6(0, six(0), [1, 2], 0), 1, false),
    ] {
        for _ in 0..times {
            let ran = run(point.program(), &frame, START, 1);
            assert_eq!(ran.bytes != frame.bytes, marked, "{frame:02x?}");
        }
    }
    let flows = point.read_bank(0).unwrap();
    let found: Vec<_> = flows.iter().map(|flow| (flow.id, flow.record.all.packets)).collect();
    assert_eq!(found, [(5, 7), (9, 0)]);
    let counts = point.counts().unwrap();
    assert_eq!((counts.aside, counts.unmatched, counts.unmarked), (5 + 2 * 3, 1, 0));
}

#[test]
fn a_full_cache_is_counted_and_changes_nothing() {
    root_only!("runs BPF programs");
    stay_on_this_cpu();
    let all = NamedFilter { id: 1, filter: Filter::default() };
    let config = Config { cache: 8, filters: vec![all], ..config(Program::All) };
    let mut point = Measure::load(Direction::Ingress, &config).unwrap();
    for _ in 0..2 {
        for port in 0..3000 {
            let frame = frames::udp(8 << 2, [[10, 1, 0, 1], [10, 0, 0, 2]], [port, 1]);
            run(point.program(), &frame, START, 1);
        }
    }
    assert!(point.counts().unwrap().overflow > 3000, "{:?}", point.counts());
    assert_eq!(point.read_bank(0).unwrap()[0].record.all.packets, 6000);
    point.forget_flows().unwrap();
}

#[test]
fn an_interface_that_goes_is_noticed() {
    root_only!("attaches BPF programs");
    let Way { near, far, mut receiver, sender } = Way::new(Program::All, None, Clock::Tai);
    assert!(receiver.is_attached() && sender.is_attached());
    near.change(|batch| {
        batch.push("link", &netloom_netlink::DeleteLink(netloom_netlink::LinkRef::Index(NEAR)))
    });
    netloom_kit::wait_until("it is gone", BOUND, || (!receiver.is_attached()).then_some(()));
    assert!(receiver.read_bank(0).unwrap()[0].record.completeness.interface_gone);
    drop(far);
}

/// The hooks of this kernel.
fn hooks() -> Vec<Hook> {
    let tcx = netloom_ebpf::feature::tcx_supported().map(|()| Hook::Tcx);
    let clsact = netloom_ebpf::feature::clsact_supported().map(|()| Hook::Clsact);
    [tcx, clsact].into_iter().flatten().collect()
}

/// In its environment the next helper finds the hook.
const HELD_BY: &str = "NETLOOM_TEST_HELD_BY";

/// The body of a process that the next test kills: attaches and waits.
#[test]
#[ignore = "helper: started by other tests"]
fn held_by_another_process() {
    let hook = std::env::var(HELD_BY).unwrap();
    let hook = if hook == "Tcx" { Hook::Tcx } else { Hook::Clsact };
    let config = config(Program::All);
    let _point = Measure::attach_by(hook, FAR, Direction::Ingress, &config).unwrap();
    println!("attached");
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn what_a_killed_process_left_goes_at_once_or_with_the_next() {
    root_only!("attaches BPF programs");
    for hook in hooks() {
        let (near, far) = (NetNs::create(), NetNs::create());
        link(near.end(NEAR), far.end(FAR));
        let mut child = far.run(|| {
            netloom_kit::again(&held_by_another_process)
                .env(HELD_BY, format!("{hook:?}"))
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        });
        let mut said = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("attached")));
        let points = || far.run(|| points_at(FAR)).unwrap();
        let attach =
            |config: Config| far.run(|| Measure::attach_by(hook, FAR, Direction::Ingress, &config));
        assert_eq!(points(), 1);
        // What a living process has stays its own.
        drop(attach(config(Program::All)).unwrap());
        assert_eq!(points(), 1);
        child.kill().unwrap();
        child.wait().unwrap();
        if hook == Hook::Tcx {
            let gone = || (points() == 0).then_some(());
            netloom_kit::wait_until("the program is gone", BOUND, gone);
        }
        let next = attach(config(Program::All)).unwrap();
        assert_eq!(points(), 1, "{hook:?}");
        drop(next);
        assert_eq!(points(), 0, "{hook:?}");
        // One that is asked to stay stays.
        drop(attach(Config { stay: true, ..config(Program::All) }).unwrap());
        assert_eq!(points(), 1, "{hook:?}");
    }
}

#[test]
fn clsact_counts_and_is_taken_off() {
    root_only!("attaches BPF programs");
    if let Err(missing) = netloom_ebpf::feature::clsact_supported() {
        netloom_kit::lacks!("clsact", "{missing}");
    }
    let (near, far) = (NetNs::create(), NetNs::create());
    link(near.end(NEAR), far.end(FAR));
    near.address(NEAR, [10, 7, 0, 1]);
    far.address(FAR, [10, 7, 0, 2]);
    let config = Config { clock: Clock::Tai, filters: Vec::new(), ..config(Program::All) };
    // Somebody else's, where the first of ours would be.
    let foreign = traffic::Foreign::attach(&far, FAR, 40);
    let theirs = foreign.program();
    let attach =
        || far.run(|| Measure::attach_by(Hook::Clsact, FAR, Direction::Ingress, &config)).unwrap();
    let unmatched = |point: &Measure| point.counts().unwrap().unmatched;
    // Sends, and waits until all has come: the first wait for their neighbour.
    let send = |datagrams: u32, seen_by: &[&Measure]| {
        let counts = || seen_by.iter().copied().map(unmatched).collect::<Vec<u64>>();
        let all: Vec<u64> = counts().iter().map(|count| count + u64::from(datagrams)).collect();
        traffic::udp(&near, ([10, 7, 0, 2].into(), 5000), datagrams, 100);
        let come = || (counts() == all).then_some(());
        netloom_kit::wait_until("datagrams have come", BOUND, come);
    };
    let first = attach();
    send(40, &[&first]);
    let second = attach();
    send(3, &[&first, &second]);
    assert_eq!([&first, &second].map(unmatched), [43, 3]);
    drop(first);
    send(2, &[&second]);
    assert_eq!(unmatched(&second), 5);
    let third = attach();
    send(1, &[&second, &third]);
    assert_eq!([&second, &third].map(unmatched), [6, 1]);
    drop((second, third));
    assert_eq!(far.run(|| points_at(FAR)).unwrap(), 0);
    assert_eq!(foreign.program(), theirs);
}

#[test]
fn this_machine_measures_or_says_what_it_lacks() {
    match netloom_ebpf::feature::measure_supported(Clock::Tai) {
        Ok(_) => assert!(netloom_kit::is_root()),
        Err(missing) => assert!(!netloom_kit::is_root(), "{missing}"),
    }
}

#[test]
fn a_flow_that_joins_counts_from_its_first_block_on() {
    root_only!("loads BPF programs");
    stay_on_this_cpu();
    let named = |id, text| NamedFilter { id, filter: filter(text) };
    let rest = named(1, ["*", "*", "17", "*", "*"]);
    let own = named(2, ["*", "*", "17", "*", "5000"]);
    for marking in [Marking::Off, Marking::Single] {
        let config = Config { filters: vec![rest], flows: 2, marking, ..config(Program::All) };
        let mut point = Measure::load(Direction::Egress, &config).unwrap();
        let frame = |block: u64| {
            let class = if block.is_multiple_of(2) { 8 << 2 } else { 16 << 2 };
            frames::udp(class, [[10, 0, 0, 1], [10, 0, 0, 2]], [4000, 5000])
        };
        let see = |point: &Measure, block: u64| {
            let ran = run(point.program(), &frame(block), START + block * PERIOD + PERIOD / 2, 1);
            assert_eq!(ran.verdict, NEXT);
        };
        see(&point, 0);
        let joined = Joined { id: 2, from: 2, before: 1 };
        point.set_flows(&[own, rest], &[joined], Precedence::First).unwrap();
        // One late of block 1 comes between those of block 2.
        for block in [1, 2, 1, 2, 2, 3] {
            see(&point, block);
        }
        let mut counted = |block: u64| -> Vec<(u32, u64)> {
            let flows = point.read_bank(block).unwrap();
            flows.iter().map(|flow| (flow.id, flow.record.all.packets)).collect()
        };
        assert_eq!(counted(0), [(2, 0), (1, 1)], "{marking:?}");
        assert_eq!(counted(1), [(2, 0), (1, 2)], "{marking:?}");
        assert_eq!(counted(2), [(2, 3), (1, 0)], "{marking:?}");
        assert_eq!(counted(3), [(2, 1), (1, 0)], "{marking:?}");
        // No room, and nothing to join.
        let third = named(3, ["*", "*", "17", "*", "5001"]);
        assert!(point.set_flows(&[third, own, rest], &[joined], Precedence::First).is_err());
        assert!(point.set_flows(&[own], &[joined], Precedence::First).is_err());
    }
}

#[test]
fn a_point_counts_nothing_before_it_is_told_when_to_begin() {
    root_only!("loads BPF programs");
    let never = Schedule::new(u64::MAX / 2, PERIOD, GUARD).unwrap();
    let filters = vec![NamedFilter { id: 1, filter: filter(["*", "*", "17", "*", "*"]) }];
    let marking = Marking::Single;
    let config = Config { schedule: never, filters, marking, ..config(Program::All) };
    let mut point = Measure::load(Direction::Egress, &config).unwrap();
    let frame = frames::udp(8 << 2, [[10, 0, 0, 1], [10, 0, 0, 2]], [4000, 5000]);
    let plain = frames::udp(0, [[10, 0, 0, 1], [10, 0, 0, 2]], [4000, 5000]);
    assert_eq!(run(point.program(), &plain, START, 1).bytes, plain.bytes, "it is not marked");
    run(point.program(), &frame, START, 1);
    assert_eq!(point.counts().unwrap().outside, 1);
    point.begin_at(START).unwrap();
    assert_ne!(run(point.program(), &plain, START, 1).bytes, plain.bytes);
    let packets =
        |flows: Vec<FlowBlock>| -> u64 { flows.iter().map(|flow| flow.record.all.packets).sum() };
    assert_eq!(packets(point.read_bank(0).unwrap()), 1);
}
