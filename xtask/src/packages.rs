//! `packages`: deb and rpm packages, a tarball, a list of components, and checksums, in a folder.
//!
//! [`build`] makes the binaries, [`crate::dist`] lays all files out; [`deb`] and [`rpm`] have the distributions' own tools
//! pack them by what is in `packaging/`. The same sources, compiler and tools give the same bytes in any folder: paths are
//! mapped, and the time is that of the commit, or SOURCE_DATE_EPOCH.

mod build;
mod deb;
mod notices;
mod rpm;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::dist::{self, Binaries};
use crate::workspace;

const HELP: &str = "\
usage: cargo xtask packages [--out FOLDER] [--dev] [--as VERSION] [--built FOLDER]

  --out FOLDER   where they go; default: dist
  --dev          of a development build, for tests of the packages
  --as VERSION   of the same sources under another version, for tests of upgrades
  --built FOLDER of binaries that are there, which an earlier run has built
";

/// What is asked for.
struct Request {
    out: PathBuf,
    dev: bool,
    version: String,
    built: Option<PathBuf>,
}

impl Request {
    fn read(args: &[String]) -> Result<Request> {
        let mut request = Request {
            out: workspace::root().join("dist"),
            dev: false,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            built: None,
        };
        let mut words = args.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--dev" => request.dev = true,
                "--out" => request.out = PathBuf::from(words.next().context(HELP)?),
                "--built" => request.built = Some(words.next().context(HELP)?.into()),
                "--as" => request.version = words.next().context(HELP)?.clone(),
                _ => bail!("`{word}`: not known\n{HELP}"),
            }
        }
        request.out = std::path::absolute(&request.out).context("find the folder")?;
        if !is_version(&request.version) {
            bail!("--as {}: write three numbers, like 0.1.0", request.version);
        }
        Ok(request)
    }
}

fn is_version(text: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    text.split('.').count() == 3 && text.split('.').all(number)
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let request = Request::read(args)?;
    let moment = dist::moment()?;
    let binaries = match &request.built {
        Some(folder) => Binaries::of(folder)?,
        None => build::build(&request.version, request.dev)?,
    };
    let work = build::target_folder(&request.version)?.join("packages");
    remake(&work)?;
    let name = format!("netloom-{}-{}-linux", request.version, std::env::consts::ARCH);
    let files = work.join(&name);
    let metadata = workspace::metadata()?;
    dist::lay_out(&binaries, &files)?;
    fs::write(files.join("THIRD-PARTY.txt"), notices::text(&metadata)?)
        .context("write THIRD-PARTY.txt")?;
    fs::create_dir_all(&request.out).with_context(|| format!("make {:?}", request.out))?;
    let mut made = vec![dist::tarball(&files, &request.out, moment)?];
    made.extend(deb::make(&files, &work, &request.out, (&request.version, moment))?);
    made.extend(rpm::make(&files, &work, &request.out, (&request.version, moment))?);
    let list = request.out.join(format!("netloom-{}.cdx.json", request.version));
    fs::write(&list, sbom::text(&metadata, &request.version, moment)?)
        .with_context(|| format!("write {list:?}"))?;
    made.push(list);
    made.push(checksums(&request.out, &made)?);
    for path in &made {
        let size = fs::metadata(path).with_context(|| format!("{path:?}"))?.len();
        println!("{size:>10} {}", path.display());
    }
    Ok(())
}

/// An empty folder.
fn remake(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("remove {folder:?}"))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("make {folder:?}"))
}

/// Copies a folder with all that is in it.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    workspace::must(Command::new("cp").arg("--recursive").arg(from).arg(to))
}

/// Moves the files with this ending from one folder to another.
fn deliver(from: &Path, ending: &str, out: &Path) -> Result<Vec<PathBuf>> {
    let mut made = vec![];
    for entry in fs::read_dir(from).with_context(|| format!("list {from:?}"))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(ending) {
            let to = out.join(entry.file_name());
            fs::copy(entry.path(), &to).with_context(|| format!("write {to:?}"))?;
            made.push(to);
        }
    }
    made.sort();
    if made.is_empty() {
        bail!("{from:?}: no file ends with {ending}");
    }
    Ok(made)
}

/// Writes SHA256SUMS, as `sha256sum --check` reads it.
fn checksums(out: &Path, made: &[PathBuf]) -> Result<PathBuf> {
    let mut names: Vec<_> = made.iter().filter_map(|path| path.file_name()).collect();
    names.sort();
    let sums = workspace::output(Command::new("sha256sum").args(names).current_dir(out))?;
    let path = out.join("SHA256SUMS");
    fs::write(&path, sums).with_context(|| format!("write {path:?}"))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_three_numbers() {
        assert!(is_version("0.1.0") && is_version("10.20.30"));
        for wrong in ["", "1", "1.2", "1.2.3.4", "1..3", "1.2.x", "1.2.3 "] {
            assert!(!is_version(wrong), "{wrong}");
        }
    }

    #[test]
    fn checksums_are_those_of_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "abc").unwrap();
        let sums = checksums(folder.path(), &[file]).unwrap();
        // FIPS 180-2, appendix B.1.
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n";
        assert_eq!(fs::read_to_string(sums).unwrap(), known);
    }
}
