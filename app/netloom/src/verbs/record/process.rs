//! The recorder's process.

use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netloom_lab::Folder;
use netloom_lab::recorder::{NAME, READY};
use netloom_record::{About, Books, Folder as Recording, Status, Store, Told};
use netloom_session::record::{LOOK, Recorder};
use netloom_sys::process::{close_all_but, die_with_parent, set_name, wait_readable};
use netloom_sys::{clock, describe};

use crate::labs;
use crate::verbs::roles;

/// Interval at which it says how it goes without being asked.
const TELL: Duration = Duration::from_secs(1);

/// `netloom record-process`: records the lab of a folder until it is told to end, or the lab ends.
pub(in crate::verbs) fn process(
    starter: i32,
    folder: &Path,
    keep: u64,
    inside: bool,
) -> Result<i32> {
    set_name(NAME);
    roles::begin(starter)?;
    // Key signals and a terminal's hang-up must not reach it.
    let _ = rustix::process::setsid();
    close_all_but(&[]);
    match record(folder, keep, inside) {
        Ok(()) => Ok(0),
        // Until it records, its starter tells this.
        Err(error) => {
            crate::output::print(&format!("{}\n", describe(error.as_ref())))?;
            Ok(1)
        }
    }
}

fn record(path: &Path, keep: u64, inside: bool) -> Result<()> {
    let (Some(runtime), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
    else {
        bail!("{path:?}: not a lab's folder");
    };
    let folder = Folder::new(runtime, name);
    let recording = Recording::make(&Recording::root()?, name)?;
    refuse_of_another(&recording, path)?;
    // The lock comes first: the log is another recorder's if that runs.
    let store = Store::open(recording, about(name), keep)?;
    let log = store.folder().log()?;
    let stop = super::super::ending()?;
    let connect = move || {
        let client = labs::connect_to(&folder)?;
        Ok(Box::new(client) as Box<dyn netloom_session::Lab>)
    };
    let began_ns = clock::realtime();
    let earlier = store.folder().told().status.spans();
    let telling =
        Telling { lab: name.to_owned(), runtime: path.to_owned(), began_ns, keep, earlier };
    let mut recorder = Recorder::start(store, path, Box::new(connect), inside)?;
    telling.tell(&recorder);
    crate::output::print(&format!("{READY}{}\n", recorder.links().len()))?;
    std::io::stdout().flush().context("say that it records")?;
    die_with_parent(false)?;
    rustix::stdio::dup2_stdout(&log).context("record.log: write to")?;
    rustix::stdio::dup2_stderr(&log).context("record.log: write to")?;
    drop(log);
    let (mut last, mut heard) = (Instant::now(), None);
    while !wait_readable(stop.as_fd(), LOOK) && recorder.look() {
        let asked = recorder.with_store(|store| store.folder().asked());
        if last.elapsed() >= TELL || asked != heard {
            // Nobody would find what it writes, nor end it.
            if !recorder.with_store(Store::is_there) {
                tell_line!("netloom: recording of lab {name:?}: its folder was removed");
                break;
            }
            telling.tell(&recorder);
            (last, heard) = (Instant::now(), asked);
        }
    }
    let before = telling.status(&recorder, recorder.books());
    // What a look could not find while the lab went is none of the recording's.
    let trouble = before.trouble.clone().filter(|_| !recorder.lab_is_going());
    let (books, store) = recorder.finish();
    let (bytes, segments) = store.size();
    let (trouble, gone_ns) = (trouble.or(store.trouble().map(str::to_owned)), store.gone_ns());
    let told_ns = clock::realtime();
    let last = Status { books, bytes, segments, trouble, told_ns, gone_ns, ended: true, ..before };
    if let Err(error) = store.folder().tell(&last) {
        tell_line!("netloom: recording of lab {name:?}: {}", describe(&error));
    }
    Ok(())
}

/// Refuses the recording of another lab of this name.
fn refuse_of_another(recording: &Recording, lab: &Path) -> Result<()> {
    let Told { status: told, problem } = recording.told();
    // It says nothing of another, nor of nodes of before.
    if let Some(problem) = problem {
        tell_line!("netloom: {problem}");
    }
    Ok(recording.refuse_another(&told, lab)?)
}

fn about(lab: &str) -> About {
    let netloom_capture::About { application, os, .. } = netloom_session::capture::about(None, "");
    About { application, os, comment: format!("lab {lab}: recording") }
}

/// What the status has that does not change.
struct Telling {
    lab: String,
    runtime: PathBuf,
    began_ns: u64,
    keep: u64,
    /// When earlier recorders ran.
    earlier: Vec<(u64, u64)>,
}

impl Telling {
    fn status(&self, recorder: &Recorder, books: Books) -> Status {
        let (bytes, segments) = recorder.size();
        Status {
            lab: self.lab.clone(),
            runtime: self.runtime.clone(),
            began_ns: self.began_ns,
            told_ns: clock::realtime(),
            keep: self.keep,
            bytes,
            segments,
            links: recorder.links(),
            books,
            trouble: recorder.trouble(),
            ended: false,
            nodes: recorder.nodes().clone(),
            earlier: self.earlier.clone(),
            gone_ns: recorder.with_store(Store::gone_ns),
            unrecorded: recorder.unrecorded().to_vec(),
        }
    }

    /// What cannot be written, such as on a full disk, is written a second later.
    fn tell(&self, recorder: &Recorder) {
        let status = self.status(recorder, recorder.books());
        drop(recorder.with_store(|store| store.folder().tell(&status)));
    }
}
