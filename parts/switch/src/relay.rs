//! What the switch itself does with frames: those that no edge carries.
//!
//! Frames come by uplinks and are copied into downlinks, bounded: a full downlink drops and counts.
//! A frame is judged by the rules of the port that sent it, copied before it is looked at, and given
//! on as it came, with its origin; receivers put tags in and out. Who sends what cannot be loses its
//! port, nobody else anything. Turns are short, so that no uplink keeps others waiting.
//! See IEEE 802.1Q-2022, 8.6 (forwarding) and 8.7 (learning).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use netloom_bridge::{
    Destination, Drop, Mac, MacTable, Mirrors, SwitchRules, Vid, classify, decide, egress,
};
use netloom_packet::VnetHeader;
use netloom_shm::inbox::{Counter, Inbox};
use netloom_shm::layout::{HEADER, LONGEST_FRAME, PORTS};
use netloom_shm::page::Page;
use netloom_shm::protocol::MIRRORED;
use netloom_shm::ring::{Pushed, Taken};

use crate::options::Options;
use crate::port::{Open, Port};
use crate::publish;
use crate::rules::Rules;
use crate::{Error, Result};

/// Most bytes of frames taken from one uplink before others have their turn.
const TURN: usize = 128 * 1024;

/// What a frame costs at least, in bytes of a turn.
const LEAST: usize = 256;

/// Addresses that the switch remembers.
const ADDRESSES: usize = 8192;

/// The ports with their rings, and what is decided by.
pub(crate) struct Hub {
    ports: Vec<Option<Box<Port>>>,
    /// The numbers that are in `ports`.
    here: Vec<u8>,
    rules: SwitchRules,
    mirrors: Mirrors,
    table: MacTable,
    page: Page,
    pub(crate) inbox: Inbox,
    buffer: Vec<u8>,
    /// Downlinks with frames that are not shown yet.
    written: Vec<u8>,
    /// Uplinks that hold what cannot be.
    bad: Vec<u8>,
    /// Ports that wait for an edge.
    opening: Vec<u8>,
    asleep: bool,
}

/// A frame that is being relayed.
struct Frame<'a> {
    /// The number of its sender.
    from: u8,
    vid: Option<Vid>,
    /// Its header and itself.
    whole: &'a [u8],
}

impl Hub {
    pub(crate) fn new(rules: &Rules, options: &Options) -> Result<Hub> {
        let mut seed = [0; 8];
        random(&mut seed)?;
        let shared = Error::shared("make memory");
        let mut hub = Hub {
            ports: (0..PORTS).map(|_| None).collect(),
            here: Vec::new(),
            rules: SwitchRules::new(),
            mirrors: Mirrors::default(),
            table: MacTable::new(ADDRESSES, options.ageing, u64::from_ne_bytes(seed)),
            page: Page::create().map_err(&shared)?,
            inbox: Inbox::create().map_err(&shared)?,
            buffer: vec![0; HEADER + LONGEST_FRAME],
            written: Vec::new(),
            bad: Vec::new(),
            opening: Vec::new(),
            asleep: false,
        };
        hub.set_rules(rules)?;
        Ok(hub)
    }

    /// From the next frame on other rules hold.
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
        self.table.forget_port(u16::from(number), |_| {});
        Some(port)
    }

    /// An uplink's bell rang.
    pub(crate) fn wake_up(&mut self) {
        if std::mem::take(&mut self.asleep) {
            self.inbox.wake_up();
        }
    }

    /// Whether there may be more to relay.
    pub(crate) fn is_busy(&self) -> bool {
        !self.asleep
    }

    /// Gives each uplink a turn; sleeps when there was nothing. The ports to let go, because of what
    /// is in their uplinks.
    #[must_use]
    pub(crate) fn relay(&mut self) -> Vec<u8> {
        if !self.asleep {
            let mut any = false;
            for place in 0..self.here.len() {
                let Some(number) = self.here.get(place).copied() else { break };
                any |= self.turn(number) > 0;
            }
            self.flush();
            if !any {
                self.sleep();
            }
        }
        std::mem::take(&mut self.bad)
    }

    /// After this bells ring, unless there is something already.
    fn sleep(&mut self) {
        self.inbox.fall_asleep();
        self.asleep = true;
        let more = |number: &u8| self.port(*number).is_some_and(|port| port.uplink.has_more());
        if self.here.iter().any(more) {
            self.wake_up();
        }
    }

    /// A port wants an edge, and gets it ([`Hub::due`]) when all was relayed that it has sent up until
    /// now: so what it sends by the edge comes behind that. One edge to each port is asked for at a time.
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

    /// Edges whose time has come, with the port that asked for each. What was relayed is shown.
    pub(crate) fn due(&mut self) -> Vec<(u8, Open)> {
        let mut due = Vec::new();
        for number in std::mem::take(&mut self.opening) {
            let port = self.ports.get_mut(usize::from(number)).and_then(Option::as_mut);
            let Some(port) = port else { continue };
            let relayed = port.uplink.taken();
            let ready = port.opens.extract_if(.., |open| open.after <= relayed);
            due.extend(ready.map(|open| (number, open)));
            if !port.opens.is_empty() {
                self.opening.push(number);
            }
        }
        due
    }

    /// Relays frames of a port until there are no more or its turn is over; how much that cost.
    fn turn(&mut self, number: u8) -> usize {
        let now = seconds();
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut taken = 0;
        while taken < TURN {
            let Some(port) = self.ports.get_mut(usize::from(number)).and_then(Option::as_mut)
            else {
                break;
            };
            match port.uplink.take(&self.inbox, &mut buffer) {
                Taken::Frame { start, length, .. } => {
                    taken += length.max(LEAST);
                    let whole = buffer.get(start..start + length).unwrap_or_default();
                    self.pass(number, whole, now);
                }
                Taken::Truncated { length } => {
                    taken += length.max(LEAST);
                    self.drop_frame(number, Drop::Oversize);
                }
                Taken::Empty => break,
                Taken::Corrupt => {
                    self.inbox.add(Counter::CorruptEdges, 1);
                    self.bad.push(number);
                    break;
                }
            }
        }
        self.buffer = buffer;
        taken
    }

    /// Relays one frame.
    fn pass(&mut self, from: u8, whole: &[u8], now: u32) {
        let bytes = whole.len().saturating_sub(HEADER);
        self.inbox.add(Counter::ReceivedFrames, 1);
        self.inbox.add(Counter::ReceivedBytes, bytes as u64);
        if let Err(cause) = self.judge(from, whole, now) {
            self.drop_frame(from, cause);
        } else {
            self.inbox.add_taken(u16::from(from), 1, bytes as u64);
        }
    }

    fn judge(&mut self, from: u8, whole: &[u8], now: u32) -> std::result::Result<(), Drop> {
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
        let mut sessions = self.mirrors.entering(port);
        for place in 0..self.here.len() {
            let Some(to) = self.here.get(place).copied() else { break };
            let wanted = to != from && only.is_none_or(|only| only == u16::from(to));
            if wanted
                && egress(&self.rules, u16::from(to), class).is_ok()
                && self.give(to, port, &frame)
            {
                sessions |= self.mirrors.leaving(u16::from(to));
            }
        }
        if sessions != 0 {
            self.mirror(sessions, &frame);
        }
        Ok(())
    }

    fn mirror(&mut self, sessions: u16, frame: &Frame<'_>) {
        let body = frame.whole.get(HEADER..).unwrap_or_default();
        let wanted = self.mirrors.of(sessions).filter(|s| s.filter.matches(frame.vid, body));
        let to: Vec<u16> = wanted.map(|s| s.to).filter(|to| *to != u16::from(frame.from)).collect();
        for to in to.into_iter().filter_map(|to| u8::try_from(to).ok()) {
            if self.give(to, u16::from(frame.from) | MIRRORED, frame) {
                self.inbox.add(Counter::Mirrored, 1);
            }
        }
    }

    /// Puts a frame into a downlink; whether it is there.
    fn give(&mut self, to: u8, origin: u16, frame: &Frame<'_>) -> bool {
        let port = self.ports.get_mut(usize::from(to)).and_then(Option::as_mut);
        let Some(port) = port else { return false };
        match port.downlink.queue(origin, frame.whole) {
            Pushed::Done => {
                if !std::mem::replace(&mut port.written, true) {
                    self.written.push(to);
                }
                let bytes = frame.whole.len().saturating_sub(HEADER);
                self.inbox.add(Counter::SentFrames, 1);
                self.inbox.add(Counter::SentBytes, bytes as u64);
                true
            }
            Pushed::Full => {
                // Shown at once: who is slow must not wait for the end of a turn as well.
                port.downlink.flush();
                port.missed += 1;
                self.inbox.add(Counter::DroppedFull, 1);
                false
            }
            Pushed::Refused => {
                self.inbox.add(Counter::DroppedOversize, 1);
                false
            }
            Pushed::Corrupt => {
                self.inbox.add(Counter::CorruptEdges, 1);
                self.bad.push(to);
                false
            }
        }
    }

    /// Shows what was written.
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

/// Seconds of the clock that all processes of the machine share, as in tables of addresses.
pub(crate) fn seconds() -> u32 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u32::try_from(now.tv_sec).unwrap_or(0)
}

/// Bytes that nobody can guess.
pub(crate) fn random(bytes: &mut [u8]) -> Result<()> {
    match rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(count) if count == bytes.len() => Ok(()),
        Ok(_) => Err(Error::setup("get random bytes", rustix::io::Errno::AGAIN)),
        Err(e) => Err(Error::setup("get random bytes", e)),
    }
}

/// What is shown of the switch's own counters.
pub(crate) fn counters(inbox: &Inbox) -> impl Iterator<Item = (String, u64)> + '_ {
    let value = |counter: &Counter| (counter.name().to_owned(), inbox.counter(*counter));
    Counter::ALL.iter().map(value).filter(|(_, value)| *value > 0)
}

/// The inbox of a port, as shown.
pub(crate) fn counters_of(port: &Port) -> impl Iterator<Item = (String, u64)> + '_ {
    let inbox: &Arc<_> = port.downlink.inbox();
    Counter::ALL.iter().map(|counter| (counter.name().to_owned(), inbox.counter(*counter)))
}
