//! Impairments of a running link: shown, changed, and observed packet by packet.

use netloom_impair::{Cause, Fate, Impairments};
use netloom_model::impairment::{self, text};
use netloom_model::lookup::find_link;
use netloom_model::plan::LinkSlot;
use netloom_model::plan::PlannedLink;
use netloom_model::plan::form::LinkForm;
use netloom_wire::control::{DirectionState, Record, Request};

use crate::keep::wires::{self, expressions};
use crate::run::running::{Running, Work};
use crate::stage::absent;
use crate::store::state::State;
use crate::view::{DirectionView, FateView, Fates, LinkSettings, LinkStatus, Noting, WireView};
use crate::{Error, Result, Subject};

/// Most fates of one answer.
const MOST_FATES: usize = 4096;

impl Running {
    /// See [`SetLink`](crate::calls::SetLink).
    pub(crate) fn impair(&self, asked: &str, change: &LinkSettings) -> Result<LinkStatus> {
        let mut work = self.work();
        let state = self.state();
        let (at, end) = find_link(&state.plan, asked)?;
        let link = &state.plan.links[at];
        absent::refuse_lost(&state, link)?;
        let object = Subject::of("link", &link.name);
        let invalid = |reason: String| Error::Invalid { object: object.clone(), reason };
        if change.end.is_some_and(|e| e > 1) {
            return Err(invalid("a link has two ends, 0 and 1".into()));
        }
        let ends = ends_here(&state, link, change.end.or(end))?;
        let mut wanted = link.impairments.clone();
        for end in ends {
            if change.clear {
                wanted[end] = Impairments::default();
            }
            for (key, value) in &change.settings {
                impairment::set(&mut wanted[end], key, value).map_err(&invalid)?;
            }
            wanted[end].check().map_err(|p| invalid(format!("{}: {}", p.key, p.reason)))?;
            expressions::check(&state.plan, &link.name, &wanted[end])?;
        }
        if change.clear || !change.settings.is_empty() {
            self.put_impairments(&mut work, at, wanted)?;
        }
        if let Some(up) = change.up {
            self.set_up(&mut work, at, up)?;
        }
        drop(work);
        self.link(&link.name)
    }

    /// Applies these impairments; restores the old ones if that fails.
    fn put_impairments(
        &self,
        work: &mut Work,
        at: LinkSlot,
        wanted: [Impairments; 2],
    ) -> Result<()> {
        let old = self.state().plan.links[at].impairments.clone();
        let put = |wanted: [Impairments; 2]| {
            move |state: &mut State| {
                state.plan.links[at].impairments = wanted;
                Ok(())
            }
        };
        self.change(work, put(wanted))?;
        let done = self.make_room_for_wire(work, at).and_then(|()| self.put_wire_in(work, at));
        if let Err(refused) = done {
            // Remove what was inserted partly.
            self.change(work, put(old))?;
            let _ = self.put_wire_in(work, at);
            return Err(refused);
        }
        Ok(())
    }

    /// See [`NoteFates`](crate::calls::NoteFates).
    pub(crate) fn note(&self, asked: &str, keep: usize) -> Result<Noting> {
        let state = self.state();
        let (at, end) = find_link(&state.plan, asked)?;
        let link = &state.plan.links[at];
        let wanted = |from: &usize| end.is_none_or(|e| e == *from);
        let ends: Vec<usize> = [0, 1]
            .into_iter()
            .filter(|from| {
                wanted(from) && (end.is_some() || self.kept.keepers.wires.has(link, *from))
            })
            .collect();
        if ends.is_empty() {
            let reason = "nothing is impaired, so there is no wire to ask".to_owned();
            return Err(Error::Invalid { object: Subject::of("link", &link.name), reason });
        }
        for from in ends {
            self.kept.keepers.wires.ask(link, from, |process, wire| {
                process.order(&Request::Fates { wire, direction: 0, keep }, &[])
            })?;
        }
        Ok(Noting { link: asked.to_owned(), keep })
    }

    /// See [`ReadFates`](crate::calls::ReadFates).
    pub(crate) fn fates_of(&self, asked: &str, end: usize, after: Option<u64>) -> Result<Fates> {
        let state = self.state();
        let (at, named) = find_link(&state.plan, asked)?;
        let link = &state.plan.links[at];
        let from = named.unwrap_or(end);
        let wires = &self.kept.keepers.wires;
        let found =
            wires.ask(link, from, |process, wire| process.fates(wire, 0, after, MOST_FATES))?;
        let fates = found.records.iter().map(|r| fate(from, r)).collect();
        Ok(Fates { fates, missed: found.missed })
    }
}

/// The ends whose frames are impaired here: that of a link to another host is impaired by the host that makes it, as all
/// impairments are at their sender's side.
fn ends_here(state: &State, link: &PlannedLink, asked: Option<usize>) -> Result<Vec<usize>> {
    let mut all = state.across.iter().flat_map(|across| &across.far);
    match (all.find(|far| far.link == link.id), asked) {
        (Some(far), Some(end)) if far.side == end => Err(Error::Invalid {
            object: Subject::of("link", &link.name),
            reason: format!(
                "host {:?} makes the end {}, and impairs what that sends; use `netloom link set --on HOSTS`",
                far.peer, far.end
            ),
        }),
        (Some(far), None) => Ok(vec![1 - far.side]),
        (_, Some(end)) => Ok(vec![end]),
        (None, None) => Ok(vec![0, 1]),
    }
}

/// Whether a link has a wire, or should have one.
pub(crate) fn has_wire(state: &State, link: &PlannedLink) -> bool {
    link.is_impaired() || state.form(link) == LinkForm::Wired
}

/// The view of a link's wire; `None` if it has none. `directions` are those of the whole lab, or why there are none.
pub(crate) fn view(
    state: &State,
    link: &PlannedLink,
    directions: &wires::States,
    restarts: u32,
) -> Option<WireView> {
    let plan = &state.plan;
    if !has_wire(state, link) {
        return None;
    }
    let one = |from: usize| -> Option<DirectionView> {
        let asked = &link.impairments[from];
        let found = directions.as_ref().ok().and_then(|d| d.get(&(link.id, from)));
        if asked.is_none() && found.is_none() {
            return None;
        }
        let mut view = found.map_or_else(DirectionView::default, direction);
        view.from = plan.end_text(&link.ends[from]);
        view.impairments = text::impairments(asked);
        Some(view)
    };
    let directions_shown: Vec<Option<DirectionView>> = [0, 1].map(one).into();
    let missing = [0, 1].iter().any(|from| {
        !link.impairments[*from].is_none()
            && directions.as_ref().is_ok_and(|d| !d.contains_key(&(link.id, *from)))
    });
    let state = match (directions, missing) {
        (Err(reason), _) => reason,
        (Ok(_), true) => "stopped: it could not be put in",
        (Ok(_), false) => "running",
    };
    Some(WireView { state: state.to_owned(), restarts, directions: directions_shown })
}

fn direction(state: &DirectionState) -> DirectionView {
    let ledger = &state.ledger;
    let lost = Cause::ALL.iter().filter_map(|cause| {
        let count = ledger.lost.of(*cause);
        (count.packets > 0).then(|| (cause.name().to_owned(), count.packets))
    });
    DirectionView {
        offered_packets: ledger.offered.packets,
        offered_bytes: ledger.offered.bytes,
        sent_packets: ledger.sent.packets,
        sent_bytes: ledger.sent.bytes,
        duplicated: ledger.duplicated.packets,
        corrupted: ledger.corrupted.packets,
        reordered: ledger.reordered.packets,
        held_packets: ledger.held.packets,
        held_bytes: ledger.held.bytes,
        lost: lost.collect(),
        late_us: [us(state.lateness.mean_ns()), us(state.lateness.max_ns)],
        late_sum_ns: state.lateness.sum_ns,
        ..DirectionView::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a lateness is far below 2^53 ns")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn fate(end: usize, record: &Record) -> FateView {
    let mut view = FateView {
        sequence: record.sequence,
        end,
        time_ns: record.time_ns,
        hash: format!("{:016x}", record.hash),
        bytes: record.bytes,
        ..FateView::default()
    };
    match record.fate {
        Fate::Lost(cause) => cause.name().clone_into(&mut view.fate),
        Fate::Sent { at_ns, corrupt_bit, again_ns } => {
            "sent".clone_into(&mut view.fate);
            view.delay_ns = Some(at_ns);
            view.corrupted = corrupt_bit.is_some();
            view.duplicated = again_ns.is_some();
        }
    }
    view
}
