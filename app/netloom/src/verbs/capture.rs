//! `capture`: frames of targets into a file or a pipe, each accounted for.
//!
//! `netloom_session` does the work, in this process: this reads flags, and shows progress and the account. A
//! capture ends on Ctrl-C, at its limits, or when its targets are gone.

mod show;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context, Result, bail};
use netloom_capture::engine::{Direction, Wish};
use netloom_capture::{
    End, EngineKind, FileOptions, Format, Options, Report, Rotation, Target as Output,
};
use netloom_disk::Direct;
use netloom_session::Spaces;
use netloom_session::capture::{Prepared, Wanted, about};

use super::wording::worded;
use crate::flags::{Capture, CaptureDirection, CaptureEngine, CaptureFormat};
use crate::{Usage, labs};

/// `netloom capture`
pub(crate) fn capture(lab: Option<&str>, args: &Capture) -> Result<i32> {
    let running = labs::of_targets(lab, &args.targets, args.all)?;
    let found = Spaces::find(running, &args.targets, args.all)?;
    let format = format(args);
    let prepared = Prepared::new(found, lab, wanted(args)?, format).map_err(worded)?;
    let what = if args.all { "all links".to_owned() } else { args.targets.join(" ") };
    let about = about(prepared.spaces().plan(), &what);
    let output = output(args)?;
    let small = args.files.rotate_size.is_some_and(|bytes| bytes < ROOMY);
    let stop = super::ending()?;
    let opened = prepared.open()?;
    show::choices(opened.choices(), args);
    let options = Options {
        format,
        about,
        memory: args.memory,
        chunk: small.then_some(SMALL_CHUNK),
        packets: args.count,
        duration: args.duration,
        stop: Some(stop),
    };
    let mut capture = opened.start(options, output)?;
    let mut progress = show::Progress::new(capture.pipeline(), args);
    capture.watch(|pipeline| progress.look(pipeline));
    progress.clear();
    finish(capture.finish(), args)
}

/// What the flags ask for at each target.
fn wanted(args: &Capture) -> Result<Wanted> {
    let direction = match args.direction {
        CaptureDirection::Both => Direction::Both,
        CaptureDirection::In => Direction::In,
        CaptureDirection::Out => Direction::Out,
    };
    let engine = match args.engine {
        CaptureEngine::Auto => None,
        CaptureEngine::Tpacket => Some(EngineKind::Tpacket),
        CaptureEngine::XdpRing => Some(EngineKind::XdpRing),
        CaptureEngine::TcRing => Some(EngineKind::TcRing),
        CaptureEngine::Switch => Some(EngineKind::Switch),
        CaptureEngine::Pcap => Some(EngineKind::Pcap),
    };
    Ok(Wanted {
        filter: args.filter.clone(),
        without_own: !args.own,
        wish: Wish { engine, fast: args.fast, sink: args.sink, direction },
        snaplen: args.snaplen,
        ring: usize::try_from(args.ring).context("--ring: more than can be addressed")?,
        threads: args.threads.into(),
        promiscuous: args.promiscuous,
        statistics: args.statistics.clone(),
    })
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

/// Shows the account and returns the exit code.
fn finish(report: Report, args: &Capture) -> Result<i32> {
    show::account(&report, args)?;
    if let Some(failure) = report.failure {
        return Err(anyhow::Error::from(failure).context("capture"));
    }
    match report.end {
        End::DiskFull => bail!("the disk is full: the file is whole up to there"),
        End::InterfacesGone if !args.quiet => tell_line!("note: the captured interface is gone"),
        _ => {}
    }
    match report.last.total.difference() {
        0 => Ok(0),
        missing => bail!("counters do not balance: {missing} frames missing"),
    }
}
