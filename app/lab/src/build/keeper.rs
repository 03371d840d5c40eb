//! Keepers: one trait for what a lab process keeps running beside nodes and links (doors, guards, wires, switches).
//!
//! Each attaches to new objects, is found again by a later lab process, restarts what ends by itself, forgets removed
//! objects, and ends with the lab. [`Keepers`](crate::keep::keepers::Keepers) lists them. An operation of a single keeper
//! is a method of its type.

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

/// The lab, as passed to keepers.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) state: &'a State,
    pub(crate) inits: &'a Inits,
}

/// Links being made, before nodes are configured.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) state: &'a State,
    pub(crate) spaces: &'a Spaces<'a>,
    /// The links, by places in the plan.
    pub(crate) links: &'a [LinkSlot],
}

impl Ground<'_> {
    /// The links whose form fits.
    pub(crate) fn links(&self, is_so: impl Fn(LinkForm) -> bool) -> Vec<LinkSlot> {
        let plan = &self.state.plan;
        let form = |at: &LinkSlot| self.state.form(&plan.links[*at]);
        self.links.iter().copied().filter(|at| is_so(form(at))).collect()
    }
}

/// Newly made objects, by places in the plan; the core's place follows the last node's.
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

/// Objects being removed: nodes by id, and links.
#[derive(Clone, Copy)]
pub(crate) struct Gone<'a> {
    pub(crate) nodes: &'a [NodeId],
    pub(crate) links: &'a [&'a PlannedLink],
}

/// Keeps something of a lab running.
pub(crate) trait Keeper {
    /// Makes those interfaces of new links that only some forms have.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn lay(&self, _: &Ground<'_>) -> Result<()> {
        Ok(())
    }

    /// Removes remains, so that the links can be recreated.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn clear(&self, _: &Ground<'_>) -> Result<()> {
        Ok(())
    }

    /// Attaches to these new nodes and links.
    ///
    /// # Errors
    /// What the kernel or a process refuses.
    fn fit(&self, _: &Context<'_>, _: Fresh<'_>) -> Result<()> {
        Ok(())
    }

    /// Finds what an earlier lab process kept, and starts what is missing. Links with missing ends are left to
    /// [`Keeper::fit`], once they are recreated.
    ///
    /// # Errors
    /// What the kernel or a process refuses.
    fn adopt(&self, _: &Context<'_>) -> Result<()> {
        Ok(())
    }

    /// Whether what the doors lead to is gone, so that all are to be recreated.
    fn lost_doors(&self, _: &State) -> bool {
        false
    }

    /// Lets go of objects being removed.
    fn forget(&self, _: &State, _: Gone<'_>) {}

    /// Descriptors that become readable when something has ended.
    fn watched(&self) -> Vec<OwnedFd> {
        vec![]
    }

    /// Restarts what has ended. Returns when to try again, if that failed or something ended at once.
    fn tend(&self, _: &Context<'_>) -> Option<Duration> {
        None
    }

    /// Whether everything that should run does.
    fn is_whole(&self, _: &State) -> bool {
        true
    }

    /// Ends with the lab.
    fn end(&self, _: &Folder) {}

    /// Undoes its changes of the host, while the kernel destroys the nodes' namespaces.
    ///
    /// # Errors
    /// Everything that could not be undone; the rest was.
    fn restore_host(&self, _: &Folder) -> Result<()> {
        Ok(())
    }

    /// Ends what is left of it after the lab process has ended. `plan` is the lab's, if its state could
    /// be read.
    ///
    /// # Errors
    /// Everything that could not be ended; the rest was.
    fn sweep(&self, _: &Folder, _: Option<&Plan>) -> Result<()> {
        Ok(())
    }
}
