//! Sends a probe and looks where it passes.
//!
//! A packet socket in each network on the way sees what comes in and what leaves, at all interfaces. Sightings are complete when
//! the answer is there, since the kernel hands a packet to packet sockets before it goes on.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use netloom_config::units;
use netloom_model::lookup::slot;
use netloom_netlink::Socket;
use netloom_rawsock::Watcher;
use netloom_why::facts::Facts;
use netloom_why::{Flow, Observed, Outcome, Place, Protocol, Seen, Sighting, Walk};
use rustix::event::{PollFd, PollFlags};

use super::facts::{LabFacts, inside};
use super::frames::{self, Frame};
use super::probe::{Echo, Probe};
use crate::{Error, Result};

/// How long an answer is waited for: longer than the kernel's first repetition of a request for a connection (RFC 6298,
/// section 2: a second).
const PATIENCE: Duration = Duration::from_millis(1600);

/// When a datagram or echo request is sent again.
const AGAIN: Duration = Duration::from_millis(700);

/// How long a datagram that has arrived may be answered.
const GRACE: Duration = Duration::from_millis(400);

/// How much longer an answer is waited for because of links' delays.
const LONGEST: Duration = Duration::from_secs(20);

/// Most packets of a network that are looked at before others are: more than wait at once.
const MOST: usize = 65_536;

/// A network that is watched.
struct Network {
    /// The node; `None` for the core.
    node: Option<String>,
    watcher: Watcher,
}

/// Where sightings go: the way, there or back, and the place on it.
type Spots = BTreeMap<(Option<String>, u32, bool), Vec<(usize, usize)>>;

/// Interfaces of a network by their names.
type Indexes = Vec<(String, u32)>;

struct Watching<'a> {
    flow: &'a Flow,
    /// What packets are at each place of both ways.
    flows: [Vec<Flow>; 2],
    ways: [&'a Walk; 2],
    networks: Vec<Network>,
    spots: Spots,
    /// Addresses of nodes, by which their questions are known.
    own: BTreeMap<String, Vec<IpAddr>>,
    seen: [Seen; 2],
    error: Option<(IpAddr, String)>,
    echo: Echo,
}

/// Sends the probe, and tells where it and its answer were seen.
pub(super) fn watch(
    facts: &mut LabFacts<'_>,
    flow: &Flow,
    (there, back): (&Walk, &Walk),
    mut probe: Probe,
) -> Result<Observed> {
    let before = lost(facts, [there, back])?;
    let mut watching = Watching::open(facts, flow, [there, back], probe.echo)?;
    let words = probe.words(flow.ports[1]);
    let outcome = watching.run(&mut probe, delays(facts, there)?)?;
    drop(probe);
    let missed = watching.missed()?;
    let mut lost_now = Vec::new();
    for ((link, end, cause), now) in lost(facts, [there, back])? {
        let more = now
            .saturating_sub(before.get(&(link.clone(), end, cause.clone())).copied().unwrap_or(0));
        if more > 0 {
            lost_now.push((link, end, cause, more));
        }
    }
    let [there, back] = watching.seen;
    let outcome = match (outcome, watching.error) {
        (Outcome::Silence, Some((from, words))) => Outcome::Error(from, words),
        (outcome, _) => outcome,
    };
    Ok(Observed { probe: words, outcome, there, back, lost: lost_now, missed })
}

/// How much longer an answer takes because of links' delays: questions for hardware addresses and the probe go there and back.
fn delays(facts: &mut LabFacts<'_>, way: &Walk) -> Result<Duration> {
    let mut all = Duration::ZERO;
    for (name, _, _) in &way.links {
        let link = facts.link(name)?;
        let texts = link.impairments.iter().filter_map(|of_end| of_end.get("delay"));
        let both = texts.filter_map(|delay| units::duration(delay));
        all = both.fold(all, |all, delay| all.saturating_add(delay.saturating_mul(2)));
    }
    Ok(all.min(LONGEST))
}

/// What links with a wire have lost, by link, end and cause.
fn lost(
    facts: &mut LabFacts<'_>,
    ways: [&Walk; 2],
) -> Result<BTreeMap<(String, usize, String), u64>> {
    let mut all = BTreeMap::new();
    for (name, _, _) in ways.iter().flat_map(|way| &way.links) {
        if facts.link(name)?.wire.is_none() {
            continue;
        }
        let link = facts.fresh_link(name)?;
        for (end, causes) in link.lost.iter().enumerate() {
            for (cause, count) in causes {
                all.insert((name.clone(), end, cause.clone()), *count);
            }
        }
    }
    Ok(all)
}

impl<'a> Watching<'a> {
    fn open(
        facts: &mut LabFacts<'_>,
        flow: &'a Flow,
        ways: [&'a Walk; 2],
        echo: Echo,
    ) -> Result<Watching<'a>> {
        let mut nodes: Vec<&String> = ways.iter().flat_map(|way| &way.nodes).collect();
        nodes.sort();
        nodes.dedup();
        let flows = flows(flow, ways);
        let (mut networks, mut indexes) = (vec![], BTreeMap::new());
        let mut own = BTreeMap::new();
        for node in nodes {
            let object = format!("node {node:?}");
            let at = slot(facts.plan(), node)?;
            let wanted = interfaces(ways, Some(node.as_str()));
            // An error about the probe counts wherever its sender hears it.
            let is_sender = *node == flow.from;
            let first = is_sender.then(|| pair(flow));
            let pairs = pairs(&flows, ways, Some(node.as_str()), first);
            let opened = facts.within(at, || open(&pairs, &wanted, !is_sender, &object))?;
            let Some((watchers, links)) = opened else { continue };
            let of_node = |watcher| Network { node: Some(node.clone()), watcher };
            networks.extend(watchers.into_iter().map(of_node));
            indexes
                .extend(links.into_iter().map(|(name, index)| ((Some(node.clone()), name), index)));
            let known = facts.node(node)?;
            let all = known.interfaces.iter().flat_map(|i| &i.addresses).map(ipnet::IpNet::addr);
            own.insert(node.clone(), all.collect());
        }
        if let Some(core) = facts.core() {
            let wanted = interfaces(ways, None);
            let pairs = pairs(&flows, ways, None, None);
            let opened = inside(&core, || open(&pairs, &wanted, true, "core namespace"))?;
            let (watchers, links) = opened;
            networks.extend(watchers.into_iter().map(|watcher| Network { node: None, watcher }));
            indexes.extend(links.into_iter().map(|(name, index)| ((None, name), index)));
        }
        let mut spots = Spots::new();
        let mut seen = [vec![], vec![]];
        for (way, walk) in ways.iter().enumerate() {
            for (at, place) in walk.places.iter().enumerate() {
                let index = indexes.get(&(place.node.clone(), place.interface.clone()));
                seen[way].push(if index.is_some() {
                    Sighting::Nothing
                } else {
                    Sighting::NotWatched
                });
                if let Some(index) = index {
                    let key = (place.node.clone(), *index, place.out);
                    spots.entry(key).or_default().push((way, at));
                }
            }
        }
        Ok(Watching { flow, flows, ways, networks, spots, own, seen, error: None, echo })
    }

    /// Sends, and looks until it is clear what came of it.
    fn run(&mut self, probe: &mut Probe, longer: Duration) -> Result<Outcome> {
        let port = self.flow.ports[1];
        let begin = Instant::now();
        let mut again = probe.repeats().then_some(begin + AGAIN);
        let mut end = begin + PATIENCE + longer;
        let mut arrived = false;
        if let Some(outcome) = probe.send(port) {
            self.look()?;
            return Ok(outcome);
        }
        loop {
            // Before the look: what comes while this thread has no processor came in time.
            let now = Instant::now();
            let outcome = probe.outcome();
            self.look()?;
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
            // An error about the probe is an answer; a datagram that arrived need not be answered.
            if now >= end || self.error.is_some() {
                return Ok(Outcome::Silence);
            }
            let there = self.seen[0].last() == Some(&Sighting::Packet) && self.ways[0].arrives;
            if there && !arrived && self.flow.protocol == Protocol::Udp {
                (arrived, again, end) = (true, None, end.min(now + GRACE + longer));
            }
            if again.is_some_and(|again| now >= again) {
                again = None;
                if let Some(outcome) = probe.send(port) {
                    self.look()?;
                    return Ok(outcome);
                }
            }
            let next = again.map_or(end, |again| again.min(end));
            self.wait(probe, next.saturating_duration_since(now))?;
        }
    }

    fn wait(&self, probe: &Probe, most: Duration) -> Result<()> {
        let mut all: Vec<PollFd<'_>> =
            self.networks.iter().map(|n| in_poll(n.watcher.as_fd(), false)).collect();
        // A socket that is being connected says by POLLOUT how that ends.
        all.push(in_poll(probe.as_fd(), !probe.repeats()));
        let most = netloom_sys::process::timespec(most);
        match rustix::event::poll(&mut all, Some(&most)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::at("probe", "wait for")(io::Error::from(errno))),
        }
    }

    /// Packets that no watcher had room for.
    fn missed(&self) -> Result<u64> {
        let mut all = 0;
        for network in &self.networks {
            all += network.watcher.missed().map_err(Error::of("probe", "look for"))?;
        }
        Ok(all)
    }

    /// Takes all sightings by now.
    fn look(&mut self) -> Result<()> {
        for at in 0..self.networks.len() {
            // Where more come than can be looked at, this would not end.
            for _ in 0..MOST {
                let found = self.networks[at].watcher.next();
                let Some(glimpse) = found.map_err(Error::of("probe", "look for"))? else { break };
                let Some(frame) = frames::read(&glimpse.frame) else { continue };
                let key = (self.networks[at].node.clone(), glimpse.interface, glimpse.leaves);
                self.note(&key, &frame);
            }
        }
        Ok(())
    }

    fn note(&mut self, key: &(Option<String>, u32, bool), frame: &Frame<'_>) {
        if let Frame::Packet(packet) = frame
            && let Some((from, words)) = frames::error(self.flow, &self.echo, packet)
        {
            // Where it is heard counts: it may be lost on its way.
            let to_sender = packet.destination == self.flow.source;
            if key.0.as_ref() == Some(&self.flow.from) && !key.2 && to_sender {
                self.error.get_or_insert((from, words.to_owned()));
            }
            return;
        }
        let Some(spots) = self.spots.get(key) else { return };
        for (way, at) in spots {
            let sighting = match frame {
                Frame::Packet(packet)
                    if frames::is_of(&self.flows[*way][*at], &self.echo, packet) =>
                {
                    Sighting::Packet
                }
                Frame::Question { target, sender } if self.asks(*way, *at, *target, *sender) => {
                    Sighting::Resolution
                }
                _ => continue,
            };
            let place = &mut self.seen[*way][*at];
            if *place != Sighting::Packet {
                *place = sighting;
            }
        }
    }

    /// Whether a question for a hardware address is one of this way's: of the node before, for the next hop.
    fn asks(&self, way: usize, at: usize, target: IpAddr, sender: Option<IpAddr>) -> bool {
        let of_segment =
            |s: &&netloom_why::Segment| s.from <= at && at < s.to && s.target == target;
        let Some(segment) = self.ways[way].segments.iter().find(of_segment) else { return false };
        let Some(Place { node: Some(node), .. }) = self.ways[way].places.get(segment.from) else {
            return false;
        };
        sender.is_none_or(|sender| self.own.get(node).is_some_and(|own| own.contains(&sender)))
    }
}

fn in_poll(fd: std::os::fd::BorrowedFd<'_>, connects: bool) -> PollFd<'_> {
    let flags = if connects { PollFlags::OUT } else { PollFlags::IN };
    PollFd::from_borrowed_fd(fd, flags)
}

/// The interfaces on both ways that are in the network of a node, or of the core.
fn interfaces(ways: [&Walk; 2], node: Option<&str>) -> Vec<String> {
    let places = ways.iter().flat_map(|way| &way.places);
    places.filter(|place| place.node.as_deref() == node).map(|p| p.interface.clone()).collect()
}

/// What packets are at each place of both ways.
fn flows(flow: &Flow, [there, back]: [&Walk; 2]) -> [Vec<Flow>; 2] {
    let at_each = |walk: &Walk, first: &Flow| {
        (0..walk.places.len()).map(|at| walk.flow_at(first, at).clone()).collect()
    };
    [at_each(there, flow), at_each(back, &there.answer(flow))]
}

/// The addresses of a flow, whichever way it goes.
fn pair(flow: &Flow) -> [IpAddr; 2] {
    let mut pair = [flow.source, flow.destination];
    pair.sort();
    pair
}

/// The pairs of addresses that packets have in the network of a node, or of the core, and the `first`.
fn pairs(
    flows: &[Vec<Flow>; 2],
    ways: [&Walk; 2],
    node: Option<&str>,
    first: Option<[IpAddr; 2]>,
) -> Vec<[IpAddr; 2]> {
    let of_way = |way: usize| {
        let places = ways[way].places.iter().zip(&flows[way]);
        places.filter(|(place, _)| place.node.as_deref() == node).map(|(_, flow)| pair(flow))
    };
    let mut all: Vec<_> = of_way(0).chain(of_way(1)).chain(first).collect();
    all.sort();
    all.dedup();
    all
}

/// Watchers in the calling thread's network, one for each pair of addresses, at the wanted interfaces if at those `only`, and the
/// indexes of all by name. Those that are wanted carry frames from now on, or carry none, as their carrier says.
fn open(
    pairs: &[[IpAddr; 2]],
    wanted: &[String],
    only: bool,
    object: &str,
) -> Result<(Vec<Watcher>, Indexes)> {
    let mut socket = Socket::open_to_ask().map_err(Error::of(object, "open a netlink socket"))?;
    let links = socket.links_alone().map_err(Error::of(object, "read its interfaces"))?;
    for link in links.iter().filter(|link| wanted.contains(&link.name)) {
        // Otherwise a work queue heeds a change of the carrier later. Since Linux 6.8 an answer about one link comes after that
        // (`linkwatch_sync_dev` in net/core/rtnetlink.c).
        socket.link(link.index).map_err(Error::of(object, "read its interfaces"))?;
    }
    let at = links.iter().filter(|link| only && wanted.contains(&link.name));
    let at: Vec<u32> = at.map(|link| link.index).collect();
    let open = |pair: &[IpAddr; 2]| Watcher::open(*pair, &at);
    let watchers = pairs.iter().map(open).collect::<netloom_rawsock::Result<Vec<_>>>();
    let watchers = watchers.map_err(Error::of(object, "watch"))?;
    Ok((watchers, links.into_iter().map(|link| (link.name, link.index)).collect()))
}
