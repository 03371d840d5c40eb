//! `web`: the lab's page, from its sources in `web/` into the files that the binary has in it.
//!
//! Those files, `web/dist/`, are committed, so that nobody needs node to build netloom. `--check` builds them again and compares
//! every byte; where node, npm or the packages are not to be had, it says so and leaves that out. Cargo never calls npm.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace;

/// What the page is made of, below `web/`.
const SOURCES: &[&str] =
    &["build.mjs", "package.json", "package-lock.json", "tsconfig.json", "src", "test"];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let only_compare = match args {
        [] => false,
        [flag] if flag == "--check" => true,
        other => bail!("web takes --check or nothing, got {other:?}"),
    };
    let web = workspace::root().join("web");
    let room = workspace::root().join("target/web");
    if let Err(why) = prepare(&web, &room)? {
        if only_compare {
            println!("web: skipped: {why}");
            return Ok(());
        }
        bail!("web: {why}");
    }
    for script in ["check", "test", "build"] {
        workspace::must(npm(&room).args(["run", "--silent", script]))?;
    }
    let (fresh, known) = (files(&room.join("dist"))?, files(&web.join("dist"))?);
    if fresh == known {
        println!("web/dist: as it should be");
    } else if only_compare {
        let all: Vec<&PathBuf> = fresh.keys().chain(known.keys()).collect();
        let other = all.into_iter().find(|name| fresh.get(*name) != known.get(*name));
        bail!(
            "web/dist/{}: not what web/src gives: run `cargo xtask web`",
            other.map_or(Path::new(""), |n| n).display()
        );
    } else {
        replace(&web.join("dist"), &fresh)?;
        println!("web/dist: written");
    }
    Ok(())
}

/// Copies the sources to where npm may write, and installs what they need; the inner error says what is missing.
fn prepare(web: &Path, room: &Path) -> Result<Result<(), String>> {
    for program in ["node", "npm"] {
        let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return Ok(Err(format!("{program} is missing")));
        }
    }
    fs::create_dir_all(room).with_context(|| format!("{}: make", room.display()))?;
    for name in SOURCES {
        copy(&web.join(name), &room.join(name))?;
    }
    // No package runs anything of its own here.
    let args = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];
    match npm(room).args(args).status().context("start npm")?.success() {
        true => Ok(Ok(())),
        false => Ok(Err("npm did not get the packages of web/package-lock.json".to_owned())),
    }
}

fn npm(room: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(room);
    npm
}

/// Copies a file, or a folder in place of the one that is there.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        fs::copy(from, to).with_context(|| format!("{}: copy", from.display()))?;
        return Ok(());
    }
    replace(to, &files(from)?)
}

/// The files of a folder without folders in it; none where it is missing.
fn files(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut all = BTreeMap::new();
    if !folder.exists() {
        return Ok(all);
    }
    for entry in fs::read_dir(folder).with_context(|| format!("{}: list", folder.display()))? {
        let path = entry?.path();
        let bytes = fs::read(&path).with_context(|| format!("{}: read", path.display()))?;
        all.insert(PathBuf::from(path.file_name().unwrap_or_default()), bytes);
    }
    Ok(all)
}

/// Makes a folder have just these files.
fn replace(folder: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("{}: remove", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("{}: make", folder.display()))?;
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::write(&path, bytes).with_context(|| format!("{}: write", path.display()))?;
    }
    Ok(())
}
