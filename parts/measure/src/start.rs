//! How a session is prepared and started: what is checked, when block 0 begins, what is attached first.

use std::collections::HashSet;

use netloom_ebpf::Direction;
use netloom_ebpf::feature::measure_supported;
use netloom_ebpf::measure::{Config, Marking};
use netloom_marking::Schedule;
use netloom_sys::clock::{monotonic, nanoseconds};
use rustix::time::{ClockId, clock_getres};

use crate::limits::{self, Room};
use crate::point::{Point, word};
use crate::session::Shared;
use crate::{Error, Interfaces, Result, Setup, Spot, clock};

/// Time beside what attaching is seen to take.
const AHEAD: u64 = 20_000_000;
/// How often more time is given to attaching before block 0 may begin without a point.
const TRIES: u32 = 4;

/// Checks all that can be checked without attaching; what there is room for, and how long attaching one
/// point takes, in nanoseconds.
pub(crate) fn check(interfaces: &dyn Interfaces, setup: &Setup) -> Result<(Room, u64)> {
    check_spots(&setup.spots)?;
    let cpus = limits::cpus();
    let room = limits::room(setup, cpus)?;
    // A start that leaves room before it: only period and guard are looked at.
    setup.configuration.schedule(setup.configuration.period)?;
    let tick = nanoseconds(clock_getres(ClockId::MonotonicCoarse));
    limits::check_period(setup, room, cpus, tick)?;
    for spot in &setup.spots {
        interfaces.visit(&spot.netif, &mut |_| Ok(()))?;
    }
    let began = monotonic();
    measure_supported(setup.clock)?;
    Ok((room, monotonic().saturating_sub(began)))
}

fn check_spots(spots: &[Spot]) -> Result<()> {
    if spots.is_empty() {
        let reason = "there is none: nothing would be measured".to_owned();
        return Err(Error::Invalid { object: "interfaces".to_owned(), reason });
    }
    let mut seen = HashSet::new();
    for Spot { netif, direction, marking } in spots {
        let invalid = |reason: &str| Error::Invalid {
            object: format!("interface {netif:?}, {}", word(*direction)),
            reason: reason.to_owned(),
        };
        if *marking != Marking::Off && *direction == Direction::Ingress {
            return Err(invalid("packets are marked at egress only"));
        }
        if !seen.insert((netif, *direction)) {
            return Err(invalid("it is there twice"));
        }
    }
    Ok(())
}

/// Attaches all points before block 0: observers first, so that they see every packet that is marked.
///
/// # Errors
/// What is refused of any point: then none is attached.
pub(crate) fn attach(shared: &Shared) -> Result<(Schedule, Vec<Point>)> {
    let Setup { configuration, spots, clock, .. } = &shared.setup;
    let points = u64::try_from(spots.len()).unwrap_or(u64::MAX);
    let mut ahead = shared.attaching.saturating_mul(points).saturating_add(AHEAD);
    for last in (0..TRIES).map(|tries| tries + 1 == TRIES) {
        let now = clock::now(*clock);
        let lead = configuration.guard.saturating_add(ahead);
        let begin = first_begin(configuration.period, now.saturating_add(lead));
        let schedule = configuration.schedule(begin)?;
        let points = attach_all(shared, &schedule)?;
        if last || clock::now(*clock) < begin.saturating_sub(configuration.guard) {
            return Ok((schedule, points));
        }
        ahead = ahead.saturating_mul(2).max(clock::now(*clock).saturating_sub(now) * 2);
    }
    unreachable!("the last try gives what it has")
}

/// When block 0 begins: at the first even multiple of the period that is not before this time. Sessions
/// that begin at different times then have the same colour in the same block.
fn first_begin(period: u64, not_before: u64) -> u64 {
    not_before.max(1).checked_next_multiple_of(period.saturating_mul(2)).unwrap_or(u64::MAX)
}

fn attach_all(shared: &Shared, schedule: &Schedule) -> Result<Vec<Point>> {
    let Setup { configuration, spots, clock, .. } = &shared.setup;
    let config = Config {
        clock: *clock,
        cache: shared.room.cache,
        samples: shared.room.samples,
        ..Config::of(configuration, *schedule)
    };
    let mut points: Vec<Option<Point>> = spots.iter().map(|_| None).collect();
    for marks in [false, true] {
        for (spot, place) in spots.iter().zip(&mut points) {
            if (spot.marking != Marking::Off) == marks {
                *place = Some(Point::attach(&*shared.interfaces, spot, &config)?);
            }
        }
    }
    Ok(points.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use netloom_marking::Colour;

    #[test]
    fn sessions_that_begin_at_different_times_agree_on_blocks_and_colours() {
        let period = 200;
        for [one, other] in [[1, 399], [400, 401], [799, 1_200_001], [12_345, 99_999]] {
            let [one, other] = [one, other].map(|now| {
                let begin = first_begin(period, now);
                assert!(begin >= now && begin < now + 2 * period);
                Schedule::new(begin, period, 50).unwrap()
            });
            for time in (other.start()..other.start() + 5 * period).step_by(70) {
                let [a, b] = [one, other].map(|schedule| schedule.block_at(time).unwrap());
                assert_eq!(Colour::of(a), Colour::of(b));
                assert_eq!(one.begin(a), other.begin(b));
            }
        }
    }
}
