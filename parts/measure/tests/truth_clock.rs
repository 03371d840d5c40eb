//! A clock that is stepped while traffic passes: blocks that it touched are marked, all others are exact.
//!
//! The test steps TAI, by its offset from UTC: nothing else of the machine follows it but other tests, which wait.

use super::truth_support;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use netloom_ebpf::measure::Clock;
use netloom_kit::{lacks, root_only};
use netloom_measure::{ClosedBlock, Session};
use netloom_sys::clock;

use truth_support::kinds::block_of;
use truth_support::net::{A, Line};
use truth_support::points::{short, slower};
use truth_support::session::session;
use truth_support::tap::{Noted, Tap};
use truth_support::{BOUND, TO, send};

/// Seconds by which it is stepped: many blocks.
fn step() -> i64 {
    i64::try_from(slower(7)).unwrap()
}

/// TAI's offset from UTC in seconds, which is set back when this goes.
struct Offset(i64);

impl Offset {
    /// As it is.
    fn now() -> Offset {
        Offset((clock::offset(clock::tai, clock::realtime) + 500_000_000) / 1_000_000_000)
    }

    /// Makes it so much more than it was; just before and after, on the monotonic clock.
    fn set(&self, more: i64) -> Result<[u64; 2], String> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/truth_support/tai.py");
        let seconds = (self.0 + more).to_string();
        let out = Command::new("python3").args([script, &seconds]).output().unwrap();
        if !out.status.success() {
            return Err(String::from_utf8(out.stderr).unwrap());
        }
        let text = String::from_utf8(out.stdout).unwrap();
        let (before, after) = text.trim().split_once(' ').unwrap();
        // The script's clock is that of a time namespace, where there is one.
        let now = clock::monotonic();
        let ahead = clock::for_timers(now).wrapping_sub(now);
        Ok([before, after].map(|time| time.parse::<u64>().unwrap().wrapping_sub(ahead)))
    }
}

impl Drop for Offset {
    fn drop(&mut self) {
        self.set(0).unwrap();
    }
}

/// A time in which TAI was so far ahead of the monotonic clock, which `from` and `to` are of.
#[derive(Clone, Copy)]
struct Stretch {
    ahead: i64,
    from: u64,
    to: u64,
}

impl Stretch {
    fn begin(from: u64) -> Stretch {
        Stretch { ahead: clock::offset(clock::tai, clock::monotonic), from, to: u64::MAX }
    }

    /// Packets that the tap noted then, by block, of a session that starts at `start` of TAI.
    fn by_block(self, noted: &[Noted], start: u64) -> BTreeMap<u64, u64> {
        let start = start.checked_add_signed(-self.ahead).unwrap();
        let mut counts = BTreeMap::new();
        for noted in noted.iter().filter(|noted| (self.from..self.to).contains(&noted.time)) {
            *counts.entry(block_of(noted, start)).or_default() += 1;
        }
        counts
    }
}

fn lasting(session: &Session) -> u64 {
    session.schedule().unwrap().block_at(clock::tai()).unwrap()
}

/// Of the blocks that are whole at all points: their packets, the same at all.
fn whole(told: &[Arc<ClosedBlock>]) -> BTreeMap<u64, u64> {
    let mut whole = BTreeMap::new();
    for told in told {
        let records: Vec<_> = told.points.iter().map(|point| &point.flows[0].record).collect();
        if !records.iter().all(|record| record.completeness.is_complete()) {
            continue;
        }
        let packets = records[0].all.packets;
        assert!(records.iter().all(|record| record.all.packets == packets), "{}", told.block);
        // By the times of the first and the last point nothing took seconds, nor came before it left.
        if packets > 0 {
            let (left, came) = (records[0].all.mean().unwrap(), records[3].all.mean().unwrap());
            assert!((0.0..1e9).contains(&(came - left)), "{}: {left} {came}", told.block);
        }
        whole.insert(told.block, packets);
    }
    whole
}

#[test]
fn what_a_step_of_the_clock_touched_is_marked_and_the_rest_is_exact() {
    root_only!("attaches BPF programs and sets TAI");
    let _alone = netloom_kit::tai_alone();
    let offset = Offset::now();
    if let Err(why) = offset.set(0) {
        // Nor need it be set back.
        std::mem::forget(offset);
        lacks!("clock", "{why}");
    }
    let line = Arc::new(Line::bridged());
    let _receiver = send::receiver(&line);
    let tap = Tap::open(&line.a, A);
    let session = session(&line, r#""prog_id": 1"#, Clock::Tai, short());
    let start = session.schedule().unwrap().start();
    netloom_kit::wait_until("it begins", BOUND, || {
        (clock::tai() > start + 20_000_000).then_some(())
    });

    let end = clock::monotonic() + 16 * short();
    let mut before = Stretch::begin(0);
    let (touched, after) = std::thread::scope(|scope| {
        scope.spawn(|| send::datagrams(&line, 1, Duration::from_millis(1), end));
        assert!(!session.blocks(lasting(&session) + 2, BOUND).is_empty());
        let step = offset.set(self::step()).unwrap();
        let on = lasting(&session);
        before.to = step[0];
        let mut after = Stretch::begin(step[1]);
        let (stepped, wanted) = (after.ahead - before.ahead, self::step() * 1_000_000_000);
        assert!((stepped - wanted).abs() < 1_000_000, "{stepped}");
        let was = step[0].checked_add_signed(before.ahead).unwrap();
        let touched = session.schedule().unwrap().block_at(was).unwrap();
        // Some blocks of after.
        assert!(!session.blocks(on + 4, BOUND).is_empty(), "{:?}", session.trouble());
        after.to = offset.set(0).unwrap()[0];
        (touched, after)
    });
    let told = session.blocks(0, Duration::ZERO);
    netloom_kit::wait_until("it says that blocks would come again", BOUND, || {
        session.trouble().filter(|trouble| trouble.contains("stepped back"))
    });
    session.stop();

    let mut noted = tap.all(true);
    noted.retain(|noted| noted.sequence(TO).is_some());
    let (before, after) = (before.by_block(&noted, start), after.by_block(&noted, start));
    let mut found = [0, 0];
    for (block, packets) in whole(&told) {
        let since = block > touched;
        let truth = if since { &after } else { &before };
        assert_eq!(truth.get(&block).copied().unwrap_or_default(), packets, "block {block}");
        found[usize::from(since)] += packets;
        assert_ne!(block, touched, "it was stepped in this block");
    }
    assert!(found[0] > 50 && found[1] > 50, "{found:?} of {}", noted.len());
    let marked = |told: &&Arc<ClosedBlock>| {
        let mut points = told.points.iter();
        points.all(|point| point.flows[0].record.completeness.clock_stepped)
    };
    assert!(told.iter().any(|told| marked(&told)));
}
