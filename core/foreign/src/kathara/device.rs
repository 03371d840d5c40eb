//! A device of Kathara: its options, its folder and its scripts.

use crate::clab::memory;
use crate::draft::{Content, File, Node};
use crate::kathara::startup::{self, Shaping};
use crate::kathara::{Device, beside, is_true};
use crate::source::{Found, clean, join, walk};
use crate::{Job, MOST_FILES, Verdict, shell};

/// A device as a node, and what links need of it.
pub(super) struct Made {
    pub(super) node: Node,
    pub(super) shaping: Shaping,
    /// Whether it has a way to the host's network.
    pub(super) bridged: bool,
}

/// Reads a device; `name` is Kathara's, `new` the lab file's.
pub(super) fn read(job: &Job<'_>, name: &str, new: &str, device: &Device) -> Made {
    let mut made = Made { node: Node::named(new), shaping: vec![], bridged: false };
    let node = &mut made.node;
    node.sysctls.insert("net.ipv4.ip_forward".into(), "1".into());
    node.sysctls.insert("net.ipv4.icmp_ratelimit".into(), "0".into());
    let ipv6 = if device.ipv6 { [("forwarding", "1")] } else { [("disable_ipv6", "1")] };
    for (key, value) in ipv6 {
        for scope in ["all", "default"] {
            node.sysctls.insert(format!("net.ipv6.conf.{scope}.{key}"), value.into());
        }
    }
    copy(job, "shared", "/shared", node);
    copy(job, name, "", node);
    startup::read(job, "shared.startup", node, &mut made.shaping);
    startup::read(job, &format!("{name}.startup"), node, &mut made.shaping);
    startup::shutdown(job, &format!("{name}.shutdown"));
    startup::shutdown(job, "shared.shutdown");
    let mut limits = vec![];
    for (key, value, id) in &device.options {
        let verdict = option(job, (key, value), node, &mut limits, &mut made.bridged);
        job.ledger.say(*id, verdict);
    }
    if !limits.is_empty() {
        node.keys.push(("limits", format!("{{{}}}", limits.join(", "))));
    }
    made
}

fn left_out(why: &str) -> Verdict {
    Verdict::LeftOut(why.to_owned())
}

fn option(
    job: &Job<'_>,
    (key, value): (&str, &str),
    node: &mut Node,
    limits: &mut Vec<String>,
    bridged: &mut bool,
) -> Verdict {
    match key {
        "image" => {
            if value.contains("frr") || value.contains("quagga") {
                privileged(node);
            }
            return left_out("the node runs the host's programs");
        }
        "mem" => match memory(value) {
            Some(bytes) => limits.push(format!("memory: {bytes}")),
            None => return left_out("expected a size like 128m"),
        },
        "cpus" => match value.parse::<f64>() {
            Ok(cpus) if (0.01..10_000.0).contains(&cpus) => {
                limits.push(format!("cpu: {:?}", (cpus * 100.0).round() / 100.0));
            }
            _ => return left_out("expected a number of CPUs"),
        },
        "bridged" => *bridged = is_true(value),
        "privileged" if is_true(value) => privileged(node),
        "privileged" | "ipv6" => {}
        "sysctl" => match value.split_once('=') {
            Some((name, value)) if name.starts_with("net.") => {
                node.sysctls.insert(name.trim().to_owned(), value.trim().to_owned());
            }
            _ => return left_out("expected net.SETTING=VALUE"),
        },
        "env" => match value.split_once('=') {
            Some((name, value)) => {
                node.env.insert(name.trim().to_owned(), value.to_owned());
            }
            None => return left_out("expected NAME=VALUE"),
        },
        "exec" => {
            let words = ["sh", "-c", value].map(str::to_owned).to_vec();
            node.setup.push(shell::forgiving(words));
        }
        "volume" => return volume(job, value, node),
        "shell" => return Verdict::Changed("`netloom shell NODE` starts the user's own".into()),
        "num_terms" => {
            return Verdict::Changed("`netloom shell NODE` opens as many as are wanted".into());
        }
        "port" => return left_out("nodes publish no ports"),
        "ulimit" => return left_out("netloom bounds nodes by `limits`"),
        "entrypoint" | "args" => return left_out("the node runs no image"),
        _ => return left_out(crate::ledger::UNKNOWN),
    }
    Verdict::Carried
}

fn privileged(node: &mut Node) {
    if node.keys.iter().all(|(key, _)| *key != "privileged") {
        node.keys.push(("privileged", "true".into()));
    }
}

/// Copies a folder of the lab to a place in the node, if it is there.
fn copy(job: &Job<'_>, name: &str, target: &str, node: &mut Node) {
    let folder = beside(job, name);
    if job.files.look(&folder) != Some(Found::Folder) {
        return;
    }
    let found = walk(job.files, &folder, MOST_FILES);
    if found.len() > MOST_FILES {
        let id = job.ledger.enter(&folder, 0, "a folder");
        return job.ledger.say(id, Verdict::LeftOut(format!("more than {MOST_FILES} files")));
    }
    for below in found {
        let file = join(&folder, &below.path);
        let id = job.ledger.enter(&file, 0, "a file of a device");
        let verdict = match below.found {
            Found::File { mode } => {
                let path = format!("{target}/{}", below.path);
                node.files.retain(|file| file.path != path);
                node.files.push(File { path, content: Content::From(file), mode: mode & 0o777 });
                match target.is_empty() {
                    true => Verdict::Carried,
                    false => Verdict::Changed("each node has a copy of its own".into()),
                }
            }
            _ if below.empty => left_out("an empty folder"),
            _ => left_out("neither a file nor a folder"),
        };
        job.ledger.say(id, verdict);
    }
}

/// `HOST|GUEST[|MODE]`.
fn volume(job: &Job<'_>, value: &str, node: &mut Node) -> Verdict {
    let parts: Vec<&str> = value.split('|').collect();
    let [source, target, ..] = parts.as_slice() else {
        return left_out("expected HOST|DEVICE");
    };
    let Some(path) = clean(source).filter(|_| !source.starts_with('/')) else {
        return left_out("it is outside of the lab's folder");
    };
    let path = beside(job, &path);
    match job.files.look(&path) {
        Some(Found::File { mode }) => {
            let content = Content::From(path);
            node.files.push(File { path: (*target).to_owned(), content, mode: mode & 0o777 });
        }
        Some(Found::Folder) => {
            for below in walk(job.files, &path, MOST_FILES) {
                if let Found::File { mode } = below.found {
                    let target = format!("{}/{}", target.trim_end_matches('/'), below.path);
                    let content = Content::From(join(&path, &below.path));
                    node.files.push(File { path: target, content, mode: mode & 0o777 });
                }
            }
        }
        _ => return left_out("no such file or folder beside the lab"),
    }
    Verdict::Changed("a copy of what is there now".into())
}
