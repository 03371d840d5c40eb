//! When memory is given back to the system: soon after the tables take much less.

use netloom_pipeline::Time;

use crate::system::SECOND;

/// This many bytes less are worth it.
const WORTH: usize = 4 << 20;

/// Memory that the allocator may hold though nothing is in it.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    /// Bytes that the tables took at most since memory was given back.
    most: usize,
    due: Option<Time>,
}

impl Spare {
    /// When [`Spare::look`] is to be called.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.due
    }

    /// The tables take this many bytes now.
    pub(crate) fn look(&mut self, bytes: usize, now: Time) {
        self.most = self.most.max(bytes);
        if self.due.is_some_and(|due| due <= now) {
            netloom_sys::memory::give_back();
            (self.most, self.due) = (bytes, None);
        } else if bytes.saturating_add(WORTH) < self.most {
            // Once for what goes within a moment.
            self.due.get_or_insert(now + SECOND / 2);
        }
    }
}
