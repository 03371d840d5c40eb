//! Capabilities of this machine and user: possible forms of links, and limits that can be set.

use std::path::Path;
use std::sync::OnceLock;

use netloom_model::Plan;
use netloom_model::plan::PlannedNode;
use netloom_model::plan::form::Allowed;
use netloom_sys::cgroup::{self, Groups};
use netloom_sys::feature;

use crate::{Error, Result};

/// The device that makes taps.
const TUN: &str = "/dev/net/tun";

/// In a user namespace (`user`) no BPF program may be attached.
pub(crate) fn allowed(user: bool, plan: &Plan) -> Allowed {
    static PLANES: OnceLock<bool> = OnceLock::new();
    // Programs are loaded for that: only labs that have use for it wait for it.
    let has_use = !user && plan.switches.iter().any(|switch| switch.kind.as_shm().is_some());
    let can = || netloom_ebpf::feature::flow_supported().is_ok();
    let planes = has_use && *PLANES.get_or_init(can);
    Allowed { programs: !user, taps: Path::new(TUN).exists(), planes }
}

/// The cgroup hierarchies in which limits can be set; an error if the plan has limits and there is none.
pub(crate) fn hierarchies(
    user: bool,
    plan: &Plan,
    ignore_limits: bool,
) -> Result<Vec<cgroup::Hierarchy>> {
    let found = if user { cgroup::hierarchies_of_user() } else { cgroup::hierarchies_of_root() };
    let found = found.map_err(Error::of("cgroups", "look for"))?;
    let has = |c: &str| found.iter().any(|h| h.controllers.iter().any(|have| have == c));
    for node in plan.nodes.iter().filter(|_| !ignore_limits) {
        check_has(&has, node, user)?;
    }
    Ok(found)
}

/// Refuses limits of a node of a running lab that this machine cannot set.
pub(crate) fn check_limits(groups: &Groups, node: &PlannedNode, user: bool) -> Result<()> {
    check_has(&|controller| groups.has(controller), node, user)
}

fn check_has(has: &dyn Fn(&str) -> bool, node: &PlannedNode, user: bool) -> Result<()> {
    let limits = &node.limits;
    let wanted = [
        ("cpu", limits.cpu_milli.is_some() || limits.weight.is_some()),
        ("memory", limits.memory.is_some()),
        ("pids", limits.processes.is_some()),
        (cgroup::SOCKETS, limits.sockets.is_some()),
    ];
    let Some((lacking, _)) = wanted.iter().find(|(c, wants)| *wants && !has(c)) else {
        return Ok(());
    };
    let mut why = feature::no_limits(!user);
    why.reason = format!("node {:?} has a {lacking} limit, and {}", node.name, why.reason);
    why.needs.push_str("; or make it without limits: netloom up --ignore-limits …");
    Err(why.into())
}
