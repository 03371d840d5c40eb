//! `cp`: files into nodes and out of them, into guests by their agents.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};
use netloom_node::copy;
use netloom_node::entry::Entry;
use netloom_sys::setup::open_regular;

use super::enter;
use crate::flags::Copy;
use crate::{Usage, labs};

/// `netloom cp`
pub(crate) fn cp(lab: Option<&str>, args: &Copy) -> Result<i32> {
    let source = side(&args.source);
    let destination = side(&args.destination);
    let summary = match (source, destination) {
        (Side::Host(from), Side::Node(node, to)) => {
            let client = labs::connect(lab)?;
            let entry = client.entry(node)?;
            if entry.machine {
                return into_guest(&client, &entry, Path::new(from), to);
            }
            copy::into_node(root(&entry, node)?.as_fd(), Path::new(from), to)?
        }
        (Side::Node(node, from), Side::Host(to)) => {
            let client = labs::connect(lab)?;
            let entry = client.entry(node)?;
            if entry.machine {
                return out_of_guest(&client, &entry, from, Path::new(to));
            }
            copy::out_of_node(root(&entry, node)?.as_fd(), from, Path::new(to))?
        }
        _ => {
            let words = "one of SRC and DST must be NODE:PATH, and only one";
            return Err(Usage(words.into()).into());
        }
    };
    for path in &summary.skipped {
        tell_line!("netloom: left out, neither file, directory nor link: {path}");
    }
    Ok(0)
}

enum Side<'a> {
    Host(&'a str),
    Node(&'a str, &'a str),
}

/// A colon after a `/` belongs to the path: `./a:b` is a file.
fn side(text: &str) -> Side<'_> {
    match text.split_once(':') {
        Some((node, path)) if !node.is_empty() && !node.contains('/') => Side::Node(node, path),
        _ => Side::Host(text),
    }
}

fn root(entry: &Entry, node: &str) -> Result<std::os::fd::OwnedFd> {
    entry.check_entry()?;
    Ok(copy::open_root(node, entry.init.as_fd())?)
}

/// Writes a file of the guest, in a folder if `to` is one.
const WRITE: &str = "if [ -d \"$1\" ]; then set -- \"${1%/}/$2\" \"$2\" \"$3\"; fi; cat > \"$1\" && chmod \"$3\" \"$1\"";

/// Copies a regular file into a guest by its agent.
fn into_guest(client: &netloom_api::Client, entry: &Entry, from: &Path, to: &str) -> Result<i32> {
    let file = open_regular(from).with_context(|| format!("{from:?}: open"))?;
    let mode = file.metadata().with_context(|| format!("{from:?}: read"))?.mode() & 0o777;
    let mode = format!("{mode:o}");
    let name = from.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Usage(format!("{from:?}: not a file's name")))?;
    let words = ["sh", "-c", WRITE, "sh", to, name, &mode].map(str::to_owned);
    rustix::stdio::dup2_stdin(&file).context("read the file as input")?;
    enter::run(client, entry, &enter::of_machine("exec", words.into()))
}

/// Copies a file out of a guest by its agent.
fn out_of_guest(client: &netloom_api::Client, entry: &Entry, from: &str, to: &Path) -> Result<i32> {
    let name = Path::new(from).file_name();
    let name = name.ok_or_else(|| Usage(format!("{from:?}: not a file's name")))?;
    let to = if to.is_dir() { to.join(name) } else { to.to_owned() };
    let file = std::fs::File::create(&to).with_context(|| format!("{to:?}: make"))?;
    rustix::stdio::dup2_stdout(&file).context("write the file as output")?;
    let words = ["cat", "--", from].map(str::to_owned);
    enter::run(client, entry, &enter::of_machine("exec", words.into()))
}
