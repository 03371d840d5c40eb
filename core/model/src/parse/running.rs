//! Settings of a running lab, as texts from command lines and the API.
//!
//! They are read by the file's own readers: a text means here what it means there, and is refused in the same
//! words. `none` takes a setting of a node away. Impairments of links are texts in the file, too, and are read by
//! [`crate::impairment`] in both places.

use ipnet::IpNet;
use netloom_bridge::Mac;
use netloom_config::{Entry, Kind, Node as Yaml, Path, Place, Report, read, resolve};

use super::link::addresses_of_end;
use super::node_bounds::{budget, children_limit, ids, limit, protect_word};
use super::switch::switch;
use crate::file::values;
use crate::keys::{LIMITS, NODE, PROTECT, SWITCH};
use crate::kinds::{Around, SwitchKind, shm};
use crate::misread::unknown_key;
use crate::setting::Settings;

/// Keys of a switch that are about its segment or are not single values: only the file has them.
const ONLY_IN_FILES: [&str; 8] = ["subnet", "mtu", "for", "if", "ports", "mirrors", "tls", "stp"];

/// The keys of [`set_node`].
pub fn node_keys() -> impl Iterator<Item = &'static str> {
    let bounds = LIMITS.names().chain(PROTECT.names());
    bounds.chain(["protect", "charge-receive", "children", "privileged", "ids"])
}

/// The keys of [`switch_kind`].
pub fn switch_keys() -> impl Iterator<Item = &'static str> {
    SWITCH.names().filter(|key| !ONLY_IN_FILES.contains(key))
}

/// Sets one of [`node_keys`]; `none` takes it away.
///
/// # Errors
/// The key and what may stand there; nothing is set then.
pub fn set_node(settings: &mut Settings, key: &str, text: &str) -> Result<(), String> {
    if !node_keys().any(|known| known == key) {
        return Err(no_setting(key));
    }
    // A copy, so that a text that is wrong in its second half changes nothing.
    let mut new = settings.clone();
    value(key, text, |value, path, report| {
        let value = (text != "none").then_some(value);
        let mut boolean = || value.and_then(|v| read::boolean(v, path, report));
        match key {
            "charge-receive" => new.charge_receive = boolean(),
            "protect" => {
                let read = value.and_then(|v| protect_word(v, path, report));
                new.protect = read.unwrap_or_default();
            }
            "privileged" => new.privileged = boolean().unwrap_or_default(),
            "ids" => new.ids = value.and_then(|v| ids(v, path, report)),
            "children" => new.children = value.and_then(|v| children_limit(v, path, report)),
            _ if PROTECT.names().any(|of| of == key) => {
                budget(&mut new.protect, key, value, path, report);
            }
            _ => limit(&mut new.limits, key, value, path, report),
        }
    })?;
    *settings = new;
    Ok(())
}

/// Why a key is none of a node's settings.
fn no_setting(key: &str) -> String {
    let keys: Vec<&str> = node_keys().collect();
    if NODE.names().any(|of| of == key) {
        return format!("{key}: cannot be given in a running lab; keys: {}", keys.join(", "));
    }
    unknown_key(key, &keys).to_string()
}

/// The kind of a switch that is made in a running lab, from settings by key and value, of a kind that a process runs
/// (`shm` where none is given). `is_node` tells whether the lab has a node of a name.
///
/// # Errors
/// The first setting that is wrong, and what may stand there.
pub fn switch_kind(
    name: &str,
    settings: &[(String, String)],
    is_node: &dyn Fn(&str) -> bool,
) -> Result<SwitchKind, String> {
    let mut entries: Vec<Entry> = Vec::with_capacity(settings.len() + 1);
    let entry = |key: &str, text: &str| Entry {
        key: key.to_owned(),
        place: Place::START,
        value: one(text),
    };
    for (key, text) in settings {
        if ONLY_IN_FILES.contains(&key.as_str()) {
            return Err(format!("{key}: cannot be given to a switch of a running lab"));
        }
        // The reader of files never sees a key twice, and would take the first one.
        if entries.iter().any(|known| known.key == *key) {
            return Err(format!("{key}: given twice"));
        }
        entries.push(entry(key, text));
    }
    if !settings.iter().any(|(key, _)| key == "kind") {
        entries.push(entry("kind", shm::WORD));
    }
    let map = Yaml { place: Place::START, kind: Kind::Map(entries), text: String::new() };
    let mut report = Report::new("");
    let body = switch(name, &map, &Path::Root, &mut report);
    // A new switch has no links yet.
    let around = Around { name, place: Place::START, ends: &[], is_taken: &|_| false, is_node };
    let kind = body.kind.finish(&around, &mut report);
    match first_problem(report) {
        None if kind.is_process() => Ok(kind),
        None => Err(format!("kind: {} cannot be made in a running lab", kind.word())),
        Some(problem) => Err(problem),
    }
}

/// The MTU of a link.
///
/// # Errors
/// What may stand there.
pub fn link_mtu(text: &str) -> Result<u32, String> {
    some("mtu", value("mtu", text, values::mtu)?)
}

/// The addresses of a link's end, and whether it is to have none: one text, or one for each family.
///
/// # Errors
/// What may stand there.
pub fn link_addresses(end: &str, texts: &[&str]) -> Result<(Vec<IpNet>, bool), String> {
    let node = one_or_list(texts);
    let mut report = Report::new("");
    let read = addresses_of_end(&node, &Path::Root.key("addresses").key(end), &mut report);
    let (found, bare) = match first_problem(report) {
        Some(problem) => return Err(problem),
        None => some("addresses", read)?,
    };
    Ok((found.into_iter().map(|address| address.value).collect(), bare))
}

/// The hardware address of a link's end.
///
/// # Errors
/// What may stand there.
pub fn link_mac(end: &str, texts: &[&str]) -> Result<[u8; 6], String> {
    let [text] = texts else { return Err(format!("mac: more than one for {end:?}")) };
    match text.parse::<Mac>() {
        Ok(mac) if mac.is_station() => Ok(mac.0),
        Ok(_) => Err(format!("mac: {text} is not an address of an interface")),
        Err(e) => Err(format!("mac: {e}")),
    }
}

/// The source addresses to which a switch's port is locked, separated by commas.
///
/// # Errors
/// What may stand there.
pub fn port_lock(text: &str) -> Result<Vec<Mac>, String> {
    let list = one_or_list(&text.split(',').map(str::trim).collect::<Vec<_>>());
    let (mut report, mut own) = (Report::new(""), None);
    let locked = shm::lock(&list, &Path::Root.key("lock"), &mut own, &mut report);
    if let Some(problem) = first_problem(report) {
        return Err(problem);
    }
    if own.is_some() {
        return Err("lock: `own` can be given in the lab file only".to_owned());
    }
    locked.iter().map(|mac| mac.parse().map_err(|e| format!("lock: {e}"))).collect()
}

/// A VLAN of a switch's port.
///
/// # Errors
/// What may stand there.
pub fn port_vlan(text: &str) -> Result<u16, String> {
    some("vlan", value("vlan", text, shm::vid)?)
}

/// A text as it would stand in the file.
fn one(text: &str) -> Yaml {
    Yaml { place: Place::START, kind: resolve(text), text: text.to_owned() }
}

/// A text, or a list of several.
fn one_or_list(texts: &[&str]) -> Yaml {
    if let [text] = texts {
        return one(text);
    }
    let items = texts.iter().map(|text| one(text)).collect();
    Yaml { place: Place::START, kind: Kind::Seq(items), text: String::new() }
}

/// Reads a text as the value of a key of the file.
fn value<T>(
    key: &str,
    text: &str,
    reader: impl FnOnce(&Yaml, &Path<'_>, &mut Report) -> T,
) -> Result<T, String> {
    let mut report = Report::new("");
    let read = reader(&one(text), &Path::Root.key(key), &mut report);
    first_problem(report).map_or(Ok(read), Err)
}

/// A reader that gives nothing has said why; should one not, the key is named.
fn some<T>(key: &str, read: Option<T>) -> Result<T, String> {
    read.ok_or_else(|| format!("{key}: cannot be read"))
}

/// What a report has first, with its help, on one line.
fn first_problem(report: Report) -> Option<String> {
    let wrong = report.finish().list.into_iter().next()?;
    Some(match wrong.help {
        Some(help) => format!("{}; {help}", wrong.message),
        None => wrong.message,
    })
}

#[cfg(test)]
mod tests;
