//! `bench`: becomes netloom-bench, a program of its own, which need not be installed.
//!
//! It is run with all rights of the caller, by completion even before the line is entered. So no program
//! is run that another user may have put beside netloom, or that the current directory has.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use netloom_sys::Unsupported;

/// The program.
const PROGRAM: &str = "netloom-bench";

/// `netloom bench`: this process with its descriptors, so that also its exit code is the other program's.
pub(crate) fn bench(words: &[OsString]) -> Result<i32> {
    let (own, found) = program()?;
    let Some(mut command) = found else { return Err(missing(&own).into()) };
    // exec(2) returns only when it fails.
    let refusal = command.args(words).exec();
    Err(refusal).with_context(|| format!("start {PROGRAM}"))
}

/// Lines for the last of the words after `netloom bench`; none where the program is not installed.
pub(crate) fn candidates(words: &[String]) -> Vec<String> {
    let Ok((_, Some(mut command))) = program() else { return vec![] };
    // Its messages would appear in the middle of the line that is being typed.
    let said = command.arg("complete-words").args(words).stderr(Stdio::null()).output();
    let said = said.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    said.unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The path of this program, and the other one: beside it, else in a folder of PATH that does not depend on the current one.
/// It is told whom to measure.
fn program() -> Result<(PathBuf, Option<Command>)> {
    let own = std::env::current_exe().context("find netloom's own program")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let beside = own.with_file_name(PROGRAM);
    let mut places = std::iter::once(beside).chain(folders.map(|folder| folder.join(PROGRAM)));
    let Some(found) = places.find(|place| place.is_file()) else { return Ok((own, None)) };
    judge(&found, &own)?;
    let mut command = Command::new(found);
    command.env("NETLOOM_BIN", &own);
    Ok((own, Some(command)))
}

/// Refuses a program that neither root, nor this user, nor the owner of netloom's own program has put there, or that
/// everybody may write. Of the folder nothing is asked: who may exchange what is in it may exchange netloom.
fn judge(found: &Path, own: &Path) -> Result<()> {
    let status = |path: &Path| path.metadata().with_context(|| format!("{path:?}: read its owner"));
    let (there, netloom) = (status(found)?, status(own)?);
    let ours = [0, rustix::process::geteuid().as_raw(), netloom.uid()];
    if !ours.contains(&there.uid()) {
        bail!("{found:?}: belongs to user {}: remove it, or run it by its path", there.uid());
    }
    if there.mode() & 0o002 != 0 {
        bail!("{found:?}: everybody may write it: take that right away (`chmod o-w`)");
    }
    Ok(())
}

fn missing(own: &Path) -> Unsupported {
    let folder = own.parent().unwrap_or(own).display();
    Unsupported {
        feature: "bench",
        reason: format!("there is no {PROGRAM} in {folder}, and none in PATH"),
        needs: format!(
            "install the package {PROGRAM} of this version; or build it in netloom's sources with \
             `cargo build --release --package {PROGRAM}`, and put target/release/{PROGRAM} beside netloom"
        ),
    }
}
