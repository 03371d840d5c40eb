//! Marks for what was late while something was measured.
//!
//! A block closes some time after its end, so what was late between two closings may be of the block that closes or of the one
//! that follows: both are named.

use std::time::Duration;

use anyhow::{Result, bail};
use netloom_api::Client;
use netloom_fidelity::LATE_NS;
use netloom_lab::calls::ShowFidelity;
use netloom_lab::view::{BehindView, FidelityView};
use serde_json::json;

use super::line;
use crate::flags::Measure;
use crate::labs;
use crate::verbs::behind;

/// Readings of a lab's lateness.
pub(super) struct Late {
    client: Client,
    /// When it began, and when the last block closed.
    readings: [FidelityView; 2],
}

impl Late {
    /// From now on; `None` where it cannot be read and nobody asks for a bound.
    ///
    /// # Errors
    /// It cannot be read, and `--fidelity` asks for it.
    pub(super) fn begin(lab: Option<&str>, args: &Measure) -> Result<Option<Late>> {
        let read = || {
            let client = labs::connect(lab)?;
            let now = client.call(&ShowFidelity {})?;
            anyhow::Ok(Late { client, readings: [now.clone(), now] })
        };
        match (read(), args.fidelity) {
            (Ok(late), _) => Ok(Some(late)),
            // From inside a node, or of a lab process of an older version.
            (Err(_), None) => Ok(None),
            (Err(e), Some(_)) => Err(e.context("--fidelity: read how late the lab is")),
        }
    }

    /// This block has closed: tells what was late meanwhile.
    pub(super) fn closed(&mut self, block: u64, args: &Measure) -> Result<()> {
        let Ok(now) = self.client.call(&ShowFidelity {}) else { return Ok(()) };
        let late = now.since(&self.readings[1], LATE_NS);
        self.readings[1] = now;
        if late.is_empty() {
            return Ok(());
        }
        if args.json {
            let blocks = [block, block + 1];
            let text = json!({ "type": "behind", "blocks": blocks, "behind": form(&late)? });
            return line(&text.to_string());
        }
        let mark = behind::mark(&late).unwrap_or_default();
        for told in mark.lines() {
            tell_line!("note: block {block} or {}: {told}", block + 1);
        }
        Ok(())
    }

    /// All blocks have closed: tells what was late at any time, and holds it against `--fidelity`.
    pub(super) fn end(&self, args: &Measure) -> Result<()> {
        let now = match self.client.call(&ShowFidelity {}) {
            Ok(now) => now,
            Err(e) if args.fidelity.is_some() => bail!("--fidelity: read how late the lab is: {e}"),
            Err(_) => return Ok(()),
        };
        let limit = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let begun = &self.readings[0];
        let late = now.since(begun, LATE_NS);
        if args.json {
            let text = json!({
                "type": "behind_total", "behind": form(&late)?, "unmeasured": now.unmeasured,
            });
            line(&text.to_string())?;
        } else {
            let mark = behind::mark(&late).unwrap_or_default();
            mark.lines().for_each(|told| tell_line!("note: {told}"));
        }
        let Some(wanted) = args.fidelity else { return Ok(()) };
        let found = now.since(begun, limit(wanted)).into_iter();
        let over: Vec<BehindView> = found.filter(BehindView::is_over).collect();
        if over.is_empty() {
            return Ok(());
        }
        bail!("the lab was later than --fidelity {wanted:?}: {}", behind::lines(&over))
    }
}

fn form(late: &[BehindView]) -> Result<serde_json::Value> {
    Ok(netloom_form::to_value(late)?)
}
