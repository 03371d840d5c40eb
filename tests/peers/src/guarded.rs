//! Runs a script with and without guard, all allowed, and compares exit code and output.
//!
//! Both runs begin in an empty folder of the same path, as the same user, with the same environment. Standard output and
//! standard error go to one file, in order. Times and numbers that differ from run to run are the script's to
//! leave out.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use netloom_guard::{Judge, Judgement, Question, start};
use netloom_policy::Request;
use netloom_sys::seccomp::launch::Place;

use crate::{Running, SOON, folder, wait_until};

/// Seconds after which a script is killed.
const BOUND: &str = "300";

/// Allows everything.
struct Everything;

impl Judge for Everything {
    fn known(&self, _: &Request) -> Option<Judgement> {
        Some(Judgement::Allow)
    }

    fn decide(&self, _: &Question<'_>) -> Judgement {
        Judgement::Allow
    }
}

/// A folder for what servers serve, and one in which scripts run.
#[derive(Debug)]
pub struct Ground {
    folder: tempfile::TempDir,
    servers: Vec<Running>,
}

impl Ground {
    /// Two folders, without any server.
    ///
    /// # Panics
    /// They cannot be made.
    pub fn new() -> Ground {
        let ground = Ground { folder: folder(), servers: vec![] };
        std::fs::create_dir(ground.served()).expect("make a folder");
        ground
    }

    /// What servers serve.
    pub fn served(&self) -> PathBuf {
        self.folder.path().join("served")
    }

    /// Runs a script there without guard, which must succeed.
    ///
    /// # Panics
    /// It fails.
    pub fn prepare(&self, script: &str) {
        let done = environment(Command::new("sh").args(["-euc", script]), &self.served()).output();
        let done = done.expect("start sh");
        assert!(done.status.success(), "{script}: {done:?}");
    }

    /// Starts a server there, and waits until it listens at this port of 127.0.0.1.
    ///
    /// # Panics
    /// It does not.
    pub fn serve(&mut self, program: &str, words: &[&str], port: u16) {
        let mut command = Command::new(program);
        environment(command.args(words), &self.served());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.servers.push(Running(command.spawn().expect(program)));
        wait_until(program, SOON, || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    }

    /// Serves the folder's files over HTTP at port 8080.
    ///
    /// # Panics
    /// As [`Ground::serve`].
    pub fn serve_files(&mut self) {
        let words = ["-m", "http.server", "--bind", "127.0.0.1", "8080"];
        self.serve("python3", &words, 8080);
    }

    /// Runs a script with and without guard; both must do the same. Gives what it printed.
    ///
    /// # Panics
    /// They differ.
    pub fn alike(&self, script: &str) -> String {
        let without = self.run(script, |mut command| command.spawn().expect("start a script"));
        let with = self.run(script, |command| {
            let place = Place { own_user: netloom_kit::userns_allowed(), ..Place::default() };
            let (child, supervisor) = start(command, place).expect("start under guard");
            supervisor.serve(&Everything).expect("guard");
            child
        });
        assert_eq!(with.0, without.0, "exit code\nwith guard: {}\nwithout: {}", with.1, without.1);
        if with.1 != without.1 {
            panic!("{}", difference(&with.1, &without.1));
        }
        with.1
    }

    fn run(&self, script: &str, start: impl FnOnce(Command) -> Child) -> (Option<i32>, String) {
        let place = self.folder.path().join("work");
        std::fs::create_dir(&place).expect("make a folder");
        let said = self.folder.path().join("said");
        let out = File::create(&said).expect("make a file");
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", BOUND, "sh", "-c", script]);
        environment(&mut command, &place);
        command.stdin(Stdio::null()).stderr(out.try_clone().expect("duplicate")).stdout(out);
        let status = start(command).wait().expect("wait for a script");
        std::fs::remove_dir_all(&place).expect("remove a folder");
        let text = std::fs::read(&said).expect("read what it said");
        (status.code(), String::from_utf8_lossy(&text).into_owned())
    }
}

impl Default for Ground {
    fn default() -> Self {
        Self::new()
    }
}

fn environment<'c>(command: &'c mut Command, place: &Path) -> &'c mut Command {
    let kept = ["PATH", "PYENV_ROOT", "RUSTUP_HOME"];
    let kept: Vec<_> =
        kept.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))).collect();
    command.env_clear();
    // Where rustup keeps compilers, unless it is told otherwise.
    if let Some(home) = std::env::var_os("HOME") {
        command.env("RUSTUP_HOME", Path::new(&home).join(".rustup"));
    }
    command.envs(kept).env("LC_ALL", "C").env("HOME", place).env("PWD", place);
    command.current_dir(place)
}

/// The lines that differ.
fn difference(with: &str, without: &str) -> String {
    let mut text = String::from("with guard the output differs:\n");
    let (with, without): (Vec<_>, Vec<_>) = (with.lines().collect(), without.lines().collect());
    let lacks = |all: &[&str], line: &str| !all.contains(&line);
    for line in with.iter().filter(|line| lacks(&without, line)) {
        text += &format!("+ {line}\n");
    }
    for line in without.iter().filter(|line| lacks(&with, line)) {
        text += &format!("- {line}\n");
    }
    text
}
