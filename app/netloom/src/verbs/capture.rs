//! `capture`: frames of targets into a file or a pipe, each accounted for.
//!
//! This process does the work: it opens engines in the namespaces of their targets; `netloom_capture` does
//! the rest. A capture ends on Ctrl-C, at its limits, or when its targets are gone.

mod engines;
mod show;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context, Result, bail};
use netloom_capture::{
    About, End, FileOptions, Format, Options, Pipeline, Report, Rotation, Target as Output,
};
use netloom_disk::Direct;
use netloom_model::Plan;
use netloom_model::lookup::target::Place;

use crate::Usage;
use crate::flags::{Capture, CaptureEngine, CaptureFormat};
use crate::spaces::Spaces;
use engines::Mirrors;

/// `netloom capture`
pub(crate) fn capture(lab: Option<&str>, args: &Capture) -> Result<i32> {
    let (mut spaces, found) = Spaces::find(lab, &args.targets, args.all)?;
    if found.points.is_empty() && found.mirrors.is_empty() {
        bail!("there is no link in the lab");
    }
    let format = format(args);
    let interfaces = found.points.len() + found.mirrors.len();
    if format != Format::PcapNg && interfaces > 1 {
        let words = format!(
            "classic pcap has room for one interface, and these are {interfaces}; write pcapng"
        );
        return Err(Usage(words).into());
    }
    if let Some(mirrored) = found.mirrors.first()
        && !matches!(args.engine, CaptureEngine::Auto | CaptureEngine::Switch)
    {
        let switch = &mirrored.switch;
        let words =
            format!("switch {switch:?}: it is in shared memory, and captured by the engine switch");
        return Err(Usage(words).into());
    }
    let filter = engines::Filter::compile(&args.filter, spaces.plan())?;
    let about = about(spaces.plan(), args);
    if !found.mirrors.is_empty() {
        // Switches live as long as their lab, and so does its core.
        spaces.open(&Place::Core)?;
    }
    let mirrors = Mirrors::join(&spaces, lab, &found.mirrors)?;
    let output = output(args)?;
    let small = args.files.rotate_size.is_some_and(|bytes| bytes < ROOMY);
    let stop = super::ending()?;
    let plan = spaces.plan().cloned();
    spaces.enter()?;
    let opened = engines::open(&spaces, plan.as_ref(), &found.points, &filter, args)?;
    let sources = opened.into_iter().chain(mirrors.sources(&filter, args)).collect();
    let options = Options {
        format,
        about,
        memory: args.memory,
        chunk: small.then_some(SMALL_CHUNK),
        packets: args.count,
        duration: args.duration,
        stop: Some(stop),
    };
    let pipeline = Pipeline::start(options, sources, output)?;
    let gone = show::watch(&pipeline, &spaces, args);
    finish(pipeline.wait(), gone, args)
}

/// Files smaller than this get smaller chunks, since a file takes whole chunks.
const ROOMY: u64 = 64 << 20;
const SMALL_CHUNK: usize = 256 << 10;
/// Room for a chunk and the data around it.
const LEAST_FILE: u64 = 512 << 10;

/// The output format: as requested, or by the file's extension.
fn format(args: &Capture) -> Format {
    let by_name = || {
        let ending = args.write.as_deref().and_then(Path::extension);
        if ending.is_some_and(|e| e == "pcap" || e == "cap") {
            CaptureFormat::Pcap
        } else {
            CaptureFormat::Pcapng
        }
    };
    match args.format.unwrap_or_else(by_name) {
        CaptureFormat::Pcapng => Format::PcapNg,
        CaptureFormat::Pcap => Format::Pcap,
        CaptureFormat::PcapNs => Format::PcapNs,
    }
}

/// Metadata of the file, with the names of all nodes.
fn about(plan: Option<&Plan>, args: &Capture) -> About {
    let mut names = vec![];
    for node in plan.iter().flat_map(|plan| &plan.nodes) {
        for address in node.interfaces.iter().flat_map(|i| &i.addresses) {
            names.push((address.addr(), vec![node.name.clone()]));
        }
    }
    let system = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let comment = plan.map(|plan| format!("lab {}: {}", plan.lab, targets(args)));
    About {
        application: concat!("netloom ", env!("CARGO_PKG_VERSION")).to_owned(),
        os: format!("{} {}", word(system.sysname()), word(system.release())),
        hardware: Some(word(system.machine())),
        comment,
        names,
    }
}

fn targets(args: &Capture) -> String {
    if args.all { "all links".to_owned() } else { args.targets.join(" ") }
}

/// The output.
fn output(args: &Capture) -> Result<Output> {
    let files = &args.files;
    if files.rotate_size.is_some_and(|bytes| bytes < LEAST_FILE) {
        return Err(Usage("--rotate-size: files have at least 512 KiB".to_owned()).into());
    }
    let rotation = Rotation {
        // A bounded series of files has a default file size.
        bytes: files
            .rotate_size
            .or_else(|| (files.files.is_some() && files.rotate_time.is_none()).then_some(2 << 30)),
        time: files.rotate_time,
        files: files.files.map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
    };
    let path = match args.write.as_deref() {
        Some(path) if path != Path::new("-") => path,
        _ if rotation.is_any() || files.wait_for_space => {
            return Err(Usage("files are rotated and waited for; name one with -w".into()).into());
        }
        Some(_) => return Ok(Output::Pipe(standard_output()?)),
        None => {
            let null = File::options().write(true).open("/dev/null");
            return Ok(Output::Pipe(null.context("open /dev/null")?.into()));
        }
    };
    let mut options = FileOptions::new(path);
    options.rotation = rotation;
    options.fsync = files.sync;
    options.wait_for_space = files.wait_for_space;
    if files.buffered {
        options.disk.direct = Direct::Never;
    }
    if let Some(bytes) = rotation.bytes {
        options.disk.preallocate = bytes;
    }
    Ok(Output::Files(options))
}

/// Standard output, which must not be a terminal.
fn standard_output() -> Result<OwnedFd> {
    let out = std::io::stdout();
    if std::io::IsTerminal::is_terminal(&out) {
        return Err(
            Usage("-w -: standard output is a terminal; lead it into a program".into()).into()
        );
    }
    rustix::io::fcntl_dupfd_cloexec(&out, 3).context("copy standard output")
}

/// Shows the account and returns the exit code. `gone`: the capture ended because its nodes did.
fn finish(mut report: Report, gone: bool, args: &Capture) -> Result<i32> {
    if gone && report.end == End::Stopped {
        report.end = End::InterfacesGone;
    }
    show::account(&report, args)?;
    if let Some(failure) = report.failure {
        return Err(anyhow::Error::from(failure).context("capture"));
    }
    match report.end {
        End::DiskFull => bail!("the disk is full: the file is whole up to there"),
        End::InterfacesGone if !args.quiet => eprintln!("note: what was captured from is no more"),
        _ => {}
    }
    match report.last.total.difference() {
        0 => Ok(0),
        missing => bail!("the account does not close: {missing} frames"),
    }
}
