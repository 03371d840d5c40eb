//! `generate` and `replay`: synthetic or recorded frames, sent to a target of a lab or of the host.
//!
//! `netloom_generate` does the work, in this process on a thread in the target's namespace.

mod outlet;
mod show;
mod way;

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use netloom_generate::{
    Engine, Generator, Receive, ReceiveOptions, ReplayOptions, Replayer, Spec, Target,
};
use netloom_netlink::LinkInfo;
use netloom_traffic::{Rate, Tempo};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::flags::{Generate, GenerateEngine, Replay};
use crate::output::{print, print_json};
use outlet::Outlet;

/// Default duration.
const DURATION: Duration = Duration::from_secs(10);
/// How long after the last frame a receiver ends.
const QUIET: Duration = Duration::from_secs(1);

/// `netloom generate`
pub(crate) fn generate(lab: Option<&str>, args: &Generate) -> Result<i32> {
    let mut to = Outlet::find(lab, &args.target, !args.receive)?;
    let way = if args.receive { None } else { Some(to.way(args)?) };
    let signals = super::ending()?;
    to.enter()?;
    let stop = stops(signals);
    let Some(way) = way else { return receive(to, args, &stop) };
    let report = to.run(|target, link| {
        let spec = Spec {
            sizes: args.size,
            rate: args.rate,
            flows: args.flows,
            stream: args.stream,
            frames: args.count,
            duration: args.duration.or_else(|| args.count.is_none().then_some(DURATION)),
            ..Spec::new(way.addresses(link, args)?)
        };
        Ok(Generator::open(target, engine(args.engine), spec)?.run(&stop)?)
    })?;
    if args.json { print_json(&report) } else { print(&show::sent(&report)) }?;
    Ok(0)
}

fn receive(to: Outlet, args: &Generate, stop: &AtomicBool) -> Result<i32> {
    let options = ReceiveOptions {
        frames: args.count,
        duration: args.duration,
        quiet: Some(QUIET),
        ..ReceiveOptions::default()
    };
    let report = to.run(|_, link: Option<&LinkInfo>| {
        let link = link.context("a switch is received from at a node's interface")?;
        let mut receive = Receive::open(link.index, options)?;
        // Scripts wait for this line before they start the sender.
        eprintln!("{}: receiving", args.target);
        receive.run(stop)?;
        Ok(receive.report(&[]))
    })?;
    if args.json { print_json(&report) } else { print(&show::received(&report)) }?;
    Ok(0)
}

/// `netloom replay`
pub(crate) fn replay(lab: Option<&str>, args: &Replay) -> Result<i32> {
    let mut to = Outlet::find(lab, &args.target, true)?;
    let open = || File::open(&args.file);
    open().with_context(|| format!("{:?}: open", args.file))?;
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
    let report = to.run(|target: Target, _| {
        let mut replayer = Replayer::open(target, engine(args.engine), options)?;
        replayer.run(open, &stop).with_context(|| format!("{:?}: play", args.file))
    })?;
    if args.json { print_json(&report) } else { print(&show::replayed(&report)) }?;
    Ok(0)
}

/// Announces a long wait, so that a file with absurd times does not look like a hang.
fn tell_of_gap(gap: Duration, frame: u64) {
    eprintln!(
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
