//! The values of switches and slices: what the readers of lab files refuse, a plan may not have either.

use std::collections::HashSet;

use super::{Checked, MTUS, Once, at_most, no};
use crate::kinds::SwitchKind;
use crate::kinds::openflow::{self, OpenflowSwitch};
use crate::kinds::shm::{self, PortVlan, ShmSwitch};
use crate::naming::{node_name_problem, port_name_problem};
use crate::plan::{Plan, PlannedSwitch};
use crate::slices::{MOST_IN_ALL, MOST_SLICES, MOST_SPACES, Slice, Vlans};

/// Checks everything about a switch but its links.
pub(super) fn check(switch: &PlannedSwitch) -> Checked {
    if let Some(problem) = node_name_problem(&switch.name) {
        return no(problem);
    }
    if !MTUS.contains(&switch.mtu) {
        return no(format!("mtu {} is not from {} to {}", switch.mtu, MTUS.start(), MTUS.end()));
    }
    if switch.stp && !switch.kind.is_bridge() {
        return no("only a bridge blocks ports");
    }
    match &switch.kind {
        SwitchKind::Bridge => Ok(()),
        SwitchKind::Shm(options) => check_shm(options),
        SwitchKind::Openflow(options) => check_openflow(options),
    }
}

fn check_shm(switch: &ShmSwitch) -> Checked {
    // Offsets into the arena are masked, not divided.
    let arena = switch.arena.is_power_of_two() && shm::ARENA.contains(&switch.arena.into());
    if switch.mode > 0o777 || !arena || switch.ageing > shm::MOST_AGEING {
        return no("mode, arena or ageing cannot be used");
    }
    at_most(switch.ports.len(), shm::MOST_PORTS, "ports")?;
    let mut numbers = Once::new();
    for (name, port) in &switch.ports {
        if let Some(problem) = port_name_problem(name) {
            return no(problem);
        }
        if let Some(number) = port.number {
            numbers.take(number, "port number")?;
        }
        at_most(port.lock.len(), netloom_bridge::MOST_LOCKED, "locked addresses")?;
        let vlan = |vid: u16| (1..=4094).contains(&vid);
        let fits = match &port.vlan {
            None => true,
            Some(PortVlan::Access(vid)) => vlan(*vid),
            Some(PortVlan::Trunk { native, .. }) => native.is_none_or(vlan),
            Some(PortVlan::Qinq { vlan: vid, tpid, .. }) => {
                vlan(*vid) && tpid.parse::<netloom_bridge::Tpid>().is_ok()
            }
        };
        if !fits || port.lock.iter().any(|mac| mac.parse::<netloom_bridge::Mac>().is_err()) {
            return no(format!("port {name:?}: a VLAN or a locked address cannot be one"));
        }
    }
    at_most(switch.mirrors.len(), shm::MOST_PORTS, "mirrors")
}

fn check_openflow(switch: &OpenflowSwitch) -> Checked {
    at_most(switch.controllers.len(), openflow::MOST_CONTROLLERS, "controllers")?;
    let tables = (1..=openflow::MOST_TABLES).contains(&switch.tables);
    let entries = (1..=openflow::MOST_ENTRIES).contains(&switch.max_entries);
    if !tables || !entries || switch.auxiliary > openflow::MOST_AUXILIARY {
        return no("tables, max-entries or auxiliary cannot be used");
    }
    if switch.versions.is_empty() || !switch.versions.windows(2).all(|pair| pair[0] < pair[1]) {
        return no("versions must be there, the lowest first");
    }
    Ok(())
}

/// Checks slices by themselves; the slicer checks that they are apart.
pub(super) fn check_slices(plan: &Plan) -> Checked {
    at_most(plan.slices.len(), MOST_SLICES, "slices")?;
    let switches: HashSet<&str> = plan.switches.iter().map(|switch| switch.name.as_str()).collect();
    let mut names = Once::new();
    for slice in &plan.slices {
        let of = |problem| format!("slice {:?}: {problem}", slice.name);
        names.take(slice.name.as_str(), "slice")?;
        if let Some(problem) = node_name_problem(&slice.name) {
            return no(of(problem));
        }
        let mut named = slice.switches.keys().chain(slice.datapaths.keys());
        if let Some(name) = named.find(|name| !switches.contains(name.as_str())) {
            return no(of(format!("there is no switch {name:?}")));
        }
        check_slice(slice).map_err(of)?;
    }
    Ok(())
}

fn check_slice(slice: &Slice) -> Checked {
    at_most(slice.controllers.len(), openflow::MOST_CONTROLLERS, "controllers")?;
    at_most(slice.switches.values().map(Vec::len).sum(), MOST_IN_ALL, "spaces")?;
    for spaces in slice.switches.values() {
        at_most(spaces.len(), MOST_SPACES, "spaces")?;
        let vlans = spaces.iter().flat_map(|space| &space.vlans);
        let ends = spaces.iter().flat_map(|space| [&space.end, &space.peer]);
        let ports = ends.flat_map(|end| end.tcp.iter().chain(&end.udp));
        let wrong =
            |vlans: &Vlans| matches!(vlans, Vlans::Range { from, to } if from > to || *to > 4094);
        if vlans.into_iter().any(wrong) || ports.into_iter().any(|ports| ports.from > ports.to) {
            return no("a range of VLANs or ports cannot be one");
        }
    }
    Ok(())
}
