//! Instructions of classic BPF, in the kernel's form and decoded.
//!
//! Codes are those of `linux/filter.h` and `linux/bpf_common.h`. An instruction decodes if the kernel
//! allows its operation; `program` checks operands.

/// An instruction as in the kernel's `struct sock_filter` and libpcap's `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Insn {
    /// Operation.
    pub code: u16,
    /// Instructions to skip if the condition holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

impl Insn {
    /// An instruction from its four fields.
    pub const fn new(code: u16, jt: u8, jf: u8, k: u32) -> Self {
        Insn { code, jt, jf, k }
    }
}

/// How many bytes a load takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Byte,
    Half,
    Word,
}

impl Size {
    /// In bytes.
    pub(crate) const fn bytes(self) -> u32 {
        match self {
            Size::Byte => 1,
            Size::Half => 2,
            Size::Word => 4,
        }
    }
}

/// The second operand of a calculation or a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Constant(u32),
    X,
}

/// A calculation on A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alu {
    Add,
    Sub,
    Mul,
    Div,
    Or,
    And,
    Shl,
    Shr,
    Mod,
    Xor,
}

/// A comparison of A, unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Equal,
    Greater,
    GreaterOrEqual,
    AnyBit,
}

/// A decoded instruction. Offsets are from the frame's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A = bytes at a constant offset.
    Absolute(Size, u32),
    /// A = bytes at X + constant.
    Indirect(Size, u32),
    /// A = length of the frame.
    Length,
    /// A = constant.
    Constant(u32),
    /// A = scratch memory.
    Memory(u32),
    /// X = constant.
    XConstant(u32),
    /// X = scratch memory.
    XMemory(u32),
    /// X = length of the frame.
    XLength,
    /// X = 4 * (low four bits of the byte at a constant offset).
    XHeader(u32),
    /// Scratch memory = A.
    Store(u32),
    /// Scratch memory = X.
    StoreX(u32),
    /// A = A op operand.
    Alu(Alu, Operand),
    /// A = -A.
    Negate,
    /// Skip.
    Jump(u32),
    /// Skip the first number if the test holds, else the second.
    Branch(Test, Operand, u8, u8),
    /// The verdict is a constant.
    Return(u32),
    /// The verdict is A.
    ReturnA,
    /// X = A.
    ToX,
    /// A = X.
    FromX,
}

impl Op {
    /// Decodes an instruction; `None` for an operation that the kernel does not allow.
    pub(crate) fn decode(insn: Insn) -> Option<Op> {
        let Insn { code, jt, jf, k } = insn;
        Some(match code {
            0x20 => Op::Absolute(Size::Word, k),
            0x28 => Op::Absolute(Size::Half, k),
            0x30 => Op::Absolute(Size::Byte, k),
            0x40 => Op::Indirect(Size::Word, k),
            0x48 => Op::Indirect(Size::Half, k),
            0x50 => Op::Indirect(Size::Byte, k),
            0x80 => Op::Length,
            0x00 => Op::Constant(k),
            0x60 => Op::Memory(k),
            0x01 => Op::XConstant(k),
            0x61 => Op::XMemory(k),
            0x81 => Op::XLength,
            0xb1 => Op::XHeader(k),
            0x02 => Op::Store(k),
            0x03 => Op::StoreX(k),
            0x84 => Op::Negate,
            0x05 => Op::Jump(k),
            0x06 => Op::Return(k),
            0x16 => Op::ReturnA,
            0x07 => Op::ToX,
            0x87 => Op::FromX,
            _ => {
                let operand = if code & 0x08 == 0 { Operand::Constant(k) } else { Operand::X };
                match code & !0x08 {
                    low if low & 0x07 == 0x04 => Op::Alu(Alu::decode(low)?, operand),
                    low if low & 0x07 == 0x05 => Op::Branch(Test::decode(low)?, operand, jt, jf),
                    _ => return None,
                }
            }
        })
    }

    /// The frame length that a load at a constant offset needs: the offset of its last byte, plus 1.
    pub(crate) fn needs(self) -> Option<u32> {
        match self {
            Op::Absolute(size, k) => Some(k.saturating_add(size.bytes())),
            Op::XHeader(k) => Some(k.saturating_add(1)),
            _ => None,
        }
    }
}

impl Alu {
    fn decode(code: u16) -> Option<Alu> {
        Some(match code {
            0x04 => Alu::Add,
            0x14 => Alu::Sub,
            0x24 => Alu::Mul,
            0x34 => Alu::Div,
            0x44 => Alu::Or,
            0x54 => Alu::And,
            0x64 => Alu::Shl,
            0x74 => Alu::Shr,
            0x94 => Alu::Mod,
            0xa4 => Alu::Xor,
            _ => return None,
        })
    }
}

impl Test {
    fn decode(code: u16) -> Option<Test> {
        Some(match code {
            0x15 => Test::Equal,
            0x25 => Test::Greater,
            0x35 => Test::GreaterOrEqual,
            0x45 => Test::AnyBit,
            _ => return None,
        })
    }
}
