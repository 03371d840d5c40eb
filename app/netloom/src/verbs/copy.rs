//! `cp`: files into nodes and out of them.

use std::os::fd::AsFd;
use std::path::Path;

use anyhow::Result;
use netloom_node::copy;

use crate::flags::Copy;
use crate::{Usage, labs};

/// `netloom cp`
pub(crate) fn cp(lab: Option<&str>, args: &Copy) -> Result<i32> {
    let source = side(&args.source);
    let destination = side(&args.destination);
    let summary = match (source, destination) {
        (Side::Host(from), Side::Node(node, to)) => {
            let root = root(lab, node)?;
            copy::into_node(root.as_fd(), Path::new(from), to)?
        }
        (Side::Node(node, from), Side::Host(to)) => {
            let root = root(lab, node)?;
            copy::out_of_node(root.as_fd(), from, Path::new(to))?
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

fn root(lab: Option<&str>, node: &str) -> Result<std::os::fd::OwnedFd> {
    let entry = labs::connect(lab)?.entry(node)?;
    entry.check_entry()?;
    Ok(copy::open_root(node, entry.init.as_fd())?)
}
