//! Files below folders that an ordinary user's nodes show as the host has them, read-only, where no image gives their
//! files: they wait in another folder, and a command copies them when the node starts.

use crate::draft::{File, Node};

/// Top folders of programs.
const PROGRAMS: [&str; 8] = ["bin", "boot", "lib", "lib32", "lib64", "libx32", "sbin", "usr"];

/// Where files wait.
const WAITING: &str = "/run/netloom-import/root";

/// Why a file waits.
pub(crate) const WHY: &str =
    "copied when the node starts; an ordinary user's nodes have the host's folder alone";

/// Whether a path is below such a folder.
pub(crate) fn is_closed(path: &str) -> bool {
    let top = path.trim_start_matches('/').split('/').next();
    top.is_some_and(|top| PROGRAMS.contains(&top))
}

/// Whether a file of a node has to wait, which then has another path.
pub(crate) fn waits(node: &Node, file: &mut File) -> bool {
    // With an image all folders are the node's own.
    let waits = !node.has_image() && is_closed(&file.path);
    if waits {
        file.path = format!("{WAITING}{}", file.path);
    }
    waits
}

/// The command that copies a node's files to their places.
pub(crate) fn command() -> Vec<String> {
    let script = format!("cp -R {WAITING}/. / || echo \"exit code $?: cp\" >&2");
    ["sh", "-c", &script].map(str::to_owned).to_vec()
}
