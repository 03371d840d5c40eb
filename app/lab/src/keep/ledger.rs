//! Which labs need which sysctl of the host: counted for the whole machine, across runtime directories, so
//! that the last user, and none before, restores the old value. A limit is raised by the sum of what its users need.
//!
//! One file for each network namespace that acts as the host, in a folder of root's that is locked for each
//! change and removed with its last file. A user is a lab's folder. It counts only while its own list of
//! changes ([`Folder::read_host_changes`]) has the sysctl; that list is written before anything here and
//! cleared afterwards. So the next process detects users that were removed without a release, and a process
//! killed between two steps leaves a correct count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netloom_sys::trusted::{TrustedDir, identity, is_missing};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::store::host_change::{HostChange, settings};
use crate::store::state::Folder;
use crate::store::whole_file;
use crate::{Error, Result};

/// The folder of the counts of root's labs.
const HOME: &str = "/run/netloom-host";

/// Where root's labs are, unless told otherwise.
const LABS: &str = "/run/netloom";

/// The old value of one sysctl, and the labs that need another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    old: String,
    users: Vec<PathBuf>,
}

impl Entry {
    /// The value of a limit: the old one, and what each user needs beside it.
    fn raised(&self, path: &str) -> Option<String> {
        let old: u32 = self.old.parse().ok().filter(|_| settings::is_limit(path))?;
        let more = self.users.iter().filter_map(|user| needs(user, path));
        let sum = more.fold(old, u32::saturating_add);
        // The kernel's are `int`.
        Some(sum.min(i32::MAX.unsigned_abs()).to_string())
    }
}

type Entries = BTreeMap<String, Entry>;

/// The count of one network namespace.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    home: PathBuf,
    /// `/proc/sys`.
    settings: PathBuf,
    file: String,
    /// The beginning of the names of files with claims.
    claim: String,
}

/// The folder of the counts, with its lock.
pub(super) struct Locked {
    home: TrustedDir,
    _lock: rustix::fd::OwnedFd,
}

impl Locked {
    pub(super) fn home(&self) -> &TrustedDir {
        &self.home
    }
}

impl Ledger {
    /// The ledger of the calling process's network namespace.
    pub(crate) fn open() -> Result<Ledger> {
        let space = "/proc/self/ns/net";
        // Labs in other network namespaces have sysctls of their own.
        let inode = fs::metadata(space).map_err(Error::at(space, "look at"))?.ino();
        Ok(Ledger::at(Path::new(HOME), Path::new("/proc/sys"), inode))
    }

    pub(super) fn at(home: &Path, settings: &Path, inode: u64) -> Ledger {
        let (file, claim) = (format!("{inode}.json"), format!("{inode}.claim-"));
        Ledger { home: home.to_owned(), settings: settings.to_owned(), file, claim }
    }

    /// The file of a lab's claim of addresses, by the hash of its folder.
    pub(super) fn claim(&self, hash: u64) -> String {
        format!("{}{hash:016x}", self.claim)
    }

    /// The files of claims whose process lives; those of others are removed.
    pub(super) fn claims(&self, locked: &Locked) -> Result<Vec<String>> {
        let failed = Error::in_runtime(&self.home);
        let mut living = Vec::new();
        for (name, _) in locked.home.entries().map_err(&failed)? {
            let Some(name) = name.to_str().filter(|name| name.starts_with(&self.claim)) else {
                continue;
            };
            let file = match locked.home.open_file(name, OFlags::RDONLY) {
                // Its owner has removed it since the list was read.
                Err(e) if is_missing(&e) => continue,
                opened => opened.map_err(&failed)?,
            };
            // A shared lock is refused only while its owner lives and has it alone.
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
                Err(Errno::WOULDBLOCK) => living.push(name.to_owned()),
                _ => {
                    locked.home.remove_file(name).map_err(&failed)?;
                }
            }
        }
        Ok(living)
    }

    /// Removes the folder, whose lock the caller holds, if it is empty; a process that waits for the lock notices that.
    pub(super) fn leave_home(&self) {
        // Fails while anything is in it, as it should.
        let _ = fs::remove_dir(&self.home);
    }

    /// Sets `path` below `/proc/sys` for the lab in `user`, whose list of changes has it already.
    pub(crate) fn take(&self, path: &str, value: &str, user: &Path) -> Result<()> {
        self.join(path, user, |_| Some(value.to_owned()))
    }

    /// Raises a limit for the lab in `user`, by what its list of changes says.
    pub(crate) fn raise(&self, path: &str, user: &Path) -> Result<()> {
        self.join(path, user, |entry| entry.raised(path))
    }

    /// Counts the lab in `user`, and sets what `value` makes of the entry.
    fn join(
        &self,
        path: &str,
        user: &Path,
        value: impl FnOnce(&Entry) -> Option<String>,
    ) -> Result<()> {
        self.locked(user, |locked, entries| {
            match entries.get_mut(path) {
                // A repeated attempt counts once.
                Some(entry) if entry.users.iter().any(|known| known == user) => {}
                Some(entry) => entry.users.push(user.to_owned()),
                None => {
                    // A kernel without this sysctl needs none set.
                    let Some(old) = self.read(path) else { return Ok(()) };
                    entries.insert(path.to_owned(), Entry { old, users: vec![user.to_owned()] });
                }
            }
            // Recorded before it is done.
            self.write(locked, entries)?;
            match entries.get(path).and_then(value) {
                Some(value) => self.set(path, &value),
                None => Ok(()),
            }
        })
    }

    /// Releases the lab in `user`. `old` is the value that it found, for a sysctl that was not counted.
    pub(crate) fn release(&self, path: &str, old: &str, user: &Path) -> Result<()> {
        self.locked(user, |locked, entries| {
            let Some(entry) = entries.get_mut(path) else { return self.set(path, old) };
            entry.users.retain(|known| known != user);
            if entry.users.is_empty() {
                // The value first: a killed process leaves an entry that the next one finds without
                // users.
                self.set(path, &entry.old.clone())?;
                entries.remove(path);
            } else if let Some(raised) = entry.raised(path) {
                self.set(path, &raised)?;
            }
            self.write(locked, entries)
        })
    }

    /// Whether a lab has set a sysctl, and the value before; the lab in `user` asks.
    pub(crate) fn before(&self, path: &str, user: &Path) -> Result<Option<String>> {
        self.locked(user, |_, entries| Ok(entries.get(path).map(|entry| entry.old.clone())))
    }

    /// The sysctls for which the lab in `user` counts, as its list of changes would have them; by how much it raises limits
    /// is known only there.
    pub(crate) fn of(&self, user: &Path) -> Result<Vec<HostChange>> {
        // Ordinary users' labs have set none.
        let own = rustix::process::geteuid().as_raw();
        if !fs::metadata(&self.home).is_ok_and(|home| home.uid() == own) {
            return Ok(vec![]);
        }
        let change = |(path, entry): (&String, &Entry)| {
            let more = settings::is_limit(path).then_some(0);
            let counts = entry.users.iter().any(|known| known == user);
            counts.then(|| HostChange::Sysctl { path: path.clone(), old: entry.old.clone(), more })
        };
        self.locked(user, |_, entries| Ok(entries.iter().filter_map(change).collect()))
    }

    /// Runs `work` on the entries for the lab in `user`, under the machine-wide lock, after sysctls without users were
    /// restored.
    fn locked<T>(
        &self,
        user: &Path,
        work: impl FnOnce(&Locked, &mut Entries) -> Result<T>,
    ) -> Result<T> {
        let locked = self.lock()?;
        let (mut entries, before) = match whole_file::read_json(&locked.home, &self.file) {
            Ok(read) => (Entries::clone(read.as_ref().unwrap_or(&Entries::new())), read),
            Err(e) => {
                let told = netloom_sys::describe(&e);
                netloom_sys::journal::line(format_args!("netloom: {told}; labs are counted again"));
                (counted_again(user), None)
            }
        };
        for (path, entry) in &mut entries {
            let users = entry.users.len();
            entry.users.retain(|user| needs(user, path).is_some());
            if entry.users.is_empty() {
                self.set(path, &entry.old)?;
            } else if let Some(raised) = entry.raised(path).filter(|_| users > entry.users.len()) {
                self.set(path, &raised)?;
            }
        }
        entries.retain(|_, entry| !entry.users.is_empty());
        if entries != before.unwrap_or_default() {
            self.write(&locked, &entries)?;
        }
        let outcome = work(&locked, &mut entries);
        // Claims of processes that were killed.
        self.claims(&locked)?;
        self.leave_home();
        outcome
    }

    pub(super) fn lock(&self) -> Result<Locked> {
        let failed = Error::in_runtime(&self.home);
        loop {
            // Another process may remove the folder between these calls.
            let (home, _) = match TrustedDir::make(&self.home) {
                Err(e) if is_missing(&e) => continue,
                made => made.map_err(&failed)?,
            };
            let lock = match home.readable() {
                Err(e) if is_missing(&e) => continue,
                opened => opened.map_err(&failed)?,
            };
            rustix::fs::flock(&lock, FlockOperation::LockExclusive)
                .map_err(Error::at(&self.home, "lock"))?;
            // A lock on a removed folder keeps nobody out of its successor.
            let (held, there) = (rustix::fs::fstat(&lock), rustix::fs::stat(&self.home));
            if let (Ok(held), Ok(there)) = (held, there)
                && identity(&held) == identity(&there)
            {
                return Ok(Locked { home, _lock: lock });
            }
        }
    }

    /// Writes the entries; the file is removed with its last entry.
    fn write(&self, locked: &Locked, entries: &Entries) -> Result<()> {
        if !entries.is_empty() {
            return whole_file::write_json(&locked.home, &self.file, entries);
        }
        locked.home.remove_file(&self.file).map(drop).map_err(Error::in_runtime(&self.home))
    }

    /// The value of a sysctl; `None` if the kernel has none of that name.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.settings.join(path)).ok().map(|text| text.trim().to_owned())
    }

    /// Sets a sysctl, if it is one that labs set, whatever a file says.
    fn set(&self, path: &str, value: &str) -> Result<()> {
        // Files might be changed by others, and this runs as root.
        if !settings::are_ours(path) {
            let reason = "it is not a setting that labs set, and is left alone".to_owned();
            return Err(Error::Invalid { object: format!("sysctl {path:?}").into(), reason });
        }
        // Writing some sysctls again would reset others.
        if self.read(path).as_deref() == Some(value) {
            return Ok(());
        }
        let full = self.settings.join(path);
        match fs::write(&full, value) {
            // It was removed with its interface.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            outcome => outcome.map_err(Error::at(full, "set sysctl")),
        }
    }
}

/// Whether the list of the lab in this folder has a sysctl, and by how much it raises a limit.
fn needs(user: &Path, path: &str) -> Option<u32> {
    let (runtime, name) = (user.parent()?, user.file_name()?.to_str()?);
    let changes = match Folder::new(runtime, name).read_host_changes() {
        // Whether it needs the sysctl nobody can tell: it counts until it is taken down.
        Err(Error::Unreadable { .. }) => return Some(0),
        read => read.unwrap_or_default(),
    };
    changes.iter().find_map(|change| match change {
        HostChange::Sysctl { path: known, more, .. } if known == path => Some(more.unwrap_or(0)),
        _ => None,
    })
}

/// The count by the lists of the labs that are where the one in `user` is, and where root's are.
fn counted_again(user: &Path) -> Entries {
    let runtimes: BTreeSet<&Path> = user.parent().into_iter().chain([Path::new(LABS)]).collect();
    let folders = runtimes.into_iter().flat_map(|runtime| Folder::all(runtime).unwrap_or_default());
    let mut entries = Entries::new();
    for folder in folders {
        for change in folder.read_host_changes().unwrap_or_default() {
            if let HostChange::Sysctl { path, old, .. } = change {
                let entry = entries.entry(path).or_insert(Entry { old, users: vec![] });
                entry.users.push(folder.path());
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "net/ipv4/ip_forward";

    /// A machine of the test's own: sysctls, labs, and the folder of counts.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Machine {
            let machine = Machine(tempfile::tempdir().unwrap());
            fs::create_dir_all(machine.0.path().join("sys/net/ipv4")).unwrap();
            fs::write(machine.0.path().join("sys").join(PATH), "0").unwrap();
            machine
        }

        fn ledger(&self) -> Ledger {
            Ledger::at(&self.0.path().join("host"), &self.0.path().join("sys"), 7)
        }

        fn value(&self) -> String {
            self.ledger().read(PATH).unwrap()
        }

        /// A lab in a runtime directory of its own, which has recorded what it will do.
        fn lab(&self, runtime: &str) -> PathBuf {
            let runtime = self.0.path().join(runtime);
            let folder = Folder::new(&runtime, "lab");
            folder.create().unwrap();
            let change =
                HostChange::Sysctl { path: PATH.to_owned(), old: "0".to_owned(), more: None };
            folder.write_host_changes(&[change]).unwrap();
            folder.path()
        }
    }

    #[test]
    fn the_last_one_out_restores_whatever_its_runtime_directory() {
        let machine = Machine::new();
        let (a, b, ledger) = (machine.lab("a"), machine.lab("b"), machine.ledger());
        ledger.take(PATH, "1", &a).unwrap();
        ledger.take(PATH, "1", &b).unwrap();
        ledger.take(PATH, "1", &b).unwrap();
        assert_eq!(ledger.before(PATH, &a).unwrap().as_deref(), Some("0"));
        ledger.release(PATH, "0", &a).unwrap();
        assert_eq!(machine.value(), "1");
        ledger.release(PATH, "1", &b).unwrap();
        assert_eq!(machine.value(), "0");
        assert!(!machine.0.path().join("host").exists(), "nothing is left");
    }

    #[test]
    fn who_was_removed_without_a_word_does_not_count() {
        let machine = Machine::new();
        let (gone, ledger) = (machine.lab("gone"), machine.ledger());
        ledger.take(PATH, "1", &gone).unwrap();
        fs::remove_dir_all(&gone).unwrap();
        assert_eq!(ledger.before(PATH, &gone).unwrap(), None);
        assert_eq!(machine.value(), "0");
        // The next one is the first again.
        let next = machine.lab("next");
        ledger.take(PATH, "1", &next).unwrap();
        ledger.release(PATH, "0", &next).unwrap();
        assert_eq!(machine.value(), "0");
    }

    #[test]
    fn what_a_killed_process_had_begun_is_finished_by_the_next() {
        let machine = Machine::new();
        let (lab, ledger) = (machine.lab("a"), machine.ledger());
        // Killed before anything was counted: the value that it found is restored.
        fs::write(machine.0.path().join("sys").join(PATH), "1").unwrap();
        ledger.release(PATH, "0", &lab).unwrap();
        assert_eq!(machine.value(), "0");
        // Killed after it was counted, and before the sysctl was set.
        ledger.take(PATH, "1", &lab).unwrap();
        fs::write(machine.0.path().join("sys").join(PATH), "0").unwrap();
        ledger.take(PATH, "1", &lab).unwrap();
        assert_eq!(machine.value(), "1");
        // A release may be repeated.
        ledger.release(PATH, "0", &lab).unwrap();
        ledger.release(PATH, "0", &lab).unwrap();
        assert_eq!(machine.value(), "0");
    }

    #[test]
    fn a_limit_is_raised_by_what_all_its_users_need() {
        let (machine, path) = (Machine::new(), settings::NEIGHBOURS[0][1]);
        let (file, ledger) = (machine.0.path().join("sys").join(path), machine.ledger());
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "1024").unwrap();
        let lab = |name: &str, more: u32| {
            let user = machine.lab(name);
            let folder = Folder::new(user.parent().unwrap(), "lab");
            let change = HostChange::Sysctl {
                path: path.to_owned(),
                old: "1024".to_owned(),
                more: Some(more),
            };
            assert!(change.is_ours());
            folder.write_host_changes(&[change]).unwrap();
            ledger.raise(path, &user).unwrap();
            user
        };
        let value = || ledger.read(path).unwrap();
        let (a, b) = (lab("a", 1560), lab("b", 40));
        assert_eq!(value(), "2624");
        ledger.release(path, "1024", &a).unwrap();
        assert_eq!(value(), "1064");
        // One that goes without a release no longer counts with the next look.
        let c = lab("c", u32::MAX);
        assert_eq!(value(), i32::MAX.to_string());
        fs::remove_dir_all(&c).unwrap();
        ledger.before(path, &c).unwrap();
        assert_eq!(value(), "1064");
        ledger.release(path, "1024", &b).unwrap();
        assert_eq!(value(), "1024");
    }

    #[test]
    fn many_at_once_leave_what_was() {
        let machine = Machine::new();
        let labs: Vec<PathBuf> = (0..8).map(|n| machine.lab(&n.to_string())).collect();
        let start = std::sync::Barrier::new(labs.len());
        std::thread::scope(|scope| {
            for lab in &labs {
                scope.spawn(|| {
                    let ledger = machine.ledger();
                    start.wait();
                    for _ in 0..20 {
                        ledger.take(PATH, "1", lab).unwrap();
                        assert_eq!(machine.value(), "1");
                        ledger.release(PATH, "0", lab).unwrap();
                    }
                });
            }
        });
        assert_eq!(machine.value(), "0");
        assert!(!machine.0.path().join("host").exists());
    }
}
