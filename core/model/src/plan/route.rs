//! Computed routes: shortest paths for routers, a default route for hosts.
//!
//! A router has one route per block of another router (all links that router owns lie in it), one
//! per remaining segment, and a default route toward the nearest `internet` door. A route has the
//! first steps of all shortest ways, at most [`MOST_HOPS`](super::ways::MOST_HOPS), unless the lab wants
//! single ones (`ecmp: false`): then the first of them.
//!
//! Why no packet runs in a circle: for a given destination all routers of a component send toward
//! the same thing, so that each step shortens the distance to it by one, whichever of several it is.
//! * A segment outside every block: toward that segment, until a router on it delivers.
//! * An address in the block of router O: toward O. A router on the way that is on the address's
//!   own segment delivers at once (its connected prefix is longer); else O does, which is on every
//!   segment led to by its block. For the unused rest of its block, O has an on-link route when it
//!   has a default route, so that it does not send back what came to it by the block.
//! * Everything else: toward the nearest door. Routers may lead to different doors of the same
//!   distance; that to the nearest one shrinks at each step all the same.
//!
//! Blocks, segments outside them and prefixes by hand are disjoint. Hosts never forward.

use ipnet::IpNet;

use super::family::Family;
use super::graph::{Attachment, Graph};
use super::ways::{Steps, Ways};
use super::{NextHop, Route};
use crate::lab::{Lab, Pool};

/// Adds the routes of one family to every node's list; nodes with routes by hand are left alone.
pub(crate) fn add_routes(lab: &Lab, family: Family, graph: &Graph<'_>, routes: &mut [Vec<Route>]) {
    let computed = |node: &usize| lab.nodes[*node].routes.is_none();
    let (routers, hosts): (Vec<usize>, Vec<usize>) =
        (0..lab.nodes.len()).filter(computed).partition(|node| lab.nodes[*node].forwarding);
    let targets = Targets::new(graph);
    let mut ways = Ways::new(graph);
    for router in routers {
        ways.find(graph, router);
        let paths = Paths { ways: &ways, several: lab.ecmp };
        targets.add_router(family, graph, &paths, router, &mut routes[router]);
    }
    let pool = pool(&lab.pool, family);
    for host in hosts {
        add_host(family, pool, graph, &targets, &graph.of_node[host], &mut routes[host]);
    }
}

fn pool(pool: &Pool, family: Family) -> Option<IpNet> {
    match family {
        Family::V4 => pool.ipv4.map(IpNet::from),
        Family::V6 => pool.ipv6.map(IpNet::from),
    }
}

/// The ways of a router, and whether all of equal cost are used.
struct Paths<'a> {
    ways: &'a Ways,
    several: bool,
}

impl Paths<'_> {
    /// The route to a prefix by these steps; none where there are none.
    fn route(&self, to: IpNet, steps: &Steps) -> Option<Route> {
        let mut hops = self.ways.hops(steps);
        let first = hops.next()?;
        let also = hops.take_while(|_| self.several);
        let also = also.map(|hop| NextHop { via: hop.via, interface: hop.interface }).collect();
        Some(Route { to, via: Some(first.via), interface: first.interface, also })
    }
}

/// What routes lead to, in the order of the tables.
struct Targets {
    /// Owner and prefix.
    blocks: Vec<(usize, IpNet)>,
    /// Segment and prefix, of those that no block leads to.
    segments: Vec<(usize, IpNet)>,
}

impl Targets {
    fn new(graph: &Graph<'_>) -> Self {
        let blocks = graph.router_blocks().map(|b| (b.owner, b.prefix)).collect();
        let routed = (0..graph.routers.len()).filter(|s| !graph.routers[*s].is_empty());
        let single = routed.filter(|s| !graph.in_block[*s]);
        let segments = single.filter_map(|s| Some((s, graph.prefix(s)?))).collect();
        Targets { blocks, segments }
    }

    fn add_router(
        &self,
        family: Family,
        graph: &Graph<'_>,
        paths: &Paths<'_>,
        router: usize,
        routes: &mut Vec<Route>,
    ) {
        let ways = paths.ways;
        routes.reserve(self.blocks.len() + self.segments.len() + 1);
        routes.extend(paths.route(family.everything(), ways.to_door()));
        for (owner, to) in &self.blocks {
            if let Some(route) = paths.route(*to, ways.to_router(*owner)) {
                routes.push(route);
            } else if *owner == router && !ways.to_door().is_empty() {
                routes.extend(own_block(graph, router, to));
            }
        }
        for (segment, to) in &self.segments {
            routes.extend(paths.route(*to, ways.to_segment(*segment)));
        }
    }

    /// Every prefix that the routers of a component lead to, but for the segments given.
    fn of_component(
        &self,
        graph: &Graph<'_>,
        component: usize,
        without: &[Attachment],
    ) -> Vec<IpNet> {
        let inside = |segment: usize| graph.component[segment] == Some(component);
        let owner_inside = |owner: usize| graph.of_node[owner].iter().any(|p| inside(p.segment));
        let blocks = self.blocks.iter().filter(|(owner, _)| owner_inside(*owner));
        let connected = |segment: usize| without.iter().any(|place| place.segment == segment);
        let segments = self.segments.iter().filter(|(s, _)| inside(*s) && !connected(*s));
        blocks.chain(segments).map(|(_, prefix)| *prefix).collect()
    }
}

/// The on-link route of a router for the unused rest of its own block.
fn own_block(graph: &Graph<'_>, router: usize, block: &IpNet) -> Option<Route> {
    let place = graph.of_node[router].iter().find(|place| block.contains(&place.address))?;
    Some(Route::single(*block, None, place.interface))
}

/// Default by the `internet` door of one of its segments, else by the first router, one that leads
/// to a door before others. Beside a door, what lies behind the router has routes of its own, and
/// so has what lies behind routers that the first one does not reach.
fn add_host(
    family: Family,
    pool: Option<IpNet>,
    graph: &Graph<'_>,
    targets: &Targets,
    places: &[Attachment],
    routes: &mut Vec<Route>,
) {
    let gateway = |via, place: &Attachment, to| Route::single(to, via, place.interface);
    let door = places.iter().find_map(|p| graph.doors[p.segment].map(|via| (via, p)));
    if let Some((via, place)) = door {
        routes.push(gateway(Some(via), place, family.everything()));
    }
    for (order, (component, router, place)) in first_routers(graph, places).iter().enumerate() {
        let via = Some(router.address);
        if door.is_none() && order == 0 {
            routes.push(gateway(via, place, family.everything()));
            continue;
        }
        let mut behind = targets.of_component(graph, *component, places);
        if let (0, Some(pool)) = (order, pool) {
            let all = behind.len();
            behind.retain(|prefix| !pool.contains(prefix));
            if behind.len() < all {
                behind.insert(0, pool);
            }
        }
        routes.extend(behind.into_iter().map(|to| gateway(via, place, to)));
    }
}

/// The first router of each component that a host is next to, those with a door first.
fn first_routers<'a>(
    graph: &'a Graph<'_>,
    places: &'a [Attachment],
) -> Vec<(usize, &'a Attachment, &'a Attachment)> {
    let mut first: Vec<(usize, &Attachment, &Attachment)> = Vec::new();
    for place in places {
        let component = graph.component[place.segment];
        let router = graph.routers[place.segment].first();
        if let (Some(component), Some(router)) = (component, router)
            && first.iter().all(|known| known.0 != component)
        {
            first.push((component, router, place));
        }
    }
    first.sort_by_key(|(component, _, _)| !graph.has_door[*component]);
    first
}
