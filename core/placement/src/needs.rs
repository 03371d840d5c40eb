//! What a host must have for its part, in words.

use std::collections::BTreeSet;

use netloom_model::lab::FileContent;
use netloom_model::plan::{Part, PlannedEnd};

/// Files of the lab file's folder, images, machines and doors, each once and in order.
pub(crate) fn needs(part: &Part) -> Vec<String> {
    let mut all: BTreeSet<String> = BTreeSet::new();
    for node in &part.plan.nodes {
        if let Some(root) = &node.root {
            all.insert(format!("directory {}", root.display()));
        }
        if let Some(image) = &node.image {
            all.insert(format!("image {}", image.name));
        }
        for file in &node.files {
            if let FileContent::From(path) = &file.content {
                all.insert(format!("file {}", path.display()));
            }
        }
        all.extend(node.binds.iter().map(|bind| format!("path {}", bind.from.display())));
        if node.kind.as_vm().is_some() {
            all.insert(format!("what virtual machines need, for node {}", node.name));
        }
        all.extend(
            node.ports.iter().map(|port| format!("free port {port} for node {}", node.name)),
        );
    }
    for end in part.plan.links.iter().flat_map(|link| &link.ends) {
        match end {
            PlannedEnd::Host { iface } => _ = all.insert(format!("interface {iface}")),
            PlannedEnd::Internet { .. } => _ = all.insert("a way to the internet".to_owned()),
            PlannedEnd::Node { .. } | PlannedEnd::Port { .. } | PlannedEnd::Nowhere { .. } => {}
        }
    }
    let peers: BTreeSet<&str> = part.halves.iter().map(|half| half.peer.as_str()).collect();
    if !peers.is_empty() {
        let peers: Vec<&str> = peers.into_iter().collect();
        all.insert(format!("VXLAN in the kernel, and UDP to and from {}", peers.join(", ")));
    }
    all.into_iter().collect()
}
