//! Whether packets still take the measured paths: routes may change meanwhile.
//!
//! The kernel of each node on the paths tells that its routes may have changed; then all nodes are asked again,
//! as at the start. Blocks that began while packets of a path may have taken another one, and those with
//! packets in flight then, are flawed; so are all that follow until the path is the measured one again. Between
//! two looks nothing is missed: the notifications wait in sockets. A path that only ends, because a node has no
//! route any more, is not rerouted: its packets are lost there, and counted as lost.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netloom_marking::Schedule;
use netloom_model::lookup::path::{Finder, PacketPath, Question};
use netloom_model::lookup::target::Space;
use netloom_netlink::RouteWatch;

use super::paths::{Paths, family, next};
use crate::spaces::run_in;
use crate::{Error, Result, Spaces};

/// What became of a measured path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// Packets take the measured path.
    Measured,
    /// They take this one, by its hops.
    Other(Vec<String>),
    /// A node has no route for them; why.
    Ends(String),
    /// It cannot be found any more; why.
    Unknown(String),
}

/// A change of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rerouted {
    /// Index of the path in [`Paths::all`].
    pub way: usize,
    /// The family whose packets take another path: 4 or 6.
    pub version: u8,
    /// The first block that may have packets of before and after.
    pub block: u64,
    /// Which path they take now.
    pub route: Route,
}

impl Route {
    /// Whether packets may miss points.
    fn misses(&self) -> bool {
        matches!(self, Route::Other(_) | Route::Unknown(_))
    }
}

/// The packets of a path in one family.
struct Watched {
    way: usize,
    pair: (IpAddr, IpAddr),
    route: Route,
    /// Blocks, from the first to the last, in which packets may have missed points.
    flawed: Vec<(u64, u64)>,
}

/// Watches the routes of all paths.
pub(super) struct Reroutes {
    sockets: Vec<RouteWatch>,
    watched: Vec<Watched>,
    /// When the nodes had not told anything yet that is not handled.
    quiet: u64,
}

impl Reroutes {
    /// Watches these paths from now on; doors to their nodes must be open.
    pub(super) fn watch(spaces: &Spaces, ways: &Paths, now: u64) -> Result<Reroutes> {
        let places = ways.all.iter().flat_map(|way| &way.way.points).map(|point| &point.space);
        let nodes: BTreeMap<&str, &Space> = places
            .filter_map(|space| match space {
                Space::Node(name) => Some((name.as_str(), space)),
                _ => None,
            })
            .collect();
        let open = |(node, space): (&str, &Space)| {
            let init = spaces.init(space);
            let opened = run_in(init.as_deref(), || Ok(RouteWatch::open()?));
            Ok(opened.map_err(Error::asking(node, "watch its routes"))?)
        };
        let sockets = nodes.into_iter().map(open).collect::<Result<_>>()?;
        let pairs = |(way, measured): (usize, &super::Measured)| {
            let watched = move |pair| Watched { way, pair, route: Route::Measured, flawed: vec![] };
            measured.pairs.clone().into_iter().map(watched)
        };
        let watched = ways.all.iter().enumerate().flat_map(pairs).collect();
        Ok(Reroutes { sockets, watched, quiet: now })
    }

    /// Handles what the nodes told until `now`; returns the paths that changed.
    pub(super) fn look(
        &mut self,
        spaces: &mut Spaces,
        ways: &Paths,
        schedule: &Schedule,
        now: u64,
    ) -> Vec<Rerouted> {
        // Nodes that end take their routes with them, and their interfaces, which is told.
        if spaces.any_gone() {
            self.end();
            return vec![];
        }
        let mut changed = false;
        for socket in &mut self.sockets {
            // A socket that cannot be read is no reason to trust the path.
            changed |= socket.changed().unwrap_or(true);
        }
        let since = std::mem::replace(&mut self.quiet, now);
        // A node may have ended since the first look, and told of its routes as it went.
        if !changed || spaces.any_gone() {
            return vec![];
        }
        // Packets of a block are still on their way, and counted, until its guard has passed.
        let from = schedule.block_at(since.saturating_sub(schedule.guard())).unwrap_or(0);
        let to = schedule.block_at(now).unwrap_or(0);
        let mut told = Vec::new();
        for watched in &mut self.watched {
            let route = watched.ask(spaces, ways);
            let misses = route.misses();
            if misses || watched.route.misses() {
                let last = if misses { u64::MAX } else { to };
                watched.flaw(from, last);
            }
            if watched.route != route {
                watched.route = route.clone();
                let (way, version) = (watched.way, family(watched.pair.0));
                told.push(Rerouted { way, version, block: from, route });
            }
        }
        told
    }

    /// Ends watching: a socket keeps the network of its node, and so `down` waits for it.
    pub(super) fn end(&mut self) {
        self.sockets.clear();
    }

    /// Whether packets of a path may have missed points in a block.
    pub(super) fn flawed(&self, way: usize, block: u64) -> bool {
        let of = self.watched.iter().filter(|watched| watched.way == way);
        of.flat_map(|watched| &watched.flawed).any(|(from, to)| (*from..=*to).contains(&block))
    }
}

impl Watched {
    /// Asks the nodes for the current path.
    fn ask(&self, spaces: &mut Spaces, ways: &Paths) -> Route {
        let Some(measured) = ways.all.get(self.way) else { return Route::Measured };
        let (from, to) = (measured.way.from.as_str(), measured.way.to.as_str());
        let plan = match spaces.lab() {
            Ok((_, plan)) => plan.clone(),
            Err(error) => return Route::Unknown(netloom_sys::describe(&error)),
        };
        let finder = Finder::new(&plan, ways.wired());
        let source = measured.back.then_some(self.pair.0);
        let mut ends = false;
        let mut ask = |question: &Question<'_>| {
            let found = next(spaces, question);
            ends |= matches!(found, Ok(Err(_)));
            found
        };
        match finder.find((from, to), (source, self.pair.1), &mut ask) {
            Ok(way) if self.is(&measured.way, &way) => Route::Measured,
            Ok(way) => Route::Other(way.hops),
            Err(error) if ends => Route::Ends(netloom_sys::describe(&error)),
            Err(error) => Route::Unknown(netloom_sys::describe(&error)),
        }
    }

    /// Whether packets of this pair take the measured path.
    fn is(&self, measured: &PacketPath, now: &PacketPath) -> bool {
        (now.source, now.destination) == self.pair
            && (&now.points, &now.hops) == (&measured.points, &measured.hops)
    }

    /// Notes flawed blocks; those since which it is another path go on until it is the measured one again.
    fn flaw(&mut self, from: u64, to: u64) {
        match self.flawed.last_mut() {
            // The one that is open to the end is closed here, or goes on.
            Some((_, last)) if *last >= from => *last = to,
            _ => self.flawed.push((from, to)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched() -> Watched {
        let pair = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        Watched { way: 0, pair, route: Route::Measured, flawed: vec![] }
    }

    fn flawed(all: &Reroutes) -> Vec<u64> {
        (0..12).filter(|block| all.flawed(0, *block)).collect()
    }

    #[test]
    fn blocks_are_flawed_from_the_change_until_the_path_is_back() {
        let mut watched = watched();
        watched.flaw(2, u64::MAX);
        watched.flaw(4, u64::MAX);
        let mut all = Reroutes { sockets: vec![], watched: vec![watched], quiet: 0 };
        assert_eq!(flawed(&all), (2..12).collect::<Vec<_>>());
        all.watched[0].flaw(5, 6);
        assert_eq!(flawed(&all), [2, 3, 4, 5, 6]);
        all.watched[0].flaw(8, u64::MAX);
        all.watched[0].flaw(8, 9);
        assert_eq!(flawed(&all), [2, 3, 4, 5, 6, 8, 9]);
        assert!(!all.flawed(1, 5));
    }

    #[test]
    fn a_path_that_ends_loses_its_packets_and_misses_no_point() {
        assert!(Route::Other(vec![]).misses() && Route::Unknown(String::new()).misses());
        assert!(!Route::Ends(String::new()).misses() && !Route::Measured.misses());
    }
}
