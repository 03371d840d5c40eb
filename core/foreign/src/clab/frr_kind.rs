//! Nodes of kind `frr`: their configuration and the list of their daemons are keys, not binds.
//!
//! containerlab makes `frr.conf`, `daemons` and `vtysh.conf` of them, and has such nodes forward both families.

use crate::at::At;
use crate::clab::layers::Inherited;
use crate::clab::magic::magic;
use crate::draft::{Content, File, Node};
use crate::source::{Found, clean, is_hosts, refusal};
use crate::{Job, source};

/// Daemons that a list may name.
const DAEMONS: &[&str] = &[
    "bgpd", "ospfd", "ospf6d", "ripd", "ripngd", "isisd", "pimd", "pim6d", "ldpd", "nhrpd",
    "eigrpd", "babeld", "sharpd", "pbrd", "bfdd", "fabricd", "vrrpd", "pathd",
];

/// Daemons that run anyway.
const ALWAYS: &[&str] = &["zebra", "staticd", "mgmtd", "watchfrr"];

/// The configuration of a node without any.
const NONE: &str = "frr defaults traditional\n";

/// Whether a kind is this one.
pub(super) fn is(kind: &str) -> bool {
    ["frr", "frrouting"].contains(&kind)
}

/// Keys that only such nodes carry; of other kinds they are the vendors'.
pub(super) fn has(key: &str) -> bool {
    ["startup-config", "daemons", "extras", "credentials"].contains(&key)
}

/// Reads these keys.
pub(super) fn read(job: &Job<'_>, from: &Inherited<'_>, old: &str, node: &mut Node) {
    node.forwarding = Some("true");
    let config = configuration(job, from, old);
    let daemons = daemons(from);
    let vtysh = Content::Text("service integrated-vtysh-config\n".to_owned());
    for (name, content) in
        [("frr.conf", config), ("daemons", Content::Text(daemons)), ("vtysh.conf", vtysh)]
    {
        node.files.push(File { path: format!("/etc/frr/{name}"), content, mode: 0o644 });
    }
    for at in from.all("credentials") {
        at.left_out("`netloom exec` and `netloom shell` need no login");
    }
}

fn configuration(job: &Job<'_>, from: &Inherited<'_>, old: &str) -> Content {
    let none = || Content::Text(NONE.to_owned());
    let Some(at) = from.nearest("startup-config") else { return none() };
    let Some(text) = at.text().filter(|text| !text.is_empty()) else {
        at.odd("a file");
        return none();
    };
    let text = magic(job, text, old);
    // The text itself may stand in the place of a path.
    if text.contains('\n') {
        at.carried();
        return Content::Text(text);
    }
    let path = if text.starts_with('/') { Some(text) } else { clean(&text) };
    match path.map(|path| (job.files.look(&path), path)) {
        Some((Some(Found::File { .. }), path)) => {
            let is_template = source::text(job.files, &path).is_some_and(|t| t.contains("{{"));
            match is_template {
                true => at.changed("its text is carried as it is, without what its templates make"),
                false if is_hosts(&path) => at.changed(format!("a copy of the host's {path:?}")),
                false => at.carried(),
            }
            Content::From(path)
        }
        Some((Some(_), path)) => {
            at.left_out(refusal(job.files, &path));
            none()
        }
        _ => {
            at.left_out("no such file beside the lab");
            none()
        }
    }
}

/// The text of `/etc/frr/daemons`: those that are named, or all. Before containerlab 0.81 the list stood in `extras`.
fn daemons(from: &Inherited<'_>) -> String {
    let extras = from.nearest("extras").and_then(|at| at.get("frr")?.get("daemons"));
    let named = from.nearest("daemons").or(extras);
    let mut wanted: Vec<&str> = vec![];
    for at in named.iter().flat_map(At::items) {
        match at.text() {
            Some(name) if DAEMONS.contains(&name) => {
                wanted.push(name);
                at.carried();
            }
            Some(name) if ALWAYS.contains(&name) => at.carried(),
            _ => at.left_out("no daemon of FRR"),
        }
    }
    let all = named.is_none_or(|at| at.is_empty());
    let line = |name: &&str| {
        let runs = all || wanted.contains(name);
        format!("{name}={}\n", if runs { "yes" } else { "no" })
    };
    let mut text: String = DAEMONS.iter().map(line).collect();
    text.push_str("vtysh_enable=yes\nzebra_options=\"-A 127.0.0.1 -s 90000000\"\n");
    text
}
