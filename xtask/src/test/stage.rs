//! What a user needs to run a test: readable copies of binaries and data, private folders, rights.
//!
//! If root calls, the ordinary user is `nobody` (uid and gid 65534, no other groups). That user cannot read a
//! checkout in root's home, so executables and data are copied to a temporary folder. Root has folders of its own where an
//! ordinary user calls: netloom uses none of root's below a folder of somebody else's.

use std::fs::{self, Permissions};
use std::io::IsTerminal;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::user::{Rights, User};
use crate::workspace;

/// `nobody`.
const ORDINARY: u32 = 65534;
/// Search path of an ordinary user; root's own may contain folders that this user cannot enter. For others it comes before the
/// caller's: the distribution's programs are those that tests are about, and wrappers of version managers take their time.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The search path of every user's tests instead, where somebody hides programs from them (scripts/bare.sh).
const HIDING: &str = "NETLOOM_TEST_PATH";
/// Data that tests read.
const DATA: &[&str] = &[
    "examples",
    "tests",
    "docs",
    "python",
    "Cargo.toml",
    "README.md",
    "CONTRIBUTING.md",
    "SPECIFICATION.md",
    // Where `make browser` has put it.
    "target/web/node_modules/axe-core/axe.min.js",
];

/// Variables by which the caller chooses what tests do: seeds and counts. Every user's tests get them.
const CHOICES: [&str; 5] = [
    "NETLOOM_APPLY_SEED",
    "NETLOOM_APPLY_COUNT",
    "NETLOOM_CAPTURE_SEED",
    "NETLOOM_SEED",
    workspace::PROPERTIES_SEED,
];

/// How names of temporary folders begin.
const PREFIX: &str = "nlx-";
/// In such a folder: the file that its run holds a lock on, and where root's folder is, where the caller is not root.
const LOCK: &str = "lock";
const OF_ROOT: &str = "of-root";

/// The temporary folder, removed when dropped.
#[derive(Debug)]
pub(crate) struct Stage {
    folder: tempfile::TempDir,
    /// Its lock, which the kernel frees when this process is killed.
    _held: fs::File,
    /// Root's folder, where the caller is not root.
    of_root: Option<PathBuf>,
    rights: Rights,
    placing: std::sync::Mutex<()>,
}

impl Stage {
    pub(crate) fn new() -> Result<Stage> {
        let (folder, held) = new_folder()?;
        let rights = find_rights();
        let of_root = (rights == Rights::Sudo).then(folder_of_root).transpose()?;
        if let Some(of_root) = &of_root {
            fs::write(folder.path().join(OF_ROOT), of_root.as_os_str().as_encoded_bytes())?;
        }
        let placing = std::sync::Mutex::default();
        let stage = Stage { folder, _held: held, of_root, rights, placing };
        // tempfile makes it 0700, and other users run what is in it.
        fs::set_permissions(stage.path(), Permissions::from_mode(0o755))?;
        for name in DATA {
            copy_tree(&workspace::root().join(name), &stage.path().join("root").join(name))?;
        }
        let root = (rights != Rights::NoRoot).then_some(User::Root);
        for user in [User::Ordinary].into_iter().chain(root) {
            stage.private_folder(user, &stage.home(user))?;
            stage.private_folder(user, &stage.home(user).join("run"))?;
        }
        for (left, _held) in abandoned(&std::env::temp_dir()) {
            stage.clear(&left);
        }
        Ok(stage)
    }

    /// Takes down the labs in a folder that a killed run has left, and removes it.
    fn clear(&self, left: &Path) {
        println!("a run that was killed has left {}", left.display());
        let of_root = fs::read_to_string(left.join(OF_ROOT)).ok().map(PathBuf::from);
        // Only what a run makes: this is removed by root.
        let of_root = of_root.filter(|folder| {
            folder.parent() == Some(Path::new("/tmp"))
                && folder.file_name().is_some_and(|n| n.to_string_lossy().starts_with("nlr-"))
        });
        let (u, r) = (left.join("u"), of_root.clone().unwrap_or_else(|| left.join("r")));
        for (user, home) in [(User::Ordinary, u), (User::Root, r)] {
            let workers = fs::read_dir(home).into_iter().flatten().flatten();
            for folder in workers.flat_map(|worker| labs_left(&worker.path()).unwrap_or_default()) {
                let runtime = folder.join("run").to_string_lossy().into_owned();
                let extra = [("NETLOOM_RUNTIME_DIR", runtime)];
                // The binary of that run: another version may not know its labs.
                if let Ok(mut down) = self.run(&left.join("netloom"), user, 0, &extra) {
                    let _ = down.args(["down", "--all"]).status();
                }
            }
        }
        of_root.iter().for_each(|folder| remove_as_root(folder));
        let _ = fs::remove_dir_all(left);
    }

    /// Copies a binary to where every user can run it. A linker writes page by page, and so the file lies in memory; what is
    /// copied lies there in larger pieces, of which each fault maps more: a start, of thousands, takes a sixth less.
    pub(crate) fn add_binary(&self, binary: &Path) -> Result<()> {
        copy(binary, &self.path().join(binary.file_name().context("a binary without a name")?))
    }

    /// Copies the plug-in for libvdeplug to where every user can load it.
    pub(super) fn add_plugin(&self, plugin: &Path) -> Result<()> {
        place(plugin, &self.path().join(workspace::PLUGIN))
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Bytes that are free where tests put their files.
    pub(super) fn free(&self) -> Result<u64> {
        let found = rustix::fs::statvfs(self.path())
            .with_context(|| format!("ask for the room in {}", self.path().display()))?;
        Ok(found.f_bavail * found.f_frsize)
    }

    pub(crate) fn rights(&self) -> Rights {
        self.rights
    }

    /// A command that runs a test executable as this user, with the temporary folder of this worker.
    pub(crate) fn command(
        &self,
        file: &Path,
        user: User,
        worker: usize,
        extra: &[(&str, String)],
    ) -> Result<Command> {
        let file = if user == User::Caller { file.to_owned() } else { self.staged(file)? };
        self.run(&file, user, worker, extra)
    }

    /// A command that asks, as this user, which of its arguments is missing.
    pub(super) fn needs(&self, user: User) -> Result<Command> {
        let mut command = self.run(Path::new("/bin/sh"), user, 0, &[])?;
        command.arg(self.path().join("root/tests/needs.sh"));
        Ok(command)
    }

    /// A command that runs a program, which this user can, in that user's surroundings.
    fn run(
        &self,
        file: &Path,
        user: User,
        worker: usize,
        extra: &[(&str, String)],
    ) -> Result<Command> {
        if user != User::Caller {
            self.private_folder(user, &self.scratch(user, worker))?;
        }
        let drops = user == User::Ordinary && self.rights == Rights::Root;
        let variables = self.variables(user, worker, extra);
        let mut command = match user {
            User::Root if self.rights == Rights::Sudo => {
                let mut sudo = Command::new("sudo");
                // sudo does not pass on the caller's variables (sudoers(5), env_reset).
                sudo.arg("env").args(variables.iter().map(|(key, value)| format!("{key}={value}")));
                sudo.arg(file);
                sudo
            }
            _ => {
                let mut command = Command::new(file);
                if drops {
                    // Without explicit groups, setting uid as root clears them.
                    command.env_clear().uid(ORDINARY).gid(ORDINARY);
                    command
                        .env("PATH", search_path(false))
                        .env("LANG", "C.UTF-8")
                        .env("USER", "nobody");
                    command.env("HOME", self.home(user));
                }
                command.envs(variables);
                command
            }
        };
        command.current_dir(self.home(user)).stdin(Stdio::null());
        Ok(command)
    }

    /// Skip log of a worker's tests for this user.
    pub(super) fn skip_log(&self, user: User, worker: usize) -> PathBuf {
        match user {
            // The caller removes it, and may not in root's folder.
            User::Root => self.path().join(format!("skips-r-{worker}")),
            _ => self.home(user).join(format!("skips-{worker}")),
        }
    }

    /// Takes down the labs that tests of a worker have left, when their process was killed, with their folders.
    pub(super) fn take_down(&self, user: User, worker: usize) -> Result<()> {
        for folder in labs_left(&self.scratch(user, worker))? {
            let runtime = folder.join("run").to_string_lossy().into_owned();
            let binary = self.path().join("netloom");
            let mut down =
                self.command(&binary, user, worker, &[("NETLOOM_RUNTIME_DIR", runtime)])?;
            let status = down.args(["down", "--all"]).status().context("start netloom down")?;
            println!("took down what is left in {} ({status})", folder.display());
            // What only root may remove goes with the stage.
            let _ = fs::remove_dir_all(&folder);
        }
        Ok(())
    }

    /// A runtime directory for labs of this user, which a later run takes down if this one is killed.
    pub(crate) fn runtime(&self, user: User, worker: usize) -> Result<PathBuf> {
        let folder = self.scratch(user, worker).join("netloom-test-labs");
        for folder in [&self.scratch(user, worker), &folder, &folder.join("run")] {
            self.private_folder(user, folder)?;
        }
        Ok(folder.join("run"))
    }

    /// Where the tests of a worker put their folders. A short name: sockets lie below it.
    fn scratch(&self, user: User, worker: usize) -> PathBuf {
        self.home(user).join(worker.to_string())
    }

    fn home(&self, user: User) -> PathBuf {
        match (user, &self.of_root) {
            (User::Root, Some(folder)) => folder.clone(),
            (User::Root, None) => self.path().join("r"),
            _ => self.path().join("u"),
        }
    }

    fn variables(
        &self,
        user: User,
        worker: usize,
        extra: &[(&str, String)],
    ) -> Vec<(String, String)> {
        let shown = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut all = vec![
            ("NETLOOM_BIN".to_owned(), shown(self.path().join("netloom"))),
            ("NETLOOM_VDEPLUG".to_owned(), shown(self.path().join(workspace::PLUGIN))),
            ("NETLOOM_TEST_ROOT".to_owned(), shown(self.path().join("root"))),
            ("RUST_BACKTRACE".to_owned(), "1".to_owned()),
        ];
        if user != User::Ordinary || self.rights != Rights::Root {
            all.push(("PATH".to_owned(), search_path(true)));
        }
        let chosen = |key: &&str| Some(((*key).to_owned(), std::env::var(key).ok()?));
        all.extend(CHOICES.iter().filter_map(chosen));
        if user != User::Caller {
            all.push(("NETLOOM_RUNTIME_DIR".to_owned(), shown(self.home(user).join("run"))));
            all.push(("TMPDIR".to_owned(), shown(self.scratch(user, worker))));
            all.push(("NETLOOM_TEST_MADE".to_owned(), shown(self.home(user).join("made"))));
        }
        all.extend(extra.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        all
    }

    /// The copy of an executable, runnable by everybody.
    fn staged(&self, file: &Path) -> Result<PathBuf> {
        let name = file.file_name().context("executable without a name")?;
        let copy = self.path().join(name);
        // Two workers may race here, and a copy onto a link to the same file would empty it.
        let _one = self.placing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !copy.exists() {
            place(file, &copy)?;
        }
        Ok(copy)
    }

    fn private_folder(&self, user: User, folder: &Path) -> Result<()> {
        if user == User::Root && self.rights == Rights::Sudo {
            // The caller looks for what tests have left in it.
            let mut sudo = Command::new("sudo");
            sudo.args(["install", "--directory", "--mode=0755"]).arg(folder);
            return succeed(sudo);
        }
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        if user == User::Ordinary && self.rights == Rights::Root {
            std::os::unix::fs::chown(folder, Some(ORDINARY), Some(ORDINARY))?;
        }
        Ok(())
    }
}

/// Where tests find programs; also where the caller does, if its folders are theirs.
fn search_path(own: bool) -> String {
    let own = own.then(|| std::env::var("PATH").unwrap_or_default());
    path_of(std::env::var(HIDING).ok(), own.as_deref())
}

fn path_of(hiding: Option<String>, own: Option<&str>) -> String {
    let whole = || [PATH, own.unwrap_or_default()].join(":").trim_end_matches(':').to_owned();
    hiding.unwrap_or_else(whole)
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.of_root.iter().for_each(|folder| remove_as_root(folder));
    }
}

fn remove_as_root(folder: &Path) {
    let mut sudo = Command::new("sudo");
    // A mount that a test has left may lead to the host's own files.
    sudo.args(["rm", "--recursive", "--force", "--one-file-system"]).arg(folder);
    // What is left lies in /tmp.
    let _ = succeed(sudo);
}

/// A new temporary folder, and its lock.
fn new_folder() -> Result<(tempfile::TempDir, fs::File)> {
    loop {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir().context("make stage")?;
        // Another run may take it for abandoned before the lock is held.
        let made = fs::File::create_new(folder.path().join(LOCK));
        made.context("make the lock of the stage")?;
        if let Some(held) = hold(folder.path()) {
            return Ok((folder, held));
        }
    }
}

/// Takes a folder's lock, unless somebody else has it or the folder is gone.
fn hold(folder: &Path) -> Option<fs::File> {
    let path = folder.join(LOCK);
    let held = fs::File::open(&path).ok()?;
    rustix::fs::flock(&held, rustix::fs::FlockOperation::NonBlockingLockExclusive).ok()?;
    // A run that ended meanwhile has removed the file: a lock on what has no name keeps nobody out.
    let (own, there) = (held.metadata().ok()?, fs::symlink_metadata(path).ok()?);
    ((own.dev(), own.ino()) == (there.dev(), there.ino())).then_some(held)
}

/// The folders of runs that were killed, each with its lock.
fn abandoned(temporary: &Path) -> Vec<(PathBuf, fs::File)> {
    let own = rustix::process::geteuid().as_raw();
    let is_ours = |path: &Path| {
        let name = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(PREFIX));
        // Everybody can make folders with this name in /tmp, or links.
        name && fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == own)
    };
    let all = fs::read_dir(temporary).into_iter().flatten().flatten().map(|entry| entry.path());
    all.filter(|path| is_ours(path)).filter_map(|path| Some((path.clone(), hold(&path)?))).collect()
}

/// Makes a folder of root's that others may enter.
fn folder_of_root() -> Result<PathBuf> {
    let mut sudo = Command::new("sudo");
    let made = sudo.args(["mktemp", "--directory", "/tmp/nlr-XXXXXX"]).output();
    let made = made.context("make root's folder")?;
    let path = PathBuf::from(String::from_utf8(made.stdout)?.trim_end());
    anyhow::ensure!(
        made.status.success() && path.is_absolute(),
        "make root's folder: mktemp failed"
    );
    let mut sudo = Command::new("sudo");
    sudo.args(["chmod", "0755"]).arg(&path);
    succeed(sudo).map(|()| path)
}

fn succeed(mut command: Command) -> Result<()> {
    let status = command.status().context("start sudo")?;
    anyhow::ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// The folders of tests (`netloom_kit::Scratch`) that are left in a temporary folder.
fn labs_left(scratch: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    for entry in fs::read_dir(scratch).with_context(|| format!("list {}", scratch.display()))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("netloom-test-") {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// How the caller becomes root; it may ask.
pub(super) fn find_rights() -> Rights {
    if rustix::process::geteuid().is_root() {
        return Rights::Root;
    }
    let quiet = Command::new("sudo").args(["-n", "true"]).stderr(Stdio::null()).status();
    if quiet.is_ok_and(|status| status.success()) {
        return Rights::Sudo;
    }
    if std::io::stdin().is_terminal() {
        println!("some tests run as root: sudo may ask for your password (refuse to go without)");
        let asked = Command::new("sudo").args(["-v"]).status();
        if asked.is_ok_and(|status| status.success()) {
            return Rights::Sudo;
        }
    }
    println!("no root here: tests run as an ordinary user only");
    Rights::NoRoot
}

/// Links, or copies across file systems, and makes it readable and executable for all. The target does not
/// exist yet.
fn place(from: &Path, to: &Path) -> Result<()> {
    if fs::hard_link(from, to).is_err() {
        return copy(from, to);
    }
    make_executable(to)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("copy {}", from.display()))?;
    make_executable(to)
}

fn make_executable(file: &Path) -> Result<()> {
    fs::set_permissions(file, Permissions::from_mode(0o755)).context("make it executable")
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy_tree(&entry.path(), &to.join(entry.file_name()))?;
        }
    } else if from.is_file() {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(from, to).with_context(|| format!("copy {}", from.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_somebody_hides_are_hidden_from_every_user() {
        for own in [Some("/own"), None] {
            assert_eq!(path_of(Some("/only".to_owned()), own), "/only");
        }
        assert_eq!(path_of(None, Some("/own")), format!("{PATH}:/own"));
        assert_eq!(path_of(None, Some("")), PATH);
        assert_eq!(path_of(None, None), PATH);
    }

    #[test]
    fn folders_that_a_killed_test_has_left_are_found() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["netloom-test-a", "other", "netloom-test-b"] {
            fs::create_dir(scratch.path().join(name)).unwrap();
        }
        let mut found = labs_left(scratch.path()).unwrap();
        found.sort();
        assert_eq!(found, ["netloom-test-a", "netloom-test-b"].map(|n| scratch.path().join(n)));
        assert!(labs_left(&scratch.path().join("none")).is_err());
    }

    #[test]
    fn the_folder_of_a_killed_run_is_abandoned_and_that_of_a_running_one_is_not() {
        let temporary = tempfile::tempdir().unwrap();
        let path = |name: &str| temporary.path().join(name);
        for name in ["nlx-killed", "nlx-running", "other"] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join(LOCK), "").unwrap();
        }
        // Of no run, or of one that has made nothing yet.
        fs::create_dir(path("nlx-new")).unwrap();
        fs::write(path("nlx-file"), "").unwrap();
        std::os::unix::fs::symlink("other", path("nlx-link")).unwrap();
        let running = hold(&path("nlx-running")).unwrap();
        let found = abandoned(temporary.path());
        let paths: Vec<&PathBuf> = found.iter().map(|(path, _)| path).collect();
        assert_eq!(paths, [&path("nlx-killed")]);
        // Two runs do not remove the same one.
        assert!(abandoned(temporary.path()).is_empty());
        drop((found, running));
        assert_eq!(abandoned(temporary.path()).len(), 2);
    }
}
