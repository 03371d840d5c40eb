//! Points at the four interfaces of a line, in the direction from the sender to the receiver.

use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, Config, FlowBlock, Marking, Measure};
use netloom_marking::session::{NamedFilter, Program, Sampling};
use netloom_marking::{
    Filter, HashFunction, Hasher, Marks, PayloadPart, Precedence, Profile, Schedule, Selection,
};
use netloom_sys::clock;

use super::BOUND;
use super::net::{A, B, LEFT, Line, NetNs, RIGHT};

/// Length of a block in nanoseconds where this many are sent, however long it takes.
pub(crate) const SHORT: u64 = 200_000_000;

/// Where what is sent within a block is sent for a time, and nothing but kernels is between the points.
pub(crate) fn short() -> u64 {
    slower(SHORT)
}

/// The same where a relay is that may have to wait for its turn.
pub(crate) fn long() -> u64 {
    2 * short()
}

/// A time in which this machine does as much as another: translated machines say how much slower they are.
pub(crate) fn slower(time: u64) -> u64 {
    let by = std::env::var("NETLOOM_TEST_SLOWER").map_or(1, |by| by.parse().unwrap());
    time * by
}

/// DSCP of even and of odd blocks.
pub(crate) const MARKS: [u8; 2] = [8, 16];
/// The further bits set in packets that are marked twice.
pub(crate) const TWICE: u8 = 32;

/// Source, destination, protocol, ports; `*` for any.
pub(crate) fn filter(id: u32, text: [&str; 5]) -> NamedFilter {
    let [src, dst, proto, from, to] = text;
    let given = |text: &str| (text != "*").then(|| text.to_owned());
    let filter = Filter {
        src_ip: given(src).map(|text| text.parse().unwrap()),
        dst_ip: given(dst).map(|text| text.parse().unwrap()),
        proto: given(proto).map(|text| text.parse().unwrap()),
        src_port: given(from).map(|text| text.parse().unwrap()),
        dst_port: given(to).map(|text| text.parse().unwrap()),
    };
    NamedFilter { id, filter }
}

/// What all points do; times are those of CLOCK_MONOTONIC. Blocks are counted for as long as can be, so that
/// a busy machine makes nothing late.
pub(crate) fn config(program: Program, filters: &[NamedFilter], period: u64) -> Config {
    let now = clock::monotonic();
    Config {
        program,
        // Blocks have been for a while, so that none is the first.
        schedule: Schedule::new(now.saturating_sub(5 * period), period, period / 2 - period / 40)
            .unwrap(),
        marks: Marks::new(MARKS[0], MARKS[1], 0x3f, TWICE).unwrap(),
        filters: filters.to_vec(),
        precedence: Precedence::First,
        joined: Vec::new(),
        sampling: None,
        marking: Marking::Off,
        clock: Clock::Monotonic,
        flows: 0,
        cache: 1024,
        samples: 8192,
        stay: false,
    }
}

/// Samples by BOB over what every point sees alike, of a hash length, or of as many as there is room for.
pub(crate) fn bob(length: u8, npkts: Option<u32>) -> Sampling {
    let hasher = Hasher {
        function: HashFunction::Bob,
        profile: Profile::Portable,
        seed: 0x5eed,
        payload: PayloadPart::default(),
    };
    let selection = Selection::new(HashFunction::Bob, 0x1234_5678, length).unwrap();
    Sampling { hasher, selection, npkts }
}

/// Points at sender, middle (in and out) and receiver; the first one marks.
pub(crate) struct Points {
    pub(crate) all: [Measure; 4],
    pub(crate) schedule: Schedule,
}

/// All points' records of a block: of each the flows.
pub(crate) type Block = [Vec<FlowBlock>; 4];

impl Points {
    pub(crate) fn attach(line: &Line, config: &Config) -> Points {
        let once = if config.marking == Marking::Off { Marking::Single } else { config.marking };
        let marking = Config { marking: once, ..config.clone() };
        let config = &Config { marking: Marking::Off, ..config.clone() };
        let (ingress, egress) = (Direction::Ingress, Direction::Egress);
        let at = |space: &NetNs, index, direction, config: &Config| {
            space.run(|| Measure::attach(index, direction, config).unwrap())
        };
        // The marker last: what is marked is counted everywhere.
        let (into, out, receiver) = std::thread::scope(|scope| {
            let into = scope.spawn(|| at(&line.middle, LEFT, ingress, config));
            let out = scope.spawn(|| at(&line.middle, RIGHT, egress, config));
            let receiver = at(&line.b, B, ingress, config);
            (into.join().unwrap(), out.join().unwrap(), receiver)
        });
        let sender = at(&line.a, A, egress, &marking);
        Points { all: [sender, into, out, receiver], schedule: config.schedule }
    }

    /// The first block that all points see wholly, when it has begun.
    pub(crate) fn begun(&self) -> u64 {
        let now = clock::monotonic();
        let (start, period) = (self.schedule.start(), self.schedule.period());
        let block = (now + self.schedule.guard() - start) / period + 1;
        let begin = start + block * period;
        // A coarse clock may be behind by a tick.
        wait_for(begin + 20_000_000);
        block
    }

    /// The records of all blocks from one on that have begun, when they are final.
    pub(crate) fn blocks(&mut self, from: u64) -> Vec<(u64, Block)> {
        let last = (clock::monotonic() - self.schedule.start()) / self.schedule.period();
        wait_for(self.all.iter().map(|point| point.readable_at(last)).max().unwrap());
        (from..=last)
            .map(|block| (block, self.all.each_mut().map(|p| p.read_bank(block).unwrap())))
            .collect()
    }
}

/// Waits for a time of CLOCK_MONOTONIC.
pub(crate) fn wait_for(time: u64) {
    let passed = || (clock::monotonic() > time).then_some(());
    netloom_kit::wait_until("a time has come", BOUND, passed);
}
