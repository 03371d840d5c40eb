//! Policy files: read whole or refused, and written so that a reader sees the old or the new one, never a part.
//!
//! Nothing is written through a symbolic link, nor over a file that somebody has changed meanwhile where that matters.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use netloom_policy::{Policy, Rule};

use crate::source;

/// A version of a file: device, inode, size, time of its last change.
type Version = (u64, u64, u64, i64, i64);

/// A policy's file.
#[derive(Debug)]
pub(super) struct PolicyFile {
    path: PathBuf,
    version: Option<Version>,
    /// What it says; `None` if there is none yet.
    pub(super) policy: Option<Policy>,
}

/// The file of answers, for programs without a policy of their own; `None` if this user has no place for it.
pub(super) fn of_user() -> Option<PathBuf> {
    let absolute = |path: std::ffi::OsString| Some(PathBuf::from(path)).filter(|p| p.is_absolute());
    let config = std::env::var_os("XDG_CONFIG_HOME").and_then(absolute);
    let home = || std::env::var_os("HOME").and_then(absolute).map(|home| home.join(".config"));
    config.or_else(home).map(|folder| folder.join("netloom/guard.yaml"))
}

impl PolicyFile {
    /// Reads a policy, which must be there.
    ///
    /// # Errors
    /// It cannot be read, or all of its errors.
    pub(super) fn read(path: &Path) -> Result<PolicyFile> {
        let version = version(path);
        let text = source::read(path)?;
        let policy = netloom_policy::read(&source::shown(path), &text)?;
        Ok(PolicyFile { path: path.to_owned(), version, policy: Some(policy) })
    }

    /// Reads a policy that may not be there yet.
    ///
    /// # Errors
    /// As [`PolicyFile::read`].
    pub(super) fn read_if_there(path: &Path) -> Result<PolicyFile> {
        match fs::symlink_metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Ok(PolicyFile { path: path.to_owned(), version: None, policy: None })
            }
            _ => PolicyFile::read(path),
        }
    }

    /// Refuses a file that others may write: it would let their rules pass for this user's.
    ///
    /// # Errors
    /// Others may write it.
    pub(super) fn check_owner(&self) -> Result<()> {
        let Ok(data) = fs::metadata(&self.path) else { return Ok(()) };
        let own = rustix::process::geteuid().as_raw();
        if data.uid() != own || data.mode() & 0o022 != 0 {
            let shown = self.path.display();
            let words = format!(
                "{shown}: others may write it: it must belong to you: chmod go-w {shown}, or give \
                 another one with --policy"
            );
            return Err(crate::Usage(words).into());
        }
        Ok(())
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds answers to what the file says now.
    ///
    /// # Errors
    /// The file has errors by now, is a symbolic link, or cannot be written.
    pub(super) fn add(&self, answers: &[Rule]) -> Result<()> {
        let now = PolicyFile::read_if_there(&self.path)?;
        let mut policy = now.policy.clone().unwrap_or_default();
        for answer in answers {
            policy.remember(answer.clone());
        }
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).with_context(|| format!("{}: make", folder.display()))?;
        }
        now.replace(&policy)
    }

    /// Puts `policy` in the place of what was read.
    ///
    /// # Errors
    /// The file has been changed or made since, is a symbolic link, or cannot be written.
    pub(super) fn replace(&self, policy: &Policy) -> Result<()> {
        let shown = self.path.display();
        let there = fs::symlink_metadata(&self.path).ok();
        if there.as_ref().is_some_and(fs::Metadata::is_symlink) {
            anyhow::bail!(
                "{shown}: write: it is a symbolic link, through which nothing is written"
            );
        }
        if version(&self.path) != self.version {
            anyhow::bail!("{shown}: write: somebody has changed it since it was read");
        }
        let mode = there.map_or(0o600, |data| data.permissions().mode() & 0o777);
        write_whole(&self.path, netloom_policy::write(policy).as_bytes(), mode)
            .with_context(|| format!("{shown}: write"))
    }
}

fn version(path: &Path) -> Option<Version> {
    let data = fs::metadata(path).ok()?;
    Some((data.dev(), data.ino(), data.size(), data.ctime(), data.ctime_nsec()))
}

/// Writes beside it, then takes its name.
fn write_whole(path: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    // What a killed process of the same number has left.
    let _ = fs::remove_file(&beside);
    let written = (|| {
        // A link in its place is refused, too.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(text)?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use netloom_policy::{Action, Direction};

    use super::*;

    fn rule() -> Rule {
        Rule::every(Action::Allow, Direction::In)
    }

    #[test]
    fn answers_are_added_to_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/guard.yaml");
        let file = PolicyFile::read_if_there(&path).unwrap();
        file.add(&[rule()]).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let other = Rule::every(Action::Allow, Direction::Open);
        file.add(std::slice::from_ref(&other)).unwrap();
        let now = PolicyFile::read(&path).unwrap().policy.unwrap();
        assert_eq!(now.rules, [rule(), other]);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn no_link_and_no_change_of_others_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("p"), folder.path().join("link"));
        fs::write(&path, "default: deny\n").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let by_link = PolicyFile::read(&link).unwrap();
        assert!(by_link.add(&[rule()]).unwrap_err().to_string().contains("symbolic link"));
        let file = PolicyFile::read(&path).unwrap();
        fs::write(&path, "default: allow\n").unwrap();
        let error = file.replace(&Policy::default()).unwrap_err();
        assert!(error.to_string().contains("somebody has changed it"), "{error}");
        let absent = PolicyFile::read_if_there(&folder.path().join("new")).unwrap();
        fs::write(folder.path().join("new"), "").unwrap();
        assert!(absent.replace(&Policy::default()).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "default: allow\n");
    }

    #[test]
    fn the_mode_of_a_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        PolicyFile::read(&path).unwrap().replace(&Policy::default()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    }

    #[test]
    fn a_file_that_others_may_write_is_no_users_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        PolicyFile::read(&path).unwrap().check_owner().unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(PolicyFile::read(&path).unwrap().check_owner().is_err());
    }
}
