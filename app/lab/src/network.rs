//! Links, addresses and routes of a plan, by batched netlink.
//!
//! Indexes of interfaces are chosen, not asked for: `lo` is 1 and a node's interfaces follow in the
//! order of the plan; in the core namespace bridges come first, ports after [`FIRST_PORT`](netloom_model::plan::form::FIRST_PORT). Link
//! pairs are made by a socket in an empty namespace, because kernels before 6.14 look for clashes
//! there too. All functions run on threads that end with them.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use netloom_model::Plan;
use netloom_model::plan::form::{Forms, LinkForm, Seat};
use netloom_model::plan::{
    self as planned, PlannedEnd, PlannedLink, PlannedNode, is_of_an_interface,
};
use netloom_netlink::{
    Address, Batch, BridgeSpec, Change, DeleteLink, DeleteRoute, EndSpec, Multipath, Neighbour,
    Route, Socket, VethSpec,
};
use netloom_sys::{namespace, sysctl};

use crate::{Error, Result};

/// Index of the loopback interface in every namespace.
const LOOPBACK: u32 = 1;

/// Up to how many interfaces a lab's nodes learn their neighbours. The kernel has one table of learnt
/// neighbours for all namespaces (`net.ipv4.neigh.default.gc_thresh3`, 1024 by default), which larger
/// labs would overflow; permanent entries do not count.
const LEARNT_NEIGHBOURS: usize = 400;

/// Network namespaces of a lab: one a node in the order of the plan, and the core's.
pub(crate) struct Spaces {
    pub(crate) nodes: Vec<Option<OwnedFd>>,
    pub(crate) core: OwnedFd,
    /// How links are made.
    pub(crate) forms: Forms,
}

impl Spaces {
    pub(crate) fn node(&self, index: usize) -> Result<BorrowedFd<'_>> {
        let found = self.nodes.get(index).and_then(Option::as_ref);
        found.map(AsFd::as_fd).ok_or_else(|| {
            let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
            Error::system(format!("node {index}"), "find its network namespace")(
                netloom_sys::Error::call("network namespace", "open", gone),
            )
        })
    }
}

/// Runs `f` on a thread of its own inside a namespace, with a socket there.
pub(crate) fn inside<T: Send>(
    ns: BorrowedFd<'_>,
    object: &str,
    f: impl FnOnce(&mut Socket) -> Result<T> + Send,
) -> Result<T> {
    namespace::run_in(ns, "netloom-net", || {
        let mut socket = open(object)?;
        f(&mut socket)
    })
}

fn open(object: &str) -> Result<Socket> {
    Socket::open().map_err(Error::network(object, "open a netlink socket"))
}

/// Runs a batch; `object` and `operation` say what for.
pub(crate) fn run(
    socket: &mut Socket,
    batch: &mut Batch,
    object: &str,
    operation: &'static str,
) -> Result<()> {
    socket.run(batch).map_err(Error::network(object, operation))
}

/// Makes the bridges of these switches in the core namespace.
pub(crate) fn make_switches(plan: &Plan, core: BorrowedFd<'_>) -> Result<()> {
    inside(core, "core namespace", |socket| {
        let mut batch = Batch::new();
        batch.push("loopback of the core", &Change::of(LOOPBACK).up());
        for switch in plan.switches.iter().filter(|s| s.kind.is_in_kernel()) {
            let object: Arc<str> = format!("switch {:?}", switch.name).into();
            let mut spec = BridgeSpec::new(&switch.bridge);
            spec.index = Some(switch.index);
            spec.mac = Some(switch.mac);
            spec.mtu = Some(switch.mtu);
            batch.push(Arc::clone(&object), &spec);
            batch.push(object, &Change::of(switch.index).up());
        }
        run(socket, &mut batch, "core namespace", "make switches")
    })
}

/// Makes these links (indexes into the plan), each end in its final namespace. Doors are made by
/// their own module: of a link with a door this makes nothing.
pub(crate) fn make_links(plan: &Plan, spaces: &Spaces, links: &[usize]) -> Result<()> {
    let work = || -> Result<()> {
        namespace::new_network()?;
        let mut socket = open("links")?;
        let mut batch = Batch::new();
        for &index in links {
            push_link(&mut batch, plan, spaces, index)?;
        }
        run(&mut socket, &mut batch, "links", "make")
    };
    on_a_thread(work)
}

/// Runs `f` on a thread that may change its namespace and ends.
pub(crate) fn on_a_thread<T: Send>(f: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("netloom-net".into()).spawn_scoped(scope, f);
        match thread {
            Err(e) => Err(Error::state("thread", "start")(e)),
            Ok(thread) => match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    })
}

fn push_link(batch: &mut Batch, plan: &Plan, spaces: &Spaces, index: usize) -> Result<()> {
    let link = &plan.links[index];
    match spaces.forms.get(plan, link) {
        LinkForm::Pair => push_pair(batch, plan, spaces, index),
        LinkForm::Wired => push_wired(batch, plan, spaces, index),
        LinkForm::Tap | LinkForm::Bridged | LinkForm::Card | LinkForm::Nat => Ok(()),
    }
}

fn push_pair(batch: &mut Batch, plan: &Plan, spaces: &Spaces, index: usize) -> Result<()> {
    let link = &plan.links[index];
    // A port goes first: only the first end can be given its bridge at once.
    let swap = !matches!(link.ends[0], PlannedEnd::Port { .. });
    let order = if swap { [1, 0] } else { [0, 1] };
    let [a, b] = [end(plan, spaces, index, order[0])?, end(plan, spaces, index, order[1])?];
    let mut spec = VethSpec::new(a, b);
    spec.a_up = true;
    if let PlannedEnd::Port { switch, .. } = &link.ends[order[0]] {
        spec.a_master = bridge(plan, *switch);
    }
    batch.push(format!("link {:?}", link.name), &spec);
    Ok(())
}

/// A link with a wire built in: a pair for each end, whose other ends the wires' process reads and
/// writes in the core namespace.
fn push_wired(batch: &mut Batch, plan: &Plan, spaces: &Spaces, index: usize) -> Result<()> {
    let link = &plan.links[index];
    for side in [0, 1] {
        let name = link.hidden_name(side);
        let inner = EndSpec {
            netns: Some(spaces.core.as_fd()),
            index: Some(link.hidden_index(side)),
            mtu: Some(link.mtu),
            ..EndSpec::new(&name)
        };
        let mut spec = VethSpec::new(inner, end(plan, spaces, index, side)?);
        spec.a_up = true;
        batch.push(format!("link {:?}", link.name), &spec);
    }
    Ok(())
}

/// Index of a switch's bridge; one that is not in the kernel has none.
fn bridge(plan: &Plan, switch: usize) -> Option<u32> {
    plan.switches.get(switch).filter(|s| s.kind.is_in_kernel()).map(|s| s.index)
}

/// One end of a link as netlink wants it.
pub(crate) fn end<'a>(
    plan: &'a Plan,
    spaces: &'a Spaces,
    link: usize,
    side: usize,
) -> Result<EndSpec<'a>> {
    let mtu = Some(plan.links[link].mtu);
    match &plan.links[link].ends[side] {
        PlannedEnd::Node { node, interface } => {
            let planned = &plan.nodes[*node].interfaces[*interface];
            Ok(EndSpec {
                netns: Some(spaces.node(*node)?),
                index: Some(planned.index),
                mac: Some(planned.mac),
                mtu,
                ..EndSpec::new(&planned.name)
            })
        }
        PlannedEnd::Port { name, mac, .. } => Ok(EndSpec {
            netns: Some(spaces.core.as_fd()),
            index: Some(plan.links[link].port_index(side)),
            mac: Some(*mac),
            mtu,
            ..EndSpec::new(name)
        }),
        PlannedEnd::Host { .. } | PlannedEnd::Internet { .. } => {
            Ok(EndSpec { mtu, ..EndSpec::new("") })
        }
    }
}

/// Attaches those ports of these links that could not be attached when they were made, and raises
/// all of them.
pub(crate) fn raise_ports(plan: &Plan, spaces: &Spaces, links: &[usize]) -> Result<()> {
    let mut batch = Batch::new();
    for &index in links {
        let link = &plan.links[index];
        let both = link.ends.iter().all(|e| matches!(e, PlannedEnd::Port { .. }));
        for (side, end) in link.ends.iter().enumerate() {
            let PlannedEnd::Port { switch, .. } = end else { continue };
            let form = spaces.forms.get(plan, link);
            if form.seat(link, side) == Seat::Port && (both || form != LinkForm::Pair) {
                let port = Change::of(link.port_index(side)).up();
                let port = match bridge(plan, *switch) {
                    Some(bridge) => port.enslave(bridge),
                    None => port,
                };
                batch.push(format!("link {:?}", link.name), &port);
            }
        }
    }
    if batch.is_empty() {
        return Ok(());
    }
    inside(spaces.core.as_fd(), "core namespace", |socket| {
        run(socket, &mut batch, "core namespace", "attach ports")
    })
}

/// What of a node is to be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A new node: everything.
    All,
    /// A living node some of whose links were made anew: those, and all its routes.
    Links,
}

/// Raises interfaces and gives addresses and routes, node by node, on one thread.
///
/// With [`Scope::Links`] only interfaces that are ends of `links` are touched.
pub(crate) fn configure(
    plan: &Plan,
    spaces: &Spaces,
    work: &[(usize, Scope)],
    links: &[usize],
) -> Result<()> {
    let interfaces: usize = plan.nodes.iter().map(|n| n.interfaces.len()).sum();
    let fixed_neighbours = interfaces > LEARNT_NEIGHBOURS;
    on_a_thread(|| {
        let mut batch = Batch::new();
        for &(index, scope) in work {
            let node = &plan.nodes[index];
            let object = format!("node {:?}", node.name);
            namespace::enter_network(spaces.node(index)?)
                .map_err(Error::system(&object, "configure"))?;
            let mut socket = open(&object)?;
            batch.clear();
            push_node(&mut batch, node, scope, links);
            if fixed_neighbours {
                push_neighbours(&mut batch, plan, index, scope, links);
            }
            set_late_sysctls(node, &object)?;
            run(&mut socket, &mut batch, &object, "configure")?;
        }
        Ok(())
    })
}

/// Whether a sysctl is set when the node's interfaces are there: those of single interfaces, and
/// forwarding, whose writing spins while any other namespace's network is being changed, so that it
/// is left to the one thread that configures all. What it resets comes after it.
pub(crate) fn is_late(path: &str) -> bool {
    is_of_an_interface(path)
        || path.ends_with("forwarding")
        || path.ends_with("/ip_forward")
        || path == "net/ipv4/conf/all/accept_redirects"
}

/// Sets late sysctls, by a thread in the node's network namespace: /proc/sys/net shows that of the
/// thread that looks.
fn set_late_sysctls(node: &PlannedNode, object: &str) -> Result<()> {
    for (path, value) in node.sysctls.iter().filter(|(path, _)| is_late(path)) {
        let of = || format!("{object}: {}", sysctl::full(path));
        sysctl::set(path, value).map_err(|e| Error::state(of(), "set sysctl")(e))?;
    }
    Ok(())
}

/// Gives a living node its neighbours across these links anew, where they are fixed ones.
pub(crate) fn give_neighbours(
    plan: &Plan,
    space: BorrowedFd<'_>,
    node: usize,
    links: &[usize],
) -> Result<()> {
    let interfaces: usize = plan.nodes.iter().map(|n| n.interfaces.len()).sum();
    if interfaces <= LEARNT_NEIGHBOURS {
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

/// The neighbours of a node across its node-node links, as permanent entries.
fn push_neighbours(batch: &mut Batch, plan: &Plan, node: usize, scope: Scope, links: &[usize]) {
    for (i, interface) in plan.nodes[node].interfaces.iter().enumerate() {
        if scope == Scope::Links && !links.contains(&interface.link) {
            continue;
        }
        let link = &plan.links[interface.link];
        let other = link.ends.iter().find_map(|end| match end {
            PlannedEnd::Node { node: n, interface: j } if (*n, *j) != (node, i) => Some((*n, *j)),
            _ => None,
        });
        let Some((n, j)) = other else { continue };
        let peer = &plan.nodes[n].interfaces[j];
        let object: Arc<str> = format!("link {:?}", link.name).into();
        for address in &peer.addresses {
            let neighbour =
                Neighbour { link: interface.index, address: address.addr(), mac: peer.mac };
            batch.push(Arc::clone(&object), &neighbour);
        }
    }
}

fn push_node(batch: &mut Batch, node: &PlannedNode, scope: Scope, links: &[usize]) {
    let name: Arc<str> = format!("node {:?}", node.name).into();
    if scope == Scope::All {
        batch.push(Arc::clone(&name), &Change::of(LOOPBACK).up());
    }
    for interface in &node.interfaces {
        if scope == Scope::Links && !links.contains(&interface.link) {
            continue;
        }
        let object: Arc<str> = format!("interface \"{}:{}\"", node.name, interface.name).into();
        batch.push(Arc::clone(&object), &Change::of(interface.index).up());
        for address in &interface.addresses {
            batch.push(Arc::clone(&object), &Address::new(interface.index, *address));
        }
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
    if let Some(way) = Way::of(node, route, |_| true) {
        way.push(batch, name, replace);
    }
}

/// A route as it is known in a node: where it leads, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Way {
    pub(crate) to: ipnet::IpNet,
    /// Next routers, none on the link itself, and indexes of interfaces; at least one.
    hops: Vec<(Option<IpAddr>, u32)>,
}

impl Way {
    /// A planned route of a node, without the next hops whose interface, by place, is not there; `None`
    /// where none is left.
    pub(crate) fn of(
        node: &PlannedNode,
        route: &planned::Route,
        there: impl Fn(usize) -> bool,
    ) -> Option<Way> {
        let first = (route.via, route.interface);
        let also = route.also.iter().map(|hop| (Some(hop.via), hop.interface));
        let all = std::iter::once(first).chain(also).filter(|(_, interface)| there(*interface));
        let index = |interface: usize| node.interfaces.get(interface).map(|i| i.index);
        let hops: Vec<_> = all.filter_map(|(via, i)| Some((via, index(i)?))).collect();
        (!hops.is_empty()).then_some(Way { to: route.to, hops })
    }

    /// Adds the request for it.
    pub(crate) fn push(&self, batch: &mut Batch, name: &Arc<str>, replace: bool) {
        if let [(via, index)] = self.hops.as_slice() {
            let request = Route { replace, ..Route::new(self.to, *via, *index) };
            return batch.push(Arc::clone(name), &request);
        }
        let through = self.hops.iter().filter_map(|(via, index)| Some(((*via)?, *index)));
        let hops: Vec<(IpAddr, u32)> = through.collect();
        batch.push(Arc::clone(name), &Multipath { to: self.to, hops: &hops, replace });
    }

    /// Adds the request to take it away; that it is gone already is success.
    pub(crate) fn push_removal(&self, batch: &mut Batch, name: &Arc<str>) {
        let (via, link) = match self.hops.as_slice() {
            [(via, index)] => (*via, Some(*index)),
            _ => (None, None),
        };
        let request = DeleteRoute { to: self.to, via, link, metric: None };
        batch.push_tolerant(Arc::clone(name), &request);
    }
}

/// Removes what is left of these links in the living: ends whose other end is gone or going.
///
/// Of links that are `lost` there may be something else at the place of an interface, which stays.
pub(crate) fn remove_links(
    plan: &Plan,
    spaces: &Spaces,
    links: &[usize],
    lost: impl Fn(&PlannedLink) -> bool + Sync,
) -> Result<()> {
    on_a_thread(|| {
        for &index in links {
            let link = &plan.links[index];
            let object = format!("link {:?}", link.name);
            let form = spaces.forms.get(plan, link);
            for side in [0, 1] {
                if form == LinkForm::Wired {
                    // The kernel may not have come to it yet where the node's end is gone.
                    remove(spaces.core.as_fd(), link.hidden_index(side), None, &object)?;
                }
                match form.seat(link, side) {
                    Seat::Node { node, interface } => {
                        let Ok(ns) = spaces.node(node) else { continue };
                        let planned = &plan.nodes[node].interfaces[interface];
                        let mac = lost(link).then_some(planned.mac);
                        remove(ns, planned.index, mac, &object)?;
                    }
                    Seat::Port => {
                        remove(spaces.core.as_fd(), link.port_index(side), None, &object)?;
                    }
                    Seat::Plug | Seat::Host => {}
                }
            }
        }
        Ok(())
    })
}

/// Removes an interface, where `mac` is given only if it has that; one that is gone is no failure. The
/// calling thread stays in the namespace.
fn remove(ns: BorrowedFd<'_>, index: u32, mac: Option<[u8; 6]>, object: &str) -> Result<()> {
    namespace::enter_network(ns).map_err(Error::system(object, "remove"))?;
    let mut socket = open(object)?;
    if mac.is_some() {
        let links = socket.links().map_err(Error::network(object, "list interfaces"))?;
        if !links.iter().any(|l| l.index == index && l.mac == mac) {
            return Ok(());
        }
    }
    let mut batch = Batch::new();
    batch.push_tolerant(object, &DeleteLink::new(index));
    run(&mut socket, &mut batch, object, "remove")
}
