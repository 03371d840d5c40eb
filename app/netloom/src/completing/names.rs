//! Existing names: labs, and objects in the lab that a command line refers to.

use netloom_lab::call::Within;
use netloom_lab::calls::ShowPlan;
use netloom_lab::names::Names;
use netloom_lab::{Folder, runtime_dir};

use super::Typed;
use crate::labs;

/// Candidates for an argument of this kind.
pub(super) fn of_kind(kind: &str, typed: &Typed, current: &str) -> Vec<String> {
    let lab = || in_lab(typed.value("LAB"));
    let verb = typed.verb.as_str();
    let asked = |what: &str| vec![format!(":{what}")];
    match kind {
        "COMMAND" => [asked("commands"), asked("files")].concat(),
        "LAB" => labs_or_files(current),
        "FILE" | "HOSTS" => asked("files"),
        "DIR" | "FOLDER" => asked("folders"),
        "NODE" | "NODE|ADDRESS" => lab().nodes,
        "NODE|host" => [lab().nodes, vec!["host".to_owned()]].concat(),
        "IMAGE" => images(),
        "LINK" => [lab().links, lab().interfaces].concat(),
        "NODE:IFACE" => [lab().interfaces, of_host("host:")].concat(),
        "TARGET" => targets(lab()),
        "IFACE" => of_host(""),
        "SWITCH" if verb == "plug" => shared(lab()),
        "SWITCH" => lab().switches.into_iter().map(|(name, _)| name).collect(),
        "PORT" | "PORT[,PORT]" if verb.starts_with("switch") => {
            ports(lab(), typed.value("SWITCH"), current)
        }
        "SRC" | "DST" => paths(lab(), current),
        "KEY=VALUE" => settings(verb),
        _ => vec![],
    }
}

/// The images that are here.
fn images() -> Vec<String> {
    let store = netloom_container::Store::folder().ok().filter(|folder| folder.is_dir());
    let store = store.and_then(|folder| netloom_container::Store::open(&folder).ok());
    store.map_or_else(Vec::new, |store| netloom_container::keeping::names(&store))
}

/// Running labs, and files: a lab may be named by its file too.
fn labs_or_files(current: &str) -> Vec<String> {
    let labs = runtime_dir().and_then(|runtime| Folder::all(&runtime)).unwrap_or_default();
    let labs: Vec<_> = labs.iter().map(Folder::name).filter(|n| n.starts_with(current)).collect();
    // Files only when no lab fits: else the labs would be lost among the files of the folder.
    match labs.is_empty() && !current.is_empty() {
        true => vec![":files".to_owned()],
        false => labs.into_iter().map(str::to_owned).collect(),
    }
}

/// The names in the given lab, or in the only one.
fn in_lab(asked: Option<&str>) -> Names {
    let wish = labs::Wish::new(asked.map(str::to_owned));
    let Ok(folder) = labs::chosen(wish.lab()) else { return Names::default() };
    // A node cannot see the state of its surrounding lab: the lab's process answers instead.
    if folder.is_scope() {
        let plan = labs::connect_to(&folder)
            .and_then(|client| Ok(client.call(&ShowPlan { of: Within::ALL })?));
        return plan.map(|plan| Names::of_plan(&plan)).unwrap_or_default();
    }
    Names::of(&folder)
}

fn targets(names: Names) -> Vec<String> {
    let links = names.links.iter().map(|link| format!("link:{link}"));
    let switches = names.switches.iter().map(|(switch, _)| format!("switch:{switch}"));
    let ports = names.ports.iter().map(|(switch, port)| format!("switch:{switch}/{port}"));
    let all = names.nodes.iter().cloned().chain(names.interfaces.iter().cloned());
    all.chain(links).chain(switches).chain(ports).chain(of_host("host:")).collect()
}

/// Switches that a program can join.
fn shared(names: Names) -> Vec<String> {
    names.switches.into_iter().filter(|(_, joined)| *joined).map(|(name, _)| name).collect()
}

/// Ports of a switch; in a comma-separated list the last one is completed.
fn ports(names: Names, switch: Option<&str>, current: &str) -> Vec<String> {
    let before = current.rfind(',').map_or("", |at| &current[..=at]);
    let of_switch = names.ports.into_iter().filter(|(s, _)| switch.is_none_or(|name| name == s));
    of_switch.map(|(_, port)| format!("{before}{port}")).collect()
}

/// `NODE:`, or a path of the host.
fn paths(names: Names, current: &str) -> Vec<String> {
    // The path behind it is in the node, where completion does not look.
    if current.contains(':') {
        return vec![];
    }
    let nodes = names.nodes.into_iter().map(|node| format!("{node}:"));
    nodes.chain([":files".to_owned()]).collect()
}

/// The host's interfaces.
fn of_host(prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| name != "lo").map(|name| format!("{prefix}{name}")).collect();
    names.sort();
    names
}

/// `KEY=` for each setting.
fn settings(verb: &str) -> Vec<String> {
    let of_nodes = netloom_model::node_keys();
    let keys: Vec<&str> = match verb {
        "node set" => of_nodes.chain(["root"]).collect(),
        "node create" => of_nodes.collect(),
        "switch create" => netloom_model::switch_keys().collect(),
        "switch port" => vec!["name", "user", "group", "lock", "learn"],
        _ => vec![],
    };
    keys.iter().map(|key| format!("{key}=")).collect()
}
