//! Processes in the network namespaces of nodes that do not end with the nodes: each keeps one until it ends itself.
//!
//! They are noted while the inits live, so that a namespace's number means it, and named when all that is the lab's has
//! ended and they are still there. Found by `/proc/PID/ns` (namespaces(7)): those of other users are seen by root alone;
//! a namespace that is held by a mount, a descriptor or a single thread is not seen.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use crate::stage::inits::Init;
use crate::{Error, Result};

/// How long somebody else's process may take to go that was about to.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long one of this program's may: it stands between a caller and a node, or was to become an init, and is
/// no stranger.
const OWN_PATIENCE: Duration = Duration::from_secs(30);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Processes that were seen in nodes' network namespaces and in none of the nodes' PID namespaces.
pub(crate) struct Strangers(Vec<Stranger>);

struct Stranger {
    pid: i32,
    /// When it started, in clock ticks after boot: with its number its identity.
    start: u64,
    name: String,
    network: u64,
}

impl Strangers {
    /// Those that are with these inits, which live.
    pub(crate) fn with(inits: &[Init]) -> Strangers {
        let all = |kind: &str| -> BTreeSet<u64> {
            let pids = inits.iter().map(|init| init.pid.as_raw_nonzero().get());
            pids.filter_map(|pid| namespace(pid, kind)).collect()
        };
        let networks = all("net");
        if networks.is_empty() {
            return Strangers(vec![]);
        }
        let nodes = all("pid");
        let is_stranger = |pid: i32| -> Option<Stranger> {
            let network = namespace(pid, "net").filter(|ns| networks.contains(ns))?;
            namespace(pid, "pid").filter(|ns| !nodes.contains(ns))?;
            let (name, start) = identity(pid)?;
            Some(Stranger { pid, start, name, network })
        };
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
        Strangers(pids.filter_map(is_stranger).collect())
    }

    /// Waits a moment until all have gone; to be called when all that was the lab's has ended.
    ///
    /// # Errors
    /// One stays: who, by number and name.
    pub(crate) fn wait_gone(&self) -> Result<()> {
        let since = Instant::now();
        for stranger in &self.0 {
            while stranger.is_there() {
                if since.elapsed() >= stranger.patience() {
                    let Stranger { pid, name, .. } = stranger;
                    return Err(Error::Visited { pid: *pid, name: name.clone() });
                }
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }
}

impl Stranger {
    fn is_there(&self) -> bool {
        let same = identity(self.pid).is_some_and(|(_, start)| start == self.start);
        same && namespace(self.pid, "net") == Some(self.network)
    }

    fn patience(&self) -> Duration {
        let own = self.name == "netloom" || self.name.starts_with("netloom-");
        if own { OWN_PATIENCE } else { PATIENCE }
    }
}

/// What a process's namespace of this kind is; `None` for one that has ended, or may not be asked.
fn namespace(pid: i32, kind: &str) -> Option<u64> {
    Some(std::fs::metadata(format!("/proc/{pid}/ns/{kind}")).ok()?.ino())
}

/// A process's name and when it started (proc_pid_stat(5)).
fn identity(pid: i32) -> Option<(String, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, tail) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    Some((name, tail.split_whitespace().nth(19)?.parse().ok()?))
}
