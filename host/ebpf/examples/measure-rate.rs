//! What a point costs: nanoseconds for a packet, less those of the empty program.
//!
//! To be run by hand, alone on the machine:
//! `cargo run --release -p netloom-ebpf --example measure-rate`, as root.

#[path = "../tests/measure_support/mod.rs"]
mod measure_support;

use measure_support::frames::{Frame, tcp, udp};
use measure_support::run::run;
use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, Config, Marking, Measure};
use netloom_marking::session::{NamedFilter, Program, Sampling};
use netloom_marking::{
    Filter, HashFunction, Hasher, Marks, PayloadPart, Precedence, Profile, Schedule, Selection,
};

const REPEAT: i32 = 1_000_000;
const ENDS: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
/// The starter's mark and the next's.
const MARKED: [u8; 2] = [8 << 2, 16 << 2];

fn config(filters: u32, program: Program, sampling: Option<Sampling>) -> Config {
    let period = 1_000_000_000;
    let filter = |id: u32| NamedFilter {
        id,
        filter: Filter {
            src_ip: Some("10.0.0.1/32".parse().unwrap()),
            dst_ip: Some("10.0.0.2/32".parse().unwrap()),
            proto: Some(6),
            src_port: Some(u16::try_from(1000 + id).unwrap()),
            dst_port: Some(80),
        },
    };
    Config {
        program,
        // So long ago that blocks have large numbers.
        schedule: Schedule::new(period, period, 400_000_000).unwrap(),
        marks: Marks::new(8, 16, 63, 0).unwrap(),
        filters: (0..filters).map(filter).collect(),
        precedence: Precedence::First,
        sampling,
        marking: Marking::Off,
        clock: Clock::Tai,
        flows: 0,
        cache: 65_536,
        samples: 64,
        stay: false,
    }
}

fn sampling(function: HashFunction, length: u8, npkts: Option<u32>) -> Sampling {
    Sampling {
        hasher: Hasher {
            function,
            profile: Profile::Portable,
            seed: 7,
            payload: PayloadPart::default(),
        },
        selection: Selection::new(function, 1, length).unwrap(),
        npkts,
    }
}

/// The least of several runs, in nanoseconds.
fn cost(point: &Measure, frame: &Frame) -> f64 {
    let runs = (0..7).map(|_| run(point.program(), frame, 0, REPEAT).duration);
    f64::from(runs.min().unwrap())
}

/// The same over packets that differ, so that selection sees many hashes.
fn spread(point: &Measure) -> f64 {
    let frame = |n: u32| tcp(MARKED[0], ENDS, [1000, 80], n.wrapping_mul(1448 * 7919));
    let least = |n: u32| {
        let runs = (0..9).map(|_| run(point.program(), &frame(n), 0, 4096).duration);
        f64::from(runs.min().unwrap())
    };
    (0..256).map(least).sum::<f64>() / 256.0
}

fn load(direction: Direction, config: &Config) -> Measure {
    Measure::load(direction, config).unwrap()
}

fn main() {
    let hit = tcp(MARKED[0], ENDS, [1000, 80], 1);
    let miss = udp(MARKED[0], ENDS, [1000, 81]);
    let ingress = |config: &Config| load(Direction::Ingress, config);
    let empty = cost(&ingress(&config(1, Program::Empty, None)), &hit);
    println!("empty {empty}");
    for clock in [Clock::Tai, Clock::Monotonic] {
        for filters in [1, 10, 1000, 10_000] {
            let point = ingress(&Config { clock, ..config(filters, Program::All, None) });
            let [unmatched, matched] = [&miss, &hit].map(|frame| cost(&point, frame) - empty);
            println!("{clock:?} {filters} filters: unmatched {unmatched}, matched {matched}");
        }
    }
    let all = ingress(&config(1, Program::All, None));
    let all = spread(&all) - empty;
    println!("program 1 over 256 packets: {all:.1}");
    for function in [HashFunction::Bob, HashFunction::Ipsx, HashFunction::Crc32] {
        let point = ingress(&config(1, Program::Fixed, Some(sampling(function, 6, None))));
        let fixed = spread(&point) - empty;
        println!("program 2, {function:?}, length 6: {fixed:.1}, of program 1: {:.2}", fixed / all);
        let dynamic = sampling(function, 0, Some(64));
        let point = ingress(&config(1, Program::Dynamic, Some(dynamic)));
        println!("program 3, {function:?}, 64 samples: {:.1}", spread(&point) - empty);
    }
    let point = ingress(&config(1, Program::Combined, None));
    println!("program 4 without hash: {:.1}", cost(&point, &hit) - empty);
    let marking = Config { marking: Marking::Single, ..config(1, Program::All, None) };
    let point = load(Direction::Egress, &marking);
    println!("marking, program 1: {:.1}", cost(&point, &hit) - empty);
}
