//! What a recording says of a flow: where its packets passed, the last place that saw one that did not arrive, and what stands
//! there now.
//!
//! A recording has frames, and not what kernels did with them. So a cause is one of now, is told as such, and is only named where
//! packets are lost still: what passed the same place later refutes whatever stands there.

use crate::cause::{Basis, Cause, Direction};
use crate::flow::{Flow, Place};
use crate::report::{Hop, Recorded, Report, Sighting, Verdict, Way};
use crate::text::key;
use crate::walk::{Share, Walk};

/// Where a recording has seen a packet: at the end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The node; `None` for the ports of switches.
    pub node: Option<String>,
    /// The interface there.
    pub interface: String,
    /// In the lab's words: `h1:eth0`.
    pub name: String,
    /// Whether packets leave there.
    pub out: bool,
}

impl Spot {
    fn is(&self, place: &Place) -> bool {
        (&self.node, &self.interface, self.out) == (&place.node, &place.interface, place.out)
    }

    fn of(place: &Place) -> Spot {
        let Place { node, interface, out, name } = place.clone();
        Spot { node, interface, name, out }
    }

    fn hop(&self, seen: Sighting) -> Hop {
        Hop { name: self.name.clone(), out: self.out, seen }
    }
}

/// What became of a packet that asks for an answer: an echo request, a request for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reply {
    /// It asks for none, or so short ago that it may be on its way.
    #[default]
    NotDue,
    /// The receiver sent one.
    Came,
    /// No link saw one.
    Missing,
    /// The receiver, or a node before it, refused the packet: a reset, or an ICMP error.
    Refused,
}

/// A packet, as the recording has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Where it was seen, in order.
    pub spots: Vec<Spot>,
    /// When it was seen first and last, in nanoseconds since 1970 UTC.
    pub times_ns: (u64, u64),
    /// Whether it was seen at a link of the receiver.
    pub arrived: bool,
    /// What became of it, on the way there.
    pub reply: Reply,
}

/// What a recording has of a flow and its answers, each in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Its packets.
    pub there: Vec<Trace>,
    /// Packets of the receiver for the sender.
    pub back: Vec<Trace>,
    /// The ends at which links are recorded: node and interface.
    pub recorded: Vec<(Option<String>, String)>,
    /// Why what is not in it may have been there.
    pub doubts: Vec<String>,
}

impl Past {
    /// Whether a link is recorded at a place.
    fn has(&self, place: &Place) -> bool {
        let mut all = self.recorded.iter();
        all.any(|(node, interface)| (node, interface) == (&place.node, &place.interface))
    }
}

/// A way of packets with what was seen of them, and the way that they have now.
struct Side<'a> {
    traces: &'a [Trace],
    now: &'a Walk,
    direction: Direction,
}

/// Says where packets of a flow were lost; `there` and `back` are the ways of now. `time` is a moment in words.
pub fn judge_past(
    flow: &Flow,
    (there, back): (&Walk, &Walk),
    past: &Past,
    time: impl Fn(u64) -> String,
) -> Report {
    let there = Side { traces: &past.there, now: there, direction: Direction::There };
    let back = Side { traces: &past.back, now: back, direction: Direction::Back };
    let lost = [&there, &back].map(|side| side.traces.iter().filter(|t| !t.arrived).count());
    let mut report = Report {
        probe: "nothing".to_owned(),
        recorded: Some(Recorded {
            packets: past.there.len(),
            lost: lost[0],
            answers: past.back.len(),
            lost_answers: lost[1],
        }),
        there: there.way(past),
        ..Report::about(flow)
    };
    if lost[0] == 0 && !past.back.is_empty() {
        report.back = Some(back.way(past));
    }
    report.verdict = match (past.there.is_empty(), lost) {
        (true, _) => {
            let text = format!(
                "the recording has no packet of it in this time: {} sent none, or none that a link of the lab saw",
                flow.from
            );
            report.missing.push(text);
            Verdict::NotKnown
        }
        (_, [0, 0]) => there.answered(&back, past, &mut report, time),
        (_, [0, _]) => back.explain(past, &mut report, time),
        _ => there.explain(past, &mut report, time),
    };
    // Whatever was found: what is not in the recording may have gone another way.
    report.missing.extend(past.doubts.iter().cloned());
    report
}

impl Side<'_> {
    /// The newest packet that did not arrive, else the newest.
    fn shown(&self) -> Option<&Trace> {
        self.traces.iter().rev().find(|trace| !trace.arrived).or(self.traces.last())
    }

    /// Where a packet would have been seen after this way: as another was that came farther, else by the way of now.
    fn rest(&self, past: &Past, trace: &Trace) -> Vec<Spot> {
        let seen = trace.spots.len();
        let other = self.traces.iter().rev().find(|other| {
            other.arrived && other.spots.len() > seen && other.spots.starts_with(&trace.spots)
        });
        if let Some(other) = other {
            return other.spots.get(seen..).unwrap_or_default().to_vec();
        }
        let places = &self.now.places;
        let last = trace.spots.last().and_then(|last| places.iter().position(|p| last.is(p)));
        let Some(last) = last else { return vec![] };
        places.iter().skip(last + 1).filter(|place| past.has(place)).map(Spot::of).collect()
    }

    fn way(&self, past: &Past) -> Way {
        let Some(shown) = self.shown() else { return Way::default() };
        let mut hops: Vec<Hop> =
            shown.spots.iter().map(|spot| spot.hop(Sighting::Packet)).collect();
        let last = hops.last().map(key);
        if shown.arrived {
            return Way { hops, last, ..Way::default() };
        }
        let rest = self.rest(past, shown);
        hops.extend(rest.iter().map(|spot| spot.hop(Sighting::Nothing)));
        let lost = hops.get(shown.spots.len()).map(key);
        Way { hops, last, lost, ..Way::default() }
    }

    /// Says what stands where the newest packet was lost that did not arrive.
    fn explain(&self, past: &Past, report: &mut Report, time: impl Fn(u64) -> String) -> Verdict {
        let Some(lost) = self.traces.iter().rev().find(|trace| !trace.arrived) else {
            return Verdict::NotKnown;
        };
        let rest = self.rest(past, lost);
        let which = if self.direction == Direction::There { "packet" } else { "answer" };
        let at = lost.spots.last().map_or_else(String::new, |last| last.name.clone());
        let next = rest.first().map_or_else(
            || " and no further".to_owned(),
            |next| format!(", and was not seen at {}", next.name),
        );
        let when = time(lost.times_ns.1);
        let story = format!("the last {which} that did not arrive came to {at} at {when}{next}");
        // What came farther from there later.
        let passed = self.traces.iter().find(|trace| {
            trace.times_ns.0 > lost.times_ns.1
                && trace.spots.len() > lost.spots.len()
                && trace.spots.starts_with(&lost.spots)
        });
        if let Some(passed) = passed {
            let since = time(passed.times_ns.0);
            report.missing.push(format!(
                "{story}; from {since} on they pass there: what stopped the ones before is gone, and a recording has frames, \
                 not what a kernel did with them"
            ));
            return Verdict::NotKnown;
        }
        report.causes = self.causes(lost.spots.last(), rest.first());
        stopped(report, &story)
    }

    /// All packets came to the receiver: whether it answered those that ask for an answer.
    fn answered(
        &self,
        back: &Side<'_>,
        past: &Past,
        report: &mut Report,
        time: impl Fn(u64) -> String,
    ) -> Verdict {
        let is_due = |trace: &&Trace| matches!(trace.reply, Reply::Missing | Reply::Refused);
        let Some(due) = self.traces.iter().rev().find(is_due) else {
            return if back.traces.is_empty() { Verdict::Delivered } else { Verdict::Answered };
        };
        let is_refused = due.reply == Reply::Refused;
        let what = if is_refused { "was refused" } else { "was not answered" };
        let at = due.spots.last().map_or_else(String::new, |last| last.name.clone());
        let story = format!("the last packet that {what} came to {at} at {}", time(due.times_ns.1));
        let answered = self
            .traces
            .iter()
            .find(|trace| trace.times_ns.0 > due.times_ns.0 && trace.reply == Reply::Came);
        if let Some(answered) = answered {
            let since = time(answered.times_ns.0);
            report.missing.push(format!(
                "{story}; from {since} on they are answered: what kept the ones before from it is gone, and a recording has \
                 frames, not what a kernel did with them"
            ));
            return Verdict::NotKnown;
        }
        report.causes = self.causes(due.spots.last(), None);
        if !is_refused {
            let is_recorded = |place: &&Place| past.has(place);
            let first = back.now.places.iter().find(is_recorded).map(Spot::of);
            report.causes.extend(back.causes(None, first.as_ref()));
        }
        stopped(report, &story)
    }

    /// What stops packets now between the last place that saw one, or the sender if none did, and the next that is recorded.
    fn causes(&self, last: Option<&Spot>, next: Option<&Spot>) -> Vec<Cause> {
        let places = &self.now.places;
        let at =
            |spot: Option<&Spot>| places.iter().position(|place| spot.is_some_and(|s| s.is(place)));
        let passed = match (last, at(last)) {
            (None, _) => 0,
            (_, Some(last)) => last + 1,
            _ => return vec![],
        };
        let before = at(next).unwrap_or(places.len());
        let fits = |from: usize, to: usize| from <= before && to >= passed;
        let mut found: Vec<Cause> = vec![];
        for stop in &self.now.stops {
            let counts = stop.share != Share::Resolution && fits(stop.from, stop.to);
            let is_known = |known: &Cause| {
                (known.name, &known.place, &known.text)
                    == (stop.cause.name, &stop.cause.place, &stop.cause.text)
            };
            if counts && !found.iter().any(is_known) {
                found.push(Cause {
                    basis: Basis::Now,
                    direction: self.direction,
                    ..stop.cause.clone()
                });
            }
        }
        found
    }
}

/// The verdict on packets that were lost as `story` says, by the causes that stand there now.
fn stopped(report: &mut Report, story: &str) -> Verdict {
    if report.causes.is_empty() {
        report.missing.push(format!(
            "{story}; nothing that is read there now explains it, and what was there then is not recorded"
        ));
        return Verdict::NotKnown;
    }
    for cause in &mut report.causes {
        cause.evidence.push(story.to_owned());
    }
    Verdict::Stopped
}

#[cfg(test)]
#[path = "past_tests.rs"]
mod tests;
