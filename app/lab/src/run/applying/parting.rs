//! Turns a host's part of a lab over several hosts into another one: links to other hosts come, go, and lead elsewhere.
//!
//! Addresses, routes and numbers are those of the whole lab, whose plan the agent makes; nothing of them is chosen here.

use std::sync::Arc;

use netloom_model::Plan;

use crate::run::running::{Running, Work};
use crate::store::across::Across;
use crate::store::state::State;
use crate::view::Apply;
use crate::{Error, Result};

impl Running {
    /// The state that a request is compared with. Links whose other end another host gets are recreated: they count as
    /// unfinished, and are removed first.
    pub(super) fn part_of(
        &self,
        work: &mut Work,
        request: &Apply,
        across: Option<&Across>,
        refuse: &dyn Fn(&str) -> Error,
    ) -> Result<Arc<State>> {
        let state = self.state();
        let (known, new) = match (&state.across, across) {
            (None, None) => return Ok(state),
            (Some(known), Some(new)) => (known, new),
            (Some(_), None) => {
                return Err(refuse(
                    "is one host's part of a lab over several; use `netloom apply FILE --on HOSTS`",
                ));
            }
            (None, Some(_)) => return Err(refuse("is not a part of a lab over several hosts")),
        };
        if let Some(reason) = new.misfit(known) {
            return Err(refuse(&reason));
        }
        let Some(wanted) = &request.plan else { return Ok(state) };
        let moved = known.led_elsewhere(&state.plan, new, wanted);
        if moved.is_empty() {
            return Ok(state);
        }
        if request.dry_run {
            let mut shown = State::clone(&state);
            shown.unfinished.extend(moved);
            return Ok(Arc::new(shown));
        }
        drop(state);
        self.drop_links(work, &moved)?;
        Ok(self.state())
    }

    /// Notes where links lead, before any is made: those of both plans. Returns what holds at the end.
    pub(super) fn lead_to_hosts(
        &self,
        work: &mut Work,
        across: Option<Across>,
        wanted: &Plan,
        target: &Plan,
    ) -> Result<Option<Across>> {
        let Some(across) = across.map(|across| across.renumbered(wanted, target)) else {
            return Ok(None);
        };
        let both = match &self.state().across {
            Some(earlier) => across.clone().beside(earlier),
            None => across.clone(),
        };
        self.change(work, |state| {
            state.across = Some(both);
            Ok(())
        })?;
        Ok(Some(across))
    }

    /// Notes where links lead once all of them are made. The thread that asks other hosts sees it by itself.
    pub(super) fn follow_hosts(&self, work: &mut Work, across: Option<Across>) -> Result<()> {
        let Some(across) = across else { return Ok(()) };
        self.change(work, |state| {
            state.across = Some(across);
            Ok(())
        })
    }
}
