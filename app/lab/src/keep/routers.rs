//! The processes that follow routers whose planes are separate: one each, in the router's network namespace.
//!
//! A process ends with the init of its router; entries stay in the switch that is the router's plane, and the next
//! process, which follows the recreated node, confirms them. It survives a kill of the lab process, and is found by the
//! lock that it holds.

use std::ffi::OsStr;
use std::path::PathBuf;

use netloom_model::Plan;
use netloom_model::plan::PlannedNode;
use netloom_router::{Followed, Interface, Ospf, Spec};

use crate::build::keeper::Context;
use crate::keep::flows::plane_ports;
use crate::keep::per_node::{Kind, PerNode};
use crate::stage::attach;
use crate::stage::inits::Init;
use crate::stage::role::{self, Process, Role};
use crate::store::state::Folder;
use crate::{Error, Result};

/// The processes of a lab.
pub(crate) type Routers = PerNode<Following>;

/// That of a router.
pub(crate) struct Following;

/// How many entries of a router's plane nobody has confirmed yet; `None` while nobody follows it.
pub(crate) fn unconfirmed(folder: &Folder, node: &PlannedNode) -> Option<usize> {
    let followed = Followed::read(&folder.flow_folder(&node.plane_name()))?;
    Some(followed.unconfirmed)
}

/// What the process is told.
fn spec(folder: &Folder, plan: &Plan, node: &PlannedNode, init: &Init) -> Spec {
    let name = node.plane_name();
    let interfaces = node.interfaces.iter().map(|interface| {
        let [outside, inside] = plane_ports(interface);
        let (index, mac, mtu) = (interface.index, interface.mac, interface.mtu);
        Interface { index, mac, mtu, outside, inside }
    });
    Spec {
        name: node.name.clone(),
        openflow: folder.flow_socket(&name),
        interfaces: interfaces.collect(),
        grace: node.kind.as_router().map_or(0, |router| router.grace),
        // The daemons' files are the node's, as its init sees them.
        root: Some(PathBuf::from(format!("/proc/{}/root", init.pid.as_raw_nonzero()))),
        ospf: plan.announced(node).map(|(router, area, grace)| Ospf { router, area, grace }),
        home: folder.flow_folder(&name),
    }
}

impl Kind for Following {
    const WHO: &str = "routers";
    const ROLE: Role = Role::Router;

    fn has(node: &PlannedNode) -> bool {
        node.kind.has_separate_plane()
    }

    fn lock(folder: &Folder, node: &PlannedNode) -> PathBuf {
        folder.router_lock(&node.plane_name())
    }

    fn locks(folder: &Folder) -> Vec<PathBuf> {
        folder.router_locks()
    }

    fn start(context: &Context<'_>, node: &PlannedNode, init: &Init) -> Result<Option<Process>> {
        let object = format!("router {:?}", node.name);
        let Some(space) = attach::open(context.inits, node.id)? else { return Ok(None) };
        let spec = serde_json::to_string(&spec(context.folder, &context.state.plan, node, init))
            .map_err(|e| Error::of(object, "describe it")(std::io::Error::from(e)))?;
        // What an earlier process wrote is not about this one.
        let home = context.folder.flow_folder(&node.plane_name());
        let _ = std::fs::remove_file(home.join(netloom_router::STATE));
        let lock = context.folder.router_lock(&node.plane_name());
        let pid = init.pid.as_raw_nonzero().to_string();
        let words = [lock.as_os_str(), OsStr::new(&pid), OsStr::new(&spec)];
        let found = || Process::holding(Role::Router, &lock);
        role::start(Role::Router, &words, Some(space), "follow a router", found).map(Some)
    }
}
