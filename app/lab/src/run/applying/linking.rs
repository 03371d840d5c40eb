//! Links that come, go and change.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use ipnet::IpNet;
use netloom_model::merging::Merged;
use netloom_model::plan::form::{LinkForm, Seat};
use netloom_model::plan::{LinkId, LinkSlot, NodeId, PlannedLink, Slot};
use netloom_netlink::{Address, Batch, Change, DeleteAddress};

use super::changing::Was;
use super::{is_there, places};
use crate::build::configure::{self, Scope};
use crate::build::keeper::{Gone, Ground};
use crate::build::links::{self, New};
use crate::run::link_changes::{delete_ends, nodes_of};
use crate::run::running::{Running, Work};
use crate::stage::absent::is_away;
use crate::stage::spaces::LOOPBACK;
use crate::stage::{attach, spaces};
use crate::store::state::State;
use crate::{Error, Result};

impl Running {
    /// Makes new links between living nodes and switches. Routes follow later.
    pub(super) fn lay_added(&self, work: &Work, merged: &Merged) -> Result<()> {
        let state = self.state();
        let lives = |at: &LinkSlot| {
            nodes_of(&state.plan.links[*at]).all(|node| {
                let node = &state.plan.nodes[node];
                work.inits.get(&node.id).is_some_and(|init| init.lives())
            })
        };
        // A link of a node whose init has ended is made with it.
        let added: Vec<LinkSlot> =
            places(&state.plan, &merged.added.links).into_iter().filter(lives).collect();
        if added.is_empty() {
            return Ok(());
        }
        let plan = &state.plan;
        let spaces = self.spaces_of(work, &state, &added)?;
        links::make_links(plan, &spaces, &added, false, New::All)?;
        let ground = Ground { folder: &self.folder, state: &state, spaces: &spaces, links: &added };
        for keeper in self.kept.keepers.all() {
            keeper.lay(&ground)?;
        }
        links::raise_ports(plan, &spaces, &added)?;
        let nodes: BTreeSet<Slot> =
            added.iter().flat_map(|at| nodes_of(&plan.links[*at])).collect();
        let nodes: Vec<(Slot, Scope)> =
            nodes.into_iter().map(|node| (node, Scope::LinksAlone)).collect();
        configure::configure(plan, &spaces, &nodes, &added)?;
        drop(spaces);
        // They count as unfinished for now: a process that adopts the lab meanwhile recreates them.
        self.fit(&state, &work.inits, &[], &added)
    }

    /// Gives living nodes the new addresses and the new MTU of links that change; old addresses stay for now.
    pub(super) fn raise_changed(&self, work: &Work, merged: &Merged, was: &Was<'_>) -> Result<()> {
        let state = self.state();
        for at in places(&state.plan, &merged.changed.links) {
            let link = &state.plan.links[at];
            if was.links(link.id).iter().any(|(_, old)| old.mtu != link.mtu) {
                self.set_mtu(work, &state, link)?;
            }
            for place in self.ends_of(&state, link) {
                let own = &state.plan.nodes[place.slot].interfaces[place.interface];
                place.run(work, |batch, object| {
                    for address in &own.addresses {
                        let new = Address { replace: true, ..Address::new(own.index, *address) };
                        batch.push(object, &new);
                    }
                })?;
            }
        }
        Ok(())
    }

    /// Gives living nodes the new addresses of their loopback interface, or takes away the old ones.
    pub(super) fn change_loopbacks(
        &self,
        work: &Work,
        merged: &Merged,
        was: &Was<'_>,
        new: bool,
    ) -> Result<()> {
        let state = self.state();
        for id in &merged.changed.nodes {
            let Some(slot) = state.plan.slot_of(*id) else { continue };
            let node = &state.plan.nodes[slot];
            let old = was.nodes(*id);
            if node.kind.as_vm().is_some() || old.iter().all(|old| old.loopback == node.loopback) {
                continue;
            }
            let object = format!("node {:?}", node.name);
            let place = Place { id: *id, slot, interface: 0, object };
            if new {
                place.run(work, |batch, object| {
                    for address in &node.loopback {
                        let new = Address { replace: true, ..Address::new(LOOPBACK, *address) };
                        batch.push(object, &new);
                    }
                })?;
                continue;
            }
            let gone = old.iter().flat_map(|old| &old.loopback).copied();
            let gone: Vec<IpNet> = gone.filter(|a| !node.loopback.contains(a)).collect();
            if !gone.is_empty() {
                place.remove(work, LOOPBACK, &gone)?;
            }
        }
        Ok(())
    }

    fn set_mtu(&self, work: &Work, state: &State, link: &PlannedLink) -> Result<()> {
        for place in self.ends_of(state, link) {
            let index = state.plan.nodes[place.slot].interfaces[place.interface].index;
            place.run(work, |batch, object| {
                batch.push(object, &Change::of(index).mtu(link.mtu));
            })?;
        }
        let form = state.form(link);
        let inner = matches!(form, LinkForm::Wired | LinkForm::Joined);
        let ports = (0..2).filter(|side| state.seat(link, *side) == Seat::Port);
        let mut core: Vec<u32> = ports.map(|side| link.port_index(side)).collect();
        core.extend((0..2).filter(|_| inner).map(|side| links::inner_end(form, link, side).1));
        if core.is_empty() {
            return Ok(());
        }
        let object = format!("link {:?}", link.name);
        let space = self.core_space(work)?;
        spaces::inside(space.as_fd(), &object, |socket| {
            let mut batch = Batch::new();
            core.iter().for_each(|i| batch.push(object.as_str(), &Change::of(*i).mtu(link.mtu)));
            spaces::run(socket, &mut batch, &object, "set its MTU")
        })
    }

    /// Ends of a link at living nodes' interfaces that are at home.
    fn ends_of(&self, state: &State, link: &PlannedLink) -> Vec<Place> {
        let object = format!("link {:?}", link.name);
        let place = |side: usize| match state.seat(link, side) {
            Seat::Node { node, interface } if !is_away(state, node, interface) => {
                let id = state.plan.nodes[node].id;
                Some(Place { id, slot: node, interface, object: object.clone() })
            }
            _ => None,
        };
        [0, 1].into_iter().filter_map(place).collect()
    }

    /// Changes what links do to frames, and takes their old addresses away.
    pub(super) fn change_links(
        &self,
        work: &mut Work,
        merged: &Merged,
        was: &Was<'_>,
    ) -> Result<()> {
        for at in places(&self.state().plan, &merged.changed.links) {
            self.make_room_for_wire(work, at)?;
        }
        let state = self.state();
        let changed = places(&state.plan, &merged.changed.links);
        let touched = |at: &LinkSlot| {
            let link = &state.plan.links[*at];
            let differs =
                |old: &PlannedLink| old.impairments != link.impairments || old.mtu != link.mtu;
            was.links(link.id).iter().any(|(_, old)| differs(old))
        };
        let wires: Vec<LinkSlot> = changed.iter().copied().filter(touched).collect();
        let context = self.context(&state, &work.inits);
        self.kept.keepers.wires.fit_links(&context, &wires)?;
        for at in changed {
            let link = &state.plan.links[at];
            for place in self.ends_of(&state, link) {
                let own = &state.plan.nodes[place.slot].interfaces[place.interface];
                let gone = was.addresses(place.id, own.index, link.id);
                let gone: Vec<IpNet> =
                    gone.into_iter().filter(|old| !own.addresses.contains(old)).collect();
                if gone.is_empty() {
                    continue;
                }
                place.remove(work, own.index, &gone)?;
                let node = &state.plan.nodes[place.slot];
                if let Some(init) = work.inits.get(&node.id).filter(|init| init.lives()) {
                    let space = init.network(&node.name)?;
                    configure::give_neighbours(&state.plan, space.as_fd(), place.slot, &[at])?;
                }
            }
            self.tell_neighbours(work, &state, at)?;
        }
        Ok(())
    }

    /// Sets the permanent neighbours of both ends of a link again, whose addresses may have changed.
    fn tell_neighbours(&self, work: &Work, state: &State, at: LinkSlot) -> Result<()> {
        for slot in nodes_of(&state.plan.links[at]) {
            let node = &state.plan.nodes[slot];
            let Some(init) = work.inits.get(&node.id).filter(|init| init.lives()) else { continue };
            let space = init.network(&node.name)?;
            configure::give_neighbours(&state.plan, space.as_fd(), slot, &[at])?;
        }
        Ok(())
    }

    /// Removes links, complete or not; routes follow what is left when a plan says so.
    pub(crate) fn drop_links(&self, work: &mut Work, ids: &BTreeSet<LinkId>) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        self.change(work, |state| {
            // Noted first: if the process is killed on the way, the next one knows that they are in
            // pieces.
            state.unfinished.extend(ids);
            Ok(())
        })?;
        let state = self.state();
        let gone = places(&state.plan, ids);
        self.recall(work, &gone)?;
        let nodes: BTreeSet<NodeId> = gone
            .iter()
            .flat_map(|at| nodes_of(&state.plan.links[*at]))
            .map(|node| state.plan.nodes[node].id)
            .collect();
        for node in &nodes {
            self.lift_guards(work, *node)?;
        }
        let links: Vec<&PlannedLink> = gone.iter().map(|at| &state.plan.links[*at]).collect();
        self.kept.forget(&state, Gone { nodes: &[], links: &links });
        self.kept.keepers.far_links.remove(&state, &work.inits, &links)?;
        for link in links {
            delete_ends(&work.inits, &state, link)?;
        }
        self.change(work, |state| {
            state.plan.forget_links(ids);
            for id in ids {
                state.forms.forget(*id);
                state.unfinished.remove(id);
                state.down.remove(id);
                state.lost.remove(id);
            }
            Ok(())
        })?;
        for node in nodes.iter().filter(|id| is_there(&self.state(), **id)) {
            self.raise_guards(work, *node)?;
        }
        Ok(())
    }

    /// Makes routes and settings of living nodes those of the current plan.
    pub(super) fn follow(&self, work: &Work, merged: &Merged, was: &Was<'_>) -> Result<()> {
        self.set_sysctls(work, merged, was)?;
        for plan in was.plans() {
            self.follow_routes(work, plan)?;
        }
        Ok(())
    }
}

/// An end of a link in a node.
struct Place {
    id: NodeId,
    slot: Slot,
    interface: usize,
    object: String,
}

impl Place {
    /// Runs requests in the node, if it lives.
    fn run(&self, work: &Work, fill: impl FnOnce(&mut Batch, &str) + Send) -> Result<()> {
        let object = &self.object;
        let done = attach::run_in_living(&work.inits, self.id, object, || {
            let mut batch = Batch::new();
            fill(&mut batch, object);
            if batch.is_empty() {
                return Ok(());
            }
            spaces::run(&mut spaces::open(object)?, &mut batch, object, "change")
        })?;
        // Nothing is done in a node that has ended: it is recreated by the new plan.
        let _ = done;
        Ok(())
    }

    /// Removes addresses. Those of the same prefix that stay would go with a first one, unless they are promoted.
    fn remove(&self, work: &Work, index: u32, gone: &[IpNet]) -> Result<()> {
        let object = &self.object;
        let done = attach::run_in_living(&work.inits, self.id, object, || {
            let mut socket = spaces::open(object)?;
            // By the name that it has now: somebody may have given it another one.
            let links = socket.links().map_err(Error::of(object, "look up"))?;
            let Some(found) = links.into_iter().find(|link| link.index == index) else {
                return Ok(());
            };
            let promote = format!("/proc/sys/net/ipv4/conf/{}/promote_secondaries", found.name);
            let before = std::fs::read_to_string(&promote).unwrap_or_default();
            std::fs::write(&promote, "1").map_err(Error::at(&promote, "set sysctl"))?;
            let mut batch = Batch::new();
            for address in gone {
                batch.push_tolerant(
                    object.as_str(),
                    &DeleteAddress { link: index, address: *address },
                );
            }
            let removed = spaces::run(&mut socket, &mut batch, object, "remove an address");
            std::fs::write(&promote, before.trim()).map_err(Error::at(&promote, "set sysctl"))?;
            removed
        })?;
        // Nothing is done in a node that has ended: it is recreated by the new plan.
        let _ = done;
        Ok(())
    }
}
