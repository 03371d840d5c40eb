//! Foreign processes in nodes' network namespaces. They do not end with the nodes, and keep a namespace until they end.
//!
//! They are recorded while the inits live, because a namespace's inode number can be reused afterwards, and reported if
//! they outlive the lab. Found by `/proc/PID/ns` (namespaces(7)): only root sees those of other users, and a namespace
//! that a mount, a descriptor or a single thread holds is not found.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use netloom_sys::population;

use crate::stage::inits::Init;
use crate::{Error, Result};

/// Time for a foreign process to end if it was about to.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same for a process of this program, which stands between a caller and a node, or was to become an init, and
/// is not foreign.
const OWN_PATIENCE: Duration = Duration::from_secs(30);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Processes found in nodes' network namespaces, but in none of the nodes' PID namespaces.
pub(crate) struct Strangers(Vec<Stranger>);

struct Stranger {
    pid: i32,
    /// Its start in clock ticks after boot; identifies it together with its id.
    start: u64,
    name: String,
    network: u64,
}

impl Strangers {
    /// The foreign processes in the namespaces of these living inits. Where one of them is not set up, the network that
    /// it is still in is this process's.
    pub(crate) fn with(inits: &[Init]) -> Strangers {
        let of = |init: &Init, kind| namespace(init.pid.as_raw_nonzero().get(), kind);
        let apart = inits.iter().filter(|init| init.has_own_network());
        let networks: BTreeSet<u64> = apart.filter_map(|init| of(init, "net")).collect();
        if networks.is_empty() {
            return Strangers(vec![]);
        }
        let nodes: BTreeSet<u64> = inits.iter().filter_map(|init| of(init, "pid")).collect();
        let is_stranger = |pid: i32| -> Option<Stranger> {
            let network = namespace(pid, "net").filter(|ns| networks.contains(ns))?;
            namespace(pid, "pid").filter(|ns| !nodes.contains(ns))?;
            let (name, start) = identity(pid)?;
            Some(Stranger { pid, start, name, network })
        };
        Strangers(population::pids().into_iter().flatten().filter_map(is_stranger).collect())
    }

    /// Waits a moment for all of them to end. Called when everything of the lab has ended.
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

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use netloom_model::plan::NodeId;
    use netloom_sys::process;
    use rustix::process::Pid;

    use super::*;

    #[test]
    fn who_shares_the_network_of_an_unfinished_init_is_no_stranger() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("start a process");
        let pid = Pid::from_child(&child);
        let pidfd = process::pidfd(pid).expect("a descriptor of it");
        let unfinished = Init { id: NodeId::CORE, pid, pidfd };
        assert!(!unfinished.has_own_network());
        assert!(Strangers::with(&[unfinished]).0.is_empty());
        drop(child.stdin.take());
        child.wait().expect("wait for its end");
    }
}
