//! Turns: switches first, for a bounded time; then slices, the one that has had least of the slicer's time next. What a
//! slice asks for is done some at a time, too. A slice whose quota is used up, or whose switch takes nothing for now, is not
//! read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use netloom_ofconn::Time;
use netloom_slicing::SliceId;

use crate::Result;
use crate::server::Server;
use crate::system::{clock, cpu_ns};
use crate::turns::{self, WorkItem};
use crate::wire::Side;

/// How long switches are served before slices have their turns, and slices before switches have.
pub(crate) const TURN: Time = 2_000_000;

/// How long a slice is served before the next one is.
const SLICE: Time = 500_000;

/// By how much a slice may have had less than others and get it now.
const LAG: Time = 5_000_000;

/// Messages of a switch in a turn.
const OF_SWITCH: usize = 128;

/// Messages of a connection of a slice at a time.
const OF_SLICE: usize = 16;

/// Queued bytes for a switch beyond which slices wait: what another one orders is behind them.
const AHEAD: usize = 64 * 1024;

/// What slices have to do, by their place in the policy.
type PendingWork = BTreeMap<usize, BTreeSet<WorkItem>>;

impl Server {
    /// Notes that a connection has messages.
    pub(crate) fn make_ready(&mut self, id: u64) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        // Until they are read it need not be watched.
        wire.channel.more = true;
        if self.ready.insert(id)
            && let Some(turns) = self.place_of(id).and_then(|place| self.turns.get_mut(place))
        {
            turns.begin(self.reached);
        }
    }

    /// What a connection asked for.
    fn job_of(&self, id: u64) -> Option<WorkItem> {
        match self.wires.get(&id)?.side {
            Side::Slice { switch, slice, .. } => Some(WorkItem::Job(switch, slice)),
            _ => None,
        }
    }

    fn place_of(&self, id: u64) -> Option<usize> {
        match self.wires.get(&id)?.side {
            Side::Slice { place, .. } => Some(place),
            _ => None,
        }
    }

    /// Whether a switch takes what it is told.
    pub(crate) fn takes(&self, switch: u64) -> bool {
        self.wires.get(&switch).is_none_or(|wire| wire.channel.queued() <= AHEAD)
    }

    /// Serves switches and slices, for a bounded time.
    pub(crate) fn serve(&mut self, start: Time) -> Result<()> {
        self.serve_switches(start + TURN)?;
        self.begin_more()?;
        self.resume = None;
        let end = clock() + TURN;
        let mut all = self.doers();
        while let Some((place, doer)) = self.next_slice(&mut all) {
            let room = self.turns.get(place).map_or(OF_SLICE, |turns| turns.room(OF_SLICE));
            if let Some(turns) = self.turns.get_mut(place) {
                // What it did not ask for while others were served is not owed to it.
                turns.begin(self.reached.saturating_sub(LAG));
                self.reached = self.reached.max(turns.had());
            }
            let before = cpu_ns();
            let count = match doer {
                WorkItem::Wire(id) => {
                    let count = self.serve_slice(id, room.max(1), clock() + SLICE)?;
                    // It may have begun what takes long.
                    let own = all.entry(place).or_default();
                    own.extend(self.job_of(id));
                    count
                }
                WorkItem::Job(switch, slice) => {
                    self.proceed(switch, slice);
                    0
                }
            };
            self.last.insert(place, doer);
            let now = clock();
            if let Some(turns) = self.turns.get_mut(place) {
                turns.took(count, cpu_ns().saturating_sub(before), now);
            }
            if now > end {
                break;
            }
        }
        Ok(())
    }

    /// Serves switches in turn.
    fn serve_switches(&mut self, end: Time) -> Result<()> {
        let ready = self.ready.iter().copied().filter(|id| self.place_of(*id).is_none());
        let mut order: Vec<u64> = ready.collect();
        let after = order.partition_point(|id| *id <= self.last_switch);
        // The one after the last goes first: otherwise those with small numbers could take all the time.
        order.rotate_left(after);
        for id in order {
            self.last_switch = id;
            self.serve_switch(id, OF_SWITCH, end)?;
            if clock() > end {
                break;
            }
        }
        Ok(())
    }

    fn proceed(&mut self, switch: u64, slice: SliceId) {
        let now = clock();
        let Some(real) = self.reals.get_mut(&switch) else { return };
        let (mut work, before) = (self.pace.work(), cpu_ns());
        let to = real.proceed(slice, now, &mut work);
        self.pace.took(&work, cpu_ns().saturating_sub(before));
        self.deliver(switch, to, now);
    }

    /// What slices have to do, by their place in the policy.
    fn doers(&self) -> PendingWork {
        let mut all = PendingWork::new();
        for (switch, real) in self.reals.iter().filter(|(switch, _)| self.takes(**switch)) {
            for (slice, place) in real.unfinished() {
                all.entry(place).or_default().insert(WorkItem::Job(*switch, slice));
            }
        }
        for id in &self.ready {
            if let Some(place) = self.place_of(*id) {
                all.entry(place).or_default().insert(WorkItem::Wire(*id));
            }
        }
        all
    }

    /// Whether it is not held up by a switch or a connection.
    fn may(&self, doer: WorkItem) -> bool {
        let is_open = |id: u64| self.wires.get(&id).is_none_or(|wire| !wire.channel.is_paused());
        match doer {
            WorkItem::Job(switch, slice) => {
                let asked = self.reals.get(&switch).and_then(|real| real.unfinished_of(slice));
                // An answer is not made while the last one waits to be taken.
                asked.is_some_and(|asked| asked.is_none_or(is_open)) && self.takes(switch)
            }
            WorkItem::Wire(id) => {
                let side = self.wires.get(&id).map(|wire| &wire.side);
                let Some(Side::Slice { switch, slice, .. }) = side else { return false };
                // What a switch does not take, or has not answered yet, is not asked for.
                let real = self.reals.get(switch);
                let free =
                    real.is_none_or(|real| real.core.may_ask(*slice) && !real.core.is_busy(*slice));
                free && self.ready.contains(&id) && self.takes(*switch) && is_open(id)
            }
        }
    }

    /// Which slice goes next of these, and what it does; notes when one that is held may go on. Held slices are left out.
    fn next_slice(&mut self, all: &mut PendingWork) -> Option<(usize, WorkItem)> {
        let now = clock();
        let mut held = vec![];
        for place in all.keys() {
            let Some(turns) = self.turns.get_mut(*place) else { continue };
            if let Some(until) = turns.waits_until(now) {
                self.resume = Some(self.resume.map_or(until, |at| at.min(until)));
                held.push(*place);
            }
        }
        held.iter().for_each(|place| drop(all.remove(place)));
        loop {
            let ready = all.keys().filter_map(|place| Some((*place, self.turns.get(*place)?)));
            let place = turns::next(ready)?;
            let own = all.get_mut(&place)?;
            // What it does in turn.
            let last = self.last.get(&place).copied();
            let behind = last.and_then(|last| {
                own.range((Bound::Excluded(last), Bound::Unbounded)).next().copied()
            });
            let Some(doer) = behind.or_else(|| own.first().copied()) else {
                all.remove(&place);
                continue;
            };
            if self.may(doer) {
                return Some((place, doer));
            }
            if let Some(own) = all.get_mut(&place) {
                own.remove(&doer);
            }
        }
    }

    /// Whether somebody could be served at once.
    pub(crate) fn has_work(&mut self) -> bool {
        self.ready.iter().any(|id| self.place_of(*id).is_none())
            || self.beginnings.keys().any(|id| self.takes(*id))
            || self.next_slice(&mut self.doers()).is_some()
    }
}
