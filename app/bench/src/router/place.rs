//! Where a program of the experiment runs: in a network namespace, with the host's files, or in a guest.
//!
//! All ends are entered alike, whether netloom made them or `ip` did: a program in a namespace has the host's files and no
//! limits of a node.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::driver::{Driver, output};
use crate::machine::is_root;
use crate::running::Running;
use crate::vm::guest::Guest;

/// A network namespace.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// A process in it.
    pid: u32,
    exe: PathBuf,
    own: PathBuf,
    runtime: PathBuf,
}

/// A program that counts what arrives, where it arrives.
pub(super) enum End<'a> {
    Here(Place),
    /// A guest that has an agent: the lab's name.
    Agent(&'a Driver, String),
    /// A guest on its console.
    Console(RefCell<Guest>),
}

/// A program that runs at an end.
pub(super) enum Started<'a> {
    Here(Running),
    Console(&'a RefCell<Guest>),
}

impl Place {
    pub(super) fn of(driver: &Driver, pid: u32) -> Place {
        let (exe, own) = (driver.exe().to_owned(), driver.own().to_owned());
        Place { pid, exe, own, runtime: driver.runtime() }
    }

    pub(super) fn node(driver: &Driver, lab: &str, node: &str) -> Result<Place> {
        let shown = driver.json(&["-l", lab, "node", "show", node, "--json"])?;
        let pid = shown["pid"].as_u64().with_context(|| format!("{lab}: {node} has no process"))?;
        Ok(Place::of(driver, u32::try_from(pid)?))
    }

    /// A command that runs a program in it.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid.to_string(), "--net"]);
        if !is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.arg("--").arg(program);
        command.env("NETLOOM_RUNTIME_DIR", &self.runtime);
        command
    }

    /// The path of netloom.
    pub(super) fn exe(&self) -> &std::path::Path {
        &self.exe
    }

    /// `netloom WORDS`, ended with this process.
    pub(super) fn netloom(&self, words: &[&str]) -> Command {
        let mut command = self.command("setpriv");
        command.args(["--pdeathsig", "TERM"]).arg(&self.exe).args(words);
        command
    }

    /// A small program, ended with this process.
    pub(super) fn peer(&self, words: &[&str]) -> Result<Running> {
        let mut command = self.command("setpriv");
        command.args(["--pdeathsig", "TERM"]).arg(&self.own).arg("peer").args(words);
        Running::start(&mut command, &words.join(" "))
    }

    /// Runs `ip` in it.
    pub(super) fn ip(&self, words: &str) -> Result<String> {
        output(self.command("ip").args(words.split(' ')))
    }

    /// The hardware address of an interface in it.
    pub(super) fn mac(&self, interface: &str) -> Result<String> {
        let shown = self.ip(&format!("-j link show {interface}"))?;
        let shown: Value = serde_json::from_str(&shown).context("read what ip printed")?;
        let mac = shown[0]["address"].as_str();
        Ok(mac.with_context(|| format!("{interface} has no address"))?.to_owned())
    }
}

impl End<'_> {
    /// Starts a small program, which prints `ready`, and waits for that. Where there are cores to choose from it runs on
    /// the second one.
    pub(super) fn start(&self, words: &[&str]) -> Result<Started<'_>> {
        let pinned = || [&["on", crate::capture::pair::cores()[1]], words].concat();
        match self {
            End::Here(place) => Ok(Started::Here(place.peer(&pinned())?.ready()?)),
            End::Agent(driver, lab) => Ok(Started::Here(driver.peer(lab, "r", words)?.ready()?)),
            End::Console(guest) => {
                // `sed` would keep lines until its end.
                let passed = "while read -r line; do echo \"@@ $line\"; done";
                let command = format!("netloom-bench peer {} | {passed}", words.join(" "));
                guest.borrow_mut().tell(&command)?;
                let said = guest.borrow_mut().hear()?;
                anyhow::ensure!(said == "ready", "a guest: {}: {said}", words.join(" "));
                Ok(Started::Console(guest))
            }
        }
    }
}

impl Started<'_> {
    /// What it prints at its end, which comes by itself.
    pub(super) fn result(self) -> Result<Value> {
        match self {
            Started::Here(running) => running.result(),
            Started::Console(guest) => {
                let said = guest.borrow_mut().hear()?;
                serde_json::from_str(&said)
                    .with_context(|| format!("read what a guest said: {said}"))
            }
        }
    }
}
