//! What a running link does to frames: shown, changed, and watched packet by packet.

use std::time::{Duration, Instant};

use netloom_impair::{Cause, Fate, Impairments};
use netloom_model::impairment::{self, words};
use netloom_model::plan::{Plan, PlannedEnd, PlannedLink};
use netloom_wire::control::{DirectionState, Record, Request};

use crate::running::{Running, Work};
use crate::state::State;
use crate::view::{DirectionView, FateView, Fates, LinkSettings, LinkStatus, WireView};
use crate::{Error, Result, Service, end_text};

/// Pause between two looks for somebody who waits for fates.
const LOOK: Duration = Duration::from_millis(20);

/// How many links of several are named.
const MOST_NAMED: usize = 8;

/// Most fates of one answer.
const MOST_FATES: usize = 4096;

/// Finds a link: its place in the plan. It goes by its name; by one of its ends, `NODE:IFACE`, which then
/// is the end meant; or by both of its ends, `A--B`, `A,B` or `A B`, in any order, where a node stands for each of its
/// interfaces.
///
/// # Errors
/// [`Error::NoLink`]; [`Error::Invalid`] where several links are between the two.
pub fn find_link(plan: &Plan, asked: &str) -> Result<(usize, Option<usize>)> {
    let name = asked.strip_prefix("link:").unwrap_or(asked);
    if let Some(found) = plan.link(name) {
        return Ok((found, None));
    }
    let end = |link: &PlannedLink| {
        let named =
            |e: &PlannedEnd| matches!(e, PlannedEnd::Node { .. }) && end_text(plan, e) == name;
        link.ends.iter().position(named)
    };
    let found = plan.links.iter().enumerate().find_map(|(i, l)| Some((i, Some(end(l)?))));
    if let Some(found) = found {
        return Ok(found);
    }
    match between(plan, name).as_slice() {
        [one] => Ok((*one, None)),
        [] => Err(no_link(plan, asked, name)),
        several => {
            let names: Vec<&str> =
                several.iter().take(MOST_NAMED).map(|at| plan.links[*at].name.as_str()).collect();
            let more = several.len() - names.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let reason = format!("which of {}{more}?", names.join(", "));
            Err(Error::Invalid { object: format!("link {asked:?}"), reason })
        }
    }
}

/// Places of the links between two ends that are written as one word.
fn between(plan: &Plan, words: &str) -> Vec<usize> {
    let is = |end: &PlannedEnd, word: &str| match end {
        PlannedEnd::Node { node, .. } => {
            plan.nodes[*node].name == word || end_text(plan, end) == word
        }
        end => end_text(plan, end) == word,
    };
    let joins = |link: &PlannedLink, a: &str, b: &str| {
        let [first, second] = &link.ends;
        (is(first, a) && is(second, b)) || (is(first, b) && is(second, a))
    };
    let all = |a: &str, b: &str| -> Vec<usize> {
        (0..plan.links.len()).filter(|at| joins(&plan.links[*at], a.trim(), b.trim())).collect()
    };
    if let Some((a, b)) = words.split_once([',', ' ']) {
        return all(a, b);
    }
    // A name may have two hyphens itself.
    let cuts = words.match_indices("--").map(|(at, _)| (&words[..at], &words[at + 2..]));
    cuts.flat_map(|(a, b)| all(a, b)).collect()
}

fn no_link(plan: &Plan, asked: &str, name: &str) -> Error {
    let near = plan.links.iter().find(|l| l.name.contains(name) && !name.is_empty());
    let hint = near.map_or_else(String::new, |l| format!("; did you mean {:?}?", l.name));
    Error::NoLink { lab: plan.lab.clone(), link: asked.to_owned(), hint }
}

impl Running {
    /// See [`Service::set_link`].
    pub(crate) fn impair(&self, asked: &str, change: &LinkSettings) -> Result<LinkStatus> {
        let mut work = self.work();
        let state = self.state();
        let (at, end) = find_link(&state.plan, asked)?;
        let link = &state.plan.links[at];
        crate::linking::refuse_lost(&state, link)?;
        let object = format!("link {:?}", link.name);
        let invalid = |reason: String| Error::Invalid { object: object.clone(), reason };
        if change.end.is_some_and(|e| e > 1) {
            return Err(invalid("a link has two ends, 0 and 1".into()));
        }
        let ends = match change.end.or(end) {
            Some(end) => vec![end],
            None => vec![0, 1],
        };
        let mut wanted = link.impairments.clone();
        for end in ends {
            if change.clear {
                wanted[end] = Impairments::default();
            }
            for (key, value) in &change.settings {
                impairment::set(&mut wanted[end], key, value).map_err(&invalid)?;
            }
            wanted[end].check().map_err(|p| invalid(format!("{}: {}", p.key, p.reason)))?;
        }
        if change.clear || !change.settings.is_empty() {
            self.put_impairments(&mut work, at, wanted)?;
        }
        if let Some(up) = change.up {
            self.set_up(&mut work, at, up)?;
        }
        drop(work);
        let name = link.name.clone();
        let links = self.status()?.links.into_iter();
        links.into_iter().find(|l| l.name == name).ok_or_else(|| Error::NoLink {
            lab: state.plan.lab.clone(),
            link: name,
            hint: String::new(),
        })
    }

    /// Makes these impairments hold; as it was where that is refused.
    fn put_impairments(&self, work: &mut Work, at: usize, wanted: [Impairments; 2]) -> Result<()> {
        let old = self.state().plan.links[at].impairments.clone();
        let put = |wanted: [Impairments; 2]| {
            move |state: &mut State| {
                state.plan.links[at].impairments = wanted;
                Ok(())
            }
        };
        self.change(work, put(wanted))?;
        if let Err(refused) = self.put_wire_in(work, at) {
            // What was put in half is taken out.
            self.change(work, put(old))?;
            let _ = self.put_wire_in(work, at);
            return Err(refused);
        }
        Ok(())
    }

    /// See [`Service::note_fates`].
    pub(crate) fn note(&self, asked: &str, keep: Option<usize>) -> Result<()> {
        let state = self.state();
        let (at, end) = find_link(&state.plan, asked)?;
        let link = &state.plan.links[at];
        let wanted = |from: &usize| end.is_none_or(|e| e == *from);
        let ends: Vec<usize> = [0, 1]
            .into_iter()
            .filter(|from| wanted(from) && (end.is_some() || self.kept.wires.has(link, *from)))
            .collect();
        if ends.is_empty() {
            let reason = "nothing is impaired, so there is no wire to ask".to_owned();
            return Err(Error::Invalid { object: format!("link {:?}", link.name), reason });
        }
        for from in ends {
            self.kept.wires.ask(link, from, |process, wire| {
                let keep = keep.unwrap_or(0);
                process.order(&Request::Fates { wire, direction: 0, keep }, &[])
            })?;
        }
        Ok(())
    }

    /// See [`Service::fates`].
    pub(crate) fn fates_of(
        &self,
        asked: &str,
        end: usize,
        after: Option<u64>,
        wait: Duration,
    ) -> Result<Fates> {
        let state = self.state();
        let (at, named) = find_link(&state.plan, asked)?;
        let link = &state.plan.links[at];
        let from = named.unwrap_or(end);
        let until = Instant::now() + wait;
        loop {
            let found = self
                .kept
                .wires
                .ask(link, from, |process, wire| process.fates(wire, 0, after, MOST_FATES))?;
            if !found.records.is_empty() || Instant::now() >= until {
                let fates = found.records.iter().map(|r| fate(from, r)).collect();
                return Ok(Fates { fates, missed: found.missed });
            }
            std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
    }
}

/// The wire of a link as it is shown; `None` where there is none. `directions` are those of the whole
/// lab, or `None` when the process is gone.
pub(crate) fn view(
    state: &State,
    link: &PlannedLink,
    directions: Option<&std::collections::BTreeMap<(usize, usize), DirectionState>>,
    restarts: u32,
) -> Option<WireView> {
    let plan = &state.plan;
    if !crate::wires::impaired(link) && !crate::wires::built_in(state, link) {
        return None;
    }
    let one = |from: usize| -> Option<DirectionView> {
        let asked = &link.impairments[from];
        let found = directions.and_then(|d| d.get(&(link.id, from)));
        if asked.is_none() && found.is_none() {
            return None;
        }
        let mut view = found.map_or_else(DirectionView::default, direction);
        view.from = end_text(plan, &link.ends[from]);
        view.impairments = words::impairments(asked);
        Some(view)
    };
    let directions_shown: Vec<Option<DirectionView>> = [0, 1].map(one).into();
    let missing = [0, 1].iter().any(|from| {
        !link.impairments[*from].is_none()
            && directions.is_none_or(|d| !d.contains_key(&(link.id, *from)))
    });
    let state = match (directions, missing) {
        (None, _) => "stopped: its process has ended",
        (Some(_), true) => "stopped: it could not be put in",
        (Some(_), false) => "running",
    };
    Some(WireView { state: state.to_owned(), restarts, directions: directions_shown })
}

fn direction(state: &DirectionState) -> DirectionView {
    let ledger = &state.ledger;
    let lost = Cause::ALL.iter().filter_map(|cause| {
        let count = ledger.lost.of(*cause);
        (count.packets > 0).then(|| (cause_name(*cause).to_owned(), count.packets))
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
        ..DirectionView::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a lateness is far below 2^53 ns")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::Loss => "loss",
        Cause::Queue => "queue",
        Cause::Mtu => "mtu",
        Cause::Memory => "memory",
        Cause::Overrun => "overrun",
        Cause::Refused => "refused",
        Cause::Malformed => "malformed",
        Cause::Closed => "closed",
    }
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
        Fate::Lost(cause) => cause_name(cause).clone_into(&mut view.fate),
        Fate::Sent { at_ns, corrupt_bit, again_ns } => {
            "sent".clone_into(&mut view.fate);
            view.delay_ns = Some(at_ns);
            view.corrupted = corrupt_bit.is_some();
            view.duplicated = again_ns.is_some();
        }
    }
    view
}
