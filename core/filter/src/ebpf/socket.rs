//! Loads by `LD_ABS` and `LD_IND`, for socket filters and traffic control.
//!
//! r9 is the frame's length. These operations end the program where the bytes are not there, with no
//! way to the caller's `reject`: so the length is looked at first, and they never fail.

use super::asm::{self, A, Assembler, CTX, FRAME, Label, R1, R2, VERDICT, X, alu, jump};
use super::{Flow, Insn, Loads, body};
use crate::Program;

/// Offset of `len` in `struct __sk_buff`.
const LEN: i16 = 0;

/// The filter, from its entry.
pub(super) fn program(asm: &mut Assembler, program: &Program, flow: &Flow) {
    asm.add(alu::mov_imm(A, 0));
    asm.add(alu::mov_imm(X, 0));
    asm.add(asm::load(asm::WORD, FRAME, CTX, LEN));
    body(asm, program, flow, &Plain, 0);
}

/// r0 = bytes at a constant offset, in host order.
fn ld_abs(bytes: u32, offset: i32) -> Insn {
    Insn::new(0x20 | asm::width(bytes), 0, 0, 0, offset)
}

/// r0 = bytes at the offset in a register, in host order.
fn ld_ind(bytes: u32, register: u8) -> Insn {
    Insn::new(0x40 | asm::width(bytes), 0, register, 0, 0)
}

/// Frames whose bytes are all in the buffer.
struct Plain;

impl Loads for Plain {
    fn absolute(&self, asm: &mut Assembler, to: u8, bytes: u32, offset: u32, known: u32) {
        if check(asm, bytes, offset, known) {
            asm.add(ld_abs(bytes, offset.cast_signed()));
            asm.add(alu::mov(to, VERDICT));
        }
    }

    fn indirect(&self, asm: &mut Assembler, bytes: u32, offset: u32) {
        check_indirect(asm, bytes, offset);
        asm.add(ld_ind(bytes, R1));
        asm.add(alu::mov(A, VERDICT));
    }

    fn length(&self, asm: &mut Assembler, to: u8) {
        asm.add(alu::mov(to, FRAME));
    }
}

/// Rejects where the bytes at a constant offset are not there; false if they never are.
fn check(asm: &mut Assembler, bytes: u32, offset: u32, known: u32) -> bool {
    let end = offset.saturating_add(bytes);
    let Ok(least) = i32::try_from(end) else {
        // No frame is that long.
        asm.reject();
        return false;
    };
    if known < end {
        asm.branch(jump::imm(jump::LT, FRAME, least), Label::Reject);
    }
    true
}

/// r1 = X + offset; rejects where the bytes there are not all in the frame.
fn check_indirect(asm: &mut Assembler, bytes: u32, offset: u32) {
    asm.add(alu::mov(R1, X));
    asm.add(alu::imm(alu::ADD, R1, offset));
    asm.add(alu::mov64(R2, R1));
    asm.add(alu::add64_imm(R2, bytes.cast_signed()));
    asm.branch(jump::reg(jump::GT, R2, FRAME), Label::Reject);
}
