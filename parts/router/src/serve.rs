//! The process: waits for the kernel, the switch, and the end of either or of the router.
//!
//! How many entries wait to be confirmed it writes down where others find it ([`STATE`]).

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use netloom_netlink::{ForwardingWatch, Socket};
use netloom_sys::{Failure, journal, process};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::announce::Announcer;
use crate::mirror::{LOOK, Mirror};
use crate::{Result, Spec};

/// Datagrams taken before the switch is told, so that many changes are one.
const MOST: usize = 4096;

/// The file in the process's folder that says how far it is.
pub const STATE: &str = "followed.json";

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// Entries of an earlier process, or of a daemon that is away, that nobody has confirmed yet.
    pub unconfirmed: usize,
}

impl Followed {
    /// What the process of a folder wrote; nothing, if it has not begun.
    pub fn read(home: &Path) -> Option<Followed> {
        serde_json::from_slice(&std::fs::read(home.join(STATE)).ok()?).ok()
    }

    /// A reader finds the old state or this one.
    fn write(self, home: &Path) -> Result<()> {
        let failed = |e| Failure::path(home, "write how far its router is followed", e);
        let text = serde_json::to_vec(&self).map_err(|e| failed(e.into()))?;
        let new = home.join(format!("{STATE}.new"));
        std::fs::write(&new, text).map_err(failed)?;
        Ok(std::fs::rename(new, home.join(STATE)).map_err(failed)?)
    }
}

/// Follows the router in whose network namespace this thread is, until it ends: `router` becomes readable then.
///
/// # Errors
/// The kernel or the switch refuses something; entries stay as they are.
pub fn serve(spec: &Spec, router: &OwnedFd) -> Result<()> {
    process::set_name(crate::NAME);
    // Before everything is asked for, so that no change is missed.
    let mut watch = ForwardingWatch::open()?;
    let mut socket = Socket::open()?;
    let mut mirror = Mirror::begin(spec)?;
    mirror.settle(&mut socket, Instant::now())?;
    let mut announcer = Announcer::new(spec);
    let mut known = None;
    let mut look_at = Instant::now() + LOOK;
    loop {
        let now = Instant::now();
        let followed = Followed { unconfirmed: mirror.unconfirmed() };
        if known != Some(followed) && spec.home.exists() {
            followed.write(&spec.home)?;
            known = Some(followed);
        }
        announcer.look();
        if now >= look_at {
            // The folder goes with the lab.
            if process::has_ended(router.as_fd()) || !spec.home.exists() {
                return Ok(());
            }
            mirror.look(&mut socket, now)?;
            look_at = Instant::now() + LOOK;
        }
        let wait = look_at.saturating_duration_since(Instant::now());
        let wait = announcer.pause(now).map_or(wait, |pause| pause.min(wait));
        let timeout = Timespec::try_from(wait).unwrap_or_default();
        let (told, asked, ended) = {
            let client = mirror.client();
            let mut all = [
                PollFd::new(&watch, PollFlags::IN),
                PollFd::new(client, PollFlags::IN),
                PollFd::new(router, PollFlags::IN),
            ];
            match poll(&mut all, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(Failure::new("router", "wait", e).into()),
            }
            let is_ready = |at: usize| !all[at].revents().is_empty();
            (is_ready(0), is_ready(1), is_ready(2))
        };
        if ended {
            journal::line(format_args!("{}: its node has ended; its entries stay", spec.name));
            return Ok(());
        }
        if asked {
            mirror.drain()?;
        }
        if told {
            watch.receive(MOST, &mut |change| mirror.hear(change))?;
            mirror.settle(&mut socket, Instant::now())?;
            // The daemon that went may be one whose restart is to be announced.
            if mirror.excuses() {
                announcer.expect();
            }
        }
    }
}
