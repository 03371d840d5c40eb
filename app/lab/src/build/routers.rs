//! Nodes with a routing suite: orders for their init beside the file, and whether the suite is there.

use std::path::{Path, PathBuf};

use netloom_model::Plan;
use netloom_model::lab::{FileContent, FileSpec};
use netloom_model::plan::frr::{CARRIED, FOLDER};
use netloom_model::plan::{PlannedNode, Slot};
use netloom_node::spec::NodeSpec;
use netloom_sys::Unsupported;

use crate::{Error, Result, Subject};

/// The node of a router: daemons are started before the file's programs. They find what those of an earlier node left
/// for them in `carried`.
pub(crate) fn around(spec: NodeSpec, plan: &Plan, slot: Slot, carried: &Path) -> NodeSpec {
    let Some(mut daemons) = plan.daemons_of(slot) else { return spec };
    // Files that an earlier node's daemons left, so that a restart is graceful.
    for entry in std::fs::read_dir(carried).into_iter().flatten().flatten() {
        let path = format!("{CARRIED}/{}", entry.file_name().to_string_lossy());
        daemons.files.push(FileSpec::new(path, FileContent::From(entry.path())));
    }
    // The file's own programs may need the routes.
    daemons.programs.extend(spec.run);
    // Behind the daemons' files: the lab's file may replace one of them.
    daemons.files.extend(spec.files);
    NodeSpec { run: daemons.programs, files: daemons.files, ..spec }
}

/// Whether the routing suites of these nodes are installed, with the files that they need.
///
/// # Errors
/// The missing programs, and the packages to install.
pub(crate) fn check(plan: &Plan) -> Result<()> {
    for (slot, node) in plan.slots().zip(&plan.nodes) {
        let Some(router) = node.kind.as_router().filter(|router| router.frr) else { continue };
        let daemons = plan.daemons_of(slot).unwrap_or_default();
        let names = daemons.files.iter().filter_map(|f| Path::new(&f.path).file_stem()?.to_str());
        let missing = names.map(|name| (name, in_root(plan, node, name)));
        // The group file belongs to no daemon.
        let missing = missing.filter(|(name, path)| *name != "group" && !path.exists());
        if let Some((name, path)) = missing.into_iter().next() {
            return Err(Unsupported {
                feature: "FRR",
                reason: format!(
                    "node {:?} runs {name}, but {} is missing",
                    node.name,
                    path.display()
                ),
                needs: "the package `frr` (apt install frr)".to_owned(),
            }
            .into());
        }
        for (name, path) in &router.config {
            super::machines::check_file(path).map_err(|reason| Error::Invalid {
                object: Subject::of("node", &node.name).part(format_args!("config.{name}")),
                reason: format!("{}: {reason}", path.display()),
            })?;
        }
    }
    Ok(())
}

/// Where the host has a daemon of a node.
fn in_root(plan: &Plan, node: &PlannedNode, daemon: &str) -> PathBuf {
    // A child sees its parent's root.
    let up = std::iter::successors(Some(node), |of| plan.node_at(of.parent?));
    let root = up.filter_map(|of| of.root.as_deref()).next().unwrap_or(Path::new("/"));
    root.join(FOLDER.trim_start_matches('/')).join(daemon)
}
