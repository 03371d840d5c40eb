//! What happened to a packet: for explanations, and for a cache that does the same to packets like it.
//!
//! A cache may keep a trace's [`Trace::effects`] for all packets that agree with this one in the bits of
//! [`Trace::consulted`], for as long as [`crate::Switch::generation`] does not change, or changes by what
//! [`crate::Affected`] says does not reach the trace, unless [`Trace::uncacheable`]
//! says why not. It must send packets with a TTL of 1 or less, or with a damaged
//! header of IPv4, here when an effect decrements the TTL.

use std::collections::BTreeSet;

use netloom_openflow::{Action, PortNumber};

use crate::key::FlowKey;
use crate::rule::RuleId;

/// A table that a packet was looked up in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The table.
    pub table: u8,
    /// The entry that matched, if any did.
    pub rule: Option<RuleId>,
    /// The key that was looked up.
    pub key: FlowKey,
}

/// One thing that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The packet was changed by an action.
    Edit(Action),
    /// It was sent by a port, in a queue of it.
    Send {
        /// The port.
        port: PortNumber,
        /// The queue, if one was set.
        queue: Option<u32>,
    },
    /// A copy begins; what follows is done to the copy.
    Copy,
    /// The copy ends; what follows is done to the packet before it.
    CopyEnd,
}

/// Why a packet got no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Drop {
    /// No entry matched.
    NoMatch,
    /// The entry has no output.
    NoOutput,
    /// A meter, or one that does not exist.
    Meter,
    /// Its TTL is not valid.
    Ttl,
    /// The port it came in by is down or does not receive.
    Receive,
    /// The port it was to be sent by is down, does not forward, or does not exist.
    Send,
    /// The port it was to be sent by is the one it came in by.
    Hairpin,
    /// It is a fragment, which the configuration drops.
    Fragment,
    /// A group without a live bucket, or that does not exist.
    Group,
    /// It is shorter than an Ethernet header.
    Short,
    /// No controller takes it.
    Controller,
    /// More work than one packet may make.
    Limit,
}

impl std::fmt::Display for Drop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Drop::NoMatch => "no entry matches",
            Drop::NoOutput => "nothing says where to send it",
            Drop::Meter => "a meter drops it, or does not exist",
            Drop::Ttl => "its TTL is not valid",
            Drop::Receive => "the port does not receive",
            Drop::Send => "the port to send it by is down, does not forward, or does not exist",
            Drop::Hairpin => "it would leave by the port that it came in by",
            Drop::Fragment => "it is a fragment, which the configuration drops",
            Drop::Group => "its group has no live bucket, or does not exist",
            Drop::Short => "it is shorter than an Ethernet header",
            Drop::Controller => "no controller takes it",
            Drop::Limit => "it makes more work than one packet may",
        })
    }
}

/// By how many bytes a packet had grown where it was counted. It grows alike for all packets that are treated alike, but
/// for frames that a pop would make shorter than Ethernet's minimum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// At each of [`Trace::steps`].
    pub steps: Vec<i64>,
    /// At each of [`Trace::groups`].
    pub groups: Vec<i64>,
    /// At each [`Effect::Send`].
    pub sends: Vec<i64>,
}

/// The bytes of packets that have grown.
pub(crate) fn grown(bytes: u64, packets: u64, by: Option<&i64>) -> u64 {
    let more = by.copied().unwrap_or(0).saturating_mul(i64::try_from(packets).unwrap_or(0));
    bytes.saturating_add_signed(more)
}

/// What happened to a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The key of the packet as it came in.
    pub key: FlowKey,
    /// The tables it went through.
    pub steps: Vec<Step>,
    /// The bits of its key that decided: a packet that agrees in them is treated alike.
    pub consulted: FlowKey,
    /// The steps, in order.
    pub effects: Vec<Effect>,
    /// The groups it went through, with the bucket.
    pub groups: Vec<(u32, usize)>,
    /// The groups that decided: those, and others whose liveness was asked for.
    pub asked: BTreeSet<u32>,
    /// By how many bytes it had grown where it was counted.
    pub growth: Growth,
    /// Whether it, or a copy of it, went by all ports that take part.
    pub everywhere: bool,
    /// The meters it went through.
    pub meters: Vec<u32>,
    /// Where it, or a copy of it, got no further.
    pub drops: Vec<Drop>,
    /// The VLAN and source address that forwarding without OpenFlow saw at the port of arrival.
    pub station: Option<(u16, u64)>,
    /// Whether a controller got it.
    pub controller: bool,
    /// Why the result holds for this packet alone.
    pub uncacheable: Option<&'static str>,
}

impl Trace {
    /// Whether it was neither sent nor told to a controller, and nothing says why.
    pub(crate) fn got_nowhere(&self) -> bool {
        let sent = |effect: &Effect| matches!(effect, Effect::Send { .. });
        !self.controller && self.drops.is_empty() && !self.effects.iter().any(sent)
    }

    /// The result depends on more than the consulted bits; the first reason is kept.
    pub(crate) fn only_this(&mut self, why: &'static str) {
        self.uncacheable.get_or_insert(why);
    }
}
