//! Policy files: read whole or refused, and written under a lock, so that several guards may share one.
//!
//! A file that programs see through a read-only mount of itself is overwritten in place: another file in its place would
//! detach that mount, and leave other guards' programs with one that they may write. Files in a folder that is sealed
//! as a whole are replaced. Nothing is written through a symbolic link.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use netloom_policy::{Policy, Rule};
use netloom_sys::setup::open_regular;

use crate::source;

/// A version of a file: device, inode, size, time of its last change.
type Version = (u64, u64, u64, i64, i64);

/// How long another guard may write, and how often it is looked whether it still does.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(5);
/// The same for readers: a process that may read the file may lock it, and must not keep it from being read.
const READERS: Duration = Duration::from_millis(500);

/// A policy's file.
#[derive(Debug)]
pub(super) struct PolicyFile {
    path: PathBuf,
    version: Option<Version>,
    /// Its folder is sealed: a new file may take its name.
    replaced: bool,
    /// What it says; `None` if there is none yet.
    pub(super) policy: Option<Policy>,
}

/// The file of answers, for programs without a policy of their own, and what its place comes from; `None` if this user
/// has no place for it.
pub(super) fn of_user() -> Option<(PathBuf, &'static str)> {
    let absolute = |name| {
        let path = std::env::var_os(name).map(PathBuf::from)?;
        path.is_absolute().then_some((path, name))
    };
    let config = absolute("XDG_CONFIG_HOME");
    let home = || absolute("HOME").map(|(home, name)| (home.join(".config"), name));
    config.or_else(home).map(|(folder, name)| (folder.join("netloom/guard.yaml"), name))
}

impl PolicyFile {
    /// Reads a policy, which must be there.
    ///
    /// # Errors
    /// It cannot be read, or all of its errors.
    pub(super) fn read(path: &Path) -> Result<PolicyFile> {
        // A writer in place holds a lock. A file that cannot be opened is an error of the reading.
        let held = open_regular(path).ok();
        let held = held.filter(|file| waited_for(READERS, || file.try_lock_shared()));
        // Taken before the text is read: a change in between shows as another version, not as this
        // one.
        let version = version(path);
        let text = source::read(path)?;
        drop(held);
        let policy = netloom_policy::read(&source::shown(path), &text)?;
        Ok(PolicyFile { path: path.to_owned(), version, replaced: false, policy: Some(policy) })
    }

    /// Reads a policy that may not be there yet.
    ///
    /// # Errors
    /// As [`PolicyFile::read`].
    fn read_if_there(path: &Path) -> Result<PolicyFile> {
        use io::ErrorKind as Kind;
        match fs::symlink_metadata(path) {
            Err(e) if matches!(e.kind(), Kind::NotFound | Kind::NotADirectory) => {
                let path = path.to_owned();
                Ok(PolicyFile { path, version: None, replaced: false, policy: None })
            }
            _ => PolicyFile::read(path),
        }
    }

    /// Reads the answers of this user, whose folder is sealed.
    ///
    /// # Errors
    /// As [`PolicyFile::read`]; it is not this user's own.
    pub(super) fn of_user(path: &Path, variable: &str) -> Result<PolicyFile> {
        let read = PolicyFile::read_if_there(path).map_err(|error| {
            if is_refused(&error) { refused(path, variable).into() } else { error }
        })?;
        read.check_owner()?;
        Ok(PolicyFile { replaced: true, ..read })
    }

    /// Reads a policy that is to be learned; one that allows nothing is made if there is none, so that it can be sealed.
    ///
    /// # Errors
    /// It cannot be read or written, or all of its errors.
    pub(super) fn to_learn(path: &Path) -> Result<PolicyFile> {
        let is_there = fs::symlink_metadata(path).is_ok();
        let mut held = Held::open(path).map_err(|e| crate::Usage(netloom_sys::describe(&*e)))?;
        if !is_there && held.text()?.is_empty() {
            held.overwrite(&Policy::nothing())?;
            drop(held);
            let made = PolicyFile::read(path)?;
            return Ok(PolicyFile { policy: None, ..made });
        }
        drop(held);
        PolicyFile::read(path)
    }

    /// Takes away what was made to be learned, if nobody has changed it.
    pub(super) fn forget(&self) {
        if self.policy.is_none() && self.version.is_some() && version(&self.path) == self.version {
            // It says what no file says.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Refuses a file that others may write: it would let their rules pass for this user's.
    ///
    /// # Errors
    /// Others may write it.
    fn check_owner(&self) -> Result<()> {
        let Ok(data) = fs::metadata(&self.path) else { return Ok(()) };
        let (shown, own) = (self.path.display(), rustix::process::geteuid().as_raw());
        if data.uid() != own {
            let words = format!(
                "{shown}: its rules are user {}'s, and you are user {own}: give a policy with --policy, or set HOME to \
                 your own folder (sudo -H)",
                data.uid()
            );
            return Err(crate::Usage(words).into());
        }
        if data.mode() & 0o022 != 0 {
            let words = format!(
                "{shown}: others may write it: chmod go-w {shown}, or give another one with --policy"
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
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).with_context(|| format!("{}: make", folder.display()))?;
        }
        let mut held = Held::open(&self.path)?;
        let mut policy = held.policy()?;
        for answer in answers {
            policy.remember(answer.clone());
        }
        if self.replaced { held.replace(&policy) } else { held.overwrite(&policy) }
    }

    /// Changes what the file says now. Unless it is `sealed`, so that no program can have written it, it must say what
    /// was read.
    ///
    /// # Errors
    /// The file is another one or has errors by now, is a symbolic link, or cannot be written.
    pub(super) fn change<T>(
        &self,
        sealed: bool,
        change: impl FnOnce(&Policy) -> (Policy, T),
    ) -> Result<T> {
        let mut held = Held::open(&self.path)?;
        if !sealed && version(&self.path) != self.version {
            let shown = self.path.display();
            anyhow::bail!("{shown}: write: somebody has changed it since it was read");
        }
        let (policy, more) = change(&held.policy()?);
        held.overwrite(&policy)?;
        Ok(more)
    }
}

/// Why the answers of this user cannot be reached, and what helps.
fn refused(path: &Path, variable: &str) -> crate::Usage {
    let own = rustix::process::geteuid().as_raw();
    let value = std::env::var_os(variable).map(PathBuf::from).unwrap_or_default();
    let whose = match fs::metadata(&value) {
        Ok(data) if data.uid() != own => format!("user {}'s, and you are user {own}", data.uid()),
        _ => format!("{}, and you are user {own}", value.display()),
    };
    let shown = path.display();
    crate::Usage(format!(
        "{shown}: your rules cannot be read there: permission denied; {variable} is {whose}: set {variable} to a \
         folder of yours, or give a policy with --policy FILE"
    ))
}

fn is_refused(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.into_iter().any(|cause| cause.kind() == io::ErrorKind::PermissionDenied)
}

/// Whether a lock was had in time.
fn waited_for(patience: Duration, lock: impl Fn() -> Result<(), TryLockError>) -> bool {
    let begun = Instant::now();
    loop {
        match lock() {
            Ok(()) => return true,
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => {
                std::thread::sleep(LOOK);
            }
            Err(_) => return false,
        }
    }
}

/// A policy's file that no other guard writes meanwhile.
struct Held {
    file: File,
    path: PathBuf,
}

impl Held {
    /// Opens the file, or makes an empty one, and waits until it is this process's to write.
    fn open(path: &Path) -> Result<Held> {
        let shown = path.display();
        loop {
            let file = open(path).with_context(|| format!("{shown}: write"))?;
            if !waited_for(PATIENCE, || file.try_lock()) {
                anyhow::bail!("{shown}: write: somebody else holds a lock on it");
            }
            // While it was waited for, another file may have taken its name.
            if same(&file, path) {
                return Ok(Held { file, path: path.to_owned() });
            }
        }
    }

    fn text(&mut self) -> Result<Vec<u8>> {
        let mut text = vec![];
        let read = self.file.rewind().and_then(|()| self.file.read_to_end(&mut text));
        read.with_context(|| format!("{}: read", self.path.display()))?;
        Ok(text)
    }

    fn policy(&mut self) -> Result<Policy> {
        let text = self.text()?;
        Ok(netloom_policy::read(&source::shown(&self.path), &text)?)
    }

    /// Writes in place: the file stays the same one.
    fn overwrite(&mut self, policy: &Policy) -> Result<()> {
        let (old, new) = (self.text()?, netloom_policy::write(policy));
        let written = overwrite(&self.file, &old, new.as_bytes());
        written.with_context(|| format!("{}: write", self.path.display()))
    }

    /// Puts another file in its place.
    fn replace(&self, policy: &Policy) -> Result<()> {
        let text = netloom_policy::write(policy);
        let written = self.file.metadata().and_then(|data| {
            write_whole(&self.path, text.as_bytes(), data.permissions().mode() & 0o777)
        });
        written.with_context(|| format!("{}: write", self.path.display()))
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let file = options.open(path).map_err(|e| match e.raw_os_error() {
        Some(number) if number == rustix::io::Errno::LOOP.raw_os_error() => {
            io::Error::other("it is a symbolic link, through which nothing is written")
        }
        _ => e,
    })?;
    let plain = file.metadata()?.is_file();
    plain.then_some(file).ok_or_else(|| io::Error::other("it is not a regular file"))
}

fn same(file: &File, path: &Path) -> bool {
    let identity = |data: fs::Metadata| (data.dev(), data.ino());
    let there = fs::symlink_metadata(path).map(identity).ok();
    there.is_some() && there == file.metadata().map(identity).ok()
}

fn version(path: &Path) -> Option<Version> {
    let data = fs::metadata(path).ok()?;
    Some((data.dev(), data.ino(), data.size(), data.ctime(), data.ctime_nsec()))
}

/// Writes `new` in the place of `old`; on an error `old` is put back.
///
/// Room for it is had before anything is lost. Up to the old length it is one write, with empty lines at its end, which
/// a kill does not cut within a page.
fn overwrite(file: &File, old: &[u8], new: &[u8]) -> io::Result<()> {
    let keep = rustix::fs::FallocateFlags::KEEP_SIZE;
    // Not every file system reserves room.
    let full = rustix::io::Errno::NOSPC;
    if rustix::fs::fallocate(file, keep, 0, new.len() as u64) == Err(full) {
        return Err(full.into());
    }
    let mut whole = new.to_vec();
    whole.resize(new.len().max(old.len()), b'\n');
    let written = file
        .write_all_at(&whole, 0)
        .and_then(|()| file.set_len(new.len() as u64))
        .and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = file.write_all_at(old, 0).and_then(|()| file.set_len(old.len() as u64));
    }
    written
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

    fn other() -> Rule {
        Rule::every(Action::Allow, Direction::Open)
    }

    fn rules(path: &Path) -> Vec<Rule> {
        PolicyFile::read(path).unwrap().policy.unwrap().rules
    }

    fn inode(path: &Path) -> u64 {
        fs::metadata(path).unwrap().ino()
    }

    #[test]
    fn answers_are_added_to_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/guard.yaml");
        let file = PolicyFile::of_user(&path, "HOME").unwrap();
        file.add(&[rule()]).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        file.add(&[other()]).unwrap();
        assert_eq!(rules(&path), [rule(), other()]);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_given_file_stays_the_same_one_and_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        fs::write(&path, format!("# {}\n", "long ".repeat(100))).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let (one, two) = (PolicyFile::read(&path).unwrap(), PolicyFile::read(&path).unwrap());
        let before = inode(&path);
        one.add(&[rule()]).unwrap();
        two.add(&[other()]).unwrap();
        assert_eq!((inode(&path), rules(&path)), (before, vec![rule(), other()]));
        let data = fs::metadata(&path).unwrap();
        assert_eq!((data.permissions().mode() & 0o777, data.len() < 200), (0o644, true));
        let text = netloom_policy::write(&one.policy.unwrap());
        assert!(!text.contains("long"));
    }

    #[test]
    fn many_writers_lose_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        for (name, replaced) in [("given", false), ("own", true)] {
            let path = folder.path().join(name);
            let write = |number: u32| {
                let read = PolicyFile::read_if_there(&path).unwrap();
                let parts = [netloom_policy::pattern::Part::Range(number, number)];
                let ports = netloom_policy::pattern::Ports::of(parts);
                PolicyFile { replaced, ..read }.add(&[Rule { ports, ..rule() }]).unwrap();
            };
            std::thread::scope(|scope| {
                for number in 1..=16 {
                    let write = &write;
                    scope.spawn(move || write(number));
                }
            });
            assert_eq!(rules(&path).len(), 16, "{name}");
        }
    }

    #[test]
    fn no_link_is_written_through_and_no_lock_is_waited_for_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("p"), folder.path().join("link"));
        fs::write(&path, "default: deny\n").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = PolicyFile::read(&link).unwrap().add(&[rule()]).unwrap_err();
        assert!(format!("{error:#}").contains("symbolic link"), "{error:#}");
        let error = PolicyFile { path: "/dev/null".into(), ..PolicyFile::read(&path).unwrap() };
        assert!(format!("{:#}", error.add(&[rule()]).unwrap_err()).contains("regular file"));
        let held = File::open(&path).unwrap();
        held.lock().unwrap();
        let file = PolicyFile::read(&path).unwrap();
        let error = file.add(&[rule()]).unwrap_err().to_string();
        assert!(error.contains("somebody else holds a lock"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "default: deny\n");
    }

    #[test]
    fn what_somebody_changed_meanwhile_is_changed_only_if_no_program_can_have_done_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        let file = PolicyFile::to_learn(&path).unwrap();
        assert_eq!((&file.policy, rules(&path).len()), (&None, 0));
        fs::write(&path, "default: allow\n").unwrap();
        file.forget();
        let learn =
            |sealed| file.change(sealed, |now| (Policy { rules: vec![rule()], ..now.clone() }, ()));
        let error = learn(false).unwrap_err().to_string();
        assert!(error.contains("somebody has changed it"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "default: allow\n");
        learn(true).unwrap();
        assert_eq!(rules(&path), [rule()]);
    }

    #[test]
    fn what_was_made_to_be_learned_goes_with_a_program_that_does_not_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        PolicyFile::to_learn(&path).unwrap().forget();
        assert!(!path.exists());
        fs::write(&path, "").unwrap();
        PolicyFile::to_learn(&path).unwrap().forget();
        assert!(path.exists(), "an empty file is somebody's");
        let nowhere = PolicyFile::to_learn(&folder.path().join("none/p")).unwrap_err();
        assert!(nowhere.is::<crate::Usage>(), "{nowhere}");
    }

    #[test]
    fn a_file_that_others_may_write_is_no_users_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        let read = || PolicyFile::of_user(&path, "HOME");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        read().unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(read().unwrap_err().to_string().contains("chmod go-w"));
    }
}
