//! GNS3's projects: JSON with nodes by type and links between adapters and ports.
//!
//! Carried are VPCS hosts with their startup files, Ethernet switches with their VLANs, hubs, NAT, clouds, and Docker nodes.
//! Nodes of vendors' images (`dynamips`, `iou`, `qemu`, ...) are left out, with their links.

mod between;
mod links;
mod nat;
mod nodes;
mod vlans;

use std::collections::HashMap;

use crate::at::At;
use crate::draft::Draft;
use crate::{Job, Result, lab_name, wrong};

/// What a node of GNS3 is in the lab file.
enum Place {
    /// With the format of its interfaces' names.
    Node(String),
    Switch(String),
    Internet,
    /// Interfaces of the host by port.
    Cloud(Vec<(u32, String)>),
    Nothing(String),
}

type Places = HashMap<String, Place>;

/// Reads a project.
pub(crate) fn read(job: &Job<'_>, content: &[u8]) -> Result<Draft> {
    let tree = job.tree(job.file, content)?;
    let root = At::root(job.file, &tree, job.ledger);
    let Some(topology) = root.get("topology") else {
        return Err(wrong(job.file, 1, "no `topology`: not a project of GNS3"));
    };
    if let Some(old) = root.get("revision").filter(|at| revision(at) < OLDEST) {
        let why =
            "a project of GNS3 1.x, whose nodes have another form: open it with GNS3 2 and save it";
        return Err(wrong(job.file, old.place.line, why));
    }
    for key in ["nodes", "links"] {
        if let Some(at) = topology.get(key).filter(|at| at.node.items().is_none() && !at.is_empty())
        {
            return Err(wrong(job.file, at.place.line, format!("`{key}` is a list")));
        }
    }
    let mut draft = Draft::default();
    head(&root, &mut draft);
    let mut places = Places::new();
    let mut switches = vec![];
    let mut linked = vlans::Linked::new();
    for at in topology.get("nodes").iter().flat_map(At::items) {
        switches.extend(nodes::read(job, &at, &mut places, &mut draft));
    }
    for at in topology.get("links").iter().flat_map(At::items) {
        if let Some(link) = links::read(&at, &places, job.options.expression_fault) {
            vlans::note(&at, draft.links.len(), &mut linked);
            draft.links.push(link);
        }
    }
    // After links: rules of ports are by what is linked there.
    vlans::carry(&switches, &linked, &mut draft);
    between::bridges(&mut draft);
    // Doors before hosts, which get addresses of their networks.
    nat::doors(&mut draft);
    nodes::addresses(job, &places, &topology, &mut draft);
    nodes::macs(&places, &topology, &mut draft);
    for (key, at) in topology.entries() {
        match key {
            "drawings" => at.drawing(),
            "computes" => at.changed("everything is in one machine"),
            "nodes" | "links" if at.is_empty() => at.carried(),
            _ => {}
        }
    }
    Ok(draft)
}

/// The first revision of the file's form that GNS3 2 writes. It converts those before (`topology.py`).
const OLDEST: u32 = 5;

fn revision(at: &At<'_>) -> u32 {
    at.text().and_then(|text| text.parse().ok()).unwrap_or(OLDEST)
}

fn head(root: &At<'_>, draft: &mut Draft) {
    for (key, at) in root.entries() {
        match key {
            "topology" => {}
            "name" => {
                let text = at.text().unwrap_or_default();
                draft.name = lab_name(text);
                match draft.name == text {
                    true => at.carried(),
                    false => at.changed(format!("the lab is called {}", draft.name)),
                }
            }
            "project_id" | "revision" | "version" | "type" => at.changed("of GNS3's own file"),
            "auto_close" | "auto_open" | "auto_start" => at.changed("of GNS3's own window"),
            "scene_height"
            | "scene_width"
            | "show_grid"
            | "show_interface_labels"
            | "show_layers"
            | "snap_to_grid"
            | "zoom"
            | "grid_size"
            | "drawing_grid_size"
            | "supplier" => at.drawing(),
            "variables" if at.is_empty() => at.carried(),
            _ => {}
        }
    }
}
