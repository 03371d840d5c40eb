//! Turns: switches first, for a bounded time; then slices, the one that has had least of the slicer's time next. What a
//! slice asks for is done some at a time, too. A slice whose quota is used up, or whose switch takes nothing for now, is not
//! read.

use std::collections::BTreeSet;

use netloom_ofconn::Time;
use netloom_slicing::SliceId;

use crate::Result;
use crate::server::Server;
use crate::system::{clock, cpu_ns};
use crate::turns::{self, Doer};
use crate::wire::{Side, Wire};

/// How long switches are served before slices have their turns, and slices before switches have.
const TURN: Time = 2_000_000;

/// How long a slice is served before the next one is.
const SLICE: Time = 500_000;

/// Messages of a switch in a turn.
const OF_SWITCH: usize = 128;

/// Messages of a connection of a slice at a time.
const OF_SLICE: usize = 16;

/// Queued bytes for a switch beyond which slices wait: what another one orders is behind them.
const AHEAD: usize = 64 * 1024;

impl Server {
    /// Notes that a connection has messages.
    pub(crate) fn make_ready(&mut self, id: u64) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        // Until they are read it need not be watched.
        wire.channel.more = true;
        let fresh = self.ready.insert(id);
        let Some(Side::Slice { place, .. }) = self.wires.get(&id).map(|wire| &wire.side) else {
            return;
        };
        let place = *place;
        if !fresh {
            return;
        }
        let busy = self.busy(id);
        if !busy.contains(&place) {
            let others = busy.iter().filter_map(|at| self.turns.get(*at));
            let least = turns::least(others);
            if let Some(turns) = self.turns.get_mut(place) {
                turns::begin(turns, least);
            }
        }
    }

    /// The slices that have something to do, other than by this connection.
    fn busy(&self, but: u64) -> BTreeSet<usize> {
        let wires = self.ready.iter().filter(|id| **id != but).filter_map(|id| self.place_of(*id));
        let jobs = self.reals.values().flat_map(|real| real.unfinished());
        wires.chain(jobs.map(|(_, place, _)| place)).collect()
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
        while let Some((place, doer)) = self.next_slice() {
            let room = self.turns.get(place).map_or(OF_SLICE, |turns| turns.room(OF_SLICE));
            let before = cpu_ns();
            let count = match doer {
                Doer::Wire(id) => self.serve_slice(id, room.max(1), clock() + SLICE)?,
                Doer::Job(switch, slice) => {
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
        let to = real.proceed(slice, now);
        self.deliver(switch, to, now);
    }

    /// What slices have to do, each with its place in the policy, that is not held up by a switch or connection.
    fn doers(&self) -> Vec<(usize, Doer)> {
        let mut all = vec![];
        let is_open = |id: u64| self.wires.get(&id).is_none_or(|wire| !wire.channel.is_paused());
        for (switch, real) in self.reals.iter().filter(|(switch, _)| self.takes(**switch)) {
            // An answer is not made while the last one waits to be taken.
            let open = real.unfinished().filter(|(_, _, asked)| asked.is_none_or(is_open));
            all.extend(open.map(|(slice, place, _)| (place, Doer::Job(*switch, slice))));
        }
        for id in &self.ready {
            let Some(Wire { side: Side::Slice { place, switch, slice, .. }, .. }) =
                self.wires.get(id)
            else {
                continue;
            };
            // What a switch does not take, or has not answered yet, is not asked for.
            let free = self
                .reals
                .get(switch)
                .is_none_or(|real| real.core.may_ask(*slice) && !real.core.is_busy(*slice));
            if free && self.takes(*switch) && is_open(*id) {
                all.push((*place, Doer::Wire(*id)));
            }
        }
        all
    }

    /// Which slice goes next, and what it does; notes when one that is held may go on.
    fn next_slice(&mut self) -> Option<(usize, Doer)> {
        let now = clock();
        let mut may: Vec<Option<bool>> = vec![None; self.turns.len()];
        let mut ready: Vec<(usize, Doer)> = vec![];
        for (place, doer) in self.doers() {
            let (Some(turns), Some(may)) = (self.turns.get_mut(place), may.get_mut(place)) else {
                continue;
            };
            if may.is_none() {
                let until = turns.waits_until(now);
                if let Some(until) = until {
                    self.resume = Some(self.resume.map_or(until, |at| at.min(until)));
                }
                *may = Some(until.is_none());
            }
            if *may == Some(true) {
                ready.push((place, doer));
            }
        }
        let all = ready.iter().filter_map(|(place, _)| Some((*place, self.turns.get(*place)?)));
        let place = turns::next(all)?;
        // What it does in turn.
        let last = self.last.get(&place).copied();
        let own = ready.iter().filter(|(of, _)| *of == place).map(|(_, doer)| *doer);
        let after = own.clone().filter(|doer| last.is_some_and(|last| *doer > last)).min();
        Some((place, after.or_else(|| own.min())?))
    }

    /// Whether somebody could be served at once.
    pub(crate) fn has_work(&mut self) -> bool {
        self.ready.iter().any(|id| self.place_of(*id).is_none())
            || self.beginnings.keys().any(|id| self.takes(*id))
            || self.next_slice().is_some()
    }
}
