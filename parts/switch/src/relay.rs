//! The switch's own forwarding: frames that no edge carries.
//!
//! Frames arrive on uplinks and are copied into downlinks. Uplinks get turns of equal length (deficit round
//! robin) and each sender a share of each downlink (`shares.rs`): a sender that floods loses its own frames.
//! A frame that no receiver has room for is held together with its uplink, so that its sender waits; the wait
//! is bounded, and happens once for a receiver that does not move. A frame is copied before it is inspected,
//! judged by the rules of the sending port, and forwarded unchanged with its origin; receivers add and remove
//! tags. A sender of impossible data loses its port; others are not affected. See IEEE 802.1Q-2022, 8.6
//! (forwarding) and 8.7 (learning).

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netloom_bridge::{
    Class, Destination, Drop, Mac, MacTable, Mirrors, SwitchRules, Vid, classify, decide, egress,
};
use netloom_packet::VnetHeader;
use netloom_shm::inbox::{Counter, Inbox};
use netloom_shm::layout::{HEADER, LONGEST_FRAME, PORTS};
use netloom_shm::page::Page;
use netloom_shm::protocol::MIRRORED;
use netloom_shm::ring::{Pushed, Taken};
use netloom_sys::Failure;

use crate::Result;
use crate::error::SWITCH;
use crate::options::Options;
use crate::port::{Held, Open, Port};
use crate::publish;
use crate::rules::Rules;
use crate::system::random;

/// Bytes of frames taken from one uplink per turn. A frame that exceeds the turn is charged to the next one.
const TURN: i64 = 32 * 1024;

/// Minimum cost of a frame, in bytes of a turn.
const LEAST: usize = 256;

/// How long a frame is held for receivers without room. A receiver that has not moved by then is not waited
/// for again until it moves.
const HOLD: Duration = Duration::from_millis(100);

/// Interval between checks for room.
const LOOK: Duration = Duration::from_micros(500);

/// Size of the switch's address table.
const ADDRESSES: usize = 8192;

/// The ports with their rings, and the state for forwarding decisions.
pub(crate) struct Hub {
    ports: Vec<Option<Box<Port>>>,
    /// Numbers of the ports in `ports`.
    here: Vec<u8>,
    rules: SwitchRules,
    mirrors: Mirrors,
    table: MacTable,
    page: Page,
    pub(crate) inbox: Inbox,
    buffer: Vec<u8>,
    /// Downlinks with unpublished frames.
    written: Vec<u8>,
    /// Ports with corrupt uplinks.
    bad: Vec<u8>,
    /// Ports that wait for an edge.
    opening: Vec<u8>,
    /// Ports that had no room for the current frame.
    full: Vec<u8>,
    /// Number of held uplinks.
    holding: usize,
    asleep: bool,
}

/// Result of giving a frame to a port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    Done,
    /// There is no room, or none for this sender.
    Full,
    No,
}

/// Whether a frame may be held when no receiver has room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Waits,
    IsOver,
}

/// A frame being relayed.
struct Frame<'a> {
    /// The number of its sender.
    from: u8,
    vid: Option<Vid>,
    /// Its header and the frame itself.
    whole: &'a [u8],
}

impl Hub {
    pub(crate) fn new(rules: &Rules, options: &Options) -> Result<Hub> {
        let seed = u64::from_ne_bytes(random()?);
        let shared = Failure::of(SWITCH, "make memory");
        let mut hub = Hub {
            ports: (0..PORTS).map(|_| None).collect(),
            here: Vec::new(),
            rules: SwitchRules::new(),
            mirrors: Mirrors::default(),
            table: MacTable::new(ADDRESSES, options.ageing, seed),
            page: Page::create().map_err(&shared)?,
            inbox: Inbox::create().map_err(&shared)?,
            buffer: vec![0; HEADER + LONGEST_FRAME],
            written: Vec::new(),
            bad: Vec::new(),
            opening: Vec::new(),
            full: Vec::new(),
            holding: 0,
            asleep: false,
        };
        hub.set_rules(rules)?;
        Ok(hub)
    }

    /// Sets the rules that apply from the next frame on.
    pub(crate) fn set_rules(&mut self, rules: &Rules) -> Result<()> {
        let (bridge, mirrors) = rules.bridge()?;
        if bridge.vlan_aware() != self.rules.vlan_aware() {
            self.table.clear();
        }
        publish::publish(&mut self.page, &bridge, &mirrors);
        (self.rules, self.mirrors) = (bridge, mirrors);
        Ok(())
    }

    pub(crate) fn is_vlan_aware(&self) -> bool {
        self.rules.vlan_aware()
    }

    pub(crate) fn page(&self) -> &Page {
        &self.page
    }

    pub(crate) fn table(&self) -> &MacTable {
        &self.table
    }

    pub(crate) fn has(&self, number: u8) -> bool {
        self.port(number).is_some()
    }

    pub(crate) fn port(&self, number: u8) -> Option<&Port> {
        self.ports.get(usize::from(number))?.as_deref()
    }

    pub(crate) fn put(&mut self, number: u8, port: Port) {
        self.wake_up();
        if let Some(place) = self.ports.get_mut(usize::from(number)) {
            *place = Some(Box::new(port));
            self.here.push(number);
        }
    }

    pub(crate) fn take(&mut self, number: u8) -> Option<Box<Port>> {
        let port = self.ports.get_mut(usize::from(number))?.take()?;
        self.here.retain(|n| *n != number);
        self.written.retain(|n| *n != number);
        self.bad.retain(|n| *n != number);
        self.opening.retain(|n| *n != number);
        self.holding -= usize::from(port.held.is_some());
        self.table.forget_port(u16::from(number), |_| {});
        Some(port)
    }

    /// An uplink's bell rang.
    pub(crate) fn wake_up(&mut self) {
        if std::mem::take(&mut self.asleep) {
            self.inbox.wake_up();
        }
    }

    /// How long the process may sleep unless a bell rings; unbounded if there is nothing to relay.
    pub(crate) fn pause(&self) -> Option<Duration> {
        match (self.asleep, self.holding) {
            (false, _) => Some(Duration::ZERO),
            (true, 0) => None,
            (true, _) => Some(LOOK),
        }
    }

    /// Gives each uplink a turn; sleeps if there was nothing. Returns the ports to drop because of corrupt
    /// memory.
    #[must_use]
    pub(crate) fn relay(&mut self, now: Instant) -> Vec<u8> {
        if self.holding > 0 {
            self.wake_up();
        }
        if !self.asleep {
            let mut any = false;
            for place in 0..self.here.len() {
                let Some(number) = self.here.get(place).copied() else { break };
                any |= self.turn(number, now);
            }
            self.flush();
            // Rotate, so that no port is always the first to find room.
            let step = usize::from(!self.here.is_empty());
            self.here.rotate_left(step);
            if !any {
                self.sleep();
            }
        }
        std::mem::take(&mut self.bad)
    }

    /// Arms the bells, unless frames that are not held have arrived already.
    fn sleep(&mut self) {
        self.inbox.fall_asleep();
        self.asleep = true;
        let more = |number: &u8| {
            self.port(*number).is_some_and(|port| port.held.is_none() && port.uplink.has_more())
        };
        if self.here.iter().any(more) {
            self.wake_up();
        }
    }

    /// Registers a port's request for an edge. The port gets it ([`Hub::due`]) once all its frames up to now
    /// are relayed, so frames on the edge stay behind them. A port has at most one pending request for each
    /// receiver.
    pub(crate) fn ask(&mut self, from: u8, to: u8, ring: OwnedFd) {
        let Some(port) = self.ports.get_mut(usize::from(from)).and_then(Option::as_mut) else {
            return;
        };
        let Some(after) = port.uplink.shown() else { return self.bad.push(from) };
        port.opens.retain(|open| open.to != to);
        port.opens.push(Open { to, ring, after });
        if !self.opening.contains(&from) {
            self.opening.push(from);
        }
        self.wake_up();
    }

    /// Edges now due, with the port that requested each. All relayed frames are published.
    pub(crate) fn due(&mut self) -> Vec<(u8, Open)> {
        let mut due = Vec::new();
        for number in std::mem::take(&mut self.opening) {
            let port = self.ports.get_mut(usize::from(number)).and_then(Option::as_mut);
            let Some(port) = port else { continue };
            let relayed = port.relayed;
            let ready = port.opens.extract_if(.., |open| open.after <= relayed);
            due.extend(ready.map(|open| (number, open)));
            if !port.opens.is_empty() {
                self.opening.push(number);
            }
        }
        due
    }

    /// Relays frames of a port until there are no more, its turn is over, or one must be held. Returns
    /// whether any were relayed.
    fn turn(&mut self, number: u8, now: Instant) -> bool {
        let seconds = seconds();
        let mut any = self.try_held(number, seconds, now);
        match self.ports.get_mut(usize::from(number)).and_then(Option::as_mut) {
            Some(port) if port.held.is_none() => port.credit += TURN,
            _ => return any,
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(found) = self.draw(number, &mut buffer) {
            let whole = buffer.get(found).unwrap_or_default();
            if !self.pass(number, whole, seconds, Patience::Waits) {
                self.hold(number, Held { whole: whole.to_vec(), since: now });
                break;
            }
            any = true;
        }
        self.buffer = buffer;
        any
    }

    /// Takes the next frame of a port's uplink while its turn lasts. All earlier frames are relayed.
    fn draw(&mut self, number: u8, buffer: &mut [u8]) -> Option<Range<usize>> {
        loop {
            let port = self.ports.get_mut(usize::from(number)).and_then(Option::as_mut)?;
            port.relayed = port.uplink.taken();
            if port.credit <= 0 {
                return None;
            }
            match port.uplink.take(&self.inbox, buffer) {
                Taken::Frame { start, length, .. } => {
                    port.credit -= cost(length);
                    return Some(start..start + length);
                }
                Taken::Truncated { length } => {
                    port.credit -= cost(length);
                    self.drop_frame(number, Drop::Oversize);
                }
                Taken::Empty => {
                    port.credit = 0;
                    return None;
                }
                Taken::Corrupt => {
                    self.inbox.add(Counter::CorruptEdges, 1);
                    self.bad.push(number);
                    return None;
                }
            }
        }
    }

    /// Keeps a frame that no receiver has room for: nothing more is taken from its sender until the frame is
    /// gone.
    fn hold(&mut self, number: u8, held: Held) {
        if let Some(port) = self.ports.get_mut(usize::from(number)).and_then(Option::as_mut) {
            port.credit = 0;
            port.held = Some(held);
            self.holding += 1;
        }
    }

    /// Retries a port's held frame; returns whether it is gone now.
    fn try_held(&mut self, number: u8, seconds: u32, now: Instant) -> bool {
        let port = self.ports.get_mut(usize::from(number)).and_then(Option::as_mut);
        let Some(held) = port.and_then(|port| port.held.take()) else { return false };
        self.holding -= 1;
        let is_over = now.saturating_duration_since(held.since) >= HOLD;
        let patience = if is_over { Patience::IsOver } else { Patience::Waits };
        let is_gone = self.pass(number, &held.whole, seconds, patience);
        if !is_gone {
            self.hold(number, held);
        }
        is_gone
    }

    /// Relays or drops one frame; false if it must be held.
    fn pass(&mut self, from: u8, whole: &[u8], now: u32, patience: Patience) -> bool {
        let bytes = whole.len().saturating_sub(HEADER);
        let judged = self.judge(from, whole, now, patience);
        if judged == Ok(false) {
            return false;
        }
        self.inbox.add(Counter::ReceivedFrames, 1);
        self.inbox.add(Counter::ReceivedBytes, bytes as u64);
        match judged {
            Err(cause) => self.drop_frame(from, cause),
            Ok(_) => self.inbox.add_taken(u16::from(from), 1, bytes as u64),
        }
        true
    }

    /// Judges a frame and gives it to its receivers; false if it must be held.
    fn judge(
        &mut self,
        from: u8,
        whole: &[u8],
        now: u32,
        patience: Patience,
    ) -> std::result::Result<bool, Drop> {
        let (header, frame) = whole.split_at_checked(HEADER).ok_or(Drop::Runt)?;
        let port = u16::from(from);
        let class = classify(&self.rules, port, frame)?;
        VnetHeader::parse(header).map_err(|_| Drop::Header)?;
        let source = Mac::source(frame).ok_or(Drop::Runt)?;
        let destination = Mac::destination(frame).ok_or(Drop::Runt)?;
        if self.rules.port(port).learn {
            self.table.learn(class.vid, source, port, now);
        }
        let only = match decide(destination) {
            Destination::Reserved(_) => return Err(Drop::Reserved),
            Destination::Unicast => self.table.lookup(class.vid, destination, now),
            Destination::Broadcast | Destination::Multicast => None,
        };
        if only == Some(port) {
            return Err(Drop::Same);
        }
        let frame = Frame { from, vid: class.vid, whole };
        let Some(leaving) = self.spread(&frame, class, only, patience) else { return Ok(false) };
        let sessions = self.mirrors.entering(port) | leaving;
        if sessions != 0 {
            self.mirror(sessions, &frame);
        }
        Ok(true)
    }

    /// Gives a frame to all its receivers. Returns the mirror sessions that copy it on egress, or `None` if
    /// no receiver had room, one may soon, and the frame may still wait.
    fn spread(
        &mut self,
        frame: &Frame<'_>,
        class: Class,
        only: Option<u16>,
        patience: Patience,
    ) -> Option<u16> {
        self.full.clear();
        let (mut sessions, mut is_given) = (0, false);
        for place in 0..self.here.len() {
            let Some(to) = self.here.get(place).copied() else { break };
            let wanted = to != frame.from && only.is_none_or(|only| only == u16::from(to));
            if !wanted || egress(&self.rules, u16::from(to), class).is_err() {
                continue;
            }
            match self.give(to, u16::from(frame.from), frame) {
                Given::Done => {
                    is_given = true;
                    sessions |= self.mirrors.leaving(u16::from(to));
                }
                Given::Full => self.full.push(to),
                Given::No => {}
            }
        }
        if self.full.is_empty() {
            return Some(sessions);
        }
        let full = std::mem::take(&mut self.full);
        let waits = patience == Patience::Waits && !is_given && self.any_moves(&full);
        if !waits {
            self.miss(frame.from, &full, patience);
        }
        self.full = full;
        (!waits).then_some(sessions)
    }

    /// Whether any of these ports has moved since the last wait for it timed out.
    fn any_moves(&self, ports: &[u8]) -> bool {
        let moves = |port: &Port| port.stalled != Some(port.shares.tail());
        ports.iter().any(|number| self.port(*number).is_some_and(moves))
    }

    /// Counts a frame that these ports had no room for, on them and on its sender.
    fn miss(&mut self, from: u8, ports: &[u8], patience: Patience) {
        for number in ports {
            let port = self.ports.get_mut(usize::from(*number)).and_then(Option::as_mut);
            let Some(port) = port else { continue };
            port.missed += 1;
            if patience == Patience::IsOver {
                port.stalled = Some(port.shares.tail());
            }
            self.drop_frame(from, Drop::Full);
        }
    }

    fn mirror(&mut self, sessions: u16, frame: &Frame<'_>) {
        let body = frame.whole.get(HEADER..).unwrap_or_default();
        let wanted = self.mirrors.of(sessions).filter(|s| s.filter.matches(frame.vid, body));
        let to: Vec<u16> = wanted.map(|s| s.to).filter(|to| *to != u16::from(frame.from)).collect();
        for to in to.into_iter().filter_map(|to| u8::try_from(to).ok()) {
            match self.give(to, u16::from(frame.from) | MIRRORED, frame) {
                Given::Done => self.inbox.add(Counter::Mirrored, 1),
                Given::Full => {
                    self.inbox.add(Counter::DroppedFull, 1);
                    let port = self.ports.get_mut(usize::from(to)).and_then(Option::as_mut);
                    port.into_iter().for_each(|port| port.missed += 1);
                }
                Given::No => {}
            }
        }
    }

    /// Writes a frame to a downlink, if the sender's share allows it.
    fn give(&mut self, to: u8, origin: u16, frame: &Frame<'_>) -> Given {
        let port = self.ports.get_mut(usize::from(to)).and_then(Option::as_mut);
        let Some(port) = port else { return Given::No };
        let pushed = match port.admits(frame.from, frame.whole.len()) {
            Some(true) => port.downlink.queue(origin, frame.whole),
            Some(false) => Pushed::Full,
            None => Pushed::Corrupt,
        };
        match pushed {
            Pushed::Done => {
                port.shares.wrote(frame.from, port.downlink.written());
                if !std::mem::replace(&mut port.written, true) {
                    self.written.push(to);
                }
                let bytes = frame.whole.len().saturating_sub(HEADER);
                self.inbox.add(Counter::SentFrames, 1);
                self.inbox.add(Counter::SentBytes, bytes as u64);
                Given::Done
            }
            Pushed::Full => {
                // Publish at once: a slow receiver must not also wait for the end of the turn.
                if port.downlink.flush() {
                    self.inbox.add(Counter::Wakes, 1);
                }
                Given::Full
            }
            Pushed::Refused => {
                self.inbox.add(Counter::DroppedOversize, 1);
                Given::No
            }
            Pushed::Corrupt => {
                self.inbox.add(Counter::CorruptEdges, 1);
                self.bad.push(to);
                Given::No
            }
        }
    }

    /// Publishes written frames.
    fn flush(&mut self) {
        for number in std::mem::take(&mut self.written) {
            let port = self.ports.get_mut(usize::from(number)).and_then(Option::as_mut);
            let Some(port) = port else { continue };
            port.written = false;
            if port.downlink.flush() {
                self.inbox.add(Counter::Wakes, 1);
            }
        }
    }

    fn drop_frame(&self, from: u8, cause: Drop) {
        self.inbox.add(cause.into(), 1);
        self.inbox.add_drops(u16::from(from), 1);
    }
}

/// Cost of a frame in bytes of a turn.
fn cost(length: usize) -> i64 {
    i64::try_from(length.max(LEAST)).unwrap_or(i64::MAX)
}

/// Seconds of the machine-wide clock that address tables use.
pub(crate) fn seconds() -> u32 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u32::try_from(now.tv_sec).unwrap_or(0)
}

/// The switch's own counters for display.
pub(crate) fn counters(inbox: &Inbox) -> impl Iterator<Item = (String, u64)> + '_ {
    let value = |counter: &Counter| (counter.name().to_owned(), inbox.counter(*counter));
    Counter::ALL.iter().map(value).filter(|(_, value)| *value > 0)
}

/// Counters of a port's inbox for display.
pub(crate) fn counters_of(port: &Port) -> impl Iterator<Item = (String, u64)> + '_ {
    let inbox: &Arc<_> = port.downlink.inbox();
    Counter::ALL.iter().map(|counter| (counter.name().to_owned(), inbox.counter(*counter)))
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
