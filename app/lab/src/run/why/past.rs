//! Why packets of the past did not arrive: what the lab's recording has of them, beside the way that they have now.

mod calls;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use netloom_model::Plan;
use netloom_model::lookup::slot;
use netloom_model::lookup::target::{self, Space};
use netloom_model::plan::port_names::shortened_port_name;
use netloom_model::plan::{PlannedEnd, Slot};
use netloom_packet::headers::Headers;
use netloom_packet::identity;
use netloom_record::{Asked, Frame, Question, Status, search};
use netloom_sighting::Flow as Seen;
use netloom_switch::control::requests::{Answer, Request};
use netloom_why::{Past, Protocol, Reply, Report, Spot, Trace, judge_past, walk_by_addresses};

use self::calls::Call;
use super::facts::LabFacts;
use super::{NO_PORT, addresses, flow, receiver};
use crate::run::packets::refused;
use crate::run::recording::{not_recorded, time_of};
use crate::run::running::Running;
use crate::stage::recorder;
use crate::view::AskWhy;
use crate::{Error, Result, Subject, utc};

/// Most frames that are looked at.
const MOST: usize = 200_000;
/// What was seen so shortly before the end of the time may be on its way, and what was seen so shortly after its beginning may have
/// begun before it.
const EDGE_NS: u64 = 2_000_000_000;
/// The longest time between sightings of a packet in two segments.
const APART_NS: u64 = 5_000_000_000;

impl Running {
    /// Where packets of a flow were lost in a time of the past.
    pub(super) fn why_past(&self, facts: &mut LabFacts<'_>, asked: &AskWhy) -> Result<Report> {
        let plan = facts.plan();
        let from = slot(plan, &asked.from)?;
        let to = receiver(facts, &asked.to)?;
        let (folder, told, nodes) = self.recording_found()?;
        let status = told.status;
        let wrong = |error| refused(&plan.lab, error);
        let service = match asked.port {
            Some(port) => format!("{port}/{}", asked.protocol.name()),
            None => asked.protocol.name().to_owned(),
        };
        let of_question = Asked {
            words: vec![asked.from.clone(), asked.to.clone(), service],
            links: vec![],
            last_ns: asked.last_ms.map(|last| last.saturating_mul(1_000_000)),
            since_ns: asked.since_ns,
            until_ns: asked.until_ns,
        };
        let question = Question::read(&of_question, &nodes).map_err(wrong)?;
        let addresses_of = |word: &str| match word.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => nodes.get(word).cloned().unwrap_or_default(),
        };
        let ends = [addresses_of(&asked.from), addresses_of(&asked.to)];
        let mut tracing = Tracing::new(plan, asked, ends, [from, to]);
        tracing.copies = self.copies(plan);
        let looked = search(&folder, &question, |frame| {
            tracing.take(frame);
            Ok::<_, netloom_record::Error>(tracing.looked < MOST)
        });
        let looked = looked.map_err(wrong)?;
        if tracing.looked >= MOST {
            let reason =
                format!("more than {MOST} of its frames are in that time; ask for a shorter one");
            return Err(Error::Invalid { object: Subject::from("the flow"), reason });
        }
        // Errors of ICMP come from any node, and name the packet that they are about.
        let of_errors = Asked { words: vec![asked.from.clone(), "icmp".to_owned()], ..of_question };
        let of_errors = Question::read(&of_errors, &nodes).map_err(wrong)?;
        let mut errors = 0;
        let of_refusals = search(&folder, &of_errors, |frame| {
            errors += 1;
            tracing.take_error(frame);
            Ok::<_, netloom_record::Error>(errors < MOST)
        });
        of_refusals.map_err(wrong)?;
        let (pair, ports) = match tracing.newest {
            Some(Seen { from, to, ports, .. }) => {
                ((from, to), ports.map_or([0, 0], |(from, to)| [from, to]))
            }
            None => match addresses(facts, asked, from, to)? {
                Ok(ends) => (ends, [NO_PORT, asked.port.unwrap_or(0)]),
                Err(report) => return Ok(*report),
            },
        };
        let flow = flow(asked, &plan.nodes[to].name, pair, ports)?;
        let is_running = recorder::find(&folder).is_ok_and(|found| found.is_some());
        // What cannot be read says nothing of when it was.
        let is_open = is_running || status.told_ns == 0;
        let (time, told) = (range(asked), if is_open { u64::MAX } else { status.told_ns });
        let mut past = tracing.finish(told, time);
        past.recorded = points(plan, &status).map(|spot| (spot.node, spot.interface)).collect();
        past.doubts = doubts(&status, looked.gone + looked.strange);
        past.doubts.extend(not_recorded(&status, time, is_running));
        let there = walk_by_addresses(facts, &flow, None)?;
        let back = walk_by_addresses(facts, &flow.back(), Some(&there))?;
        Ok(judge_past(&flow, (&there, &back), &past, utc))
    }
}

impl Running {
    /// Links to ports that get copies of others' frames. A frame that is seen there has not travelled there.
    fn copies(&self, plan: &Plan) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for switch in &plan.switches {
            let Some(options) = switch.kind.as_shm() else { continue };
            let of_file = options.mirrors.iter().map(|mirror| shortened_port_name(&mirror.to));
            let mut to: BTreeSet<String> = of_file.collect();
            let asked = self.kept.keepers.switches.ask(&self.folder, &switch.name, &Request::Show);
            if let Ok(Answer::Shown(shown)) = asked {
                let is_to = |number| shown.mirrors.values().any(|mirror| mirror.to == number);
                let ports = shown.ports.into_iter().filter(|port| is_to(port.number));
                to.extend(ports.map(|port| port.name));
            }
            for link in plan.links.iter().filter(|_| !to.is_empty()) {
                let ends = (0..2).filter(|side| {
                    let at =
                        plan.shm_switch_at(&link.ends[*side]).and_then(|at| plan.switch_at(at));
                    at.is_some_and(|at| at.name == switch.name)
                });
                if ends.into_iter().any(|side| to.contains(&plan.port_name(link, side))) {
                    all.insert(link.name.clone());
                }
            }
        }
        all
    }
}

/// The time that is asked for, in nanoseconds since 1970 UTC.
fn range(asked: &AskWhy) -> (u64, u64) {
    time_of((
        asked.last_ms.map(|last| last.saturating_mul(1_000_000)),
        asked.since_ns,
        asked.until_ns,
    ))
}

/// The ends of links at which a recorder takes frames.
fn points<'a>(plan: &'a Plan, status: &Status) -> impl Iterator<Item = Spot> + use<'a> {
    let recorded: BTreeSet<String> = status.links.iter().cloned().collect();
    let links = plan.links.iter().filter(move |link| recorded.contains(&link.name));
    links.filter_map(move |link| point(plan, &link.name))
}

fn point(plan: &Plan, link: &str) -> Option<Spot> {
    let point = target::resolve(plan, &format!("link:{link}")).ok()?.points.into_iter().next()?;
    let node = match point.space {
        Space::Node(node) => Some(node),
        _ => None,
    };
    Some(Spot { node, interface: point.interface, name: point.name, out: false })
}

/// Why what is not in the recording may have been there.
fn doubts(status: &Status, lost_segments: usize) -> Vec<String> {
    let lost = status.books.dropped;
    let (frames, mut all) = (lost.ring + lost.memory + lost.disk, vec![]);
    if frames > 0 {
        all.push(format!(
            "the recorder dropped {frames} frames (ring {}, memory {}, disk {}): some of what it did not see may have been there",
            lost.ring, lost.memory, lost.disk
        ));
    }
    if lost_segments > 0 {
        all.push(format!("{lost_segments} segments of the recording could not be read"));
    }
    all.extend(status.trouble.iter().map(|trouble| format!("the recorder has trouble: {trouble}")));
    all
}

/// Packets of a flow as they are found.
struct Tracing<'a> {
    plan: &'a Plan,
    asked: &'a AskWhy,
    /// Addresses and slots of sender and receiver.
    ends: [Vec<IpAddr>; 2],
    slots: [Slot; 2],
    /// There and back.
    found: [Vec<Found>; 2],
    /// Places in these, by direction and the recording's number of a packet.
    known: HashMap<(usize, u64), usize>,
    /// The same by direction and identity, which several may have.
    alike: HashMap<(usize, u64), Vec<usize>>,
    spots: HashMap<String, Spot>,
    /// The newest packet there.
    newest: Option<Seen>,
    /// Links to ports of mirror sessions.
    copies: BTreeSet<String>,
    /// Answers by what they answer, with when they were seen first and whether they refuse.
    replies: HashMap<u64, Vec<(u64, bool)>>,
    looked: usize,
}

/// A packet as far as it was found.
struct Found {
    segments: Vec<u64>,
    links: Vec<String>,
    trace: Trace,
    /// What an answer to it says, if it asks for one.
    asks: Option<u64>,
}

impl<'a> Tracing<'a> {
    fn new(
        plan: &'a Plan,
        asked: &'a AskWhy,
        ends: [Vec<IpAddr>; 2],
        slots: [Slot; 2],
    ) -> Tracing<'a> {
        let (found, known, alike, spots, copies, replies) = Default::default();
        let newest = None;
        Tracing {
            plan,
            asked,
            ends,
            slots,
            found,
            known,
            alike,
            spots,
            newest,
            copies,
            replies,
            looked: 0,
        }
    }

    fn take(&mut self, frame: &Frame) {
        self.looked += 1;
        let Some(seen) = Seen::of(&frame.data) else { return };
        let Some(direction) = self.direction(&seen, &frame.data) else { return };
        if direction == 0 {
            self.newest = Some(seen);
        }
        let (spot, link, time_ns) = (self.spot(frame), frame.link.to_string(), frame.time_ns);
        if self.copies.contains(&link) && !self.slots.iter().any(|at| is_at(self.plan, &link, *at))
        {
            return;
        }
        let says = calls::of(&frame.data);
        if let (1, Some(Call::Answers { key, refuses })) = (direction, says) {
            self.replies.entry(key).or_default().push((time_ns, refuses));
        }
        let arrives = is_at(self.plan, &link, self.slots[1 - direction]);
        let (identity, segment) = (identity(&frame.data), frame.packet >> 32);
        let known = self.known.get(&(direction, frame.packet)).copied();
        let earlier = || self.earlier(direction, (identity, segment), &link, time_ns);
        let at = known.or_else(earlier).unwrap_or_else(|| {
            let reply = Reply::NotDue;
            let trace =
                Trace { spots: vec![], times_ns: (time_ns, time_ns), arrived: false, reply };
            let asks = match says {
                Some(Call::Asks { key }) if direction == 0 => Some(key),
                _ => None,
            };
            let found = Found { segments: vec![], links: vec![], trace, asks };
            let at = self.found[direction].len();
            self.found[direction].push(found);
            self.alike.entry((direction, identity)).or_default().push(at);
            at
        });
        self.known.insert((direction, frame.packet), at);
        let Some(found) = self.found[direction].get_mut(at) else { return };
        found.segments.push(segment);
        found.links.push(link);
        found.trace.spots.push(spot);
        found.trace.times_ns.1 = time_ns;
        found.trace.arrived |= arrives;
    }

    /// An ICMP error about a packet of this flow: it was refused.
    fn take_error(&mut self, frame: &Frame) {
        let Some(calls::Refused { flow, port, key }) = calls::refused(&frame.data) else { return };
        let is_between = self.ends[0].contains(&flow.from) && self.ends[1].contains(&flow.to);
        let is_of_protocol = flow.protocol == self.asked.protocol.number(flow.from.is_ipv4());
        if is_between && is_of_protocol && port == self.asked.port {
            self.replies.entry(key).or_default().push((frame.time_ns, true));
        }
    }

    /// What became of a packet that asks for an answer, by all that answers; `end` is the last time that is known.
    fn reply(&self, found: &Found, end: u64) -> Reply {
        let Some(key) = found.asks else { return Reply::NotDue };
        let (first, last) = found.trace.times_ns;
        let all = self.replies.get(&key).map_or(&[][..], Vec::as_slice);
        let mut after = all.iter().filter(|(time, _)| *time >= first);
        // A datagram asks for nothing: only a refusal says something of it.
        let is_datagram = self.asked.protocol == Protocol::Udp;
        match after.next() {
            Some((_, true)) => Reply::Refused,
            Some((_, false)) => Reply::Came,
            None if is_datagram || last.saturating_add(EDGE_NS) > end => Reply::NotDue,
            None => Reply::Missing,
        }
    }

    /// A packet that an earlier segment has, and that goes on in this one.
    fn earlier(
        &self,
        direction: usize,
        (identity, segment): (u64, u64),
        link: &str,
        time_ns: u64,
    ) -> Option<usize> {
        let alike = self.alike.get(&(direction, identity))?.iter().rev();
        let mut recent = alike.filter_map(|at| Some((*at, self.found[direction].get(*at)?)));
        let found = recent.find(|(_, found)| {
            found.trace.times_ns.1 + APART_NS > time_ns
                && !found.trace.arrived
                && found.segments.iter().all(|of| *of != segment)
                && found.links.iter().all(|of| of != link)
        });
        found.map(|(at, _)| at)
    }

    /// 0: there, 1: back; `None` for a packet of another flow.
    fn direction(&self, seen: &Seen, frame: &[u8]) -> Option<usize> {
        let is = |one: usize, other: usize| {
            self.ends[one].contains(&seen.from) && self.ends[other].contains(&seen.to)
        };
        let (there, back) = (is(0, 1), is(1, 0));
        if self.asked.protocol == Protocol::Icmp {
            let at = Headers::parse(frame).ok()?.ip?.transport;
            // RFC 792 and RFC 4443, section 4: echo requests and replies.
            return match *frame.get(at)? {
                8 | 128 if there => Some(0),
                0 | 129 if back => Some(1),
                _ => None,
            };
        }
        let ((source, target), port) = (seen.ports?, self.asked.port?);
        if there && target == port {
            return Some(0);
        }
        (back && source == port).then_some(1)
    }

    /// Where a frame was recorded, as far as the lab still has the link.
    fn spot(&mut self, frame: &Frame) -> Spot {
        let gone = |link: &str| {
            let (interface, name) = (link.to_owned(), format!("link {link}"));
            Spot { node: None, interface, name, out: false }
        };
        let plan = self.plan;
        let spot = self.spots.entry(frame.link.to_string());
        let spot = spot.or_insert_with_key(|link| point(plan, link).unwrap_or_else(|| gone(link)));
        // `epb_flags` of pcapng: 1 is inbound, 2 outbound.
        Spot { out: frame.flags & 3 == 2, ..spot.clone() }
    }

    /// Without packets that may be cut at the edges of the time. `told`: until when a recorder ran.
    fn finish(mut self, told: u64, (begin, until): (u64, u64)) -> Past {
        let end = told.min(until);
        let (plan, [sender, receiver]) = (self.plan, self.slots);
        let mut there = std::mem::take(&mut self.found[0]);
        for found in &mut there {
            found.trace.reply = self.reply(found, end);
        }
        let back = std::mem::take(&mut self.found[1]);
        let is_whole = |found: &Found, sender: Slot| {
            let (first, last) = found.trace.times_ns;
            let begins = found.links.first().is_some_and(|link| is_at(plan, link, sender));
            let ends = found.trace.arrived || last.saturating_add(EDGE_NS) <= end;
            ends && (begins || first >= begin.saturating_add(EDGE_NS))
        };
        let kept = |all: Vec<Found>, sender: Slot| -> Vec<Trace> {
            let whole = all.into_iter().filter(|found| is_whole(found, sender));
            whole.map(|found| found.trace).collect()
        };
        Past { there: kept(there, sender), back: kept(back, receiver), ..Past::default() }
    }
}

/// Whether a link ends in a node.
fn is_at(plan: &Plan, link: &str, node: Slot) -> bool {
    let is_end = |end: &PlannedEnd| matches!(end, PlannedEnd::Node { node: at, .. } if *at == node);
    let link = plan.links.iter().find(|of| of.name == link);
    link.is_some_and(|link| link.ends.iter().any(is_end))
}
