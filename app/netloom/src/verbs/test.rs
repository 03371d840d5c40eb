//! `test`: brings labs up, looks whether they do what their files expect, and takes them down.
//!
//! Each lab has a process of its own, [`one`], which reports line by line; this one starts them side by side, as far as
//! processors and memory go, and shows and writes what they report. A lab gets a name that no other has, so that the same
//! file can be tested beside a running lab of it. When this process is told to end, so are they, and each takes its lab
//! down; a lab whose tester is killed is taken down by its own process.

mod checker;
mod command;
mod files;
mod junit;
mod late;
mod means;
mod one;
mod recording;
mod report;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use self::files::TestedLab;
use self::means::Means;
pub(crate) use self::one::{lab, probe};
use self::report::{Line, Report};
use crate::Usage;
use crate::flags::Test;
use crate::output::{print, print_json};

/// What happens while labs run.
enum Event {
    /// A lab, by its place, reports.
    Line(usize, Line),
    /// Its process has ended, with this exit code.
    Ended(usize, i32),
    /// This process is told to end.
    Interrupted,
}

/// `netloom test`
pub(crate) fn test(args: &Test) -> Result<i32> {
    let asked = files::find(&args.paths)?;
    if let Some(path) = &args.junit {
        check_junit(path)?;
    }
    if let Some(folder) = &args.captures {
        make_folder(folder)?;
    }
    let signals = super::ending()?;
    let (events, heard) = mpsc::channel();
    let interrupted = events.clone();
    std::thread::spawn(move || {
        let mut fds = [rustix::event::PollFd::new(&signals, rustix::event::PollFlags::IN)];
        while rustix::event::poll(&mut fds, None) == Err(rustix::io::Errno::INTR) {}
        let _ = interrupted.send(Event::Interrupted);
    });
    let mut reports: Vec<Report> = asked.iter().map(Report::new).collect();
    let mut schedule = Schedule {
        asked: &asked,
        args,
        events,
        means: Means::now(args.jobs),
        next: 0,
        running: vec![],
    };
    // One alone shows each step as soon as it is known.
    let live = asked.len() == 1 && !args.json;
    schedule.start()?;
    while !schedule.is_done() {
        match heard.recv().context("listen to labs")? {
            Event::Line(at, line) => {
                if live {
                    print(&line.text(&reports[at]))?;
                }
                reports[at].take(line);
            }
            Event::Ended(at, code) => {
                reports[at].end(code);
                if !live && !args.json {
                    print(&reports[at].text())?;
                }
                schedule.ended(at);
                schedule.start()?;
            }
            Event::Interrupted => schedule.interrupt(),
        }
    }
    for report in reports.iter_mut().filter(|report| report.is_open()) {
        report.leave_out();
    }
    show(args, &reports)
}

/// Refuses a file that cannot be written before labs are tested for minutes.
fn check_junit(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let refused =
        |words: String| -> Result<()> { Err(Usage(format!("--junit {path:?}: {words}")).into()) };
    match folder {
        Some(folder) if !folder.is_dir() => {
            refused(format!("there is no folder {folder:?}; make it first"))
        }
        _ if path.is_dir() => refused("it is a folder; name a file".to_owned()),
        _ => Ok(()),
    }
}

/// Makes the folder of captures; what others cross in the lab is for its user alone.
fn make_folder(folder: &Path) -> Result<()> {
    let mut options = std::fs::DirBuilder::new();
    options.recursive(true);
    std::os::unix::fs::DirBuilderExt::mode(&mut options, 0o700);
    options.create(folder).with_context(|| format!("--captures {folder:?}: make the folder"))
}

/// Writes and shows all results; returns the exit code.
fn show(args: &Test, reports: &[Report]) -> Result<i32> {
    if let Some(path) = &args.junit {
        std::fs::write(path, junit::text(reports)).with_context(|| format!("{path:?}: write"))?;
    }
    if args.json {
        print_json(&reports)?;
    } else {
        print(&report::summary(reports))?;
    }
    Ok(report::code(reports))
}

/// Labs that run, and those that wait.
struct Schedule<'a> {
    asked: &'a [TestedLab],
    args: &'a Test,
    events: Sender<Event>,
    means: Means,
    next: usize,
    running: Vec<(usize, Child)>,
}

impl Schedule<'_> {
    /// Starts labs as far as the machine's means go.
    fn start(&mut self) -> Result<()> {
        while let Some(lab) = self.asked.get(self.next) {
            let used =
                self.running.iter().map(|(at, _)| self.asked[*at].memory).collect::<Vec<_>>();
            if !self.means.have_room(&used, lab.memory) {
                return Ok(());
            }
            let child = self.start_one(lab, self.next)?;
            self.running.push((self.next, child));
            self.next += 1;
        }
        Ok(())
    }

    fn start_one(&self, lab: &TestedLab, at: usize) -> Result<Child> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("test-lab");
        if self.args.ignore_limits {
            command.arg("--ignore-limits");
        }
        if let Some(folder) = &self.args.captures {
            command.arg("--captures").arg(self.prefix(folder, at)?);
        }
        // By this number the tester sees whether its parent is still this process.
        command.args([&std::process::id().to_string(), &lab.name]).arg(&lab.file);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("start a lab's tester")?;
        let (output, events) = (child.stdout.take(), self.events.clone());
        let pid = child.id();
        std::thread::spawn(move || {
            for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()) {
                let Ok(line) = line else { break };
                match serde_json::from_str(&line) {
                    Ok(line) => _ = events.send(Event::Line(at, line)),
                    Err(e) => tell_line!("netloom: a lab's tester: {e}"),
                }
            }
            let code = wait(pid);
            let _ = events.send(Event::Ended(at, code));
        });
        Ok(child)
    }

    /// What names of captures of a lab begin with: the lab, and its place among the tested ones if others have its name.
    fn prefix(&self, folder: &Path, at: usize) -> Result<PathBuf> {
        let folder = std::path::absolute(folder).with_context(|| format!("{folder:?}: find"))?;
        let name = &self.asked[at].lab;
        let same = self.asked.iter().filter(|other| other.lab == *name).count();
        Ok(folder.join(if same > 1 { format!("{name}.{}", at + 1) } else { name.clone() }))
    }

    fn ended(&mut self, at: usize) {
        self.running.retain(|(running, _)| *running != at);
    }

    fn is_done(&self) -> bool {
        self.running.is_empty() && self.next >= self.asked.len()
    }

    /// Has every lab taken down, and starts no more.
    fn interrupt(&mut self) {
        self.next = self.asked.len();
        for (_, child) in &self.running {
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                // One that has ended needs no signal.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
    }
}

/// Waits for a child's end; returns its exit code as a shell shows it.
fn wait(pid: u32) -> i32 {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    loop {
        match rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                return status.exit_status().or(signal).unwrap_or(1);
            }
            Err(rustix::io::Errno::INTR) | Ok(None) => {}
            Err(_) => return 1,
        }
    }
}
