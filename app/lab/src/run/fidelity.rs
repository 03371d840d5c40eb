//! How late the lab is, as `status`, events and `/v1/fidelity` tell it; what the figures mean is in [`netloom_fidelity`].
//!
//! Wires count frames themselves, so a reading of them is all that they cost. The rest is the [`meter`](crate::run::meter)'s.

use std::collections::BTreeMap;

use netloom_fidelity::Waits;
use netloom_fidelity::machine::{Machine, Ticks};
use netloom_impair::Cause;
use netloom_model::Plan;
use netloom_model::plan::{LinkSide, PlannedLink};
use netloom_wire::control::DirectionState;

use crate::Result;
use crate::run::meter::machine;
use crate::run::running::Running;
use crate::stage::lab_process::now_ns;
use crate::view::{BehindView, FidelityView, LatenessView, sort_behind};

/// States of wires from their process, by link and end.
type Directions = BTreeMap<LinkSide, DirectionState>;

/// What is not told here.
fn unmeasured(machine: &Machine) -> Vec<String> {
    let own = Waits::parse(&std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default());
    // The process that reads this has had a turn.
    let waits = own.is_none_or(|waits| waits.turns == 0);
    let missing = [
        (waits, "waits for a processor: the kernel has no /proc/PID/schedstat"),
        (machine.backlog_drops.is_none(), "backlogs of processors: no /proc/net/softnet_stat"),
        (machine.ticks.is_none(), "stolen time: no such column in /proc/stat"),
    ];
    missing.into_iter().filter(|(is, _)| *is).map(|(_, words)| words.to_owned()).collect()
}

/// What is behind now: links by what their wires show, the rest by the last look.
pub(super) fn now(
    running: &Running,
    plan: &Plan,
    directions: Option<&Directions>,
) -> Vec<BehindView> {
    let mut all: Vec<BehindView> = each(plan, directions)
        .filter_map(|(link, side, found)| of_wire(plan, link, side, found))
        .collect();
    all.extend(running.meter.behind());
    sort_behind(&mut all);
    all
}

/// Every direction that has a wire.
fn each<'a>(
    plan: &'a Plan,
    directions: Option<&'a Directions>,
) -> impl Iterator<Item = (&'a PlannedLink, usize, &'a DirectionState)> {
    let of = move |side: &LinkSide| directions?.get(side);
    plan.links.iter().flat_map(move |link| {
        [0, 1].into_iter().filter_map(move |side| Some((link, side, of(&(link.id, side))?)))
    })
}

fn of_wire(
    plan: &Plan,
    link: &PlannedLink,
    side: usize,
    found: &DirectionState,
) -> Option<BehindView> {
    let recent = found.recent;
    let since = now_ns().saturating_sub(recent.behind_for_ns?);
    Some(BehindView {
        name: link.name.clone(),
        from: Some(plan.end_text(&link.ends[side])),
        late_ns: Some(recent.max_ns),
        p99_ns: Some(recent.p99_ns),
        count: recent.frames,
        since_ns: Some(since),
        ..BehindView::default()
    })
}

impl Running {
    /// See [`ShowFidelity`](crate::calls::ShowFidelity).
    pub(crate) fn fidelity(&self) -> Result<FidelityView> {
        let state = self.state();
        let plan = &state.plan;
        let directions = self.wire_states(&state);
        let links = each(plan, directions.as_ref().ok()).map(|(link, side, found)| LatenessView {
            link: link.name.clone(),
            from: plan.end_text(&link.ends[side]),
            sum_ns: found.lateness.sum_ns,
            max_ns: found.lateness.max_ns,
            counts: found.lateness.counts().to_vec(),
            overruns: found.ledger.lost.of(Cause::Overrun).packets,
            overdue_ns: found.recent.overdue_ns,
        });
        let links = links.collect();
        let behind = now(self, plan, directions.as_ref().ok());
        let waits = self.meter.waits(&self.folder, plan);
        let machine = machine();
        let mut missing = unmeasured(&machine);
        if let Err(reason) = &directions {
            missing.push(format!("frames: wires: {reason}"));
        }
        Ok(FidelityView {
            time_ns: now_ns(),
            links,
            waits,
            backlog_drops: machine.backlog_drops,
            ticks: machine.ticks.map(|Ticks { all, stolen }| [all, stolen]),
            unmeasured: missing,
            behind,
        })
    }
}
