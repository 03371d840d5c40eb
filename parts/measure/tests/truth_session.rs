//! A whole session, from the body of a request to the sums of a way, against a relay's ledger and taps.

use super::truth_support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use netloom_ebpf::measure::Clock;
use netloom_kit::root_only;
use netloom_marking::Population;
use netloom_marking::total::{Side, WayTotal};
use netloom_measure::ClosedBlock;

use truth_support::net::{A, B, Line};
use truth_support::points::{short, wait_for};
use truth_support::relay::{Fates, Relay};
use truth_support::session::session;
use truth_support::tap::Tap;
use truth_support::{BOUND, TO, send};

/// Programs 1 and 2 with what they need besides.
const ALL: &str = r#""prog_id": 1"#;
const SAMPLED: &str =
    r#""prog_id": 2, "hash_function": "bob", "hash_length": 0, "match_value": 0, "seed": 7"#;

/// A datagram that arrived: when it left and came, by the taps.
type Way = (u64, u64);

struct Run {
    total: WayTotal,
    sent: u64,
    dropped: u64,
    ways: Vec<Way>,
}

fn run(fates: Fates, program: &str) -> Run {
    let line = Arc::new(Line::open());
    let (_receiver, relay) = (send::receiver(&line), Relay::start(&line, fates));
    let taps = [Tap::open(&line.a, A), Tap::open(&line.b, B)];
    let session = session(&line, program, Clock::Monotonic, short());
    // A coarse clock may be behind by a tick.
    wait_for(session.schedule().unwrap().start() + 20_000_000);
    let log = send::count(&line, 800, Duration::from_micros(400));
    let ledger = relay.ledger(log.len() as u64);
    let last = (log.last().unwrap().after - session.schedule().unwrap().start()) / short();
    assert!(!session.blocks(last, BOUND).is_empty(), "{:?}", session.trouble());
    let told: Vec<Arc<ClosedBlock>> = session.blocks(0, Duration::ZERO);
    session.stop();
    let mut total = WayTotal::new(4, 100_000);
    for told in told.iter().filter(|told| told.block <= last) {
        let sides: Vec<Side<'_>> = told
            .points
            .iter()
            .map(|point| {
                let sampled = point.flows[0].sampled.as_ref();
                assert!(sampled.is_none_or(|sampled| sampled.unkept == 0));
                let samples = sampled.map(|sampled| (sampled.selection, &sampled.samples[..]));
                Side { record: &point.flows[0].record, samples }
            })
            .collect();
        total.add(&sides).unwrap();
    }
    assert_eq!(total.incomplete, 0, "{:?}", total.against.reasons());
    let seen = |tap: usize| -> BTreeMap<u64, u64> {
        let seen = taps[tap].all(tap == 0);
        seen.iter().filter_map(|noted| Some((noted.sequence(TO)?, noted.time))).collect()
    };
    let (left, came) = (seen(0), seen(1));
    let ways = left.iter().filter_map(|(n, left)| Some((*left, *came.get(n)?))).collect();
    let dropped = ledger.iter().filter(|entry| entry.sent.is_empty()).count() as u64;
    Run { total, sent: log.len() as u64, dropped, ways }
}

#[test]
fn a_session_tells_what_a_relay_dropped_and_where() {
    root_only!("attaches BPF programs");
    let run = run(Fates { seed: 21, drops: 200, ..Fates::default() }, ALL);
    assert!(run.dropped > 80, "{}", run.dropped);
    let arrived = run.sent - run.dropped;
    let whole = &run.total.whole;
    assert_eq!((whole.sent, whole.received), (run.sent, arrived));
    assert_eq!((whole.lost, whole.gained), (run.dropped, 0));
    for (hop, total) in run.total.hops.iter().enumerate() {
        assert_eq!(
            (total.lost, total.gained),
            (if hop == 1 { run.dropped } else { 0 }, 0),
            "{hop}"
        );
    }
}

#[test]
fn delays_of_a_session_are_those_of_its_packets() {
    root_only!("attaches BPF programs");
    let delayed = Fates { seed: 22, delay: 5_000_000, jitter: 4_000_000, ..Fates::default() };
    let Run { total, sent, mut ways, .. } = run(delayed, SAMPLED);
    let delays = &total.whole.delays;
    assert_eq!((delays.known() as u64, ways.len() as u64), (sent, sent));
    assert_eq!((delays.lost(), delays.ambiguous(), delays.rate()), (0, 0, 1.0));
    ways.sort_unstable();
    let mut tapped: Vec<f64> = ways.iter().map(|(left, came)| (came - left) as f64).collect();
    let mean = tapped.iter().sum::<f64>() / tapped.len() as f64;
    let gaps = tapped.windows(2).map(|two| (two[1] - two[0]).abs());
    let jitter = gaps.sum::<f64>() / (tapped.len() - 1) as f64;
    let mean_off = delays.mean().unwrap() - mean;
    let jitter_off = delays.jitter().unwrap() - jitter;
    tapped.sort_by(f64::total_cmp);
    let [half, most] = delays.quantiles([0.5, 0.99], Population::Delivered).map(Option::unwrap);
    let nearest = |permille: usize| tapped[(permille * tapped.len()).div_ceil(1000) - 1];
    let off = [(half, 500), (most, 990)].map(|(q, p)| q.value.unwrap() as f64 - nearest(p));
    eprintln!(
        "mean {mean:.0} off by {mean_off:.0} ns, jitter {jitter:.0} by {jitter_off:.0}, quantiles by {off:.0?}"
    );
    // Points stand outside the taps; a busy machine may stop in between.
    assert!((-2_000.0..300_000.0).contains(&mean_off), "{mean_off}");
    assert!(jitter_off.abs() < 300_000.0, "{jitter_off}");
    assert!(off.iter().all(|off| (-2_000.0..1_000_000.0).contains(off)), "{off:?}");
}
