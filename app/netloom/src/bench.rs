//! `bench`: becomes netloom-bench, a program of its own, which need not be installed.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use netloom_sys::Unsupported;

/// The program.
const PROGRAM: &str = "netloom-bench";

/// `netloom bench`: this process with its descriptors, so that also its exit code is the other program's.
pub(crate) fn bench(words: &[OsString]) -> Result<i32> {
    let (own, mut command) = program()?;
    let refusal = command.args(words).exec();
    if refusal.kind() == ErrorKind::NotFound {
        return Err(missing(&own).into());
    }
    Err(refusal).with_context(|| format!("start {PROGRAM}"))
}

/// Lines for the last of the words after `netloom bench`; none where the program is not installed.
pub(crate) fn candidates(words: &[String]) -> Vec<String> {
    let Ok((_, mut command)) = program() else { return vec![] };
    let said = command.arg("complete-words").args(words).stderr(Stdio::null()).output();
    let said = said.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    said.unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The path of this program, and the other one: beside it, else in PATH. It is told whom to measure.
fn program() -> Result<(std::path::PathBuf, Command)> {
    let own = std::env::current_exe().context("find netloom's own program")?;
    let beside = own.with_file_name(PROGRAM);
    let mut command = if beside.is_file() { Command::new(beside) } else { Command::new(PROGRAM) };
    command.env("NETLOOM_BIN", &own);
    Ok((own, command))
}

fn missing(own: &Path) -> Unsupported {
    let folder = own.parent().unwrap_or(own).display();
    Unsupported {
        feature: "bench",
        reason: format!("there is no {PROGRAM} in {folder}, and none in PATH"),
        needs: format!(
            "build it in netloom's sources with `cargo build --release --package {PROGRAM}`, and put \
             target/release/{PROGRAM} beside netloom"
        ),
    }
}
