//! Sends the frames of a capture file, each when due by the recorded times or by a rate.
//!
//! Frames that cannot be sent are skipped and counted by cause: too long for the interface, too short,
//! truncated in the file, not Ethernet. The gap they leave stays. With recorded times, frames are sent in
//! time order even if the file is not sorted, within a look-ahead of a second of the recording or 16 MiB.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use netloom_sys::Failure;
use netloom_traffic::{FCS, Rate, Replay, Speed, Tempo};

use crate::clock::Clock;
use crate::outlet::{BURST, Outlet};
use crate::priority::Priority;
use crate::report::{Pacing, ReplayReport, Skipped, a_second};
use crate::source::{AHEAD, Batch, read};
use crate::{Engine, Error, Result, Target};

/// Interval between checks of the stop flag while there is nothing to send.
const LOOK: Duration = Duration::from_millis(20);

/// How a file is replayed.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// The speed.
    pub tempo: Tempo,
    /// Number of rounds; 0 means until stopped.
    pub rounds: u64,
    /// Ends after this many frames.
    pub frames: Option<u64>,
    /// Longest gap with recorded times; longer ones are cut to it.
    pub most_gap: Option<Duration>,
    /// Called before the wait for a gap longer than [`LONG_GAP`], with its length and the number, from 1, of
    /// the frame after it.
    pub before_long_gap: Option<fn(Duration, u64)>,
}

/// Gaps longer than this may be an error in the file.
pub const LONG_GAP: Duration = Duration::from_secs(10);

impl Default for ReplayOptions {
    /// One round, as recorded.
    fn default() -> Self {
        ReplayOptions {
            tempo: Tempo::Recorded(Speed::RECORDED),
            rounds: 1,
            frames: None,
            most_gap: None,
            before_long_gap: None,
        }
    }
}

/// Replays capture files to an interface or a switch.
#[derive(Debug)]
pub struct Replayer {
    outlet: Outlet,
    options: ReplayOptions,
}

/// A replay in progress.
struct Playing {
    schedule: Replay,
    clock: Clock,
    paced: bool,
    /// Start time, once the first frame is available.
    start: Option<u64>,
    frames: u64,
    most: u64,
    bytes: u64,
    rounds: u64,
    skipped: Skipped,
    put_in_order: u64,
    preferred: bool,
    /// When the previous frame was due.
    due: u64,
    before_long_gap: Option<fn(Duration, u64)>,
}

impl Replayer {
    /// Prepares to send.
    ///
    /// # Errors
    /// [`Error::Engine`] for live frames, which cannot come from a file; errors of the kernel.
    pub fn open(target: Target, engine: Engine, options: ReplayOptions) -> Result<Replayer> {
        let no_way =
            |engine, reason: &str| Err(Error::Engine { engine, reason: reason.to_owned() });
        if let Tempo::Rate(rate) = options.tempo {
            rate.check()?;
        }
        let outlet = match (target, engine) {
            (Target::Interface { index, .. }, Engine::Auto | Engine::Ring) => {
                Outlet::ring(index, 0)?
            }
            (Target::Switch(port), Engine::Auto | Engine::Shm) => Outlet::switch(port),
            (_, Engine::LiveFrames) => {
                return no_way("live-frames", "a file's frames are not made in the kernel");
            }
            (Target::Switch(_), _) => return no_way("ring", "a switch is joined by shm"),
            (Target::Interface { .. }, _) => {
                return no_way("shm", "an interface is none of a switch's ports");
            }
        };
        Ok(Replayer { outlet, options })
    }

    /// Replays the file that `open` returns, opened again for each round, until all rounds are done, enough
    /// frames are sent, or `stop` is set.
    ///
    /// # Errors
    /// [`Error::Pcap`] for a malformed or truncated file, after its intact frames are sent; [`Error::Failed`] if it cannot be opened;
    /// [`Error::Down`], [`Error::Gone`].
    pub fn run<R: Read>(
        &mut self,
        open: impl FnMut() -> std::io::Result<R> + Send,
        stop: &AtomicBool,
    ) -> Result<ReplayReport> {
        let (offered, refused) = (self.outlet.offered, self.outlet.refused);
        let most_gap = self.options.most_gap.map_or(u64::MAX, nanoseconds);
        let mut playing = Playing {
            schedule: Replay::new(self.options.tempo).with_gaps_of(most_gap),
            clock: Clock::new(),
            paced: self.options.tempo != Tempo::Rate(Rate::Max),
            start: None,
            frames: 0,
            most: self.options.frames.unwrap_or(u64::MAX),
            bytes: 0,
            rounds: 0,
            skipped: Skipped::default(),
            put_in_order: 0,
            preferred: false,
            due: 0,
            before_long_gap: self.options.before_long_gap,
        };
        let rounds = self.options.rounds;
        let by_time = matches!(self.options.tempo, Tempo::Recorded(_));
        let (outlet, gone) = (&mut self.outlet, AtomicBool::new(false));
        let gone = &gone;
        let played = std::thread::scope(|scope| {
            // Inside the scope, so that the reader sees the channel close when this ends.
            let (to, from) = sync_channel(AHEAD);
            let reader = std::thread::Builder::new().name("netloom-read".to_owned());
            reader
                .spawn_scoped(scope, move || read(open, rounds, by_time, &to, gone))
                .map_err(|e| Failure::new("thread", "start", e))?;
            // After the reader has started, which should not have priority.
            let eager = playing.paced.then(Priority::new);
            playing.preferred = eager.as_ref().is_some_and(Priority::is_raised);
            let played = playing.play(&from, outlet, stop);
            // The flag ends a reader between two batches, the closed channel one that is sending.
            gone.store(true, Ordering::Relaxed);
            drop(from);
            played
        });
        self.outlet.finish()?;
        played?;
        // After `finish`, when the last frame has left.
        let elapsed_ns = playing.start.map_or(0, |start| Clock::now() - start);
        let frames_refused = self.outlet.refused - refused;
        let frames_sent = self.outlet.offered - offered - frames_refused;
        Ok(ReplayReport {
            engine: self.outlet.engine(),
            frames_sent,
            frames_refused,
            skipped: playing.skipped,
            frames_put_in_order: playing.put_in_order,
            frames_back_in_time: playing.schedule.backwards(),
            gaps_cut: playing.schedule.cut(),
            bytes_offered: playing.bytes,
            rounds: playing.rounds,
            elapsed_ns,
            packets_per_second: a_second(frames_sent, elapsed_ns),
            pacing: Pacing::of(&playing.clock, None)
                .map(|pacing| Pacing { preferred: playing.preferred, ..pacing }),
        })
    }
}

impl Playing {
    fn play(
        &mut self,
        from: &Receiver<Result<Batch>>,
        outlet: &mut Outlet,
        stop: &AtomicBool,
    ) -> Result<()> {
        while !stop.load(Ordering::Relaxed) && self.frames < self.most {
            let batch = match from.recv_timeout(LOOK) {
                Ok(batch) => batch?,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            self.skipped.add(&batch.skipped);
            self.put_in_order += batch.put_in_order;
            if !self.batch(&batch, outlet, stop)? {
                break;
            }
            if batch.end {
                self.rounds += 1;
                self.schedule.again();
            }
        }
        Ok(())
    }

    /// Announces a long gap before the next frame.
    fn tell_of_gap(&mut self, due: u64) {
        let gap = Duration::from_nanos(due.saturating_sub(self.due));
        self.due = due;
        if let Some(tell) = self.before_long_gap.filter(|_| gap > LONG_GAP) {
            tell(gap, self.frames + 1);
        }
    }

    /// Sends a batch's frames; returns whether to continue.
    fn batch(&mut self, batch: &Batch, outlet: &mut Outlet, stop: &AtomicBool) -> Result<bool> {
        for (frame, time) in batch.frames() {
            if self.frames == self.most {
                return Ok(false);
            }
            if !outlet.takes(frame) {
                self.skipped.frames_too_long += 1;
                continue;
            }
            let size = u32::try_from(frame.len()).unwrap_or(u32::MAX).saturating_add(FCS);
            let due = self.schedule.next(time, size);
            let start = *self.start.get_or_insert_with(Clock::now);
            if self.paced {
                self.tell_of_gap(due);
                if self.clock.wait(start.saturating_add(due), stop).is_none() {
                    return Ok(false);
                }
                outlet.offer(frame)?;
                outlet.flush()?;
            } else {
                outlet.offer(frame)?;
                if outlet.offered.is_multiple_of(BURST) {
                    outlet.flush()?;
                }
            }
            self.frames += 1;
            self.bytes += u64::from(size);
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Saturates above any time in a file.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
