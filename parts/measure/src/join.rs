//! Flows that join a running session, at all points with the same packet.
//!
//! Each point gets the filters together with the number of a later block: packets of earlier blocks still
//! belong to the flow that had them so far. So neither flow loses or gains a packet between two points. If a
//! point gets them too late for that, the blocks concerned are reported as incomplete.

use std::sync::{Mutex, PoisonError};
use std::thread;

use netloom_ebpf::measure::Joined;

use crate::lock::lock;
use crate::point::Point;
use crate::shared::Shared;
use crate::{Error, Join, Result, State, limits};

/// Time for a point to get its filters, in nanoseconds.
const SET_POINT: u64 = 10_000_000;

/// Adds flows, and returns their first block.
pub(crate) fn join(shared: &Shared, joins: &[Join]) -> Result<u64> {
    let order = |state: State| Error::Order { operation: "add flows", state: state.word() };
    let state = lock(&shared.inner).state;
    let schedule = shared.schedule().filter(|_| state == State::Running);
    let schedule = schedule.ok_or_else(|| order(state))?;
    let points = shared.points();
    let count = u64::try_from(points.len()).unwrap_or(u64::MAX);
    let clock = shared.setup.clock;
    let done = clock.now().saturating_add(count.saturating_mul(SET_POINT));
    // The block after that moment may begin at once;
    // the second one leaves the points a whole period.
    let from = schedule.block_at(done).unwrap_or(0).saturating_add(2);
    let joined = joins.iter().filter_map(|join| {
        let id = join.filters.first()?.id;
        Some(Joined { id, from, before: join.before })
    });
    let joined: Vec<Joined> = joined.collect();
    let filters: Vec<_> = joins.iter().flat_map(|join| &join.filters).copied().collect();
    set_all(&points, |point| point.join(&filters, &joined))?;
    let now = clock.now();
    // A packet of that block may pass up to a guard before it begins.
    if now > schedule.begin(from).saturating_sub(schedule.guard()) {
        shared.disturb(from, schedule.block_at(now).unwrap_or(from).max(from));
    }
    Ok(from)
}

/// Does this to all points in parallel: each waits for the kernel.
fn set_all(points: &[Mutex<Point>], set: impl Fn(&mut Point) -> Result<()> + Sync) -> Result<()> {
    let left = Mutex::new(points.iter());
    let failed = Mutex::new(None);
    let work = || {
        // The iterator's lock is given back before the point is set: each takes long.
        while let Some(point) = { lock(&left).next() } {
            if let Err(error) = set(&mut lock(point)) {
                *lock(&failed) = Some(error);
            }
        }
    };
    thread::scope(|scope| {
        // They mostly wait. If none can be started, the caller's thread does all the work.
        for _ in 1..(4 * limits::workers()).min(points.len()) {
            let _ =
                thread::Builder::new().name("netloom-join".to_owned()).spawn_scoped(scope, work);
        }
        work();
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
