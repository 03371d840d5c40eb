//! The guest's programs: `setup`, `run`, the shell on the console, and the conditions of `ready`.

use std::convert::Infallible;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netloom_model::lab::{Program, Ready, Restart};
use netloom_sys::process::{Exit, with_open_mask};
use rustix::process::{Pid, Signal};

use super::{ended_words, tell};
use crate::Result;
use crate::error::failed;
use crate::spec::Spec;

/// Delay before a restart.
const PAUSE: Duration = Duration::from_millis(500);

/// The hidden verb of the console's shell, and the console.
const SHELL: &str = "vm-shell";
const CONSOLE: &str = "/dev/tty0";

/// The title of the shell among programs.
const SHELL_TITLE: &str = "shell";

/// One program.
struct Slot {
    title: String,
    program: Program,
    pid: Option<Pid>,
    start_at: Option<Instant>,
    exit: Option<Exit>,
}

/// All programs of a guest.
pub(super) struct Programs {
    setup: Vec<Slot>,
    /// Programs of `run`, then the console's shell.
    run: Vec<Slot>,
    env: Vec<(String, String)>,
    /// The command of `setup` that runs; their number when the programs have been started.
    step: usize,
    failed: Option<String>,
    probe: Option<Pid>,
    probe_ok: bool,
    stopping: bool,
}

impl Programs {
    pub(super) fn new(spec: &Spec) -> Programs {
        let slot = |title: String, program: Program| Slot {
            title,
            program,
            pid: None,
            start_at: None,
            exit: None,
        };
        let once = |command: &Vec<String>| Program::once(command.clone());
        let numbered = |what: &str, number: usize| format!("{what} {}", number + 1);
        let node = &spec.node;
        let setup = node.setup.iter().enumerate();
        let setup = setup.map(|(i, command)| slot(numbered("setup", i), once(command)));
        let run = node.run.iter().enumerate();
        let mut run: Vec<Slot> =
            run.map(|(i, program)| slot(numbered("program", i), program.clone())).collect();
        // This program, whatever the guest's files have at its path.
        let shell = vec!["/proc/1/exe".to_owned(), SHELL.to_owned()];
        let shell = Program { restart: Restart::Always, ..Program::once(shell) };
        run.push(slot(SHELL_TITLE.to_owned(), shell));
        Programs {
            setup: setup.collect(),
            run,
            env: environment(spec),
            step: 0,
            failed: None,
            probe: None,
            probe_ok: false,
            stopping: false,
        }
    }

    pub(super) fn env(&self) -> &[(String, String)] {
        &self.env
    }

    /// Starts the next command of `setup`, or all programs after the last.
    pub(super) fn start(&mut self) {
        let Programs { setup, run, env, step, failed, .. } = self;
        if let Some(slot) = setup.get_mut(*step) {
            if let Err(e) = slot.launch(env) {
                *failed = Some(e);
            }
            return;
        }
        for slot in run {
            if let Err(e) = slot.launch(env) {
                tell(&e);
                failed.get_or_insert(e);
            }
        }
    }

    /// Takes the end of a child; `false` if it is none of these programs.
    pub(super) fn ended(&mut self, pid: Pid, exit: Exit) -> bool {
        if self.probe == Some(pid) {
            (self.probe, self.probe_ok) = (None, exit == Exit::Code(0));
            return true;
        }
        let stopping = self.stopping;
        if let Some(slot) = self.setup.iter_mut().find(|slot| slot.pid == Some(pid)) {
            slot.pid = None;
            if exit == Exit::Code(0) {
                self.step += 1;
                self.start();
            } else {
                let words = format!("{} {}", slot.name(), ended_words(exit));
                tell(&words);
                self.failed = Some(words);
            }
            return true;
        }
        let Some(slot) = self.run.iter_mut().find(|slot| slot.pid == Some(pid)) else {
            return false;
        };
        (slot.pid, slot.exit) = (None, Some(exit));
        let again = match slot.program.restart {
            Restart::Never => false,
            Restart::OnFailure => exit != Exit::Code(0),
            Restart::Always => true,
        };
        if slot.title != SHELL_TITLE {
            tell(&format!("{} {}", slot.name(), ended_words(exit)));
        }
        // A pause: one that ends at once must not take the whole processor.
        slot.start_at = (again && !stopping).then(|| Instant::now() + PAUSE);
        true
    }

    pub(super) fn next_restart(&self) -> Option<Instant> {
        self.run.iter().filter_map(|slot| slot.start_at).min()
    }

    pub(super) fn restart_due(&mut self) {
        let now = Instant::now();
        for slot in self.run.iter_mut().filter(|slot| slot.start_at.is_some_and(|at| at <= now)) {
            slot.start_at = None;
            if let Err(e) = slot.launch(&self.env) {
                tell(&e);
                slot.start_at = Some(now + PAUSE);
            }
        }
    }

    /// Asks all programs to end.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
        for slot in self.setup.iter_mut().chain(&mut self.run) {
            slot.start_at = None;
            if let Some(pid) = slot.pid {
                // It may have ended.
                let _ = rustix::process::kill_process_group(pid, Signal::TERM);
            }
        }
    }

    /// Whether a program of the file runs.
    pub(super) fn run_any(&self) -> bool {
        let of_file = |slot: &&Slot| slot.title != SHELL_TITLE;
        self.setup.iter().chain(&self.run).filter(of_file).any(|slot| slot.pid.is_some())
    }

    /// The first condition that does not hold yet.
    pub(super) fn lacks(&mut self, ready: &Ready) -> Option<String> {
        // A failed command keeps the guest from becoming ready for good.
        if let Some(words) = &self.failed {
            return Some(words.clone());
        }
        if let Some(slot) = self.setup.get(self.step) {
            return Some(format!("{} runs", slot.name()));
        }
        if let Some(path) = ready.files.iter().find(|p| !std::path::Path::new(p.as_str()).exists())
        {
            return Some(format!("file {path} does not exist"));
        }
        // Both: a socket of IPv6 mostly takes IPv4, too.
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"]
            .map(|path| fs::read_to_string(path).unwrap_or_default());
        let listens = |port: &u16| tables.iter().any(|table| listening(table).any(|p| p == *port));
        if let Some(port) = ready.tcp.iter().find(|port| !listens(port)) {
            return Some(format!("no program listens on TCP port {port}"));
        }
        let command = ready.exec.as_ref()?;
        if self.probe_ok {
            return None;
        }
        if self.probe.is_none() {
            let mut command = command_of(command, &self.env);
            // Nobody reads it, and a full pipe would stop it.
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let child = with_open_mask(|| command.spawn()).ok();
            self.probe = child.and_then(|c| Pid::from_raw(i32::try_from(c.id()).ok()?));
        }
        Some("its ready command does not succeed".to_owned())
    }
}

impl Slot {
    fn name(&self) -> String {
        format!("{} ({})", self.title, self.program.command.join(" "))
    }

    fn launch(&mut self, env: &[(String, String)]) -> Result<(), String> {
        let mut command = command_of(&self.program.command, env);
        if self.title != SHELL_TITLE {
            // The shell begins a session, which the leader of a group cannot.
            command.process_group(0);
        }
        let child = with_open_mask(|| command.spawn());
        let child = child.map_err(|e| format!("{}: start: {e}", self.name()))?;
        (self.pid, self.exit) = (i32::try_from(child.id()).ok().and_then(Pid::from_raw), None);
        Ok(())
    }
}

/// A command with the guest's environment and with empty standard input.
pub(super) fn command_of(argv: &[String], env: &[(String, String)]) -> Command {
    let mut command = Command::new(argv.first().map_or("", String::as_str));
    command.args(argv.iter().skip(1)).env_clear().envs(env.iter().cloned());
    command.current_dir("/").stdin(Stdio::null());
    command
}

fn environment(spec: &Spec) -> Vec<(String, String)> {
    let own = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/root"),
        ("LANG", "C.UTF-8"),
        ("NETLOOM_LAB", &spec.lab),
        ("NETLOOM_NODE", &spec.node.name),
    ];
    let mut env: Vec<(String, String)> =
        own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    for (name, value) in &spec.node.env {
        env.retain(|(known, _)| known != name);
        env.push((name.clone(), value.clone()));
    }
    env
}

/// Ports of listening sockets in the text of /proc/net/tcp or tcp6 (proc_net_tcp.txt: state 0A).
fn listening(table: &str) -> impl Iterator<Item = u16> + '_ {
    table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, state) = (fields.next()?, fields.nth(1)?);
        let port = local.rsplit_once(':')?.1;
        (state == "0A").then(|| u16::from_str_radix(port, 16).ok())?
    })
}

/// Becomes a shell on the guest's console, which can stop its programs by keys.
///
/// # Errors
/// There is no console, or no shell.
pub fn become_shell() -> Result<Infallible> {
    // Only the leader of a session can take a controlling terminal (TIOCSCTTY).
    rustix::process::setsid().map_err(failed(CONSOLE, "begin a session on"))?;
    let console = fs::OpenOptions::new().read(true).write(true).open(CONSOLE);
    let console = console.map_err(failed(CONSOLE, "open"))?;
    rustix::process::ioctl_tiocsctty(console.as_fd()).map_err(failed(CONSOLE, "take"))?;
    let copy = || console.try_clone().map(Stdio::from).map_err(failed(CONSOLE, "copy"));
    let mut shell = Command::new("/bin/sh");
    shell.arg("-i").current_dir("/root").stdin(copy()?).stdout(copy()?).stderr(copy()?);
    Err(failed("/bin/sh", "start")(shell.exec()))
}
