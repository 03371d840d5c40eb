//! Keepers: what a lab process keeps running beside nodes and links (doors, guards, wires, switches), all of one shape.
//!
//! Each is fitted to what was made, found again by a later lab process, watched and set right when something of it ends
//! on its own, forgets what goes, and ends with the lab. They are listed once, in [`Keepers`](crate::keep::keepers::Keepers).
//! What only one of them can do is a method of its own.

use std::os::fd::OwnedFd;
use std::time::Duration;

use netloom_model::Plan;
use netloom_model::plan::PlannedLink;
use netloom_model::plan::Slot;
use netloom_model::plan::form::LinkForm;
use netloom_model::plan::{LinkSlot, NodeId};

use crate::Result;
use crate::stage::inits::Inits;
use crate::stage::spaces::Spaces;
use crate::store::state::{Folder, State};

/// The lab, as keepers are told of it.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) state: &'a State,
    pub(crate) inits: &'a Inits,
}

/// Where links are being made, before nodes are configured.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) state: &'a State,
    pub(crate) spaces: &'a Spaces<'a>,
    /// The links, by places in the plan.
    pub(crate) links: &'a [LinkSlot],
}

impl Ground<'_> {
    /// The links whose form is so.
    pub(crate) fn links(&self, is_so: impl Fn(LinkForm) -> bool) -> Vec<LinkSlot> {
        let plan = &self.state.plan;
        let form = |at: &LinkSlot| self.state.form(&plan.links[*at]);
        self.links.iter().copied().filter(|at| is_so(form(at))).collect()
    }
}

/// What was made just now, by places in the plan; the core's place is behind the last node's.
#[derive(Clone, Copy)]
pub(crate) struct Fresh<'a> {
    pub(crate) slots: &'a [Slot],
    pub(crate) links: &'a [LinkSlot],
}

impl Fresh<'_> {
    /// The ids of the nodes, the core's among them.
    pub(crate) fn ids(&self, state: &State) -> Vec<NodeId> {
        let id = |slot: &Slot| state.plan.node_at(*slot).map_or(NodeId::CORE, |node| node.id);
        self.slots.iter().map(id).collect()
    }
}

/// What goes: nodes by id, and links.
#[derive(Clone, Copy)]
pub(crate) struct Gone<'a> {
    pub(crate) nodes: &'a [NodeId],
    pub(crate) links: &'a [&'a PlannedLink],
}

/// Keeps something of a lab running.
pub(crate) trait Keeper {
    /// Makes those interfaces of new links that are not made for every link.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn lay(&self, _: &Ground<'_>) -> Result<()> {
        Ok(())
    }

    /// Removes what is left of it, so that the links can be made anew.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn clear(&self, _: &Ground<'_>) -> Result<()> {
        Ok(())
    }

    /// Puts in what is needed where these nodes and links are new.
    ///
    /// # Errors
    /// What the kernel or a process refuses.
    fn fit(&self, _: &Context<'_>, _: Fresh<'_>) -> Result<()> {
        Ok(())
    }

    /// Finds what an earlier lab process kept, and starts what is missing of it. What ends are gone of is left to who
    /// makes them anew.
    ///
    /// # Errors
    /// What the kernel or a process refuses.
    fn adopt(&self, _: &Context<'_>) -> Result<()> {
        Ok(())
    }

    /// Lets go of what is going.
    fn forget(&self, _: &State, _: Gone<'_>) {}

    /// What becomes readable when something has ended.
    fn watched(&self) -> Vec<OwnedFd> {
        vec![]
    }

    /// Starts again what has ended. When to look again, if that failed or something ended at once.
    fn tend(&self, _: &Context<'_>) -> Option<Duration> {
        None
    }

    /// Whether all that should run does.
    fn is_whole(&self, _: &State) -> bool {
        true
    }

    /// Ends with the lab.
    fn end(&self, _: &Folder) {}

    /// Undoes what it changed on the host, while the kernel takes the nodes' namespaces apart.
    ///
    /// # Errors
    /// What could not be undone; all else was.
    fn restore_host(&self, _: &Folder) -> Result<()> {
        Ok(())
    }

    /// Ends what is left of it when the lab's process is gone. `plan` is that of the lab where its
    /// state could be read.
    ///
    /// # Errors
    /// What could not be ended; all else was.
    fn sweep(&self, _: &Folder, _: Option<&Plan>) -> Result<()> {
        Ok(())
    }
}
