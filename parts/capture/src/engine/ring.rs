//! Frames by a BPF program that copies them into rings of each processor (`netloom_ebpf::capture`).
//!
//! What the program has written are the blocks of the file: they are copied once more, as they are, into
//! the memory that is written from. Processors' blocks are put in order when a chunk is written.

use std::time::{Duration, Instant};

use netloom_ebpf::capture::{Tap, TapOptions};

use super::{Counts, Engine, Round};
use crate::{Error, Filler, Result};

/// How often the clocks are compared.
const CLOCKS: Duration = Duration::from_secs(1);

/// Frames of a tap.
#[derive(Debug)]
pub struct Ring {
    tap: Tap,
    index: u32,
    compared: Instant,
    attached: bool,
}

impl Ring {
    /// Attaches a tap to an interface of the calling thread's network namespace. `options` must have the
    /// interface's number in the file.
    ///
    /// # Errors
    /// As [`Tap::attach`].
    pub fn attach(index: u32, options: &TapOptions) -> Result<Ring> {
        let tap = Tap::attach(index, options)?;
        Ok(Ring { tap, index, compared: Instant::now(), attached: true })
    }

    /// Takes what there is; how many bytes.
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
        if self.take(into)? > 0 {
            return Ok(Round::Some);
        }
        if self.tap.wait(wait) {
            self.take(into)?;
            return Ok(Round::Some);
        }
        Ok(if self.tap.is_attached() { Round::Nothing } else { Round::Gone })
    }

    fn finish(&mut self, into: &mut Filler) -> Result<()> {
        if std::mem::take(&mut self.attached) {
            self.tap.detach();
        }
        while self.take(into)? > 0 {}
        Ok(())
    }

    fn counts(&mut self) -> Result<Counts> {
        let counts = self.tap.counts();
        Ok(Counts { offered: counts.offered, filtered: counts.filtered, lost: counts.lost })
    }
}
