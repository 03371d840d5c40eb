//! Incoming frames by a ring: lent in place, then given back.
//!
//! A frame follows an offload header, with its VLAN tag restored. A frame cut by its slot is
//! reported as cut and cannot be viewed: forwarding it would forward half a frame.

use crate::area::{Area, DATA};
use crate::tag::{HEADER, TAG, put_back, tag_of};

/// A ring of incoming frames.
#[derive(Debug)]
pub struct RxRing {
    area: Area,
    /// Whether the kernel writes an offload header.
    header: bool,
    next: usize,
    /// The state of the next frame: it is parsed only once.
    seen: Option<Seen>,
}

/// The state of a frame.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// Whole, between these offsets after the slot's header.
    Whole(usize, usize),
    Aside,
    Cut,
}

/// The next frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Peeked<'a> {
    /// A frame with its offload header.
    Frame(&'a mut [u8]),
    /// A frame longer than its slot, to be received from the socket, where it is the first.
    Aside,
    /// A frame longer than its slot.
    Cut,
    /// Nothing.
    Empty,
}

impl RxRing {
    pub(crate) fn new(area: Area, header: bool) -> RxRing {
        RxRing { area, header, next: 0, seen: None }
    }

    /// The next frame. It stays the next until it is [`RxRing::release`]d.
    pub fn peek(&mut self) -> Peeked<'_> {
        if self.seen.is_none() {
            if self.area.status(self.next) & libc::TP_STATUS_USER == 0 {
                return Peeked::Empty;
            }
            self.seen = Some(self.look());
        }
        match self.seen {
            Some(Seen::Whole(start, end)) => match self.area.bytes(self.next).get_mut(start..end) {
                Some(frame) => Peeked::Frame(frame),
                None => Peeked::Cut,
            },
            Some(Seen::Aside) => Peeked::Aside,
            Some(Seen::Cut) | None => Peeked::Cut,
        }
    }

    /// Returns the next frame's slot to the kernel. No effect if there is none.
    pub fn release(&mut self) {
        if self.area.status(self.next) & libc::TP_STATUS_USER != 0 {
            self.seen = None;
            self.area.hand_over(self.next, libc::TP_STATUS_KERNEL);
            self.next = self.area.after(self.next);
        }
    }

    /// Parses the next slot, which is ours.
    fn look(&mut self) -> Seen {
        let told = self.area.header(self.next);
        // Longer than its slot: it is queued whole on the socket.
        if told.tp_status & libc::TP_STATUS_COPY != 0 {
            return Seen::Aside;
        }
        if told.tp_snaplen < told.tp_len {
            return Seen::Cut;
        }
        self.whole(&told).map_or(Seen::Cut, |(start, end)| Seen::Whole(start, end))
    }

    /// Offsets of the whole frame in the next slot after the slot's header, its tag restored.
    fn whole(&mut self, told: &libc::tpacket2_hdr) -> Option<(usize, usize)> {
        let frame = usize::from(told.tp_mac).checked_sub(DATA)?;
        let end = frame.checked_add(usize::try_from(told.tp_snaplen).ok()?)?;
        let start = frame.checked_sub(HEADER)?;
        let header = self.header;
        let bytes = self.area.bytes(self.next).get_mut(..end)?;
        // The kernel left no offload header in the slot, so ours says that nothing is to be done.
        if !header {
            bytes.get_mut(start..frame)?.fill(0);
        }
        let Some(tag) = tag_of(told.tp_status, told.tp_vlan_tci, told.tp_vlan_tpid) else {
            return Some((start, end));
        };
        // The kernel's socket address, which nobody reads, is there.
        let room = start.checked_sub(TAG)?;
        let put = put_back(&mut bytes[room..], tag);
        Some(if put { (room, end) } else { (start, end) })
    }
}
