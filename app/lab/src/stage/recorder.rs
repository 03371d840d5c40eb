//! The recorder of a lab: a process of this program, which a command or the lab's own process starts.
//!
//! It is found by the lock that it holds on the recording's folder. Until it records, it ends with its starter; then it
//! goes on without one, and ends with the lab's nodes.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use netloom_record::Folder as Recording;
use netloom_sys::process::{self, name_of, pidfd, wait_readable};
use rustix::process::{Pid, Signal, getpid};

use super::role::reap_later;
use crate::store::state::Folder;

/// The name of its process.
pub const NAME: &str = "netloom-record";
/// The hidden verb that it is.
const VERB: &str = "record-process";
/// What it says before the number of links when it records.
pub const READY: &str = "ready ";

/// Time limit for its start.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take to write what it has when it is to end.
pub const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Starts a recorder for a running lab; returns the number of recorded links.
///
/// `records`: where recordings are, from a starter that is in the lab's user namespace, in which it cannot find that again.
///
/// # Errors
/// Why it does not record, in words.
pub fn start(folder: &Folder, keep: u64, records: Option<&Path>) -> Result<usize, String> {
    let failed = |what: &str, e: &dyn std::fmt::Display| format!("recorder: {what}: {e}");
    let own = getpid().as_raw_nonzero().to_string();
    let mut command = Command::new("/proc/self/exe");
    command.arg(VERB).arg(own).arg(folder.path()).arg(keep.to_string());
    if let Some(data) = records.and_then(Path::parent) {
        command.arg("--inside").env("NETLOOM_DATA_DIR", data);
        command.env("NETLOOM_RUNTIME_DIR", folder.runtime());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|e| failed("start", &e))?;
    let mut said = String::new();
    if let Some(output) = child.stdout.take() {
        if !wait_readable(&output, START_TIMEOUT) {
            let seconds = START_TIMEOUT.as_secs();
            drop(child.kill());
            reap_later(child);
            return Err(format!("recorder: it does not record after {seconds} s, and was ended"));
        }
        // It closes this when it records, or when it ends.
        output.take(4096).read_to_string(&mut said).map_err(|e| failed("listen", &e))?;
    }
    if let Some(links) = said.trim_end().strip_prefix(READY) {
        let links = links.parse().map_err(|e| failed("its answer", &e));
        reap_later(child);
        return links;
    }
    let status = child.wait().map_err(|e| failed("wait for its end", &e))?;
    Err(match said.trim_end() {
        "" => format!("the recorder ended at once: {status}"),
        reason => reason.to_owned(),
    })
}

/// The process that records, as the kernel says.
///
/// # Errors
/// Another process holds the lock, in words.
pub fn find(recording: &Recording) -> Result<Option<(Pid, OwnedFd)>, String> {
    let holder = || recording.holder().and_then(Pid::from_raw);
    let Some(pid) = holder() else { return Ok(None) };
    let Ok(opened) = pidfd(pid) else { return Ok(None) };
    // The number was not used again if the lock is still its.
    if holder() != Some(pid) {
        return Ok(None);
    }
    match name_of(pid) {
        Some(name) if name == NAME => Ok(Some((pid, opened))),
        Some(name) => Err(format!(
            "lab {:?}: process {pid:?} ({name}) is not a recorder, but holds the lock of its recording; end it yourself",
            recording.lab()
        )),
        None => Ok(None),
    }
}

/// Has a recorder end, and waits until it has written what it has.
///
/// # Errors
/// It does not end in time, in words.
pub fn end(recording: &Recording, recorder: &OwnedFd) -> Result<(), String> {
    // One that has ended needs no signal.
    drop(process::signal(recorder, Signal::TERM));
    if process::wait_end(recorder, END_TIMEOUT) {
        return Ok(());
    }
    Err(format!("the recorder does not end; it writes to {}", recording.path().display()))
}
