//! Returns moved interfaces home: when the node they are in is deleted or killed, and when their
//! lab is taken down.
//!
//! An interface that cannot come home is *lost*: it is removed with the node that it was in, the lab's state records
//! its link and the reason, and `up` of the same file recreates the link. The kernel moves a card of a killed node
//! to the host, maybe under another name: it is found there by its hardware address.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};

use netloom_model::plan::{LinkId, LinkSlot, NodeId};
use netloom_netlink::{Batch, DeleteLink};
use netloom_sys::{describe, namespace};

use crate::build::carrying::{found_moved, planned_link, return_all};
use crate::build::keeper::Gone;
use crate::run::running::{Running, Work};
use crate::stage::inits::Init;
use crate::stage::spaces::{inside, run};
use crate::store::moved::{Home, Moved};
use crate::store::state::State;
use crate::{Error, Result};

impl Running {
    /// Returns as many interfaces of the host as possible: the lab is about to be taken down.
    pub(crate) fn return_everything(&self, work: &mut Work) {
        let state = self.state();
        // Interfaces of nodes end with the lab.
        let hosts: Vec<Moved> =
            state.moved.iter().filter(|m| m.home == Home::Host).cloned().collect();
        for (_, failure) in return_all(&state, &work.inits, &self.kept_spaces(), &hosts) {
            netloom_sys::journal::line(format_args!("netloom: {}", describe(&failure)));
        }
    }

    /// Returns every interface that is in one of these nodes or belongs to one.
    ///
    /// # Errors
    /// The first that cannot come home; it is recorded as lost.
    pub(crate) fn bring_home(&self, work: &mut Work, nodes: &[NodeId]) -> Result<()> {
        let state = self.state();
        let touched = |m: &&Moved| {
            let home = matches!(m.home, Home::Node { node, .. } if nodes.contains(&node));
            home || nodes.contains(&m.node)
        };
        let moved: Vec<Moved> = state.moved.iter().filter(touched).cloned().collect();
        if moved.is_empty() {
            return Ok(());
        }
        // An interface whose home stays gets its planned configuration back.
        let homes = moved.iter().filter_map(|m| match m.home {
            Home::Node { node, index } if !nodes.contains(&node) => Some((node, index)),
            _ => None,
        });
        let homes: Vec<(NodeId, u32)> = homes.collect();
        let links: Vec<LinkSlot> =
            homes.iter().filter_map(|(node, index)| planned_link(&state, *node, *index)).collect();
        // Wires and guards are at its present index.
        for link in &links {
            // If its holder was killed, there is no wire to remove.
            let _ = self.take_wire_out(work, *link);
        }
        for (node, _) in &homes {
            self.lift_guards(work, *node)?;
        }
        let failed = return_all(&state, &work.inits, &self.kept_spaces(), &moved);
        // Noted before anything is put in again: what is lost has no interface.
        let mut failures = self.note_returned(work, &moved, failed, nodes)?;
        let state = self.state();
        let lost = |link: &LinkSlot| state.lost.contains_key(&state.plan.links[*link].id);
        for link in links.iter().filter(|link| !lost(link)) {
            failures.extend(self.put_wire_in(work, *link).err());
            failures.extend(self.cut_again(&work.inits, &[*link]).err());
        }
        for (node, _) in &homes {
            failures.extend(self.raise_guards(work, *node).err());
        }
        // Namespaces that nobody needs any longer are let go, and end.
        self.let_go(&self.state());
        match failures.into_iter().next() {
            None => Ok(()),
            Some(first) => Err(first),
        }
    }

    /// Records which moved interfaces are home and which are lost; returns the reasons. Interfaces that belong to a node
    /// of `going` are neither. A card that is not home stays in the state: `down` looks for it on the host.
    fn note_returned(
        &self,
        work: &mut Work,
        moved: &[Moved],
        failed: Vec<(Moved, Error)>,
        going: &[NodeId],
    ) -> Result<Vec<Error>> {
        let state = self.state();
        let stays = |m: &Moved| !matches!(m.home, Home::Node { node, .. } if going.contains(&node));
        let (failed, _): (Vec<_>, Vec<_>) = failed.into_iter().partition(|(m, _)| stays(m));
        let lost: Vec<(LinkId, String)> =
            failed.iter().filter_map(|(m, e)| lost(&state, m, &describe(e))).collect();
        let is_cards = |m: &Moved| failed.iter().any(|(f, _)| f == m) && m.home == Home::Host;
        self.change(work, |state| {
            // A card of the host may still be found by its address.
            state.moved.retain(|m| !moved.contains(m) || is_cards(m));
            state.lost.extend(lost.clone());
            Ok(())
        })?;
        self.drop_lost(&lost);
        let words = |(m, e): (Moved, Error)| {
            let known =
                lost_link(&state, &m).and_then(|id| lost.iter().find(|(lost, _)| *lost == id));
            let object = format!("lab {:?}", state.plan.lab);
            known.map_or(e, |(_, reason)| Error::Busy {
                object: object.into(),
                reason: reason.clone(),
            })
        };
        Ok(failed.into_iter().map(words).collect())
    }

    /// Ends the processes that carry frames of lost links.
    fn drop_lost(&self, lost: &[(LinkId, String)]) {
        let state = self.state();
        let is_lost = |id: LinkId| lost.iter().any(|(lost, _)| *lost == id);
        let links: Vec<_> = state.plan.links.iter().filter(|l| is_lost(l.id)).collect();
        self.kept.forget(&state, Gone { nodes: &[], links: &links });
    }

    /// Returns interfaces from nodes that ended on their own, and records those that were removed with others.
    pub(crate) fn tend_guests(&self, work: &mut Work) {
        let ended = self.ended_guests();
        if !ended.is_empty() {
            if let Err(e) = self.bring_home(work, &ended) {
                netloom_sys::journal::line(format_args!("netloom: {}", describe(&e)));
            }
            self.release(&ended);
        }
    }

    /// Records interfaces as lost that were removed with a node whose namespace nobody kept: its init was killed while
    /// there was no lab process.
    pub(crate) fn note_strays(&self, work: &mut Work) -> Result<()> {
        let state = self.state();
        if state.moved.is_empty() {
            return Ok(());
        }
        let lives = |id: NodeId| work.inits.get(&id).is_some_and(Init::lives);
        let kept = self.kept_spaces();
        // A kept namespace still has the interface.
        let stray = |m: &&Moved| {
            let held = lives(m.node) || kept.iter().any(|(id, _)| *id == m.node);
            // Cards of the host are moved there by the kernel when a namespace ends.
            matches!(m.home, Home::Node { .. }) && !held
        };
        let strays: Vec<Moved> = state.moved.iter().filter(stray).cloned().collect();
        if strays.is_empty() {
            return Ok(());
        }
        let lost: Vec<_> =
            strays.iter().filter_map(|m| lost(&state, m, "the node has ended")).collect();
        self.change(work, |state| {
            state.moved.retain(|m| !strays.contains(m));
            state.lost.extend(lost.clone());
            Ok(())
        })?;
        self.drop_lost(&lost);
        Ok(())
    }

    /// Forgets the moves of interfaces of these links, which are about to be recreated at home; removes their
    /// remains elsewhere.
    pub(crate) fn recall(&self, work: &mut Work, links: &[LinkSlot]) -> Result<()> {
        let state = self.state();
        let of_these = |m: &&Moved| match m.home {
            Home::Node { node, index } => {
                planned_link(&state, node, index).is_some_and(|link| links.contains(&link))
            }
            Home::Host => false,
        };
        let moved: Vec<Moved> = state.moved.iter().filter(of_these).cloned().collect();
        if moved.is_empty() {
            return Ok(());
        }
        for m in &moved {
            let living = work.inits.get(&m.node).filter(|i| i.lives());
            if let Some(here) = living.and_then(|i| namespace::network_of(i.pid).ok()) {
                remove(&here, m)?;
            }
        }
        self.change(work, |state| {
            state.moved.retain(|m| !moved.contains(m));
            Ok(())
        })?;
        self.let_go(&self.state());
        Ok(())
    }

    /// Recreates lost links whose nodes all live. Returns failures; such a link stays lost, and the lab works
    /// without it.
    pub(crate) fn make_lost(&self, work: &mut Work) -> Result<Vec<String>> {
        let mut told = Vec::new();
        let lost: Vec<LinkId> = self.state().lost.keys().copied().collect();
        for id in lost {
            // A copy without the loss: the link is made as if it had never been lost.
            let mut state = State::clone(&self.state());
            state.lost.remove(&id);
            let Some(at) = state.plan.link_slot_of(id) else { continue };
            match self.lay_again(work, &state, at) {
                Ok(()) => self.found_again(work, &[at])?,
                // Half made it would be worse than lost.
                Err(e) => {
                    let link = &state.plan.links[at];
                    self.kept.forget(&state, Gone { nodes: &[], links: &[link] });
                    let (object, words) = (format!("link {:?}", link.name), describe(&e));
                    // Some failures begin with the link's name already.
                    let named = words.starts_with(&object);
                    told.push(if named { words } else { format!("{object}: {words}") });
                }
            }
        }
        Ok(told)
    }

    /// Records that these lost links have been recreated.
    pub(crate) fn found_again(&self, work: &mut Work, links: &[LinkSlot]) -> Result<()> {
        let state = self.state();
        let made: BTreeSet<LinkId> = links.iter().map(|at| state.plan.links[*at].id).collect();
        if !state.lost.keys().any(|id| made.contains(id)) {
            return Ok(());
        }
        self.change(work, |state| {
            state.lost.retain(|id, _| !made.contains(id));
            Ok(())
        })
    }
}

/// Removes an interface from the node that it was moved to; a missing one is not a failure.
fn remove(here: &OwnedFd, m: &Moved) -> Result<()> {
    let object = format!("interface {:?}", m.old_name);
    let Some(found) = found_moved(here, &object, m)? else { return Ok(()) };
    inside(here.as_fd(), &object, |socket| {
        let mut batch = Batch::new();
        batch.push_tolerant(object.as_str(), &DeleteLink::new(found.index));
        run(socket, &mut batch, &object, "remove")
    })
}

/// The link of an interface that was moved, by its id.
fn lost_link(state: &State, m: &Moved) -> Option<LinkId> {
    let Home::Node { node, index } = m.home else { return None };
    planned_link(state, node, index).map(|at| state.plan.links[at].id)
}

/// How a link comes back that was lost.
pub(crate) const LINK_COMES_BACK: &str = "`netloom up` of the same file recreates its link";

/// The record of an interface that cannot come home: its link's id and the reason.
fn lost(state: &State, m: &Moved, why: &str) -> Option<(LinkId, String)> {
    let link = lost_link(state, m)?;
    let Home::Node { node, .. } = m.home else { return None };
    let name = |id: NodeId| state.plan.slot_of(id).map(|slot| state.plan.nodes[slot].name.as_str());
    let (home, guest) = (name(node)?, name(m.node).unwrap_or("a node that is gone"));
    let reason = format!(
        "interface {home}:{} was lost, because it could not come home from {guest}: {why}; \
         {LINK_COMES_BACK}",
        m.old_name
    );
    Some((link, reason))
}
