//! Filters as eBPF, for programs on the kernel's data path.
//!
//! [`translate`] makes a whole program, [`translate_with`] one that continues with the caller's
//! instructions. The contract of both flavours:
//!
//! * at entry r1 holds the context; nothing else is expected;
//! * r0 to r9 and the stack's bytes from r10 - 80 to r10 - 1 are overwritten: the caller's instructions
//!   find any content in them, and may use all of the stack;
//! * at `accept` r6 holds the context and r0 the bytes to keep (1 to 2^32 - 1, more than the frame has
//!   where the filter keeps all of it); at `reject` r6 holds the context and r0 is 0;
//! * every instruction is reachable (the verifier requires that): `accept` or `reject` is omitted where
//!   the filter never gets there.
//!
//! The verdict equals that of [`Program::run`] on the bytes that the flavour sees ([`Flavour`]). The
//! program calls no helper and uses no map. All jumps go forward.

mod asm;
mod flow;
mod insn;
mod packet;
mod socket;

pub use insn::Insn;

use crate::insn::{Alu, Op, Operand, Test};
use crate::{Program, Result};
use asm::{A, Assembler, CTX, Label, STACK, VERDICT, X, alu, jump};
use flow::Flow;

/// How a program reaches the frame's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// XDP: `struct xdp_md` and direct access. The frame is the bytes between `data` and `data_end`: of
    /// one in several pieces only the first, with that piece's length. A load that ends
    /// beyond 65,535 rejects. A VLAN tag is visible where the driver left it in the bytes, and not at all
    /// where it removed it (veth does, while its VLAN offload is on).
    Packet,
    /// A filter of a socket or of traffic control: `struct __sk_buff` and `LD_ABS`, `LD_IND`. The frame
    /// is complete, as on the wire: a VLAN tag that the kernel keeps beside the bytes is visible at
    /// its place and counts for the length. The data must begin with the Ethernet header: packet sockets
    /// of type `SOCK_RAW`, tc and tcx.
    Socket,
}

/// Translates a filter to an eBPF program that returns the bytes to keep, 0 to reject.
///
/// # Errors
///
/// [`crate::Error::TooLong`] if a jump would exceed 32,767 instructions. That
/// takes thousands of instructions, or some 350 loads at an offset from X ([`Flavour::Socket`] makes up
/// to 91 instructions of each).
pub fn translate(program: &Program, flavour: Flavour) -> Result<Vec<Insn>> {
    translate_with(program, flavour, &[jump::EXIT], &[jump::EXIT])
}

/// Translates a filter to an eBPF program that continues with `accept` or `reject`; the module's
/// documentation says what they find. Each must end with an exit (or a jump inside itself).
///
/// # Errors
///
/// As [`translate`].
pub fn translate_with(
    program: &Program,
    flavour: Flavour,
    accept: &[Insn],
    reject: &[Insn],
) -> Result<Vec<Insn>> {
    let flow = Flow::of(program.ops());
    let mut asm = Assembler::default();
    asm.add(alu::mov64(CTX, asm::R1));
    match flavour {
        Flavour::Packet => packet::program(&mut asm, program, &flow),
        Flavour::Socket => socket::program(&mut asm, program, &flow),
    }
    asm.finish(accept, reject)
}

/// Loads of one flavour; each jumps to [`Label::Reject`] unless all bytes exist.
trait Loads {
    /// To A, or to X (one byte) for its header: the bytes at a constant offset. `known` bytes of the
    /// frame exist on every path to here.
    fn absolute(&self, asm: &mut Assembler, to: u8, bytes: u32, offset: u32, known: u32);
    /// To A: the bytes at X + a constant.
    fn indirect(&self, asm: &mut Assembler, bytes: u32, offset: u32);
    /// The frame's length to a register.
    fn length(&self, asm: &mut Assembler, to: u8);
}

/// A filter's instructions, with the loads of a flavour. `copy` distinguishes the targets of several copies.
fn body(asm: &mut Assembler, program: &Program, flow: &Flow, loads: &dyn Loads, copy: u8) {
    for (at, op) in program.ops().iter().enumerate() {
        let Some(known) = flow.known(at) else { continue };
        asm.bind(Label::Op { copy, at });
        let to = |skip: u32| Label::Op { copy, at: at + 1 + usize::try_from(skip).unwrap_or(0) };
        match *op {
            Op::Absolute(size, k) => loads.absolute(asm, A, size.bytes(), k, known),
            Op::Indirect(size, k) => loads.indirect(asm, size.bytes(), k),
            Op::Length => loads.length(asm, A),
            Op::XLength => loads.length(asm, X),
            Op::XHeader(k) => {
                loads.absolute(asm, X, 1, k, known);
                asm.add(alu::imm(alu::AND, X, 0x0f));
                asm.add(alu::imm(alu::SHL, X, 2));
            }
            Op::Jump(skip) => asm.jump(to(skip)),
            Op::Branch(test, operand, yes, no) => {
                branch(asm, test, operand, [to(yes.into()), to(no.into())], [yes, no]);
            }
            Op::Return(0) => asm.jump(Label::Reject),
            Op::Return(k) => {
                asm.add(alu::mov_imm(VERDICT, k));
                asm.jump(Label::Accept);
            }
            Op::ReturnA => {
                asm.add(alu::mov(VERDICT, A));
                asm.branch(jump::imm(jump::EQ, VERDICT, 0), Label::Reject);
                asm.jump(Label::Accept);
            }
            _ => register(asm, *op),
        }
    }
}

/// Operations on registers and scratch memory only.
fn register(asm: &mut Assembler, op: Op) {
    match op {
        Op::Constant(k) => asm.add(alu::mov_imm(A, k)),
        Op::XConstant(k) => asm.add(alu::mov_imm(X, k)),
        Op::Memory(slot) => asm.add(asm::load(asm::WORD, A, STACK, memory(slot))),
        Op::XMemory(slot) => asm.add(asm::load(asm::WORD, X, STACK, memory(slot))),
        Op::Store(slot) => asm.add(asm::store(STACK, memory(slot), A)),
        Op::StoreX(slot) => asm.add(asm::store(STACK, memory(slot), X)),
        Op::Negate => asm.add(alu::imm(alu::NEG, A, 0)),
        Op::ToX => asm.add(alu::mov(X, A)),
        Op::FromX => asm.add(alu::mov(A, X)),
        Op::Alu(what, Operand::Constant(k)) => asm.add(alu::imm(operation(what), A, k)),
        Op::Alu(what, Operand::X) => {
            // Classic BPF rejects where the divisor is 0; eBPF would go on.
            if matches!(what, Alu::Div | Alu::Mod) {
                asm.branch(jump::imm(jump::EQ, X, 0), Label::Reject);
            }
            asm.add(alu::reg(operation(what), A, X));
        }
        _ => {}
    }
}

/// Where a word of scratch memory is on the stack: r10 - 64 to r10 - 1.
fn memory(slot: u32) -> i16 {
    i16::try_from(slot).map_or(-4, |slot| 4 * slot - 64)
}

fn operation(what: Alu) -> u8 {
    match what {
        Alu::Add => alu::ADD,
        Alu::Sub => alu::SUB,
        Alu::Mul => alu::MUL,
        Alu::Div => alu::DIV,
        Alu::Or => alu::OR,
        Alu::And => alu::AND,
        Alu::Shl => alu::SHL,
        Alu::Shr => alu::SHR,
        Alu::Mod => alu::MOD,
        Alu::Xor => alu::XOR,
    }
}

/// Jumps to the first label if the test holds, else to the second; one that skips nothing is the next
/// instruction.
fn branch(asm: &mut Assembler, test: Test, operand: Operand, to: [Label; 2], skips: [u8; 2]) {
    let (holds, fails) = match test {
        Test::Equal => (jump::EQ, Some(jump::NE)),
        Test::Greater => (jump::GT, Some(jump::LE)),
        Test::GreaterOrEqual => (jump::GE, Some(jump::LT)),
        Test::AnyBit => (jump::SET, None),
    };
    // Both ways lead to the same place: the test decides nothing.
    if skips[0] == skips[1] {
        return if skips[0] > 0 {
            asm.jump(to[0])
        };
    }
    // One jump where a way is the next instruction; eBPF has no opposite of SET.
    match fails {
        Some(fails) if skips[0] == 0 => asm.compare(fails, operand, to[1]),
        _ => {
            asm.compare(holds, operand, to[0]);
            if skips[1] > 0 {
                asm.jump(to[1]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
