//! How late the lab was while its steps were taken.
//!
//! What was late between two readings is their difference (`netloom_lab::view::FidelityView::since`), so a result is marked for
//! what happened while it was made, and for nothing before.

use std::time::Duration;

use netloom_api::Client;
use netloom_fidelity::LATE_NS;
use netloom_lab::calls::ShowFidelity;
use netloom_lab::view::{BehindView, FidelityView};
use netloom_model::expect::What;

use super::command::Cut;
use crate::verbs::behind;

/// Readings of a lab's lateness.
pub(super) struct Late {
    /// The one before the last step.
    before: Option<FidelityView>,
    /// The one that the next step `fidelity` counts from.
    judged: Option<FidelityView>,
}

impl Late {
    /// From now on.
    pub(super) fn begin(client: &Client) -> Late {
        // Without a reading steps are not marked; a step that needs it says why it has none.
        let now = client.call(&ShowFidelity {}).ok();
        Late { before: now.clone(), judged: now }
    }

    /// Whether anything was later than this since the last judgement, and what.
    pub(super) fn judge(
        &mut self,
        client: &Client,
        limit: Duration,
    ) -> Result<(bool, String), Cut> {
        let read = client.call(&ShowFidelity {});
        let now = read.map_err(|e| Cut::Failed(netloom_sys::describe(&e)))?;
        let words = "how late the lab was when it came up could not be read";
        let before = self.judged.replace(now.clone()).ok_or_else(|| Cut::Failed(words.into()))?;
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let over: Vec<BehindView> =
            now.since(&before, limit).into_iter().filter(BehindView::is_over).collect();
        if !over.is_empty() {
            return Ok((false, behind::lines(&over)));
        }
        let missing = now.unmeasured.iter().map(|what| format!("\nnot measured: {what}"));
        Ok((true, format!("nothing was{}", missing.collect::<String>())))
    }

    /// What was late during a step, which is over: a line for each.
    pub(super) fn during(&mut self, client: &Client, what: &What) -> Option<String> {
        let now = client.call(&ShowFidelity {}).ok()?;
        let before = self.before.replace(now.clone())?;
        // An action has no result, and a judgement says it itself.
        if matches!(what, What::Do(_) | What::Fidelity(_)) {
            return None;
        }
        behind::mark(&now.since(&before, LATE_NS))
    }
}
