//! Routers whose planes are separate are recreated when their node ends: packets go on meanwhile, but nobody answers for the
//! router's addresses, and routes grow old.
//!
//! The process that follows a router ends with its node, which [`Running::tend`] hears of. A router that ends again
//! soon is made again after a pause that grows. A router that was killed announced nothing to neighbours, so its daemons
//! are told, by files, to have it done when they start (`netloom_model::plan::frr`).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use netloom_model::plan::frr::KILLED;
use netloom_model::plan::{NodeId, PlannedNode};
use netloom_sys::{describe, journal};

use crate::run::running::{Phase, Running, Work};
use crate::stage::inits::{Init, Inits};
use crate::stage::role;
use crate::store::state::State;

/// The daemons whose neighbours are told of a restart.
const TOLD: [&str; 2] = ["ospfd", "ospf6d"];

impl Running {
    /// Recreates routers whose node has ended, and with them what else is missing. Returns when to try again.
    pub(crate) fn revive(&self, work: &mut Work) -> Option<Duration> {
        // While it comes up or goes down others do this.
        if self.phase() != Phase::Up {
            return None;
        }
        let state = self.state();
        let dead: Vec<&PlannedNode> = dead(&state, &work.inits).collect();
        let now = Instant::now();
        let waits = dead.iter().filter_map(|node| self.revivals.wait(node.id, now)).max();
        if dead.is_empty() || waits.is_some() {
            return waits;
        }
        let names: Vec<&str> = dead.iter().map(|node| node.name.as_str()).collect();
        journal::line(format_args!("netloom: recreated: {}", names.join(", ")));
        if let Err(e) = self.make_with(work) {
            journal::line(format_args!("netloom: {}", describe(&e)));
            // Others than the routers may be at fault: soon again would fail again.
            return Some(role::LONGEST_PAUSE);
        }
        None
    }

    /// Leaves files for routers that are to be recreated beside a plane that goes on; returns their folders.
    pub(crate) fn leave_for_killed(&self, state: &State, inits: &Inits) -> Vec<PathBuf> {
        // Planes stand in the core: if its init has ended, none forwards.
        if !inits.get(&NodeId::CORE).is_some_and(Init::lives) {
            return vec![];
        }
        let mut left = vec![];
        for node in dead(state, inits).filter(|node| state.plan.announced(node).is_some()) {
            let plane = node.plane_name();
            let folder = self.folder.carried(&plane);
            // A move has left its own.
            if folder.exists() || !self.folder.flow_socket(&plane).exists() {
                continue;
            }
            // Empty files: their names say all that the daemons need.
            let name = |daemon: &str| folder.join(format!("{daemon}{KILLED}"));
            let made = std::fs::create_dir_all(&folder)
                .and_then(|()| TOLD.iter().try_for_each(|daemon| std::fs::write(name(daemon), "")));
            if let Err(e) = made {
                journal::line(format_args!("netloom: {}: {e}", folder.display()));
            }
            left.push(folder);
        }
        left
    }
}

/// The routers whose planes are separate, and whose node has ended.
fn dead<'s>(state: &'s State, inits: &'s Inits) -> impl Iterator<Item = &'s PlannedNode> {
    let separate = state.plan.nodes.iter().filter(|node| node.kind.has_separate_plane());
    separate.filter(|node| !inits.get(&node.id).is_some_and(Init::lives))
}
