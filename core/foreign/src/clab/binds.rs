//! Files and folders of the host that a node of containerlab sees: `HOST:NODE[:OPTIONS]`.
//!
//! A node with an image sees them themselves. One with the host's programs, which may change their owners, gets copies:
//! a folder is walked, and every file in it copied.

use std::cmp::Reverse;
use std::collections::HashSet;

use crate::at::At;
use crate::clab::layers::Inherited;
use crate::clab::magic::magic;
use crate::draft::{Bind, Content, File, Node};
use crate::source::{Found, clean, is_hosts, join, refusal, walk};
use crate::{Job, MOST_FILES};

/// Reads the binds of all layers; of those with one target the last holds (`Topology.GetNodeBinds`).
pub(super) fn read(job: &Job<'_>, from: &Inherited<'_>, old: &str, node: &mut Node) {
    let (mut targets, mut kept) = (HashSet::new(), vec![]);
    // From the last on, so that the first of a target that is seen here is the one that holds.
    for at in from.list("binds").into_iter().rev() {
        let text = at.text().map(|text| magic(job, text, old)).unwrap_or_default();
        let parts: Vec<&str> = text.split(':').collect();
        let writable = !parts.iter().skip(2).any(|options| options.split(',').any(|o| o == "ro"));
        let (source, target) = match parts.as_slice() {
            [source, target, ..] if target.starts_with('/') => {
                ((*source).to_owned(), (*target).to_owned())
            }
            // A target alone is an anonymous volume of Docker.
            [target] if target.starts_with('/') => {
                at.changed("a node's writes are its own, and are removed with it");
                continue;
            }
            _ => {
                at.odd("HOST:NODE");
                continue;
            }
        };
        match targets.insert(target.clone()) {
            true => kept.push((at, source, target, writable)),
            false => at.carried(),
        }
    }
    // What is deeper lies over a folder; of copies of one path the first stays.
    kept.sort_by_key(|(_, _, target, _)| Reverse(target.matches('/').count()));
    for (at, source, target, writable) in kept {
        bind(job, &at, &source, (&target, writable), node);
    }
}

fn bind(
    job: &Job<'_>,
    at: &At<'_>,
    source: &str,
    (target, writable): (&str, bool),
    node: &mut Node,
) {
    let same = source.trim_end_matches('/') == target.trim_end_matches('/');
    if source.starts_with('/') && same && !node.has_image() {
        return at.changed("the node sees the host's files");
    }
    if ["/dev", "/proc", "/sys"]
        .iter()
        .any(|own| target == *own || target.starts_with(&format!("{own}/")))
    {
        return at.left_out("the node has its own");
    }
    let Some(path) = host(source) else { return at.left_out("no path beside the lab") };
    let target = match target.trim_end_matches('/') {
        "" => return at.left_out("the node's root is its image's"),
        target => target,
    };
    match job.files.look(&path) {
        Some(Found::File { .. } | Found::Folder) if node.has_image() => {
            match is_hosts(&path) {
                true => at.changed(shown(&path, writable)),
                false => at.carried(),
            }
            node.binds.push(Bind { path: target.to_owned(), from: path, writable });
        }
        Some(Found::File { mode }) => {
            at.changed(match is_hosts(&path) {
                true => format!("a copy of the host's {path:?}, made when the lab comes up"),
                false => "a copy, made when the lab comes up".to_owned(),
            });
            push(node, target.to_owned(), path, mode);
        }
        Some(Found::Folder) => folder(job, at, &path, target, node),
        Some(_) => at.left_out(refusal(job.files, &path)),
        None => at.left_out("no such file beside the lab"),
    }
}

/// What a node gets of the host outside of the lab's folder.
fn shown(path: &str, writable: bool) -> String {
    let may = if writable { "may change" } else { "may read" };
    format!("the node sees the host's own {path:?} outside of the lab's folder, and {may} it")
}

/// A path of the host as it is, or one relative to the lab, which may lead out of its folder.
fn host(source: &str) -> Option<String> {
    if source.starts_with('/') {
        return Some(source.to_owned());
    }
    let mut rest = source;
    // `clean` refuses paths that lead out of the folder, which binds of containerlab may.
    let mut up = String::new();
    while let Some(after) = rest.strip_prefix("../") {
        up.push_str("../");
        rest = after;
    }
    clean(rest).filter(|path| !path.is_empty() && !source.starts_with('~')).map(|path| up + &path)
}

fn folder(job: &Job<'_>, at: &At<'_>, path: &str, target: &str, node: &mut Node) {
    let found = walk(job.files, path, MOST_FILES);
    if node.files.len() + found.len() > MOST_FILES {
        return at.left_out(format!("more than {MOST_FILES} files"));
    }
    at.changed(match is_hosts(path) {
        true => format!("a copy of the files that are in the host's {path:?} now"),
        false => "a copy of the files that are in it now".to_owned(),
    });
    for below in found {
        let file = join(path, &below.path);
        match below.found {
            Found::File { mode } => push(node, format!("{target}/{}", below.path), file, mode),
            _ => {
                let id = job.ledger.enter(&file, 0, "in a folder that a node sees");
                let why = match below.empty {
                    true => "an empty folder".to_owned(),
                    false => refusal(job.files, &file),
                };
                job.ledger.say(id, crate::Verdict::LeftOut(why));
            }
        }
    }
}

fn push(node: &mut Node, path: String, from: String, mode: u32) {
    if node.files.iter().all(|file| file.path != path) {
        node.files.push(File { path, content: Content::From(from), mode: mode & 0o777 });
    }
}
