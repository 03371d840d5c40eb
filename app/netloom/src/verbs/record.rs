//! `record`: a recorder in the background, which keeps every frame of a lab's links.
//!
//! The recorder is a process of this program. It is found by the lock that it holds on the recording's folder, and ends
//! with the lab. Until it records, it ends with its starter; from then on its messages go to `record.log` in the folder.

mod process;

use std::time::{Duration, Instant};

use anyhow::{Error, Result, bail};
use netloom_config::printable;
use netloom_lab::{Folder, recorder, runtime_dir};
use netloom_record::{Folder as Recording, Status, Told};
use netloom_sys::process::wait_end;
use serde_json::json;

use crate::flags::{Record, RecordShow, RecordStart};
use crate::output::{bytes, count, print_json, utc};
use crate::{Usage, labs, output};

pub(super) use process::process;

/// How long a recorder may take to say how it goes, and the pause between two looks.
const ANSWERS: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(10);

/// `netloom record`
pub(crate) fn record(lab: Option<&str>, verb: &Record) -> Result<i32> {
    match verb {
        Record::Start(args) => start(lab, args),
        Record::Stop(args) => stop(lab, args),
        Record::Status(args) => status(lab, args),
        Record::Delete(_) => delete(lab),
    }
}

fn start(lab: Option<&str>, args: &RecordStart) -> Result<i32> {
    let folder = labs::chosen(lab)?;
    if folder.is_scope() {
        return Err(Usage("a lab is recorded outside of its nodes".to_owned()).into());
    }
    let links = launch(&folder, args.keep)?;
    let recording = Recording::open(&Recording::root()?, folder.name())?;
    output::show(&format!(
        "lab {}: recording {}, at most {} in {}\n",
        folder.name(),
        count(links, "link"),
        bytes(args.keep),
        recording.path().display(),
    ))?;
    Ok(0)
}

/// Starts a recorder for a running lab; returns the number of recorded links.
fn launch(folder: &Folder, keep: u64) -> Result<usize> {
    // A lab that is being made is waited for here, with its messages.
    labs::connect_to(folder)?;
    recorder::start(folder, keep, None).map_err(Error::msg)
}

/// The recording of the lab that is meant: of a running one, or of one that is gone.
pub(super) fn chosen(lab: Option<&str>) -> Result<Recording> {
    let name = match labs::name(lab)? {
        Some(name) => name,
        None if labs::any()? => labs::chosen(None)?.name().to_owned(),
        None => return Err(unnamed()?),
    };
    if let Some(problem) = netloom_model::lab_name_problem(&name) {
        return Err(Usage(problem).into());
    }
    let recording = Recording::open(&Recording::root()?, &name)?;
    let folder = Folder::new(&runtime_dir()?, &name);
    if folder.exists()? {
        recording.refuse_another(&recording.told().status, &folder.path())?;
    }
    Ok(recording)
}

/// Why no recording is meant where none is named and no lab runs.
fn unnamed() -> Result<anyhow::Error> {
    let recorded = Recording::labs(&Recording::root()?);
    Ok(match recorded.as_slice() {
        [] => anyhow::anyhow!("no lab is running, and none was recorded"),
        names => {
            let names = names.join(", ");
            Usage(format!("no lab is running; recorded: {names}; name one with -l LAB")).into()
        }
    })
}

fn stop(lab: Option<&str>, args: &RecordShow) -> Result<i32> {
    let recording = chosen(lab)?;
    let Some((_, process)) = recorder::find(&recording).map_err(Error::msg)? else {
        bail!("lab {:?}: it is not recorded", recording.lab());
    };
    recorder::end(&recording, &process).map_err(Error::msg)?;
    show(&recording, args.json)
}

fn status(lab: Option<&str>, args: &RecordShow) -> Result<i32> {
    show(&chosen(lab)?, args.json)
}

fn delete(lab: Option<&str>) -> Result<i32> {
    let recording = chosen(lab)?;
    let lab = recording.lab().to_owned();
    recording.delete()?;
    output::show(&format!("lab {lab}: what was recorded is removed\n"))?;
    Ok(0)
}

/// Waits until the recorder of a lab that was taken down has written what it has.
pub(super) fn wait_for_end(folder: &Folder) {
    let Ok(recording) = Recording::root().and_then(|root| Recording::open(&root, folder.name()))
    else {
        return;
    };
    let told = recording.status().ok().flatten();
    let is_of_lab = told.is_some_and(|told| told.runtime == folder.path());
    if let (true, Ok(Some((_, pidfd)))) = (is_of_lab, recorder::find(&recording)) {
        wait_end(&pidfd, recorder::END_TIMEOUT);
    }
}

/// Removes what a lab recorded that only a test had: nobody would look for it under that name.
pub(in crate::verbs) fn forget(folder: &Folder) {
    let opened = Recording::root().and_then(|root| Recording::open(&root, folder.name()));
    let Ok(recording) = opened else { return };
    if recording.told().status.runtime == folder.path() {
        // One that cannot be removed is found by `netloom record status`.
        drop(recording.delete());
    }
}

fn show(recording: &Recording, is_json: bool) -> Result<i32> {
    let running = recorder::find(recording).map_err(Error::msg)?;
    let Told { status: mut told, problem } = match running {
        Some(_) => asked(recording),
        None => recording.told(),
    };
    told.trouble = told.trouble.or(problem);
    if is_json {
        print_json(&json!({
            "lab": recording.lab(),
            "recording": running.is_some(),
            "pid": running.map(|(pid, _)| pid.as_raw_nonzero().get()),
            "folder": recording.path(),
            "began_ns": told.began_ns.to_string(),
            "told_ns": told.told_ns.to_string(),
            "keep": told.keep,
            "bytes": told.bytes,
            "segments": told.segments,
            "links": told.links,
            "books": told.books,
            "difference": i64::try_from(told.books.difference()).unwrap_or(i64::MAX),
            "earlier": told.earlier.iter().map(span_ns).collect::<Vec<_>>(),
            "gone_ns": told.gone_ns.to_string(),
            "unrecorded": told.unrecorded,
            "trouble": told.trouble,
            "ended": told.ended,
        }))?;
        return Ok(0);
    }
    output::show(&text(recording, &told, running.is_some()))?;
    Ok(0)
}

/// What a running recorder says to this question. One that does not answer has said something before.
fn asked(recording: &Recording) -> Told {
    let now = netloom_sys::clock::realtime();
    let until = Instant::now() + ANSWERS;
    let is_asked = recording.ask(now).is_ok();
    loop {
        let told = recording.told();
        if !is_asked || told.status.told_ns >= now || told.status.ended || Instant::now() >= until {
            return told;
        }
        std::thread::sleep(LOOK);
    }
}

/// When a recorder began and ended.
fn span_ns((began, ended): &(u64, u64)) -> serde_json::Value {
    json!({"began_ns": began.to_string(), "ended_ns": ended.to_string()})
}

/// What of the lab, or of the time before the last recorder, is here and is not.
fn beside(told: &Status) -> String {
    let mut text = String::new();
    for (began, ended) in &told.earlier {
        text.push_str(&format!("recorded before from {} to {}\n", utc(*began), utc(*ended)));
    }
    if told.gone_ns > 0 {
        text.push_str(&format!("packets up to {} gave way to newer ones\n", utc(told.gone_ns)));
    }
    for link in &told.unrecorded {
        let link = printable::line(link);
        text.push_str(&format!(
            "not recorded: link {link}, of which no end is an interface of the lab's\n"
        ));
    }
    text
}

fn text(recording: &Recording, told: &Status, is_running: bool) -> String {
    let mut text = match told.told_ns {
        // It has said nothing yet, or that is lost.
        0 => {
            let how = if is_running { "recording" } else { "not recording" };
            let path = recording.path().display();
            format!("lab {}: {how}; what is in {path} is not known\n", recording.lab())
        }
        _ => known(recording, told, is_running),
    };
    if let Some(trouble) = &told.trouble {
        text.push_str(&format!("trouble: {}\n", printable::line(trouble)));
    }
    text
}

/// What a recorder has said.
fn known(recording: &Recording, told: &Status, is_running: bool) -> String {
    let how = match (is_running, told.ended) {
        (true, _) => format!("recording {}", count(told.links.len(), "link")),
        (false, true) => "not recording".to_owned(),
        (false, false) => "not recording: the recorder was killed".to_owned(),
    };
    let (books, lost) = (&told.books, &told.books.dropped);
    let mut text = format!("lab {}: {how} since {}\n", recording.lab(), utc(told.began_ns));
    if !is_running {
        text = format!(
            "lab {}: {how}; recorded from {} to {}\n",
            recording.lab(),
            utc(told.began_ns),
            utc(told.told_ns)
        );
    }
    text.push_str(&format!(
        "{} in {}, of at most {}, in {}\n",
        bytes(told.bytes),
        count(told.segments, "segment"),
        bytes(told.keep),
        recording.path().display(),
    ));
    text.push_str(&format!(
        "{} seen = {} stored + {} again + {} dropped (ring {}, memory {}, disk {}); on their way {}\n",
        books.seen,
        books.stored,
        books.again,
        lost.ring + lost.memory + lost.disk,
        lost.ring,
        lost.memory,
        lost.disk,
        books.difference(),
    ));
    text.push_str(&beside(told));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_cannot_be_read_is_told_as_trouble() {
        let root = tempfile::tempdir().unwrap();
        let recording = Recording::make(root.path(), "lab").unwrap();
        std::fs::write(recording.path().join("status.json"), "").unwrap();
        let Told { status, problem } = recording.told();
        let told = Status { trouble: problem, ..status };
        let path = recording.path().display();
        let text = text(&recording, &told, false);
        let (first, second) = text.split_once('\n').unwrap();
        assert_eq!(first, format!("lab lab: not recording; what is in {path} is not known"));
        assert!(second.starts_with("trouble: ") && second.contains("status.json"), "{text}");
        assert!(second.ends_with("; it counts as missing\n"), "{text}");
    }

    #[test]
    fn what_is_there_of_before_and_what_is_not_recorded_is_told() {
        let told = Status {
            earlier: vec![(1_000_000_000, 2_000_000_000)],
            gone_ns: 1_500_000_000,
            unrecorded: vec!["east--west".to_owned()],
            ..Status::default()
        };
        assert_eq!(
            beside(&told),
            "recorded before from 1970-01-01T00:00:01.000000Z to 1970-01-01T00:00:02.000000Z\n\
             packets up to 1970-01-01T00:00:01.500000Z gave way to newer ones\n\
             not recorded: link east--west, of which no end is an interface of the lab's\n"
        );
        assert_eq!(beside(&Status::default()), "");
    }

    #[test]
    fn what_a_status_says_stays_on_its_line() {
        let root = tempfile::tempdir().unwrap();
        let recording = Recording::make(root.path(), "lab").unwrap();
        let trouble = Some("disk\u{1b}[2J\nlab other: recording".to_owned());
        let told = Status { told_ns: 1, trouble, ..Status::default() };
        let text = text(&recording, &told, true);
        let last = text.lines().last();
        assert_eq!(last, Some("trouble: disk\\u{1b}[2J\\nlab other: recording"), "{text}");
    }
}
