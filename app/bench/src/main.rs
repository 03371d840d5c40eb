//! `netloom-bench`: experiments that measure netloom's promises, together with its peers in the same call.
//!
//! An experiment drives netloom as a user would, in a private runtime directory, alternates with its peers
//! round by round, and returns a [`report::Report`]: rows with mean and 95 % confidence interval, ratios, values. A
//! peer that is not installed is reported as missing, never as beaten. Experiments touch only their own
//! traffic and namespaces, and remove them even when they fail. `netloom bench` becomes this program.

#![forbid(unsafe_code)]

/// A line about what is measured now, on standard error; lost if nobody reads it any more.
macro_rules! progress {
    ($($words:tt)*) => { netloom_sys::journal::line(format_args!($($words)*)) };
}

mod capture;
mod completing;
mod daemon;
mod disk;
mod driver;
mod facts;
mod flags;
mod flood;
mod generate;
mod guard;
mod images;
mod inside;
mod lab;
mod machine;
mod measure;
mod node;
mod openflow;
mod peer;
mod people;
mod plug;
mod processes;
mod programs;
mod record;
mod report;
mod rounds;
mod router;
mod running;
mod see;
mod settle;
mod slice;
mod sweeper;
mod switch;
mod ticks;
mod vde;
mod vm;
mod wire;

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};

pub(crate) use programs::Programs;
pub(crate) use report::Report;

/// How an experiment is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Only the cells that feed ratios and values, within 120 s.
    pub(crate) quick: bool,
}

fn main() {
    let code = match run() {
        Ok(()) => 0,
        // A reader that closed its pipe is not a failure.
        Err(error) if has(&error, |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe) => 0,
        Err(error) => {
            progress!("netloom-bench: {}", netloom_sys::describe(&*error));
            1 + 2 * i32::from(has(&error, |_: &netloom_sys::Unsupported| true))
        }
    };
    std::process::exit(code);
}

/// Whether one of the causes is such an error.
fn has<E: std::error::Error + Send + Sync + 'static>(
    error: &anyhow::Error,
    is: impl Fn(&E) -> bool,
) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref()).any(is)
}

/// An experiment, or what no person calls: this program again as a part of one, and what installs and completes it.
fn run() -> Result<()> {
    let mut words = std::env::args_os().skip(1);
    let role = words.next();
    let mut rest = || {
        let text =
            |word: std::ffi::OsString| word.into_string().ok().context("a word is not UTF-8");
        words.by_ref().map(text).collect::<Result<Vec<String>>>()
    };
    match role.as_ref().and_then(|role| role.to_str()) {
        Some("peer") => peer::peer(&rest()?),
        Some("complete-words") => print(&completing::candidates(&rest()?)),
        Some("man") => {
            let folder = rest()?.pop().context("man: no folder is given")?;
            let page = Path::new(&folder).join("netloom-bench.1");
            std::fs::write(&page, flags::manual()?)
                .with_context(|| format!("write {}", page.display()))
        }
        _ => flags::read().run(),
    }
}

/// Writes text to standard output and flushes it. A broken pipe is an error that ends the program quietly.
fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
