//! Links of a running lab: made and removed.
//!
//! The lab's state has the new plan before anything is made. While a link is being made or removed, the state lists
//! it as unfinished: the next lab process removes such links if this one is killed. Routes of all nodes and their
//! hosts file follow the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;

use netloom_impair::Impairments;
use netloom_model::lookup::{find_link, slot};
use netloom_model::plan::Slot;
use netloom_model::plan::form::{LinkForm, Seat};
use netloom_model::plan::{self, LinkSlot, NewEnd, Plan, PlannedEnd, PlannedLink};
use netloom_model::plan::{LinkId, NodeId};
use netloom_model::{impairment, link_addresses, link_mac, link_mtu};
use netloom_netlink::{Batch, DeleteLink, Socket};

use crate::build::configure::Scope;
use crate::build::keeper::{Gone, Ground};
use crate::build::links::New;
use crate::build::{configure, links};
use crate::keep::wires::expressions;
use crate::run::running::{Running, Work};
use crate::stage::absent::{is_away, refuse_lost, without_absent};
use crate::stage::allowed::allowed;
use crate::stage::inits::Inits;
use crate::stage::spaces::Spaces;
use crate::stage::{attach, spaces};
use crate::store::state::State;
use crate::view::{Changed, NewLink};
use crate::{Error, Result, Subject};

impl Running {
    /// See [`CreateLink`](crate::calls::CreateLink).
    pub(crate) fn make_link(&self, request: &NewLink) -> Result<Changed> {
        let mut work = self.work();
        // The lab is being taken down: nothing new may come.
        if work.spawner.is_none() {
            return Err(Error::NoLab(self.folder.name().to_owned()));
        }
        let old = self.state();
        let object = Subject::of("link", format!("{}--{}", request.a, request.b));
        let invalid = |reason: String| Error::Invalid { object: object.clone(), reason };
        let new = self.asked_link(&work, &old.plan, request)?;
        // A copy: what cannot be planned must not be in the state.
        let mut next = State::clone(&old);
        let at = next.plan.add_link(new).map_err(invalid)?;
        let (id, name) = (next.plan.links[at].id, next.plan.links[at].name.clone());
        let form = LinkForm::of(&next.plan, &next.plan.links[at], allowed(next.user, &next.plan));
        next.forms.set(id, form);
        // The next lab process removes it, if this one is killed before it is whole.
        next.unfinished.insert(id);
        self.kept.keepers.doors.check(&self.folder, &old, &next.plan, false)?;
        self.change(&mut work, |state| {
            *state = next;
            Ok(())
        })?;
        if let Err(e) = self.lay(&mut work, &old.plan, at) {
            // Remove what was made; the caller gets the error.
            let _ = self.take_away(&mut work, id);
            return Err(e);
        }
        self.change(&mut work, |state| {
            state.unfinished.remove(&id);
            Ok(())
        })?;
        Ok(Changed { name, notes: vec![] })
    }

    /// The requested link, checked against the lab.
    fn asked_link(&self, work: &Work, plan: &Plan, request: &NewLink) -> Result<plan::NewLink> {
        let object = Subject::of("link", format!("{}--{}", request.a, request.b));
        let invalid = |reason: String| Error::Invalid { object: object.clone(), reason };
        let ends = [&request.a, &request.b];
        let mut new = plan::NewLink {
            name: request.name.clone(),
            ends: [self.new_end(work, plan, ends[0])?, self.new_end(work, plan, ends[1])?],
            addresses: [vec![], vec![]],
            bare: [false; 2],
            macs: [None; 2],
            mtu: None,
            impairments: [Impairments::default(), Impairments::default()],
        };
        for (key, value) in &request.settings {
            if key == "mtu" {
                new.mtu = Some(link_mtu(value).map_err(&invalid)?);
                continue;
            }
            for of in &mut new.impairments {
                impairment::set(of, key, value).map_err(&invalid)?;
            }
        }
        impairment::check(&new.impairments[0]).map_err(&invalid)?;
        expressions::check(plan, new.name.as_deref().unwrap_or("new"), &new.impairments[0])?;
        for asked in by_end(ends, &request.addresses).map_err(&invalid)? {
            let AskedAddresses { side, end, texts } = asked;
            let (addresses, bare) = link_addresses(end, &texts).map_err(&invalid)?;
            if !matches!(new.ends[side], NewEnd::Node { .. }) && !bare {
                let addresses = texts.join(", ");
                return Err(invalid(format!(
                    "address {addresses}: {end:?} is not a node and has no addresses"
                )));
            }
            (new.addresses[side], new.bare[side]) = (addresses, bare);
        }
        for asked in by_end(ends, &request.macs).map_err(&invalid)? {
            let AskedAddresses { side, end, texts } = asked;
            if !matches!(new.ends[side], NewEnd::Node { .. }) {
                return Err(invalid(format!("mac {}: {end:?} is not a node", texts.join(", "))));
            }
            new.macs[side] = Some(link_mac(end, &texts).map_err(&invalid)?);
        }
        Ok(new)
    }

    /// An end as the user writes it: `NODE`, `NODE:IFACE`, `SWITCH` or `nowhere`.
    fn new_end(&self, work: &Work, plan: &Plan, text: &str) -> Result<NewEnd> {
        let (name, iface) = match text.split_once(':') {
            Some((name, iface)) => (name, Some(iface.to_owned())),
            None => (text, None),
        };
        if name == "host" || text == "internet" {
            let reason = "doors are made with their lab: write it into the lab file".to_owned();
            return Err(Error::Invalid { object: Subject::of("end", text), reason });
        }
        if text == "nowhere" {
            return Ok(NewEnd::Nowhere);
        }
        if let Some(switch) = plan.switch(name) {
            return match iface {
                None => Ok(NewEnd::Switch(switch)),
                Some(_) => Err(Error::Invalid {
                    object: Subject::of("end", text),
                    reason: "a switch has no interfaces to name".into(),
                }),
            };
        }
        let node = slot(plan, name)?;
        let space = self.living(work, &plan.nodes[node])?.network(name)?;
        let object = format!("node {name:?}");
        // Interfaces made by programs in the node take names and indexes, too.
        let there = spaces::inside(space.as_fd(), &object, |socket| {
            let all = socket.links().map_err(Error::of(&object, "list its interfaces"))?;
            Ok(all.into_iter().map(|link| (link.name, link.index)).collect())
        })?;
        Ok(NewEnd::Node { node, iface, there })
    }

    /// Makes a link of the state, and applies its consequences.
    fn lay(&self, work: &mut Work, old: &Plan, at: LinkSlot) -> Result<()> {
        self.lay_one(work, &self.state(), at)?;
        self.follow_plan(work, old)
    }

    /// Makes a link of a state; removes its remains first.
    pub(crate) fn lay_again(&self, work: &Work, state: &State, at: LinkSlot) -> Result<()> {
        let spaces = self.spaces_of(work, state, &[at])?;
        links::remove_links(&state.plan, &spaces, &[at], |_| true, New::All)?;
        drop(spaces);
        self.lay_one(work, state, at)
    }

    fn lay_one(&self, work: &Work, state: &State, at: LinkSlot) -> Result<()> {
        // Routes by interfaces that are elsewhere are left out.
        let plan = without_absent(state);
        let spaces = self.spaces_of(work, state, &[at])?;
        links::make_links(&plan, &spaces, &[at], false, New::All)?;
        let ground = Ground { folder: &self.folder, state, spaces: &spaces, links: &[at] };
        for keeper in self.kept.keepers.all() {
            keeper.lay(&ground)?;
        }
        links::raise_ports(&plan, &spaces, &[at])?;
        let nodes: Vec<(Slot, Scope)> =
            nodes_of(&plan.links[at]).map(|node| (node, Scope::Links)).collect();
        configure::configure(&plan, &spaces, &nodes, &[at])?;
        drop(spaces);
        self.fit(state, &work.inits, &[], &[at])
    }

    /// Namespaces of the nodes at the ends of these links, and the core's.
    pub(crate) fn spaces_of<'s>(
        &self,
        work: &Work,
        state: &'s State,
        links: &[LinkSlot],
    ) -> Result<Spaces<'s>> {
        let plan = &state.plan;
        let mut nodes = BTreeMap::new();
        for node in links.iter().flat_map(|link| nodes_of(&plan.links[*link])) {
            let planned = &plan.nodes[node];
            nodes.insert(node, self.living(work, planned)?.network(&planned.name)?);
        }
        let core = work.inits.get(&NodeId::CORE).filter(|init| init.lives());
        let core = core.ok_or_else(|| Error::DeadNode("(core)".into()))?.network("(core)")?;
        Ok(Spaces::of(nodes, core, &state.forms))
    }

    /// See [`DeleteLink`](crate::calls::DeleteLink).
    pub(crate) fn remove_link(&self, asked: &str) -> Result<Changed> {
        let mut work = self.work();
        let state = self.state();
        let (at, _) = find_link(&state.plan, asked)?;
        let link = &state.plan.links[at];
        let object = Subject::of("link", &link.name);
        // Tried on a copy: a refusal must change nothing.
        let mut after = state.plan.clone();
        after
            .remove_link(at)
            .map_err(|reason| Error::Invalid { object: object.clone(), reason })?;
        refuse_lost(&state, link)?;
        if let Some(moved) = moved_end(&state, link) {
            let reason = format!("its interface {moved:?} is in another node; move it home first");
            return Err(Error::Busy { object, reason });
        }
        self.take_away(&mut work, link.id)?;
        Ok(Changed { name: link.name.clone(), notes: vec![] })
    }

    /// Removes links that were only partly made or removed when the lab process was killed.
    pub(crate) fn end_unfinished(&self, work: &mut Work) {
        let ids: BTreeSet<LinkId> = self.state().unfinished.clone();
        if self.folder.was_cut_off() {
            // Routes are decided by the plan that is being applied, and followed when that goes on.
            if let Err(e) = self.drop_links(work, &ids) {
                netloom_sys::journal::line(format_args!("netloom: {}", netloom_sys::describe(&e)));
            }
            return;
        }
        for id in ids {
            if let Err(e) = self.take_away(work, id) {
                netloom_sys::journal::line(format_args!("netloom: {}", netloom_sys::describe(&e)));
            }
        }
    }

    /// Removes a link by its id, complete or not.
    fn take_away(&self, work: &mut Work, id: LinkId) -> Result<()> {
        self.change(work, |state| {
            // Before the first interface goes: a killed process leaves a record of the rest.
            state.unfinished.insert(id);
            Ok(())
        })?;
        let state = self.state();
        let Some(at) = state.plan.link_slot_of(id) else {
            return self.forget_link(work, id);
        };
        let link = &state.plan.links[at];
        let nodes: Vec<NodeId> = nodes_of(link).map(|node| state.plan.nodes[node].id).collect();
        for node in &nodes {
            self.lift_guards(work, *node)?;
        }
        // Keepers let go before the interfaces do: their programs are at them.
        self.kept.forget(&state, Gone { nodes: &[], links: &[link] });
        delete_ends(&work.inits, &state, link)?;
        // Only now: the steps before still need its ends.
        self.change(work, |state| {
            let object = Subject::of("link", &state.plan.links[at].name);
            let removed = state.plan.remove_link(at);
            removed.map_err(|reason| Error::Invalid { object, reason })
        })?;
        for node in &nodes {
            self.raise_guards(work, *node)?;
        }
        self.follow_plan(work, &state.plan)?;
        self.forget_link(work, id)
    }

    fn forget_link(&self, work: &mut Work, id: LinkId) -> Result<()> {
        self.change(work, |state| {
            state.forms.forget(id);
            state.unfinished.remove(&id);
            state.down.remove(&id);
            Ok(())
        })
    }
}

/// The requested addresses of an end of a link, as text.
struct AskedAddresses<'r> {
    side: usize,
    end: &'r str,
    texts: Vec<&'r str>,
}

/// The requested addresses, by side.
fn by_end<'r>(
    ends: [&String; 2],
    asked: &'r [(String, String)],
) -> std::result::Result<Vec<AskedAddresses<'r>>, String> {
    let mut found: Vec<AskedAddresses<'_>> = Vec::new();
    for (end, address) in asked {
        let node = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
        let side = (0..2).find(|side| ends[*side] == end || node(ends[*side]) == *end);
        let side = side.ok_or_else(|| format!("{address}: {end:?} is not an end of the link"))?;
        match found.iter_mut().find(|of| of.side == side) {
            Some(of) => of.texts.push(address),
            None => found.push(AskedAddresses { side, end, texts: vec![address] }),
        }
    }
    Ok(found)
}

/// The nodes at the ends of a link.
pub(crate) fn nodes_of(link: &PlannedLink) -> impl Iterator<Item = Slot> + '_ {
    link.ends.iter().filter_map(|end| match end {
        PlannedEnd::Node { node, .. } => Some(*node),
        _ => None,
    })
}

fn moved_end(state: &State, link: &PlannedLink) -> Option<String> {
    link.ends.iter().find_map(|end| match end {
        PlannedEnd::Node { node, interface } if is_away(state, *node, *interface) => {
            Some(state.plan.end_text(end))
        }
        _ => None,
    })
}

/// Deletes the interfaces of a link, wherever they are; missing ones are not failures.
pub(crate) fn delete_ends(inits: &Inits, state: &State, link: &PlannedLink) -> Result<()> {
    let object = format!("link {:?}", link.name);
    for side in [0, 1] {
        let (space, indexes) = match state.seat(link, side) {
            Seat::Node { node, interface } => {
                let node = &state.plan.nodes[node];
                (node.id, vec![node.interfaces[interface].index])
            }
            Seat::Port => (NodeId::CORE, state.plan.port_indexes(link, side).collect()),
            Seat::Plug | Seat::Guest { .. } | Seat::Host => continue,
        };
        attach::run_in_living(inits, space, &object, || {
            let mut socket = Socket::open().map_err(Error::of(&object, "open a netlink socket"))?;
            let mut batch = Batch::new();
            for index in indexes {
                batch.push_tolerant(object.as_str(), &DeleteLink::new(index));
            }
            spaces::run(&mut socket, &mut batch, &object, "remove")
        })?;
    }
    Ok(())
}
