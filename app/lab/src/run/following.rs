//! Updates the routes of living nodes after a change of the plan, here and outside of doors, and the lists of name servers. Names
//! are updated by [`resolving`](crate::run::resolving).
//!
//! Only differences between the two plans are applied: routes that somebody changed in a node stay.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use ipnet::IpNet;
use netloom_model::lab::{FileContent, FileSpec};
use netloom_model::plan::NodeId;
use netloom_model::plan::Slot;
use netloom_model::plan::{Plan, PlannedNode};
use netloom_netlink::Batch;
use netloom_node::root::NO_NAME_SERVERS;
use netloom_node::{copy, placing};
use netloom_sys::{namespace, sysctl};

use crate::build::configure::InstalledRoute;
use crate::run::running::{Running, Work};
use crate::stage::absent;
use crate::stage::absent::is_away;
use crate::stage::spaces::{inside, on_a_thread, run};
use crate::stage::{host, users};
use crate::store::state::State;
use crate::{Error, Result};

impl Running {
    /// Changes the routes of all living nodes from those of the plan `old` to the current ones, and updates
    /// names.
    pub(crate) fn follow_plan(&self, work: &mut Work, old: &Plan) -> Result<()> {
        self.follow_routes(work, old)?;
        self.tell_name_servers(work, [old])?;
        self.settle_names();
        Ok(())
    }

    /// The same without waiting for names.
    pub(crate) fn follow_routes(&self, work: &Work, old: &Plan) -> Result<()> {
        let state = self.state();
        let known: HashMap<NodeId, usize> =
            old.nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
        for (slot, node) in state.plan.slots().zip(&state.plan.nodes) {
            let before = known.get(&node.id).map(|at| &old.nodes[*at]);
            if before.is_some_and(|before| has_same_ways(before, node)) {
                continue;
            }
            let Some(init) = work.inits.get(&node.id).filter(|init| init.lives()) else { continue };
            let batch = routes(&state, slot, before);
            if batch.is_empty() {
                continue;
            }
            // A node that ends meanwhile has no routes.
            let Ok(space) = init.network(&node.name) else { continue };
            give_settings(&space, node, before)?;
            give_routes(&space, batch, &format!("node {:?}", node.name))?;
        }
        self.follow_outside(old)
    }

    /// Gives living nodes their name servers that reach `internet` from now on, or do not any more, and did or did not in one of
    /// these plans. The file's own list stays.
    pub(crate) fn tell_name_servers<'p>(
        &self,
        work: &Work,
        olds: impl IntoIterator<Item = &'p Plan>,
    ) -> Result<()> {
        const LIST: &str = "/etc/resolv.conf";
        let state = self.state();
        let nodes = |plan: &Plan| -> HashSet<(NodeId, bool)> {
            plan.nodes.iter().map(|node| (node.id, node.internet)).collect()
        };
        let before: Vec<_> = olds.into_iter().map(nodes).collect();
        for node in &state.plan.nodes {
            let other = before.iter().any(|plan| plan.contains(&(node.id, !node.internet)));
            let own = node.files.iter().any(|file| file.path == LIST)
                || node.binds.iter().any(|bind| Path::new(LIST).starts_with(&bind.to));
            let init = work.inits.get(&node.id).filter(|init| init.lives());
            let Some(init) = init.filter(|_| other && !own && node.kind.as_vm().is_none()) else {
                continue;
            };
            let text = match node.internet {
                true => host::name_servers(state.user),
                false => NO_NAME_SERVERS.to_owned(),
            };
            let root = copy::open_root(&node.name, init.pidfd.as_fd())?;
            let file = FileSpec::new(LIST, FileContent::Text(text));
            placing::place(root.as_fd(), &file, users::in_node(&state, node))?;
        }
        Ok(())
    }

    /// Makes what doors lead to fit the current plan, if it fitted `old`.
    pub(crate) fn follow_outside(&self, old: &Plan) -> Result<()> {
        self.kept.keepers.doors.follow(&self.folder, &self.state(), old)
    }
}

/// Whether the routes of a node are equal, by the same interfaces.
fn has_same_ways(old: &PlannedNode, new: &PlannedNode) -> bool {
    let indexes =
        |node: &PlannedNode| -> Vec<u32> { node.interfaces.iter().map(|i| i.index).collect() };
    (old.routes.is_empty() && new.routes.is_empty())
        || (old.routes == new.routes && indexes(old) == indexes(new))
}

/// The requests for a node. Routes by absent interfaces are left out: those that were moved away, and those
/// that are down because their link is.
fn routes(state: &State, slot: Slot, before: Option<&PlannedNode>) -> Batch {
    let node = &state.plan.nodes[slot];
    let there = |at: usize| !is_away(state, slot, at) && !absent::is_cut_here(state, slot, at);
    let new: Vec<InstalledRoute> =
        node.routes.iter().filter_map(|r| InstalledRoute::of(node, r, there)).collect();
    let all = |node: &PlannedNode| -> Vec<InstalledRoute> {
        node.routes.iter().filter_map(|route| InstalledRoute::of(node, route, |_| true)).collect()
    };
    let old = before.map(all).unwrap_or_default();
    let known: HashSet<&InstalledRoute> = old.iter().collect();
    let name: Arc<str> = format!("node {:?}", node.name).into();
    let mut batch = Batch::new();
    for way in new.iter().filter(|way| !known.contains(way)) {
        way.push(&mut batch, &name, true);
    }
    let leads: HashSet<IpNet> = node.routes.iter().map(|route| route.to).collect();
    for way in old.iter().filter(|way| !leads.contains(&way.to)) {
        way.push_removal(&mut batch, &name);
    }
    batch
}

/// Sets sysctls that the node did not have before; the kernel may lack some.
fn give_settings(space: &OwnedFd, new: &PlannedNode, old: Option<&PlannedNode>) -> Result<()> {
    let known = old.map_or(&[][..], |old| &old.sysctls);
    let fresh: Vec<_> = new.sysctls.iter().filter(|setting| !known.contains(setting)).collect();
    if fresh.is_empty() {
        return Ok(());
    }
    let object = format!("node {:?}", new.name);
    on_a_thread(|| {
        namespace::enter_network(space.as_fd()).map_err(Error::of(&object, "enter"))?;
        for (path, value) in &fresh {
            let of = || format!("{object}: {}", sysctl::full(path));
            sysctl::set_in_node(path, value, new.privileged)
                .map_err(|e| Error::at(of(), "set sysctl")(e))?;
        }
        Ok(())
    })
}

fn give_routes(space: &OwnedFd, mut batch: Batch, object: &str) -> Result<()> {
    inside(space.as_fd(), object, |socket| run(socket, &mut batch, object, "change its routes"))
}
