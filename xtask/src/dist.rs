//! `dist`: `dist/netloom-VERSION-ARCH-linux.tar.gz` with both binaries, plug-in, man pages, completions, texts.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{man, workspace};

/// Shells, and the file names under which they look for completions.
const COMPLETIONS: &[(&str, &str)] =
    &[("bash", "netloom.bash"), ("zsh", "_netloom"), ("fish", "netloom.fish")];
const TEXTS: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

pub(crate) fn run() -> Result<()> {
    let [binary, bench] = [workspace::netloom(true)?, workspace::bench(true)?];
    let name = format!("netloom-{}-{}-linux", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let dist = workspace::root().join("dist");
    let folder = dist.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder).context("remove the old folder")?;
    }
    fill(&binary, &bench, &folder)?;
    let plugin = folder.join("vdeplug");
    fs::create_dir_all(&plugin).context("make the folder of the plug-in")?;
    fs::copy(workspace::plugin(true)?, plugin.join(workspace::PLUGIN))
        .context("copy the plug-in")?;
    let tarball = dist.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--gzip").arg("--file").arg(&tarball).arg("--directory").arg(&dist);
    // Neither the order of the folder nor who packs it is to be seen in the tarball.
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]).arg(&name);
    workspace::must(&mut tar)?;
    println!("{}", tarball.display());
    Ok(())
}

/// Lays out the same files that `make install` installs.
fn fill(binary: &Path, bench: &Path, folder: &Path) -> Result<()> {
    let completions = folder.join("completions");
    fs::create_dir_all(&completions).context("make the folder")?;
    fs::copy(binary, folder.join("netloom")).context("copy the binary")?;
    fs::copy(bench, folder.join("netloom-bench")).context("copy netloom-bench")?;
    man::write(&[binary, bench], &folder.join("man"))?;
    for (shell, file) in COMPLETIONS {
        let text = workspace::output(Command::new(binary).args(["completions", shell]))?;
        fs::write(completions.join(file), text).with_context(|| format!("write {file}"))?;
    }
    for text in TEXTS {
        let from = workspace::root().join(text);
        fs::copy(&from, folder.join(text)).with_context(|| format!("copy {text}"))?;
    }
    let examples = folder.join("examples");
    fs::create_dir_all(&examples)?;
    for entry in fs::read_dir(workspace::root().join("examples")).context("list examples")? {
        let entry = entry?;
        fs::copy(entry.path(), examples.join(entry.file_name()))?;
    }
    Ok(())
}
