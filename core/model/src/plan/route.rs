//! Computed routes: shortest paths for routers, a default route for hosts.
//!
//! A router has one route per block of another router (which contains all links that router owns), one
//! per remaining segment, and a default route toward the nearest `internet` door. A route has the
//! first hops of all shortest paths, at most [`MOST_HOPS`](super::shortest::MOST_HOPS), or with
//! `ecmp: false` only the first of them.
//!
//! Why no packet loops: for a given destination all routers of a component send toward
//! the same target, so each hop, whichever of several it is, shortens the distance to it by one.
//! * A segment outside every block: toward that segment, until a router on it delivers.
//! * An address in the block of router O: toward O. A router on the path that is on the address's
//!   own segment delivers at once (its connected prefix is longer); else O does, which is on every
//!   segment that its block leads to. For the unused rest of its block, O has an on-link route if it
//!   has a default route, so that it does not send packets for the block back.
//! * A loopback address of router O, and what shares its prefix: toward O.
//! * Everything else: toward the nearest door. Routers may send to different doors at the same
//!   distance; the distance to the nearest one still shrinks at each hop.
//!
//! Blocks, segments outside them and prefixes by hand are disjoint. Hosts never forward.

use std::collections::HashMap;
use std::sync::Arc;

use ipnet::IpNet;

use super::error::PlanError;
use super::family::Family;
use super::graph::{Attachment, Graph};
use super::shortest::{Steps, Ways};
use super::{NextHop, Route};
use crate::lab::{Lab, Pool};

/// Maximum computed routes of a lab, of all nodes and both families: they grow with the square of the number
/// of routers. Two thousand routers with both families have that many; they take half a GiB.
pub(crate) const MOST_ROUTES: usize = 1 << 23;

/// Adds the routes of both families to every node's list; nodes with routes by hand are left alone.
///
/// # Errors
/// [`PlanError::TooManyRoutes`], before any is computed.
pub(crate) fn add_routes(
    lab: &Lab,
    graphs: &[(Family, Graph<'_>)],
    routes: &mut [Vec<Route>],
) -> Result<(), PlanError> {
    let tables: Vec<Tables<'_>> = graphs.iter().map(|of| Tables::new(lab, of.0, &of.1)).collect();
    // The count comes first: the routes of a lab that is too large would not fit into memory.
    let count = tables.iter().fold(0_usize, |sum, of| sum.saturating_add(of.count()));
    if count > MOST_ROUTES {
        return Err(PlanError::TooManyRoutes { routes: count, most: MOST_ROUTES });
    }
    for tables in tables {
        tables.add(routes);
    }
    debug_assert!(routes.iter().map(Vec::len).sum::<usize>() <= count);
    Ok(())
}

/// The inputs of one family's routes.
struct Tables<'a> {
    lab: &'a Lab,
    family: Family,
    graph: &'a Graph<'a>,
    targets: Targets,
    /// The nodes whose routes are computed.
    routers: Vec<usize>,
    hosts: Vec<usize>,
}

impl<'a> Tables<'a> {
    fn new(lab: &'a Lab, family: Family, graph: &'a Graph<'a>) -> Self {
        let computed = |node: &usize| lab.nodes[*node].routes.is_none();
        let (routers, hosts) = (0..lab.nodes.len())
            .filter(computed)
            .partition(|node| family.forwards(&lab.nodes[*node]));
        let targets = Targets::new(lab, family, graph);
        Tables { lab, family, graph, targets, routers, hosts }
    }

    /// An upper bound of the number of routes.
    fn count(&self) -> usize {
        let of_router = |router: &usize| {
            let component = self.graph.component_of(*router);
            component.map_or(0, |of| self.targets.of[of].count() + 1)
        };
        let of_host = |host: &usize| self.count_of_host(&self.graph.of_node[*host]);
        let routers = self.routers.iter().map(of_router);
        routers.chain(self.hosts.iter().map(of_host)).fold(0, usize::saturating_add)
    }

    fn count_of_host(&self, places: &[Attachment]) -> usize {
        let door = places.iter().any(|place| self.graph.doors[place.segment].is_some());
        let components = first_routers(self.graph, places);
        // This must agree with `add_host`, case by case.
        let behind = components.iter().enumerate().map(|(order, (component, _, _))| {
            let of = &self.targets.of[*component];
            match order {
                0 if !door => 1,
                0 => of.outside_pool + 1,
                _ => of.count(),
            }
        });
        behind.fold(usize::from(door), usize::saturating_add)
    }

    fn add(&self, routes: &mut [Vec<Route>]) {
        let mut ways = Ways::new(self.graph);
        for router in &self.routers {
            let Some(component) = self.graph.component_of(*router) else { continue };
            ways.find(self.graph, *router);
            let mut paths = Paths { ways: &ways, several: self.lab.ecmp, also: HashMap::new() };
            let targets = &self.targets.of[component];
            targets.add_router(self.family, self.graph, &mut paths, *router, &mut routes[*router]);
        }
        let pool = pool(&self.lab.pool, self.family);
        for host in &self.hosts {
            let (graph, places) = (self.graph, &self.graph.of_node[*host]);
            add_host(self.family, pool, graph, &self.targets, places, &mut routes[*host]);
        }
    }
}

fn pool(pool: &Pool, family: Family) -> Option<IpNet> {
    match family {
        Family::V4 => pool.ipv4.map(IpNet::from),
        Family::V6 => pool.ipv6.map(IpNet::from),
    }
}

/// The paths of a router, and whether all of equal cost are used.
struct Paths<'a> {
    ways: &'a Ways,
    several: bool,
    /// Further next hops shared by several routes.
    also: HashMap<Steps, Arc<[NextHop]>>,
}

impl<'a> Paths<'a> {
    /// The route to a prefix by these steps; `None` without any.
    fn route(&mut self, to: IpNet, steps: &'a Steps) -> Option<Route> {
        let mut hops = self.ways.hops(steps);
        let first = hops.next()?;
        let mut also = Arc::default();
        if self.several && steps.is_several() {
            let hops = hops.map(|hop| NextHop { via: hop.via, interface: hop.interface });
            // Most routes of a router have one of few sets of next hops; shared, they are stored once.
            // A router has many routes but few distinct lists of next hops.
            also = Arc::clone(self.also.entry(*steps).or_insert_with(|| hops.collect()));
        }
        Some(Route { to, via: Some(first.via), interface: first.interface, also })
    }
}

/// The targets of routes.
struct Targets {
    /// By component.
    of: Vec<OfComponent>,
}

/// The targets of one component's routers, in the order of the tables.
#[derive(Clone, Default)]
struct OfComponent {
    /// Owner and prefix, the prefixes of loopback addresses among them.
    blocks: Vec<(usize, IpNet)>,
    /// Segment and prefix, of segments that no block leads to.
    segments: Vec<(usize, IpNet)>,
    /// How many of both are outside the pool.
    outside_pool: usize,
}

impl Targets {
    fn new(lab: &Lab, family: Family, graph: &Graph<'_>) -> Self {
        let pool = pool(&lab.pool, family);
        let mut of = vec![OfComponent::default(); graph.has_door.len()];
        for block in graph.router_blocks() {
            if let Some(component) = graph.component_of(block.owner) {
                of[component].blocks.push((block.owner, block.prefix));
            }
        }
        for (router, node) in lab.nodes.iter().enumerate().filter(|(_, n)| family.forwards(n)) {
            let Some(component) = graph.component_of(router) else { continue };
            let prefixes = family.of_all(&node.loopback).map(IpNet::trunc);
            of[component].blocks.extend(prefixes.map(|prefix| (router, prefix)));
        }
        for (segment, component) in graph.component.iter().enumerate() {
            if let (Some(component), false) = (component, graph.in_block[segment])
                && let Some(prefix) = graph.prefix(segment)
            {
                of[*component].segments.push((segment, prefix));
            }
        }
        for targets in &mut of {
            let outside = |net: &IpNet| !pool.is_some_and(|pool| pool.contains(net));
            targets.outside_pool = targets.prefixes().filter(outside).count();
        }
        Targets { of }
    }
}

impl OfComponent {
    fn count(&self) -> usize {
        self.blocks.len() + self.segments.len()
    }

    fn prefixes(&self) -> impl Iterator<Item = IpNet> {
        self.blocks.iter().chain(&self.segments).map(|(_, prefix)| *prefix)
    }

    fn add_router<'a>(
        &self,
        family: Family,
        graph: &Graph<'_>,
        paths: &mut Paths<'a>,
        router: usize,
        routes: &mut Vec<Route>,
    ) {
        let ways: &'a Ways = paths.ways;
        // A large lab has millions of routes: the slack of doubling would cost up to as much again.
        routes.reserve_exact(self.count() + 1);
        routes.extend(paths.route(family.everything(), ways.to_door()));
        for (owner, to) in &self.blocks {
            if let Some(route) = paths.route(*to, ways.to_router(*owner)) {
                routes.push(route);
            // Only with a default route: without one the kernel answers "unreachable" by itself.
            } else if *owner == router && !ways.to_door().is_empty() {
                routes.extend(own_block(graph, router, to));
            }
        }
        for (segment, to) in &self.segments {
            routes.extend(paths.route(*to, ways.to_segment(*segment)));
        }
    }

    /// Every prefix that the routers lead to, except the given segments.
    fn without(&self, places: &[Attachment]) -> Vec<IpNet> {
        let connected = |segment: usize| places.iter().any(|place| place.segment == segment);
        let segments = self.segments.iter().filter(|(segment, _)| !connected(*segment));
        self.blocks.iter().chain(segments).map(|(_, prefix)| *prefix).collect()
    }
}

/// The on-link route of a router for the unused rest of its own block.
fn own_block(graph: &Graph<'_>, router: usize, block: &IpNet) -> Option<Route> {
    let place = graph.of_node[router].iter().find(|place| block.contains(&place.address))?;
    Some(Route::single(*block, None, place.interface))
}

/// A host's routes: a default by the `internet` door of one of its segments, else by the first router,
/// preferring one that leads to a door. With a door, prefixes behind the router have routes of their own,
/// and so have those behind routers that the first one does not reach.
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
        let mut behind = targets.of[*component].without(places);
        if let (0, Some(pool)) = (order, pool) {
            let all = behind.len();
            // One route to the pool serves for all prefixes in it: connected ones are longer and win.
            // One route to the pool serves for all prefixes in it: connected ones are longer and
            // win.
            behind.retain(|prefix| !pool.contains(prefix));
            if behind.len() < all {
                behind.insert(0, pool);
            }
        }
        routes.extend(behind.into_iter().map(|to| gateway(via, place, to)));
    }
}

/// The first router of each component adjacent to a host, those with a door first.
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
    // The sort is stable, so components of the same kind stay in the order of the interfaces.
    first.sort_by_key(|(component, _, _)| !graph.has_door[*component]);
    first
}
