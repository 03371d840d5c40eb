//! Who answers: echo requests to a few addresses, again and again, for as long as somebody wants to know.
//!
//! The kernel of the other side answers, so what is known is whether that can be reached, not whether any program runs
//! there. A machine that is busy answers all the same. Rounds are counted, not time: a pause of this process is nobody's silence.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use netloom_sys::{Failure, process};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};

use super::packet::{self, Mark, Probe};
use super::{Prober, Version, open_sockets};
use crate::Result;
use crate::error::failed;

/// Addresses that are asked in rounds, and how many rounds each has been silent for.
#[derive(Debug)]
pub struct Presence {
    socket: OwnedFd,
    mark: Mark,
    version: Version,
    peers: Vec<IpAddr>,
    silent: Vec<u32>,
}

impl Presence {
    /// Prepares to ask these addresses, of the version of the prober's own, from its namespace. `None` if it has no address.
    ///
    /// # Errors
    /// The namespace cannot be entered or the socket cannot be created.
    pub fn open(
        from: &Prober<'_>,
        version: Version,
        peers: Vec<IpAddr>,
    ) -> Result<Option<Presence>> {
        let sockets = open_sockets(std::slice::from_ref(from), version)?;
        let Some(socket) = sockets.into_iter().flatten().next() else { return Ok(None) };
        let refused = |e| failed(from.name, "ask")(Failure::new("random bytes", "get", e));
        let (mark, silent) = (Mark::random().map_err(refused)?, vec![0; peers.len()]);
        Ok(Some(Presence { socket, mark, version, peers, silent }))
    }

    /// Asks all and takes answers for as long as a round is to be, or until `end` is readable.
    pub fn round(&mut self, length: Duration, end: BorrowedFd<'_>) {
        let start = Instant::now();
        for (target, peer) in (0..).zip(&self.peers) {
            let bytes =
                packet::request(self.version, self.mark, &Probe { source: 0, target, sent_us: 0 });
            // What cannot be sent is not answered.
            let _ = sendto(&self.socket, &bytes, SendFlags::empty(), &SocketAddr::new(*peer, 0));
        }
        self.silent.iter_mut().for_each(|rounds| *rounds = rounds.saturating_add(1));
        loop {
            self.read();
            let left = length.saturating_sub(start.elapsed());
            if left.is_zero() || process::wait_readable(end, Duration::ZERO) {
                return;
            }
            let mut fds =
                [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&end, PollFlags::IN)];
            // Interrupted, it only looks earlier.
            let _ = poll(&mut fds, Timespec::try_from(left).ok().as_ref());
        }
    }

    /// For how many rounds a peer, by its place, has not answered.
    pub fn silent(&self, peer: usize) -> u32 {
        self.silent.get(peer).copied().unwrap_or(u32::MAX)
    }

    fn read(&mut self) {
        let mut buffer = [0; 256];
        loop {
            match recvfrom(&self.socket, &mut buffer, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                Ok((_, length, from)) => {
                    let from = from.and_then(|a| SocketAddr::try_from(a).ok()).map(|a| a.ip());
                    let probe = buffer.get(..length);
                    let probe = probe.and_then(|b| packet::read_reply(self.version, self.mark, b));
                    let peer = probe.and_then(|probe| usize::try_from(probe.target).ok());
                    let Some(peer) = peer.filter(|at| self.peers.get(*at).copied() == from) else {
                        continue;
                    };
                    self.silent[peer] = 0;
                }
                Err(Errno::AGAIN) => return,
                // ICMP errors for undelivered requests.
                Err(_) => {}
            }
        }
    }
}
