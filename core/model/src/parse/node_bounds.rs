//! Reads a node's bounds: `limits`, `protect`, `charge-receive`, `storage`, `privileged`, `ids`, and the limit
//! of `children`.

use netloom_config::{Kind, Node as Yaml, Path, Place, Report, read, units};

use super::raw::NodeBody;
use crate::bounds::{
    LEAST_BYTES, LEAST_CPU, LEAST_MEMORY, MAX_NODES, MAX_PROCESSES, MAX_SOCKETS, MAX_WEIGHT,
};
use crate::file::Fields;
use crate::keys::{CHILDREN, LIMITS, PROTECT, RECORD};
use crate::lab::{Limits, Protect, Record, charges_by_default};
use crate::users::{Ids, WORDS};

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
    let given = fields.get("charge-receive");
    let given = given.and_then(|v| read::boolean(v, &path.key("charge-receive"), report));
    // After limits and protection, on which the default depends.
    let by_default = charges_by_default(&body.node.limits, &body.node.protect);
    body.node.charge_receive = given.unwrap_or(by_default);
    if let Some(value) = fields.get("storage") {
        body.node.storage = memory(value, &path.key("storage"), report);
    }
    if let Some(value) = fields.get("privileged") {
        body.node.privileged =
            read::boolean(value, &path.key("privileged"), report).unwrap_or_default();
        body.privileged = Some(value.place);
    }
    if let Some(value) = fields.get("ids") {
        body.node.ids = ids(value, &path.key("ids"), report);
    }
    if let Some(value) = fields.get("children") {
        let path = path.key("children");
        // No limit stands for as many as the file has; they are counted when all are read.
        body.node.children = Some(0);
        let Some(fields) = Fields::open(value, &path, &CHILDREN, report) else { return };
        let Some(value) = fields.get("limit") else { return };
        if let Some(limit) = children_limit(value, &path.key("limit"), report) {
            body.node.children = Some(limit);
            body.children = Some(value.place);
        }
    }
}

/// The users and groups of a node, or of the nodes of a lab.
pub(super) fn ids(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Ids> {
    read::choice(value, path, &WORDS, report).and_then(Ids::of_word)
}

/// How many nodes may live in a node.
pub(super) fn children_limit(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<u32> {
    count(value, path, 0, i64::try_from(MAX_NODES).unwrap_or(i64::MAX), report)
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
    for key in LIMITS.names() {
        if let Some(value) = fields.get(key) {
            limit(&mut limits, key, Some(value), &path.key(key), report);
        }
    }
    limits
}

/// Reads a key of `limits`; no value takes it away.
pub(super) fn limit(
    limits: &mut Limits,
    key: &str,
    value: Option<&Yaml>,
    path: &Path<'_>,
    report: &mut Report,
) {
    let mut number = |most| value.and_then(|v| count(v, path, 1, most, report));
    match key {
        "processes" => limits.processes = number(MAX_PROCESSES),
        "weight" => limits.weight = number(MAX_WEIGHT),
        "sockets" => limits.sockets = number(MAX_SOCKETS),
        "memory" => limits.memory = value.and_then(|v| memory(v, path, report)),
        _ => {
            limits.cpu_milli = value.and_then(|v| {
                bounded(read::cpu_milli, (LEAST_CPU, "1% of a CPU"), (v, path), report)
            })
        }
    }
}

/// Reads a CPU share, a size or a rate; one below `least`, which is `words` to a reader, is an error.
fn bounded<T: PartialOrd>(
    read: impl FnOnce(&Yaml, &Path<'_>, &mut Report) -> Option<T>,
    (least, words): (T, &str),
    (value, path): (&Yaml, &Path<'_>),
    report: &mut Report,
) -> Option<T> {
    let found = read(value, path, report);
    if found.as_ref().is_some_and(|found| *found < least) {
        let text = value.describe();
        report.error(value.place, format!("{path}: at least {words} is needed, found {text}"));
    }
    found
}

/// `record` of a lab: whether all links are recorded, and how much of that is kept.
pub(super) fn record(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Record> {
    let usual = Record { keep: Record::USUAL };
    if units::bytes(&value.text).is_some() {
        let message = format!("{path}: expected true, false or a map, found {}", value.describe());
        let help = format!("write {path}: {{keep: {}}}", value.text);
        report.error_with(value.place, message, Some(help));
        return None;
    }
    if !matches!(value.kind, Kind::Map(_)) {
        return read::boolean(value, path, report)?.then_some(usual);
    }
    let fields = Fields::open(value, path, &RECORD, report)?;
    let Some(value) = fields.get("keep") else { return Some(usual) };
    let keep = bounded(read::bytes, (Record::LEAST, "4MiB"), (value, &path.key("keep")), report)?;
    Some(Record { keep })
}

/// A size of at least a usable minimum.
fn memory(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<u64> {
    bounded(read::bytes, (LEAST_MEMORY, "1MiB"), (value, path), report)
}

fn protect(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Protect {
    let mut protect = Protect::default();
    if let Some(of_word) = protect_word(value, path, report) {
        return of_word;
    }
    let Some(fields) = Fields::open(value, path, &PROTECT, report) else { return protect };
    for key in PROTECT.names() {
        if let Some(value) = fields.get(key) {
            budget(&mut protect, key, Some(value), &path.key(key), report);
        }
    }
    protect
}

/// Reads `protect` where it is not a map, but `auto`, `off`, or packets per second.
pub(super) fn protect_word(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Protect> {
    let auto = |auto| Some(Protect { auto: Some(auto), ..Protect::default() });
    let is_number = value.text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    match (&value.kind, value.text.as_str()) {
        (Kind::Map(_), _) => None,
        (Kind::Str, "auto") => auto(true),
        (Kind::Str, "off") => auto(false),
        (Kind::Str | Kind::Int(_) | Kind::Float(_), _) if is_number => {
            Some(Protect { packets: packets(value, path, report), ..Protect::default() })
        }
        _ => {
            let found = value.describe();
            let expected = "auto, off, packets per second like 200k/s, or a map of protect keys";
            report.error(value.place, format!("{path}: expected {expected}, found {found}"));
            Some(Protect::default())
        }
    }
}

fn packets(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<u64> {
    bounded(read::packet_rate, (1, "one packet per second"), (value, path), report)
}

/// Reads a key of `protect`; no value takes it away.
pub(super) fn budget(
    protect: &mut Protect,
    key: &str,
    value: Option<&Yaml>,
    path: &Path<'_>,
    report: &mut Report,
) {
    match key {
        "packets" => protect.packets = value.and_then(|v| packets(v, path, report)),
        "auto" => protect.auto = value.and_then(|v| read::boolean(v, path, report)),
        _ => {
            let least = (LEAST_BYTES, "10kB/s");
            protect.bytes = value.and_then(|v| bounded(read::byte_rate, least, (v, path), report));
        }
    }
}
