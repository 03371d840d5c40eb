//! Joining a switch, and joining it again.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::control::Control;
use super::frames::Frames;
use super::idle::{BELL, CONTROL, Linger, MORE, Spin, TIMER};
use super::receive::{In, MOST_EARLY};
use super::rules::Rules;
use super::send::{Opening, Out, generation, seed};
use super::stations::Stations;
use super::welcome::{UPLINK, Ways, Welcome};
use super::{JoinOptions, SwitchPort};
use crate::inbox::Inbox;
use crate::layout::PORTS;
use crate::protocol::{
    Capabilities, Channel, Direction, EdgeName, Edges, Incoming, Join, Joined, Message, Posted,
    VERSION, check_name,
};
use crate::ring::{Reader, Writer};
use crate::wake::{Bell, Watch};
use crate::{Error, Result};

/// Longest wait for a switch to admit us.
const PATIENCE: Duration = Duration::from_secs(5);

impl SwitchPort {
    /// Joins a switch. Waits at most some seconds for its answer. The data descriptor then reports
    /// frames.
    ///
    /// # Errors
    /// [`Error::Name`] for an invalid name or number; [`Error::Failed`] if there is no such switch
    /// (ENOENT, ECONNREFUSED) or no permission (EACCES); [`Error::Refused`] and [`Error::Silent`]
    /// by the switch's answer or lack of it.
    pub fn join(options: &JoinOptions) -> Result<SwitchPort> {
        check(options)?;
        let mut channel = options.connect(PATIENCE)?;
        let inbox = Inbox::create()?;
        let writer = Writer::create(UPLINK, generation()?)?;
        let join = join(options, options.number, [0; 16], Edges::Given(&[]));
        let sent = channel.send_wait(&join, &[inbox.fd(), writer.fd()], PATIENCE)?;
        if sent != Posted::Done {
            return Err(silent(&options.switch, "it does not read"));
        }
        let Welcome { joined, rules, ways } = welcome(&mut channel, &options.switch)?;
        let mut port = SwitchPort::new(options, channel, inbox, writer, rules)?;
        port.settle_in(joined, ways)?;
        port.begin_to_tell()?;
        Ok(port)
    }

    fn new(
        options: &JoinOptions,
        channel: Channel,
        inbox: Inbox,
        writer: Writer,
        rules: Rules,
    ) -> Result<SwitchPort> {
        let watch = Watch::create()?;
        let more = Bell::create()?;
        watch.add_level(more.fd(), MORE)?;
        watch.add_level(channel.as_fd(), CONTROL)?;
        let control = Control::new(channel)?;
        watch.add_level(control.timer.as_fd(), TIMER)?;
        let mut outs: Vec<Out> = (0..PORTS).map(|_| Out::Closed).collect();
        if let Some(uplink) = outs.first_mut() {
            *uplink = Out::Opening(Opening::new(Some(writer)));
        }
        Ok(SwitchPort {
            options: options.clone(),
            number: 0,
            generation: 0,
            token: [0; 16],
            inbox,
            watch,
            more,
            armed: false,
            asleep: false,
            rung: false,
            cleared: false,
            quiet: false,
            unsure: false,
            control,
            rules,
            stations: Stations::new(seed()?),
            outs,
            dirty: Vec::with_capacity(PORTS),
            opening: 0,
            sought: 0,
            ins: Vec::new(),
            current: 0,
            budget: 0,
            fresh: false,
            done: Frames::new(MOST_EARLY),
            scratch: Vec::new(),
            segmenter: netloom_packet::Segmenter::new(),
            sent: Default::default(),
            flooded: 0,
            relay_dropped: 0,
            ticks: 0,
            spin: Spin::new(),
            linger: Linger::new(),
        })
    }

    /// Adopts what the switch has assigned: identity, uplink and downlink.
    pub(super) fn settle_in(&mut self, joined: Joined, ways: Ways) -> Result<()> {
        let Ways { inbox, downlink, up, down } = ways;
        (self.number, self.generation) = (joined.number, joined.generation);
        self.token = joined.token;
        if !self.ins.is_empty() {
            // Takes the old switch's last relayed frames. Then the cell is the new downlink's.
            self.end_in(0)?;
            // They waited for frames of the old downlink.
            self.ins.iter_mut().for_each(|of| of.after = None);
        }
        let reader = Reader::open(downlink.as_fd(), 0, &self.inbox)?;
        self.watch.add_bell(&down, BELL)?;
        let new = In::new(0, 0, reader, down);
        match self.ins.first_mut() {
            Some(place) => {
                let old = std::mem::replace(place, new);
                self.watch.remove(old.bell.fd())?;
            }
            None => self.ins.push(new),
        }
        (self.current, self.budget) = (0, 0);
        let writer = match self.outs.first_mut() {
            Some(Out::Opening(opening)) => opening.writer.take(),
            _ => None,
        };
        if let Some(writer) = writer {
            // The present count belongs to an earlier owner of the number.
            self.relay_dropped = inbox.of_sender(self.number.into()).drops;
            let ring = writer.connect(Arc::new(inbox), self.number.into(), up)?;
            self.opened(0, ring, 0);
        }
        self.settle();
        Ok(())
    }

    /// Asks a switch that was found again to admit us; false if it does not read.
    pub(super) fn ask_to_join(&mut self, channel: &mut Channel, writer: &Writer) -> Result<bool> {
        let mut edges = Vec::new();
        let known = self.token != [0; 16];
        for (number, out) in (0..=u8::MAX).zip(&self.outs) {
            if let (Out::Open(edge), 1..) = (out, number) {
                let (direction, generation) = (Direction::Out, edge.generation);
                edges.push(EdgeName { number, direction, generation });
            }
        }
        for of in self.ins.iter().skip(1) {
            let (number, generation) = (of.number, of.generation);
            edges.push(EdgeName { number, direction: Direction::In, generation });
        }
        // A port that joins with a new identity asks for its originally wanted number.
        let number = if known { self.number() } else { self.options.number };
        let edges = Edges::Given(if known { &edges } else { &[] });
        let join = join(&self.options, number, self.token, edges);
        Ok(channel.send(&join, &[self.inbox.fd(), writer.fd()])? == Posted::Done)
    }
}

fn check(options: &JoinOptions) -> Result<()> {
    let wrong = |name: &str, reason| Err(Error::Name { name: name.to_owned(), reason });
    if options.number > netloom_bridge::MOST_PORTS {
        return wrong(&options.number.to_string(), "a port's number is 1 to 255");
    }
    check_name(&options.name).or_else(|reason| wrong(&options.name, reason))
}

fn join<'a>(
    options: &'a JoinOptions,
    number: u16,
    token: [u8; 16],
    edges: Edges<'a>,
) -> Message<'a> {
    Message::Join(Join {
        version: VERSION,
        number: u8::try_from(number).unwrap_or(0),
        capabilities: Capabilities {
            super_frames: options.super_frames,
            checksums: options.checksums,
        },
        token,
        name: &options.name,
        edges,
    })
}

fn silent(switch: &Path, reason: &'static str) -> Error {
    Error::Silent { switch: switch.to_owned(), operation: "join", reason }
}

/// Waits for the switch's answer.
fn welcome(channel: &mut Channel, switch: &Path) -> Result<Welcome> {
    let end = Instant::now() + PATIENCE;
    loop {
        match channel.receive()? {
            Incoming::Message { message: Message::Joined(joined), descriptors } => {
                return Welcome::read(joined, descriptors);
            }
            Incoming::Message { message: Message::Refused(refused), .. } => {
                return Err(Error::Refused {
                    switch: switch.to_owned(),
                    reason: refused.reason,
                    text: refused.text.to_owned(),
                });
            }
            Incoming::Message { .. } => return Err(silent(switch, "another message came")),
            Incoming::Closed => return Err(silent(switch, "it closed the connection")),
            Incoming::Nothing => {}
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(silent(switch, "no answer in time"));
        }
        channel.wait(left)?;
    }
}
