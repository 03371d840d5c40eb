//! Outgoing frames by a ring: put into slots, then sent together by one call.
//!
//! The kernel takes slots in order and stops at one that it cannot send; its position in the ring
//! stays there. So a dropped frame is overwritten by those behind it, which must be copied: rare,
//! and bounded by what one call sends. A frame counts as sent when the interface has accepted it.
//! Slots stay the kernel's until the interface is done with them.

use std::os::fd::BorrowedFd;

use netloom_sys::Failure;
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::Result;
use crate::area::{Area, DATA};

/// Status of slots in flight, or refused.
const OCCUPIED: u32 =
    libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING | libc::TP_STATUS_WRONG_FORMAT;

/// A ring of outgoing frames.
#[derive(Debug)]
pub struct TxRing {
    area: Area,
    /// Whether the kernel reads an offload header.
    header: bool,
    /// The first slot that the kernel has not accepted.
    first: usize,
    /// Slots from there on that wait to be sent.
    waiting: usize,
}

/// The outcome of a [`TxRing::kick`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kick {
    /// The interface's state.
    pub state: State,
    /// Lost frames: too long, with an invalid header, or because the interface is down or gone.
    pub lost: u64,
}

/// An interface's state for the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Everything has been accepted.
    Done,
    /// The waiting frames could not be accepted now.
    Busy,
    /// It is down: the waiting frames are lost.
    Down,
    /// It no longer exists: the waiting frames are lost.
    Gone,
}

impl TxRing {
    pub(crate) fn new(area: Area, header: bool) -> TxRing {
        TxRing { area, header, first: 0, waiting: 0 }
    }

    /// Whether the kernel reads an offload header before each frame.
    pub fn has_header(&self) -> bool {
        self.header
    }

    /// Frames put and not yet accepted.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The longest frame, including its header, that a slot holds.
    pub fn most(&self) -> usize {
        self.area.slot() - DATA
    }

    /// Puts a frame into the next slot; `false` if the slot is not free, or too small.
    pub fn put(&mut self, frame: &[u8]) -> bool {
        if self.waiting == self.area.slots() || frame.len() > self.most() {
            return false;
        }
        let slot = (self.first + self.waiting) % self.area.slots();
        let Ok(length) = u32::try_from(frame.len()) else { return false };
        if self.area.status(slot) & OCCUPIED != 0 {
            return false;
        }
        self.area.bytes(slot)[..frame.len()].copy_from_slice(frame);
        self.area.set_length(slot, length);
        self.area.hand_over(slot, libc::TP_STATUS_SEND_REQUEST);
        self.waiting += 1;
        true
    }

    /// Sends the waiting frames, without waiting itself. `fd` is the ring's socket.
    ///
    /// # Errors
    /// An answer that no kernel is known to give here; the waiting frames are lost.
    pub fn kick(&mut self, fd: BorrowedFd<'_>) -> Result<Kick> {
        let mut lost = 0;
        loop {
            if self.waiting == 0 {
                return Ok(Kick { state: State::Done, lost });
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            // With a ring the kernel ignores the bytes of the call, and sends what slots ask for (`tpacket_snd`).
            let answer = rustix::net::send(fd, &[], flags);
            // Also after an error: the kernel may have taken some frames before it.
            self.note_taken();
            let state = match answer {
                _ if self.waiting == 0 => State::Done,
                _ if self.area.status(self.first) & libc::TP_STATUS_WRONG_FORMAT != 0 => {
                    self.drop_first();
                    lost += 1;
                    continue;
                }
                Ok(_) | Err(Errno::NOBUFS | Errno::NOMEM | Errno::AGAIN) => State::Busy,
                Err(Errno::INTR) => continue,
                Err(Errno::NETDOWN) => {
                    lost += self.drop_all();
                    State::Down
                }
                Err(Errno::NXIO | Errno::NODEV) => {
                    lost += self.drop_all();
                    State::Gone
                }
                Err(e) => {
                    self.drop_all();
                    return Err(Failure::new("packet socket", "send by its ring", e).into());
                }
            };
            return Ok(Kick { state, lost });
        }
    }

    /// Removes the first waiting frame. The others keep their order.
    pub fn drop_first(&mut self) {
        if self.waiting == 0 {
            return;
        }
        let mut to = self.first;
        for _ in 1..self.waiting {
            let from = self.area.after(to);
            let length = self.area.header(from).tp_len;
            let bytes = usize::try_from(length).unwrap_or(usize::MAX).min(self.most());
            self.area.copy(from, to, bytes);
            self.area.set_length(to, length);
            self.area.hand_over(to, libc::TP_STATUS_SEND_REQUEST);
            to = from;
        }
        self.area.hand_over(to, libc::TP_STATUS_AVAILABLE);
        self.waiting -= 1;
    }

    /// Removes all waiting frames, and returns their number.
    pub fn drop_all(&mut self) -> u64 {
        let count = self.waiting;
        let mut slot = self.first;
        for _ in 0..self.waiting {
            self.area.hand_over(slot, libc::TP_STATUS_AVAILABLE);
            slot = self.area.after(slot);
        }
        self.waiting = 0;
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    fn note_taken(&mut self) {
        let left = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT;
        while self.waiting > 0 && self.area.status(self.first) & left == 0 {
            self.first = self.area.after(self.first);
            self.waiting -= 1;
        }
    }
}
