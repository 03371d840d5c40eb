//! What networks of a lab's nodes were given, read from one lab and put into a copy of it.
//!
//! `netloom network-state` does each in a process of its own: an ordinary user's labs have a user namespace each, and a process enters
//! one. The state goes through pipes as JSON.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context, Result};
use netloom_lab::calls::ListNodes;
use netloom_model::lookup::target::Space;
use netloom_netlink::Snapshot;
use netloom_session::Spaces;
use netloom_sys::{namespace, process, sysctl};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::labs;
use crate::output::print_json;

/// Folders below `/proc/sys/net` whose settings each network has.
const FOLDERS: [&str; 4] = ["ipv4", "ipv6", "netfilter", "mpls"];

/// What a node's network was given.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NodeState {
    messages: Vec<(u16, Vec<u8>)>,
    settings: BTreeMap<String, String>,
}

/// By node; none of one whose init has ended.
pub(super) type LabState = BTreeMap<String, Option<NodeState>>;

/// `netloom network-state read LAB`
pub(crate) fn read(lab: &str) -> Result<i32> {
    let mut state = LabState::new();
    for (node, init) in open(lab)? {
        let Some(init) = init else {
            state.insert(node, None);
            continue;
        };
        let read = namespace::run_in(init.as_fd(), "netloom-state", || {
            let messages = Snapshot::read()?.messages;
            Ok::<_, anyhow::Error>(NodeState { messages, settings: settings() })
        });
        state.insert(node.clone(), Some(read.with_context(|| format!("node {node:?}"))?));
    }
    print_json(&state)?;
    Ok(0)
}

/// `netloom network-state put LAB`: prints what could not be put.
pub(crate) fn put(lab: &str) -> Result<i32> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("standard input: read")?;
    let state: LabState = serde_json::from_str(&text).context("standard input")?;
    let mut notes: Vec<String> = Vec::new();
    let opened = open(lab)?;
    for (node, init) in &opened {
        let (Some(init), Some(found)) = (init, state.get(node)) else { continue };
        let Some(found) = found else {
            process::signal(init.as_fd(), Signal::KILL)
                .with_context(|| format!("end node {node:?}"))?;
            continue;
        };
        let of_node = namespace::run_in(init.as_fd(), "netloom-state", || put_node(found));
        let of_node = of_node.with_context(|| format!("node {node:?}"))?;
        notes.extend(of_node.into_iter().map(|note| format!("of node {node}: {note}")));
    }
    print_json(&notes)?;
    Ok(0)
}

fn put_node(state: &NodeState) -> Result<Vec<String>> {
    let snapshot = Snapshot { messages: state.messages.clone() };
    let mut notes = snapshot.put_interfaces()?;
    // Those of all interfaces set those of each: these are compared when the others are written.
    let is_of_each = |path: &str| {
        let one = path.split('/').nth_back(1).unwrap_or_default();
        (path.contains("/conf/") || path.contains("/neigh/")) && one != "all" && one != "default"
    };
    for of_each in [false, true] {
        let here = settings();
        for (path, value) in state.settings.iter().filter(|(path, _)| is_of_each(path) == of_each) {
            let differs = here.get(path).is_some_and(|own| own != value);
            if differs && let Err(error) = sysctl::set(path, value) {
                notes.push(format!("setting {path}: {error}"));
            }
        }
    }
    notes.extend(snapshot.put_rest()?);
    Ok(notes)
}

/// All settings of the calling thread's network.
fn settings() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for folder in FOLDERS {
        walk(&format!("net/{folder}"), &mut all);
    }
    all
}

fn walk(path: &str, all: &mut BTreeMap<String, String>) {
    // A kernel may lack some, and each may go with its interface.
    let Ok(entries) = std::fs::read_dir(Path::new("/proc/sys").join(path)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let below = format!("{path}/{}", name.to_string_lossy());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&below, all),
            // Some cannot be read, and others do something when they are written.
            Ok(_) if name != "flush" => all.extend(sysctl::get(&below).map(|value| (below, value))),
            _ => {}
        }
    }
}

type Opened = Vec<(String, Option<std::sync::Arc<std::os::fd::OwnedFd>>)>;

/// The inits of all nodes.
fn open(lab: &str) -> Result<Opened> {
    let nodes = labs::connect(Some(lab))?.call(&ListNodes::whole())?;
    let mut spaces = Spaces::of_lab(labs::of_session(Some(lab))?)?;
    let mut opened = Vec::new();
    for node in nodes {
        let space = Space::Node(node.name.clone());
        if node.alive {
            spaces.open(&space)?;
        }
        opened.push((node.name, spaces.init(&space)));
    }
    spaces.enter()?;
    Ok(opened)
}
