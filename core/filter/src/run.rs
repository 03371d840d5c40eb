//! The interpreter: a program's verdict on a frame.
//!
//! It is the reference for the translations, and filters frames in user space.

use crate::Program;
use crate::insn::{Alu, Op, Operand, Size, Test};
use crate::program::MEMORY;

/// The machine: two registers and scratch memory. All arithmetic is 32-bit and wraps.
struct Machine<'a> {
    frame: &'a [u8],
    wire_len: u32,
    a: u32,
    x: u32,
    memory: [u32; MEMORY],
}

/// How the program continues after an instruction.
enum Next {
    /// Skip this many instructions.
    Skip(u32),
    /// Return: keep this many bytes of the frame.
    Keep(u32),
}

impl Program {
    /// How many bytes of the frame to keep, which may be more than it has; 0 rejects it.
    ///
    /// `frame` is the available part from the Ethernet header on, `wire_len` its whole length, which
    /// only instructions that load the length see. As in Linux:
    ///
    /// * a load not entirely in `frame` rejects; an offset X + k wraps at 2^32 (and is beyond
    ///   the end from 2^31 on, where Linux has ancillary data);
    /// * a division by X = 0 rejects; a shift by X takes X modulo 32;
    /// * A, X are 0 at the start.
    ///
    /// libpcap's own interpreter differs where X + k wraps (it rejects) and where a shift by X exceeds
    /// 31 (it yields 0).
    pub fn run(&self, frame: &[u8], wire_len: u32) -> u32 {
        let mut machine = Machine { frame, wire_len, a: 0, x: 0, memory: [0; MEMORY] };
        let mut rest = self.ops();
        while let Some((op, after)) = rest.split_first() {
            match machine.step(*op) {
                Some(Next::Skip(0)) => rest = after,
                Some(Next::Skip(skip)) => {
                    rest = usize::try_from(skip)
                        .ok()
                        .and_then(|skip| after.get(skip..))
                        .unwrap_or(&[]);
                }
                Some(Next::Keep(count)) => return count,
                None => return 0,
            }
        }
        0
    }
}

impl Machine<'_> {
    /// Executes one instruction; `None` rejects.
    #[inline]
    fn step(&mut self, op: Op) -> Option<Next> {
        match op {
            Op::Absolute(size, k) => self.a = self.load(size, k)?,
            Op::Indirect(size, k) => self.a = self.load(size, self.x.wrapping_add(k))?,
            Op::Length => self.a = self.wire_len,
            Op::Constant(k) => self.a = k,
            Op::Memory(slot) => self.a = *self.slot(slot)?,
            Op::XConstant(k) => self.x = k,
            Op::XMemory(slot) => self.x = *self.slot(slot)?,
            Op::XLength => self.x = self.wire_len,
            Op::XHeader(k) => self.x = (self.load(Size::Byte, k)? & 0x0f) << 2,
            Op::Store(slot) => *self.slot(slot)? = self.a,
            Op::StoreX(slot) => *self.slot(slot)? = self.x,
            Op::Alu(alu, operand) => self.a = alu.calculate(self.a, self.operand(operand))?,
            Op::Negate => self.a = self.a.wrapping_neg(),
            Op::Jump(skip) => return Some(Next::Skip(skip)),
            Op::Branch(test, operand, yes, no) => {
                let holds = test.holds(self.a, self.operand(operand));
                return Some(Next::Skip(if holds { yes } else { no }.into()));
            }
            Op::Return(k) => return Some(Next::Keep(k)),
            Op::ReturnA => return Some(Next::Keep(self.a)),
            Op::ToX => self.x = self.a,
            Op::FromX => self.a = self.x,
        }
        Some(Next::Skip(0))
    }

    /// Bytes of the frame, in network order.
    #[inline]
    fn load(&self, size: Size, offset: u32) -> Option<u32> {
        let bytes = self.frame.get(usize::try_from(offset).ok()?..)?;
        Some(match size {
            Size::Byte => u32::from(*bytes.first()?),
            Size::Half => u32::from(u16::from_be_bytes(*bytes.first_chunk()?)),
            Size::Word => u32::from_be_bytes(*bytes.first_chunk()?),
        })
    }

    /// A word of scratch memory, which exists because the program was checked.
    fn slot(&mut self, slot: u32) -> Option<&mut u32> {
        self.memory.get_mut(usize::try_from(slot).ok()?)
    }

    fn operand(&self, operand: Operand) -> u32 {
        match operand {
            Operand::Constant(k) => k,
            Operand::X => self.x,
        }
    }
}

impl Alu {
    /// `None` for a division by zero.
    fn calculate(self, a: u32, b: u32) -> Option<u32> {
        Some(match self {
            Alu::Add => a.wrapping_add(b),
            Alu::Sub => a.wrapping_sub(b),
            Alu::Mul => a.wrapping_mul(b),
            Alu::Div => a.checked_div(b)?,
            Alu::Or => a | b,
            Alu::And => a & b,
            Alu::Shl => a.wrapping_shl(b),
            Alu::Shr => a.wrapping_shr(b),
            Alu::Mod => a.checked_rem(b)?,
            Alu::Xor => a ^ b,
        })
    }
}

impl Test {
    fn holds(self, a: u32, b: u32) -> bool {
        match self {
            Test::Equal => a == b,
            Test::Greater => a > b,
            Test::GreaterOrEqual => a >= b,
            Test::AnyBit => a & b != 0,
        }
    }
}
