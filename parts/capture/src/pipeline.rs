//! A running capture: threads that take frames, one that writes them, one that supervises both.
//!
//! ```text
//! engine ─▶ filler ─▶ chunks ─▶ queue ─▶ writer ─▶ file or pipe
//! engine ─▶ filler ─▶   (of one pool)       keeper: limits, memory, statistics
//! ```
//!
//! Invariant: capture threads never wait for the writer. The writer merges chunks of several
//! interfaces.

use netloom_sys::{Failure, clock};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use netloom_disk::{How, Pool};
use serde::{Deserialize, Serialize};

use crate::engine::{Counts, Engine};
use crate::filler::Filler;
use crate::head::{About, Description, Encoder, Format};
use crate::keeper::Keeper;
use crate::ledger::Ledger;
use crate::merge::Merger;
use crate::output::{FileOptions, Files, Handed, Made, Output, Pipe};
use crate::poll::{Catch, Reopen};
use crate::rotation::Rotation;
use crate::shared::{Account, End, Shared};
use crate::sink::Sink;
use crate::writer::Writer;
use crate::{Error, Result};

/// Options of a capture.
#[derive(Debug)]
pub struct Options {
    /// The format of the output.
    pub format: Format,
    /// The files' description of themselves.
    pub about: About,
    /// Most bytes of frames in memory.
    pub memory: u64,
    /// Bytes written at once, a multiple of 4096 and at least 256 KiB; `None`: by the number of
    /// threads.
    pub chunk: Option<usize>,
    /// End after this many frames.
    pub packets: Option<u64>,
    /// End after this time.
    pub duration: Option<Duration>,
    /// End when this descriptor is readable.
    pub stop: Option<OwnedFd>,
}

impl Default for Options {
    /// pcapng, at most 1 GiB of memory, without an end.
    fn default() -> Self {
        Options {
            format: Format::PcapNg,
            about: About::default(),
            memory: 1 << 30,
            chunk: None,
            packets: None,
            duration: None,
            stop: None,
        }
    }
}

/// A source of frames: an interface, with one engine or several that share its frames.
pub struct Source {
    /// The file's description of it. Its index among the sources is its number in the file.
    pub description: Description,
    /// One per thread.
    pub engines: Vec<Box<dyn Engine>>,
    /// Reopens it when it is gone.
    pub reopen: Option<Reopen>,
    /// The path of its statistics file.
    pub statistics: Option<PathBuf>,
}

impl Source {
    /// A source with one engine.
    pub fn new(description: Description, engine: Box<dyn Engine>) -> Source {
        Source { description, engines: vec![engine], reopen: None, statistics: None }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("description", &self.description).finish_non_exhaustive()
    }
}

/// The destination of frames.
#[derive(Debug)]
pub enum Target {
    /// Files.
    Files(FileOptions),
    /// A pipe, a socket, standard output.
    Pipe(OwnedFd),
    /// What takes packet blocks in this process.
    Sink(Box<dyn Sink>),
}

/// An interface's name and ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its ledger.
    pub ledger: Ledger,
}

/// The state of a capture at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Time since its start.
    pub elapsed: Duration,
    /// In order of their numbers in the file.
    pub interfaces: Vec<Interface>,
    /// The sum of their ledgers.
    pub total: Ledger,
    /// Bytes of memory in use.
    pub memory: u64,
    /// Whether it waits for space on a full disk.
    pub waits_for_space: bool,
    /// Frames of several interfaces that came too late for time order: they are behind later ones.
    #[serde(default)]
    pub late: u64,
}

/// The result of a capture.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// Why it ended.
    pub end: End,
    /// The failure, if there was one.
    pub failure: Option<Error>,
    /// The state at its end: the ledger balances.
    pub last: Snapshot,
    /// The remaining files, oldest first.
    pub files: Vec<PathBuf>,
    /// How many files gave way to these: their frames count as written.
    pub removed: usize,
    /// Bytes written, including those of removed files.
    pub bytes: u64,
    /// How the last file was written.
    pub how: Option<How>,
}

/// A running capture. Dropping it ends it, and waits until everything captured is written.
#[derive(Debug)]
pub struct Pipeline {
    shared: Arc<Shared>,
    names: Vec<String>,
    catching: Vec<JoinHandle<()>>,
    writing: Option<JoinHandle<Made>>,
    keeping: Option<JoinHandle<()>>,
}

/// Ends a capture from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Ends it: later frames are not captured.
    pub fn stop(&self) {
        self.0.end(End::Stopped);
    }
}

impl Pipeline {
    /// Starts a capture. When this returns, the output exists, and the first file has its head.
    ///
    /// # Errors
    /// [`Error::OneInterface`] and [`Error::Options`] for impossible options; otherwise the output,
    /// a statistics file or a thread cannot be created.
    pub fn start(options: Options, sources: Vec<Source>, target: Target) -> Result<Pipeline> {
        let threads = check(&options, &sources)?;
        let chunk = options.chunk.unwrap_or_else(|| chunk_for(threads));
        let descriptions: Vec<Description> =
            sources.iter().map(|s| s.description.clone()).collect();
        let names = descriptions.iter().map(|d| d.name.clone()).collect();
        // A sink takes packets alone.
        let tells = options.format == Format::PcapNg && !matches!(target, Target::Sink(_));
        let encoder = Encoder::new(options.format, options.about, descriptions)?;
        let rotation = match &target {
            Target::Files(files) => files.rotation,
            Target::Pipe(_) | Target::Sink(_) => Rotation::default(),
        };
        let accounts = sources.iter().map(|s| Account::new(s.engines.len())).collect();
        let pool = Pool::new(chunk, options.memory);
        let shared = Arc::new(Shared::new(pool, chunk, accounts, rotation, options.packets));
        let statistics = sources.iter().map(|source| source.statistics.clone()).collect();
        let (stop, duration, memory) = (options.stop, options.duration, options.memory);
        let keeper = Keeper::new(Arc::clone(&shared), stop, duration, memory, statistics)?;
        let (patience, slack) = match target {
            Target::Pipe(_) | Target::Sink(_) => (LIVE_PATIENCE, Duration::ZERO),
            Target::Files(_) => (PATIENCE, SLACK),
        };
        let merger = shared.merges.then(|| Merger::new(Arc::clone(&shared), patience, slack));
        // After what can refuse the options: a request that fails leaves no capture file.
        let (output, wait_for_space) = output(target, encoder, &shared)?;
        let writer = Writer::new(Arc::clone(&shared), output, wait_for_space, merger);
        let mut pipeline =
            Pipeline { shared, names, catching: vec![], writing: None, keeping: None };
        pipeline.spawn(writer, keeper, catchers(&pipeline.shared, sources, tells))?;
        Ok(pipeline)
    }

    fn spawn(&mut self, writer: Writer, keeper: Keeper, catchers: Vec<Catch>) -> Result<()> {
        let alive = Arc::new(AtomicUsize::new(catchers.len()));
        let mut left = catchers.len();
        let result = (|| {
            // Before threads that take frames: what these hand over is
            // written at once, and limits hold from the first frame.
            self.writing = Some(thread("capture-write", || writer.run())?);
            self.keeping = Some(thread("capture-keep", || keeper.run())?);
            for catch in catchers {
                let alive = Arc::clone(&alive);
                self.catching.push(thread("capture-take", move || catch.run(&alive))?);
                left -= 1;
            }
            Ok(())
        })();
        if result.is_err() && alive.fetch_sub(left, Ordering::AcqRel) == left {
            // No other thread is left to close it.
            self.shared.queue.close();
        }
        result
    }

    /// The present state.
    pub fn snapshot(&self) -> Snapshot {
        let ledgers = self.shared.accounts.iter().map(Account::ledger);
        let interfaces: Vec<Interface> = std::iter::zip(&self.names, ledgers)
            .map(|(name, ledger)| Interface { name: name.clone(), ledger })
            .collect();
        Snapshot {
            elapsed: self.shared.started.elapsed(),
            total: interfaces.iter().map(|interface| interface.ledger).sum(),
            interfaces,
            memory: self.shared.pool.in_use_bytes(),
            waits_for_space: self.shared.full.load(Ordering::Relaxed),
            late: self.shared.late.load(Ordering::Relaxed),
        }
    }

    /// A handle to end it from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    /// Whether it has ended or is about to: [`Pipeline::wait`] will not take long.
    pub fn is_ending(&self) -> bool {
        self.shared.is_stopping()
    }

    /// Waits for the end, and until everything is written.
    pub fn wait(mut self) -> Report {
        let made = self.join();
        let (end, failure) = self.shared.take_end();
        let last = self.snapshot();
        let Made { files, removed, bytes, how } = made;
        Report { end, failure, last, files, removed, bytes, how }
    }

    fn join(&mut self) -> Made {
        // In the order of the frames: the writer ends when nobody
        // fills the queue, the keeper when all is written.
        for catching in self.catching.drain(..) {
            join(&self.shared, catching);
        }
        let made = self.writing.take().and_then(|writing| join(&self.shared, writing));
        if made.is_none() {
            // A writer that has panicked did not announce it.
            self.shared.finish();
        }
        if let Some(keeping) = self.keeping.take() {
            join(&self.shared, keeping);
        }
        made.unwrap_or_default()
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if self.writing.is_some() {
            self.shared.end(End::Stopped);
            self.join();
        }
    }
}

/// Longest wait for other interfaces' threads, so that frames are in order: for a live reader, and
/// for a file.
const LIVE_PATIENCE: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(5);
/// Extra time for which frames for files are held.
const SLACK: Duration = Duration::from_millis(200);

/// Checks the options; returns the number of threads.
fn check(options: &Options, sources: &[Source]) -> Result<usize> {
    let wrong = |what| Err(Error::Options { what });
    if sources.is_empty() || sources.iter().any(|source| source.engines.is_empty()) {
        return wrong("no interface, or one without an engine");
    }
    let chunk = options.chunk.unwrap_or(LEAST_CHUNK);
    if chunk < LEAST_CHUNK || !chunk.is_multiple_of(netloom_disk::BLOCK) {
        return wrong("chunks have at least 256 KiB, and a multiple of 4096 bytes");
    }
    Ok(sources.iter().map(|source| source.engines.len()).sum())
}

/// Room for the longest super-frame, plus a margin.
const LEAST_CHUNK: usize = 256 << 10;

/// Each thread may have a chunk in progress, however few frames there are.
fn chunk_for(threads: usize) -> usize {
    match threads {
        0..=4 => 4 << 20,
        5..=16 => 1 << 20,
        _ => LEAST_CHUNK,
    }
}

fn output(
    target: Target,
    encoder: Encoder,
    shared: &Arc<Shared>,
) -> Result<(Box<dyn Output>, bool)> {
    let shared = Arc::clone(shared);
    Ok(match target {
        Target::Files(options) => {
            let waits = options.wait_for_space;
            (Box::new(Files::create(options, encoder, shared)?), waits)
        }
        Target::Pipe(fd) => (Box::new(Pipe::new(fd, encoder, shared)?), false),
        Target::Sink(sink) => (Box::new(Handed { sink, shared, bytes: 0 }), false),
    })
}

fn catchers(shared: &Arc<Shared>, sources: Vec<Source>, tells: bool) -> Vec<Catch> {
    let mut catchers = Vec::new();
    for (source, of) in sources.into_iter().enumerate() {
        let reopen = of.reopen.map(|reopen| Arc::new(Mutex::new(reopen)));
        for (thread, engine) in of.engines.into_iter().enumerate() {
            let snaplen = of.description.snaplen;
            catchers.push(Catch {
                shared: Arc::clone(shared),
                filler: Filler::new(Arc::clone(shared), source, thread, snaplen),
                engine,
                name: of.description.name.clone(),
                source,
                thread,
                reopen: reopen.clone(),
                tells,
                before: Counts::default(),
                shown: Counts::default(),
                looked: clock::monotonic(),
                told: clock::monotonic(),
            });
        }
    }
    catchers
}

fn thread<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.map_err(|e| Failure::new(format!("thread {name:?}"), "start", e).into())
}

/// A thread's result; `None` if it has panicked, which is reported.
fn join<T>(shared: &Shared, thread: JoinHandle<T>) -> Option<T> {
    let joined = thread.join();
    if joined.is_err() {
        shared.fail(Error::Options { what: "one of its threads has panicked" });
    }
    joined.ok()
}
