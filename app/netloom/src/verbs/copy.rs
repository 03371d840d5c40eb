//! `cp`: files into nodes and out of them, into guests by their agents.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::{Context, Result};
use netloom_node::copy::{self, Bounds, Summary};
use netloom_node::entry::Entry;
use netloom_sys::process;
use netloom_sys::setup::open_regular;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::enter;
use crate::flags::Copy;
use crate::{Usage, labs, whole_file};

/// `netloom cp`
pub(crate) fn cp(lab: Option<&str>, args: &Copy) -> Result<i32> {
    let source = side(&args.source);
    let destination = side(&args.destination);
    let (summary, told) = match (source, destination) {
        (Side::Host(from), Side::Node(node, to)) => {
            let client = labs::connect(lab)?;
            let entry = client.entry(node)?;
            if entry.machine {
                return into_guest(&client, &entry, Path::new(from), to);
            }
            let root = root(&entry, node)?;
            ended(args, |bounds| copy::into_node(root.as_fd(), Path::new(from), to, bounds))?
        }
        (Side::Node(node, from), Side::Standard) => {
            let client = labs::connect(lab)?;
            let entry = client.entry(node)?;
            if entry.machine {
                let words = ["cat", "--", from].map(str::to_owned);
                let most = args.max.unwrap_or(u64::MAX);
                return enter::run(&client, &entry, &enter::of_machine_with(most, words.into()));
            }
            let root = root(&entry, node)?;
            let output = std::io::stdout();
            ended(args, |bounds| copy::out_to(root.as_fd(), from, &output, bounds))?
        }
        (Side::Standard, Side::Node(node, to)) => {
            let words = format!(
                "SRC is a file: for the standard input write netloom exec {node} -- sh -c 'cat > {to}'"
            );
            return Err(Usage(words).into());
        }
        (Side::Node(node, from), Side::Host(to)) => {
            let client = labs::connect(lab)?;
            let entry = client.entry(node)?;
            if entry.machine {
                return out_of_guest(&client, &entry, (from, Path::new(to)), args.max);
            }
            let root = root(&entry, node)?;
            ended(args, |bounds| copy::out_of_node(root.as_fd(), from, Path::new(to), bounds))?
        }
        _ => {
            let words = "one of SRC and DST must be NODE:PATH, and only one";
            return Err(Usage(words.into()).into());
        }
    };
    let summary = match (summary, told) {
        (Err(e), Some(signal)) => {
            crate::report(&e.into());
            return Ok(128 + signal);
        }
        (summary, _) => summary?,
    };
    for path in &summary.skipped {
        tell_line!("netloom: left out, neither file, directory nor link: {path}");
    }
    Ok(0)
}

/// How long a copy that is told to end may take to clean up. A node may keep it in a read for ever.
const LAST: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Copies until the end, or until a signal ends it; then also returns its number.
fn ended(
    args: &Copy,
    copy: impl FnOnce(Bounds<'_>) -> netloom_node::Result<Summary>,
) -> Result<(netloom_node::Result<Summary>, Option<i32>)> {
    let signals = super::ending()?;
    let told = Arc::new(AtomicI32::new(0));
    let heard = told.clone();
    // A copy may hang in a read of the node's files, where no signal is looked at.
    std::thread::spawn(move || {
        let wait = |time: Option<&Timespec>| {
            let mut fds = [PollFd::new(&signals, PollFlags::IN)];
            while rustix::event::poll(&mut fds, time) == Err(rustix::io::Errno::INTR) {}
            process::next_signal(&signals)
        };
        let signal = wait(None).unwrap_or(rustix::process::Signal::TERM.as_raw());
        heard.store(signal, Ordering::Relaxed);
        // A second one is not to be waited for.
        wait(Some(&LAST));
        process::exit_now(128 + signal);
    });
    let signal = || Some(told.load(Ordering::Relaxed)).filter(|signal| *signal != 0);
    let is_told = || signal().is_some();
    let copied = copy(Bounds { max: args.max, is_told_to_end: Some(&is_told) });
    Ok((copied, signal()))
}

enum Side<'a> {
    Host(&'a str),
    /// `-`; a file of this name is `./-`.
    Standard,
    Node(&'a str, &'a str),
}

/// A colon after a `/` belongs to the path: `./a:b` is a file.
fn side(text: &str) -> Side<'_> {
    match text.split_once(':') {
        Some((node, path)) if !node.is_empty() && !node.contains('/') => Side::Node(node, path),
        None if text == "-" => Side::Standard,
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

/// Copies a file out of a guest by its agent. The guest may send without end: what there is no room for is not written.
fn out_of_guest(
    client: &netloom_api::Client,
    entry: &Entry,
    (from, to): (&str, &Path),
    max: Option<u64>,
) -> Result<i32> {
    let name = Path::new(from).file_name();
    let name = name.ok_or_else(|| Usage(format!("{from:?}: not a file's name")))?;
    let to = if to.is_dir() { to.join(name) } else { to.to_owned() };
    let fail = |operation: &str| format!("{to:?}: {operation}");
    // Without a name until it is whole, so that a copy that is cut off leaves the old file.
    let nameless = whole_file::is_replaced(&to).then(|| whole_file::nameless(&to).ok()).flatten();
    let file = match &nameless {
        Some(file) => file.try_clone(),
        None => std::fs::File::create(&to),
    };
    let file = file.with_context(|| fail("make"))?;
    let free = netloom_sys::space::free(&file).ok().flatten().unwrap_or(u64::MAX);
    rustix::stdio::dup2_stdout(&file).context("write the file as output")?;
    let words = ["cat", "--", from].map(str::to_owned);
    let most = max.unwrap_or(u64::MAX).min(free);
    let code = enter::run(client, entry, &enter::of_machine_with(most, words.into()))?;
    if let Some(file) = nameless.filter(|_| code == 0) {
        whole_file::put(&file, &to).with_context(|| fail("put in place"))?;
    }
    Ok(code)
}
