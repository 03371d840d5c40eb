//! One real switch and the virtual switches of all slices: the state machine between them.

use std::sync::Arc;

use netloom_openflow::switch::Features;
use netloom_openflow::{DecodeError, Message, Port, PortNumber, Reason, Version};

use crate::{Error, Example, SliceId, Slicing, Time};

/// What follows from an input, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// A message for the real switch.
    ToSwitch {
        /// Its transaction id.
        xid: u32,
        /// The message.
        message: Message,
    },
    /// A message for a slice's controller.
    ToController {
        /// The slice.
        slice: SliceId,
        /// Its transaction id.
        xid: u32,
        /// The message.
        message: Message,
    },
    /// A controller's connection is to be closed, after its messages.
    Close {
        /// The slice.
        slice: SliceId,
        /// Why.
        reason: CloseReason,
    },
    /// For the log: a message of a controller was refused. The error that says so is a [`Out::ToController`].
    Refused {
        /// The slice.
        slice: SliceId,
        /// The message's transaction id.
        xid: u32,
        /// Why, with an example where the proof failed.
        refusal: Box<Refusal>,
    },
}

/// Why a controller's connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// It speaks another version than the switch.
    Version,
    /// There is no such slice.
    NoSlice,
}

/// Why a message of a controller was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error that the controller gets.
    pub reason: Reason,
    /// In words: what it asked for, and why that cannot be.
    pub words: String,
    /// A packet with which it would touch another slice, or leave its own.
    pub example: Option<Example>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.words, self.reason.name())?;
        match &self.example {
            Some(example) => write!(f, "; for example {example}"),
            None => Ok(()),
        }
    }
}

/// What a slice did, and what was kept from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages of its controller.
    pub messages: u64,
    /// Messages of it that were refused.
    pub refused: u64,
    /// Rules that it has.
    pub rules: u64,
    /// Entries of the real switch that these take.
    pub entries: u64,
    /// Packets sent to its controller.
    pub packet_ins: u64,
    /// Packets that were not, because of its quota.
    pub packet_ins_dropped: u64,
    /// Packets of its controller that were sent.
    pub packet_outs: u64,
    /// LLDP packets of it that came back, on any switch.
    pub lldp_received: u64,
}

/// One real switch and the virtual switches of all slices.
#[derive(Debug)]
pub struct VirtualSwitches {
    version: Version,
}

impl VirtualSwitches {
    /// Begins with a switch that said its features and, in 1.3, its ports (in 1.0 they are in the features), and empties
    /// it: the first messages are for it.
    ///
    /// # Errors
    /// If the switch's version cannot keep what the slices are promised.
    pub fn new(
        slicing: Arc<Slicing>,
        version: Version,
        features: &Features,
        ports: &[Port],
        now: Time,
    ) -> Result<(VirtualSwitches, Vec<Out>), Error> {
        let _ = (slicing, features, ports, now);
        Ok((VirtualSwitches { version }, vec![]))
    }

    /// The version that all controllers have to speak: the switch's.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The slices.
    pub fn slicing(&self) -> &Slicing {
        unimplemented!()
    }

    /// The number of a slice's virtual switch.
    pub fn datapath_id(&self, slice: SliceId) -> Option<u64> {
        let _ = slice;
        None
    }

    /// The real switch sent a message.
    pub fn from_switch(&mut self, now: Time, xid: u32, message: Message) -> Vec<Out> {
        let _ = (now, xid, message);
        vec![]
    }

    /// A controller that is connected sent a message. Hellos and the choice of a version are the caller's.
    pub fn from_controller(
        &mut self,
        now: Time,
        slice: SliceId,
        xid: u32,
        message: Message,
    ) -> Vec<Out> {
        let _ = (now, slice, xid, message);
        vec![]
    }

    /// A controller sent what cannot be read: the answer.
    pub fn unreadable(
        &mut self,
        now: Time,
        slice: SliceId,
        error: &DecodeError,
        bytes: &[u8],
    ) -> Vec<Out> {
        let _ = (now, slice, error, bytes);
        vec![]
    }

    /// A slice's controller is connected, and both said hello in this version. Rules of an earlier connection are there.
    pub fn connected(&mut self, now: Time, slice: SliceId, version: Version) -> Vec<Out> {
        let _ = (now, slice, version);
        vec![]
    }

    /// A slice's controller went away: its rules stay, nothing more is sent to it.
    pub fn disconnected(&mut self, now: Time, slice: SliceId) -> Vec<Out> {
        let _ = (now, slice);
        vec![]
    }

    /// Time passed.
    pub fn tick(&mut self, now: Time) -> Vec<Out> {
        let _ = now;
        vec![]
    }

    /// When [`VirtualSwitches::tick`] has something to do next, if nothing else happens.
    pub fn deadline(&self) -> Option<Time> {
        None
    }

    /// Until when no message of a slice's controller is to be read, because its quota is used up; `None`: read on.
    /// Messages that come in all the same are refused.
    pub fn wait(&self, now: Time, slice: SliceId) -> Option<Time> {
        let _ = (now, slice);
        None
    }

    /// What a slice did.
    pub fn counters(&self, slice: SliceId) -> Counters {
        let _ = slice;
        Counters::default()
    }

    /// A slice's ports: the number that its controller sees, and the real port.
    pub fn ports(&self, slice: SliceId) -> Vec<(PortNumber, Port)> {
        let _ = slice;
        vec![]
    }
}
