//! Receives stamped frames: loss, duplicates, reordering, latency.
//!
//! Frames come from a packet socket's blocks as they arrive, before any processing on the interface's side;
//! times are the kernel's arrival times. Frames that the socket had no room for are counted separately.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netloom_rawsock::{BlockOptions, BlockRing};
use netloom_traffic::{FCS, Receiver, Stamp, Start};

use crate::Result;
use crate::report::{ReceiveReport, StreamReport};

/// Interval between checks of the stop flag.
const LOOK: Duration = Duration::from_millis(20);

/// What to receive, and when to end.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveOptions {
    /// The first frame number of streams.
    pub start: Start,
    /// Ends after this many stamped frames, copies included.
    pub frames: Option<u64>,
    /// Ends after this time.
    pub duration: Option<Duration>,
    /// Ends this long after the last stamped frame, once there was one.
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
        })
    }

    /// Sets the number of stamped frames after which to end, overriding the options: for callers that learn
    /// only after sending how many frames to expect.
    pub fn expect(&mut self, frames: u64) {
        self.options.frames = Some(frames);
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
            if self.stamped != before {
                last = Some(Instant::now());
            }
            let over = |since: Instant, limit: Option<Duration>| {
                limit.is_some_and(|limit| since.elapsed() >= limit)
            };
            if over(start, self.options.duration)
                || last.is_some_and(|last| over(last, self.options.quiet))
                || self.options.frames.is_some_and(|frames| self.stamped >= frames)
            {
                break;
            }
        }
        self.ring.stop()?;
        while self.step(Duration::ZERO)? {}
        self.dropped = self.ring.statistics()?.drops;
        Ok(())
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
            self.receiver.take(&stamp, frame.original.saturating_add(FCS), frame.time_ns);
            self.stamped += 1;
            let first = self.span.map_or(frame.time_ns, |(first, _)| first);
            self.span = Some((first, frame.time_ns));
        }
        Ok(true)
    }

    /// The result. `sent` gives the frames sent per stream. Without it, loss after the last received frame,
    /// and streams that lost every frame, stay unknown.
    pub fn report(&self, sent: &[(u16, u64)]) -> ReceiveReport {
        let of = |number: u16| sent.iter().find(|(n, _)| *n == number).map(|(_, frames)| *frames);
        let mut streams: Vec<StreamReport> = self
            .receiver
            .streams()
            .iter()
            .map(|(number, stream)| StreamReport::of(*number, stream, of(*number)))
            .collect();
        for (number, frames) in sent {
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
