//! Copies for mirror ports: which port makes them, and from which they are accepted.
//!
//! A session's sources make its copies: the receiver of a frame if it is a source, else the sender.
//! The switch copies the frames that it relays. A mirror port accepts copies only from sources, and
//! only of frames that could have passed them by the rules in the switch's page: a member that is
//! no source cannot send one, however it marks it. See docs/abi/switch-join.md.

use netloom_bridge::{Drop, MOST_MIRRORS, Vid, classify, egress};

use super::SwitchPort;
use crate::layout::HEADER;
use crate::protocol::MIRRORED;

/// A frame as its sender sent it.
struct Original<'a> {
    sender: u16,
    receiver: u16,
    vid: Option<Vid>,
    header: &'a [u8; HEADER],
    frame: &'a [u8],
}

impl SwitchPort {
    /// Checks whether we may accept a frame of the current ring that is marked as a copy of one
    /// from `sender`.
    pub(super) fn check_copy(&mut self, sender: u16, frame: &[u8]) -> Result<(), Drop> {
        // A source that learned of its session before us published the frame afterwards.
        self.look_at_rules();
        let (own, mirrors) = (u16::from(self.number), &self.rules.mirrors);
        let by = self.ins.get(self.current).map_or(0, |of| u16::from(of.number));
        // The switch is trusted, and may copy frames of any port.
        if by == 0 {
            let any = mirrors.sessions().iter().any(|session| session.to == own);
            return if any { Ok(()) } else { Err(Drop::Forged) };
        }
        let sessions = mirrors.vouched_for(by, sender);
        if sessions == 0 || sender == own {
            return Err(Drop::Forged);
        }
        let class = classify(&self.rules.switch, sender, frame).map_err(|_| Drop::Forged)?;
        // A source that copies what it received must have been allowed to receive it.
        if by != sender {
            egress(&self.rules.switch, by, class).map_err(|_| Drop::Forged)?;
        }
        let mut to_us = mirrors.of(sessions).filter(|session| session.to == own);
        match to_us.any(|session| session.filter.matches(class.vid, frame)) {
            true => Ok(()),
            false => Err(Drop::Forged),
        }
    }

    /// Copies a frame received by an edge, if this port's received frames are mirrored.
    pub(super) fn copy_received(
        &mut self,
        sender: u16,
        vid: Option<Vid>,
        header: &[u8; HEADER],
        frame: &[u8],
    ) {
        let receiver = u16::from(self.number);
        let bits = self.rules.mirrors.copied_by_receiver(receiver);
        self.copy(bits, &Original { sender, receiver, vid, header, frame });
    }

    /// Copies a frame now in an edge, if this port's sent frames are mirrored. The switch copies
    /// frames sent to it.
    #[cold]
    pub(super) fn copy_sent(&mut self, number: u8, whole: &[u8]) {
        let (sender, receiver) = (u16::from(self.number), u16::from(number));
        let bits = self.rules.mirrors.copied_by_sender(sender, receiver);
        if bits == 0 || number == 0 {
            return;
        }
        let Some((header, frame)) = whole.split_first_chunk() else { return };
        if let Ok(class) = classify(&self.rules.switch, sender, frame) {
            self.copy(bits, &Original { sender, receiver, vid: class.vid, header, frame });
        }
    }

    /// Sends the mirror ports of these sessions a copy.
    fn copy(&mut self, bits: u16, of: &Original<'_>) {
        if bits == 0 {
            return;
        }
        let mut to = [0; MOST_MIRRORS];
        let wanted = self.rules.mirrors.of(bits).filter(|session| {
            session.to != of.sender
                && session.to != of.receiver
                && session.filter.matches(of.vid, of.frame)
        });
        for (place, session) in to.iter_mut().zip(wanted) {
            *place = session.to;
        }
        for to in to.into_iter().filter_map(|to| u8::try_from(to).ok()).filter(|to| *to != 0) {
            self.give_copy(to, MIRRORED | of.sender, of.header, of.frame);
        }
    }
}
