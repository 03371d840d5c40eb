//! Reads a capture file ahead on its own thread, so that the sender never waits for a disk.
//!
//! Frames come in batches through a bounded channel; a batch holds its frames in one buffer.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use netloom_pcap::read::{Item, Packet, Reader};
use netloom_sys::Failure;

use crate::Result;
use crate::order::Order;
use crate::report::Skipped;

/// Bytes of a batch.
const BATCH: usize = 1 << 18;
/// Batches read ahead: about 16 MiB with those already taken.
pub(crate) const AHEAD: usize = 64;
/// Ethernet's link type number.
const ETHERNET: u16 = 1;
/// Bytes of its header.
const HEADER: usize = 14;

/// Frames of a file in order.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    frames: Vec<(usize, Option<u64>)>,
    /// Frames that no interface could send.
    pub(crate) skipped: Skipped,
    /// Frames that follow newer ones in the file and were sorted by time.
    pub(crate) put_in_order: u64,
    /// Whether the file ends here.
    pub(crate) end: bool,
}

impl Batch {
    /// Its frames with their recorded times.
    pub(crate) fn frames(&self) -> impl Iterator<Item = (&[u8], Option<u64>)> {
        let mut rest = self.bytes.as_slice();
        self.frames.iter().map(move |(length, time)| {
            let (frame, behind) = rest.split_at_checked(*length).unwrap_or((rest, &[]));
            rest = behind;
            (frame, *time)
        })
    }

    fn add(&mut self, frame: &[u8], time: Option<u64>) {
        self.bytes.extend_from_slice(frame);
        self.frames.push((frame.len(), time));
    }

    /// Whether a packet can be sent; if not, counts it.
    fn can(&mut self, packet: &Packet<'_>, linktype: Option<u16>) -> bool {
        if linktype != Some(ETHERNET) {
            self.skipped.frames_not_ethernet += 1;
        } else if u32::try_from(packet.data.len()).is_ok_and(|length| length < packet.original) {
            self.skipped.frames_truncated += 1;
        } else if packet.data.len() < HEADER {
            self.skipped.frames_too_short += 1;
        } else {
            return true;
        }
        false
    }
}

/// Feeds batches to the player.
struct Feed<'a> {
    batch: Batch,
    /// Frames held for sorting.
    order: Option<Order>,
    to: &'a SyncSender<Result<Batch>>,
    /// The player is gone.
    gone: bool,
}

impl Feed<'_> {
    /// Takes a packet of the file.
    fn take(&mut self, packet: &Packet<'_>, linktype: Option<u16>) {
        if !self.batch.can(packet, linktype) {
            return;
        }
        match &mut self.order {
            None => self.add(packet.data, packet.time_ns),
            Some(order) => {
                if order.put(packet.data, packet.time_ns) {
                    self.let_go(false);
                }
            }
        }
    }

    fn add(&mut self, frame: &[u8], time: Option<u64>) {
        self.batch.add(frame, time);
        if self.batch.bytes.len() >= BATCH {
            self.send();
            // The last frame of a batch may go beyond its size.
            self.batch.bytes.reserve(BATCH + 4096);
        }
    }

    /// Releases frames that need not wait any longer; with `all`, every frame.
    fn let_go(&mut self, all: bool) {
        // Taken out for a while, because what it releases is added to this feed.
        if let Some(mut order) = self.order.take() {
            order.take(all, |frame, time| self.add(frame, time));
            self.batch.put_in_order += order.take_moved();
            self.order = Some(order);
        }
    }

    fn send(&mut self) {
        self.gone |= self.to.send(Ok(std::mem::take(&mut self.batch))).is_err();
    }
}

/// Reads a file `rounds` times (0: without end) and sends its frames, or the error, until the player is `gone`. With
/// `by_time` frames are in recording order, else in file order.
pub(crate) fn read<R: Read>(
    mut open: impl FnMut() -> std::io::Result<R>,
    rounds: u64,
    by_time: bool,
    to: &SyncSender<Result<Batch>>,
    gone: &AtomicBool,
) {
    let mut round = 0;
    while (rounds == 0 || round < rounds) && !gone.load(Ordering::Relaxed) {
        match open()
            .map_err(|e| Failure::new("capture file", "open", e).into())
            .and_then(|file| once(file, by_time, to, gone))
        {
            Ok(true) => round += 1,
            Ok(false) => return,
            Err(e) => {
                // A player that has gone misses nothing.
                let _ = to.send(Err(e));
                return;
            }
        }
    }
}

/// Reads the file once; returns whether the player still listens.
fn once<R: Read>(
    file: R,
    by_time: bool,
    to: &SyncSender<Result<Batch>>,
    gone: &AtomicBool,
) -> Result<bool> {
    let mut reader = Reader::new(file)?;
    // The link types of the section's interfaces, for simple packet blocks.
    let mut kinds: Vec<u16> = Vec::new();
    let order = by_time.then(Order::default);
    let mut feed = Feed { batch: Batch::default(), order, to, gone: false };
    loop {
        match reader.next() {
            // Interfaces are numbered from 0 in each section (draft-ietf-opsawg-pcapng).
            Ok(Some(Item::Section(_))) => kinds.clear(),
            Ok(Some(Item::Interface(interface))) => kinds.push(interface.linktype),
            Ok(Some(Item::Packet(packet))) => {
                let place = usize::try_from(packet.interface).unwrap_or(usize::MAX);
                feed.take(&packet, kinds.get(place).copied());
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                feed.let_go(true);
                feed.batch.end = true;
                feed.send();
                return Ok(!feed.gone);
            }
            Err(e) => {
                // Send the intact frames before the error.
                feed.let_go(true);
                feed.send();
                return if feed.gone { Ok(false) } else { Err(e.into()) };
            }
        }
        // A file may have much that is not sent.
        if feed.gone || gone.load(Ordering::Relaxed) {
            return Ok(false);
        }
    }
}
