//! Occupants of a node: processes beside its init, and sockets in its network namespace.
//!
//! Checked before a node is removed. A socket can be there without a process: its descriptor may have
//! been passed to a process elsewhere.

use std::collections::BTreeSet;

use netloom_model::plan::NodeId;
use netloom_netlink::diag::{self, SocketInfo};
use netloom_sys::cgroup::Groups;
use netloom_sys::namespace;
use netloom_sys::population::{self, Process};

use crate::stage::inits::Init;
use crate::stage::spaces::on_a_thread;
use crate::{Error, Result};

/// How many of each kind messages name.
const NAMED: usize = 5;

/// The occupants of a node.
pub(crate) struct Occupants {
    processes: Vec<Process>,
    sockets: Vec<SocketInfo>,
}

/// The occupants of `node` beside its init. Sockets with these inodes do not count: their holder lets go of the node by itself.
pub(crate) fn of(node: &str, init: &Init, yielding: &BTreeSet<u32>) -> Result<Occupants> {
    let object = format!("node {node:?}");
    let processes =
        population::of_init(init.pid).map_err(Error::of(&object, "list its processes"))?;
    let space = init.network(node)?;
    let mut sockets = on_a_thread(|| {
        namespace::enter_network(space).map_err(Error::of(&object, "look into"))?;
        diag::sockets().map_err(Error::of(&object, "list its sockets"))
    })?;
    sockets.retain(|socket| !yielding.contains(&socket.inode));
    Ok(Occupants { processes, sockets })
}

/// The number of sockets of all kinds in the network namespace of an init.
pub(crate) fn sockets_open(node: &str, init: &Init) -> Result<u64> {
    let space = init.network(node)?;
    on_a_thread(|| {
        namespace::enter_network(space).map_err(Error::of(node, "look into"))?;
        diag::in_use().map_err(Error::of(node, "count its sockets"))
    })
}

/// Ids on the host of a node's processes, its init among them: from its cgroups, else by its PID namespace.
pub(crate) fn pids(init: &Init, groups: &Groups, node: NodeId) -> Vec<i32> {
    let known = groups.processes(node.get());
    if !known.is_empty() {
        return known;
    }
    let found = population::of_init(init.pid).unwrap_or_default();
    let own = init.pid.as_raw_nonzero().get();
    std::iter::once(own).chain(found.into_iter().map(|p| p.pid)).collect()
}

impl Occupants {
    /// The occupants in words; `None` if there are none.
    pub(crate) fn words(&self) -> Option<String> {
        let processes = self.processes.iter().map(|p| format!("{} ({})", p.name, p.pid));
        let sockets = self.sockets.iter().map(ToString::to_string);
        let kinds = [
            part("process", "processes", processes.collect()),
            part("socket", "sockets", sockets.collect()),
        ];
        let words: Vec<String> = kinds.into_iter().flatten().collect();
        (!words.is_empty()).then(|| format!("still lives: {}", words.join("; ")))
    }
}

/// `2 processes: sleep (12), sh (13)`.
fn part(one: &str, many: &str, names: Vec<String>) -> Option<String> {
    let count = names.len();
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let rest = if count > NAMED { ", …" } else { "" };
    match count {
        0 => None,
        1 => Some(format!("1 {one}: {shown}")),
        _ => Some(format!("{count} {many}: {shown}{rest}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_counted_and_some_named() {
        let names: Vec<String> = (0..7).map(|i| format!("p{i}")).collect();
        assert_eq!(part("process", "processes", vec![]), None);
        assert_eq!(part("a", "as", vec!["x".into()]).as_deref(), Some("1 a: x"));
        let many = part("process", "processes", names);
        assert_eq!(many.as_deref(), Some("7 processes: p0, p1, p2, p3, p4, …"));
    }
}
