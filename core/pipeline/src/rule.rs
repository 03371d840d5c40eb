//! A flow entry (section 5.2) and its counters.

use std::sync::Arc;

use netloom_openflow::flow::{FlowFlags, FlowMod};
use netloom_openflow::{Action, Instruction, Match, PortNumber, Version};

use crate::key::Pattern;

/// Nanoseconds of the caller's clock.
pub type Time = u64;

/// Names a flow entry for as long as the switch lives: no number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId {
    /// Its table.
    pub table: u8,
    /// Its place in the table, used again after its removal.
    pub slot: u32,
    /// Its number.
    pub number: u64,
}

/// A flow entry.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name.
    pub id: RuleId,
    /// Greater ones are matched first.
    pub priority: u16,
    /// What packets must be like.
    pub pattern: Pattern,
    /// The same, as the controller said it.
    pub matching: Match,
    /// The version it was said in.
    pub version: Version,
    /// A number that the controller chose.
    pub cookie: u64,
    /// Options.
    pub flags: FlowFlags,
    /// Seconds without a packet after which it is removed; 0: never.
    pub idle_timeout: u16,
    /// Seconds after which it is removed; 0: never.
    pub hard_timeout: u16,
    /// When it was added.
    pub created: Time,
    /// When a packet matched it, or it was added.
    pub used: Time,
    /// When it is looked at for expiry: not later than it expires.
    pub(crate) scheduled: Option<Time>,
    /// Packets that it matched.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// What it does, in order of execution.
    pub instructions: Arc<[Instruction]>,
    /// The same, as the controller said it.
    pub said: Vec<Instruction>,
}

const SECOND: Time = 1_000_000_000;

/// In order of execution (section 5.9).
pub(crate) fn in_order(instructions: &[Instruction]) -> Arc<[Instruction]> {
    let mut ordered = instructions.to_vec();
    ordered.sort_by_key(Instruction::order);
    ordered.into()
}

impl Rule {
    pub(crate) fn new(change: &FlowMod, version: Version, now: Time) -> Rule {
        Rule {
            id: RuleId { table: change.table, slot: 0, number: 0 },
            priority: change.priority,
            pattern: Pattern::new(&change.matching.to_oxm()),
            matching: change.matching.clone(),
            version,
            cookie: change.cookie,
            flags: change.flags,
            idle_timeout: change.idle_timeout,
            hard_timeout: change.hard_timeout,
            created: now,
            used: now,
            scheduled: None,
            packets: 0,
            bytes: 0,
            instructions: in_order(&change.instructions),
            said: change.instructions.clone(),
        }
    }

    /// Whether it matches everything with the lowest priority (section 5.4).
    pub fn is_table_miss(&self) -> bool {
        // 1.0 has no table-miss entry: there an entry that matches all is like any other, and packets it
        // sends to controllers have the reason ACTION.
        self.priority == 0 && self.pattern.mask.is_zero() && self.version == Version::V13
    }

    /// Counts packets.
    pub(crate) fn count(&mut self, packets: u64, bytes: u64, now: Time) {
        // In 1.0 this bit has no meaning; what a controller sets there must not stop its counters.
        if self.version == Version::V10 || !self.flags.has(FlowFlags::NO_PACKET_COUNTS) {
            self.packets += packets;
        }
        if self.version == Version::V10 || !self.flags.has(FlowFlags::NO_BYTE_COUNTS) {
            self.bytes += bytes;
        }
        self.used = self.used.max(now);
    }

    /// When it is removed if no packet comes.
    pub(crate) fn expires(&self) -> Option<Time> {
        let after = |from: Time, seconds: u16| {
            (seconds > 0).then(|| from.saturating_add(Time::from(seconds) * SECOND))
        };
        let (idle, hard) =
            (after(self.used, self.idle_timeout), after(self.created, self.hard_timeout));
        match (idle, hard) {
            (Some(idle), Some(hard)) => Some(idle.min(hard)),
            (idle, hard) => idle.or(hard),
        }
    }

    /// Whether its hard timeout has passed.
    pub(crate) fn is_old(&self, now: Time) -> bool {
        let lifetime = Time::from(self.hard_timeout) * SECOND;
        lifetime > 0 && now >= self.created.saturating_add(lifetime)
    }

    /// All its actions.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &Action> {
        self.instructions.iter().flat_map(|instruction| match instruction {
            Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => {
                actions.as_slice()
            }
            _ => &[],
        })
    }

    /// Whether it sends by this port; ANY: always.
    pub(crate) fn outputs_to(&self, port: PortNumber) -> bool {
        port == PortNumber::ANY || self.actions().any(|action| outputs(action, port))
    }

    /// Whether it goes through this group; ANY: always.
    pub(crate) fn uses_group(&self, group: u32) -> bool {
        group == netloom_openflow::action::GROUP_ANY
            || self.actions().any(|action| *action == Action::Group(group))
    }

    /// The meter that it goes through.
    pub(crate) fn meter(&self) -> Option<u32> {
        self.instructions.iter().find_map(|instruction| match instruction {
            Instruction::Meter(meter) => Some(*meter),
            _ => None,
        })
    }
}

/// Whether an action sends by this port.
pub(crate) fn outputs(action: &Action, by: PortNumber) -> bool {
    match action {
        Action::Output { port, .. } | Action::Enqueue { port, .. } => *port == by,
        _ => false,
    }
}
