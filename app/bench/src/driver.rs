//! Drives the binary as a user would: a private runtime directory, lab files, timed runs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::Programs;
use crate::machine::is_root;
use crate::running::Running;
use crate::sweeper::Sweeper;

/// Netloom and its folders; labs still up are taken down when it is dropped, or when its process ends.
#[derive(Debug)]
pub(crate) struct Driver {
    programs: Programs,
    folder: TempDir,
    runtime: TempDir,
    /// Last: it finds the folders removed.
    _sweeper: Sweeper,
}

impl Driver {
    pub(crate) fn new(programs: &Programs) -> Result<Driver> {
        let folder = named().tempdir().context("make a folder for the labs")?;
        let runtime = runtime().context("make the runtime directory")?;
        let sweeper = Sweeper::start(programs, runtime.path(), folder.path())?;
        Ok(Driver { programs: programs.clone(), folder, runtime, _sweeper: sweeper })
    }

    /// The path of netloom.
    pub(crate) fn exe(&self) -> &Path {
        &self.programs.netloom
    }

    /// The path of this program, whose word `peer` runs a small one ([`crate::peer`]).
    pub(crate) fn own(&self) -> &Path {
        &self.programs.own
    }

    /// The same as text.
    pub(crate) fn own_text(&self) -> Result<&str> {
        self.own().to_str().context("this program's path is not UTF-8")
    }

    /// This driver's own folder, removed with it.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The runtime directory of its labs.
    pub(crate) fn runtime(&self) -> PathBuf {
        self.runtime.path().to_owned()
    }

    /// Writes a lab file and gives its path.
    pub(crate) fn lab_file(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.path().join(format!("{name}.yaml"));
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// Wall time in seconds of `netloom up FILE`.
    pub(crate) fn up(&self, file: &Path) -> Result<f64> {
        timed(self.command().arg("up").arg(file))
    }

    /// Wall time in seconds of `netloom down LAB`.
    pub(crate) fn down(&self, lab: &str) -> Result<f64> {
        timed(self.command().args(["down", lab]))
    }

    /// Standard output of a command in a node.
    pub(crate) fn exec<S: AsRef<OsStr>>(&self, node: &str, command: &[S]) -> Result<String> {
        output(self.command().args(["exec", node, "--"]).args(command))
    }

    /// Wall time in seconds of `netloom ARGS`.
    pub(crate) fn time(&self, args: &[&str]) -> Result<f64> {
        timed(self.command().args(args))
    }

    /// The JSON that `netloom ARGS` prints.
    pub(crate) fn json(&self, args: &[&str]) -> Result<serde_json::Value> {
        let text = output(self.command().args(args))?;
        serde_json::from_str(&text).with_context(|| format!("read what {args:?} printed"))
    }

    /// Starts a small program in a node.
    pub(crate) fn peer(&self, lab: &str, node: &str, words: &[&str]) -> Result<Running> {
        let mut command = self.command();
        command.args(["-l", lab, "exec", node, "--"]).arg(self.own()).arg("peer").args(words);
        Running::start(&mut command, &format!("{lab}: {node}: {}", words.join(" ")))
    }

    /// A command that runs netloom on this driver's labs.
    pub(crate) fn command(&self) -> Command {
        self.on_labs(self.exe())
    }

    /// A command that runs a small program on the host, beside this driver's labs.
    pub(crate) fn peer_command(&self) -> Command {
        let mut command = self.on_labs(self.own());
        command.arg("peer");
        command
    }

    fn on_labs(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("NETLOOM_RUNTIME_DIR", self.runtime());
        command.env("NETLOOM_DATA_DIR", self.folder().join("data"));
        command
    }
}

fn named() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("netloom-bench-");
    builder
}

/// A runtime directory on the file system of netloom's default one, which is not a disk; else among temporary files.
fn runtime() -> std::io::Result<TempDir> {
    let default = match is_root() {
        true => Some("/run".into()),
        false => std::env::var_os("XDG_RUNTIME_DIR"),
    };
    let there = default.and_then(|dir| named().tempdir_in(dir).ok());
    there.map_or_else(|| named().tempdir(), Ok)
}

impl Drop for Driver {
    fn drop(&mut self) {
        let mut down = self.command();
        down.args(["down", "--all"]).stdin(Stdio::null()).stdout(Stdio::null());
        if let Err(error) = down.status() {
            progress!("bench: take labs down: {error}");
        }
    }
}

/// Seconds that a command takes; an error shows its output.
pub(crate) fn timed(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    output(command)?;
    Ok(start.elapsed().as_secs_f64())
}

/// Standard output of a command; an error shows its standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let out = command.stdin(Stdio::null()).output();
    let out = out.with_context(|| format!("start {command:?}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        bail!("{command:?}: {}: {}", out.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_command_says_why() {
        let error = timed(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
        assert!(timed(&mut Command::new("true")).unwrap() > 0.0);
    }
}
