//! To the guest: puts frames into its receive buffers, several of them where the guest merges them.
//!
//! What the guest does not take, super-frames or unfinished checksums, is cut and finished first; the packets of a
//! frame then wait here for room, behind which nothing else is taken.

use netloom_packet::vnet::VnetHeader;
use netloom_packet::{Segmenter, checksum, headers};
use netloom_port::{HEADER, Sent};

use crate::device::Device;
use crate::faults::Faults;
use crate::memory::Span;
use crate::ring::Fault;
use crate::{flow, header};

/// Malformed chains that one frame may meet before it is dropped.
const MOST_FAULTS: u32 = 64;
/// Most chains for a frame.
const MOST_BUFFERS: usize = 1024;

/// State of this direction.
#[derive(Debug, Default)]
pub(crate) struct Outward {
    segmenter: Segmenter,
    /// Packets of a frame that was cut: from which byte on the next begins, and their lengths.
    cut: Vec<u8>,
    lengths: std::collections::VecDeque<usize>,
    begin: usize,
    /// The queue that lacks buffers.
    lacking: Option<usize>,
    lost: u64,
    gathered: Gathered,
}

/// Whether a frame, tagged or not, carries IPv6.
fn is_ipv6(frame: &[u8]) -> bool {
    headers::network(frame).is_ok_and(|(kind, _)| kind == headers::IPV6)
}

/// Chains gathered for a frame.
#[derive(Debug, Default)]
struct Gathered {
    spans: Vec<Span>,
    parts: Vec<Span>,
    /// Heads, with their bytes.
    chains: Vec<(u16, usize)>,
    room: usize,
}

impl Outward {
    /// Offers a frame.
    pub(crate) fn queue(&mut self, device: &mut Device, faults: &mut Faults, frame: &[u8]) -> Sent {
        if device.running[0].is_empty() {
            return Sent::Down;
        }
        if !self.lengths.is_empty() && !self.push_cut(device, faults) {
            return Sent::Full;
        }
        let Ok(header) = VnetHeader::parse(frame) else { return Sent::Refused };
        let v6 = is_ipv6(&frame[HEADER..]);
        let features = device.features;
        let whole = features.takes(header.gso, header.ecn, v6)
            && (!header.needs_csum || features.takes_unfinished());
        if whole {
            return self.gathered.push(device, faults, &mut self.lacking, frame);
        }
        if self.cut(&header, &frame[HEADER..], features.takes_unfinished()).is_err() {
            return Sent::Refused;
        }
        // Packets without room wait here: the frame as a whole was taken.
        self.push_cut(device, faults);
        Sent::Done
    }

    /// Makes the packets that a frame stands for.
    fn cut(
        &mut self,
        header: &VnetHeader,
        frame: &[u8],
        unfinished: bool,
    ) -> netloom_packet::Result<()> {
        let (cut, lengths) = (&mut self.cut, &mut self.lengths);
        self.begin = 0;
        cut.clear();
        lengths.clear();
        let mut failed = None;
        self.segmenter.segment(header, frame, &mut |header, packet| {
            let start = cut.len();
            cut.extend_from_slice(&[0; HEADER]);
            cut.extend_from_slice(packet);
            let mut told = *header;
            if !unfinished {
                if let Err(e) = checksum::finish(header, &mut cut[start + HEADER..]) {
                    failed = Some(e);
                }
                told = VnetHeader::default();
            }
            cut[start..start + HEADER].copy_from_slice(&told.encode());
            lengths.push_back(cut.len() - start);
        })?;
        match failed {
            None => Ok(()),
            Some(e) => {
                lengths.clear();
                Err(e)
            }
        }
    }

    /// Puts waiting packets into buffers; false if some are left.
    fn push_cut(&mut self, device: &mut Device, faults: &mut Faults) -> bool {
        while let Some(length) = self.lengths.front().copied() {
            let packet = &self.cut[self.begin..self.begin + length];
            match self.gathered.push(device, faults, &mut self.lacking, packet) {
                Sent::Full => return false,
                Sent::Done => {}
                // The frame as a whole was taken before, so `flush` tells of this loss.
                _ => self.lost += 1,
            }
            self.begin += length;
            self.lengths.pop_front();
        }
        true
    }

    /// Shows the guest its frames.
    pub(crate) fn flush(&mut self, device: &mut Device, faults: &mut Faults) -> Sent {
        let all = self.push_cut(device, faults);
        for at in 0..device.running[0].len() {
            let index = device.running[0][at];
            device.rings[index].show();
        }
        if all { Sent::Done } else { Sent::Full }
    }

    /// Packets lost after their frame was taken.
    pub(crate) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Whether a frame waits for buffers of this queue.
    pub(crate) fn lacks(&self, index: usize) -> bool {
        self.lacking == Some(index)
    }

    /// The guest is gone.
    pub(crate) fn clear(&mut self) {
        self.lost += self.lengths.len() as u64;
        self.lengths.clear();
        self.lacking = None;
    }
}

impl Gathered {
    /// Puts a frame into as many buffers as it takes.
    fn push(
        &mut self,
        device: &mut Device,
        faults: &mut Faults,
        lacking: &mut Option<usize>,
        frame: &[u8],
    ) -> Sent {
        let queues = device.running[0].len() as u64;
        let Ok(at) = usize::try_from(if queues > 1 { flow::number(frame) % queues } else { 0 })
        else {
            return Sent::Down;
        };
        let Some(index) = device.running[0].get(at).copied() else { return Sent::Down };
        let header = device.features.header();
        let needed = frame.len() - HEADER + header;
        match self.gather(device, faults, index, needed) {
            Sent::Done => {}
            Sent::Full => {
                *lacking = Some(index);
                return Sent::Full;
            }
            other => return other,
        }
        *lacking = None;
        self.write(device, index, frame, needed);
        Sent::Done
    }

    /// Gathers chains with room for `needed` bytes.
    fn gather(
        &mut self,
        device: &mut Device,
        faults: &mut Faults,
        index: usize,
        needed: usize,
    ) -> Sent {
        self.clear();
        let merges = device.features.merges();
        let ring = &mut device.rings[index];
        let mut wrong = 0;
        while self.room < needed {
            let taken = u16::try_from(self.chains.len()).unwrap_or(u16::MAX);
            if taken > 0 && (!merges || self.chains.len() >= MOST_BUFFERS) {
                // Too long for the guest.
                ring.put_back(taken);
                return Sent::Refused;
            }
            match ring.take(&device.memory, &mut self.spans) {
                Ok(Some(head)) => {
                    let room = self.spans.iter().map(|span| span.length).sum();
                    self.parts.append(&mut self.spans);
                    self.chains.push((head, room));
                    self.room += room;
                }
                Ok(None) => {
                    ring.put_back(taken);
                    return Sent::Full;
                }
                Err(Fault::Chain(head)) => {
                    // Chains are returned in order: those before it go back unused, too.
                    self.chains.iter().for_each(|(head, _)| ring.give(*head, 0));
                    ring.give(head, 0);
                    self.clear();
                    faults.chains += 1;
                    wrong += 1;
                    // Else a guest could keep this thread busy with bad chains for ever.
                    if wrong > MOST_FAULTS {
                        return Sent::NoRoom;
                    }
                }
                Err(Fault::Ring) => {
                    faults.queues += 1;
                    device.look();
                    return Sent::Down;
                }
            }
        }
        Sent::Done
    }

    /// Writes header and frame, and returns the chains.
    fn write(&mut self, device: &mut Device, index: usize, frame: &[u8], needed: usize) {
        let features = device.features;
        let buffers = u16::try_from(self.chains.len()).unwrap_or(u16::MAX);
        let own = header::to_guest(frame, features, buffers);
        let (own, body) = (&own[..features.header()], &frame[HEADER..]);
        let (mut at, mut left) = (0, body);
        for span in &self.parts {
            let mut span = *span;
            // A guest may split the header over buffers as it likes (VIRTIO 1.3, 2.7.4).
            if at < own.len() {
                let written = device.memory.write(span, &own[at..]);
                at += written;
                span = span.skip(written);
            }
            let written = device.memory.write(span, left);
            left = &left[written..];
        }
        let ring = &mut device.rings[index];
        let mut rest = needed;
        for (head, room) in &self.chains {
            let length = rest.min(*room);
            rest -= length;
            ring.give(*head, u32::try_from(length).unwrap_or(u32::MAX));
        }
    }

    fn clear(&mut self) {
        self.parts.clear();
        self.chains.clear();
        self.room = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_do_not_hide_ipv6() {
        let frame = |types: &[u8]| [&[2; 12], types, &[0; 40]].concat();
        assert!(is_ipv6(&frame(&[0x86, 0xdd])) && is_ipv6(&frame(&[0x81, 0, 0, 5, 0x86, 0xdd])));
        assert!(!is_ipv6(&frame(&[8, 0])) && !is_ipv6(&frame(&[0x81, 0, 0, 5, 8, 0])));
        assert!(!is_ipv6(&[0x86; 13]));
    }
}
