//! Links and switches of a plan, by batched netlink: made, raised, removed.
//!
//! Indexes of interfaces are chosen here, not by the kernel: `lo` is 1 and a node's interfaces follow in the
//! order of the plan; in the core namespace bridges come first, ports after
//! [`FIRST_PORT`](netloom_model::plan::form::FIRST_PORT). Link pairs are made by a socket in an empty namespace,
//! because kernels before 6.14 check for name clashes there, too.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use netloom_model::Plan;
use netloom_model::plan::form::{LinkForm, Piece, Seat};
use netloom_model::plan::{LinkSlot, PlannedEnd, PlannedLink, PlannedSwitch, Slot, SwitchSlot};
use netloom_netlink::{Batch, BridgeSpec, Change, DeleteLink, EndSpec, LinkInfo, VethSpec};
use netloom_sys::namespace;

use crate::stage::spaces::{
    LINKS_AT_A_TIME, LOOPBACK, Near, Spaces, inside, on_a_thread, open, run,
};
use crate::{Error, Result};

/// Makes the bridges of these switches in the core namespace.
pub(crate) fn make_switches(plan: &Plan, core: BorrowedFd<'_>) -> Result<()> {
    make_bridges(plan, core, |_| true)
}

/// The same for some of them.
pub(crate) fn make_bridges(
    plan: &Plan,
    core: BorrowedFd<'_>,
    which: impl Fn(&PlannedSwitch) -> bool + Send + Sync,
) -> Result<()> {
    inside(core, "core namespace", |socket| {
        let mut batch = Batch::new();
        // In a new namespace it is down.
        batch.push("loopback of the core", &Change::of(LOOPBACK).up());
        for switch in plan.switches.iter().filter(|s| s.kind.is_bridge() && which(s)) {
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

/// Which namespaces are new, so that nothing of a link is in them yet.
#[derive(Clone, Copy)]
pub(crate) enum New<'a> {
    /// The link itself is new, or goes.
    All,
    /// Those of these slots, the core's among them.
    Of(&'a [Slot]),
}

impl New<'_> {
    /// Whether a veth pair of a link of form [`LinkForm::Beside`] has an end there.
    fn concerns(self, plan: &Plan, link: &PlannedLink, piece: Piece) -> bool {
        let New::Of(slots) = self else { return true };
        let is_new = |side: usize| match &link.ends[side] {
            PlannedEnd::Node { node, .. } => slots.contains(node),
            _ => false,
        };
        let plain = |side: &usize| plan.separate_at(&link.ends[*side]).is_none();
        let core = slots.contains(&plan.core_slot());
        core || match piece {
            Piece::Inner(side) => is_new(side),
            Piece::Outer(sides) => sides.iter().filter(|side| plain(side)).any(|s| is_new(*s)),
        }
    }
}

/// Makes these links, each end in its final namespace. Links with a door are left to the keeper of doors. The core's
/// namespace serves as the empty one if it is `fresh`, which spares the kernel another (0.5 ms).
pub(crate) fn make_links(
    plan: &Plan,
    spaces: &Spaces<'_>,
    links: &[LinkSlot],
    fresh: bool,
    new: New<'_>,
) -> Result<()> {
    let inside = |index: &LinkSlot| {
        let form = spaces.forms.get(plan, &plan.links[*index]);
        matches!(form, LinkForm::Wired | LinkForm::Joined | LinkForm::Beside)
    };
    let stays_empty = fresh && plan.switches.is_empty() && !links.iter().any(inside);
    let work = || -> Result<()> {
        if stays_empty {
            namespace::enter_network(spaces.core.as_fd())?;
        } else {
            // A throw-away one: it goes with this thread.
            namespace::new_network()?;
        }
        // After the namespace is entered: the socket stays with that of its opening.
        let mut socket = open("links")?;
        let mut batch = Batch::new();
        for some in links.chunks(LINKS_AT_A_TIME) {
            // Requests name namespaces by descriptors, which stay open until the kernel has read them.
            let near = spaces.near(plan, some)?;
            for &index in some {
                push_link(&mut batch, plan, &near, index, new)?;
            }
            run(&mut socket, &mut batch, "links", "make")?;
        }
        Ok(())
    };
    on_a_thread(work)
}

fn push_link(
    batch: &mut Batch,
    plan: &Plan,
    near: &Near<'_>,
    index: LinkSlot,
    new: New<'_>,
) -> Result<()> {
    let link = &plan.links[index];
    match near.forms.get(plan, link) {
        LinkForm::Pair => push_pair(batch, plan, near, index),
        LinkForm::Wired | LinkForm::Joined => push_through_core(batch, plan, near, index),
        LinkForm::Beside => push_beside(batch, plan, near, index, new),
        LinkForm::Tap | LinkForm::Guest | LinkForm::Bridged | LinkForm::Card | LinkForm::Nat => {
            Ok(())
        }
    }
}

fn push_pair(batch: &mut Batch, plan: &Plan, near: &Near<'_>, index: LinkSlot) -> Result<()> {
    let link = &plan.links[index];
    // A port comes first: only the first end can be attached to a bridge in the same request.
    let swap = !link.ends[0].is_in_core();
    let order = if swap { [1, 0] } else { [0, 1] };
    let [a, b] = [end(plan, near, index, order[0])?, end(plan, near, index, order[1])?];
    let mut spec = VethSpec::new(a, b);
    // Up at once: fewer requests, and the peer has its carrier.
    spec.a_up = true;
    if let PlannedEnd::Port { switch, .. } = &link.ends[order[0]] {
        spec.a_master = bridge(plan, *switch, (index, order[0]));
    }
    batch.push(format!("link {:?}", link.name), &spec);
    Ok(())
}

/// The inner end in the core namespace of a veth pair of a link of form [`LinkForm::Wired`] or [`LinkForm::Joined`]: its
/// name and its index.
pub(crate) fn inner_end(form: LinkForm, link: &PlannedLink, side: usize) -> (String, u32) {
    match form {
        LinkForm::Joined => (link.inner_name(side), link.inner_index(side)),
        _ => (link.hidden_name(side), link.hidden_index(side)),
    }
}

/// A link with a veth pair for each end, whose inner ends are in the core namespace.
fn push_through_core(
    batch: &mut Batch,
    plan: &Plan,
    near: &Near<'_>,
    index: LinkSlot,
) -> Result<()> {
    let link = &plan.links[index];
    // Each end has a pair of its own, so that a wire can be between them.
    for side in [0, 1] {
        let (name, inner) = inner_end(near.forms.get(plan, link), link, side);
        let inner = EndSpec {
            netns: Some(near.core),
            index: Some(inner),
            mtu: Some(link.mtu),
            ..EndSpec::new(&name)
        };
        let mut spec = VethSpec::new(inner, end(plan, near, index, side)?);
        spec.a_up = true;
        batch.push(format!("link {:?}", link.name), &spec);
    }
    Ok(())
}

/// Makes the veth pair of one end of a link whose other pair is there: like its last interface, if one is given.
pub(crate) fn make_half(
    plan: &Plan,
    spaces: &Spaces<'_>,
    index: LinkSlot,
    side: usize,
    like: Option<&LinkInfo>,
) -> Result<()> {
    let link = &plan.links[index];
    let (name, inner) = inner_end(spaces.forms.get(plan, link), link, side);
    let near = spaces.near(plan, &[index])?;
    on_a_thread(|| {
        namespace::new_network()?;
        let mut outer = end(plan, &near, index, side)?;
        if let Some(like) = like {
            // A program may have renamed it or changed its MTU meanwhile.
            (outer.name, outer.mac, outer.mtu) = (&like.name, like.mac, Some(like.mtu));
        }
        let inner = EndSpec {
            netns: Some(spaces.core.as_fd()),
            index: Some(inner),
            mtu: outer.mtu,
            ..EndSpec::new(&name)
        };
        let mut spec = VethSpec::new(inner, outer);
        spec.a_up = true;
        let mut batch = Batch::new();
        batch.push(format!("link {:?}", link.name), &spec);
        run(&mut open("links")?, &mut batch, "links", "make")
    })
}

/// A link of a router whose plane is separate: those veth pairs that have an end in a new namespace.
fn push_beside(
    batch: &mut Batch,
    plan: &Plan,
    near: &Near<'_>,
    index: LinkSlot,
    new: New<'_>,
) -> Result<()> {
    let link = &plan.links[index];
    let of_core = |name, index| EndSpec {
        netns: Some(near.core),
        index: Some(index),
        mtu: Some(link.mtu),
        ..EndSpec::new(name)
    };
    let names = [0, 1].map(|side| [link.inner_name(side), link.outer_name(side)]);
    for piece in plan.pieces(link).into_iter().filter(|p| new.concerns(plan, link, *p)) {
        let mut spec = match piece {
            Piece::Inner(side) => {
                let inner = of_core(&names[side][0], link.inner_index(side));
                VethSpec::new(inner, end(plan, near, index, side)?)
            }
            Piece::Outer(sides) => {
                let mut ends = Vec::new();
                for side in sides {
                    ends.push(match plan.separate_at(&link.ends[side]) {
                        Some(_) => of_core(&names[side][1], link.outer_index(side)),
                        None => end(plan, near, index, side)?,
                    });
                }
                // Two sides in, two ends out.
                let [a, b] = <[_; 2]>::try_from(ends).unwrap_or_else(|_| unreachable!("two sides"));
                let mut spec = VethSpec::new(a, b);
                if let PlannedEnd::Port { switch, .. } = &link.ends[sides[0]] {
                    spec.a_master = bridge(plan, *switch, (index, sides[0]));
                }
                spec
            }
        };
        spec.a_up = true;
        batch.push(format!("link {:?}", link.name), &spec);
    }
    Ok(())
}

/// Index of the bridge that a port is to belong to; `None` for a switch outside the kernel, and for a port that is
/// blocked, whose frames reach nobody.
fn bridge(plan: &Plan, switch: SwitchSlot, (link, side): (LinkSlot, usize)) -> Option<u32> {
    let bridge = plan.switch_at(switch).filter(|s| s.kind.is_bridge())?;
    (!plan.is_blocked(link, side)).then_some(bridge.index)
}

/// One end of a link for netlink.
pub(crate) fn end<'a>(
    plan: &'a Plan,
    near: &'a Near<'_>,
    link: LinkSlot,
    side: usize,
) -> Result<EndSpec<'a>> {
    let mtu = Some(plan.links[link].mtu);
    match &plan.links[link].ends[side] {
        PlannedEnd::Node { node, interface } => {
            let planned = &plan.nodes[*node].interfaces[*interface];
            Ok(EndSpec {
                netns: Some(near.node(*node)?),
                index: Some(planned.index),
                mac: Some(planned.mac),
                mtu,
                ..EndSpec::new(&planned.name)
            })
        }
        PlannedEnd::Port { name, mac, .. } | PlannedEnd::Nowhere { name, mac } => Ok(EndSpec {
            netns: Some(near.core),
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

/// Raises the ports of these links, and attaches those that could not be attached when they were made.
pub(crate) fn raise_ports(plan: &Plan, spaces: &Spaces<'_>, links: &[LinkSlot]) -> Result<()> {
    let mut batch = Batch::new();
    for &index in links {
        let link = &plan.links[index];
        if spaces.forms.get(plan, link) == LinkForm::Beside {
            raise_beside(&mut batch, plan, link);
        }
        let both = link.ends.iter().all(PlannedEnd::is_in_core);
        for (side, end) in link.ends.iter().enumerate().filter(|(_, end)| end.is_in_core()) {
            let form = spaces.forms.get(plan, link);
            // A pair with one end in the core was attached and raised when it was made.
            if form.seat(link, side) == Seat::Port && (both || form != LinkForm::Pair) {
                let port = Change::of(link.port_index(side)).up();
                let port = match end {
                    PlannedEnd::Port { switch, .. } => match bridge(plan, *switch, (index, side)) {
                        Some(bridge) => port.enslave(bridge),
                        None => port,
                    },
                    _ => port,
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

/// Raises the interfaces of planes.
fn raise_beside(batch: &mut Batch, plan: &Plan, link: &PlannedLink) {
    for side in (0..2).filter(|side| plan.separate_at(&link.ends[*side]).is_some()) {
        for index in [link.inner_index(side), link.outer_index(side)] {
            batch.push(format!("link {:?}", link.name), &Change::of(index).up());
        }
    }
}

/// Removes the remains of these links in living nodes and the core: ends without a peer.
///
/// At a `lost` link's index there may be another interface, which stays.
pub(crate) fn remove_links(
    plan: &Plan,
    spaces: &Spaces<'_>,
    links: &[LinkSlot],
    lost: impl Fn(&PlannedLink) -> bool + Sync,
    new: New<'_>,
) -> Result<()> {
    on_a_thread(|| {
        for &index in links {
            let link = &plan.links[index];
            let object = format!("link {:?}", link.name);
            let form = spaces.forms.get(plan, link);
            if form == LinkForm::Beside {
                remove_beside(plan, spaces, link, new)?;
                continue;
            }
            for side in [0, 1] {
                if matches!(form, LinkForm::Wired | LinkForm::Joined) {
                    // The kernel may not have removed it yet after the node's end.
                    let (_, inner) = inner_end(form, link, side);
                    remove(spaces.core.as_fd(), inner, None, &object)?;
                }
                match form.seat(link, side) {
                    Seat::Node { node, interface } => {
                        let Ok(ns) = spaces.open(node) else { continue };
                        let planned = &plan.nodes[node].interfaces[interface];
                        // An interface of a node that moved here may have taken the index.
                        let mac = lost(link).then_some(planned.mac);
                        remove(ns.as_fd(), planned.index, mac, &object)?;
                    }
                    Seat::Port => {
                        for index in plan.port_indexes(link, side) {
                            remove(spaces.core.as_fd(), index, None, &object)?;
                        }
                    }
                    Seat::Plug | Seat::Guest { .. } | Seat::Host => {}
                }
            }
        }
        Ok(())
    })
}

/// Removes the veth pairs of a link of a router whose plane is separate that have an end in a new namespace: their other
/// ends, which the kernel may not have removed yet.
fn remove_beside(plan: &Plan, spaces: &Spaces<'_>, link: &PlannedLink, new: New<'_>) -> Result<()> {
    let object = format!("link {:?}", link.name);
    let core = |index| remove(spaces.core.as_fd(), index, None, &object);
    for piece in plan.pieces(link).into_iter().filter(|p| new.concerns(plan, link, *p)) {
        match piece {
            Piece::Inner(side) => core(link.inner_index(side))?,
            Piece::Outer(sides) => {
                for side in sides {
                    match &link.ends[side] {
                        PlannedEnd::Node { .. } => core(link.outer_index(side))?,
                        _ => core(link.port_index(side))?,
                    }
                }
            }
        }
        // What a lost core leaves in a living node.
        for end in &link.ends {
            let PlannedEnd::Node { node, interface } = end else { continue };
            let ends_there = match piece {
                Piece::Inner(side) => &link.ends[side] == end,
                Piece::Outer(_) => plan.separate_at(end).is_none(),
            };
            if !ends_there {
                continue;
            }
            let Ok(ns) = spaces.open(*node) else { continue };
            let planned = &plan.nodes[*node].interfaces[*interface];
            remove(ns.as_fd(), planned.index, Some(planned.mac), &object)?;
        }
    }
    Ok(())
}

/// Removes an interface, if `mac` is given only one with that address; a missing one is not a failure. The
/// calling thread stays in the namespace.
fn remove(ns: BorrowedFd<'_>, index: u32, mac: Option<[u8; 6]>, object: &str) -> Result<()> {
    namespace::enter_network(ns).map_err(Error::of(object, "remove"))?;
    let mut socket = open(object)?;
    if mac.is_some() {
        let links = socket.links().map_err(Error::of(object, "list interfaces"))?;
        if !links.iter().any(|l| l.index == index && l.mac == mac) {
            return Ok(());
        }
    }
    let mut batch = Batch::new();
    batch.push_tolerant(object, &DeleteLink::new(index));
    run(&mut socket, &mut batch, object, "remove")
}
