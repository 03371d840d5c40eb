//! `measure`: loss and delay of the links, switches and nodes between two nodes; or counts at named
//! interfaces.
//!
//! `netloom_session` does the work, in this process: this reads flags, and shows blocks and results.

mod both;
mod interfaces;
mod json;
mod late;
mod selection;
mod show;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use netloom_session::measure::between::{News, Prepared, Request};
use rustix::event::{PollFd, PollFlags};

use super::wording::{note, worded};
use crate::flags::Measure;
use crate::output::print;
use crate::{Usage, labs};

/// `netloom measure`
pub(crate) fn measure(lab: Option<&str>, args: &Measure) -> Result<i32> {
    if let Some(file) = &args.config {
        return interfaces::measure(lab, args, file);
    }
    let [from, to] = args.targets.as_slice() else {
        let words = "measure takes two nodes, or interfaces with --config FILE";
        return Err(Usage(words.to_owned()).into());
    };
    if from == to {
        let words = format!(
            "node {from:?} is named twice; name the one that sends and the one that receives"
        );
        return Err(Usage(words).into());
    }
    let request = request(args, [from, to]);
    let running = labs::of_session(lab)?;
    let mut prepared = Prepared::new(running, &request, &mut note).map_err(worded)?;
    let signals = super::ending()?;
    prepared.enter()?;
    let mut late = late::Late::begin(lab, args)?;
    let mut measurement = prepared.start(interrupts(signals))?;
    let mut output = show::Output::new(args, &prepared);
    measurement.begin()?;
    output.begin(measurement.watch(), measurement.flows())?;
    ended(measurement.each(|news| match news {
        News::Closed(closed) => {
            let block = closed.told.block;
            output.block(closed)?;
            late.as_mut().filter(|_| !args.quiet).map_or(Ok(()), |late| late.closed(block, args))
        }
        News::Joined { flow, from } => output.joined(flow, from),
        News::Rerouted(change) => output.rerouted(&change),
        News::Note(told) => {
            note(told);
            anyhow::Ok(())
        }
    })?);
    output.end(&measurement)?;
    output.left_out(measurement.left_out()?)?;
    for link in measurement.rewired() {
        tell_line!(
            "note: link {link}: it got or lost its wire while it was measured, so that figures of \
             hops next to it cannot be relied on"
        );
    }
    late.map_or(Ok(()), |late| late.end(args))?;
    Ok(0)
}

fn request(args: &Measure, nodes: [&String; 2]) -> Request {
    let only = match (args.what.ipv4, args.what.ipv6) {
        (true, _) => Some(4),
        (_, true) => Some(6),
        _ => None,
    };
    Request {
        nodes: nodes.map(String::clone),
        only,
        one_way: args.one_way,
        marking: !args.no_marking,
        flows: selection::flows(args),
        method: selection::method(args),
    }
}

/// Counts signals. The thread that waits for them ends with the process.
fn interrupts(signals: OwnedFd) -> Arc<AtomicU32> {
    let count = Arc::new(AtomicU32::new(0));
    let counts = Arc::clone(&count);
    std::thread::spawn(move || {
        let mut told = [0; 128];
        loop {
            let mut ready = [PollFd::new(&signals, PollFlags::IN)];
            let waited = rustix::event::poll(&mut ready, None);
            if waited.is_ok() && rustix::io::read(&signals, &mut told).is_ok_and(|n| n > 0) {
                counts.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    count
}

/// Notes why a session ended early.
fn ended(trouble: Option<String>) {
    if let Some(trouble) = trouble {
        tell_line!("note: {trouble}");
    }
}

/// Writes a line of machine-readable output.
fn line(text: &str) -> Result<()> {
    print(&format!("{text}\n"))
}
