//! Frames by a BPF program that copies them into per-CPU rings (`netloom_ebpf::capture`).
//!
//! The program writes the file's blocks: they are copied once more, unchanged, into the memory that
//! is written out. The CPUs' blocks are sorted when a chunk is written.

use std::time::{Duration, Instant};

use netloom_ebpf::capture::{Tap, TapOptions};

use super::{Counts, Engine, Round};
use crate::{Error, Filler, Result};

/// Interval at which clocks are compared.
const CLOCKS: Duration = Duration::from_secs(1);

/// A tap engine.
#[derive(Debug)]
pub struct Ring {
    tap: Tap,
    index: u32,
    compared: Instant,
    attached: bool,
}

impl Ring {
    /// Attaches a tap to an interface of the calling thread's network namespace. `options` must
    /// contain the interface's number in the file.
    ///
    /// # Errors
    /// As [`Tap::attach`].
    pub fn attach(index: u32, options: &TapOptions) -> Result<Ring> {
        let tap = Tap::attach(index, options)?;
        Ok(Ring { tap, index, compared: Instant::now(), attached: true })
    }

    /// Takes the frames present; returns the number of bytes.
    fn take(&mut self, into: &mut Filler) -> Result<usize> {
        let mut whole = true;
        let bytes = self.tap.take(&mut |blocks| whole &= into.run(blocks));
        if whole { Ok(bytes) } else { Err(Error::Blocks { index: self.index }) }
    }
}

impl Engine for Ring {
    fn round(&mut self, into: &mut Filler, wait: Duration) -> Result<Round> {
        if self.compared.elapsed() >= CLOCKS {
            self.compared = Instant::now();
            self.tap.refresh_clock();
        }
        if self.tap.wait(wait, into.call()) {
            self.take(into)?;
            return Ok(Round::Some);
        }
        Ok(if self.tap.is_attached() { Round::Nothing } else { Round::Gone })
    }

    fn heeds_calls(&self) -> bool {
        true
    }

    fn finish(&mut self, into: &mut Filler) -> Result<()> {
        if std::mem::take(&mut self.attached) {
            self.tap.detach();
        }
        // No program runs any more after the detachment: this is all that will ever come.
        while self.take(into)? > 0 {}
        Ok(())
    }

    fn counts(&mut self) -> Result<Counts> {
        let counts = self.tap.counts();
        Ok(Counts { offered: counts.offered, filtered: counts.filtered, lost: counts.lost })
    }
}
