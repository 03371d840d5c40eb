//! Mirror sessions: which port gets a copy of which frames.
//!
//! A session is one port that gets copies of frames that enter the switch at some ports (`In`: the
//! port sent them) or leave it there (`Out`: the port gets them). A frame is copied once per session,
//! however many of its ports it passes, and never to the port that sent it. The caller ensures that
//! copies are not copied.
//! Only a session's sources make copies, so that nobody else is believed: the receiver
//! if frames it gets are mirrored, else the sender.

use crate::MOST_PORTS;
use crate::PortNumber;
use crate::error::{Error, Result};
use crate::filter::MirrorFilter;

/// How many sessions a switch may have.
pub const MOST_MIRRORS: usize = 16;

/// Which frames of a port are copied, seen from the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Frames that it sends.
    In,
    /// Frames that it gets.
    Out,
    /// All.
    #[default]
    Both,
}

impl Direction {
    /// Whether frames that the port sends are copied.
    pub fn has_in(self) -> bool {
        self != Direction::Out
    }

    /// Whether frames that the port gets are copied.
    pub fn has_out(self) -> bool {
        self != Direction::In
    }
}

/// A session: the copies for one port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorSession {
    /// The port that gets them.
    pub to: PortNumber,
    /// Whose frames are copied.
    pub sources: Vec<(PortNumber, Direction)>,
    /// Which of these frames.
    pub filter: MirrorFilter,
}

/// All sessions, with masks precomputed for each port.
#[derive(Clone, Debug, Default)]
pub struct Mirrors {
    sessions: Vec<MirrorSession>,
    /// By port: sessions that copy the frames it sends, and those it gets. Empty without sessions.
    masks: Vec<(u16, u16)>,
}

impl Mirrors {
    /// Prepares sessions, at most [`MOST_MIRRORS`].
    pub fn new(sessions: Vec<MirrorSession>) -> Result<Mirrors> {
        let (has, most) = (sessions.len(), MOST_MIRRORS);
        if has > most {
            return Err(Error::TooMany { object: "mirror sessions", has, most });
        }
        let ports = if has == 0 { 0 } else { usize::from(MOST_PORTS) + 1 };
        let mut masks = vec![(0, 0); ports];
        for (place, session) in sessions.iter().enumerate() {
            check(session.to)?;
            for (port, direction) in &session.sources {
                check(*port)?;
                let Some((entering, leaving)) = masks.get_mut(usize::from(*port)) else { continue };
                *entering |= u16::from(direction.has_in()) << place;
                *leaving |= u16::from(direction.has_out()) << place;
            }
        }
        Ok(Mirrors { sessions, masks })
    }

    /// Whether there is no session.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The sessions, as given.
    pub fn sessions(&self) -> &[MirrorSession] {
        &self.sessions
    }

    /// Sessions that copy frames a port sends: bit n is session n.
    #[inline]
    pub fn entering(&self, port: PortNumber) -> u16 {
        self.masks.get(usize::from(port)).map_or(0, |(entering, _)| *entering)
    }

    /// Sessions that copy frames a port gets: bit n is session n.
    #[inline]
    pub fn leaving(&self, port: PortNumber) -> u16 {
        self.masks.get(usize::from(port)).map_or(0, |(_, leaving)| *leaving)
    }

    /// Sessions for which the sender of a frame makes the copy: it is a source, and the receiver,
    /// which takes precedence, is not.
    #[inline]
    pub fn copied_by_sender(&self, sender: PortNumber, receiver: PortNumber) -> u16 {
        // Otherwise a frame between two sources of a session would be copied twice.
        self.entering(sender) & !self.leaving(receiver)
    }

    /// Sessions for which the receiver of a frame makes the copy.
    #[inline]
    pub fn copied_by_receiver(&self, receiver: PortNumber) -> u16 {
        self.leaving(receiver)
    }

    /// Sessions for which `by` may make copies of frames of `sender`.
    pub fn vouched_for(&self, by: PortNumber, sender: PortNumber) -> u16 {
        // One that copies another's frame got it: only what leaves at its own port is there to be copied.
        if by == sender { self.entering(by) } else { self.leaving(by) }
    }

    /// Whether a port makes copies for another.
    pub fn feeds(&self, from: PortNumber, to: PortNumber) -> bool {
        self.of(self.entering(from) | self.leaving(from)).any(|session| session.to == to)
    }

    /// The sessions of these bits.
    pub fn of(&self, bits: u16) -> impl Iterator<Item = &MirrorSession> {
        self.sessions.iter().enumerate().filter_map(move |(n, s)| (bits >> n & 1 != 0).then_some(s))
    }
}

fn check(port: PortNumber) -> Result<()> {
    if (1..=MOST_PORTS).contains(&port) { Ok(()) } else { Err(Error::Port { number: port }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(to: PortNumber, sources: &[(PortNumber, Direction)]) -> MirrorSession {
        MirrorSession { to, sources: sources.to_vec(), ..Default::default() }
    }

    #[test]
    fn masks() {
        let mirrors = Mirrors::new(vec![
            session(9, &[(1, Direction::In), (2, Direction::Out)]),
            session(8, &[(1, Direction::Both), (1, Direction::In)]),
        ])
        .unwrap();
        assert_eq!((mirrors.entering(1), mirrors.leaving(1)), (0b11, 0b10));
        assert_eq!((mirrors.entering(2), mirrors.leaving(2)), (0, 0b01));
        assert_eq!((mirrors.entering(300), mirrors.leaving(3)), (0, 0));
        let to = |bits| mirrors.of(bits).map(|s| s.to).collect::<Vec<_>>();
        assert_eq!(to(0), []);
        assert_eq!(to(0b10), [8]);
        let feeds = |from| [8, 9, 7].map(|to| mirrors.feeds(from, to));
        assert_eq!(feeds(1), [true, true, false]);
        assert_eq!((feeds(2), feeds(9)), ([false, true, false], [false; 3]));
        assert_eq!(to(0xffff), [9, 8]);
    }

    #[test]
    fn each_copy_is_made_by_one_source() {
        let mirrors = Mirrors::new(vec![
            session(9, &[(1, Direction::Both)]),
            session(8, &[(1, Direction::In), (2, Direction::Out)]),
        ])
        .unwrap();
        for (sender, receiver) in [(1, 2), (2, 1), (1, 3), (3, 1), (3, 2), (2, 3), (3, 4)] {
            let wanted = mirrors.entering(sender) | mirrors.leaving(receiver);
            let by_sender = mirrors.copied_by_sender(sender, receiver);
            let by_receiver = mirrors.copied_by_receiver(receiver);
            assert_eq!(by_sender | by_receiver, wanted, "{sender} to {receiver}");
            assert_eq!(by_sender & by_receiver, 0, "{sender} to {receiver}");
            assert_eq!(mirrors.vouched_for(sender, sender) & by_sender, by_sender);
            assert_eq!(mirrors.vouched_for(receiver, sender) & by_receiver, by_receiver);
        }
        assert_eq!((mirrors.vouched_for(3, 3), mirrors.vouched_for(3, 1)), (0, 0));
        assert_eq!((mirrors.vouched_for(2, 2), mirrors.vouched_for(2, 1)), (0, 0b10));
        assert_eq!((mirrors.vouched_for(1, 1), mirrors.vouched_for(1, 7)), (0b11, 0b01));
    }

    #[test]
    fn what_has_no_place_is_refused() {
        assert!(Mirrors::new(vec![]).unwrap().is_empty());
        assert_eq!(Mirrors::new(vec![]).unwrap().entering(1), 0);
        assert!(Mirrors::new(vec![session(0, &[])]).is_err());
        assert!(Mirrors::new(vec![session(1, &[(256, Direction::In)])]).is_err());
        assert!(Mirrors::new(vec![session(1, &[]); 16]).is_ok());
        assert!(Mirrors::new(vec![session(1, &[]); 17]).is_err());
    }
}
