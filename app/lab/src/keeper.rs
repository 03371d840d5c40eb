//! Keepers: what a lab process keeps running beside nodes and links (guards, wires, switches), all of one shape.
//!
//! Each is fitted to what was made, found again by a later lab process, watched and set right when something of it ends
//! on its own, forgets what goes, and ends with the lab. They are listed once, in [`crate::running::Kept::keepers`]; what
//! is left of them when the lab's process is gone is swept by the functions in [`SWEEPS`](crate::teardown).
//! What only one of them can do is a method of its own.

use std::os::fd::OwnedFd;
use std::time::Duration;

use netloom_model::plan::PlannedLink;
use netloom_node::spec::CORE;

use crate::Result;
use crate::inits::Inits;
use crate::state::{Folder, State};

/// The lab, as keepers are told of it.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) state: &'a State,
    pub(crate) inits: &'a Inits,
}

/// What was made just now, by places in the plan; the core's place is behind the last node's.
#[derive(Clone, Copy)]
pub(crate) struct Fresh<'a> {
    pub(crate) slots: &'a [usize],
    pub(crate) links: &'a [usize],
}

impl Fresh<'_> {
    /// The ids of the nodes, the core's among them.
    pub(crate) fn ids(&self, state: &State) -> Vec<usize> {
        let id = |slot: &usize| state.plan.nodes.get(*slot).map_or(CORE, |node| node.id);
        self.slots.iter().map(id).collect()
    }
}

/// What goes: nodes by id, and links.
#[derive(Clone, Copy)]
pub(crate) struct Gone<'a> {
    pub(crate) nodes: &'a [usize],
    pub(crate) links: &'a [&'a PlannedLink],
}

/// Keeps something of a lab running.
pub(crate) trait Keeper {
    /// Puts in what is needed where these nodes and links are new.
    ///
    /// # Errors
    /// What the kernel or a process refuses.
    fn fit(&self, context: &Context<'_>, fresh: Fresh<'_>) -> Result<()>;

    /// Finds what an earlier lab process kept, and starts what is missing of it. What ends are gone of is left to who
    /// makes them anew.
    ///
    /// # Errors
    /// What the kernel or a process refuses.
    fn adopt(&self, context: &Context<'_>) -> Result<()>;

    /// Lets go of what is going.
    fn forget(&self, state: &State, gone: Gone<'_>);

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
}
