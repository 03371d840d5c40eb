//! `packages`: deb and rpm packages, tarballs, an image for containers, a formula of Homebrew, a list of components, and checksums,
//! in a folder.
//!
//! [`build`] makes the binaries, [`crate::dist`] lays all files out; [`deb`] and [`rpm`] have the distributions' own tools
//! pack them by what is in `packaging/`. The same sources, compiler and tools give the same bytes in any folder: paths are
//! mapped, and the time is that of the commit, or SOURCE_DATE_EPOCH.

mod build;
mod deb;
mod image;
mod notices;
mod recipes;
mod rpm;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::build::Linking;
use crate::dist::{self, Binaries};
use crate::workspace;

const HELP: &str = "\
usage: cargo xtask packages [--out FOLDER] [--dev] [--as VERSION] [--built FOLDER]

  --out FOLDER   where they go; default: dist
  --dev          of a development build, for tests of the packages
  --as VERSION   of the same sources under another version, for tests of upgrades
  --built FOLDER of binaries that are there, which an earlier run has built; nothing that is linked statically
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
    let (version, moment) = (request.version.as_str(), dist::moment()?);
    let binaries = match &request.built {
        Some(folder) => Binaries::of(folder)?,
        None => build::build(version, request.dev, Linking::Dynamic)?,
    };
    let work = build::target_folder(version)?.join("packages");
    remake(&work)?;
    let metadata = workspace::metadata()?;
    let notices = notices::text(&metadata)?;
    fs::create_dir_all(&request.out).with_context(|| format!("make {:?}", request.out))?;
    let files = lay_out(&binaries, &work, version, "linux", &notices)?;
    let mut made = vec![dist::tarball(&files, &request.out, moment)?];
    let debs = deb::make(&files, &work, &request.out, (version, moment))?;
    let own = |deb: &&PathBuf| is_of(deb, &format!("netloom_{version}-"));
    let deb = debs.iter().find(own).context("dpkg-buildpackage made no package netloom")?;
    made.push(image::make(deb, &work, &request.out, (version, moment))?);
    made.extend(debs);
    made.extend(rpm::make(&files, &work, &request.out, (version, moment))?);
    if request.built.is_none() {
        let binaries = build::build(version, request.dev, Linking::Static)?;
        let notices = notices + &notices::linked()?;
        let files = lay_out(&binaries, &work, version, "linux-static", &notices)?;
        let tarball = dist::tarball(&files, &request.out, moment)?;
        made.extend(recipes::make(&tarball, &request.out, version)?);
        made.push(tarball);
    }
    let list = request.out.join(format!("netloom-{version}.cdx.json"));
    fs::write(&list, sbom::text(&metadata, version, moment)?)
        .with_context(|| format!("write {list:?}"))?;
    made.push(list);
    made.push(checksums(&request.out, &made)?);
    for path in &made {
        let size = fs::metadata(path).with_context(|| format!("{path:?}"))?.len();
        println!("{size:>10} {}", path.display());
    }
    Ok(())
}

/// All files of a build, in a folder of their own.
fn lay_out(
    binaries: &Binaries,
    work: &Path,
    version: &str,
    kind: &str,
    notices: &str,
) -> Result<PathBuf> {
    let files = work.join(format!("netloom-{version}-{}-{kind}", std::env::consts::ARCH));
    dist::lay_out(binaries, &files)?;
    fs::write(files.join("THIRD-PARTY.txt"), notices).context("write THIRD-PARTY.txt")?;
    Ok(files)
}

/// Whether a file's name begins so.
fn is_of(file: &Path, beginning: &str) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning))
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
