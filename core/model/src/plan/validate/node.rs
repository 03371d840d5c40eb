//! The values of a node: what the readers of lab files refuse, a plan may not have either.

use std::cmp::Ordering;
use std::time::Duration;

use super::{Checked, Once, at_most, no};
use crate::bounds::{
    LEAST_BYTES, LEAST_CPU, LEAST_MEMORY, MAX_NODES, MAX_PROCESSES, MAX_SOCKETS, MAX_WEIGHT,
    SHORTEST_CHECK,
};
use crate::kinds::router::Router;
use crate::kinds::vm::Machine;
use crate::kinds::{router, vm};
use crate::lab::{Health, Program, Ready};
use crate::naming::{host_name_problem, inner_path_problem, is_closed};
use crate::plan::PlannedNode;

/// The longest time that a lab file can say.
const LONGEST: Duration = Duration::from_secs(86_400_000);

/// The most of small things of a node: addresses of loopback, ports.
const MOST_SMALL: usize = 256;

/// Checks everything about a node but its links.
pub(super) fn check(node: &PlannedNode) -> Checked {
    check_bounds(node)?;
    if let Some(problem) = node.hostname.as_deref().and_then(host_name_problem) {
        return no(problem);
    }
    at_most(node.loopback.len(), MOST_SMALL, "loopback addresses")?;
    at_most(node.ports.len(), MOST_SMALL, "ports")?;
    let root = node.root.as_deref().and_then(std::path::Path::to_str);
    if root.is_some_and(|root| root.is_empty() || root.contains('\0')) {
        return no("root cannot be a path");
    }
    if node.ports.iter().any(|port| port.port == 0 || port.to == 0) {
        return no("a port is 0");
    }
    for words in &node.setup {
        check_command(words)?;
    }
    for program in node.run.iter().chain(node.exec.iter().map(|exec| &exec.program)) {
        check_program(program)?;
    }
    if node.exec.iter().any(|exec| exec.timeout > LONGEST) {
        return no("exec: a timeout is longer than any");
    }
    check_ready(&node.ready)?;
    node.health.as_ref().map_or(Ok(()), check_health)?;
    check_env(node)?;
    check_paths(node)?;
    node.kind.as_vm().map_or(Ok(()), check_machine)?;
    node.kind.as_router().map_or(Ok(()), check_router)
}

fn check_bounds(node: &PlannedNode) -> Checked {
    let (limits, protect) = (&node.limits, &node.protect);
    let within = |what: &str, value: Option<u64>, low: u64, high: i64| {
        let high = u64::try_from(high).unwrap_or(u64::MAX);
        match value.filter(|value| !(low..=high).contains(value)) {
            Some(value) => no(format!("{what}: {value} is not from {low} to {high}")),
            None => Ok(()),
        }
    };
    let number = |value: Option<u32>| value.map(u64::from);
    let nodes = i64::try_from(MAX_NODES).unwrap_or(i64::MAX);
    within("children", number(node.children), 0, nodes)?;
    within("limits.cpu", number(limits.cpu_milli), LEAST_CPU.into(), i64::MAX)?;
    within("limits.memory", limits.memory, LEAST_MEMORY, i64::MAX)?;
    within("limits.weight", number(limits.weight), 1, MAX_WEIGHT)?;
    within("limits.processes", number(limits.processes), 1, MAX_PROCESSES)?;
    within("limits.sockets", number(limits.sockets), 1, MAX_SOCKETS)?;
    within("protect.packets", protect.packets, 1, i64::MAX)?;
    within("protect.bytes", protect.bytes, LEAST_BYTES, i64::MAX)?;
    within("storage", node.storage, LEAST_MEMORY, i64::MAX)
}

/// An argument list that names a program.
fn check_command(words: &[String]) -> Checked {
    if words.first().is_none_or(String::is_empty) {
        return no("a command names no program");
    }
    texts(words.iter().map(String::as_str), "an argument")
}

/// Texts that the kernel takes end at a zero.
fn texts<'t>(mut all: impl Iterator<Item = &'t str>, what: &str) -> Checked {
    if all.any(|text| text.contains('\0')) {
        no(format!("{what} holds a NUL character"))
    } else {
        Ok(())
    }
}

fn check_program(program: &Program) -> Checked {
    check_command(&program.command)?;
    let (user, group) = (program.user.as_deref(), program.group.as_deref());
    texts(user.into_iter().chain(group).chain(program.workdir.as_deref()), "a program")?;
    if user == Some("") || group == Some("") {
        return no("a program's user or group has no name");
    }
    match &program.workdir {
        Some(path) if !path.starts_with('/') => {
            no(format!("the directory {path:?} is not absolute"))
        }
        _ => Ok(()),
    }
}

fn check_ready(ready: &Ready) -> Checked {
    ready.exec.as_deref().map_or(Ok(()), check_command)?;
    if ready.tcp.contains(&0) || ready.timeout > LONGEST {
        return no("ready: a port is 0, or the timeout longer than any");
    }
    ready.files.iter().try_for_each(|path| check_inner(path))
}

fn check_health(health: &Health) -> Checked {
    check_ready(&health.check)?;
    let times = [health.interval, health.check.timeout];
    let wrong = times.iter().any(|time| !(SHORTEST_CHECK..=LONGEST).contains(time));
    if wrong || !(1..=1000).contains(&health.retries) {
        return no("health: a time or the number of retries cannot be used");
    }
    Ok(())
}

fn check_env(node: &PlannedNode) -> Checked {
    for pair in node.env.windows(2) {
        match pair[0].0.cmp(&pair[1].0) {
            Ordering::Less => {}
            Ordering::Equal => return no(format!("there are two of the variable {:?}", pair[0].0)),
            Ordering::Greater => return no("variables are not in the order of their names"),
        }
    }
    for (name, value) in &node.env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return no(format!("{name:?} cannot name a variable"));
        }
        texts([value.as_str()].into_iter(), "a variable")?;
    }
    for (path, value) in &node.sysctls {
        // Other trees of `/proc/sys` belong to the whole machine, not to a network namespace.
        let inner = path.strip_prefix('-').unwrap_or(path).strip_prefix("net/");
        // The path is joined to `/proc/sys`; `..` would lead out of it.
        let part = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
        if !inner.is_some_and(|inner| inner.split('/').all(part)) {
            return no(format!("{path:?} is not a sysctl of a node"));
        }
        texts([value.as_str()].into_iter(), "a sysctl")?;
    }
    Ok(())
}

fn check_paths(node: &PlannedNode) -> Checked {
    let mut paths = Once::new();
    for file in &node.files {
        paths.take(file.path.as_str(), "file")?;
        check_inner(&file.path)?;
        if file.mode > 0o7777 {
            return no(format!("the mode of {:?} has more than permission bits", file.path));
        }
        texts(file.owner.as_deref().into_iter().chain(file.group.as_deref()), "an owner")?;
    }
    let mut paths = Once::new();
    for bind in &node.binds {
        paths.take(bind.to.as_str(), "bind")?;
        check_inner(&bind.to)?;
        if is_closed(&bind.to) {
            return no("/proc, /sys and /dev are the node's own");
        }
        texts(bind.from.to_str().into_iter(), "a bind")?;
    }
    Ok(())
}

/// A path in the node.
fn check_inner(path: &str) -> Checked {
    match inner_path_problem(path) {
        Some(problem) => no(format!("the path {path:?} {problem}")),
        None => Ok(()),
    }
}

fn check_machine(machine: &Machine) -> Checked {
    if !vm::MEMORIES.contains(&machine.memory) || !vm::CPUS.contains(&machine.cpus.into()) {
        return no("a machine cannot have this much memory or this many processors");
    }
    let words = machine.qemu.iter().map(String::as_str).chain([machine.append.as_str()]);
    texts(words, "a word for a machine")?;
    texts(machine.files().filter_map(|(_, path)| path.to_str()), "a machine's file")
}

fn check_router(router: &Router) -> Checked {
    if Duration::from_secs(router.grace.into()) > router::MOST_GRACE {
        return no("grace: routes stay for 30m at most");
    }
    if let Some(ospf) = &router.ospf {
        let area = ospf.area.as_str();
        let known = area.parse::<u32>().is_ok() || area.parse::<std::net::Ipv4Addr>().is_ok();
        // It goes into FRR's configuration as it is, so nothing but an area may be in it.
        if !known || !area.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return no(format!("ospf: {area:?} is not an area"));
        }
        // FRR's commands take both from 1 on.
        if ospf.hello == 0 || ospf.dead == 0 {
            return no("ospf: a time is 0");
        }
    }
    if router.bgp.as_ref().is_some_and(|bgp| bgp.system == 0 || bgp.keepalive == 0) {
        return no("bgp: a number is 0");
    }
    match router.config.keys().find(|name| !router::PROGRAMS.contains(&name.as_str())) {
        Some(name) => no(format!("config: {name:?} is not a daemon of FRR")),
        None => Ok(()),
    }
}
