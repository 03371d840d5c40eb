//! A stand-in for `systemctl` and `service` in nodes, where no systemd runs: services are started by what the host's
//! packages have for them.

use crate::draft::{Content, File, Node};

/// Where the stand-ins are; early in the path of the node.
const FOLDER: &str = "/run/netloom-import/bin";

/// The stand-in.
const SCRIPT: &str = include_str!("service.sh");

/// Whether a script speaks to them.
pub(crate) fn speaks(script: &str) -> bool {
    // A word in a comment or a text counts, too: a stand-in that nobody calls does no harm.
    let words = |line: &str| {
        line.split(|c: char| c.is_whitespace() || ";&|()/".contains(c))
            .any(|word| word == "systemctl" || word == "service")
    };
    script.lines().any(words)
}

/// Puts the stand-ins into a node.
pub(crate) fn stand_in(node: &mut Node) {
    for name in ["systemctl", "service"] {
        let (path, mode) = (format!("{FOLDER}/{name}"), 0o755);
        if node.files.iter().all(|file| file.path != path) {
            node.files.push(File { path, content: Content::Text(SCRIPT.to_owned()), mode });
        }
    }
    let path = format!("{FOLDER}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    node.env.entry("PATH".to_owned()).or_insert(path);
}
