//! Time: entries that expire (section 5.5).
//!
//! An entry waits under the time it had when it was added or last looked at. Packets move its real end, so
//! that a look may only find a later time; it is never too late.

use netloom_openflow::flow::RemovedReason;

use super::{Outputs, Switch};
use crate::rule::Time;

impl Switch {
    /// When [`Switch::tick`] is to be called, at the latest.
    pub fn deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Removes entries whose time has come.
    pub fn tick(&mut self, now: Time, out: &mut Outputs) {
        while let Some((at, id)) = self.deadlines.first().copied() {
            if at > now {
                return;
            }
            self.deadlines.pop_first();
            let table = self.tables.get_mut(usize::from(id.table));
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
        }
    }
}
