//! A switch that has identified itself, and its virtual switches: messages of the state machine go to their receivers.
//!
//! All that speak with a virtual switch share its one conversation: their transaction ids are made unique, answers go to
//! the client that asked, and everything else to the slice's controllers.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use netloom_ofconn::Time;
use netloom_openflow::multipart::FlowCounts;
use netloom_openflow::{Message, Version, decode, encode};
use netloom_slicing::{Key, Out, Resumed, SliceId, VirtualSwitches, Work};

use crate::application::{Policy, SwitchPolicy};
use crate::greeting::SwitchDescription;
use crate::memory::Keeping;
use crate::window::Window;

/// Refusals that are remembered of a slice.
const REFUSALS: usize = 16;

/// Where a message goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// To the switch.
    Switch(Vec<u8>),
    /// To one connection of a slice.
    One(u64, Vec<u8>),
    /// The connections of a slice are closed after what they are sent.
    Close(Vec<u64>, String),
}

/// A refusal, for people.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// Seconds since 1970.
    pub(crate) at: u64,
    pub(crate) words: String,
    pub(crate) example: Option<String>,
}

/// A slice's part here.
#[derive(Debug)]
pub(crate) struct Attached {
    /// The slice's place in the policy.
    pub(crate) place: usize,
    /// Connections that said hello, controllers and others.
    pub(crate) connections: Vec<u64>,
    /// Those of controllers.
    pub(crate) controllers: Vec<u64>,
    window: Window,
    pub(crate) refusals: VecDeque<Refused>,
}

/// A switch with its virtual switches.
pub(crate) struct Real {
    /// As the policy has it.
    pub(crate) name: String,
    pub(crate) datapath: u64,
    pub(crate) version: Version,
    pub(crate) core: VirtualSwitches,
    pub(crate) slices: BTreeMap<SliceId, Attached>,
    /// Sockets of virtual switches, to be removed.
    pub(crate) services: Vec<PathBuf>,
    /// What a later process has to know of it.
    pub(crate) keeping: Option<Keeping>,
    /// What became of what an earlier process had here.
    pub(crate) resumed: Option<Resumed>,
    /// Messages that its version lacks.
    pub(crate) lost: u64,
}

/// A socket at which a virtual switch is spoken with.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) socket: OwnedFd,
    pub(crate) path: PathBuf,
}

impl Real {
    /// Begins with a switch, which is emptied; returns it, and what it is sent first.
    ///
    /// # Errors
    /// In words: its slices cannot be had on it.
    pub(crate) fn begin(
        policy: &Policy,
        switch: &SwitchPolicy,
        told: &SwitchDescription,
        key: &Key,
        now: Time,
        keeping: Option<Keeping>,
    ) -> Result<(Real, Vec<To>), String> {
        let (slicing, places) = policy.slicing(switch, key, None)?;
        let SwitchDescription { version, features, ports, .. } = told;
        let begun = VirtualSwitches::new(Arc::new(slicing), *version, features, ports, now);
        let (mut core, out) = begun.map_err(|e| format!("switch {:?}: {e}", switch.name))?;
        core.note_changes();
        let places = core.slicing().ids().zip(places).collect();
        let mut real = Real::of(switch, told, core, &places, keeping);
        if let Some(keeping) = &mut real.keeping {
            // Before the switch is told anything.
            let begun = keeping.begin().and_then(|()| {
                // In one go: slices of a switch that is emptied have no rules yet, so the file is short.
                while !keeping.goes_on(&real.core)? {}
                Ok(())
            });
            begun.map_err(|e| netloom_sys::describe(&e))?;
        }
        let to = real.route(out);
        Ok((real, to))
    }

    /// A switch with these virtual switches; `places` are those of its slices in the policy.
    pub(crate) fn of(
        switch: &SwitchPolicy,
        told: &SwitchDescription,
        core: VirtualSwitches,
        places: &BTreeMap<SliceId, usize>,
        keeping: Option<Keeping>,
    ) -> Real {
        let attached = |place: usize| Attached {
            place,
            connections: vec![],
            controllers: vec![],
            window: Window::one_of(places.len()),
            refusals: VecDeque::new(),
        };
        Real {
            name: switch.name.clone(),
            datapath: told.features.datapath_id,
            version: told.version,
            core,
            slices: places.iter().map(|(id, place)| (*id, attached(*place))).collect(),
            keeping,
            resumed: None,
            services: vec![],
            lost: 0,
        }
    }

    /// Puts into its file what has changed.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn save(&mut self) -> Result<(), String> {
        let notes = self.core.take_notes();
        let Some(keeping) = &mut self.keeping else { return Ok(()) };
        keeping.save(&notes, &self.core).map_err(|e| netloom_sys::describe(&e))
    }

    /// The number here of a slice of the policy.
    pub(crate) fn slice_at(&self, place: usize) -> Option<SliceId> {
        self.slices.iter().find(|(_, attached)| attached.place == place).map(|(id, _)| *id)
    }

    /// The switch sent a message.
    pub(crate) fn hear_switch(&mut self, bytes: &[u8], now: Time) -> Result<Vec<To>, String> {
        // Others wait behind the entries of a large answer: only what is needed of these is read.
        if let Some((xid, more, counts)) = FlowCounts::of_message(bytes) {
            self.core.counts_from_switch(xid, more, &counts);
            return Ok(vec![]);
        }
        let (header, message) = decode(bytes).map_err(|e| e.to_string())?;
        if let Message::EchoRequest(data) = message {
            return Ok(self
                .written(header.xid, &Message::EchoReply(data))
                .map(To::Switch)
                .into_iter()
                .collect());
        }
        if matches!(message, Message::EchoReply(_) | Message::Hello(_)) {
            return Ok(vec![]);
        }
        Ok(self.tell_core(now, header.xid, message))
    }

    /// What follows from a message of the switch.
    pub(crate) fn tell_core(&mut self, now: Time, xid: u32, message: Message) -> Vec<To> {
        let out = self.core.from_switch(now, xid, message);
        self.route(out)
    }

    /// A connection of a slice sent a message.
    pub(crate) fn hear_controller(
        &mut self,
        slice: SliceId,
        from: u64,
        bytes: &[u8],
        now: Time,
        work: &mut Work,
    ) -> Vec<To> {
        let Some(attached) = self.slices.get_mut(&slice) else { return vec![] };
        let out = match decode(bytes) {
            Ok((header, Message::EchoRequest(data))) => {
                // An echo is about the connection, so it is answered here and not by the virtual switch.
                let reply = self.written(header.xid, &Message::EchoReply(data));
                return reply.map(|bytes| To::One(from, bytes)).into_iter().collect();
            }
            Ok((_, Message::EchoReply(_) | Message::Hello(_))) => return vec![],
            Ok((header, message)) => {
                let xid = attached.window.put(from, header.xid);
                self.core.begin_message(now, slice, xid, message, bytes, work)
            }
            Err(mut error) => {
                if let Some(header) = &mut error.header {
                    header.xid = attached.window.put(from, header.xid);
                }
                self.core.unreadable(now, slice, &error, bytes)
            }
        };
        self.route(out)
    }

    /// Goes on with what a slice asked for.
    pub(crate) fn proceed(&mut self, slice: SliceId, now: Time, work: &mut Work) -> Vec<To> {
        let out = self.core.proceed(now, slice, work);
        self.route(out)
    }

    /// The slices for which something is to be done, with their places in the policy.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = (SliceId, usize)> {
        self.core
            .unfinished()
            .filter_map(|(slice, _)| Some((slice, self.slices.get(&slice)?.place)))
    }

    /// Whether something is to be done for a slice; with the connection that is to be answered, if it is that.
    pub(crate) fn unfinished_of(&self, slice: SliceId) -> Option<Option<u64>> {
        let xid = self.core.unfinished_of(slice)?;
        let window = &self.slices.get(&slice)?.window;
        Some(xid.and_then(|xid| window.get(xid)).map(|(id, _)| id))
    }

    /// A connection of a slice said hello.
    pub(crate) fn join(&mut self, slice: SliceId, id: u64, controls: bool, now: Time) -> Vec<To> {
        let version = self.version;
        let Some(attached) = self.slices.get_mut(&slice) else { return vec![] };
        attached.connections.push(id);
        if controls {
            attached.controllers.push(id);
        }
        // All of a slice's connections share one conversation, which the first has begun.
        if attached.connections.len() > 1 {
            return vec![];
        }
        let out = self.core.connected(now, slice, version);
        self.route(out)
    }

    /// A connection of a slice has ended.
    pub(crate) fn leave(&mut self, slice: SliceId, id: u64, now: Time) -> Vec<To> {
        let Some(attached) = self.slices.get_mut(&slice) else { return vec![] };
        let before = attached.connections.len();
        attached.connections.retain(|other| *other != id);
        attached.controllers.retain(|other| *other != id);
        // The last one ends the conversation; before a first has said hello there is none.
        if before == 0 || !attached.connections.is_empty() {
            return vec![];
        }
        let out = self.core.disconnected(now, slice);
        self.route(out)
    }

    /// When something is to be done by itself.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let writes = self.keeping.as_ref().is_some_and(Keeping::is_due);
        // A file that is being written goes on in the next turn.
        if writes { Some(0) } else { self.core.deadline() }
    }

    /// Time passed.
    pub(crate) fn tick(&mut self, now: Time) -> Vec<To> {
        let out = self.core.tick(now);
        self.route(out)
    }

    fn written(&mut self, xid: u32, message: &Message) -> Option<Vec<u8>> {
        let written = encode(self.version, xid, message);
        if written.is_err() {
            self.lost += 1;
        }
        written.ok()
    }

    fn route(&mut self, out: Vec<Out>) -> Vec<To> {
        let mut all = vec![];
        for one in out {
            match one {
                Out::ToSwitch { xid, message } => {
                    all.extend(self.written(xid, &message).map(To::Switch));
                }
                Out::ToController { slice, xid, message } => {
                    self.tell(slice, xid, message, &mut all);
                }
                Out::Close { slice, reason } => {
                    let Some(attached) = self.slices.get(&slice) else { continue };
                    all.push(To::Close(attached.connections.clone(), format!("{reason:?}")));
                }
                Out::Refused { slice, refusal, .. } => {
                    let Some(attached) = self.slices.get_mut(&slice) else { continue };
                    if attached.refusals.len() == REFUSALS {
                        attached.refusals.pop_front();
                    }
                    attached.refusals.push_back(Refused {
                        at: crate::system::now(),
                        words: format!("{} ({})", refusal.words, refusal.reason.name()),
                        example: refusal.example.as_ref().map(ToString::to_string),
                    });
                }
            }
        }
        all
    }

    /// A message for a slice: to the client that asked, or to its controllers.
    fn tell(&mut self, slice: SliceId, xid: u32, mut message: Message, all: &mut Vec<To>) {
        let Some(attached) = self.slices.get(&slice) else { return };
        // News answers nobody, though its transaction id may be a number that the window has given out.
        let is_news = matches!(
            message,
            Message::PacketIn(_) | Message::FlowRemoved(_) | Message::PortStatus(_)
        );
        if !is_news && let Some((id, own)) = attached.window.get(xid) {
            if let Message::Error(error) = &mut message
                && let Some(quoted) = error.data.get_mut(4..8)
            {
                // The quoted message is the client's own: bytes 4 to 7 of a header are its transaction id.
                quoted.copy_from_slice(&own.to_be_bytes());
            }
            let bytes = self.written(own, &message);
            all.extend(bytes.map(|bytes| To::One(id, bytes)));
            return;
        }
        let controllers = attached.controllers.clone();
        let Some(bytes) = self.written(xid, &message) else { return };
        all.extend(controllers.into_iter().map(|id| To::One(id, bytes.clone())));
    }
}
