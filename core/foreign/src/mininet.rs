//! Networks of Mininet's scripts, as the stand-in for its package recorded them.
//!
//! [`STAND_IN`] has the files of that package, which is netloom's own: a script runs on it, and what it asked for comes
//! as JSON with the script's lines. Interfaces keep Mininet's names, because commands of scripts use them.

mod hosts;
mod links;
mod record;
mod switches;

use std::collections::BTreeMap;

use crate::at::At;
use crate::draft::{Draft, Node};
use crate::{Job, Result, shell, valid_name, wrong};

use record::Record;

/// The files of the stand-in, by path; `run.py` runs a script on it.
pub const STAND_IN: &[(&str, &str)] = &[
    ("run.py", include_str!("../python/run.py")),
    ("mininet/__init__.py", include_str!("../python/mininet/__init__.py")),
    ("mininet/_live.py", include_str!("../python/mininet/_live.py")),
    ("mininet/_ending.py", include_str!("../python/mininet/_ending.py")),
    ("mininet/_ofctl.py", include_str!("../python/mininet/_ofctl.py")),
    ("mininet/_record.py", include_str!("../python/mininet/_record.py")),
    ("mininet/_settable.py", include_str!("../python/mininet/_settable.py")),
    ("mininet/clean.py", include_str!("../python/mininet/clean.py")),
    ("mininet/cli.py", include_str!("../python/mininet/cli.py")),
    ("mininet/link.py", include_str!("../python/mininet/link.py")),
    ("mininet/log.py", include_str!("../python/mininet/log.py")),
    ("mininet/moduledeps.py", include_str!("../python/mininet/moduledeps.py")),
    ("mininet/net.py", include_str!("../python/mininet/net.py")),
    ("mininet/node.py", include_str!("../python/mininet/node.py")),
    ("mininet/nodelib.py", include_str!("../python/mininet/nodelib.py")),
    ("mininet/term.py", include_str!("../python/mininet/term.py")),
    ("mininet/topo.py", include_str!("../python/mininet/topo.py")),
    ("mininet/topolib.py", include_str!("../python/mininet/topolib.py")),
    ("mininet/util.py", include_str!("../python/mininet/util.py")),
];

/// Programs that a script runs to look at its network, not to make it.
const STEPS: &[&str] = &[
    "ping",
    "ping6",
    "iperf",
    "iperf3",
    "netperf",
    "traceroute",
    "tracepath",
    "curl",
    "wget",
    "tcpdump",
    "tshark",
    "sleep",
    "cat",
    "ls",
    "echo",
    "route",
    "ifconfig",
    "ps",
    "netstat",
    "ss",
];

/// The lab file's names of hosts and switches, by the script's, which may hold what the lab file's do not.
type Names = BTreeMap<String, String>;

/// Reads a record.
pub(crate) fn read(job: &Job<'_>, content: &[u8]) -> Result<Draft> {
    if job.file.ends_with(".py") {
        return Err(wrong(job.file, 1, "a script is run before it can be read"));
    }
    let tree = job.tree(job.file, content)?;
    let record = Record::new(job.file, &tree);
    let account = record.account();
    let root = At::root(&record.script, &account, job.ledger);
    let mut draft = Draft::default();
    let mut names = Names::new();
    for (name, _) in root.get("hosts").iter().flat_map(At::entries) {
        if record.kind_of_host(name) != Some("nat") {
            let wish = valid_name(name);
            let new = draft.free_name(if wish.is_empty() { "h" } else { &wish });
            draft.nodes.push(Node { source: Some(name.to_owned()), ..Node::named(&new) });
            names.insert(name.to_owned(), new);
        }
    }
    let controllers = switches::controllers(&root, &record);
    // Nodes and switches before links, whose ends they are; hosts last, since their routes need
    // links.
    switches::read(&root, &record, &controllers, &mut names, &mut draft);
    links::read(&root, &record, &names, &mut draft);
    hosts::read(&root, &record, &names, &mut draft);
    commands(&root, &record, &names, &mut draft);
    options(&root);
    Ok(draft)
}

fn commands(root: &At<'_>, record: &Record<'_>, names: &Names, draft: &mut Draft) {
    let nodes = record.commands();
    for (at, node) in root.get("commands").iter().flat_map(At::items).zip(nodes) {
        let text = at.text().unwrap_or_default();
        let words = shell::split(text).unwrap_or_default();
        let first = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
        let Some(node) = names.get(node).and_then(|node| draft.node(node)) else {
            at.left_out("only hosts run commands");
            continue;
        };
        // One in the background may be a server that later steps speak to.
        let waits = !text.trim_end().ends_with('&');
        // The first eleven only look; of the others longer ones may set something.
        let looks = STEPS.contains(&first) && words.len() < 4 || STEPS[..11].contains(&first);
        if waits && looks && !text.contains('>') {
            at.left_out("a step of the script, not of its network; `netloom run` does it");
        } else {
            node.setup.push(shell::forgiving(["sh", "-c", text].map(str::to_owned).to_vec()));
            at.changed("runs when the node starts");
        }
    }
    root.get("commands").filter(At::is_empty).iter().for_each(At::carried);
    for at in root.get("calls").iter().flat_map(At::items) {
        at.left_out("a step of the script, not of its network; `netloom run` does it");
    }
}

fn options(root: &At<'_>) {
    for (key, at) in root.get("options").iter().flat_map(At::entries) {
        let on = at.is_true();
        match key {
            "autoStaticArp" if on => at.changed("neighbours find each other"),
            "inNamespace" if on => {
                at.changed("switches and controllers need no network of their own")
            }
            "autoPinCpus" if on => at.left_out("netloom binds no node to processors"),
            "ipBase" | "autoStaticArp" | "inNamespace" | "autoPinCpus" => at.carried(),
            _ => {}
        }
    }
}
