//! `receive-apart INTERFACE CORE`: has a kernel thread of its own receive what comes in at an interface of this
//! network namespace (threaded NAPI), on one core; prints `{"threads"}`.
//!
//! Without it, a veth's receive work runs on the sender's core, so that a slow receiver slows the sender.

use anyhow::{Context, Result, bail};
use netloom_netlink::charge;
use netloom_netlink::offload::Offloads;
use rustix::thread::Pid;
use serde::Serialize;

/// The kernel threads that receive.
#[derive(Debug, Serialize)]
pub(super) struct Threads {
    threads: Vec<i32>,
}

pub(super) fn apart(interface: &str, core: usize) -> Result<Threads> {
    // A veth end queues what it receives only where it merges; datagrams stay as they are.
    let set = Offloads::open()?.set(interface, &[("rx-gro", true)]);
    set.with_context(|| format!("have {interface} queue what it receives"))?;
    charge::set_threaded(interface, true)?;
    let threads = charge::threads(interface)?;
    if threads.is_empty() {
        bail!("peer: {interface}: no thread receives for it");
    }
    for thread in &threads {
        super::pin(Pid::from_raw(*thread), core)
            .with_context(|| format!("keep the thread that receives for {interface} to a core"))?;
    }
    Ok(Threads { threads })
}
