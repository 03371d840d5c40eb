//! Captures: engines opened at targets, and the pipeline that they feed.
//!
//! [`Prepared`] is a request that can be met: its filter compiles, its switches are joined. [`Opened`] has the
//! engines, with what was chosen for each interface and why. [`Capture`] runs, and ends at its limits, when it is
//! told to, or when its targets are gone. What becomes of frames is `netloom_capture`'s.

mod about;
mod engines;
mod filter;
mod mirrors;
mod sink;

use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use netloom_capture::engine::Wish;
use netloom_capture::{End, EngineKind, Format, Options, Pipeline, Report, Source, Target};
use netloom_model::lookup::target::{self, Space};
use netloom_sys::Failure;

use crate::{Error, Result, Spaces};
use filter::Filter;
use mirrors::Mirrors;

pub use about::about;
pub use filter::check as check_filter;

/// Interval between checks whether a capture has ended.
const LOOK: Duration = Duration::from_millis(50);

/// The captured interfaces of each target, and their engines.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// An expression in libpcap's syntax, in which hosts may be nodes of the lab; empty for all frames.
    pub filter: String,
    /// Whether frames that netloom itself sends into the lab are left out.
    pub without_own: bool,
    /// The engine and the direction.
    pub wish: Wish,
    /// How many bytes of each frame are kept; 0 for all.
    pub snaplen: u32,
    /// The size of each ring buffer in bytes.
    pub ring: usize,
    /// Threads that share each interface's frames, where the engine can.
    pub threads: usize,
    /// Whether frames for other stations are captured, too.
    pub promiscuous: bool,
    /// The folder for a file of statistics for each interface.
    pub statistics: Option<PathBuf>,
}

/// How an interface is captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its name in the lab.
    pub interface: String,
    /// The engine, and the reason for it.
    pub reason: String,
}

/// A capture whose request can be met.
pub struct Prepared {
    spaces: Spaces,
    found: target::Target,
    wanted: Wanted,
    filter: Filter,
    mirrors: Mirrors,
}

impl Prepared {
    /// Checks a request to capture from `found` into a file of this format, and joins the switches in it. `lab` is
    /// the lab's name if the caller gave one.
    ///
    /// # Errors
    /// [`Error::Request`] for what does not go together and for a wrong filter, [`Error::NoLink`]; a switch that
    /// cannot be joined.
    pub fn new(
        (mut spaces, found): (Spaces, target::Target),
        lab: Option<&str>,
        wanted: Wanted,
        format: Format,
    ) -> Result<Prepared> {
        check(&found, &wanted.wish, format)?;
        // Into the host's network it sends none.
        let without_own = wanted.without_own && spaces.plan().is_some();
        let filter = Filter::compile(&wanted.filter, spaces.plan(), without_own)?;
        if !found.mirrors.is_empty() {
            // Switches live as long as their lab, and so does its core.
            spaces.open(&Space::Core)?;
        }
        let mirrors = Mirrors::join(&spaces, lab, &found.mirrors)?;
        Ok(Prepared { spaces, found, wanted, filter, mirrors })
    }

    /// The namespaces.
    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Enters the lab's user namespace, if any, and opens the engines. No other thread may run yet.
    ///
    /// # Errors
    /// An interface is not there, or cannot be captured from as requested.
    pub fn open(self) -> Result<Opened> {
        self.open_from(&mut false)
    }

    /// As [`Prepared::open`], by a process that may be in the lab's user namespace already; says when it is.
    pub(crate) fn open_from(mut self, inside: &mut bool) -> Result<Opened> {
        if let Some(folder) = &self.wanted.statistics {
            std::fs::create_dir_all(folder)
                .map_err(|e| netloom_sys::Error::from(Failure::path(folder, "make", e)))?;
        }
        if !*inside {
            self.spaces.enter()?;
            *inside = true;
        }
        let plan = self.spaces.plan();
        let (mut sources, choices) =
            engines::open(&self.spaces, plan, &self.found.points, &self.filter, &self.wanted)?;
        sources.extend(self.mirrors.sources(&self.filter, &self.wanted));
        Ok(Opened { spaces: self.spaces, sources, choices })
    }
}

/// Refuses what does not go together.
fn check(found: &target::Target, wish: &Wish, format: Format) -> Result<()> {
    let interfaces = found.points.len() + found.mirrors.len();
    if interfaces == 0 {
        return Err(Error::NoLink);
    }
    if format != Format::PcapNg && interfaces > 1 {
        return Err(Error::Request(format!(
            "classic pcap has room for one interface, and these are {interfaces}; write pcapng"
        )));
    }
    if let Some(mirrored) = found.mirrors.first()
        && wish.sink
    {
        let switch = &mirrored.switch;
        return Err(Error::Request(format!(
            "switch {switch:?}: its mirror port gets copies of frames, so --sink has nothing to end; leave it out"
        )));
    }
    if let Some(mirrored) = found.mirrors.first()
        && !matches!(wish.engine, None | Some(EngineKind::Switch))
    {
        let switch = &mirrored.switch;
        return Err(Error::Request(format!(
            "switch {switch:?}: it is in shared memory, and captured by the engine switch"
        )));
    }
    Ok(())
}

/// A capture whose engines are open; they take frames already.
pub struct Opened {
    spaces: Spaces,
    sources: Vec<Source>,
    choices: Vec<Choice>,
}

impl Opened {
    /// How each interface is captured, in the order of the targets.
    pub fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// Starts it.
    ///
    /// # Errors
    /// Those of [`Pipeline::start`].
    pub fn start(self, options: Options, output: Target) -> Result<Capture> {
        let pipeline = Pipeline::start(options, self.sources, output)?;
        Ok(Capture { pipeline, spaces: self.spaces, gone: false })
    }
}

/// A running capture.
pub struct Capture {
    pipeline: Pipeline,
    spaces: Spaces,
    /// It was ended because its targets were gone.
    gone: bool,
}

impl Capture {
    /// Waits until it is ending, and calls `look` several times a second; ends it when its targets are gone.
    pub fn watch(&mut self, mut look: impl FnMut(&Pipeline)) {
        while !self.pipeline.is_ending() {
            sleep(LOOK);
            if self.spaces.are_gone() {
                self.pipeline.stopper().stop();
                self.gone = true;
            }
            look(&self.pipeline);
        }
    }

    /// Whether it is ending; ends it when its targets are gone.
    pub(crate) fn has_ended(&self) -> bool {
        if self.spaces.are_gone() {
            self.pipeline.stopper().stop();
        }
        self.pipeline.is_ending()
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Waits until all is written; what became of every frame.
    pub fn finish(self) -> Report {
        let mut report = self.pipeline.wait();
        // A limit may have ended it at the same moment; that reason holds.
        if self.gone && report.end == End::Stopped {
            report.end = End::InterfacesGone;
        }
        report
    }
}
