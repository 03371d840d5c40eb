//! `generate` and `replay`: synthetic or recorded frames, sent to a target of a lab or of the host.
//!
//! `netloom_session` does the work, in this process: this reads flags, and shows the result.

mod show;

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use netloom_generate::{Engine, ReceiveOptions, ReplayOptions, Spec};
use netloom_session::generate::{Destination, Outlet};
use netloom_traffic::{Rate, Tempo};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::wording::worded;
use crate::flags::{Generate, GenerateEngine, Replay};
use crate::labs;
use crate::output::{print, print_json};

/// Default duration.
const DURATION: Duration = Duration::from_secs(10);
/// How long after the last frame a receiver ends.
const QUIET: Duration = Duration::from_secs(1);

/// `netloom generate`
pub(crate) fn generate(lab: Option<&str>, args: &Generate) -> Result<i32> {
    let mut to = outlet(lab, &args.target, !args.receive)?;
    // The lab is asked before this process enters it: afterwards it has no rights outside.
    let way = if args.receive { None } else { Some(to.way(&destination(args)).map_err(worded)?) };
    let signals = super::ending()?;
    to.enter()?;
    let stop = stops(signals);
    let Some(way) = way else { return receive(to, args, &stop) };
    let spec = |addresses| Spec {
        sizes: args.size,
        rate: args.rate,
        flows: args.flows,
        stream: args.stream,
        frames: args.count,
        duration: args.duration.or_else(|| args.count.is_none().then_some(DURATION)),
        ..Spec::new(addresses)
    };
    let report = to.send(&way, engine(args.engine), spec, &stop).map_err(worded)?;
    if args.json { print_json(&report) } else { print(&show::sent(&report)) }?;
    Ok(0)
}

fn outlet(lab: Option<&str>, target: &str, sends: bool) -> Result<Outlet> {
    let running = labs::of_targets(lab, &[target.to_owned()], false)?;
    Outlet::find(running, lab, target, sends).map_err(worded)
}

fn destination(args: &Generate) -> Destination {
    let Generate { to, to_mac, from, port, .. } = args;
    Destination { to: to.clone(), to_mac: *to_mac, from: *from, port: *port }
}

fn receive(to: Outlet, args: &Generate, stop: &AtomicBool) -> Result<i32> {
    let options = ReceiveOptions {
        frames: args.count,
        duration: args.duration,
        quiet: Some(QUIET),
        ..ReceiveOptions::default()
    };
    // Scripts wait for this line before they start the sender.
    let ready = |untold: Option<netloom_session::Error>| {
        if let Some(why) = untold {
            tell_line!(
                "note: frames lost at the end will not be noticed: {:#}",
                anyhow::Error::from(why)
            );
        }
        tell_line!("{}: receiving", args.target);
    };
    let report = to.receive(options, ready, stop)?;
    if args.json { print_json(&report) } else { print(&show::received(&report)) }?;
    Ok(0)
}

/// `netloom replay`
pub(crate) fn replay(lab: Option<&str>, args: &Replay) -> Result<i32> {
    let mut to = outlet(lab, &args.target, true)?;
    // A wrong path is told before anything is made; the file is read only later.
    File::open(&args.file).with_context(|| format!("{:?}: open", args.file))?;
    let signals = super::ending()?;
    to.enter()?;
    let stop = stops(signals);
    let tempo = match (args.rate, args.top_speed) {
        (Some(rate), _) => Tempo::Rate(rate),
        (None, true) => Tempo::Rate(Rate::Max),
        (None, false) => Tempo::Recorded(args.speed),
    };
    let options = ReplayOptions {
        tempo,
        rounds: args.rounds,
        frames: args.count,
        most_gap: args.max_gap,
        before_long_gap: Some(tell_of_gap),
    };
    let report = to.replay(&args.file, engine(args.engine), options, &stop)?;
    if args.json { print_json(&report) } else { print(&show::replayed(&report)) }?;
    if report.frames_sent == 0 {
        tell_line!("netloom: {:?}: no frame was sent", args.file);
        return Ok(1);
    }
    Ok(0)
}

/// Announces a long wait, so that a file with absurd times does not look like a hang.
fn tell_of_gap(gap: Duration, frame: u64) {
    tell_line!(
        "note: frame {frame} is {} after the one before it; --max-gap TIME shortens gaps",
        show::long(gap)
    );
}

/// A flag set by signals. The thread that waits for them ends with the process.
fn stops(signals: std::os::fd::OwnedFd) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&stop);
    std::thread::spawn(move || {
        let mut told = [PollFd::new(&signals, PollFlags::IN)];
        while rustix::event::poll(&mut told, None) == Err(Errno::INTR) {}
        set.store(true, Ordering::Relaxed);
    });
    stop
}

fn engine(asked: GenerateEngine) -> Engine {
    match asked {
        GenerateEngine::Auto => Engine::Auto,
        GenerateEngine::LiveFrames => Engine::LiveFrames,
        GenerateEngine::Ring => Engine::Ring,
        GenerateEngine::Shm => Engine::Shm,
    }
}
