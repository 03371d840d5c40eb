//! Locates the `netloom` binary and the files of the workspace.
//!
//! `cargo xtask test` sets `NETLOOM_BIN` and `NETLOOM_TEST_ROOT` (a copy of the workspace's data that an
//! unprivileged user can read). Under plain `cargo test` the binary is looked for beside the test executable,
//! where cargo puts it, and built if missing, with `netloom-bench` beside it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::Run;

/// The binary under test.
#[derive(Clone, Debug)]
pub struct Binary(PathBuf);

impl Binary {
    /// Finds it, once per test process.
    ///
    /// # Panics
    /// The binary is missing and cannot be built.
    pub fn find() -> Binary {
        static FOUND: OnceLock<PathBuf> = OnceLock::new();
        Binary(FOUND.get_or_init(locate).clone())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A run of it with these arguments.
    pub fn run<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        Run::new(&self.0).args(args)
    }
}

/// The workspace, or the readable copy of its data made by `cargo xtask test`.
pub fn workspace_root() -> PathBuf {
    match std::env::var_os("NETLOOM_TEST_ROOT") {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."),
    }
}

fn locate() -> PathBuf {
    if let Some(path) = std::env::var_os("NETLOOM_BIN") {
        return PathBuf::from(path);
    }
    let exe = std::env::current_exe().expect("own path");
    let profile = exe.ancestors().nth(2).expect("target/PROFILE/deps/TEST has two parents");
    let built = profile.join("netloom");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Both in one run: else cargo builds libraries twice, with other features.
    let packages = ["--package", "netloom", "--package", "netloom-bench"];
    cargo.args(["build", "--quiet"]).args(packages).current_dir(workspace_root());
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("start cargo to build the netloom binary");
    assert!(status.success() && built.is_file(), "no netloom binary at {}", built.display());
    built
}
