//! Receives stamped frames: loss, duplicates, reordering, latency.
//!
//! Frames come from a packet socket's blocks as they arrive, before any processing on the interface's side;
//! times are the kernel's arrival times. Frames that the socket had no room for are counted separately. A receiver
//! that hears of senders waits for them to end, and knows of the frames behind the last one that came.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netloom_packet::Headers;
use netloom_rawsock::{BlockOptions, BlockRing};
use netloom_traffic::{FCS, Notice, Receiver, SentFrames, Stamp, Start};

use crate::Result;
use crate::notices::Senders;
use crate::report::{ReceiveReport, StreamReport};

/// Interval between checks of the stop flag.
const LOOK: Duration = Duration::from_millis(20);
/// How long a receiver that has enough waits for senders to tell their end.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What to receive, and when to end.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveOptions {
    /// The first frame number of streams.
    pub start: Start,
    /// Ends after this many stamped frames, copies included.
    pub frames: Option<u64>,
    /// Ends after this time.
    pub duration: Option<Duration>,
    /// Ends this long after the last stamped frame, once there was one, and after the end of the last sender, once
    /// one was heard of; not while one is still sending.
    pub quiet: Option<Duration>,
    /// MiB of memory for frames not yet processed.
    pub memory: usize,
    /// Longest wait of a frame before it is processed, in milliseconds.
    pub timeout_ms: u32,
}

impl Default for ReceiveOptions {
    /// From number 0, until stopped, with 64 MiB and 10 ms.
    fn default() -> Self {
        ReceiveOptions {
            start: Start::Zero,
            frames: None,
            duration: None,
            quiet: None,
            memory: 64,
            timeout_ms: 10,
        }
    }
}

/// A receiver on one interface. It captures from the moment it is opened.
#[derive(Debug)]
pub struct Receive {
    ring: BlockRing,
    options: ReceiveOptions,
    receiver: Receiver,
    /// Stamped frames, copies included.
    stamped: u64,
    /// Arrival of the first and the last.
    span: Option<(u64, u64)>,
    dropped: u64,
    gone: bool,
    /// Senders, if they can be heard of.
    senders: Option<Senders>,
    /// The addresses of this end: what is sent to them is to arrive here.
    own: BTreeSet<IpAddr>,
    /// The destination of the first frame of each stream.
    destinations: BTreeMap<u16, IpAddr>,
}

impl Receive {
    /// Opens a receiver on the interface `index` of the calling thread's network namespace.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn open(index: u32, options: ReceiveOptions) -> Result<Receive> {
        let block = BlockOptions {
            blocks: options.memory.max(1),
            timeout_ms: options.timeout_ms.max(1),
            // Streams that only pass here are for another station.
            promiscuous: true,
            ..BlockOptions::default()
        };
        Ok(Receive {
            ring: BlockRing::open(index, block, None)?,
            options,
            receiver: Receiver::new(options.start),
            stamped: 0,
            span: None,
            dropped: 0,
            gone: false,
            senders: None,
            own: BTreeSet::new(),
            destinations: BTreeMap::new(),
        })
    }

    /// Sets the number of stamped frames after which to end, overriding the options: for callers that learn
    /// only after sending how many frames to expect.
    pub fn expect(&mut self, frames: u64) {
        self.options.frames = Some(frames);
    }

    /// Heeds what these senders tell, as far as they send to one of the `own` addresses, or what they send passes here.
    pub fn heed(&mut self, senders: Senders, own: impl IntoIterator<Item = IpAddr>) {
        self.senders = Some(senders);
        self.own = own.into_iter().collect();
    }

    /// Receives until an end condition is met or `stop` is set, then drains what has arrived.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        let start = Instant::now();
        let mut last = None;
        while !stop.load(Ordering::Relaxed) && !self.gone {
            let before = self.stamped;
            self.step(LOOK)?;
            if let Some(senders) = &mut self.senders {
                senders.hear();
            }
            if self.stamped != before {
                last = Some(Instant::now());
            }
            let over = |since: Instant, limit: Option<Duration>| {
                limit.is_some_and(|limit| since.elapsed() >= limit)
            };
            if over(start, self.options.duration)
                || self.quiet_since(last).is_some_and(|since| over(since, self.options.quiet))
                || self.has_enough()
            {
                break;
            }
        }
        // First no more frames: a path that never rests would keep the loop below from ending.
        self.ring.stop()?;
        while self.step(Duration::ZERO)? {}
        if self.has_enough() {
            self.await_ends();
        }
        self.dropped = self.ring.statistics()?.drops;
        Ok(())
    }

    /// Whether this many frames have come as were asked for.
    fn has_enough(&self) -> bool {
        self.options.frames.is_some_and(|frames| self.stamped >= frames)
    }

    /// Gives senders whose frames have all come the time to say so.
    fn await_ends(&mut self) {
        let start = Instant::now();
        while let Some(senders) = &mut self.senders {
            senders.hear();
            let busy = self.quiet_since(Some(start)).is_none();
            if !busy || start.elapsed() >= LAST_WORDS {
                break;
            }
            // 5 ms.
            std::thread::sleep(LAST_WORDS / 40);
        }
    }

    /// Since when nothing has been sent, as far as is known; `last` is when the last stamped frame came.
    fn quiet_since(&self, last: Option<Instant>) -> Option<Instant> {
        let Some(senders) = &self.senders else { return last };
        if senders.are_busy(|notice| self.concerns(notice)) {
            return None;
        }
        senders.ended(|notice| self.concerns(notice)).max(last)
    }

    /// Whether frames of this sender should come here: they are for this end, or such frames have come.
    fn concerns(&self, notice: &Notice) -> bool {
        self.own.contains(&notice.to) || self.destinations.get(&notice.stream) == Some(&notice.to)
    }

    /// Takes the next block; returns whether there was one.
    fn step(&mut self, wait: Duration) -> Result<bool> {
        let block = match self.ring.block(wait) {
            Ok(Some(block)) => block,
            Ok(None) => return Ok(false),
            // It resumes by itself when the interface is up again.
            Err(netloom_rawsock::Error::Down { .. }) => return Ok(true),
            Err(netloom_rawsock::Error::Gone { .. }) => {
                self.gone = true;
                return Ok(false);
            }
            Err(e) => return Err(e.into()),
        };
        for frame in block.frames().filter(|frame| !frame.outgoing) {
            // A tag stored beside the frame does not shift its data.
            let Some(stamp) = Stamp::read(frame.data) else {
                self.receiver.foreign += 1;
                continue;
            };
            if self.senders.is_some()
                && !self.destinations.contains_key(&stamp.stream)
                && let Some(to) = destination(frame.data)
            {
                self.destinations.insert(stamp.stream, to);
            }
            self.receiver.take(&stamp, frame.original.saturating_add(FCS), frame.time_ns);
            self.stamped += 1;
            let first = self.span.map_or(frame.time_ns, |(first, _)| first);
            self.span = Some((first, frame.time_ns));
        }
        Ok(true)
    }

    /// The known number of sent frames: by the caller, by the senders.
    fn sent(&self, known: &[(u16, u64)]) -> Vec<(u16, SentFrames)> {
        let mut all: Vec<(u16, SentFrames)> = vec![];
        let by_caller =
            known.iter().map(|(n, offered)| (*n, SentFrames { offered: *offered, refused: 0 }));
        let told =
            self.senders.iter().flat_map(|senders| senders.sent(|notice| self.concerns(notice)));
        // A receiver that wanted fewer frames than were sent has not lost the others.
        let enough = self.options.frames.filter(|_| self.has_enough());
        let heard = |sent: &SentFrames| enough.is_none_or(|enough| sent.offered <= enough);
        for (number, sent) in by_caller.chain(told.filter(|(_, sent)| heard(sent))) {
            if !all.iter().any(|(known, _)| *known == number) {
                all.push((number, sent));
            }
        }
        all
    }

    /// The result. `sent` gives the frames sent per stream, where senders do not tell. Without either, loss after the
    /// last received frame, and streams that lost every frame, stay unknown.
    pub fn report(&self, sent: &[(u16, u64)]) -> ReceiveReport {
        let sent = self.sent(sent);
        let of = |number: u16| sent.iter().find(|(n, _)| *n == number).map(|(_, frames)| *frames);
        let mut streams: Vec<StreamReport> = self
            .receiver
            .streams()
            .iter()
            .map(|(number, stream)| StreamReport::of(*number, stream, of(*number)))
            .collect();
        for (number, frames) in &sent {
            if !self.receiver.streams().contains_key(number) {
                streams.push(StreamReport::nothing(*number, *frames));
            }
        }
        streams.sort_by_key(|stream| stream.stream);
        ReceiveReport {
            streams,
            frames_foreign: self.receiver.foreign,
            frames_untold: self.receiver.untold,
            frames_dropped_here: self.dropped,
            span_ns: self.span.map_or(0, |(first, last)| last.saturating_sub(first)),
            interface_gone: self.gone,
        }
    }
}

/// The destination of a packet.
fn destination(frame: &[u8]) -> Option<IpAddr> {
    let headers = Headers::parse(frame).ok()?;
    let packet = frame.get(headers.network..)?;
    // The destination is at byte 16 of an IPv4 header and at byte 24 of IPv6's (RFC 791, RFC 8200).
    match headers.ip?.v6 {
        false => packet.get(16..)?.first_chunk::<4>().map(|to| IpAddr::from(*to)),
        true => packet.get(24..)?.first_chunk::<16>().map(|to| IpAddr::from(*to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netloom_traffic::{Addresses, Flows, Frame};

    #[test]
    fn the_destination_is_found_in_both_families() {
        for v6 in [false, true] {
            let addresses = Addresses::example(v6);
            let length = addresses.least_length();
            let mut frame = Frame::new(&addresses, length, 1).unwrap();
            let mut bytes = frame.make(length, Flows::ONE.at(0), 1, 2).to_vec();
            let to = destination(&bytes).unwrap();
            assert_eq!(to.is_ipv6(), v6);
            bytes.splice(12..12, [0x81, 0, 0, 7]);
            assert_eq!(destination(&bytes), Some(to));
            assert_eq!(destination(&bytes[..20]), None);
        }
    }
}
