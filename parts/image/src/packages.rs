//! Packages by apt, with a state of its own: as if nothing was installed, except what no image needs.
//!
//! The lists of packages are the machine's, as the last `apt-get update` left them; signatures and hashes are checked by
//! apt as always.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use netloom_sys::Failure;

use crate::programs::{must, output};
use crate::{Error, Result};

/// What packages depend on for being installed and kept, not for running: apt takes these for installed.
const LEFT_OUT: [&str; 24] = [
    "adduser",
    "ca-certificates",
    "cdebconf",
    "cpio",
    "debconf",
    "dpkg",
    "dracut",
    "init-system-helpers",
    "initramfs-tools",
    "kmod",
    "libcap2-bin",
    "libpam-modules",
    "libpam-modules-bin",
    "libpam-runtime",
    "linux-base",
    "linux-initramfs-tool",
    "mount",
    "openssl",
    "passwd",
    "perl",
    "perl-base",
    "tar",
    "udev",
    "usrmerge",
];
/// Lines of apt's errors that are repeated.
const LINES: usize = 3;

/// Packages and where apt keeps its state for them.
#[derive(Debug)]
pub(crate) struct Packages {
    folder: PathBuf,
    names: Vec<String>,
}

impl Packages {
    pub(crate) fn new(folder: &Path, names: impl Iterator<Item = String>) -> Result<Packages> {
        let names: Vec<String> = names.collect();
        if let Some(wrong) = names.iter().find(|name| !is_name(name)) {
            return Err(Error::Name(wrong.clone()));
        }
        let archives = folder.join("archives/partial");
        fs::create_dir_all(&archives).map_err(|e| Failure::path(archives, "make", e))?;
        let status = folder.join("status");
        // So high a version satisfies any that is asked for, and a foreign package those of every architecture.
        let entry = |name: &str| {
            format!(
                "Package: {name}\nStatus: install ok installed\nMaintainer: none\nArchitecture: all\n\
                 Multi-Arch: foreign\nVersion: 999:1\nDescription: not in images\n\n"
            )
        };
        let text: String = LEFT_OUT.iter().map(|name| entry(name)).collect();
        fs::write(&status, text).map_err(|e| Failure::path(status, "write", e))?;
        Ok(Packages { folder: folder.to_owned(), names })
    }

    /// The files of all packages needed, with versions, in the order of names.
    pub(crate) fn resolve(&self) -> Result<Vec<String>> {
        let text = self.apt("resolve", "--print-uris")?;
        // 'URI' FILE SIZE HASH
        let file = |line: &str| {
            let mut words = line.split_whitespace();
            words.next()?.starts_with('\'').then(|| words.next().map(str::to_owned))?
        };
        let mut files: Vec<String> = text.lines().filter_map(file).collect();
        files.sort_unstable();
        Ok(files)
    }

    /// Downloads the packages; their files.
    pub(crate) fn download(&self) -> Result<Vec<PathBuf>> {
        self.apt("download", "--download-only")?;
        let folder = self.folder.join("archives");
        let entries = fs::read_dir(&folder).map_err(|e| Failure::path(&folder, "list", e))?;
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|end| end == "deb"));
        files.sort_unstable();
        Ok(files)
    }

    fn apt(&self, operation: &'static str, how: &str) -> Result<String> {
        let mut apt = Command::new("apt-get");
        apt.args(["-qq", "-y", "--no-install-recommends", how]);
        let at = |name: &str| self.folder.join(name).display().to_string();
        for option in [
            format!("Dir::State::status={}", at("status")),
            format!("Dir::Cache={}", self.folder.display()),
            format!("Dir::Cache::archives={}", at("archives")),
            format!("Dir::Log={}", self.folder.display()),
            // The locks are root's, and nothing that they guard is written here.
            "Debug::NoLocking=1".to_owned(),
            // For root, apt downloads as another user, which may not write this folder.
            "APT::Sandbox::User=".to_owned(),
            "Acquire::Retries=1".to_owned(),
        ] {
            apt.args(["-o", &option]);
        }
        let done = output(apt.arg("install").args(&self.names))?;
        if done.status.success() {
            return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
        }
        Err(Error::Apt { operation, said: said(&String::from_utf8_lossy(&done.stderr)) })
    }
}

/// Unpacks packages into one folder.
pub(crate) fn unpack(archives: &[PathBuf], root: &Path) -> Result<()> {
    for archive in archives {
        let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
        must(Command::new("dpkg-deb").arg("--extract").arg(archive).arg(root), &name)?;
    }
    Ok(())
}

/// apt's errors, and what helps where it does not know a package.
fn said(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("E: ")).collect();
    let mut said = lines[..lines.len().min(LINES)].join("; ");
    if said.contains("Unable to locate") || said.contains("no installation candidate") {
        said.push_str(" (its list of packages is of the last: sudo apt-get update)");
    }
    if said.is_empty() { text.trim().to_owned() } else { said }
}

/// A package's name, also with `=VERSION` or `/RELEASE`; never an option.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && !name.ends_with(['+', '-'])
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "+-.:=/~_".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_option() {
        for right in
            ["iperf3", "libc6=2.36-9", "linux-image-cloud-amd64/bookworm-backports", "g++-12"]
        {
            assert!(is_name(right), "{right}");
        }
        // apt takes a sign at the end for a wish to remove.
        for wrong in ["", "-o", "--help", "a b", "a;b", "A", "iperf3-"] {
            assert!(!is_name(wrong), "{wrong}");
        }
    }

    #[test]
    fn of_apts_words_its_errors_are_repeated() {
        let text = "W: x\nE: Unable to locate package no-such\n";
        assert!(said(text).starts_with("Unable to locate package no-such (its list"));
        assert_eq!(said("other\n"), "other");
    }
}
