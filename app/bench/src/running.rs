//! A program that runs in a node during a measurement.
//!
//! It prints `ready` when the other side may start, serves until its standard input ends, then prints one
//! JSON object. Dropping it earlier kills it and waits for its end.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// A number in its output.
pub(crate) fn number(printed: &Value, name: &str) -> Result<f64> {
    printed[name].as_f64().with_context(|| format!("no `{name}` in {printed}"))
}

#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    /// Starts a program; `name` is for errors.
    pub(crate) fn start(command: &mut Command, name: &str) -> Result<Running> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("start {name}"))?;
        let Some(out) = child.stdout.take() else { bail!("{name}: no standard output") };
        Ok(Running { name: name.to_owned(), child, lines: BufReader::new(out) })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it prints `ready`.
    pub(crate) fn ready(mut self) -> Result<Running> {
        let mut line = String::new();
        self.lines.read_line(&mut line).with_context(|| format!("read from {}", self.name))?;
        if line.trim() == "ready" {
            return Ok(self);
        }
        self.failed(&line)
    }

    /// Waits for its end and returns its output.
    pub(crate) fn result(mut self) -> Result<Value> {
        let mut text = String::new();
        self.lines.read_to_string(&mut text).with_context(|| format!("read from {}", self.name))?;
        let status = self.child.wait().with_context(|| format!("wait for {}", self.name))?;
        match serde_json::from_str(&text) {
            Ok(value) if status.success() => Ok(value),
            _ => self.failed(&text),
        }
    }

    /// Stops it and returns its output.
    pub(crate) fn end(mut self) -> Result<Value> {
        drop(self.child.stdin.take());
        self.result()
    }

    fn failed<T>(&mut self, printed: &str) -> Result<T> {
        drop(self.child.stdin.take());
        let status = self.child.wait().with_context(|| format!("wait for {}", self.name))?;
        let mut said = String::new();
        if let Some(errors) = &mut self.child.stderr {
            errors.read_to_string(&mut said).context("read what it said")?;
        }
        bail!("{}: {status}: {} {}", self.name, said.trim(), printed.trim())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail after a successful wait.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Running {
        Running::start(Command::new("sh").args(["-c", script]), "a script").unwrap()
    }

    #[test]
    fn it_serves_until_it_is_told_to_end() {
        let running = shell("echo ready; cat >/dev/null; echo '{\"done\": 1}'").ready().unwrap();
        assert_eq!(running.end().unwrap()["done"], 1);
        assert_eq!(shell("echo 7").result().unwrap(), 7);
    }

    #[test]
    fn a_failure_says_why() {
        let error = shell("echo broken >&2; exit 3").ready().unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
        let error = shell("echo ready; echo 7; exit 3").ready().unwrap().end().unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
    }

    #[test]
    fn it_does_not_outlive_its_value() {
        let running = shell("echo ready; exec sleep 60").ready().unwrap();
        let pid = running.child.id();
        drop(running);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
