//! A machine whose ordinary user is given ids by /etc/subuid and /etc/subgid.
//!
//! Where root tests, that user is `nobody`, and each run of the binary is in a mount namespace with an /etc that gives
//! it ids; the machine's own stays as it is. An ordinary user has what the machine gives.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_kit::{Binary, Run, Scratch, assert_same, is_root, lacking, missing, program};

use crate::Machine;

/// `nobody`.
const USER: u32 = 65_534;

/// Where `make peers` unpacks servers.
const SERVICES: &str = "/usr/local/lib/netloom-peers/services";

/// Makes an /etc of its own with the ids, and becomes the user. The folder is left without a mount, because a mount
/// below a directory keeps that from being an overlay's layer.
const BECOME: &str = r#"
set -e
etc="$1/etc"; shift
mkdir -p "$etc"
mount -t tmpfs none "$etc"
cp -a /etc/. "$etc"
echo nobody:300000:65536 | tee "$etc/subuid" >"$etc/subgid"
mount --bind "$etc" /etc
umount "$etc"
[ -z "${NETLOOM_TEST_BEFORE-}" ] || eval "$NETLOOM_TEST_BEFORE"
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
"#;

/// Such a machine.
#[derive(Debug)]
pub struct Given {
    machine: Option<Machine>,
}

impl Given {
    /// A clean machine.
    ///
    /// # Errors
    /// The missing part, as the reason of a skip.
    ///
    /// # Panics
    /// When its folder cannot be given to the user.
    pub fn new() -> Result<Given, String> {
        if let Some(reason) = missing("newuidmap") {
            return Err(reason);
        }
        if is_root() {
            let scratch = Scratch::within_reach();
            for path in [scratch.path().to_owned(), scratch.runtime_dir()] {
                std::os::unix::fs::chown(path, Some(USER), Some(USER)).expect("give the folder");
            }
            return Ok(Given { machine: Some(Machine::of(scratch)) });
        }
        let machine = Machine::new();
        let found = machine.netloom(["doctor", "--json"]).finish().code(0).json();
        let all = found.as_array().expect("a list").iter();
        let row = all.clone().find(|f| f["feature"] == "users in nodes").expect("the feature");
        match row["available"].as_bool() {
            Some(true) => Ok(Given { machine: Some(machine) }),
            _ => Err(lacking("subids", &row["detail"].to_string())),
        }
    }

    fn machine(&self) -> &Machine {
        self.machine.as_ref().expect("it is there until it is down")
    }

    /// A run of the binary as the user.
    pub fn netloom<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        let scratch = self.machine().scratch();
        if !is_root() {
            return self.machine().netloom(args).bound(Duration::from_secs(120));
        }
        let words = ["-m", "sh", "-c", BECOME, "sh"].map(OsString::from);
        let own =
            [scratch.path().as_os_str(), Binary::find().path().as_os_str()].map(OsString::from);
        let args = args.into_iter().map(|arg| arg.as_ref().to_owned());
        Run::new("unshare")
            .args(words.into_iter().chain(own).chain(args))
            .env("NETLOOM_RUNTIME_DIR", scratch.runtime_dir())
            .env("HOME", scratch.path())
            .env("NETLOOM_DATA_DIR", scratch.path().join("data"))
            .dir(scratch.path())
            .bound(Duration::from_secs(120))
    }

    /// Its folder.
    pub fn scratch(&self) -> &Scratch {
        self.machine().scratch()
    }

    /// A lab file with this text, that the user can read.
    pub fn file(&self, text: &str) -> PathBuf {
        self.machine().file(text)
    }

    /// Brings up a lab of this text and asserts success.
    pub fn up(&self, text: &str) {
        let file = self.file(text);
        self.netloom(["up".as_ref(), file.as_os_str()]).finish().code(0);
    }

    /// A run in a node.
    pub fn exec(&self, node: &str, command: &[&str]) -> Run {
        self.netloom(["exec", node, "--"].iter().chain(command))
    }

    /// `node show --json`.
    pub fn node(&self, node: &str) -> serde_json::Value {
        self.netloom(["node", "show", node, "--json"]).finish().code(0).json()
    }

    /// Takes down what is up and asserts that the machine is as before.
    pub fn down(mut self) {
        self.netloom(["down", "--all"]).finish().code(0);
        let machine = self.machine.take().expect("it is down once");
        assert_same(machine.before());
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if self.machine.is_some() && std::thread::panicking() {
            let mut left = self.netloom(["down", "--all"]).spawn();
            drop(left.wait());
        }
    }
}

/// A server that `make peers` unpacked, else one that is installed.
pub fn server(name: &str) -> Option<PathBuf> {
    let unpacked = Path::new(SERVICES).join("usr/sbin").join(name);
    if unpacked.exists() { Some(unpacked) } else { program(name) }
}

/// The environment with the libraries of unpacked servers, in flow style.
///
/// # Panics
/// When the folder of libraries cannot be read.
pub fn libraries() -> String {
    let usr = Path::new(SERVICES).join("usr/lib");
    let mut folders = vec![usr.clone()];
    for entry in fs::read_dir(&usr).into_iter().flatten() {
        folders.push(entry.expect("an entry").path());
    }
    let found: Vec<String> = folders
        .iter()
        .filter(|folder| folder.to_string_lossy().ends_with("-linux-gnu"))
        .map(|folder| folder.display().to_string())
        .collect();
    format!("{{LD_LIBRARY_PATH: {:?}}}", found.join(":"))
}
