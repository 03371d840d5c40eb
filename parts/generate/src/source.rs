//! A capture file read ahead by a thread of its own, so that whoever sends never waits for a disk.
//!
//! Frames come in batches through a bounded channel; what a batch holds is in one piece of memory.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use netloom_pcap::read::{Item, Packet, Reader};

use crate::report::Skipped;
use crate::{Error, Result};

/// Bytes of a batch.
const BATCH: usize = 1 << 18;
/// Batches that are read ahead: with those in other hands about 16 MiB.
pub(crate) const AHEAD: usize = 64;
/// Ethernet's number among link types.
const ETHERNET: u16 = 1;
/// Bytes of its header.
const HEADER: usize = 14;

/// Frames of a file, in order.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    frames: Vec<(usize, Option<u64>)>,
    /// Frames that cannot be sent, whatever the interface.
    pub(crate) skipped: Skipped,
    /// Whether the file ends here.
    pub(crate) end: bool,
}

impl Batch {
    /// Its frames and when each was recorded.
    pub(crate) fn frames(&self) -> impl Iterator<Item = (&[u8], Option<u64>)> {
        let mut rest = self.bytes.as_slice();
        self.frames.iter().map(move |(length, time)| {
            let (frame, behind) = rest.split_at_checked(*length).unwrap_or((rest, &[]));
            rest = behind;
            (frame, *time)
        })
    }

    fn take(&mut self, packet: &Packet<'_>, linktype: Option<u16>) {
        if linktype != Some(ETHERNET) {
            self.skipped.frames_not_ethernet += 1;
        } else if u32::try_from(packet.data.len()).is_ok_and(|length| length < packet.original) {
            self.skipped.frames_truncated += 1;
        } else if packet.data.len() < HEADER {
            self.skipped.frames_too_short += 1;
        } else {
            self.bytes.extend_from_slice(packet.data);
            self.frames.push((packet.data.len(), packet.time_ns));
        }
    }
}

/// Reads a file `rounds` times (0: until nobody listens) and sends what is in it, or why that cannot be.
pub(crate) fn read<R: Read>(
    mut open: impl FnMut() -> std::io::Result<R>,
    rounds: u64,
    to: &SyncSender<Result<Batch>>,
    stop: &AtomicBool,
) {
    let mut round = 0;
    while (rounds == 0 || round < rounds) && !stop.load(Ordering::Relaxed) {
        match open().map_err(Error::Open).and_then(|file| once(file, to)) {
            Ok(true) => round += 1,
            Ok(false) => return,
            Err(e) => {
                let _ = to.send(Err(e));
                return;
            }
        }
    }
}

/// Reads it once; whether somebody still listens.
fn once<R: Read>(file: R, to: &SyncSender<Result<Batch>>) -> Result<bool> {
    let mut reader = Reader::new(file)?;
    // Simple links: which kind the section's interfaces are of.
    let mut kinds: Vec<u16> = Vec::new();
    let mut batch = Batch::default();
    loop {
        match reader.next() {
            Ok(Some(Item::Section(_))) => kinds.clear(),
            Ok(Some(Item::Interface(interface))) => kinds.push(interface.linktype),
            Ok(Some(Item::Packet(packet))) => {
                let place = usize::try_from(packet.interface).unwrap_or(usize::MAX);
                batch.take(&packet, kinds.get(place).copied());
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                batch.end = true;
                return Ok(to.send(Ok(batch)).is_ok());
            }
            Err(e) => {
                // What is whole is sent before it is told that there is no more.
                return if to.send(Ok(batch)).is_ok() { Err(e.into()) } else { Ok(false) };
            }
        }
        if batch.bytes.len() >= BATCH {
            let full = std::mem::take(&mut batch);
            batch.bytes.reserve(BATCH + 4096);
            if to.send(Ok(full)).is_err() {
                return Ok(false);
            }
        }
    }
}
