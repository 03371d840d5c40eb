//! Reads a node's bounds: `limits`, `protect`, `charge-receive`, `storage`, `privileged`, and the limit of
//! `children`.

use netloom_config::{Node as Yaml, Path, Place, Report, read};

use super::keys::{CHILDREN, LIMITS, PROTECT};
use super::raw::NodeBody;
use crate::bounds::{
    LEAST_BYTES, LEAST_CPU, LEAST_MEMORY, MAX_NODES, MAX_PROCESSES, MAX_SOCKETS, MAX_WEIGHT,
};
use crate::file::Fields;
use crate::lab::{Limits, Protect};

/// Reads these keys of a node; invalid values keep their default.
pub(crate) fn read_bounds(
    fields: &Fields<'_>,
    path: &Path<'_>,
    body: &mut NodeBody,
    report: &mut Report,
) {
    if let Some(value) = fields.get("limits") {
        body.node.limits = limits(value, &path.key("limits"), &mut body.limits, report);
    }
    if let Some(value) = fields.get("protect") {
        body.node.protect = protect(value, &path.key("protect"), report);
    }
    if let Some(value) = fields.get("charge-receive") {
        body.node.charge_receive = read::boolean(value, &path.key("charge-receive"), report);
    }
    if let Some(value) = fields.get("storage") {
        body.node.storage = memory(value, &path.key("storage"), report);
    }
    if let Some(value) = fields.get("privileged") {
        body.node.privileged =
            read::boolean(value, &path.key("privileged"), report).unwrap_or_default();
        body.privileged = Some(value.place);
    }
    if let Some(value) = fields.get("children") {
        let path = path.key("children");
        body.node.children = Some(0);
        let Some(fields) = Fields::open(value, &path, &CHILDREN, report) else { return };
        let Some(value) = fields.get("limit") else { return };
        if let Some(limit) = count(value, &path.key("limit"), 0, most_children(), report) {
            body.node.children = Some(limit);
            body.children = Some(value.place);
        }
    }
}

fn most_children() -> i64 {
    i64::try_from(MAX_NODES).unwrap_or(i64::MAX)
}

fn count(value: &Yaml, path: &Path<'_>, low: i64, high: i64, report: &mut Report) -> Option<u32> {
    read::integer(value, path, low..=high, report).and_then(|n| u32::try_from(n).ok())
}

fn limits(
    value: &Yaml,
    path: &Path<'_>,
    places: &mut Vec<(&'static str, Place)>,
    report: &mut Report,
) -> Limits {
    let mut limits = Limits::default();
    let Some(fields) = Fields::open(value, path, &LIMITS, report) else { return limits };
    let all = ["cpu", "memory", "processes", "sockets"];
    places.extend(all.iter().filter_map(|key| Some((*key, fields.get(key)?.place))));
    if let Some(value) = fields.get("cpu") {
        let path = path.key("cpu");
        limits.cpu_milli = read::cpu_milli(value, &path, report);
        if limits.cpu_milli.is_some_and(|milli| milli < LEAST_CPU) {
            at_least("1% of a CPU", value, &path, report);
        }
    }
    if let Some(value) = fields.get("memory") {
        limits.memory = memory(value, &path.key("memory"), report);
    }
    let mut read = |key, most| {
        let value = fields.get(key)?;
        count(value, &path.key(key), 1, most, report)
    };
    limits.processes = read("processes", MAX_PROCESSES);
    limits.weight = read("weight", MAX_WEIGHT);
    limits.sockets = read("sockets", MAX_SOCKETS);
    limits
}

/// A size of at least a usable minimum.
fn memory(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<u64> {
    let bytes = read::bytes(value, path, report);
    if bytes.is_some_and(|bytes| bytes < LEAST_MEMORY) {
        at_least("1MiB", value, path, report);
    }
    bytes
}

fn at_least(least: &str, value: &Yaml, path: &Path<'_>, report: &mut Report) {
    let found = value.describe();
    report.error(value.place, format!("{path}: at least {least} is needed, found {found}"));
}

fn protect(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Protect {
    let mut protect = Protect::default();
    let Some(fields) = Fields::open(value, path, &PROTECT, report) else { return protect };
    if let Some(value) = fields.get("packets") {
        let path = path.key("packets");
        protect.packets = read::packet_rate(value, &path, report);
        if protect.packets == Some(0) {
            at_least("one packet per second", value, &path, report);
        }
    }
    if let Some(value) = fields.get("bytes") {
        let path = path.key("bytes");
        protect.bytes = read::byte_rate(value, &path, report);
        if protect.bytes.is_some_and(|bytes| bytes < LEAST_BYTES) {
            at_least("10kB/s", value, &path, report);
        }
    }
    protect
}
