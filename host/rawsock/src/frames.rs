//! Frames laid out once in the form of sendmmsg(2), so that sending needs no preparation.
//!
//! Invariant: each message points to its own part, and each part into the bytes, all on the heap
//! and owned by the same value; none of the three changes or moves until the value is dropped.

use crate::{Error, Result};

/// The most frames that one system call accepts (`UIO_MAXIOV`).
pub const MOST_FRAMES: usize = 1024;
/// The longest frame: Ethernet header, two VLAN tags, the longest IP packet.
pub const MOST_BYTES: usize = 14 + 8 + 65_535;
/// An Ethernet header.
const LEAST_BYTES: usize = 14;

/// Whole frames, Ethernet header first, ready to send in order.
pub struct Frames {
    /// The target of the parts; kept, never touched again.
    _bytes: Box<[u8]>,
    /// The target of the messages; kept, never touched again.
    _parts: Box<[libc::iovec]>,
    messages: Box<[libc::mmsghdr]>,
}

// SAFETY: the pointers are to heap memory that this value alone owns, so they are valid on any
// thread.
unsafe impl Send for Frames {}

impl Frames {
    /// Prepares `count` frames that repeat `set` in turn.
    ///
    /// # Errors
    /// [`Error::Frames`] if there are none, more than [`MOST_FRAMES`], or one shorter than an
    /// Ethernet header or longer than [`MOST_BYTES`].
    pub fn round(set: &[&[u8]], count: usize) -> Result<Frames> {
        check(set, count)?;
        let mut bytes: Box<[u8]> = set.concat().into();
        let mut parts = Vec::with_capacity(set.len());
        let mut rest: &mut [u8] = &mut bytes;
        for frame in set {
            let (own, behind) = rest.split_at_mut(frame.len());
            parts.push(libc::iovec { iov_base: own.as_mut_ptr().cast(), iov_len: own.len() });
            rest = behind;
        }
        let mut parts: Box<[libc::iovec]> = parts.into();
        let starts: Vec<*mut libc::iovec> = parts.iter_mut().map(std::ptr::from_mut).collect();
        let messages = starts.iter().cycle().take(count).map(|part| message(*part)).collect();
        Ok(Frames { _bytes: bytes, _parts: parts, messages })
    }

    /// Number of frames sent by one call.
    pub fn count(&self) -> usize {
        self.messages.len()
    }

    pub(crate) fn messages(&mut self) -> &mut [libc::mmsghdr] {
        &mut self.messages
    }
}

impl std::fmt::Debug for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frames").field("count", &self.count()).finish_non_exhaustive()
    }
}

fn check(set: &[&[u8]], count: usize) -> Result<()> {
    let wrong = |reason| Err(Error::Frames { reason });
    if set.is_empty() || count == 0 {
        return wrong("there is none");
    }
    if count > MOST_FRAMES || set.len() > count {
        return wrong("more than one call takes");
    }
    if set.iter().any(|frame| frame.len() < LEAST_BYTES) {
        return wrong("one is shorter than an Ethernet header");
    }
    if set.iter().any(|frame| frame.len() > MOST_BYTES) {
        return wrong("one is longer than any interface takes");
    }
    Ok(())
}

fn message(part: *mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: all bytes zero is a valid value of each member of mmsghdr.
    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
    message.msg_hdr.msg_iov = part;
    message.msg_hdr.msg_iovlen = 1;
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_round_and_stay_where_they_are() {
        let (one, other) = ([1_u8; 60], [2_u8; 80]);
        let mut moved = Box::new(Frames::round(&[&one, &other], 5).unwrap());
        let lengths: Vec<usize> = moved
            .messages()
            .iter()
            .map(|message| {
                // SAFETY: each message points to a live part.
                unsafe { (*message.msg_hdr.msg_iov).iov_len }
            })
            .collect();
        assert_eq!(lengths, [60, 80, 60, 80, 60]);
        assert_eq!(moved.count(), 5);
    }

    #[test]
    fn what_no_interface_takes_is_refused() {
        let frame = [0_u8; 60];
        let long = vec![0_u8; MOST_BYTES + 1];
        let none: &[&[u8]] = &[];
        for (set, count) in [
            (none, 1),
            (&[&frame[..]][..], 0),
            (&[&frame[..]][..], MOST_FRAMES + 1),
            (&[&frame[..], &frame[..]][..], 1),
            (&[&frame[..13]][..], 1),
            (&[&long[..]][..], 1),
        ] {
            assert!(matches!(Frames::round(set, count), Err(Error::Frames { .. })), "{count}");
        }
        assert!(Frames::round(&[&long[1..]], MOST_FRAMES).is_ok());
    }
}
