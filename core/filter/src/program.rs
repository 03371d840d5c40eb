//! A checked filter: it meets the kernel's `bpf_check_classic` and reads no ancillary data.
//!
//! Invariants of a [`Program`]: it is not empty. Every jump goes forward and stays inside; every path
//! ends in a return. Scratch memory is in range, and written before it is read on every path. No constant
//! divisor is 0, no constant shift exceeds 31, and no constant offset of a load exceeds `i32::MAX`.

use crate::insn::{Alu, Op, Operand};
use crate::{Error, Insn, Result};

/// Maximum instructions of a program (the kernel's `BPF_MAXINSNS`).
pub const MOST_INSNS: usize = 4096;

/// Words of scratch memory (`BPF_MEMWORDS`).
pub(crate) const MEMORY: usize = 16;

/// Codes of instructions that [`Program::besides`] writes.
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;
const CONSTANT: u16 = 0x00;
const TO_X: u16 = 0x07;

/// A checked filter in classic BPF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    insns: Vec<Insn>,
    ops: Vec<Op>,
}

impl Program {
    /// Checks a program.
    ///
    /// # Errors
    ///
    /// Any of [`Error`]'s variants except [`Error::TooLong`].
    pub fn new(insns: Vec<Insn>) -> Result<Program> {
        let count = insns.len();
        if !(1..=MOST_INSNS).contains(&count) {
            return Err(Error::Count { count });
        }
        let mut ops = Vec::with_capacity(count);
        for (at, insn) in insns.iter().enumerate() {
            let op = Op::decode(*insn).ok_or(Error::Operation { at, code: insn.code })?;
            check(at, op, count)?;
            ops.push(op);
        }
        // No jump leaves the program, so only its last instruction could run off its end.
        if !matches!(ops.last(), Some(Op::Return(_) | Op::ReturnA)) {
            return Err(Error::End);
        }
        check_memory(&ops)?;
        Ok(Program { insns, ops })
    }

    /// The program that keeps every frame whole.
    pub fn all() -> Program {
        Program { insns: vec![Insn::new(0x06, 0, 0, u32::MAX)], ops: vec![Op::Return(u32::MAX)] }
    }

    /// The program that keeps what this one keeps, but nothing that `others` matches.
    ///
    /// # Errors
    ///
    /// Both together are too long; `others` has a verdict that it computes.
    pub fn besides(&self, others: &Program) -> Result<Program> {
        let count = others.insns.len();
        let mut insns = Vec::with_capacity(count + 2 + self.insns.len());
        for (at, (insn, op)) in others.insns.iter().zip(&others.ops).enumerate() {
            insns.push(match op {
                // No match: on behind the last instruction.
                Op::Return(0) => {
                    let skip = u32::try_from(count - at - 1).unwrap_or(u32::MAX);
                    Insn::new(JUMP, 0, 0, skip)
                }
                Op::Return(_) => Insn::new(RETURN, 0, 0, 0),
                Op::ReturnA => return Err(Error::Operation { at, code: insn.code }),
                _ => *insn,
            });
        }
        // A program begins with A and X at 0.
        insns.extend([Insn::new(CONSTANT, 0, 0, 0), Insn::new(TO_X, 0, 0, 0)]);
        insns.extend(&self.insns);
        Program::new(insns)
    }

    /// The instructions, for a socket (`SO_ATTACH_FILTER`).
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }

    pub(crate) fn ops(&self) -> &[Op] {
        &self.ops
    }
}

/// Checks the operands of one instruction of `count`.
fn check(at: usize, op: Op, count: usize) -> Result<()> {
    let inside = |skip: u32| usize::try_from(skip).is_ok_and(|skip| skip < count - at - 1);
    match op {
        Op::Absolute(_, k) | Op::XHeader(k) if k.cast_signed() < 0 => {
            Err(Error::Ancillary { at, offset: k.cast_signed() })
        }
        Op::Memory(slot) | Op::XMemory(slot) | Op::Store(slot) | Op::StoreX(slot)
            if usize::try_from(slot).is_ok_and(|slot| slot >= MEMORY) =>
        {
            Err(Error::Memory { at, slot })
        }
        Op::Alu(Alu::Div | Alu::Mod, Operand::Constant(0)) => Err(Error::Division { at }),
        Op::Alu(Alu::Shl | Alu::Shr, Operand::Constant(by)) if by > 31 => {
            Err(Error::Shift { at, by })
        }
        Op::Jump(skip) if !inside(skip) => Err(Error::Jump { at }),
        Op::Branch(_, _, yes, no) if !inside(yes.into()) || !inside(no.into()) => {
            Err(Error::Jump { at })
        }
        _ => Ok(()),
    }
}

/// Refuses scratch memory that is read before it is written on some path; jumps are already checked.
/// A bit for each word: written on every path to here. Unreachable code has all bits set.
fn check_memory(ops: &[Op]) -> Result<()> {
    let mut written = vec![u16::MAX; ops.len()];
    written[0] = 0;
    // Jumps go forward: whatever leads to an instruction was seen before it.
    for (at, op) in ops.iter().enumerate() {
        let mut now = written[at];
        match *op {
            Op::Memory(slot) | Op::XMemory(slot) if now & (1 << slot) == 0 => {
                return Err(Error::Unwritten { at, slot });
            }
            Op::Store(slot) | Op::StoreX(slot) => now |= 1 << slot,
            _ => {}
        }
        for next in successors(at, *op).into_iter().flatten() {
            written[next] &= now;
        }
    }
    Ok(())
}

/// Where a checked program continues after an instruction; always later.
pub(crate) fn successors(at: usize, op: Op) -> [Option<usize>; 2] {
    match op {
        Op::Return(_) | Op::ReturnA => [None, None],
        Op::Jump(skip) => [usize::try_from(skip).ok().map(|skip| at + 1 + skip), None],
        Op::Branch(_, _, yes, no) => {
            [Some(at + 1 + usize::from(yes)), Some(at + 1 + usize::from(no))]
        }
        _ => [Some(at + 1), None],
    }
}
