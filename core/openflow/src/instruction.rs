//! Instructions of a flow entry (section 7.2.4), and the lists of actions that stand for them in 1.0.

use crate::action::{self, Action};
use crate::error::Reason;
use crate::wire::{Encoded, Reader, Result, Writer, fail};

/// OFPIT_*.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// Go on in a later table.
    GotoTable(u8),
    /// Set the masked bits of the metadata.
    WriteMetadata {
        /// New bits.
        value: u64,
        /// Which bits are set.
        mask: u64,
    },
    /// Put these into the action set.
    WriteActions(Vec<Action>),
    /// Do these at once, in order; in 1.0 a flow entry has only these.
    ApplyActions(Vec<Action>),
    /// Empty the action set.
    ClearActions,
    /// Through this meter, which may drop the packet.
    Meter(u32),
    /// An experimenter's.
    Experimenter {
        /// Its number.
        experimenter: u32,
        /// The rest.
        data: Vec<u8>,
    },
}

impl Instruction {
    /// Its type on the wire.
    pub const fn number(&self) -> u16 {
        match self {
            Instruction::GotoTable(_) => 1,
            Instruction::WriteMetadata { .. } => 2,
            Instruction::WriteActions(_) => 3,
            Instruction::ApplyActions(_) => 4,
            Instruction::ClearActions => 5,
            Instruction::Meter(_) => 6,
            Instruction::Experimenter { .. } => 0xffff,
        }
    }

    /// Its place in the order of execution (section 5.9).
    pub const fn order(&self) -> u8 {
        match self {
            Instruction::Meter(_) => 0,
            Instruction::ApplyActions(_) => 1,
            Instruction::ClearActions => 2,
            Instruction::WriteActions(_) => 3,
            Instruction::WriteMetadata { .. } => 4,
            // The specification gives it no place; nothing comes behind a goto.
            Instruction::Experimenter { .. } => 5,
            Instruction::GotoTable(_) => 6,
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Instruction> {
        let mut r = r.sized(2, 4)?.of("instruction", Reason::BadInstructionBadLen);
        let kind = r.u16()?;
        r.skip(2)?;
        let instruction = match kind {
            1 => {
                let table = r.u8()?;
                r.skip(3)?;
                Instruction::GotoTable(table)
            }
            2 => {
                r.skip(4)?;
                Instruction::WriteMetadata { value: r.u64()?, mask: r.u64()? }
            }
            3 | 4 => {
                r.skip(4)?;
                let actions = action::read_all(&mut r)?;
                match kind {
                    3 => Instruction::WriteActions(actions),
                    _ => Instruction::ApplyActions(actions),
                }
            }
            5 => {
                r.skip(4)?;
                Instruction::ClearActions
            }
            6 => Instruction::Meter(r.u32()?),
            0xffff => Instruction::Experimenter { experimenter: r.u32()?, data: r.rest() },
            _ => return fail(Reason::BadInstructionUnknownInst, "instruction: unknown type"),
        };
        r.finish()?;
        Ok(instruction)
    }

    fn write(&self, w: &mut Writer) -> Encoded {
        let start = w.len();
        w.u16(self.number());
        w.zeros(2);
        match self {
            Instruction::GotoTable(table) => {
                w.u8(*table);
                w.zeros(3);
            }
            Instruction::WriteMetadata { value, mask } => {
                w.zeros(4);
                w.u64(*value);
                w.u64(*mask);
            }
            Instruction::WriteActions(actions) | Instruction::ApplyActions(actions) => {
                w.zeros(4);
                action::write_all(actions, w)?;
            }
            Instruction::ClearActions => w.zeros(4),
            Instruction::Meter(meter) => w.u32(*meter),
            Instruction::Experimenter { experimenter, data } => {
                w.u32(*experimenter);
                w.bytes(data);
            }
        }
        w.set_length(start, start + 2, "instruction")
    }
}

/// Reads what a flow entry does until nothing is left: instructions, or the actions of 1.0.
pub(crate) fn read_all(r: &mut Reader<'_>) -> Result<Vec<Instruction>> {
    if !r.is_10() {
        let mut r2 = r.of("instruction", Reason::BadInstructionBadLen);
        let all = r2.all(Instruction::read)?;
        // `of` copied the reader.
        r.rest();
        return Ok(all);
    }
    let actions = action::read_all(r)?;
    // Both drop: an empty list in 1.0, an entry without instructions in 1.3.
    Ok(if actions.is_empty() { vec![] } else { vec![Instruction::ApplyActions(actions)] })
}

pub(crate) fn write_all(instructions: &[Instruction], w: &mut Writer) -> Encoded {
    if !w.is_10() {
        return instructions.iter().try_for_each(|instruction| instruction.write(w));
    }
    match instructions {
        [] => Ok(()),
        [Instruction::ApplyActions(actions)] => action::write_all(actions, w),
        _ => w.lacks("instruction"),
    }
}
