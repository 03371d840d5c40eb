//! Preparation and start of a session: the checks, the order of attaching, the begin of block 0.
//!
//! Points are attached with a begin that is never reached, and told the real one when all of them count: so
//! nothing depends on how long the kernel takes to verify their programs.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::thread;

use netloom_ebpf::Direction;
use netloom_ebpf::feature::measure_supported;
use netloom_ebpf::measure::{Config, Marking};
use netloom_marking::Schedule;
use netloom_sys::clock::nanoseconds;
use rustix::time::{ClockId, clock_getres};

use crate::limits::{self, Room};
use crate::lock::lock;
use crate::point::Point;
use crate::shared::Shared;
use crate::{Error, Interfaces, Result, Setup, Spot};

/// Time to tell all points when block 0 begins.
const AHEAD: u64 = 20_000_000;
/// Attempts, with growing time, before block 0 may begin without a point.
const TRIES: u32 = 4;
/// Begin of block 0 while points are attached, on any clock.
const NEVER: u64 = u64::MAX / 2;

/// Checks everything that can be checked without attaching. Returns the table sizes.
pub(crate) fn check(interfaces: &dyn Interfaces, setup: &Setup) -> Result<Room> {
    check_spots(&setup.spots)?;
    let cpus = limits::cpus();
    let room = limits::room(setup, cpus)?;
    // Any start with time before it: only period and guard are checked.
    setup.configuration.schedule(setup.configuration.period)?;
    let tick = nanoseconds(clock_getres(ClockId::MonotonicCoarse));
    limits::check_period(setup, room, cpus, tick)?;
    // Interfaces that are missing are told before anything is attached.
    for spot in &setup.spots {
        interfaces.visit(&spot.netif, &mut |_| Ok(()))?;
    }
    measure_supported(setup.clock)?;
    Ok(room)
}

fn check_spots(spots: &[Spot]) -> Result<()> {
    if spots.is_empty() {
        let reason = "there is none: nothing would be measured".to_owned();
        return Err(Error::Invalid { object: "interfaces".to_owned(), reason });
    }
    let mut seen = HashSet::new();
    for Spot { netif, direction, marking } in spots {
        let invalid = |reason: &str| Error::Invalid {
            object: format!("interface {netif:?}, {}", direction.name()),
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

/// Attaches all points before block 0: observers first, so that they see every marked packet.
///
/// # Errors
/// The first failure at any point: then none stays attached.
pub(crate) fn attach(shared: &Shared) -> Result<(Schedule, Vec<Point>)> {
    let Setup { configuration, clock, .. } = &shared.setup;
    let mut points = attach_all(shared, &configuration.schedule(NEVER)?)?;
    let (mut ahead, mut left) = (AHEAD, TRIES);
    loop {
        left -= 1;
        let lead = configuration.guard.saturating_add(ahead);
        let begin = first_begin(configuration.period, clock.now().saturating_add(lead));
        let schedule = configuration.schedule(begin)?;
        for marks in [false, true] {
            for point in points.iter_mut().filter(|point| point.is_marker() == marks) {
                point.begin_at(schedule)?;
            }
        }
        // All points must know it before the first packet of block 0, which may be a guard early.
        if left == 0 || clock.now() < begin.saturating_sub(configuration.guard) {
            return Ok((schedule, points));
        }
        // The machine was too slow for this lead: block 0 is set to a later time at all points.
        ahead = ahead.saturating_mul(4);
    }
}

/// Begin of block 0: the first even multiple of the period at or after this time. Sessions that begin at
/// different times then use the same colour in the same block.
fn first_begin(period: u64, not_before: u64) -> u64 {
    not_before.max(1).checked_next_multiple_of(period.saturating_mul(2)).unwrap_or(u64::MAX)
}

fn attach_all(shared: &Shared, schedule: &Schedule) -> Result<Vec<Point>> {
    let Setup { configuration, spots, clock, .. } = &shared.setup;
    let config = Config {
        clock: *clock,
        cache: shared.room.cache,
        samples: shared.room.samples,
        flows: shared.setup.flows,
        ..Config::of(configuration, *schedule)
    };
    let mut points: Vec<Option<Point>> = spots.iter().map(|_| None).collect();
    for marks in [false, true] {
        let places = spots.iter().zip(&mut points);
        let places = places.filter(|(spot, _)| (spot.marking != Marking::Off) == marks).collect();
        attach_some(&*shared.interfaces, &config, places)?;
    }
    Ok(points.into_iter().flatten().collect())
}

type Task<'a> = (&'a Spot, &'a mut Option<Point>);

/// Attaches points in parallel on all CPUs: the kernel's verification of a program takes long.
fn attach_some(interfaces: &dyn Interfaces, config: &Config, places: Vec<Task<'_>>) -> Result<()> {
    let workers = limits::workers().min(places.len());
    let places = Mutex::new(places);
    let failed = Mutex::new(None);
    let work = || {
        // One failure ends the others: all are detached anyway.
        while lock(&failed).is_none() {
            let Some((spot, place)) = lock(&places).pop() else { return };
            match Point::attach(interfaces, spot, config) {
                Ok(point) => *place = Some(point),
                Err(error) => *lock(&failed) = Some(error),
            }
        }
    };
    thread::scope(|scope| {
        // Threads inherit the caller's namespace. If none can be started, the caller's own does all the work.
        for _ in 1..workers {
            let _ =
                thread::Builder::new().name("netloom-attach".to_owned()).spawn_scoped(scope, work);
        }
        work();
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
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
