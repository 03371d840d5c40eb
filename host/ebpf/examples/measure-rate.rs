//! What a point costs: a table of nanoseconds for a packet, less those of the empty program.
//!
//! To be run by hand, alone on the machine:
//! `cargo run --release -p netloom-ebpf --example measure-rate`, as root. Figures are the least of several
//! runs of the kernel over one frame; those with samples are the mean over packets that differ.

#[path = "../tests/measure_support/mod.rs"]
mod measure_support;

use measure_support::frames::{Frame, tcp, tcp6, udp, udp6};
use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, Config, Marking, Trial};
use netloom_marking::session::{NamedFilter, Program, Sampling};
use netloom_marking::{
    Filter, HashFunction, Hasher, Marks, PayloadPart, Precedence, Profile, Schedule, Selection,
};

const REPEAT: u32 = 1_000_000;
const ROUNDS: u32 = 5;
/// Packets that differ, and runs over each.
const PACKETS: u32 = 64;
const FEW: u32 = 50_000;
/// The starter's mark.
const MARKED: u8 = 8 << 2;
const ENDS: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
const ENDS6: [[u8; 16]; 2] = [address(1), address(2)];

const fn address(last: u8) -> [u8; 16] {
    [0xfd, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, last]
}

/// A family's frames and filters.
#[derive(Clone, Copy)]
struct Family {
    ends: [&'static str; 2],
    hit: fn(u16, u32) -> Frame,
    miss: fn() -> Frame,
}

const FAMILIES: [Family; 2] = [
    Family {
        ends: ["10.0.0.1/32", "10.0.0.2/32"],
        hit: |port, sequence| tcp(MARKED, ENDS, [port, 80], sequence),
        miss: || udp(MARKED, ENDS, [1000, 81]),
    },
    Family {
        ends: ["fd00:102:304:506:708:90a:b0c:d01/128", "fd00:102:304:506:708:90a:b0c:d02/128"],
        hit: |port, sequence| tcp6(MARKED, ENDS6, [port, 80], sequence),
        miss: || udp6(MARKED, ENDS6, [1000, 81]),
    },
];

impl Family {
    /// Filters of whole keys, one for each source port from 1000 on.
    fn config(&self, filters: u16, program: Program, sampling: Option<Sampling>) -> Config {
        let period = 1_000_000_000;
        let filter = |n: u16| NamedFilter {
            id: n.into(),
            filter: Filter {
                src_ip: Some(self.ends[0].parse().unwrap()),
                dst_ip: Some(self.ends[1].parse().unwrap()),
                proto: Some(6),
                src_port: Some(1000 + n),
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
            joined: Vec::new(),
            sampling,
            marking: Marking::Off,
            clock: Clock::Tai,
            flows: 0,
            cache: 65_536,
            samples: 64,
            stay: false,
        }
    }

    /// The mean over packets that differ, so that selection sees many hashes.
    fn spread(&self, point: &Trial) -> f64 {
        let cost = |n: u32| {
            let frame = (self.hit)(1000, n.wrapping_mul(1448 * 7919));
            point.nanoseconds(&frame.bytes, None, FEW, 3).unwrap()
        };
        (0..PACKETS).map(cost).sum::<f64>() / f64::from(PACKETS)
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

fn cost(point: &Trial, frame: &Frame) -> f64 {
    point.nanoseconds(&frame.bytes, None, REPEAT, ROUNDS).unwrap()
}

fn load(config: &Config) -> Trial {
    let egress = config.marking != Marking::Off;
    Trial::load(config, if egress { Direction::Egress } else { Direction::Ingress }).unwrap()
}

/// One line: each family's figure less the empty program's, and IPv6 by IPv4.
fn row(name: &str, empty: f64, of: impl Fn(&Family) -> Option<f64>) -> Option<f64> {
    let found = FAMILIES.map(|family| of(&family).map(|cost| cost - empty));
    let [four, six] = found.map(|cost| cost.map_or("-".to_owned(), |cost| format!("{cost:.1}")));
    let ratio = match found {
        [Some(four), Some(six)] => format!("{:.2}", six / four),
        _ => "-".to_owned(),
    };
    println!("{name:<40} {four:>8} {six:>8} {ratio:>8}");
    found[0]
}

fn main() {
    let empty = load(&FAMILIES[0].config(1, Program::Empty, None));
    let empty = cost(&empty, &(FAMILIES[0].hit)(1000, 1));
    println!("the kernel's loop, taken off below: {empty} ns");
    println!("{:<40} {:>8} {:>8} {:>8}", "nanoseconds of a packet", "IPv4", "IPv6", "6 by 4");
    row("unmatched", empty, |family| {
        Some(cost(&load(&family.config(1, Program::All, None)), &(family.miss)()))
    });
    for filters in [1, 10, 1000, 10_000] {
        row(&format!("matched, {filters} filters"), empty, |family| {
            let point = load(&family.config(filters, Program::All, None));
            let flows = [0, filters / 3, filters / 2, filters - 1];
            let costs = flows.map(|n| cost(&point, &(family.hit)(1000 + n, 1)));
            Some(costs.iter().sum::<f64>() / 4.0)
        });
    }
    row("matched, monotonic clock", empty, |family| {
        let config = family.config(1, Program::All, None);
        let config = Config { clock: Clock::Monotonic, ..config };
        Some(cost(&load(&config), &(family.hit)(1000, 1)))
    });
    row("marked, program 1", empty, |family| {
        let config = family.config(1, Program::All, None);
        let config = Config { marking: Marking::Single, ..config };
        Some(cost(&load(&config), &(family.hit)(1000, 1)))
    });
    row("program 4 without hash", empty, |family| {
        Some(cost(&load(&family.config(1, Program::Combined, None)), &(family.hit)(1000, 1)))
    });
    let all = row("program 1, packets that differ", empty, |family| {
        Some(family.spread(&load(&family.config(1, Program::All, None))))
    });
    for function in [HashFunction::Bob, HashFunction::Ipsx, HashFunction::Crc32] {
        sampled(function, empty, all.unwrap_or(f64::NAN));
    }
}

fn sampled(function: HashFunction, empty: f64, all: f64) {
    let spread = |program, sampling| {
        move |family: &Family| {
            let six = family.ends[0].contains(':');
            let point = load(&family.config(1, program, Some(sampling)));
            (!six || function != HashFunction::Ipsx).then(|| family.spread(&point))
        }
    };
    let fixed = spread(Program::Fixed, sampling(function, 6, None));
    let fixed = row(&format!("program 2, {function:?}, length 6"), empty, fixed);
    println!("{:<40} {:>8.2}", "  by program 1", fixed.unwrap_or(f64::NAN) / all);
    let dynamic = spread(Program::Dynamic, sampling(function, 0, Some(64)));
    row(&format!("program 3, {function:?}, 64 samples"), empty, dynamic);
}
