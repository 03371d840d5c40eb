//! Settings of a running node as text: `cpu` -> `50%`.
//!
//! The same values as in a lab file, key by key, for command lines and the API. `none` removes a bound.
//! Whether the machine can satisfy them is not checked.

use netloom_config::{likely, quote, units};

use crate::bounds::{
    LEAST_BYTES, LEAST_CPU, LEAST_MEMORY, MAX_NODES, MAX_PROCESSES, MAX_SOCKETS, MAX_WEIGHT,
};
use crate::lab::{Limits, Protect};
use crate::misread::{Misread, found, unknown_key};
use crate::plan::{PlannedNode, charges_by_default};

/// The keys of [`set_node`].
pub const NODE_KEYS: &[&str] = &[
    "cpu",
    "weight",
    "memory",
    "processes",
    "sockets",
    "packets",
    "bytes",
    "charge-receive",
    "children",
    "privileged",
];

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
}

impl Settings {
    /// The settings of a node. `charge_receive` is `None` where it equals the default.
    pub fn of(node: &PlannedNode) -> Settings {
        let by_default = charges_by_default(&node.limits, &node.protect);
        Settings {
            limits: node.limits.clone(),
            protect: node.protect,
            charge_receive: (node.charge_receive != by_default).then_some(node.charge_receive),
            children: node.children,
            privileged: node.privileged,
        }
    }

    /// Applies them to a node.
    pub fn put(self, node: &mut PlannedNode) {
        let by_default = charges_by_default(&self.limits, &self.protect);
        node.charge_receive = self.charge_receive.unwrap_or(by_default);
        node.limits = self.limits;
        node.protect = self.protect;
        node.children = self.children;
        node.privileged = self.privileged;
    }
}

/// Sets one of [`NODE_KEYS`]; `none` removes it.
///
/// # Errors
/// The key, and its valid values.
pub fn set_node(settings: &mut Settings, key: &str, text: &str) -> Result<(), String> {
    let Settings { limits, protect, charge_receive, children, privileged } = settings;
    let set = match key {
        "cpu" => put(&mut limits.cpu_milli, text, cpu),
        "weight" => put(&mut limits.weight, text, |t| count(t, 1, MAX_WEIGHT)),
        "memory" => put(&mut limits.memory, text, memory),
        "processes" => put(&mut limits.processes, text, |t| count(t, 1, MAX_PROCESSES)),
        "sockets" => put(&mut limits.sockets, text, |t| count(t, 1, MAX_SOCKETS)),
        "packets" => put(&mut protect.packets, text, packets),
        "bytes" => put(&mut protect.bytes, text, bytes),
        "charge-receive" => put(charge_receive, text, boolean),
        "children" => {
            put(children, text, |t| count(t, 0, i64::try_from(MAX_NODES).unwrap_or(i64::MAX)))
        }
        "privileged" => {
            let mut value = None;
            put(&mut value, text, boolean).map(|()| *privileged = value.unwrap_or_default())
        }
        _ => return Err(unknown_key(key, NODE_KEYS).to_string()),
    };
    set.map_err(|problem| format!("{key}: {problem}"))
}

/// Refuses a privileged node inside an unprivileged one: whoever controls the outer one reaches the programs
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
pub fn check_bounds(node: &PlannedNode, parent: &PlannedNode) -> Result<(), String> {
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
    const UNITS: [(&str, u64); 6] = [
        ("GiB", 1 << 30),
        ("GB", 1_000_000_000),
        ("MiB", 1 << 20),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
        ("kB", 1000),
    ];
    match UNITS.iter().find(|(_, size)| bytes >= *size && bytes.is_multiple_of(*size)) {
        Some((unit, size)) => format!("{}{unit}", bytes / size),
        None => format!("{bytes} bytes"),
    }
}

/// Reads a value, or `none`.
fn put<T>(
    into: &mut Option<T>,
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, Misread>,
) -> Result<(), Misread> {
    *into = if text == "none" { None } else { Some(parse(text)?) };
    Ok(())
}

fn cpu(text: &str) -> Result<u32, Misread> {
    let milli = units::cpu_milli(text).ok_or_else(|| {
        Misread::expected("a share of CPUs like 50% or 1.5, or none", text).with(likely::cpu(text))
    })?;
    match milli {
        LEAST_CPU.. => Ok(milli),
        _ => Err(format!("at least 1% of a CPU is needed, found {}", found(text)).into()),
    }
}

fn memory(text: &str) -> Result<u64, Misread> {
    let bytes = units::bytes(text).ok_or_else(|| {
        Misread::expected("a size like 256MiB, 1GB or 64k, or none", text).with(likely::bytes(text))
    })?;
    match bytes {
        LEAST_MEMORY.. => Ok(bytes),
        _ => Err(format!("at least 1MiB is needed, found {}", found(text)).into()),
    }
}

fn packets(text: &str) -> Result<u64, Misread> {
    let rate = units::packet_rate(text).filter(|rate| *rate > 0);
    let wanted = "packets per second like 200k/s, at least 1, or none";
    rate.ok_or_else(|| Misread::expected(wanted, text).with(likely::packet_rate(text)))
}

fn bytes(text: &str) -> Result<u64, Misread> {
    let rate = units::byte_rate(text).filter(|rate| *rate >= LEAST_BYTES);
    let wanted = "bytes per second like 1GB/s, at least 10kB/s, or none";
    rate.ok_or_else(|| Misread::expected(wanted, text).with(likely::byte_rate(text)))
}

fn boolean(text: &str) -> Result<bool, Misread> {
    text.parse().map_err(|_| Misread::expected("true, false or none", text))
}

fn count(text: &str, low: i64, high: i64) -> Result<u32, Misread> {
    let number = text.parse::<i64>().ok().filter(|n| (low..=high).contains(n));
    let number = number.and_then(|n| u32::try_from(n).ok());
    number.ok_or_else(|| {
        Misread::expected(&format!("a whole number from {low} to {high}, or none"), text)
    })
}

#[cfg(test)]
#[path = "setting_tests.rs"]
mod tests;
