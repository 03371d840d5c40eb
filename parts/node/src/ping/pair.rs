//! Echo requests from one node to one address, at a steady pace, each sent once.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use netloom_sys::{Failure, process};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};

use super::packet::{self, Mark, Probe};
use super::{Prober, Version, open_sockets};
use crate::Result;
use crate::error::failed;

/// Count and timing of echo requests.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Number of requests.
    pub count: u32,
    /// Time between two requests.
    pub interval: Duration,
    /// How long to wait for an answer.
    pub timeout: Duration,
}

/// Sends echo requests from a node to an address of the same version as the node's own. Returns the
/// round-trip time of each request in microseconds, `None` if no answer came in time.
///
/// # Errors
/// The node's namespace cannot be entered or its socket cannot be created.
pub fn one_pair(
    from: &Prober<'_>,
    to: IpAddr,
    version: Version,
    pace: Pace,
) -> Result<Vec<Option<u32>>> {
    let sockets = open_sockets(std::slice::from_ref(from), version)?;
    let mut times = vec![None; usize::try_from(pace.count).unwrap_or(0)];
    let Some(socket) = sockets.into_iter().flatten().next() else { return Ok(times) };
    let refused =
        |object, operation| move |e| failed(from.name, "ping")(Failure::new(object, operation, e));
    let mark = Mark::random().map_err(refused("random bytes", "get"))?;
    let run = Run { socket, to, version, mark, start: Instant::now(), pace };
    run.all(&mut times).map_err(refused("ICMP socket", "send to"))?;
    Ok(times)
}

struct Run {
    socket: OwnedFd,
    to: IpAddr,
    version: Version,
    mark: Mark,
    start: Instant,
    pace: Pace,
}

impl Run {
    fn all(&self, times: &mut [Option<u32>]) -> std::result::Result<(), Errno> {
        for number in 0..self.pace.count {
            let due = self.pace.interval.saturating_mul(number);
            self.read_until(due, times, false);
            self.send(number)?;
        }
        self.read_until(self.start.elapsed().saturating_add(self.pace.timeout), times, true);
        Ok(())
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn send(&self, number: u32) -> std::result::Result<(), Errno> {
        let probe = Probe { source: 0, target: number, sent_us: self.now() };
        let bytes = packet::request(self.version, self.mark, &probe);
        match sendto(&self.socket, &bytes, SendFlags::empty(), &SocketAddr::new(self.to, 0)) {
            Ok(_) => Ok(()),
            Err(e) if is_loss(e) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Reads answers until `end` after the start, or until all have arrived.
    fn read_until(&self, end: Duration, times: &mut [Option<u32>], all: bool) {
        loop {
            self.read(times);
            let left = end.saturating_sub(self.start.elapsed());
            if left.is_zero() || (all && times.iter().all(Option::is_some)) {
                return;
            }
            process::wait_readable(&self.socket, left);
        }
    }

    fn read(&self, times: &mut [Option<u32>]) {
        let mut buffer = [0; 256];
        loop {
            match recvfrom(&self.socket, &mut buffer, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                Ok((_, length, from)) => {
                    let from = from.and_then(|a| SocketAddr::try_from(a).ok()).map(|a| a.ip());
                    if let (Some(bytes), true) = (buffer.get(..length), from == Some(self.to)) {
                        self.take(bytes, times);
                    }
                }
                Err(Errno::AGAIN) => return,
                // ICMP errors for undelivered requests.
                Err(_) => {}
            }
        }
    }

    fn take(&self, bytes: &[u8], times: &mut [Option<u32>]) {
        let Some(probe) = packet::read_reply(self.version, self.mark, bytes) else { return };
        let now = self.now();
        let cell = usize::try_from(probe.target).ok().and_then(|number| times.get_mut(number));
        if let (Some(cell @ None), true) = (cell, probe.sent_us <= now) {
            *cell = Some(u32::try_from(now - probe.sent_us).unwrap_or(u32::MAX));
        }
    }
}

/// Whether a request that was refused with this error counts as unanswered: the node's network keeps it from leaving.
fn is_loss(refused: Errno) -> bool {
    // No route, no neighbour, no address to send from, no room.
    let lost =
        [Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::AGAIN];
    // A packet filter of the node drops it; a prohibit or a blackhole route does (`fib_props`).
    let dropped = [Errno::PERM, Errno::ACCESS, Errno::INVAL];
    // CONNREFUSED is an ICMP error for an earlier request.
    refused == Errno::CONNREFUSED || lost.contains(&refused) || dropped.contains(&refused)
}
