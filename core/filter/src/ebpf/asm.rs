//! An assembler: eBPF instructions, labels, and jumps whose targets are resolved at the end.
//!
//! Only the operations that filters need. Arithmetic is 32-bit and clears the upper half of the
//! register, so A and X are always zero-extended and may be compared as 64-bit values.

use super::Insn;
use crate::insn::Operand;
use crate::{Error, Result};
use std::collections::HashMap;

pub(super) const VERDICT: u8 = 0;
pub(super) const R1: u8 = 1;
pub(super) const R2: u8 = 2;
pub(super) const R5: u8 = 5;
/// The context; `LD_ABS` requires it in this register.
pub(super) const CTX: u8 = 6;
/// Classic BPF's accumulator.
pub(super) const A: u8 = 7;
/// Classic BPF's index.
pub(super) const X: u8 = 8;
/// The flavour's own value about the frame.
pub(super) const FRAME: u8 = 9;
pub(super) const STACK: u8 = 10;

/// Sizes of loads, as in the operation's code.
pub(super) const WORD: u8 = 0x00;
pub(super) const HALF: u8 = 0x08;
pub(super) const BYTE: u8 = 0x10;

/// The code of a size in bytes.
pub(super) fn width(bytes: u32) -> u8 {
    match bytes {
        1 => BYTE,
        2 => HALF,
        _ => WORD,
    }
}

/// dst = memory at src + offset.
pub(super) fn load(width: u8, dst: u8, src: u8, off: i16) -> Insn {
    Insn::new(0x61 | width, dst, src, off, 0)
}

/// A word of memory at dst + offset = src.
pub(super) fn store(dst: u8, off: i16, src: u8) -> Insn {
    Insn::new(0x63, dst, src, off, 0)
}

/// Arithmetic.
pub(super) mod alu {
    use super::Insn;

    pub(in super::super) const ADD: u8 = 0x00;
    pub(in super::super) const SUB: u8 = 0x10;
    pub(in super::super) const MUL: u8 = 0x20;
    pub(in super::super) const DIV: u8 = 0x30;
    pub(in super::super) const OR: u8 = 0x40;
    pub(in super::super) const AND: u8 = 0x50;
    pub(in super::super) const SHL: u8 = 0x60;
    pub(in super::super) const SHR: u8 = 0x70;
    pub(in super::super) const NEG: u8 = 0x80;
    pub(in super::super) const MOD: u8 = 0x90;
    pub(in super::super) const XOR: u8 = 0xa0;
    const MOV: u8 = 0xb0;

    /// dst = dst op constant, 32 bits.
    pub(in super::super) fn imm(op: u8, dst: u8, k: u32) -> Insn {
        Insn::new(0x04 | op, dst, 0, 0, k.cast_signed())
    }

    /// dst = dst op src, 32 bits.
    pub(in super::super) fn reg(op: u8, dst: u8, src: u8) -> Insn {
        Insn::new(0x0c | op, dst, src, 0, 0)
    }

    /// dst = dst + constant, 64 bits.
    pub(in super::super) fn add64_imm(dst: u8, k: i32) -> Insn {
        Insn::new(0x07 | ADD, dst, 0, 0, k)
    }

    /// dst = dst op src, 64 bits.
    pub(in super::super) fn reg64(op: u8, dst: u8, src: u8) -> Insn {
        Insn::new(0x0f | op, dst, src, 0, 0)
    }

    /// dst = constant, zero-extended.
    pub(in super::super) fn mov_imm(dst: u8, k: u32) -> Insn {
        imm(MOV, dst, k)
    }

    /// dst = src, 32 bits, zero-extended.
    pub(in super::super) fn mov(dst: u8, src: u8) -> Insn {
        reg(MOV, dst, src)
    }

    /// dst = src, 64 bits.
    pub(in super::super) fn mov64(dst: u8, src: u8) -> Insn {
        reg64(MOV, dst, src)
    }

    /// dst = its lowest bytes, converted from network order.
    pub(in super::super) fn from_network(dst: u8, bytes: u32) -> Insn {
        Insn::new(0xdc, dst, 0, 0, (8 * bytes).cast_signed())
    }
}

/// 64-bit jumps; their targets are resolved later.
pub(super) mod jump {
    use super::Insn;

    pub(in super::super) const EQ: u8 = 0x10;
    pub(in super::super) const GT: u8 = 0x20;
    pub(in super::super) const GE: u8 = 0x30;
    pub(in super::super) const SET: u8 = 0x40;
    pub(in super::super) const NE: u8 = 0x50;
    pub(in super::super) const LT: u8 = 0xa0;
    pub(in super::super) const LE: u8 = 0xb0;
    pub(in super::super) const EXIT: Insn = Insn::new(0x95, 0, 0, 0, 0);
    pub(super) const ALWAYS: Insn = Insn::new(0x05, 0, 0, 0, 0);

    /// Compares with a constant, sign-extended.
    pub(in super::super) fn imm(test: u8, dst: u8, k: i32) -> Insn {
        Insn::new(0x05 | test, dst, 0, 0, k)
    }

    /// Compares two registers.
    pub(in super::super) fn reg(test: u8, dst: u8, src: u8) -> Insn {
        Insn::new(0x0d | test, dst, src, 0, 0)
    }
}

/// The target of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Label {
    /// An instruction of the filter, in one of its copies.
    Op { copy: u8, at: usize },
    /// A place inside a translated instruction.
    Inner(usize),
    /// The frame is kept.
    Accept,
    /// The frame is rejected.
    Reject,
}

/// A program being assembled.
#[derive(Default)]
pub(super) struct Assembler {
    out: Vec<Insn>,
    jumps: Vec<(usize, Label)>,
    places: HashMap<Label, usize>,
    inner: usize,
}

impl Assembler {
    /// Adds an instruction that does not jump.
    pub(super) fn add(&mut self, insn: Insn) {
        self.out.push(insn);
    }

    /// A label for [`Assembler::bind`].
    pub(super) fn label(&mut self) -> Label {
        self.inner += 1;
        Label::Inner(self.inner)
    }

    /// Makes the next instruction the target.
    pub(super) fn bind(&mut self, target: Label) {
        self.places.insert(target, self.out.len());
    }

    /// Adds an instruction that jumps if its test holds.
    pub(super) fn branch(&mut self, insn: Insn, to: Label) {
        self.jumps.push((self.out.len(), to));
        self.out.push(insn);
    }

    /// Jumps unconditionally.
    pub(super) fn jump(&mut self, to: Label) {
        self.branch(jump::ALWAYS, to);
    }

    /// Always rejects, but keeps the next instruction in the verifier's graph.
    pub(super) fn reject(&mut self) {
        self.add(alu::mov_imm(VERDICT, 0));
        self.branch(jump::imm(jump::EQ, VERDICT, 0), Label::Reject);
    }

    /// Jumps if the comparison of A holds.
    pub(super) fn compare(&mut self, test: u8, operand: Operand, to: Label) {
        let insn = match operand {
            Operand::X => jump::reg(test, A, X),
            Operand::Constant(k) => match i32::try_from(k) {
                Ok(k) => jump::imm(test, A, k),
                // A constant is sign-extended, A is not.
                Err(_) => {
                    self.add(alu::mov_imm(VERDICT, k));
                    jump::reg(test, A, VERDICT)
                }
            },
        };
        self.branch(insn, to);
    }

    /// Adds the caller's instructions where they are reached, and resolves all jumps.
    pub(super) fn finish(mut self, accept: &[Insn], reject: &[Insn]) -> Result<Vec<Insn>> {
        if self.reaches(Label::Accept) {
            self.bind(Label::Accept);
            self.out.extend_from_slice(accept);
        }
        if self.reaches(Label::Reject) {
            self.bind(Label::Reject);
            self.add(alu::mov_imm(VERDICT, 0));
            self.out.extend_from_slice(reject);
        }
        for (at, to) in &self.jumps {
            let off = self.places.get(to).and_then(|place| place.checked_sub(at + 1));
            let off = off.and_then(|off| i16::try_from(off).ok());
            let off = off.ok_or(Error::TooLong { count: self.out.len() })?;
            self.out[*at] = self.out[*at].with_off(off);
        }
        Ok(self.out)
    }

    fn reaches(&self, label: Label) -> bool {
        self.jumps.iter().any(|(_, to)| *to == label)
    }
}
