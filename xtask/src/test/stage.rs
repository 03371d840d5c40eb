//! What a user needs to run a test: readable copies of binaries and data, private folders, rights.
//!
//! If root calls, the ordinary user is `nobody` (uid and gid 65534, no other groups). That user cannot read a
//! checkout in root's home, so executables and data are copied to a temporary folder.

use std::fs::{self, Permissions};
use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::user::{Rights, User};
use crate::workspace;

/// `nobody`.
const ORDINARY: u32 = 65534;
/// Search path of an ordinary user; root's own may contain folders that this user cannot enter.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Data that tests read.
const DATA: &[&str] = &["examples", "tests", "docs", "Cargo.toml", "README.md"];

/// The temporary folder, removed when dropped.
#[derive(Debug)]
pub(super) struct Stage {
    folder: tempfile::TempDir,
    rights: Rights,
    placing: std::sync::Mutex<()>,
}

impl Stage {
    pub(super) fn new() -> Result<Stage> {
        let folder = tempfile::Builder::new().prefix("nlx-").tempdir().context("make stage")?;
        let stage = Stage { folder, rights: find_rights(), placing: std::sync::Mutex::default() };
        fs::set_permissions(stage.path(), Permissions::from_mode(0o755))?;
        for name in DATA {
            copy_tree(&workspace::root().join(name), &stage.path().join("root").join(name))?;
        }
        stage.private_folder(User::Ordinary)?;
        stage.private_folder(User::Root)?;
        Ok(stage)
    }

    /// Copies the binary to where every user can run it.
    pub(super) fn add_binary(&self, binary: &Path) -> Result<()> {
        place(binary, &self.path().join("netloom"))
    }

    /// Copies the plug-in for libvdeplug to where every user can load it.
    pub(super) fn add_plugin(&self, plugin: &Path) -> Result<()> {
        place(plugin, &self.path().join(workspace::PLUGIN))
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn rights(&self) -> Rights {
        self.rights
    }

    /// A command that runs a test executable as this user.
    pub(super) fn command(
        &self,
        file: &Path,
        user: User,
        extra: &[(&str, String)],
    ) -> Result<Command> {
        let drops = user == User::Ordinary && self.rights == Rights::Root;
        let file = if user == User::Caller { file.to_owned() } else { self.staged(file)? };
        let variables = self.variables(user, extra);
        let mut command = match user {
            User::Root if self.rights == Rights::Sudo => {
                let mut sudo = Command::new("sudo");
                sudo.arg("env").args(variables.iter().map(|(key, value)| format!("{key}={value}")));
                sudo.arg(file);
                sudo
            }
            _ => {
                let mut command = Command::new(file);
                if drops {
                    // Without explicit groups, setting uid as root clears them.
                    command.env_clear().uid(ORDINARY).gid(ORDINARY);
                    command.env("PATH", PATH).env("LANG", "C.UTF-8").env("USER", "nobody");
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
        self.home(user).join(format!("skips-{worker}"))
    }

    fn home(&self, user: User) -> PathBuf {
        self.path().join(if user == User::Root { "r" } else { "u" })
    }

    fn variables(&self, user: User, extra: &[(&str, String)]) -> Vec<(String, String)> {
        let shown = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut all = vec![
            ("NETLOOM_BIN".to_owned(), shown(self.path().join("netloom"))),
            ("NETLOOM_VDEPLUG".to_owned(), shown(self.path().join(workspace::PLUGIN))),
            ("NETLOOM_TEST_ROOT".to_owned(), shown(self.path().join("root"))),
            ("RUST_BACKTRACE".to_owned(), "1".to_owned()),
        ];
        if user != User::Caller {
            all.push(("NETLOOM_RUNTIME_DIR".to_owned(), shown(self.home(user).join("run"))));
            all.push(("TMPDIR".to_owned(), shown(self.home(user))));
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

    fn private_folder(&self, user: User) -> Result<()> {
        let home = self.home(user);
        let run = home.join("run");
        fs::create_dir_all(&run).context("make runtime directory")?;
        for dir in [&run, &home] {
            fs::set_permissions(dir, Permissions::from_mode(0o700))?;
            if user == User::Ordinary && self.rights == Rights::Root {
                std::os::unix::fs::chown(dir, Some(ORDINARY), Some(ORDINARY))?;
            }
        }
        Ok(())
    }
}

fn find_rights() -> Rights {
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
        fs::copy(from, to).with_context(|| format!("copy {}", from.display()))?;
    }
    fs::set_permissions(to, Permissions::from_mode(0o755)).context("make it executable")
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
