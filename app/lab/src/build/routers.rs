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
        let missing = names.filter_map(|name| Some((name, in_root(plan, node, name)?)));
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

/// Where the host has a daemon of a node; `None` for one of an image, whose files are not there yet.
fn in_root(plan: &Plan, node: &PlannedNode, daemon: &str) -> Option<PathBuf> {
    // A child sees its parent's root.
    let mut up = std::iter::successors(Some(node), |of| plan.node_at(of.parent?));
    let of = up.find(|of| of.root.is_some() || of.image.is_some());
    if of.is_some_and(|of| of.image.is_some()) {
        return None;
    }
    let root = of.and_then(|of| of.root.as_deref()).unwrap_or(Path::new("/"));
    Some(root.join(FOLDER.trim_start_matches('/')).join(daemon))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemons_of_an_image_are_not_looked_for_on_the_host() {
        let text = b"nodes: {a: {kind: router, image: frr}, b: {kind: router, root: /other}, c: {kind: router}}";
        let plan =
            netloom_model::plan::plan(&netloom_model::parse("f", text, "f").unwrap()).unwrap();
        let found = |at: usize| in_root(&plan, &plan.nodes[at], "zebra");
        assert_eq!(found(0), None);
        assert_eq!(
            found(1),
            Some(Path::new("/other").join(FOLDER.trim_start_matches('/')).join("zebra"))
        );
        assert_eq!(found(2), Some(Path::new(FOLDER).join("zebra")));
    }
}
