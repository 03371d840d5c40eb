//! Waits until the kernel shows the states of links.
//!
//! A link has its carrier as soon as both ends are up. What it reports (`operstate`), and whether it has its queueing
//! discipline, a work queue of the kernel (linkwatch, net/core/link_watch.c) changes later. Who looks in between sees a link
//! that is down, and frames are dropped without a word to the sender.

use std::time::{Duration, Instant};

use crate::error::Result;
use crate::query::{LinkInfo, Operational};
use crate::socket::Socket;

/// Pause between looks, where asking for a link does not bring its state up to date.
const LOOK: Duration = Duration::from_millis(1);

impl Socket {
    /// Waits until all links of the namespace that have a carrier are shown so; at most until then. Returns how many are not.
    ///
    /// # Errors
    /// As [`Socket::links`].
    pub fn await_link_states(&mut self, until: Instant) -> Result<usize> {
        let mut links = self.links_alone()?;
        loop {
            links.retain(is_pending);
            if links.is_empty() || Instant::now() > until {
                return Ok(links.len());
            }
            let mut now = Vec::with_capacity(links.len());
            for link in &links {
                // Since Linux 6.8 an answer about one link comes when its state is up to date (`linkwatch_sync_dev` in
                // net/core/rtnetlink.c).
                now.extend(self.link(link.index)?);
            }
            links = now;
            if links.iter().any(is_pending) {
                std::thread::sleep(LOOK);
            }
        }
    }
}

/// Whether a link has a carrier, and is not shown so yet.
fn is_pending(link: &LinkInfo) -> bool {
    let shown = match link.operational {
        // Other drivers may never say more; a pair's first state is this, too.
        Operational::Unknown => link.kind.as_deref() != Some("veth"),
        Operational::Up | Operational::Dormant | Operational::Testing => true,
        Operational::NotPresent | Operational::Down | Operational::LowerLayerDown => false,
    };
    link.up && link.carrier && !shown
}
