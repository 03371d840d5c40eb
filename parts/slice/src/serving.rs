//! Turns: switches first, a bounded number of messages each; then slices, the one that has had least of the slicer's time
//! next. A slice whose quota is used up, or whose switch takes nothing for now, is not read.

use netloom_ofconn::Time;

use crate::Result;
use crate::server::Server;
use crate::system::{clock, cpu_ns};
use crate::turns;
use crate::wire::Side;

/// How long slices are served before others have their turn.
const TURN: Time = 2_000_000;

/// Messages of a switch in a turn.
const OF_SWITCH: usize = 128;

/// Messages of a connection of a slice at a time.
const OF_SLICE: usize = 16;

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
        if fresh && !self.is_busy(place, id) {
            let others = self.turns.iter().enumerate();
            let others = others.filter(|(at, _)| *at != place && self.is_busy(*at, id));
            let least = turns::least(others.map(|(_, turns)| turns));
            if let Some(turns) = self.turns.get_mut(place) {
                turns::begin(turns, least);
            }
        }
    }

    /// Whether a slice has messages on other connections than this one.
    fn is_busy(&self, place: usize, but: u64) -> bool {
        let mut others = self.ready.iter().filter(|id| **id != but);
        others.any(|id| self.place_of(*id) == Some(place))
    }

    fn place_of(&self, id: u64) -> Option<usize> {
        match self.wires.get(&id)?.side {
            Side::Slice { place, .. } => Some(place),
            _ => None,
        }
    }

    /// Serves switches and slices, for a bounded time.
    pub(crate) fn serve(&mut self, start: Time) -> Result<()> {
        let switches: Vec<u64> =
            self.ready.iter().copied().filter(|id| self.place_of(*id).is_none()).collect();
        for id in switches {
            self.serve_switch(id, OF_SWITCH)?;
        }
        self.resume = None;
        while let Some((place, id)) = self.next_slice() {
            let room = self.turns.get(place).map_or(OF_SLICE, |turns| turns.room(OF_SLICE));
            let before = cpu_ns();
            let (count, _) = self.serve_slice(id, room.max(1))?;
            self.last.insert(place, id);
            let now = clock();
            if let Some(turns) = self.turns.get_mut(place) {
                turns.took(count, cpu_ns().saturating_sub(before), now);
            }
            if now > start + TURN {
                break;
            }
        }
        Ok(())
    }

    /// Which slice goes next, and which of its connections; notes when one that is held may go on.
    fn next_slice(&mut self) -> Option<(usize, u64)> {
        let now = clock();
        let mut may: Vec<Option<bool>> = vec![None; self.turns.len()];
        let mut ready: Vec<(usize, u64)> = vec![];
        for id in &self.ready {
            let Some(Side::Slice { place, switch, slice, .. }) =
                self.wires.get(id).map(|w| &w.side)
            else {
                continue;
            };
            // What a switch does not take, or has not answered yet, is not asked for.
            let takes = self.wires.get(switch).is_none_or(|wire| !wire.channel.has_backlog())
                && self.reals.get(switch).is_none_or(|real| real.core.may_ask(*slice));
            let own = self.wires.get(id).is_none_or(|wire| !wire.channel.is_paused());
            let Some(turns) = self.turns.get_mut(*place).filter(|_| takes && own) else {
                continue;
            };
            let may = may.get_mut(*place)?;
            if may.is_none() {
                let until = turns.waits_until(now);
                if let Some(until) = until {
                    self.resume = Some(self.resume.map_or(until, |at| at.min(until)));
                }
                *may = Some(until.is_none());
            }
            if *may == Some(true) {
                ready.push((*place, *id));
            }
        }
        let all = ready.iter().filter_map(|(place, _)| Some((*place, self.turns.get(*place)?)));
        let place = turns::next(all)?;
        // Its connections in turn.
        let last = self.last.get(&place).copied().unwrap_or(0);
        let mut own = ready.iter().filter(|(of, _)| *of == place).map(|(_, id)| *id);
        let first = own.clone().next()?;
        Some((place, own.find(|id| *id > last).unwrap_or(first)))
    }

    /// Whether somebody could be served at once.
    pub(crate) fn has_work(&mut self) -> bool {
        self.ready.iter().any(|id| self.place_of(*id).is_none()) || self.next_slice().is_some()
    }
}
