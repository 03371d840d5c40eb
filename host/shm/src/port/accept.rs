//! Checks a frame copied out of another port's memory: may its sender send it, may this port have
//! it, and in which form. Copies for mirror ports are in `mirror.rs`.
//!
//! The sender's rules apply, as stored in the switch's page; the ring identifies the sender or, on
//! the downlink, the switch does. See IEEE 802.1Q-2022, 8.6.

use netloom_bridge::{Drop, LONGEST_FRAME, Mac, SHORTEST_FRAME, classify, egress, retag};
use netloom_packet::{Gso, VnetHeader, checksum};

use super::SwitchPort;
use crate::Result;
use crate::inbox::Counter;
use crate::layout::HEADER;
use crate::protocol::MIRRORED;

/// The outcome for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    /// It is for the user, with its header: `buffer[start..start + length]`.
    Frame { start: usize, length: usize },
    /// It, or its segments, are among the frames that are done.
    Kept,
    /// It was counted as dropped.
    Dropped,
    /// It did not fit.
    Truncated,
}

impl SwitchPort {
    /// Checks the frame `buffer[start..start + length]` of the current ring.
    #[inline]
    pub(super) fn accept(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        length: usize,
        origin: u16,
    ) -> Result<Accepted> {
        let Some(of) = self.ins.get_mut(self.current) else { return Ok(Accepted::Dropped) };
        if self.options.only_copies && origin & MIRRORED == 0 {
            return Ok(Accepted::Dropped);
        }
        let number = of.number;
        let sender = if number == 0 { origin & !MIRRORED } else { number.into() };
        // The common frame passes by a few comparisons: no rules, an empty header, no copy.
        if self.rules.plain
            && origin & MIRRORED == 0
            && sender != u16::from(self.number)
            && (HEADER + SHORTEST_FRAME..=HEADER + LONGEST_FRAME).contains(&length)
            && let Some((header, frame)) =
                buffer.get(start..start + length).and_then(|whole| whole.split_first_chunk())
            && *header == [0; HEADER]
            && let Some(source) = Mac::source(frame)
        {
            of.count(frame.len(), false);
            self.stations.learn(&self.inbox, None, source, sender);
            self.tell_moves();
            return Ok(Accepted::Frame { start, length });
        }
        let judged = self.judge(buffer, start, length, origin, sender);
        Ok(judged.unwrap_or_else(|cause| {
            self.count(cause.into());
            self.inbox.add_drops(sender, 1);
            Accepted::Dropped
        }))
    }

    fn judge(
        &mut self,
        buffer: &mut [u8],
        start: usize,
        length: usize,
        origin: u16,
        sender: u16,
    ) -> std::result::Result<Accepted, Drop> {
        let own = u16::from(self.number);
        let whole = buffer.get_mut(..start + length).ok_or(Drop::Runt)?;
        let raw: [u8; HEADER] =
            whole.get(start..).and_then(|w| w.first_chunk()).copied().ok_or(Drop::Runt)?;
        let header = VnetHeader::parse(&raw).map_err(|_| Drop::Header)?;
        let frame = whole.get(start + HEADER..).ok_or(Drop::Runt)?;
        if origin & MIRRORED != 0 {
            self.check_copy(origin & !MIRRORED, frame)?;
            check(&header, frame)?;
            return self.hand_over(whole, start, header);
        }
        if sender == own {
            return Err(Drop::Same);
        }
        let class = classify(&self.rules.switch, sender, frame)?;
        check(&header, frame)?;
        let how = egress(&self.rules.switch, own, class)?;
        let source = Mac::source(frame).ok_or(Drop::Runt)?;
        if self.rules.switch.port(sender).learn {
            self.stations.learn(&self.inbox, class.vid, source, sender);
            self.tell_moves();
        }
        // The switch itself has made the copies of frames that it relayed.
        let relayed = self.ins.get(self.current).is_none_or(|of| of.number == 0);
        if !relayed && !self.rules.mirrors.is_empty() {
            self.copy_received(sender, class.vid, &raw, frame);
        }
        let edit = retag(whole, start + HEADER, how).ok_or(Drop::Vlan)?;
        let start = edit.start.checked_sub(HEADER).ok_or(Drop::Vlan)?;
        let header = if edit.shift == 0 { header } else { edit.vnet(header) };
        self.hand_over(whole, start, header)
    }

    /// Whether super-frames are segmented here.
    #[inline]
    pub(super) fn cuts(&self) -> bool {
        !(self.options.super_frames && self.options.checksums)
    }

    /// Writes the frame's current header before it (the frame ends with `whole`), and finishes what
    /// this port does not accept unfinished.
    fn hand_over(
        &mut self,
        whole: &mut [u8],
        start: usize,
        mut header: VnetHeader,
    ) -> std::result::Result<Accepted, Drop> {
        let length = whole.len().saturating_sub(start);
        let (place, frame) =
            whole.get_mut(start..).and_then(|w| w.split_first_chunk_mut()).ok_or(Drop::Runt)?;
        if header.is_super() && self.cuts() {
            self.cut(&header, frame)?;
            self.count_taken(frame.len(), true);
            return Ok(Accepted::Kept);
        }
        if header.needs_csum && !self.options.checksums {
            checksum::finish(&header, frame).map_err(|_| Drop::Header)?;
            header = VnetHeader::default();
        }
        *place = header.encode();
        self.count_taken(frame.len(), header.is_super());
        Ok(Accepted::Frame { start, length })
    }

    fn count_taken(&mut self, bytes: usize, is_super: bool) {
        if let Some(of) = self.ins.get_mut(self.current) {
            of.count(bytes, is_super);
        }
    }

    /// Adds the packets of a super-frame to the frames that are done.
    fn cut(&mut self, header: &VnetHeader, frame: &[u8]) -> std::result::Result<(), Drop> {
        let finish = !self.options.checksums;
        let done = &mut self.done;
        let mut lost = 0;
        let cut = self.segmenter.segment(header, frame, &mut |header, packet| {
            let shown = if finish { VnetHeader::default() } else { *header };
            match done.push(0, &shown.encode(), packet) {
                Some(kept) if finish => {
                    let packet = kept.get_mut(HEADER..).unwrap_or_default();
                    // The packet has room for its checksum.
                    let _ = checksum::finish(header, packet);
                }
                Some(_) => {}
                None => lost += 1,
            }
        });
        self.inbox.add(Counter::DroppedFull, lost);
        cut.map_err(|_| Drop::Uncut)?;
        self.count(Counter::Segmented);
        Ok(())
    }
}

/// Whether a header is valid for the frame.
fn check(header: &VnetHeader, frame: &[u8]) -> std::result::Result<(), Drop> {
    // The header is the sender's word: its offsets must lie in the frame before they are used.
    let sum = usize::from(header.csum_start) + usize::from(header.csum_offset) + 2;
    let sum_is_there = !header.needs_csum || sum <= frame.len();
    let size_is_there = header.gso == Gso::None || header.gso_size != 0;
    if sum_is_there && size_is_there { Ok(()) } else { Err(Drop::Header) }
}
