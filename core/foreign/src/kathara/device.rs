//! A device of Kathara: its options, its folder and its scripts.

use crate::clab::memory;
use crate::draft::{Bind, Content, File, Node};
use crate::kathara::startup::{self, Shaping};
use crate::kathara::{Device, beside, is_true};
use crate::source::{Found, clean, join, refusal, walk};
use crate::write::{list, scalar};
use crate::{Job, MOST_FILES, Verdict, ports, shell};

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
    node.forwarding = Some(if device.ipv6 { "true" } else { "ipv4" });
    node.sysctls.insert("net.ipv4.icmp_ratelimit".into(), "0".into());
    if !device.ipv6 {
        for scope in ["all", "default"] {
            node.sysctls.insert(format!("net.ipv6.conf.{scope}.disable_ipv6"), "1".into());
        }
    }
    // What runs before the startup files needs to know of it.
    for (_, image, _) in device.options.iter().filter(|(key, _, _)| key == "image") {
        if !job.options.host_programs {
            node.key("image", scalar(image));
        }
    }
    share(job, node);
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
            if ["frr", "quagga", "bird"].iter().any(|name| value.contains(name)) {
                node.key("privileged", "true");
            }
            if !node.has_image() {
                return left_out("the node runs the host's programs");
            }
        }
        "mem" => match memory(value) {
            Some(bytes) => limits.push(format!("memory: {bytes}")),
            None => return left_out("expected a size like 128m"),
        },
        "cpus" => match value.parse::<f64>().ok().filter(|cpus| (0.01..10_000.0).contains(cpus)) {
            Some(cpus) => limits.push(format!("cpu: {:?}", (cpus * 100.0).round() / 100.0)),
            None => return left_out("expected a number of CPUs"),
        },
        "bridged" => *bridged = is_true(value),
        "privileged" if is_true(value) => node.key("privileged", "true"),
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
            node.exec.push(["sh", "-c", value].map(str::to_owned).to_vec());
        }
        "volume" => return volume(job, value, node),
        "shell" => return Verdict::Changed("`netloom shell NODE` starts the user's own".into()),
        "num_terms" => {
            return Verdict::Changed("`netloom shell NODE` opens as many as are wanted".into());
        }
        // Without a port of the host it is 3000.
        "port" => return ports::publish(job, value, Some(3000), node),
        "ulimit" => return left_out("netloom bounds nodes by `limits`"),
        "entrypoint" | "args" => match shell::split(value).filter(|words| !words.is_empty()) {
            _ if !node.has_image() => return left_out("the node runs no image"),
            Some(words) => {
                node.key(if key == "args" { "cmd" } else { "entrypoint" }, list(&words));
            }
            None => return left_out("no command: a quote in it is not closed"),
        },
        _ => return left_out(crate::ledger::UNKNOWN),
    }
    Verdict::Carried
}

/// The folder that all devices and the host share.
fn share(job: &Job<'_>, node: &mut Node) {
    let folder = beside(job, "shared");
    let what = "a folder that devices share";
    if is_folder(job, &folder, what) {
        let id = job.ledger.enter(&folder, 0, what);
        job.ledger.say(id, Verdict::Carried);
        node.binds.push(Bind { path: "/shared".into(), from: folder, writable: true });
    }
}

/// Whether a folder is there. Anything else of its name is left out, and says why.
fn is_folder(job: &Job<'_>, path: &str, what: &str) -> bool {
    let found = job.files.look(path);
    if found.is_some() && found != Some(Found::Folder) {
        let id = job.ledger.enter(path, 0, what);
        let why = match found {
            Some(Found::File { .. }) => "it is not a folder".to_owned(),
            _ => refusal(job.files, path),
        };
        job.ledger.say(id, Verdict::LeftOut(why));
    }
    found == Some(Found::Folder)
}

/// Copies a folder of the lab to a place in the node, if it is there.
fn copy(job: &Job<'_>, name: &str, target: &str, node: &mut Node) {
    let folder = beside(job, name);
    if !is_folder(job, &folder, "a device's folder") {
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
            _ => Verdict::LeftOut(refusal(job.files, &file)),
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
    let writable = !parts.get(2).is_some_and(|mode| *mode == "ro" || *mode == "rx");
    match job.files.look(&path) {
        Some(Found::File { .. } | Found::Folder) if node.has_image() => {
            node.binds.push(Bind { path: (*target).to_owned(), from: path, writable });
            return Verdict::Carried;
        }
        Some(Found::File { mode }) => {
            let content = Content::From(path);
            node.files.push(File { path: (*target).to_owned(), content, mode: mode & 0o777 });
        }
        Some(Found::Folder) => {
            for below in walk(job.files, &path, MOST_FILES) {
                let file = join(&path, &below.path);
                if let Found::File { mode } = below.found {
                    let target = format!("{}/{}", target.trim_end_matches('/'), below.path);
                    let content = Content::From(file);
                    node.files.push(File { path: target, content, mode: mode & 0o777 });
                } else if !below.empty {
                    let id = job.ledger.enter(&file, 0, "a file of a device");
                    job.ledger.say(id, Verdict::LeftOut(refusal(job.files, &file)));
                }
            }
        }
        Some(_) => return Verdict::LeftOut(refusal(job.files, &path)),
        None => return left_out("no such file or folder beside the lab"),
    }
    Verdict::Changed("a copy of what is there now".into())
}
