//! The workspace as cargo sees it, and running cargo in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The file of the plug-in for libvdeplug.
pub(crate) const PLUGIN: &str = "libvdeplug_netloom.so";

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// A cargo command in the workspace.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(args).current_dir(root());
    cargo
}

/// Runs a command with its output shown; an error names it.
pub(crate) fn must(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("start {command:?}"))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

/// Runs a command and gives its standard output; an error names it.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let out = command.stderr(Stdio::inherit()).output();
    let out = out.with_context(|| format!("start {command:?}"))?;
    if !out.status.success() {
        bail!("{command:?}: {}", out.status);
    }
    Ok(out.stdout)
}

/// `cargo metadata`, with all dependencies.
pub(crate) fn metadata() -> Result<Value> {
    let text = output(&mut cargo(&["metadata", "--format-version", "1"]))?;
    serde_json::from_slice(&text).context("read cargo metadata")
}

/// Builds and gives the executables that cargo tells of: (manifest path, target name, file, is test).
pub(crate) fn build(args: &[&str]) -> Result<Vec<Built>> {
    Ok(messages(args)?.iter().filter_map(executable).collect())
}

/// Runs cargo and gives what it tells to programs.
fn messages(args: &[&str]) -> Result<Vec<Value>> {
    let text = output(cargo(args).arg("--message-format=json-render-diagnostics"))?;
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).context("read cargo's message")).collect()
}

/// An executable made by cargo.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    /// The package's folder, relative to the workspace.
    pub(crate) dir: PathBuf,
    /// The target's name.
    pub(crate) target: String,
    /// The file.
    pub(crate) file: PathBuf,
    /// Whether it was built with the test harness' profile.
    pub(crate) is_test: bool,
}

fn executable(message: &Value) -> Option<Built> {
    let file = message.get("executable")?.as_str()?;
    let manifest = Path::new(message.get("manifest_path")?.as_str()?);
    let dir = manifest.parent()?.strip_prefix(root()).ok()?;
    Some(Built {
        dir: dir.to_owned(),
        target: message["target"]["name"].as_str()?.to_owned(),
        file: file.into(),
        is_test: message["profile"]["test"].as_bool()?,
    })
}

/// Builds the `netloom` binary and gives its path.
pub(crate) fn netloom(release: bool) -> Result<PathBuf> {
    let built = build(&build_args("netloom", release))?;
    let found = built.into_iter().find(|built| built.target == "netloom" && !built.is_test);
    Ok(found.context("cargo built no binary `netloom`")?.file)
}

/// Builds the plug-in for libvdeplug and gives its path.
pub(crate) fn plugin(release: bool) -> Result<PathBuf> {
    let messages = messages(&build_args("netloom-vdeplug", release))?;
    let files = messages.iter().filter_map(|message| message["filenames"].as_array()).flatten();
    let mut paths = files.filter_map(Value::as_str).map(PathBuf::from);
    paths.find(|path| path.ends_with(PLUGIN)).with_context(|| format!("cargo built no {PLUGIN}"))
}

/// Builds an example that tests start as a program of its own, and gives its path.
pub(crate) fn example(package: &str, name: &str) -> Result<PathBuf> {
    let messages = messages(&["build", "--package", package, "--example", name])?;
    let executables = messages.iter().filter_map(|message| message["executable"].as_str());
    let mut paths = executables.map(PathBuf::from);
    paths.find(|path| path.ends_with(name)).with_context(|| format!("cargo built no {name}"))
}

fn build_args(package: &str, release: bool) -> Vec<&str> {
    let profile = release.then_some("--release");
    ["build", "--package", package].into_iter().chain(profile).collect()
}
