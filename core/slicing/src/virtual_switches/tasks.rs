//! What is under way for slices, and how far each is. What is done with it is in the rooms of rules, groups, packets and
//! answers.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use netloom_openflow::flow::{Duration, FlowMod};
use netloom_openflow::multipart::Aggregate;
use netloom_openflow::{Bucket, GroupMod, Instruction, Match, PacketOut, PortNumber};

use super::making::Making;
use super::rules::Filter;
use crate::proof::Findings;
use crate::walk::Walk;

/// A request for an answer in parts, under way.
#[derive(Debug)]
pub(super) struct PendingReply {
    pub(super) what: What,
    /// Whether the slice's next messages wait for it.
    pub(super) holds: bool,
}

/// What the answer needs to become a slice's.
#[derive(Debug)]
pub(super) enum What {
    Flows(Box<Flows>),
    Other,
}

/// Packets, bytes and age of the entries of a rule.
pub(super) type Sum = (u64, u64, Duration);

/// Rules that are told, or summed up.
#[derive(Debug)]
pub(super) struct Flows {
    pub(super) filter: Filter,
    /// Only their sums are asked for.
    pub(super) total: Option<Aggregate>,
    /// The next rule to tell.
    pub(super) next: u64,
    /// The last one of which the switch has told the entries; none: it is to be asked.
    pub(super) last: Option<u64>,
    pub(super) sums: BTreeMap<u64, Sum>,
    /// In 1.0 the entries that it is to be asked for still; and the cookies of those that it has told, if it is asked for several.
    pub(super) matches: Vec<Match>,
    pub(super) cookies: Option<HashSet<u64>>,
}

/// Groups or meters that are told, from a number on.
#[derive(Debug)]
pub(super) enum Describing {
    Groups(u32),
    Meters(u32),
}

/// A rule that is to be there.
#[derive(Debug)]
pub(super) struct Adding {
    pub(super) making: Making,
    pub(super) stage: Stage,
    /// A packet that the rule is for, and its port.
    pub(super) buffer: Option<(u32, PortNumber)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Making,
    /// Rules from this number on are looked at for overlaps.
    Looking(u64),
    /// The rule has this number; this entry of it is next.
    Installing(u64, usize),
}

/// Rules that are to do something else.
#[derive(Debug)]
pub(super) struct Modifying {
    pub(super) change: FlowMod,
    pub(super) filter: Filter,
    /// The next rule to look at, and those that were found, the last first.
    pub(super) next: u64,
    pub(super) found: Option<Vec<u64>>,
    pub(super) making: Option<(u64, Making)>,
    /// What they are to do. Nothing is changed unless all can be.
    pub(super) made: Vec<(u64, Made)>,
    /// Bytes of what they do now, and of what they are to do.
    pub(super) freed: u64,
    pub(super) taken: u64,
    pub(super) changing: bool,
    /// The rule whose entries are changed, and the next of these.
    pub(super) installing: Option<(u64, usize)>,
    pub(super) buffer: Option<(u32, PortNumber)>,
}

/// What a rule becomes.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) instructions: Arc<[Instruction]>,
    pub(super) findings: Findings,
    pub(super) floods: bool,
}

/// Rules that list the slice's ports, which have changed.
#[derive(Debug, Default)]
pub(super) struct Following {
    pub(super) next: u64,
    pub(super) making: Option<(u64, Making)>,
    pub(super) installing: Option<(u64, usize)>,
}

/// Rules that are to go.
#[derive(Debug)]
pub(super) struct Deleting {
    pub(super) filter: Filter,
    pub(super) next: u64,
    /// Whether the switch was told to delete all that the slice has.
    pub(super) at_once: bool,
    /// The rule whose entries are deleted, and the next of these.
    pub(super) removing: Option<(u64, usize)>,
}

/// A group that is being made.
#[derive(Debug)]
pub(super) struct Grouping {
    pub(super) change: GroupMod,
    /// Its buckets in real numbers, of those that were said before this one.
    pub(super) buckets: Vec<Bucket>,
    /// The actions in these.
    pub(super) actions: usize,
    pub(super) next: usize,
    pub(super) walk: Option<Walk>,
}

/// A packet of a controller, being proved.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) order: PacketOut,
    pub(super) walk: Walk,
}
