//! The switch's page: port rules and mirror sessions, written by the switch, read by all ports.
//!
//! A sequence number guards it: odd during a write, and changed by every write. Ports load it once
//! per batch and read the rest only if it has changed, into copies of their own. A switch killed
//! during a write leaves an odd number: ports keep their copies. The meaning of rules is not
//! decided here. Specification: `docs/abi/switch-memory.md`.

use std::os::fd::BorrowedFd;

use netloom_bridge::FILTER_BYTES;

use crate::error::{Error, Result};
use crate::layout::page as at;
use crate::layout::{LENGTH_AT, PORTS};
use crate::memory::{Foreign, Sealed};
use crate::sync::{AtomicU64, Ordering, fence};

/// Most addresses in a port's list.
pub const MOST_MACS: usize = 32;

/// Attempts before a page under constant change is left for later.
const TRIES: usize = 64;

/// Words used of a port's rules.
const RULE_WORDS: usize = 2 + 64 + MOST_MACS;

/// Words used of a session.
const SESSION_WORDS: usize = 10 + FILTER_BYTES / 8;

/// A set of ports, one bit each.
pub type PortSet = [u64; PORTS / 64];

/// A port's rules, as stored in the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRules {
    /// Distinguishes successive members with this number; grows with each.
    pub generation: u32,
    /// VLAN mode: 0 any, 1 access, 2 trunk, 3 QinQ.
    pub mode: u8,
    /// Bits: [`at::LOCKED`], [`at::UNLEARNED`]; in mode 3 [`at::SOME_CVLANS`], and the tag's type from [`at::TPID_SHIFT`] on.
    pub flags: u8,
    /// VLAN of untagged frames, in mode 3 of all; 0 for none.
    pub native: u16,
    /// VLANs that a trunk carries, or that a customer has, one bit each.
    pub allowed: Box<[u64; 64]>,
    /// Addresses of this port, at most [`MOST_MACS`].
    pub macs: Vec<[u8; 6]>,
}

/// A mirror session, as stored in the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawSession {
    /// The port that receives copies; 0 for no session.
    pub to: u16,
    /// Ports whose frames to the switch are copied.
    pub from: PortSet,
    /// Ports whose frames from the switch are copied.
    pub toward: PortSet,
    /// Which of these frames: [`netloom_bridge::MirrorFilter`] in its fixed form.
    pub filter: [u8; FILTER_BYTES],
}

/// A consistent copy of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Its sequence number.
    pub sequence: u64,
    /// VLANs are separated.
    pub vlan_aware: bool,
    /// Rules of ports that have some, by number.
    pub ports: Vec<(u16, RawRules)>,
    /// Mirror sessions.
    pub sessions: Vec<RawSession>,
}

/// The switch's own page.
#[derive(Debug)]
pub struct Page {
    memory: Sealed,
}

impl Page {
    /// Creates an empty page.
    ///
    /// # Errors
    /// Memory or descriptors are exhausted.
    pub fn create() -> Result<Page> {
        let memory = Sealed::create("netloom-page", at::MAGIC, at::LENGTH, at::LENGTH as u64)?;
        Ok(Page { memory })
    }

    /// The descriptor to pass to ports.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    /// Changes the page; ports see all that `edit` does, or nothing.
    pub fn change(&mut self, edit: impl FnOnce(&mut Edit<'_>)) {
        let sequence = self.memory.word(at::SEQUENCE_AT);
        let now = sequence.load(Ordering::Relaxed);
        sequence.store(now + 1, Ordering::Relaxed);
        // A reader that sees any of the change then sees the odd number, too.
        fence(Ordering::Release);
        edit(&mut Edit { memory: &self.memory });
        sequence.store(now + 2, Ordering::Release);
    }
}

/// A change of a page in progress.
pub struct Edit<'a> {
    memory: &'a Sealed,
}

impl Edit<'_> {
    /// Sets whether VLANs are separated.
    pub fn set_vlan_aware(&mut self, aware: bool) {
        let flags = if aware { at::VLAN_AWARE } else { 0 };
        self.memory.word(at::FLAGS_AT).store(flags, Ordering::Relaxed);
    }

    /// Sets or removes a port's rules. Ignores an invalid number and addresses beyond
    /// [`MOST_MACS`].
    pub fn set_port(&mut self, number: u16, rules: Option<&RawRules>) {
        let number = usize::from(number);
        if number >= PORTS {
            return;
        }
        let (word, bit) = (self.memory.word(at::USED_AT + number / 64 * 8), 1 << (number % 64));
        let used = word.load(Ordering::Relaxed);
        let Some(rules) = rules else {
            word.store(used & !bit, Ordering::Relaxed);
            return;
        };
        word.store(used | bit, Ordering::Relaxed);
        self.store(at::RULES_AT + number * at::RULES, &rules.encode());
    }

    /// Sets or removes a mirror session. Ignores slots beyond the last.
    pub fn set_session(&mut self, slot: usize, session: Option<&RawSession>) {
        if slot < at::SESSIONS {
            let words = session.cloned().unwrap_or_default().encode();
            self.store(at::SESSIONS_AT + slot * at::SESSION, &words);
        }
    }

    fn store(&self, offset: usize, words: &[u64]) {
        for (index, word) in words.iter().enumerate() {
            self.memory.word(offset + 8 * index).store(*word, Ordering::Relaxed);
        }
    }
}

/// The switch's page as seen by a port.
#[derive(Debug)]
pub struct PeerPage {
    memory: Foreign,
}

impl PeerPage {
    /// Maps the page received from the switch.
    ///
    /// # Errors
    /// [`Error::Memory`] if it is not a page.
    pub fn open(fd: BorrowedFd<'_>) -> Result<PeerPage> {
        let memory = Foreign::open("switch page", fd, at::MAGIC, at::LENGTH, at::LENGTH)?;
        if memory.word(LENGTH_AT).load(Ordering::Relaxed) != at::LENGTH as u64 {
            return Err(Error::Memory { object: "switch page", reason: "of another length" });
        }
        Ok(PeerPage { memory })
    }

    /// The sequence number: if it differs from that of the last snapshot, take a new one.
    #[inline]
    pub fn sequence(&self) -> u64 {
        // Relaxed: a port that misses a change here sees it with a later frame.
        self.memory.fast_word::<{ at::SEQUENCE_AT }>().load(Ordering::Relaxed)
    }

    /// A snapshot, or `None` if the page is constantly being written: keep the old one then.
    pub fn snapshot(&self) -> Option<Snapshot> {
        (0..TRIES).find_map(|_| self.look())
    }

    fn look(&self) -> Option<Snapshot> {
        let sequence = self.sequence();
        fence(Ordering::Acquire);
        if sequence % 2 == 1 {
            std::hint::spin_loop();
            return None;
        }
        let mut snapshot = Snapshot {
            sequence,
            vlan_aware: self.load::<1>(at::FLAGS_AT)[0] & at::VLAN_AWARE != 0,
            ..Snapshot::default()
        };
        let used: PortSet = self.load(at::USED_AT);
        for number in 0..PORTS {
            if used[number / 64] >> (number % 64) & 1 == 1 {
                let rules = RawRules::decode(&self.load(at::RULES_AT + number * at::RULES));
                snapshot.ports.extend(u16::try_from(number).map(|number| (number, rules)));
            }
        }
        for slot in 0..at::SESSIONS {
            let session = RawSession::decode(&self.load(at::SESSIONS_AT + slot * at::SESSION));
            snapshot.sessions.extend((session.to != 0).then_some(session));
        }
        fence(Ordering::Acquire);
        // What was read counts only if no write began meanwhile.
        (self.sequence() == sequence).then_some(snapshot)
    }

    fn load<const N: usize>(&self, offset: usize) -> [u64; N] {
        std::array::from_fn(|index| {
            let word: &AtomicU64 = self.memory.word(offset + 8 * index);
            word.load(Ordering::Relaxed)
        })
    }
}

impl RawRules {
    fn encode(&self) -> [u64; RULE_WORDS] {
        let count = self.macs.len().min(MOST_MACS);
        let mut words = [0; RULE_WORDS];
        words[0] = u64::from(self.generation)
            | u64::from(self.mode) << 32
            | u64::from(self.flags) << 40
            | u64::from(self.native) << 48;
        words[1] = count as u64;
        words[2..66].copy_from_slice(&self.allowed[..]);
        for (word, mac) in words[66..].iter_mut().zip(&self.macs) {
            *word = mac_word(*mac);
        }
        words
    }

    fn decode(words: &[u64; RULE_WORDS]) -> RawRules {
        let [g0, g1, g2, g3, mode, flags, n0, n1] = words[0].to_le_bytes();
        // Bounds the slice below, whatever the page says.
        let count = usize::try_from(words[1]).map_or(MOST_MACS, |count| count.min(MOST_MACS));
        let mut allowed = Box::new([0; 64]);
        allowed.copy_from_slice(&words[2..66]);
        RawRules {
            generation: u32::from_le_bytes([g0, g1, g2, g3]),
            mode,
            flags,
            native: u16::from_le_bytes([n0, n1]),
            allowed,
            macs: words[66..66 + count].iter().map(|word| word_mac(*word)).collect(),
        }
    }
}

impl RawSession {
    fn encode(&self) -> [u64; SESSION_WORDS] {
        let mut words = [0; SESSION_WORDS];
        words[0] = u64::from(self.to);
        words[2..6].copy_from_slice(&self.from);
        words[6..10].copy_from_slice(&self.toward);
        for (word, bytes) in words[10..].iter_mut().zip(self.filter.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        words
    }

    fn decode(words: &[u64; SESSION_WORDS]) -> RawSession {
        let [to, _, a, b, c, d, e, f, g, h, filter @ ..] = *words;
        let [low, high, ..] = to.to_le_bytes();
        let mut session = RawSession {
            to: u16::from_le_bytes([low, high]),
            from: [a, b, c, d],
            toward: [e, f, g, h],
            filter: [0; FILTER_BYTES],
        };
        for (bytes, word) in session.filter.as_chunks_mut::<8>().0.iter_mut().zip(filter) {
            *bytes = word.to_ne_bytes();
        }
        session
    }
}

fn mac_word([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

fn word_mac(word: u64) -> [u8; 6] {
    let [a, b, c, d, e, f, _, _] = word.to_le_bytes();
    [a, b, c, d, e, f]
}

const _: () = {
    assert!(RULE_WORDS * 8 <= at::RULES && SESSION_WORDS * 8 <= at::SESSION);
};

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(seed: u8) -> RawRules {
        RawRules {
            generation: u32::from(seed) << 20,
            mode: seed % 3,
            flags: seed,
            native: u16::from(seed) * 16,
            allowed: Box::new(std::array::from_fn(|word| word as u64 * u64::from(seed))),
            macs: vec![[seed; 6]; usize::from(seed) % (MOST_MACS + 1)],
        }
    }

    fn session(to: u16) -> RawSession {
        let filter = std::array::from_fn(|byte| byte.to_le_bytes()[0]);
        RawSession { to, from: [1, 2, 3, 4], toward: [5, 6, 7, u64::MAX], filter }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut page = Page::create().unwrap();
        let peer = PeerPage::open(page.fd()).unwrap();
        assert_eq!(peer.snapshot(), Some(Snapshot::default()));
        page.change(|edit| {
            edit.set_vlan_aware(true);
            for number in [0, 1, 63, 64, 255, 256, u16::MAX] {
                edit.set_port(number, Some(&rules(number.to_le_bytes()[0])));
            }
            edit.set_session(2, Some(&session(7)));
            edit.set_session(at::SESSIONS - 1, Some(&session(255)));
            edit.set_session(at::SESSIONS, Some(&session(1)));
        });
        let found = peer.snapshot().unwrap();
        assert_eq!((found.sequence, found.vlan_aware), (2, true));
        let ports = [0, 1, 63, 64, 255].map(|number: u16| (number, rules(number.to_le_bytes()[0])));
        assert_eq!(found.ports, ports);
        assert_eq!(found.sessions, [session(7), session(255)]);
        page.change(|edit| {
            edit.set_port(63, None);
            edit.set_session(2, None);
        });
        let found = peer.snapshot().unwrap();
        assert_eq!((found.sequence, found.ports.len(), found.sessions.len()), (4, 4, 1));
    }

    #[test]
    fn a_page_left_half_written_is_not_read() {
        let page = Page::create().unwrap();
        let peer = PeerPage::open(page.fd()).unwrap();
        page.memory.word(at::SEQUENCE_AT).store(3, Ordering::Relaxed);
        assert_eq!((peer.sequence(), peer.snapshot()), (3, None));
    }

    /// A change is seen whole, or not at all.
    #[test]
    fn snapshots_are_whole() {
        let mut page = Page::create().unwrap();
        let peer = PeerPage::open(page.fd()).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..2000_u32 {
                    let of = rules(round.to_le_bytes()[0]);
                    page.change(|edit| (1..4).for_each(|port| edit.set_port(port, Some(&of))));
                }
                done.store(true, Ordering::Release);
            });
            let mut seen = 0;
            while !done.load(Ordering::Acquire) || seen == 0 {
                let Some(found) = peer.snapshot() else { continue };
                seen += 1;
                assert!(found.ports.iter().all(|(_, rules)| *rules == found.ports[0].1));
            }
        });
    }
}
