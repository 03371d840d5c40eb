//! `dist`: `dist/netloom-VERSION-ARCH-linux.tar.gz` with both binaries, plug-in, man pages, completions, texts.
//!
//! `packages` lays the same files out, and packs them as the distributions do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{man, workspace};

/// Shells, and the file names under which they look for completions.
const COMPLETIONS: &[(&str, &str)] =
    &[("bash", "netloom.bash"), ("zsh", "_netloom"), ("fish", "netloom.fish")];
const TEXTS: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Folders that are copied as they are.
const FOLDERS: &[(&str, &str)] = &[
    ("examples", "examples"),
    ("docs/guide", "docs/guide"),
    ("packaging/apparmor", "apparmor"),
    ("packaging/systemd", "systemd"),
];

/// The files of a build.
pub(crate) struct Binaries {
    /// `netloom`
    pub(crate) netloom: PathBuf,
    /// `netloom-bench`
    pub(crate) bench: PathBuf,
    /// The plug-in for libvdeplug; those that are linked statically are for machines without that library.
    pub(crate) plugin: Option<PathBuf>,
}

impl Binaries {
    /// Those of a folder; all must be there.
    pub(crate) fn of(folder: &Path) -> Result<Binaries> {
        let folder = std::path::absolute(folder).context("find the folder of binaries")?;
        let at = |name: &str| {
            let file = folder.join(name);
            if file.is_file() { Ok(file) } else { bail!("{file:?}: is not there") }
        };
        Ok(Binaries {
            netloom: at("netloom")?,
            bench: at("netloom-bench")?,
            plugin: Some(at(workspace::PLUGIN)?),
        })
    }

    /// All files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.netloom, &self.bench].into_iter().chain(&self.plugin)
    }
}

pub(crate) fn run() -> Result<()> {
    let binaries = Binaries {
        netloom: workspace::netloom(true)?,
        bench: workspace::bench(true)?,
        plugin: Some(workspace::plugin(true)?),
    };
    let name = format!("netloom-{}-{}-linux", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let dist = workspace::root().join("dist");
    let folder = dist.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder).context("remove the old folder")?;
    }
    lay_out(&binaries, &folder)?;
    println!("{}", tarball(&folder, &dist, moment()?)?.display());
    Ok(())
}

/// The time that all files have: SOURCE_DATE_EPOCH, else that of the commit.
pub(crate) fn moment() -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => {
            let mut git = Command::new("git");
            git.args(["log", "-1", "--format=%ct"]).current_dir(workspace::root());
            let said = workspace::output(&mut git).context(
                "SOURCE_DATE_EPOCH is not set, and this is not a clone whose commit has a time",
            )?;
            String::from_utf8(said).context("read git's answer")?
        }
    };
    text.trim().parse().with_context(|| format!("SOURCE_DATE_EPOCH: {text:?}: not a number"))
}

/// Packs a folder into `OUT/NAME.tar.gz`.
pub(crate) fn tarball(folder: &Path, out: &Path, moment: u64) -> Result<PathBuf> {
    let (Some(beside), Some(name)) = (folder.parent(), folder.file_name()) else {
        bail!("{folder:?}: has no name");
    };
    let tarball = out.join(format!("{}.tar.gz", name.display()));
    let packed = out.join(format!("{}.tar", name.display()));
    tar(beside, name.as_ref(), &packed, moment)?;
    workspace::must(Command::new("gzip").args(["-9", "--no-name", "--force"]).arg(&packed))?;
    Ok(tarball)
}

/// Packs what has this name in a folder. Neither the order of the folder, nor who packs it, when and with which umask is to
/// be seen in it.
pub(crate) fn tar(folder: &Path, name: &Path, tarball: &Path, moment: u64) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--file").arg(tarball);
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.args(["--mode=u=rwX,go=rX", &format!("--mtime=@{moment}")]);
    workspace::must(tar.arg("--directory").arg(folder).arg(name).env("LC_ALL", "C"))
}

/// Lays out the same files that `make install` installs, and texts.
pub(crate) fn lay_out(binaries: &Binaries, folder: &Path) -> Result<()> {
    let Binaries { netloom, bench, plugin } = binaries;
    let mut shipped = vec![folder.join("netloom"), folder.join("netloom-bench")];
    let completions = folder.join("completions");
    fs::create_dir_all(&completions).context("make the folder")?;
    fs::copy(netloom, folder.join("netloom")).context("copy the binary")?;
    fs::copy(bench, folder.join("netloom-bench")).context("copy netloom-bench")?;
    if let Some(plugin) = plugin {
        let to = folder.join("vdeplug").join(workspace::PLUGIN);
        fs::create_dir(folder.join("vdeplug")).context("make the folder of the plug-in")?;
        fs::copy(plugin, &to).context("copy the plug-in")?;
        shipped.push(to);
    }
    // Cargo leaves the symbols of packages that have a profile of their own.
    let mut strip = Command::new("strip");
    strip.args(["--strip-unneeded", "--remove-section=.comment"]).args(shipped);
    workspace::must(&mut strip)?;
    man::write(&[netloom.as_path(), bench.as_path()], &folder.join("man"))?;
    for (shell, file) in COMPLETIONS {
        let text = workspace::output(Command::new(netloom).args(["completions", shell]))?;
        fs::write(completions.join(file), text).with_context(|| format!("write {file}"))?;
    }
    for text in TEXTS {
        let from = workspace::root().join(text);
        fs::copy(&from, folder.join(text)).with_context(|| format!("copy {text}"))?;
    }
    FOLDERS.iter().try_for_each(|(from, to)| copy_files(from, &folder.join(to)))?;
    // As in every clone, whatever its umask was.
    workspace::must(Command::new("chmod").args(["--recursive", "u=rwX,go=rX"]).arg(folder))
}

/// Copies the files of a folder of the workspace, and those of folders in it.
fn copy_files(from: &str, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("make {to:?}"))?;
    let folder = workspace::root().join(from);
    for entry in fs::read_dir(&folder).with_context(|| format!("list {folder:?}"))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            let below = format!("{from}/{}", entry.file_name().to_string_lossy());
            copy_files(&below, &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(|| format!("copy {:?}", entry.path()))?;
        }
    }
    Ok(())
}
