//! `check --on`: which of several hosts would make what of a lab, and what that costs.

use std::path::Path;

use anyhow::Result;
use netloom_model::plan::{Placement, Plan, PlannedNode};
use netloom_model::{Hosts, Lab, Pin};
use netloom_placement::{Account, Earlier, Error, HostAccount, account, costs, place};

use super::files::{good, wrong};
use crate::flags::Check;
use crate::{output, source};

/// `netloom check FILE --on HOSTS`
pub(super) fn check(args: &Check, on: &Path) -> Result<i32> {
    let [path] = args.files.as_slice() else {
        return Err(crate::Usage("--on plans one lab: give one lab file".into()).into());
    };
    // Both are looked at: one run shows the errors of both.
    let (lab, hosts) = (source::checked(path), read(on));
    for error in [lab.as_ref().err(), hosts.as_ref().err()].into_iter().flatten() {
        wrong(error)?;
    }
    let (Ok((lab, plan, hints)), Ok(hosts)) = (lab, hosts) else { return Ok(2) };
    let earlier = args.earlier.as_deref().map(|file| earlier(file, &plan.lab)).transpose();
    let placed = match earlier {
        Ok(earlier) => place(&plan, &lab.place, &hosts, earlier.as_ref()),
        Err(error) => return wrong(&error).map(|()| 2),
    };
    match placed {
        Ok(placement) => {
            let mut found = account(&plan, &lab.place, &hosts, &placement);
            if args.costs {
                let file = plan.scheme.as_ref().and_then(|scheme| scheme.file.as_ref());
                let bytes = file.map_or(0, |text| u64::try_from(text.len()).unwrap_or(u64::MAX));
                found.costs = costs(&plan, &hosts, &found, bytes);
            }
            found.warnings = hints.into_iter().chain(found.warnings).collect();
            show(args, path, &lab, &plan, &placement, &found)?;
            Ok(0)
        }
        Err(errors) => {
            for error in errors {
                tell_line!("netloom: {}: error: {error}", source::shown(path));
            }
            Ok(2)
        }
    }
}

/// Reads a hosts file.
pub(crate) fn read(path: &Path) -> Result<Hosts> {
    Ok(netloom_model::parse_hosts(&source::shown(path), &source::read(path)?)?)
}

fn earlier(path: &Path, lab: &str) -> Result<Earlier> {
    let read = Earlier::read(&source::shown(path), &source::read(path)?, lab);
    read.map_err(|error: Error| crate::Usage(error.to_string()).into())
}

fn show(
    args: &Check,
    path: &Path,
    lab: &Lab,
    plan: &Plan,
    placement: &Placement,
    found: &Account,
) -> Result<()> {
    if args.json {
        return output::print_json(found);
    }
    let mut text = good(path, plan);
    text += "\n";
    text += &output::table(
        &["HOST", "NODES", "SWITCHES", "LINKS", "ACROSS", "MEMORY", "CPU"],
        found.hosts.iter().map(host_row).collect(),
    );
    text += "\n";
    text += &output::table(&["NAME", "KIND", "HOST"], objects(&lab.place, plan, placement));
    if !found.across.is_empty() {
        text += "\n";
        text += &output::table(
            &["LINK ACROSS", "NUMBER", "BETWEEN", "MTU", "ON THE UNDERLAY"],
            across(found),
        );
    }
    let needs = found
        .hosts
        .iter()
        .flat_map(|host| host.needs.iter().map(|need| vec![host.name.clone(), need.clone()]));
    let needs: Vec<Vec<String>> = needs.collect();
    if !needs.is_empty() {
        text += "\n";
        text += &output::table(&["HOST", "NEEDS"], needs);
    }
    if !found.costs.is_empty() {
        text += "\n";
        text += &output::table(&["COST", "VALUE", "FORMULA", "SOURCE"], cost_rows(found));
    }
    output::show(&text)?;
    for warning in &found.warnings {
        tell_line!("warning: {warning}");
    }
    Ok(())
}

fn of_capacity(used: String, capacity: Option<String>) -> String {
    match capacity {
        Some(most) => format!("{used} of {most}"),
        None => used,
    }
}

fn host_row(host: &HostAccount) -> Vec<String> {
    vec![
        host.name.clone(),
        host.nodes.to_string(),
        host.switches.to_string(),
        host.links.to_string(),
        host.across.to_string(),
        of_capacity(output::bytes(host.memory), host.memory_capacity.map(output::bytes)),
        of_capacity(cpus(host.cpu_milli), host.cpu_milli_capacity.map(cpus)),
    ]
}

/// Thousandths of CPUs as a number of CPUs: `1.5`.
fn cpus(milli: u64) -> String {
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn objects(pins: &[Pin], plan: &Plan, placement: &Placement) -> Vec<Vec<String>> {
    let name = |host: usize| placement.hosts().get(host).map_or("-", String::as_str);
    let pinned = |of: &str| Pin::of(pins, of).is_some_and(|pin| !pin.hosts.is_empty());
    let row = |of: &str, kind: &str, hosts: String, is_pinned: bool| {
        let hosts = if is_pinned { format!("{hosts}, pinned") } else { hosts };
        vec![of.to_owned(), kind.to_owned(), hosts]
    };
    let outer = |node: &PlannedNode| match node.name.split_once('/') {
        Some((outer, _)) => outer.to_owned(),
        None => node.name.clone(),
    };
    let nodes = plan.slots().zip(&plan.nodes).map(|(slot, node)| {
        let host = placement.of_node(slot).map_or("-", name);
        row(&node.name, "node", host.to_owned(), pinned(&outer(node)))
    });
    let switches = plan.switch_slots().zip(&plan.switches).map(|(slot, switch)| {
        let hosts: Vec<&str> = placement.of_switch(slot).iter().map(|host| name(*host)).collect();
        row(&switch.name, "switch", hosts.join(" + "), pinned(&switch.name))
    });
    nodes.chain(switches).collect()
}

fn across(found: &Account) -> Vec<Vec<String>> {
    let row = |link: &netloom_placement::Crossed| {
        let packets = match link.packets {
            1 => format!("{} bytes", link.bytes),
            packets => format!("{} bytes in {packets} fragments", link.bytes),
        };
        vec![
            link.link.clone(),
            link.number.to_string(),
            link.hosts.join(", "),
            link.mtu.to_string(),
            packets,
        ]
    };
    found.across.iter().map(row).collect()
}

fn cost_rows(found: &Account) -> Vec<Vec<String>> {
    let row = |cost: &netloom_placement::Cost| {
        let value = match cost.unit.as_str() {
            "bytes" => output::bytes(cost.value),
            "CPU/1000" => format!("{} CPUs", cpus(cost.value)),
            unit => format!("{} {unit}", cost.value),
        };
        vec![cost.what.clone(), value, cost.formula.clone(), cost.source.clone()]
    };
    found.costs.iter().map(row).collect()
}
