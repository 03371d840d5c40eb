//! Programs: of new nodes all, of others those that are new or changed.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use netloom_model::merging::Merged;
use netloom_model::plan::{NodeId, PlannedNode};
use netloom_node::control::{Connection, Wanted};
use netloom_node::init::environment_of;
use netloom_node::spec::{log_names, socket_name};

use super::NewNodes;
use super::changing::Was;
use crate::build::starting;
use crate::run::running::{Running, Work};
use crate::{Error, Result};

impl Running {
    /// Starts what has to be started, and waits until these nodes are ready. Returns programs that ended with an error.
    pub(super) fn start_programs(
        &self,
        work: &Work,
        merged: &Merged,
        was: &Was<'_>,
        made: &NewNodes,
    ) -> Result<Vec<String>> {
        let state = self.state();
        let is_made = |id: NodeId| {
            made.slots
                .iter()
                .any(|slot| state.plan.node_at(*slot).is_some_and(|node| node.id == id))
        };
        let mut asked = Vec::new();
        for id in merged.changed.nodes.iter().filter(|id| !is_made(**id)) {
            let Some(slot) = state.plan.slot_of(*id) else { continue };
            let node = &state.plan.nodes[slot];
            let lives = work.inits.get(id).is_some_and(|init| init.lives());
            if lives && was.nodes(*id).iter().any(|old| differ(old, node)) {
                asked.push((node.name.as_str(), self.change_programs(node)?));
            }
        }
        let told = starting::hear(asked)?;
        let progress = |_: &str, _, _| {};
        let started = starting::start(&self.folder, &state.plan, &made.slots, &progress)?;
        let all = [started.troubles, started.notes, told.troubles, told.notes];
        Ok(all.into_iter().flatten().collect())
    }

    /// Tells a node's init what to run from now on.
    fn change_programs(&self, node: &PlannedNode) -> Result<Connection> {
        let folder = self.folder.sockets();
        let path = folder.join(socket_name(node.id.get()));
        let connection = Connection::open(&node.name, &path)?;
        let connection = connection.ok_or_else(|| Error::DeadNode(node.name.clone()))?;
        let open = |name: &String| {
            let path = folder.join(name);
            let mut options = File::options();
            let opened = options.append(true).create(true).mode(0o600).open(&path);
            opened.map_err(Error::at(&path, "open log"))
        };
        let [a, b] = log_names(node.id.get());
        let logs = [open(&a)?, open(&b)?];
        let env = environment_of(self.folder.name(), &node.name, &node.env);
        let wanted = Wanted {
            run: node.run.clone(),
            env,
            ready: node.ready.clone(),
            health: node.health.clone(),
        };
        connection.change(&wanted, [logs[0].as_fd(), logs[1].as_fd()])?;
        Ok(connection)
    }
}

fn differ(old: &PlannedNode, new: &PlannedNode) -> bool {
    old.run != new.run || old.env != new.env || old.ready != new.ready || old.health != new.health
}
