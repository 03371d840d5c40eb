//! Processes in the network namespaces of nodes that are not the lab's: a namespace stays until they end.
//!
//! Found by what `/proc/PID/ns/net` is (namespaces(7)); those of other users are seen by root alone, and
//! namespaces that are held by a mount or a descriptor only are not seen here.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use crate::making::Init;
use crate::{Error, Result};

/// How long a process may take to go that was about to: one that stood between a caller and a node.
const PATIENCE: Duration = Duration::from_secs(2);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// The network namespaces of some inits.
pub(crate) struct Namespaces(BTreeSet<u64>);

impl Namespaces {
    /// Those of living inits.
    pub(crate) fn of(inits: &[Init]) -> Namespaces {
        let numbers = inits.iter().filter_map(|i| number(&i.pid.as_raw_nonzero().to_string()));
        Namespaces(numbers.collect())
    }

    /// Waits a moment until nobody is in them; to be called when all that was the lab's has ended.
    ///
    /// # Errors
    /// Somebody stays: who, by number and name.
    pub(crate) fn wait_empty(&self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let Some((pid, name)) = self.somebody() else { return Ok(()) };
            if Instant::now() >= until {
                let reason = "it is not the lab's, and is in the network namespace of a node, which stays \
                              until it ends; take the lab down again then";
                let object = format!("process {pid} ({name})");
                return Err(Error::Busy { object, reason: reason.to_owned() });
            }
            std::thread::sleep(LOOK);
        }
    }

    fn somebody(&self) -> Option<(String, String)> {
        if self.0.is_empty() {
            return None;
        }
        let entries = std::fs::read_dir("/proc").ok()?.flatten();
        let mut pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let pid = pids.find(|pid| number(pid).is_some_and(|number| self.0.contains(&number)))?;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some((pid, name.trim_end().to_owned()))
    }
}

/// What a process's network namespace is; `None` for what is no process, or not to be asked.
fn number(pid: &str) -> Option<u64> {
    if !pid.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(std::fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino())
}
