//! Messages between a port and its switch during membership: edges that come and go, and the
//! switch's end and return.
//!
//! The switch is trusted, but none of its messages makes us wait. When it is gone, edges stay; frames
//! for the uplink are held for the next switch. A port without reconnect ends with its switch.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use netloom_bridge::{Mac, Vid};
use netloom_sys::Failure;
use rustix::event::epoll;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec,
};

use super::SwitchPort;
use super::idle::{BELL, CONTROL};
use super::receive::In;
use super::send::{Opening, Out};
use super::welcome::Welcome;
use crate::inbox::{Counter, PeerInbox};
use crate::protocol::{Channel, Direction, Incoming, Joined, Message, Reason, Refused};
use crate::ring::{Reader, Writer};
use crate::wake::Bell;
use crate::{Error, Result};

/// Interval of attempts to find a switch that is gone.
const AGAIN: Duration = Duration::from_millis(100);

/// Longest wait for the answer of a switch that was found.
const PATIENCE: Duration = Duration::from_secs(2);

/// Milliseconds between checks for messages while frames keep us busy.
const DUE: u64 = 10;

/// The connection to the switch.
#[derive(Debug)]
pub(super) enum Link {
    /// We are a member.
    Up(Channel),
    /// We have asked to become a member again.
    Joining { channel: Channel, since: Instant },
    /// The switch is gone; we look for it.
    Away,
    /// The switch is gone. The connection is kept open, because it shows as hung up.
    Gone(#[expect(dead_code, reason = "held open")] Channel),
}

/// A message from the switch, or its loss.
pub(super) enum Order {
    Message(Message<'static>, Vec<OwnedFd>),
    Lost,
}

#[derive(Debug)]
pub(super) struct Control {
    pub(super) link: Link,
    /// An epoll that shows when the first connection is hung up, and permanently afterwards.
    hangup: OwnedFd,
    /// Rings in it when that connection is closed; never silenced.
    lost: Bell,
    pub(super) timer: OwnedFd,
    /// Milliseconds of the coarse clock: now, and at the last check for messages.
    now: u64,
    looked: u64,
}

impl Control {
    pub(super) fn new(channel: Channel) -> Result<Control> {
        let failed = |operation| move |e| Error::from(Failure::new("port", operation, e));
        let hangup = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("make an epoll"))?;
        let data = epoll::EventData::new_u64(CONTROL);
        epoll::add(&hangup, &channel, data, epoll::EventFlags::RDHUP)
            .map_err(failed("watch the switch"))?;
        let lost = Bell::create()?;
        epoll::add(&hangup, lost.fd(), data, epoll::EventFlags::IN)
            .map_err(failed("watch a bell"))?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(failed("make a timer"))?;
        Ok(Control { link: Link::Up(channel), hangup, lost, timer, now: 0, looked: 0 })
    }

    pub(super) fn hangup(&self) -> BorrowedFd<'_> {
        self.hangup.as_fd()
    }

    /// The channel to the switch while we are a member.
    pub(super) fn channel(&mut self) -> Option<&mut Channel> {
        match &mut self.link {
            Link::Up(channel) => Some(channel),
            _ => None,
        }
    }

    /// Waits for a message of the switch; false if none came within the time.
    pub(super) fn wait(&self, time: Duration) -> Result<bool> {
        match &self.link {
            Link::Up(channel) => channel.wait(time),
            _ => Ok(false),
        }
    }

    /// Seconds of the coarse clock.
    pub(super) fn look_at_clock(&mut self) -> u32 {
        let Timespec { tv_sec, tv_nsec } = rustix::time::clock_gettime(ClockId::MonotonicCoarse);
        let seconds = u64::try_from(tv_sec).unwrap_or(0);
        self.now = seconds * 1000 + u64::try_from(tv_nsec / 1_000_000).unwrap_or(0);
        u32::try_from(seconds & u64::from(u32::MAX)).unwrap_or(0)
    }

    /// Whether a check for messages is due by a fresh look at the clock.
    pub(super) fn is_due_now(&mut self) -> bool {
        self.look_at_clock();
        self.is_due()
    }

    /// Whether a check for messages is due.
    pub(super) fn is_due(&mut self) -> bool {
        let due = self.now - self.looked >= DUE;
        if due {
            self.looked = self.now;
        }
        due
    }

    /// The next order, if there is one. Invalid messages are skipped.
    fn read(&mut self) -> Option<Order> {
        let (Link::Up(channel) | Link::Joining { channel, .. }) = &mut self.link else {
            return None;
        };
        loop {
            match channel.receive() {
                Ok(Incoming::Message { message, descriptors }) => {
                    if let Some(message) = detached(message) {
                        return Some(Order::Message(message, descriptors));
                    }
                }
                Ok(Incoming::Nothing) => return None,
                Err(Error::Message { .. }) => {}
                Ok(Incoming::Closed) | Err(_) => return Some(Order::Lost),
            }
        }
    }

    /// Starts or stops looking for the switch.
    fn set_timer(&self, on: bool) -> Result<()> {
        let time = if on { AGAIN } else { Duration::ZERO };
        let time = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
        let value = Itimerspec { it_interval: time, it_value: time };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &value)
            .map(drop)
            .map_err(|e| Failure::new("port", "set a timer", e).into())
    }
}

/// A message for ports, as an owned copy.
fn detached(message: Message<'_>) -> Option<Message<'static>> {
    Some(match message {
        Message::Joined(joined) => Message::Joined(joined),
        Message::Refused(Refused { reason, number, .. }) => {
            Message::Refused(Refused { reason, number, text: "" })
        }
        Message::Opened { to, generation } => Message::Opened { to, generation },
        Message::Edge { from, generation } => Message::Edge { from, generation },
        Message::PortGone { number, generation } => Message::PortGone { number, generation },
        Message::Close { number, direction } => Message::Close { number, direction },
        Message::Station { number, vid, mac } => Message::Station { number, vid, mac },
        _ => return None,
    })
}

impl SwitchPort {
    /// Whether the switch is gone for good.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self.control.link, Link::Gone(_))
    }

    /// Carries out the switch's messages.
    pub(super) fn messages(&mut self) -> Result<()> {
        while let Some(order) = self.control.read() {
            match order {
                Order::Message(message, descriptors) => self.obey(&message, descriptors)?,
                Order::Lost => self.lost_switch()?,
            }
        }
        if self.asleep && self.has_more() {
            // Frames of a ring that was closed: the bell that announced them is gone.
            self.arm();
        }
        Ok(())
    }

    fn obey(&mut self, message: &Message<'static>, descriptors: Vec<OwnedFd>) -> Result<()> {
        if let Link::Joining { .. } = self.control.link {
            return match message {
                Message::Joined(joined) => self.joined_again(joined, descriptors),
                Message::Refused(refused) => self.refused_again(refused.reason),
                _ => Ok(()),
            };
        }
        match message {
            Message::Opened { to, generation } => self.obey_opened(*to, *generation, descriptors),
            Message::Edge { from, generation } => self.obey_edge(*from, *generation, descriptors),
            Message::PortGone { number, generation } => self.port_gone(*number, *generation),
            Message::Close { number, direction: Direction::Out } => {
                self.closed_out(*number);
                Ok(())
            }
            Message::Close { number, direction: Direction::In } => self.end_edge(*number, |_| true),
            // Number 0 would refuse a join, and none is under way.
            Message::Refused(Refused { number, reason, .. }) if *number != 0 => {
                self.obey_refused(*number, *reason);
                Ok(())
            }
            Message::Station { number, vid, mac } => {
                self.obey_station(*number, Vid::new(*vid), Mac(*mac));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn obey_opened(&mut self, to: u8, generation: u32, descriptors: Vec<OwnedFd>) -> Result<()> {
        let Ok([inbox, bell]) = <[OwnedFd; 2]>::try_from(descriptors) else { return Ok(()) };
        let Some(Out::Opening(opening)) = self.outs.get_mut(usize::from(to)) else {
            return Ok(());
        };
        let Some(writer) = opening.writer.take().filter(|_| to != 0) else { return Ok(()) };
        let ring = PeerInbox::open(inbox.as_fd()).and_then(|inbox| {
            writer.connect(Arc::new(inbox), self.number.into(), Bell::from_fd(bell))
        });
        match ring {
            Ok(ring) => self.opened(to, ring, generation),
            // The other port's fault costs the edge; other errors are this port's own, and cost it for a second.
            Err(Error::Memory { .. }) => self.close_out(to),
            Err(e) => {
                self.close_out(to);
                return Err(e);
            }
        }
        Ok(())
    }

    fn obey_edge(&mut self, from: u8, generation: u32, descriptors: Vec<OwnedFd>) -> Result<()> {
        let Ok([ring, bell]) = <[OwnedFd; 2]>::try_from(descriptors) else { return Ok(()) };
        if from == 0 || from == self.number {
            return Ok(());
        }
        // The new ring replaces an older one, whose last frames come first.
        self.end_edge(from, |_| true)?;
        let bell = Bell::from_fd(bell);
        let opened = Reader::open(ring.as_fd(), from.into(), &self.inbox)
            .and_then(|reader| self.watch.add_bell(&bell, BELL).map(|()| reader));
        match opened {
            Ok(reader) => {
                self.add_in(In::new(from, generation, reader, bell));
            }
            Err(_) => {
                self.count(Counter::CorruptEdges);
                self.tell_closed(from, Direction::In);
            }
        }
        Ok(())
    }

    /// An edge was refused.
    fn obey_refused(&mut self, number: u8, reason: Reason) {
        if !matches!(self.outs.get(usize::from(number)), Some(Out::Opening(_))) {
            return;
        }
        if matches!(reason, Reason::NoPort | Reason::Denied) {
            // Frames to its stations go through the switch then.
            self.stations.forget_port(&self.inbox, number.into());
            self.lose_out(number, Out::Closed);
        } else {
            // Other reasons may pass: the edge may be requested again in a second.
            let until = self.stations.now() + 1;
            self.lose_out(number, Out::Blocked { until });
        }
    }

    /// The switch has heard of a station that frames from here went to through it, or whose frames the kernel gives to this
    /// port. What this port itself has heard counts more, but it may have been long ago.
    fn obey_station(&mut self, number: u8, vid: Option<Vid>, mac: Mac) {
        let known = self.stations.find(vid, mac);
        let is_new = known.is_none_or(|port| port == u16::from(number));
        // A message sent under the other setting would put the station in the wrong VLAN.
        let is_current = vid.is_some() == self.rules.switch.vlan_aware();
        if number != self.number && is_new && is_current {
            self.stations.learn(&self.inbox, vid, mac, number.into());
            self.tell_moves();
        }
    }

    fn port_gone(&mut self, number: u8, generation: u32) -> Result<()> {
        if number == 0 {
            return Ok(());
        }
        // A newer port may have the number already: its edge has another generation.
        if let Some(Out::Open(edge)) = self.outs.get(usize::from(number))
            && edge.generation == generation
        {
            self.lose_out(number, Out::Closed);
        }
        self.end_edge(number, |of| of == generation)?;
        self.stations.forget_port(&self.inbox, number.into());
        Ok(())
    }

    /// Takes the rest of a port's ring, and unmaps it.
    fn end_edge(&mut self, number: u8, which: impl Fn(u32) -> bool) -> Result<()> {
        let found =
            self.ins.iter().skip(1).position(|of| of.number == number && which(of.generation));
        match found {
            Some(place) => self.end_in(place + 1),
            None => Ok(()),
        }
    }

    /// Tells the switch that an edge was closed here. If the switch does not read, it learns this
    /// later from the lack of progress.
    pub(super) fn tell_closed(&mut self, number: u8, direction: Direction) {
        if let Some(channel) = self.control.channel() {
            let _ = channel.send(&Message::Close { number, direction }, &[]);
        }
    }

    /// Announces that we will not come back.
    pub(super) fn leave(&mut self) {
        if let Some(channel) = self.control.channel() {
            let _ = channel.send(&Message::Bye, &[]);
        }
    }

    /// The switch is gone.
    pub(super) fn lost_switch(&mut self) -> Result<()> {
        let before = std::mem::replace(&mut self.control.link, Link::Away);
        let (channel, member) = match before {
            Link::Up(channel) => (channel, true),
            Link::Joining { channel, .. } => (channel, false),
            other => {
                self.control.link = other;
                return Ok(());
            }
        };
        self.control.lost.ring();
        self.watch.remove(channel.as_fd())?;
        if !self.options.reconnect {
            self.control.link = Link::Gone(channel);
            self.close_all_opening();
            return Ok(());
        }
        // While it joins again, the timer is already running.
        if member {
            self.control.set_timer(true)?;
        }
        // Uplink frames from now on are for the next switch, as are rings that this one may not
        // have passed on.
        for number in 0..=u8::MAX {
            let Some(out) = self.outs.get_mut(usize::from(number)) else { continue };
            match out {
                Out::Opening(opening) => opening.writer = None,
                Out::Open(_) if number == 0 => *out = Out::Opening(Opening::new(None)),
                _ => {}
            }
        }
        Ok(())
    }

    fn close_all_opening(&mut self) {
        for number in 0..=u8::MAX {
            let opening = matches!(self.outs.get(usize::from(number)), Some(Out::Opening(_)));
            if opening || number == 0 {
                self.lose_out(number, Out::Closed);
            }
        }
        self.opening = 0;
    }

    /// The timer expired: looks for the switch.
    pub(super) fn come_back(&mut self) -> Result<()> {
        // Reading clears the expiry, which would otherwise show for ever.
        let _ = rustix::io::read(&self.control.timer, &mut [0_u8; 8]);
        if let Link::Joining { since, .. } = &self.control.link
            && since.elapsed() > PATIENCE
        {
            self.lost_switch()?;
        }
        if !matches!(self.control.link, Link::Away) {
            return Ok(());
        }
        let Ok(mut channel) = self.options.connect(Duration::ZERO) else {
            return Ok(());
        };
        let writer = Writer::create(super::welcome::UPLINK, super::send::generation()?)?;
        if !self.ask_to_join(&mut channel, &writer)? {
            return Ok(());
        }
        if let Some(Out::Opening(opening)) = self.outs.first_mut() {
            opening.writer = Some(writer);
        }
        self.watch.add_level(channel.as_fd(), CONTROL)?;
        self.control.link = Link::Joining { channel, since: Instant::now() };
        Ok(())
    }

    fn joined_again(&mut self, joined: &Joined, descriptors: Vec<OwnedFd>) -> Result<()> {
        let Ok(Welcome { joined, rules, ways }) = Welcome::read(*joined, descriptors) else {
            return self.lost_switch();
        };
        if (joined.number, joined.generation) != (self.number, self.generation) {
            self.forget_all()?;
        }
        if rules.switch.vlan_aware() != self.rules.switch.vlan_aware() {
            self.stations.clear(&self.inbox);
        }
        self.rules = rules;
        let before = std::mem::replace(&mut self.control.link, Link::Away);
        if let Link::Joining { channel, .. } = before {
            self.control.link = Link::Up(channel);
        }
        self.control.set_timer(false)?;
        if self.settle_in(joined, ways).is_err() {
            return self.lost_switch();
        }
        // What the old switch was asked for and did not answer.
        for number in 1..=u8::MAX {
            self.ask(number)?;
        }
        Ok(())
    }

    fn refused_again(&mut self, reason: Reason) -> Result<()> {
        if reason == Reason::Token {
            self.forget_all()?;
        }
        self.lost_switch()
    }

    /// Our identity is new: no edge remains valid.
    fn forget_all(&mut self) -> Result<()> {
        self.token = [0; 16];
        for number in 1..=u8::MAX {
            self.lose_out(number, Out::Closed);
        }
        self.opening = 0;
        while self.ins.len() > 1 {
            self.end_in(self.ins.len() - 1)?;
        }
        self.stations.clear(&self.inbox);
        Ok(())
    }
}
