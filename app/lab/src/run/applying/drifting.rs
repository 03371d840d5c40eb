//! Reverts manual changes outside the plan: interfaces that were moved, links that were set down, and what was
//! changed without netloom.

use std::collections::BTreeSet;

use netloom_model::plan::NodeId;

use crate::Result;
use crate::run::prospect::Drift;
use crate::run::running::{Running, Work};

impl Running {
    pub(super) fn take_drift_back(&self, work: &mut Work, drift: &Drift) -> Result<()> {
        let holders: BTreeSet<NodeId> = drift.moved.iter().map(|moved| moved.node).collect();
        for node in holders {
            self.bring_home(work, &[node])?;
        }
        for id in &drift.down {
            if let Some(at) = self.state().plan.link_slot_of(*id) {
                self.set_up(work, at, true)?;
            }
        }
        self.mend(work, &drift.kernel)
    }
}
