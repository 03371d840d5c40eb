//! The workspace as cargo sees it, and cargo runs in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The file of the plug-in for libvdeplug.
pub(crate) const PLUGIN: &str = "libvdeplug_netloom.so";

/// The program that `netloom bench` becomes, and its package.
const BENCH: &str = "netloom-bench";

/// The variable with the seed of property tests. `.cargo/config.toml` fixes it.
pub(crate) const PROPERTIES_SEED: &str = "PROPTEST_RNG_SEED";

/// A seed of this moment for a long run. It is printed, so that a failure can be repeated.
pub(crate) fn new_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = now.map_or(1, |since| since.as_secs());
    println!("{PROPERTIES_SEED}={seed}");
    seed
}

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// A cargo command in the workspace.
///
/// It does not inherit what cargo told this program about its own package: build scripts that look at these variables
/// (ring's) would run again, and all that depends on them be built again, whenever `cargo` and `cargo xtask` take turns.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(args).current_dir(root());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name);
        }
    }
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

/// Runs a command and returns its standard output; an error names it.
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

/// Artifacts of one cargo run, from its messages.
pub(crate) struct Artifacts(Vec<Value>);

impl Artifacts {
    /// Runs cargo.
    pub(crate) fn build(args: &[&str]) -> Result<Artifacts> {
        let text = output(cargo(args).arg("--message-format=json-render-diagnostics"))?;
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter(|line| line.starts_with('{'));
        let read = |line| serde_json::from_str(line).context("read cargo's message");
        Ok(Artifacts(lines.map(read).collect::<Result<_>>()?))
    }

    /// Executables of tests.
    pub(crate) fn tests(&self) -> Vec<Built> {
        self.executables().filter(|built| built.is_test).collect()
    }

    fn executables(&self) -> impl Iterator<Item = Built> {
        self.0.iter().filter_map(executable)
    }

    /// A binary or example, if it is among them.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        let found = self.executables().find(|built| built.target == name && !built.is_test);
        found.map(|built| built.file)
    }

    /// A library's file of this name, if it is among them.
    fn library(&self, name: &str) -> Option<PathBuf> {
        let files = self.0.iter().filter_map(|message| message["filenames"].as_array()).flatten();
        files.filter_map(Value::as_str).map(PathBuf::from).find(|path| path.ends_with(name))
    }

    /// The `netloom` binary. If it is missing, it is built with `netloom-bench` alone, which may rebuild some
    /// dependencies with other features.
    pub(crate) fn netloom(&self) -> Result<PathBuf> {
        self.program("netloom").map_or_else(|| netloom(false), Ok)
    }

    /// The `netloom-bench` binary, likewise.
    pub(crate) fn bench(&self) -> Result<PathBuf> {
        self.program(BENCH).map_or_else(|| bench(false), Ok)
    }

    /// The plug-in for libvdeplug, built if missing.
    pub(crate) fn plugin(&self) -> Result<PathBuf> {
        self.library(PLUGIN).map_or_else(|| plugin(false), Ok)
    }
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

/// Builds the `netloom` binary and returns its path.
pub(crate) fn netloom(release: bool) -> Result<PathBuf> {
    program("netloom", release)
}

/// Builds the `netloom-bench` binary and returns its path.
pub(crate) fn bench(release: bool) -> Result<PathBuf> {
    program(BENCH, release)
}

/// Builds both binaries, since libraries would be built twice for one after the other, with other features.
fn program(name: &str, release: bool) -> Result<PathBuf> {
    let both = ["build", "--package", "netloom", "--package", BENCH];
    let built = Artifacts::build(&with_profile(&both, release))?;
    built.program(name).with_context(|| format!("cargo built no binary `{name}`"))
}

/// Builds the plug-in for libvdeplug and returns its path.
pub(crate) fn plugin(release: bool) -> Result<PathBuf> {
    let built =
        Artifacts::build(&with_profile(&["build", "--package", "netloom-vdeplug"], release))?;
    built.library(PLUGIN).with_context(|| format!("cargo built no {PLUGIN}"))
}

fn with_profile<'a>(words: &[&'a str], release: bool) -> Vec<&'a str> {
    words.iter().copied().chain(release.then_some("--release")).collect()
}
