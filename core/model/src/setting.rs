//! Settings of a running node, and the limits that a node may have inside another.
//!
//! [`crate::set_node`] reads them as text. Whether the machine can satisfy them is not checked.

use netloom_config::quote;

use crate::lab::{Limits, NodeSpec, Protect, charges_by_default};
use crate::users::Ids;

/// The settings of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Limits on its processes together.
    pub limits: Limits,
    /// The budget of frames to it.
    pub protect: Protect,
    /// Whether receive work is charged to it; `None`: if it is protected or its CPU is
    /// limited.
    pub charge_receive: Option<bool>,
    /// Maximum number of nodes in it; `None`: it cannot have any.
    pub children: Option<u32>,
    /// Whether its programs have more capabilities than those of ordinary nodes.
    pub privileged: bool,
    /// Its users and groups; `None`: the best that the machine gives.
    pub ids: Option<Ids>,
}

impl Settings {
    /// The settings of a node. `charge_receive` is `None` where it equals the default.
    pub fn of(node: &NodeSpec) -> Settings {
        let by_default = charges_by_default(&node.limits, &node.protect);
        Settings {
            limits: node.limits.clone(),
            protect: node.protect,
            charge_receive: (node.charge_receive != by_default).then_some(node.charge_receive),
            children: node.children,
            privileged: node.privileged,
            ids: node.ids,
        }
    }

    /// Applies them to a node.
    pub fn put(self, node: &mut NodeSpec) {
        let by_default = charges_by_default(&self.limits, &self.protect);
        node.charge_receive = self.charge_receive.unwrap_or(by_default);
        node.limits = self.limits;
        node.protect = self.protect;
        node.children = self.children;
        node.privileged = self.privileged;
        node.ids = self.ids;
    }
}

/// Refuses a privileged node inside an unprivileged one: a program that controls the outer one reaches the programs
/// of the inner.
///
/// # Errors
/// Both nodes, in words.
pub(crate) fn may_be_privileged(
    (node, inner): (&str, bool),
    (parent, outer): (&str, bool),
) -> Result<(), String> {
    if outer || !inner {
        return Ok(());
    }
    let (node, parent) = (quote(node), quote(parent));
    Err(format!("privileged: node {node} lives in node {parent}, which is not privileged"))
}

/// Refuses limits of a node above those of its parent, and other settings that the parent lacks.
///
/// # Errors
/// The limit with both values, and the parent's name.
pub fn check_bounds(node: &NodeSpec, parent: &NodeSpec) -> Result<(), String> {
    may_be_privileged((&node.name, node.privileged), (&parent.name, parent.privileged))?;
    match excess(&node.limits, &parent.limits).first() {
        None => Ok(()),
        Some(excess) => Err(excess.told(&node.name, &parent.name)),
    }
}

/// A limit above the parent's.
pub(crate) struct Excess {
    pub(crate) key: &'static str,
    asked: String,
    bound: String,
}

impl Excess {
    /// In words.
    pub(crate) fn told(&self, node: &str, parent: &str) -> String {
        let Excess { key, asked, bound } = self;
        format!(
            "{key}: {asked} for node {} is more than the {bound} of node {}, which it lives in",
            quote(node),
            quote(parent)
        )
    }
}

/// Which limits are above the parent's; a limit absent on either side is not compared.
pub(crate) fn excess(inner: &Limits, outer: &Limits) -> Vec<Excess> {
    fn over<T: PartialOrd + Copy>(
        key: &'static str,
        pair: (Option<T>, Option<T>),
        shown: impl Fn(T) -> String,
    ) -> Option<Excess> {
        // The parent's cgroup holds for what is in it anyway, also where the inner node names no
        // limit.
        let (Some(inner), Some(outer)) = pair else { return None };
        (inner > outer).then(|| Excess { key, asked: shown(inner), bound: shown(outer) })
    }
    let plain = |n: u32| n.to_string();
    let all = [
        over("cpu", (inner.cpu_milli, outer.cpu_milli), cpu_text),
        over("memory", (inner.memory, outer.memory), memory_text),
        over("processes", (inner.processes, outer.processes), plain),
        over("sockets", (inner.sockets, outer.sockets), plain),
    ];
    all.into_iter().flatten().collect()
}

pub(crate) fn cpu_text(milli: u32) -> String {
    match milli % 10 {
        0 => format!("{}%", milli / 10),
        tenths => format!("{}.{tenths}%", milli / 10),
    }
}

pub(crate) fn memory_text(bytes: u64) -> String {
    in_whole_units(bytes).unwrap_or_else(|| format!("{bytes} bytes"))
}

/// A number of bytes in the largest unit that it is a whole number of, if it is one of any.
pub(crate) fn in_whole_units(bytes: u64) -> Option<String> {
    const UNITS: [(&str, u64); 6] = [
        ("GiB", 1 << 30),
        ("GB", 1_000_000_000),
        ("MiB", 1 << 20),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
        ("kB", 1000),
    ];
    let (unit, size) =
        UNITS.iter().find(|(_, size)| bytes >= *size && bytes.is_multiple_of(*size))?;
    Some(format!("{}{unit}", bytes / size))
}

#[cfg(test)]
mod tests;
