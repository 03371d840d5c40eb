//! Scripts for Mininet: run by python3 on a stand-in for its package, which records them or has them work on netloom.
//!
//! The stand-in's files are written into a folder of this process's own, which goes when the script has ended, or, if this
//! process is killed before, when the next script starts.

use std::fs::{self, DirBuilder};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use netloom_foreign::STAND_IN;
use netloom_sys::terminal::Foreground;
use netloom_sys::{Unsupported, disposition, process};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, geteuid, kill_process_group, test_kill_process};

use super::{Lab, Refused};
use crate::flags::Run;

/// How long a script may take until its network is known.
const LONGEST: Duration = Duration::from_secs(60);

/// What names of folders begin with; the process's id follows, and a number.
const FOLDERS: &str = "netloom-script-";

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        let temporary = std::env::temp_dir();
        sweep(&temporary);
        let name = |n: u32| format!("{FOLDERS}{}-{n}", std::process::id());
        let make = |n| {
            let path = temporary.join(name(n));
            // `create` fails where something of the name is: nobody else can have prepared the
            // folder.
            DirBuilder::new().mode(0o700).create(&path).is_ok().then_some(path)
        };
        let path =
            (0..100).find_map(make).with_context(|| format!("{temporary:?}: make a folder"))?;
        let folder = Folder(path);
        for (name, content) in STAND_IN {
            let path = folder.0.join(name);
            let parent = path.parent().unwrap_or(&folder.0);
            fs::create_dir_all(parent)
                .and_then(|()| fs::write(&path, content))
                .with_context(|| format!("{path:?}: write"))?;
        }
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes this user's folders of processes that are gone.
fn sweep(temporary: &Path) {
    let is_left = |name: &str| {
        let id = name.strip_prefix(FOLDERS)?.split('-').next()?.parse().ok()?;
        Some(test_kill_process(Pid::from_raw(id)?) == Err(Errno::SRCH))
    };
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        let is_own = || entry.metadata().is_ok_and(|found| found.uid() == geteuid().as_raw());
        if entry.file_name().to_str().and_then(is_left) == Some(true) && is_own() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A script about to run.
fn command(folder: &Folder, script: &Path, mode: &str) -> Command {
    let mut command = Command::new("python3");
    command.arg("-B").arg(folder.0.join("run.py")).arg(script).env("NETLOOM_MININET", mode);
    command
}

/// Starts a script, and says so: a file that is only looked at runs nothing, as a rule.
fn start(lab: &Lab, mut command: Command) -> Result<Child> {
    tell_line!("netloom: {}: a script for Mininet: python3 runs it", lab.shown());
    command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Unsupported {
            feature: "scripts for Mininet",
            reason: "there is no python3".to_owned(),
            needs: "python3: install the package of this name".to_owned(),
        }
        .into(),
        _ => anyhow::Error::new(error).context("start python3"),
    })
}

/// The record of a script.
pub(super) fn record(lab: &Lab, topo: Option<&str>) -> Result<Vec<u8>> {
    let folder = Folder::new()?;
    let (record, script) = (folder.0.join("record.json"), lab.folder.join(&lab.file));
    let mut command = command(&folder, &script, "record");
    // A script may ask questions or print; neither belongs to the import.
    command.env("NETLOOM_MININET_RECORD", &record).stdin(Stdio::null()).stdout(Stdio::null());
    if let Some(topo) = topo {
        command.env("NETLOOM_MININET_TOPO", topo);
    }
    // A group of its own, so that what it starts can be ended with it; and the terminal's, so that Ctrl-C ends both. Nobody
    // waits for its record once this process is killed.
    command.process_group(0);
    disposition::start_mortal(&mut command);
    let stdin = std::io::stdin();
    let front = Foreground::remember(&stdin);
    let child = start(lab, command)?;
    front.iter().for_each(|front| front.give(Pid::from_child(&child)));
    let refused = |why: String| Refused::Script(lab.shown(), why);
    let Some(status) = end_within(child, LONGEST)? else {
        let seconds = LONGEST.as_secs();
        return Err(refused(format!("the script has made no network within {seconds} s")).into());
    };
    match super::disk::read(&record) {
        Some(bytes) if status.success() => Ok(bytes),
        _ => Err(refused(format!("the script has made no network ({status})")).into()),
    }
}

/// Waits for a script that leads a process group; `None` if it takes too long, and is ended with what it started.
fn end_within(mut child: Child, longest: Duration) -> Result<Option<ExitStatus>> {
    let pid = Pid::from_child(&child);
    let in_time = process::pidfd(pid).map(|pidfd| process::wait_end(&pidfd, longest));
    if !matches!(in_time, Ok(true)) {
        // It may have ended by itself since the wait; it is not reaped before the signal, so the number is its own.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let status = child.wait().context("wait for python3")?;
    Ok(in_time?.then_some(status))
}

/// Runs a whole script; its hosts, switches and links are a lab of this name, which comes up as these flags say. Returns the
/// script's exit code.
pub(crate) fn run(lab: &Lab, name: &str, run: &Run) -> Result<i32> {
    let args = &run.up;
    let folder = Folder::new()?;
    let program = std::env::current_exe().context("find netloom's own program")?;
    let mut command = command(&folder, &lab.folder.join(&lab.file), "run");
    command.args(&run.args).env("NETLOOM_PROGRAM", program).env("NETLOOM_MININET_LAB", name);
    let flags = [
        ("--ignore-limits", args.ignore_limits),
        ("--replace", args.replace),
        ("--keep", args.keep),
        ("--strict", args.importing.strict),
    ];
    let flags: Vec<&str> = flags.into_iter().filter(|(_, on)| *on).map(|(flag, _)| flag).collect();
    command.env("NETLOOM_MININET_UP", serde_json::to_string(&flags)?);
    if let Some(topo) = &args.importing.topo {
        command.env("NETLOOM_MININET_TOPO", topo);
    }
    let signals = disposition::catch_ending().context("catch signals")?;
    disposition::start_following(&mut command);
    let status = wait_for(start(lab, command)?, &signals)?;
    Ok(status.code().unwrap_or(1))
}

/// Waits for a script. Only the script takes its lab down, so this process outlives the signals that would end it. Ctrl-C comes to both
/// from the terminal; the others are handed on.
fn wait_for(mut child: Child, signals: &OwnedFd) -> Result<ExitStatus> {
    let pidfd = process::pidfd(Pid::from_child(&child))?;
    loop {
        let mut watched = [&pidfd, signals].map(|fd| PollFd::new(fd, PollFlags::IN));
        match poll(&mut watched, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("wait for python3"),
        }
        let [ended, told] = watched.map(|fd| !fd.revents().is_empty());
        let sent = if told { process::next_sent(signals) } else { None };
        let handed_on = [Signal::INT, Signal::HUP, Signal::TERM];
        if let Some(sent) = sent.filter(|sent| sent.by_process)
            && let Some(signal) = handed_on.into_iter().find(|s| s.as_raw() == sent.number)
        {
            process::signal(&pidfd, signal)?;
        }
        if ended {
            return child.wait().context("wait for python3");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    #[test]
    fn a_script_that_takes_too_long_ends_with_what_it_started() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped());
        let mut child = command.process_group(0).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let started = process::pidfd(Pid::from_raw(line.trim().parse().unwrap()).unwrap()).unwrap();
        assert_eq!(end_within(child, Duration::ZERO).unwrap(), None);
        let ended = process::wait_end(&started, Duration::from_secs(60));
        // Nothing is left of a failed test either.
        process::signal(&started, Signal::KILL).unwrap();
        assert!(ended);
    }

    #[test]
    fn folders_of_processes_that_are_gone_are_removed() {
        let temporary = tempfile::tempdir().unwrap();
        let mut gone = Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let own = format!("{FOLDERS}{}-0", std::process::id());
        let left = format!("{FOLDERS}{}-3", gone.id());
        for name in [own.as_str(), left.as_str(), "netloom-script-x-0", "other"] {
            fs::create_dir_all(temporary.path().join(name).join("mininet")).unwrap();
        }
        std::os::unix::fs::symlink(
            "other",
            temporary.path().join(format!("{FOLDERS}{}-4", gone.id())),
        )
        .unwrap();
        sweep(temporary.path());
        let left = fs::read_dir(temporary.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.map(|name| name.into_string().unwrap()).collect();
        left.retain(|name| !name.ends_with("-4"));
        left.sort();
        assert_eq!(left, [own.as_str(), "netloom-script-x-0", "other"]);
        assert!(temporary.path().join("other/mininet").exists());
    }

    #[test]
    fn how_a_script_has_ended_is_told() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]).process_group(0);
        let status = end_within(command.spawn().unwrap(), Duration::from_secs(60)).unwrap();
        assert_eq!(status.and_then(|status| status.code()), Some(3));
    }
}
