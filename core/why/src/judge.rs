//! Ways and sightings put together.
//!
//! What the probe shows comes before what tables show: a stop that it got past is not a cause, whatever a table says. Where it was
//! lost, all stops that stand there are causes. Stops farther on are told as well, since they are independent of the first; what
//! rests on tables alone says so.

use std::net::IpAddr;

use crate::cause::{Basis, Cause, Direction};
use crate::flow::{Flow, Protocol};
use crate::report::{Hop, Report, Sighting, Translated, Verdict, Way};
use crate::text::key;
use crate::walk::{Share, Stop, Walk};

/// What was seen at the places of a way, in their order.
pub type Seen = Vec<Sighting>;

/// How the probe ended at its sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered.
    Answered,
    /// A reset, or ICMP port unreachable, came.
    Refused,
    /// An ICMP error came from this address, in words.
    Error(IpAddr, String),
    /// Nothing came in time.
    #[default]
    Silence,
    /// It could not be sent; why.
    NotSent(String),
}

/// What was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// What was sent, in words.
    pub probe: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Where the probe was seen.
    pub there: Seen,
    /// Where its answer was seen.
    pub back: Seen,
    /// Packets that links lost by impairments meanwhile: link, sending end, cause and count.
    pub lost: Vec<(String, usize, String, u64)>,
    /// Packets that could not be looked at. Then a place that saw nothing says nothing.
    pub missed: u64,
}

/// How far a probe came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reach {
    /// Places that it passed.
    packet: usize,
    /// The same with questions for hardware addresses.
    any: usize,
    /// Places on the way.
    all: usize,
}

impl Reach {
    fn of(walk: &Walk, seen: &[Sighting]) -> Reach {
        let last = |wanted: &dyn Fn(&Sighting) -> bool| {
            seen.iter().rposition(wanted).map_or(0, |at| at + 1)
        };
        let packet = last(&|seen| *seen == Sighting::Packet);
        // A packet that has left a node has its next hop's hardware address: the question for it tells nothing any more.
        let on_its_way = walk.segments.iter().any(|s| s.from < packet && packet < s.to);
        let any = match on_its_way {
            true => packet,
            false => last(&|seen| matches!(seen, Sighting::Packet | Sighting::Resolution)),
        };
        Reach { packet, any: any.max(packet), all: walk.places.len() }
    }

    /// Whether a probe that came as far may have been stopped there.
    fn fits(&self, stop: &Stop) -> bool {
        stop.from <= self.any && stop.to >= self.packet
    }

    fn is_beyond(&self, stop: &Stop) -> bool {
        stop.from > self.any
    }

    fn came_in(&self, walk: &Walk) -> bool {
        walk.arrives && self.packet == self.all
    }
}

/// Puts a flow's ways and what was observed together. `back` is the way of its answers.
pub fn judge(flow: &Flow, there: &Walk, back: &Walk, observed: &Observed) -> Report {
    let back = &back.answering(there);
    let sent = there.places.len() == observed.there.len()
        && !matches!(observed.outcome, Outcome::NotSent(_));
    // What was seen was seen; what was not may have been there.
    let watched = sent && observed.missed == 0;
    let [seen_there, seen_back] = [(there, &observed.there), (back, &observed.back)]
        .map(|(walk, seen)| told_apart(walk, seen));
    let mut report = Report { probe: observed.probe.clone(), ..Report::about(flow) };
    let answered = observed.outcome == Outcome::Answered;
    report.there = way(there, &seen_there, answered || observed.missed > 0);
    let reach = Reach::of(there, &seen_there);
    let came_in = watched && reach.came_in(there);
    let answers_seen = Reach::of(back, &seen_back).packet > 0;
    if came_in || answered {
        report.back = Some(way(back, &seen_back, answered));
    }
    report.hindrances = hindrances(there, back);
    if answered {
        report.verdict = Verdict::Answered;
        return report;
    }
    let passed = |stop: &&Stop| stop.to < reach.packet && sent;
    let passed = there.stops.iter().filter(passed).map(|stop| &stop.cause).collect();
    let mut causes = Causes { found: vec![], missing: vec![], lost: &observed.lost, passed };
    if !watched {
        causes.unwatched([there, back], observed);
    } else if !came_in {
        causes.lost_on(there, reach, Direction::There);
        causes.beyond(there, reach, Direction::There);
        causes.by_facts(back, Direction::Back);
    } else {
        let stopped = causes.at_receiver(there, reach);
        let delivered = flow.protocol == Protocol::Udp && observed.outcome == Outcome::Silence;
        if !stopped && delivered && !answers_seen {
            causes.by_facts(back, Direction::Back);
            report.verdict = Verdict::Delivered;
            // The program has it; whether it answers is its matter. What would stop an answer is worth knowing.
            report.hindrances.append(&mut causes.found);
            report.missing = vec![];
            return report;
        }
        let reach = Reach::of(back, &seen_back);
        if !stopped || answers_seen && observed.outcome == Outcome::Silence {
            causes.lost_on(back, reach, Direction::Back);
        }
        causes.beyond(back, reach, Direction::Back);
    }
    causes.finish(report, observed)
}

/// A place that is passed a second time was seen the first time. It counts again only if the place before it was seen, too.
fn told_apart(walk: &Walk, seen: &[Sighting]) -> Seen {
    let mut told = seen.to_vec();
    for (at, place) in walk.places.iter().enumerate().take(told.len()).skip(1) {
        if walk.places[..at].contains(place) && told[at - 1] == Sighting::Nothing {
            told[at] = Sighting::Nothing;
        }
    }
    told
}

struct Causes<'a> {
    found: Vec<Cause>,
    missing: Vec<String>,
    lost: &'a [(String, usize, String, u64)],
    /// What the probe got past.
    passed: Vec<&'a Cause>,
}

impl Causes<'_> {
    /// Where the probe was lost.
    fn lost_on(&mut self, walk: &Walk, reach: Reach, direction: Direction) {
        let before = self.found.len();
        let fitting = || walk.stops.iter().filter(|stop| reach.fits(stop));
        // A packet that came through at the same place tells that its neighbour is known.
        let unresolved = reach.any > reach.packet;
        for stop in fitting() {
            let counts = match stop.share {
                Share::All => true,
                Share::Resolution => unresolved,
                Share::Some => false,
            };
            if counts {
                self.take(&stop.cause, Basis::Probe, direction, None);
            }
        }
        if self.found.len() > before {
            return;
        }
        // Partial loss counts where the link says that it lost something meanwhile.
        let (near, far) = (reach.packet, reach.any.max(reach.packet));
        let links = walk.links.iter().filter(|(_, _, at)| *at >= near && *at <= far + 1);
        for (link, end, _) in links {
            let lost = self.lost.iter().filter(|(name, from, ..)| name == link && from == end);
            for (_, _, why, count) in lost {
                let place = format!("link {link}");
                let is_it = |stop: &&Stop| stop.share == Share::Some && stop.cause.place == place;
                if let Some(stop) = fitting().find(is_it) {
                    let found =
                        format!("the wire lost {count} packets by {why} while the probe was sent");
                    self.take(&stop.cause, Basis::Probe, direction, Some(found));
                }
            }
        }
        if self.found.len() == before {
            self.sole(walk, reach, direction);
        }
        if self.found.len() == before {
            self.not_known(walk, reach, direction);
        }
    }

    /// What drops some packets is the cause where it is all that may have dropped the probe. Links tell themselves what they lost
    /// by chance, and a small MTU is none of the probe's.
    fn sole(&mut self, walk: &Walk, reach: Reach, direction: Direction) {
        use crate::CauseName::{FlowMeter, ProtectBudget, QueueDrops, WireDelay, WireRate};
        let at_times = [QueueDrops, WireRate, WireDelay, ProtectBudget, FlowMeter];
        let some = walk.stops.iter().filter(|stop| stop.share == Share::Some);
        let some = some.filter(|stop| at_times.contains(&stop.cause.name));
        let mut fitting: Vec<&Stop> =
            some.chain(&walk.suspects).filter(|stop| reach.fits(stop)).collect();
        // The same queue in both directions, for one.
        fitting.dedup_by(|one, other| one.cause.text == other.cause.text);
        let of_rule = |stop: &&Stop| {
            reach.fits(stop)
                && matches!(
                    stop.cause.name,
                    crate::CauseName::NftDrop | crate::CauseName::NftReject
                )
        };
        let rules = walk.suspects.iter().filter(of_rule).count();
        let doubts = walk.doubts.iter().filter(|d| d.from <= reach.any && d.to >= reach.packet);
        if let ([only], true) = (fitting.as_slice(), doubts.count() == rules) {
            let found = "the probe was lost there, and nothing else that is read explains it";
            self.take(&only.cause, Basis::Probe, direction, Some(found.to_owned()));
        }
    }

    fn not_known(&mut self, walk: &Walk, reach: Reach, direction: Direction) {
        let name = |at: usize| walk.places.get(at).map(|place| place.name.clone());
        let which = if direction == Direction::There { "the packet" } else { "the answer" };
        let last = reach.any.checked_sub(1).and_then(name);
        let text = match (last, name(reach.any)) {
            (Some(last), Some(next)) => format!("{which} is lost between {last} and {next}"),
            (Some(last), None) => format!("{which} came to {last} and no further"),
            (None, Some(next)) => format!("{which} was not seen at {next}, where it would leave"),
            (None, None) => format!("{which} was not seen anywhere"),
        };
        self.missing.push(format!("{text}, and no table or setting that is read here explains it"));
        let fitting = walk.doubts.iter().filter(|d| d.from <= reach.any && d.to >= reach.packet);
        self.missing.extend(fitting.map(|doubt| doubt.text.clone()));
    }

    /// What would stop the flow farther on.
    fn beyond(&mut self, walk: &Walk, reach: Reach, direction: Direction) {
        // What follows a choice that the probe did not confirm may be on another way than its own.
        if walk.branch.is_some_and(|branch| reach.any <= branch) {
            return;
        }
        for stop in
            walk.stops.iter().filter(|stop| stop.share == Share::All && reach.is_beyond(stop))
        {
            self.take(&stop.cause, Basis::Facts, direction, None);
        }
    }

    fn at_receiver(&mut self, walk: &Walk, reach: Reach) -> bool {
        let before = self.found.len();
        for stop in walk.stops.iter().filter(|stop| stop.share == Share::All && reach.fits(stop)) {
            self.take(&stop.cause, Basis::Probe, Direction::There, None);
        }
        self.found.len() > before
    }

    /// Tables alone tell, since the probe does not.
    fn unwatched(&mut self, [there, back]: [&Walk; 2], observed: &Observed) {
        for (walk, direction) in [(there, Direction::There), (back, Direction::Back)] {
            self.by_facts(walk, direction);
            self.missing.extend(walk.doubts.iter().map(|doubt| doubt.text.clone()));
        }
        if let Outcome::NotSent(why) = &observed.outcome {
            self.missing.push(format!("the probe could not be sent: {why}"));
        }
        if observed.missed > 0 {
            self.missing.push(format!(
                "{} packets between the same addresses, of ICMP or of ARP left no room to see where the probe was lost; ask \
                 again when there are fewer",
                observed.missed
            ));
        }
    }

    fn by_facts(&mut self, walk: &Walk, direction: Direction) {
        let known = |stop: &&Stop| walk.branch.is_none_or(|branch| stop.from <= branch);
        for stop in walk.stops.iter().filter(|stop| stop.share == Share::All).filter(known) {
            self.take(&stop.cause, Basis::Facts, direction, None);
        }
    }

    fn take(&mut self, cause: &Cause, basis: Basis, direction: Direction, more: Option<String>) {
        // A cut cable stops both ways, and is one cause.
        let same = |found: &Cause| {
            (found.name, &found.place, &found.text) == (cause.name, &cause.place, &cause.text)
        };
        // What did not stop the probe is not believed to stop its answer.
        let refuted = |passed: &&Cause| {
            (passed.name, &passed.place, &passed.evidence)
                == (cause.name, &cause.place, &cause.evidence)
        };
        if let Some(at) = self.found.iter().position(same) {
            // The way back may tell that a route went with an address: then that is to come back, too.
            let longer = cause.mend.as_ref().filter(|mend| mend.contains(" && "));
            self.found[at].mend = longer.cloned().or_else(|| self.found[at].mend.take());
            return;
        }
        if basis == Basis::Facts && self.passed.iter().any(refuted) {
            return;
        }
        let mut cause = Cause { basis, direction, ..cause.clone() };
        cause.evidence.extend(more);
        self.found.push(cause);
    }

    fn finish(mut self, mut report: Report, observed: &Observed) -> Report {
        let by_probe = self.found.iter().any(|cause| cause.basis == Basis::Probe);
        let not_sent = matches!(observed.outcome, Outcome::NotSent(_));
        report.verdict = match (by_probe, self.found.is_empty()) {
            (true, _) => Verdict::Stopped,
            (false, false) if not_sent => Verdict::Stopped,
            _ => Verdict::NotKnown,
        };
        if let Outcome::Error(from, words) = &observed.outcome {
            let heard = format!("{from} answered the probe with ICMP {words}");
            match self.found.iter_mut().find(|cause| cause.basis == Basis::Probe) {
                Some(cause) => cause.evidence.push(heard),
                None => self.missing.push(heard),
            }
        }
        if report.verdict == Verdict::NotKnown && self.missing.is_empty() {
            self.missing.push("nothing that is read here explains it".into());
        }
        report.causes = self.found;
        report.missing = self.missing;
        report
            .hindrances
            .retain(|hindrance| !report.causes.iter().any(|c| c.text == hindrance.text));
        report
    }
}

fn hindrances(there: &Walk, back: &Walk) -> Vec<Cause> {
    let of = |walk: &Walk, direction| {
        // A queue that holds packets back lets some pass, or has emptied since.
        let hinders = |stop: &&Stop| {
            stop.share == Share::Some || stop.cause.name == crate::CauseName::QueueDrops
        };
        let some = walk.stops.iter().filter(hinders);
        some.map(|stop| Cause { direction, ..stop.cause.clone() }).collect::<Vec<_>>()
    };
    let mut all = of(there, Direction::There);
    for hindrance in of(back, Direction::Back) {
        if all.iter().all(|found| found.text != hindrance.text) {
            all.push(hindrance);
        }
    }
    all
}

fn way(walk: &Walk, seen: &[Sighting], answered: bool) -> Way {
    let hop = |(at, place): (usize, &crate::Place)| Hop {
        name: place.name.clone(),
        out: place.out,
        seen: seen.get(at).copied().unwrap_or(Sighting::NotWatched),
    };
    let hops: Vec<Hop> = walk.places.iter().enumerate().map(hop).collect();
    let reach = Reach::of(walk, seen);
    let watched = hops.iter().any(|hop| hop.seen != Sighting::NotWatched);
    let last = reach.any.checked_sub(1).and_then(|at| hops.get(at)).map(key);
    let lost = hops.get(reach.any).filter(|_| watched && !answered).map(key);
    let translated = walk.translations.iter().map(|of| Translated {
        node: of.node.clone(),
        before: of.before.words(),
        after: of.after.words(),
        rule: of.rule.clone(),
    });
    Way { last, lost, translated: translated.collect(), hops }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
