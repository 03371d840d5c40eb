//! The switch's own forwarding: frames that no edge carries.
//!
//! Frames arrive on uplinks, which get turns of equal length (deficit round robin), and are copied into
//! downlinks (`relay/spread.rs`). A frame that a receiver has no room for is held together with its uplink, so
//! that its sender waits, bounded. A sender of frames for a station that the switch knows is told where it is
//! (`notices.rs`). A frame is copied before it is inspected, judged by the rules of the sending port, and
//! forwarded unchanged with its origin; receivers add and remove tags. A sender of impossible data loses its
//! port; others are not affected. See IEEE 802.1Q-2022, 8.6 (forwarding) and 8.7 (learning).

mod spread;

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netloom_bridge::{
    Destination, Drop, Mac, MacTable, Mirrors, SwitchRules, classify, decide, egress,
};
use netloom_packet::VnetHeader;
use netloom_shm::inbox::{Counter, Inbox};
use netloom_shm::layout::{HEADER, LONGEST_FRAME, PORTS};
use netloom_shm::page::Page;
use netloom_shm::ring::Taken;
use netloom_sys::Failure;

use crate::Result;
use crate::error::SWITCH;
use crate::notices::Hint;
use crate::options::Options;
use crate::port::{Held, Open, Port};
use crate::publish;
use crate::rules::Rules;
use crate::system::random;
use spread::{Frame, Patience};

/// Bytes of frames taken from one uplink per turn. A frame that exceeds the turn is charged to the next one.
const TURN: i64 = 32 * 1024;

/// Minimum cost of a frame, in bytes of a turn.
const LEAST: usize = 256;

/// How long a frame is held for a receiver without room. A receiver that has not moved by then is not waited
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
    /// Stations that senders are to be told of.
    hints: Vec<Hint>,
    /// Number of held uplinks.
    holding: usize,
    asleep: bool,
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
            hints: Vec::new(),
            holding: 0,
            asleep: false,
        };
        hub.set_rules(rules)?;
        Ok(hub)
    }

    /// Sets the rules that apply from the next frame on.
    pub(crate) fn set_rules(&mut self, rules: &Rules) -> Result<()> {
        let (bridge, mirrors) = rules.bridge()?;
        // Addresses are learned by VLAN only where there are any: none of the old ones would be found.
        if bridge.vlan_aware() != self.rules.vlan_aware() {
            self.table.clear();
        }
        publish::publish(&mut self.page, &bridge, &mirrors);
        (self.rules, self.mirrors) = (bridge, mirrors);
        Ok(())
    }

    /// The rules and the mirror sessions in force.
    pub(crate) fn rules(&self) -> (&SwitchRules, &Mirrors) {
        (&self.rules, &self.mirrors)
    }

    pub(crate) fn is_vlan_aware(&self) -> bool {
        self.rules.vlan_aware()
    }

    /// Whether a port may have an edge to another: they share a VLAN, or it makes copies for it.
    pub(crate) fn permits(&self, from: u8, to: u8) -> bool {
        let (from, to) = (from.into(), to.into());
        self.rules.share_vlan(from, to) || self.mirrors.feeds(from, to)
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

    /// Relays or drops what a port that leaves has sent up to now; nothing waits.
    pub(crate) fn finish(&mut self, number: u8, now: Instant) {
        let uplink = self.port(number).map(|port| &port.uplink).filter(|ring| !ring.is_corrupt());
        // Read once: a port that goes on writing must not keep the switch here.
        let Some(end) = uplink.and_then(netloom_shm::ring::Reader::shown) else { return };
        let seconds = seconds();
        if let Some(mut held) = self.unhold(number) {
            self.pass(number, &mut held, seconds, now, Patience::IsOver);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(port) = self.ports.get_mut(usize::from(number)).and_then(Option::as_mut)
            && port.uplink.taken() < end
        {
            // Its last turn has no end but the ring's.
            port.credit = TURN;
            let Some(found) = self.draw(number, &mut buffer) else { break };
            let whole = buffer.get(found).unwrap_or_default();
            self.pass(number, &mut Held::new(whole, now), seconds, now, Patience::IsOver);
        }
        self.buffer = buffer;
        self.flush();
    }

    pub(crate) fn take(&mut self, number: u8) -> Option<Box<Port>> {
        let port = self.ports.get_mut(usize::from(number))?.take()?;
        self.here.retain(|n| *n != number);
        self.written.retain(|n| *n != number);
        self.bad.retain(|n| *n != number);
        self.opening.retain(|n| *n != number);
        self.holding -= usize::from(port.held.is_some());
        // Its number may become another port's, whose frames are not for these stations.
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
        // A receiver that makes room rings no bell here: it is looked for.
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
        // Looked for after the bells are armed: what came before rang none.
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
        // What the port has sent up to now: on the edge, frames would overtake these.
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
            let mut frame = Held::new(whole, now);
            if !self.pass(number, &mut frame, seconds, now, Patience::Waits) {
                // The buffer is for the next port's frames: what waits gets memory of its own.
                self.hold(number, frame.owned());
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
                // As in deficit round robin: a queue that was empty saves up nothing.
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

    /// Keeps a frame that receivers have no room for: nothing more is taken from its sender until the frame is
    /// gone.
    fn hold(&mut self, number: u8, held: Held<'static>) {
        if let Some(port) = self.ports.get_mut(usize::from(number)).and_then(Option::as_mut) {
            port.credit = 0;
            port.held = Some(held);
            self.holding += 1;
        }
    }

    fn unhold(&mut self, number: u8) -> Option<Held<'static>> {
        let port = self.ports.get_mut(usize::from(number)).and_then(Option::as_mut)?;
        let held = port.held.take()?;
        self.holding -= 1;
        Some(held)
    }

    /// Retries a port's held frame; returns whether it is gone now.
    fn try_held(&mut self, number: u8, seconds: u32, now: Instant) -> bool {
        let Some(mut held) = self.unhold(number) else { return false };
        let is_over = now.saturating_duration_since(held.since) >= HOLD;
        let patience = if is_over { Patience::IsOver } else { Patience::Waits };
        let is_gone = self.pass(number, &mut held, seconds, now, patience);
        if !is_gone {
            self.hold(number, held);
        }
        is_gone
    }

    /// Relays or drops one frame; false if it must be held.
    fn pass(
        &mut self,
        from: u8,
        held: &mut Held<'_>,
        seconds: u32,
        now: Instant,
        patience: Patience,
    ) -> bool {
        let bytes = held.whole.len().saturating_sub(HEADER);
        let judged = self.judge(from, held, seconds, now, patience);
        if judged == Ok(false) {
            return false;
        }
        // Only now: a held frame is judged more than once.
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
        held: &mut Held<'_>,
        seconds: u32,
        now: Instant,
        patience: Patience,
    ) -> std::result::Result<bool, Drop> {
        let (header, body) = held.whole.split_at_checked(HEADER).ok_or(Drop::Runt)?;
        let port = u16::from(from);
        let class = classify(&self.rules, port, body)?;
        VnetHeader::parse(header).map_err(|_| Drop::Header)?;
        let source = Mac::source(body).ok_or(Drop::Runt)?;
        let destination = Mac::destination(body).ok_or(Drop::Runt)?;
        if self.rules.port(port).learn {
            self.table.learn(class.vid, source, port, seconds);
        }
        let only = match decide(destination) {
            Destination::Reserved(_) => return Err(Drop::Reserved),
            Destination::Unicast => self.table.lookup(class.vid, destination, seconds),
            Destination::Broadcast | Destination::Multicast => None,
        };
        if only == Some(port) {
            return Err(Drop::Same);
        }
        let may_leave = only.map_or(Ok(()), |to| egress(&self.rules, to, class).map(drop));
        if let (Some(to), Ok(())) = (only.and_then(|only| u8::try_from(only).ok()), may_leave) {
            self.hint(Hint { from, to, vid: class.vid, mac: destination }, now);
        }
        let frame = Frame { from, vid: class.vid, whole: &held.whole };
        let reached = &mut held.reached;
        let Some(leaving) = self.spread(&frame, reached, (class, only), (now, patience)) else {
            return Ok(false);
        };
        let sessions = self.mirrors.entering(port) | leaving;
        if sessions != 0 {
            self.mirror(sessions, &frame);
        }
        may_leave.map(|()| true)
    }

    /// Notes that a sender is to be told where a station is, unless it was just now or may have no edge there.
    fn hint(&mut self, hint: Hint, now: Instant) {
        if !self.has(hint.to) || !self.permits(hint.from, hint.to) {
            return;
        }
        let port = self.ports.get_mut(usize::from(hint.from)).and_then(Option::as_mut);
        if port.is_some_and(|port| port.told.admits(hint, now)) {
            self.hints.push(hint);
        }
    }

    /// The messages that are due.
    pub(crate) fn hints(&mut self) -> Vec<Hint> {
        std::mem::take(&mut self.hints)
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
mod tests;
