//! Binaries that do not show where they were built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::dist::Binaries;
use crate::workspace;

/// What stands for the folder of the sources, and for cargo's, in the binaries.
const SOURCES: &str = "/usr/src/netloom";
const CARGO: &str = "/usr/src/cargo";

/// How a program has its libraries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Linking {
    /// Those of the machine that it runs on.
    Dynamic,
    /// All of them, the C library too, are in it: it runs on any Linux of this architecture, such as Alpine.
    Static,
}

/// Between the flags of CARGO_ENCODED_RUSTFLAGS.
const BETWEEN: &str = "\u{1f}";

/// Builds this workspace under a version. A folder of its own keeps it apart from builds with other flags.
pub(super) fn build(version: &str, dev: bool, linking: Linking) -> Result<Binaries> {
    let own = version == env!("CARGO_PKG_VERSION");
    let target = target_folder(version)?;
    let sources = if own { workspace::root() } else { under_version(version, &target)? };
    let cargo_home = cargo_home()?;
    let mut cargo =
        workspace::cargo(&["build", "--package", "netloom", "--package", "netloom-bench"]);
    if !dev {
        cargo.arg("--release");
    }
    // Under another version the lock file follows.
    if own {
        cargo.arg("--locked");
    }
    let folders = [(sources.as_path(), SOURCES), (&target, SOURCES), (&cargo_home, CARGO)];
    let mut flags = mapped("--remap-path-prefix", &folders, BETWEEN);
    let mut built = target.clone();
    match linking {
        Linking::Dynamic => _ = cargo.args(["--package", "netloom-vdeplug"]),
        Linking::Static => {
            // Where a target is named, its flags are not those of macros and build scripts, which are loaded as libraries.
            let host = host()?;
            cargo.args(["--target", &host]);
            flags = format!("{flags}{BETWEEN}-Ctarget-feature=+crt-static");
            built.push(host);
        }
    }
    cargo.current_dir(&sources).env("CARGO_TARGET_DIR", &target);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags);
    cargo.env("CFLAGS", mapped("-ffile-prefix-map", &folders, " "));
    cargo.env("CARGO_INCREMENTAL", "0").env("LC_ALL", "C").env("TZ", "UTC");
    for name in ["RUSTFLAGS", "CARGO_BUILD_TARGET", "CXXFLAGS"] {
        cargo.env_remove(name);
    }
    workspace::must(&mut cargo)?;
    built.push(if dev { "debug" } else { "release" });
    let binaries = match linking {
        Linking::Dynamic => Binaries::of(&built)?,
        Linking::Static => {
            let [netloom, bench] = ["netloom", "netloom-bench"].map(|name| built.join(name));
            Binaries { netloom, bench, plugin: None }
        }
    };
    if !dev {
        for file in binaries.files() {
            shows_none(file, &[&sources, &target, &cargo_home])?;
        }
    }
    Ok(binaries)
}

/// The target of a build that names none.
fn host() -> Result<String> {
    let said = workspace::output(Command::new("rustc").args(["--print", "host-tuple"]))?;
    Ok(String::from_utf8(said).context("read rustc's answer")?.trim().to_owned())
}

/// Where this build's files go.
pub(super) fn target_folder(version: &str) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace::root().join("target"), PathBuf::from);
    let target = std::path::absolute(target).context("find the folder of builds")?;
    Ok(target.join("of-packages").join(version))
}

/// Cargo's folder, in which the sources of libraries are.
fn cargo_home() -> Result<PathBuf> {
    let own = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"));
    own.or_else(home).context("neither CARGO_HOME nor HOME is set")
}

/// A flag for each folder. Later ones win, so that a folder inside another comes after it.
fn mapped(flag: &str, folders: &[(&Path, &str)], between: &str) -> String {
    let mut folders = folders.to_vec();
    folders.sort();
    let each = |(from, to): &(&Path, &str)| format!("{flag}={}={to}", from.display());
    folders.iter().map(each).collect::<Vec<_>>().join(between)
}

/// The checked out commit's files in a folder of their own, with another version.
fn under_version(version: &str, target: &Path) -> Result<PathBuf> {
    let tree = target.join("tree");
    super::remake(&tree)?;
    let archive = target.join("tree.tar");
    let mut git = Command::new("git");
    git.args(["archive", "--format=tar", "HEAD", "--output"]).arg(&archive);
    workspace::must(git.current_dir(workspace::root()))?;
    workspace::must(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&tree))?;
    let manifest = tree.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).with_context(|| format!("read {manifest:?}"))?;
    let line = |version: &str| format!("\nversion = \"{version}\"\n");
    let changed = text.replacen(&line(env!("CARGO_PKG_VERSION")), &line(version), 1);
    if changed == text {
        bail!("{manifest:?}: has no line with the version {}", env!("CARGO_PKG_VERSION"));
    }
    fs::write(&manifest, changed).with_context(|| format!("write {manifest:?}"))?;
    Ok(tree)
}

/// Refuses a file in which one of these folders can be read.
fn shows_none(file: &Path, folders: &[&Path]) -> Result<()> {
    let bytes = fs::read(file).with_context(|| format!("read {file:?}"))?;
    for folder in folders {
        let shown = folder.as_os_str().as_encoded_bytes();
        if bytes.windows(shown.len()).any(|some| some == shown) {
            bail!("{file:?}: shows the folder {folder:?}: other folders would give other bytes");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_inside_another_is_mapped_after_it() {
        let folders = [(Path::new("/a/b"), "/y"), (Path::new("/a"), "/x")];
        assert_eq!(mapped("-m", &folders, " "), "-m=/a=/x -m=/a/b=/y");
    }

    #[test]
    fn a_file_that_shows_a_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("binary");
        fs::write(&file, b"\x7fELF /home/me/netloom/src/main.rs\0").unwrap();
        assert!(shows_none(&file, &[Path::new("/home/you")]).is_ok());
        let error = shows_none(&file, &[Path::new("/home/me/netloom")]).unwrap_err();
        assert!(error.to_string().contains("shows the folder"), "{error}");
    }
}
