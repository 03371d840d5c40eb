//! What a slice's messages say, in numbers of the real switch: matches narrowed to the slice, actions and instructions.
//!
//! Packets of a slice have its tag in the upper ten bits of the metadata in all tables but the first, where the
//! entries that let them go on write it. These bits are not the controllers'.

use netloom_openflow::{
    Action, Field, Instruction, Match, Oxm, PortNumber, Reason, Version, action::NO_BUFFER,
};

use super::member::Member;
use super::{Refusal, VirtualSwitches};
use crate::cube::Cube;
use crate::fault::{self, Fault};
use crate::{Example, Quota, SliceId};

/// The bits of the metadata that tell slices apart.
pub(super) const TAG: u64 = 0x3ff << SHIFT;
const SHIFT: u32 = 54;
/// Entries of one rule at most.
pub(super) const MOST_PIECES: usize = 4096;
/// Actions of one list at most: no message has more.
const MOST_ACTIONS: usize = (u16::MAX / 8) as usize;
/// Bytes of a packet that are asked for at least, so that its headers can be read.
pub(super) const LEAST: u16 = 128;

/// The tag of a slice, which is not zero.
pub(super) fn tag(slice: SliceId) -> u64 {
    (u64::from(slice.0) + 1) << SHIFT
}

/// The slice of a tag.
pub(super) fn tagged(number: u64) -> Option<SliceId> {
    u16::try_from(number >> SHIFT).ok()?.checked_sub(1).map(SliceId)
}

fn refuse(reason: Reason, words: impl Into<String>) -> Refusal {
    Refusal::new(reason, words)
}

/// A match of a slice with real ports.
pub(super) fn matched(matching: &Match, member: &Member) -> Result<Cube, Refusal> {
    let mut cube = Cube::default();
    for oxm in matching.to_oxm() {
        let (mut value, mut mask) = (oxm.value, oxm.bits());
        match oxm.field {
            Field::InPort | Field::InPhyPort => {
                let seen = u32::try_from(value).map(PortNumber).ok();
                let real = seen.and_then(|seen| member.real(seen)).ok_or_else(|| {
                    refuse(
                        Reason::BadMatchBadValue,
                        format!("port {value} of the match is not in the slice"),
                    )
                })?;
                value = u128::from(real.0);
            }
            Field::Metadata => {
                if value & u128::from(TAG) != 0
                    || oxm.mask.is_some_and(|m| m & u128::from(TAG) != 0)
                {
                    let words = "the upper ten bits of the metadata tell slices apart";
                    return Err(refuse(Reason::BadMatchBadMask, words));
                }
                // A match without a mask means all 64 bits; in the switch those of the tag are not zero.
                mask &= !u128::from(TAG);
            }
            _ => {}
        }
        if !cube.restrict(oxm.field, value, mask) {
            return Err(refuse(Reason::BadMatchDupField, "the match contradicts itself"));
        }
    }
    Ok(cube)
}

/// The matches of the real entries for a cube of one.
pub(super) fn sayable(cube: &Cube, version: Version) -> Result<Vec<Match>, Refusal> {
    let mut all = vec![cube.clone()];
    let mut bits = 0;
    for field in cube.constrained() {
        let (value, mask) = cube.get(field);
        // A field that cannot be masked needs an entry for each of its values.
        let free = field.full() & !mask;
        if field.maskable() || free == 0 {
            continue;
        }
        bits += free.count_ones();
        if bits > MOST_PIECES.ilog2() {
            let words = format!("its ranges up to {field} need more than {MOST_PIECES} entries");
            return Err(refuse(Reason::FlowModFailedTableFull, words));
        }
        let values: Vec<u128> = subsets(free).map(|bits| value | bits).collect();
        let one = |cube: &Cube, value: u128| {
            let mut one = cube.clone();
            one.assign(field, value);
            one
        };
        all =
            all.iter().flat_map(|cube| values.iter().map(move |value| one(cube, *value))).collect();
    }
    all.iter().map(|cube| said(cube, version)).collect()
}

/// All numbers with bits only in these.
fn subsets(bits: u128) -> impl Iterator<Item = u128> {
    let mut next = Some(0u128);
    std::iter::from_fn(move || {
        let now = next?;
        // Counts in these bits alone: what is borrowed runs through the gaps.
        let following = now.wrapping_sub(bits) & bits;
        next = (following != 0).then_some(following);
        Some(now)
    })
}

fn said(cube: &Cube, version: Version) -> Result<Match, Refusal> {
    let fields = cube.to_oxm();
    if version == Version::V13 {
        return Ok(Match::Oxm(fields));
    }
    let any_tag = |oxm: &Oxm| oxm.field == Field::VlanVid && !oxm.is_exact();
    // A priority says that there is a tag.
    let implied = cube.get(Field::VlanPcp).1 != 0;
    let fields: Vec<Oxm> = fields.into_iter().filter(|oxm| !(implied && any_tag(oxm))).collect();
    match Match::Oxm(fields).to_10() {
        (said, true) => Ok(Match::V10(said)),
        (_, false) => Err(Refusal {
            example: Some(Example::of(cube)),
            ..refuse(Reason::FlowModFailedEperm, "OpenFlow 1.0 cannot narrow it to the slice")
        }),
    }
}

/// What actions become.
pub(super) struct Actions<'a> {
    pub(super) member: &'a Member,
    pub(super) quota: Quota,
    pub(super) version: Version,
    /// In packet-outs the tables are a port.
    pub(super) tables: bool,
    /// Whether the member's ports were listed for a flood.
    pub(super) flooded: bool,
}

impl Actions<'_> {
    /// Real actions.
    pub(super) fn list(&mut self, actions: &[Action]) -> Result<Vec<Action>, Refusal> {
        let mut all = vec![];
        for action in actions {
            self.one(action, &mut all)?;
            if all.len() > MOST_ACTIONS {
                let words = "by the slice's ports it has more actions than a message can have";
                return Err(refuse(Reason::BadActionTooMany, words));
            }
        }
        Ok(self.queued(all))
    }

    fn one(&mut self, action: &Action, all: &mut Vec<Action>) -> Result<(), Refusal> {
        match action {
            Action::Output { port, max_len } => self.output(*port, *max_len, all)?,
            Action::Enqueue { port, queue } => {
                let mut to = vec![];
                self.output(*port, NO_BUFFER, &mut to)?;
                let queue = self.quota.queue.unwrap_or(*queue);
                all.extend(to.into_iter().map(|action| enqueue(action, queue)));
            }
            // Its own queue is that of all its packets.
            Action::SetQueue(_) if self.quota.queue.is_some() => {}
            Action::Group(group) => {
                let Some(real) = self.member.groups.real(*group) else {
                    let words = format!("group {group} does not exist in the slice");
                    return Err(refuse(Reason::BadActionBadOutGroup, words));
                };
                all.push(Action::Group(real));
            }
            Action::Experimenter { .. } => {
                let words = "nothing can be proved of an experimenter's action";
                return Err(refuse(Reason::BadActionBadExperimenter, words));
            }
            other => all.push(other.clone()),
        }
        Ok(())
    }

    fn output(
        &mut self,
        port: PortNumber,
        max_len: u16,
        all: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let member = self.member;
        match port {
            PortNumber::CONTROLLER => {
                all.push(Action::Output { port, max_len: max_len.max(LEAST) });
            }
            PortNumber::IN_PORT => all.push(Action::Output { port, max_len }),
            PortNumber::TABLE if self.tables => all.push(Action::Output { port, max_len }),
            // What a switch does for NORMAL is its own affair,
            // and may leave the slice: it becomes a flood.
            PortNumber::FLOOD | PortNumber::NORMAL => {
                self.flooded = true;
                let ports = member.all().iter().copied().filter(|port| member.floods(*port));
                all.extend(ports.map(Action::output));
            }
            PortNumber::ALL => {
                self.flooded = true;
                let ports = member.all().iter().copied().filter(|port| *port != PortNumber::LOCAL);
                all.extend(ports.map(Action::output));
            }
            port if fault::is(Fault::Ports) => all.push(Action::output(port)),
            port => {
                let Some(real) = member.real(port) else {
                    let words = format!("port {port} is not in the slice");
                    return Err(refuse(Reason::BadActionBadOutPort, words));
                };
                all.push(Action::Output { port: real, max_len });
            }
        }
        Ok(())
    }

    /// With the slice's queue.
    fn queued(&self, mut all: Vec<Action>) -> Vec<Action> {
        let Some(queue) = self.quota.queue else { return all };
        if self.version == Version::V10 {
            return all.into_iter().map(|action| enqueue(action, queue)).collect();
        }
        let sends = |action: &Action| matches!(action, Action::Output { .. } | Action::Group(_));
        // A queue holds for the outputs behind it.
        if let Some(first) = all.iter().position(sends) {
            all.insert(first, Action::SetQueue(queue));
        }
        all
    }

    /// Real instructions of a table.
    pub(super) fn instructions(
        &mut self,
        slice: SliceId,
        table: u8,
        instructions: &[Instruction],
    ) -> Result<Vec<Instruction>, Refusal> {
        let mut all = vec![];
        let (mut metadata, mut goes_on, mut metered) = ((0, 0), false, false);
        for instruction in instructions {
            match instruction {
                Instruction::ApplyActions(actions) => {
                    all.push(Instruction::ApplyActions(self.list(actions)?));
                }
                Instruction::WriteActions(actions) => {
                    all.push(Instruction::WriteActions(self.list(actions)?));
                }
                Instruction::WriteMetadata { value, mask } => {
                    metadata = metadata_of(*value, *mask)?
                }
                Instruction::Meter(meter) => {
                    metered = true;
                    all.push(Instruction::Meter(self.meter(*meter, table)?));
                }
                Instruction::GotoTable(_) => {
                    goes_on = true;
                    all.push(instruction.clone());
                }
                Instruction::ClearActions => all.push(instruction.clone()),
                Instruction::Experimenter { .. } => {
                    let words = "nothing can be proved of an experimenter's instruction";
                    return Err(refuse(Reason::BadInstructionBadExperimenter, words));
                }
            }
        }
        if table == 0 && goes_on {
            metadata = (metadata.0 | tag(slice), metadata.1 | TAG);
        }
        if metadata.1 != 0 {
            all.push(Instruction::WriteMetadata { value: metadata.0, mask: metadata.1 });
        }
        // An entry has one instruction of each type at most (section 5.9).
        if let Some(meter) = self.member.rate.filter(|_| table == 0 && !metered) {
            all.push(Instruction::Meter(meter));
        }
        all.sort_by_key(Instruction::order);
        Ok(all)
    }

    fn meter(&self, meter: u32, table: u8) -> Result<u32, Refusal> {
        if table == 0 && self.member.rate.is_some() {
            let words = "the meter of the first table is that of the slice's rate";
            return Err(refuse(Reason::BadInstructionUnsupInst, words));
        }
        self.member.meters.real(meter).ok_or_else(|| {
            refuse(Reason::MeterModFailedInvalidMeter, format!("meter {meter} does not exist"))
        })
    }
}

/// What a controller writes, without the bits that are not its.
fn metadata_of(value: u64, mask: u64) -> Result<(u64, u64), Refusal> {
    if value & TAG != 0 {
        let words = "the upper ten bits of the metadata tell slices apart";
        return Err(refuse(Reason::BadInstructionUnsupMetadataMask, words));
    }
    Ok((value, mask & !TAG))
}

fn enqueue(action: Action, queue: u32) -> Action {
    match action {
        Action::Output { port, .. } if !port.is_reserved() || port == PortNumber::IN_PORT => {
            Action::Enqueue { port, queue }
        }
        other => other,
    }
}

impl VirtualSwitches {
    pub(super) fn actions<'a>(&self, slice: SliceId, member: &'a Member) -> Actions<'a> {
        let quota = self.slicing.slice(slice).map(|slice| slice.quota).unwrap_or_default();
        Actions { member, quota, version: self.version, tables: false, flooded: false }
    }
}
