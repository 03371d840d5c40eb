//! Slices in a file of their own, for switches that are in no lab.
//!
//! Beside `slices`, as in a lab file, it has `switches`: each with the number by which it is known, and names for its
//! ports. Ports without a name are given by number.

use std::collections::BTreeMap;

use netloom_config::{Diagnostics, Kind, Node as Yaml, Path, Place, Report, load, quote, read};

use super::Slice;
use super::check::Switches;
use super::keys::{POLICY, POLICY_SWITCH};
use crate::file::Fields;
use crate::kinds::openflow::DatapathId;

/// A file with slices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyFile {
    /// Its switches by name.
    pub switches: BTreeMap<String, PolicySwitch>,
    /// Its slices, in the order of the file.
    pub slices: Vec<Slice>,
}

/// A switch of such a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicySwitch {
    /// Its number; none: whichever connects that no other of the file is.
    pub datapath: Option<DatapathId>,
    /// Names of its ports.
    pub ports: BTreeMap<String, u32>,
}

/// Reads such a file. `file` is its name for messages.
///
/// # Errors
/// Every error of the file, in order of place.
pub fn policy(file: &str, text: &[u8]) -> Result<PolicyFile, Diagnostics> {
    let mut report = Report::new(file);
    let read = load(text, &mut report).and_then(|tree| whole(&tree, &mut report));
    match read {
        Some(policy) if report.is_empty() => Ok(policy),
        _ => Err(report.finish()),
    }
}

fn whole(tree: &Yaml, report: &mut Report) -> Option<PolicyFile> {
    if tree.is_null() {
        let help = "a file of slices has `switches` and `slices`".to_owned();
        report.error_with(Place::START, "the file is empty", Some(help));
        return None;
    }
    let fields = Fields::open(tree, &Path::Root, &POLICY, report)?;
    let path = Path::Root.key("switches");
    let switches = fields.get("switches").map(|value| switches(value, &path, report));
    let switches = switches.unwrap_or_default();
    let raw = match fields.get("slices") {
        Some(value) => super::read(value, &Path::Root.key("slices"), report),
        None => super::RawSlices::default(),
    };
    let around = Switches {
        known: switches.keys().map(String::as_str).collect(),
        problem: &|_| None,
        port: &|switch, port| port_of(&switches, switch, port),
    };
    // Every name counts as a node here: `refuse_nodes` says better what is wrong with one.
    let slices = raw.finish(&around, &|_| true, report);
    refuse_nodes(&slices, report);
    Some(PolicyFile { switches, slices })
}

fn port_of(
    switches: &BTreeMap<String, PolicySwitch>,
    switch: &str,
    port: &str,
) -> Result<(String, u32), String> {
    let known = switches.get(switch).and_then(|switch| switch.ports.get(port)).copied();
    let number = known.or_else(|| number(port)).ok_or_else(|| {
        format!(
            "switch {} has no name {}; ports are numbers, or names given there",
            quote(switch),
            quote(port)
        )
    })?;
    // By number, so that two names of a port are one.
    Ok((number.to_string(), number))
}

/// The number of a port: below those that are reserved in either version, or LOCAL's.
pub(super) fn number(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<u32>().ok().filter(|number| plain && (1..0xffff_ff00).contains(number))
}

fn switches(value: &Yaml, path: &Path<'_>, report: &mut Report) -> BTreeMap<String, PolicySwitch> {
    let mut all = BTreeMap::new();
    let Kind::Map(entries) = &value.kind else {
        read::expected(value, path, "a map from names to switches", report);
        return all;
    };
    let mut taken: BTreeMap<Option<u64>, u32> = BTreeMap::new();
    for entry in entries {
        let path = path.key(&entry.key);
        let Some(fields) = Fields::open(&entry.value, &path, &POLICY_SWITCH, report) else {
            continue;
        };
        let mut switch = PolicySwitch::default();
        if let Some(value) = fields.get("datapath") {
            switch.datapath = read::scalar(value).and_then(|text| text.parse().ok());
            if switch.datapath.is_none() {
                let what = "a datapath id, 64 bits and not 0, like 0x1 or 00:00:00:00:00:00:00:01";
                read::expected(value, &path.key("datapath"), what, report);
            }
        }
        // At most one switch may leave its number open: else it would be chance which is which.
        if let Some(line) = taken.insert(switch.datapath.map(DatapathId::get), entry.place.line) {
            let message = match switch.datapath {
                Some(id) => format!("datapath: {id} is taken on line {line}"),
                None => format!("without `datapath` it is the same as the switch on line {line}"),
            };
            report.error(entry.place, message);
        }
        if let Some(value) = fields.get("ports") {
            switch.ports = ports(value, &path.key("ports"), report);
        }
        all.insert(entry.key.clone(), switch);
    }
    all
}

fn ports(value: &Yaml, path: &Path<'_>, report: &mut Report) -> BTreeMap<String, u32> {
    let mut all = BTreeMap::new();
    let Kind::Map(entries) = &value.kind else {
        read::expected(value, path, "a map from names to numbers of ports", report);
        return all;
    };
    for entry in entries {
        match read::scalar(&entry.value).and_then(number) {
            Some(number) => _ = all.insert(entry.key.clone(), number),
            None => read::expected(&entry.value, &path.key(&entry.key), "a port's number", report),
        }
    }
    all
}

/// Outside a lab there are no nodes.
fn refuse_nodes(slices: &[Slice], report: &mut Report) {
    for slice in slices {
        if let Some(node) = slice.nodes().next() {
            let help = "give its address: tcp:ADDRESS[:PORT], host[:PORT] or unix:PATH".to_owned();
            let message =
                format!("slice {}: node:{node}: only a lab has nodes", quote(&slice.name));
            report.error_with(Place::START, message, Some(help));
        }
    }
}
