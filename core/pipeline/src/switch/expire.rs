//! Time: entries that expire (section 5.5).
//!
//! An entry waits under the time it had when it was added or last looked at. Packets move its real end, so
//! that a look may only find a later time; it is never too late.

use netloom_openflow::flow::RemovedReason;

use super::{Outputs, Switch};
use crate::rule::Time;

/// Entries whose time has come that are looked at at once, and steps of what that takes.
pub(super) const MOST_DUE: usize = 256;
const STEPS: usize = 8192;

impl Switch {
    /// When [`Switch::tick`] is to be called, at the latest.
    pub fn deadline(&self) -> Option<Time> {
        let first = self.deadlines.first().map(|(at, _)| *at);
        first.into_iter().chain(self.learning.deadline()).min()
    }

    /// Looks at the entries whose time may have come: those that packets have kept wait on. Returns whether
    /// [`Switch::tick`] would remove one now, or forget an address.
    pub fn postpone(&mut self, now: Time) -> bool {
        self.postpone_rules(now) || self.learning.has_old(now)
    }

    fn postpone_rules(&mut self, now: Time) -> bool {
        for _ in 0..STEPS {
            let Some((_, id)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) else {
                return false;
            };
            let table = self.tables.get_mut(usize::from(id.table));
            let Some(rule) = table.and_then(|table| table.get_mut(id)) else {
                self.deadlines.pop_first();
                continue;
            };
            let end = rule.expires();
            if end.is_some_and(|end| end <= now) {
                return true;
            }
            // The set's key must be the one that the entry remembers, or it could not be removed with the
            // entry.
            rule.scheduled = end;
            self.deadlines.pop_first();
            self.deadlines.extend(end.map(|end| (end, id)));
        }
        false
    }

    /// Removes entries whose time has come; of many some, and the others when it is called again
    /// ([`Switch::deadline`] has passed then).
    pub fn tick(&mut self, now: Time, out: &mut Outputs) {
        if self.learning.age(now) {
            self.changed();
        }
        let mut steps = 0;
        for _ in 0..MOST_DUE {
            let Some((_, id)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) else {
                return;
            };
            self.deadlines.pop_first();
            let table = self.tables.get_mut(usize::from(id.table));
            let before = table.as_ref().map_or(0, |table| table.passed());
            let Some(rule) = table.and_then(|table| table.get_mut(id)) else { continue };
            rule.scheduled = rule.expires();
            let Some(end) = rule.scheduled else { continue };
            if end > now {
                self.deadlines.insert((end, id));
                continue;
            }
            let reason = if rule.is_old(now) {
                RemovedReason::HardTimeout
            } else {
                RemovedReason::IdleTimeout
            };
            self.remove(id, reason, now, out);
            self.changed();
            let table = self.tables.get(usize::from(id.table));
            steps += table.map_or(0, |table| table.passed()) - before;
            if steps > STEPS {
                return;
            }
        }
    }
}
