//! Addresses, routes, neighbours and sysctls of nodes, by batched netlink.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use netloom_model::Plan;
use netloom_model::plan::Slot;
use netloom_model::plan::form::LinkForm;
use netloom_model::plan::{
    self as planned, Interface, LinkSlot, PlannedEnd, PlannedNode, is_of_an_interface,
};
use netloom_netlink::{Address, Batch, Change, DeleteRoute, Multipath, Neighbour, Route};
use netloom_sys::sysctl::View;
use netloom_sys::{namespace, sysctl};

use crate::stage::spaces::{LOOPBACK, Spaces, inside, on_a_thread, open, run};
use crate::{Error, Result};

/// How many nodes' settings are looked up through one view: the time for each grows with their number, and a view takes as
/// long as some lookups.
const NODES_A_VIEW: usize = 64;

/// Which part of a node to configure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A new node: everything.
    All,
    /// A living node with new links: those, and all its routes.
    Links,
    /// A living node with new links, whose routes follow later.
    LinksAlone,
}

/// Raises interfaces and sets addresses and routes, node by node, on one thread.
///
/// Unless it is [`Scope::All`], only interfaces that are ends of `links` are touched.
pub(crate) fn configure(
    plan: &Plan,
    spaces: &Spaces<'_>,
    work: &[(Slot, Scope)],
    links: &[LinkSlot],
) -> Result<()> {
    let fixed_neighbours = plan.fixes_neighbours();
    on_a_thread(|| {
        let mut batch = Batch::new();
        let mut view = View::shared();
        for (done, &(index, scope)) in work.iter().enumerate() {
            if work.len() > NODES_A_VIEW && done % NODES_A_VIEW == 0 {
                view = View::own();
            }
            let node = &plan.nodes[index];
            let object = format!("node {:?}", node.name);
            namespace::enter_network(spaces.open(index)?)
                .map_err(Error::of(&object, "configure"))?;
            // A netlink socket belongs to the namespace in which it was opened: each node needs
            // one.
            let mut socket = open(&object)?;
            batch.clear();
            let there = |interface: &Interface| {
                let link = plan.link_at(interface.link);
                link.is_none_or(|link| spaces.forms.get(plan, link) != LinkForm::Guest)
            };
            push_node(&mut batch, node, scope, links, &there);
            if node.kind.as_vm().is_none() {
                if fixed_neighbours {
                    push_neighbours(&mut batch, plan, index, scope, links);
                }
                set_late_sysctls(&view, node, &object)?;
            }
            run(&mut socket, &mut batch, &object, "configure")?;
        }
        Ok(())
    })
}

/// Whether a sysctl is set after the node's interfaces are made: those of single interfaces, and
/// forwarding. Writing forwarding spins while any other namespace's network changes, so the one thread
/// that configures all nodes does it, followed by the sysctls that it resets.
pub(crate) fn is_late(path: &str) -> bool {
    is_of_an_interface(path)
        || path.ends_with("forwarding")
        || path.ends_with("/ip_forward")
        || path == "net/ipv4/conf/all/accept_redirects"
}

/// Sets late sysctls from a thread in the node's network namespace: /proc/sys/net belongs to the
/// namespace of the calling thread.
fn set_late_sysctls(view: &View, node: &PlannedNode, object: &str) -> Result<()> {
    for (path, value) in node.sysctls.iter().filter(|(path, _)| is_late(path)) {
        let of = || format!("{object}: {}", sysctl::full(path));
        view.set_in_node(path, value, node.privileged)
            .map_err(|e| Error::at(of(), "set sysctl")(e))?;
    }
    Ok(())
}

/// Sets a living node's permanent neighbours across these links again.
pub(crate) fn give_neighbours(
    plan: &Plan,
    space: BorrowedFd<'_>,
    node: Slot,
    links: &[LinkSlot],
) -> Result<()> {
    if !plan.fixes_neighbours() {
        return Ok(());
    }
    let object = format!("node {:?}", plan.nodes[node].name);
    inside(space, &object, |socket| {
        let mut batch = Batch::new();
        push_neighbours(&mut batch, plan, node, Scope::Links, links);
        if batch.is_empty() {
            Ok(())
        } else {
            run(socket, &mut batch, &object, "fix its neighbours")
        }
    })
}

/// The interface at the other end of a node's, if that is a node's, too.
pub(crate) fn opposite(plan: &Plan, node: Slot, at: usize) -> Option<&Interface> {
    let link = &plan.links[plan.nodes[node].interfaces.get(at)?.link];
    link.ends.iter().find_map(|end| match end {
        PlannedEnd::Node { node: n, interface: i } if (*n, *i) != (node, at) => {
            plan.nodes[*n].interfaces.get(*i)
        }
        _ => None,
    })
}

/// The neighbours of a node across its node-node links, as permanent entries.
fn push_neighbours(batch: &mut Batch, plan: &Plan, node: Slot, scope: Scope, links: &[LinkSlot]) {
    for (i, interface) in plan.nodes[node].interfaces.iter().enumerate() {
        if scope != Scope::All && !links.contains(&interface.link) {
            continue;
        }
        let link = &plan.links[interface.link];
        let Some(peer) = opposite(plan, node, i) else { continue };
        let object: Arc<str> = format!("link {:?}", link.name).into();
        for address in &peer.addresses {
            let neighbour =
                Neighbour { link: interface.index, address: address.addr(), mac: peer.mac };
            batch.push(Arc::clone(&object), &neighbour);
        }
    }
}

/// The requests for a node; `there`: whether it has an interface of the plan.
fn push_node(
    batch: &mut Batch,
    node: &PlannedNode,
    scope: Scope,
    links: &[LinkSlot],
    there: &dyn Fn(&Interface) -> bool,
) {
    let name: Arc<str> = format!("node {:?}", node.name).into();
    if scope == Scope::All {
        // A new namespace's loopback is down.
        batch.push(Arc::clone(&name), &Change::of(LOOPBACK).up());
        for address in &node.loopback {
            batch.push(Arc::clone(&name), &Address::new(LOOPBACK, *address));
        }
    }
    for interface in node.interfaces.iter().filter(|i| there(i)) {
        if scope != Scope::All && !links.contains(&interface.link) {
            continue;
        }
        let object: Arc<str> = format!("interface \"{}:{}\"", node.name, interface.name).into();
        batch.push(Arc::clone(&object), &Change::of(interface.index).up());
        if node.kind.as_vm().is_some() {
            // Addresses and routes are the guest's.
            continue;
        }
        for address in &interface.addresses {
            batch.push(Arc::clone(&object), &Address::new(interface.index, *address));
        }
    }
    if node.kind.as_vm().is_some() || scope == Scope::LinksAlone {
        return;
    }
    for route in &node.routes {
        push_route(batch, &name, node, route, scope == Scope::Links);
    }
}

fn push_route(
    batch: &mut Batch,
    name: &Arc<str>,
    node: &PlannedNode,
    route: &planned::Route,
    replace: bool,
) {
    if let Some(way) = InstalledRoute::of(node, route, |_| true) {
        way.push(batch, name, replace);
    }
}

/// A route of a node with its next hops.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InstalledRoute {
    pub(crate) to: ipnet::IpNet,
    /// Next hops: the router, `None` if on-link, and the index of the interface; at least one.
    hops: Vec<(Option<IpAddr>, u32)>,
}

impl InstalledRoute {
    /// A planned route of a node, without the next hops whose interface, by place, is absent; `None`
    /// if none is left.
    pub(crate) fn of(
        node: &PlannedNode,
        route: &planned::Route,
        there: impl Fn(usize) -> bool,
    ) -> Option<InstalledRoute> {
        let first = (route.via, route.interface);
        let also = route.also.iter().map(|hop| (Some(hop.via), hop.interface));
        let all = std::iter::once(first).chain(also).filter(|(_, interface)| there(*interface));
        let index = |interface: usize| node.interfaces.get(interface).map(|i| i.index);
        let hops: Vec<_> = all.filter_map(|(via, i)| Some((via, index(i)?))).collect();
        (!hops.is_empty()).then_some(InstalledRoute { to: route.to, hops })
    }

    /// Its next hops: the router, `None` if on-link, and the index of the interface; at least one.
    pub(crate) fn hops(&self) -> &[(Option<IpAddr>, u32)] {
        &self.hops
    }

    /// Adds the request for it.
    pub(crate) fn push(&self, batch: &mut Batch, name: &Arc<str>, replace: bool) {
        // A single hop may lack a router, which each of several hops must have.
        if let [(via, index)] = self.hops.as_slice() {
            let request = Route { replace, ..Route::new(self.to, *via, *index) };
            return batch.push(Arc::clone(name), &request);
        }
        let through = self.hops.iter().filter_map(|(via, index)| Some(((*via)?, *index)));
        let hops: Vec<(IpAddr, u32)> = through.collect();
        batch.push(Arc::clone(name), &Multipath { to: self.to, hops: &hops, replace });
    }

    /// Adds the request to remove it; a missing route is success.
    pub(crate) fn push_removal(&self, batch: &mut Batch, name: &Arc<str>) {
        let (via, link) = match self.hops.as_slice() {
            [(via, index)] => (*via, Some(*index)),
            _ => (None, None),
        };
        // Since the node has an interface there, it has the kernel's own route, too.
        let request = DeleteRoute { via, link, added: true, ..DeleteRoute::new(self.to) };
        batch.push_tolerant(Arc::clone(name), &request);
    }
}
