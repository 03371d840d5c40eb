//! A port's per-frame counters, kept locally and written into its inbox periodically.

use crate::inbox::{Counter, Inbox};

/// Frames of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    pub(super) frames: u64,
    pub(super) bytes: u64,
    pub(super) supers: u64,
}

impl Flow {
    /// Counts a frame of `bytes` bytes without its header.
    #[inline]
    pub(super) fn add(&mut self, bytes: usize, is_super: bool) {
        self.frames += 1;
        self.bytes += bytes as u64;
        self.supers += u64::from(is_super);
    }
}

/// Writes the counts of sent frames.
pub(super) fn sent(inbox: &Inbox, flow: &mut Flow, flooded: &mut u64) {
    let Flow { frames, bytes, supers } = std::mem::take(flow);
    if frames != 0 {
        inbox.add(Counter::SentFrames, frames);
        inbox.add(Counter::SentBytes, bytes);
        inbox.add(Counter::SentSuper, supers);
        inbox.add(Counter::Flooded, std::mem::take(flooded));
    }
}

/// Writes the counts of frames received from one sender; 0 for the switch.
pub(super) fn received(inbox: &Inbox, sender: u8, flow: &mut Flow) {
    let Flow { frames, bytes, supers } = std::mem::take(flow);
    if frames != 0 {
        inbox.add(Counter::ReceivedFrames, frames);
        inbox.add(Counter::ReceivedBytes, bytes);
        inbox.add(Counter::ReceivedSuper, supers);
        inbox.add_taken(u16::from(sender), frames, bytes);
        if sender == 0 {
            inbox.add(Counter::Relayed, frames);
        }
    }
}

/// A port's counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters(Vec<u64>);

impl Counters {
    pub(super) fn of(inbox: &Inbox) -> Counters {
        Counters(Counter::ALL.iter().map(|counter| inbox.counter(*counter)).collect())
    }

    /// The value of a counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter as usize).copied().unwrap_or(0)
    }

    /// All counters, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Counter::ALL.iter().map(|counter| (counter.name(), self.get(*counter)))
    }

    /// Frames lost for any reason.
    pub fn dropped(&self) -> u64 {
        self.iter().filter(|(name, _)| name.starts_with("dropped-")).map(|(_, value)| value).sum()
    }
}
