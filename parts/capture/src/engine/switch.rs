//! Frames of a shared-memory switch, by a port that receives its mirror copies.
//!
//! The user joins the switch and creates the mirror session. A frame's time is when it was taken
//! here. The switch counts copies for which this port's rings had no room as the senders' losses;
//! they are not seen here.

use netloom_sys::{Failure, clock};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use netloom_filter::Program;
use netloom_packet::VnetHeader;
use netloom_packet::vnet;
use netloom_pcap::ng;
use netloom_shm::{MOST_FRAME, Received, SwitchPort};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::{Counts, Engine, Round};
use crate::{Filler, Frame, Result};

/// Most frames of a round.
const MOST: usize = 4096;

/// A mirror port engine.
#[derive(Debug)]
pub struct Switch {
    port: SwitchPort,
    filter: Option<Program>,
    buffer: Vec<u8>,
    counts: Counts,
}

impl Switch {
    /// Takes a port's received frames that the filter accepts.
    pub fn new(port: SwitchPort, filter: Option<Program>) -> Switch {
        Switch { port, filter, buffer: vec![0; MOST_FRAME], counts: Counts::default() }
    }

    /// Takes the frames present.
    fn take(&mut self, into: &mut Filler) -> Result<Round> {
        let mut found = Round::Nothing;
        for _ in 0..MOST {
            match self.port.receive(&mut self.buffer)? {
                Received::Frame { start, length } => self.put(start, length, into),
                Received::Truncated => {
                    self.counts.offered += 1;
                    self.counts.lost += 1;
                }
                Received::Empty => return Ok(found),
                Received::Gone if found == Round::Nothing => return Ok(Round::Gone),
                Received::Gone => return Ok(found),
            }
            found = Round::Some;
        }
        Ok(Round::Part)
    }

    fn put(&mut self, start: usize, length: usize, into: &mut Filler) {
        self.counts.offered += 1;
        let whole = self.buffer.get(start..start + length).unwrap_or_default();
        // Another process wrote the ring: no length in it is taken for granted.
        let Some((header, data)) = whole.split_at_checked(vnet::LEN) else {
            self.counts.lost += 1;
            return;
        };
        let original = u32::try_from(data.len()).unwrap_or(u32::MAX);
        if self.filter.as_ref().is_some_and(|filter| filter.run(data, original) == 0) {
            self.counts.filtered += 1;
            return;
        }
        let flags = flags(header);
        into.frame(&Frame { time_ns: clock::realtime(), original, data, tag: None, flags });
    }

    fn wait(&self, most: Duration, call: Option<BorrowedFd<'_>>) -> Result<()> {
        let fds = std::iter::once(self.port.as_fd()).chain(call);
        let mut set: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = Timespec::try_from(most).ok();
        match rustix::event::poll(&mut set, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(Failure::new("switch port", "wait for", e).into()),
        }
    }
}

/// Block flags from the offload header. An invalid header gives none.
fn flags(header: &[u8]) -> u32 {
    let Ok(header) = VnetHeader::parse(header) else { return 0 };
    let checksum = match (header.needs_csum, header.data_valid) {
        (true, _) => ng::CHECKSUM_UNFINISHED,
        (false, true) => ng::CHECKSUM_VALID,
        (false, false) => 0,
    };
    checksum | if header.is_super() { ng::SEGMENTS } else { 0 }
}

impl Engine for Switch {
    fn round(&mut self, into: &mut Filler, wait: Duration) -> Result<Round> {
        match self.take(into)? {
            Round::Nothing => {
                self.wait(wait, into.call())?;
                self.take(into)
            }
            found => Ok(found),
        }
    }

    fn heeds_calls(&self) -> bool {
        true
    }

    fn finish(&mut self, into: &mut Filler) -> Result<()> {
        // Mirrors may continue to send: frames in the rings now are taken, later ones were not offered.
        self.take(into).map(drop)
    }

    fn counts(&mut self) -> Result<Counts> {
        Ok(self.counts)
    }
}
