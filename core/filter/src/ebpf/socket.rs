//! Loads by `LD_ABS` and `LD_IND`, for socket filters and traffic control.
//!
//! r9 is the frame's length on the wire. The program checks once, at its start, for a tag kept beside the
//! bytes. It contains the filter twice: the second copy, for frames with such a tag, takes bytes 12 to 15
//! from it (a word on the stack) and later ones from four bytes earlier.
//!
//! These operations end the program where bytes are missing, without
//! reaching the caller's `reject`. So the length is checked first, and they never fail.

use super::asm::{self, A, Assembler, CTX, FRAME, Label, R1, R2, STACK, VERDICT, X, alu, jump};
use super::{Flow, Insn, Loads, body};
use crate::Program;
use crate::insn::Op;

/// Offsets in `struct __sk_buff`.
const LEN: i16 = 0;
const VLAN_PRESENT: i16 = 20;
const VLAN_TCI: i16 = 24;
const VLAN_PROTO: i16 = 28;

/// The offset of a tag in a frame, and of the bytes that it moved back.
const TAG: u32 = 12;
const BEHIND: u32 = 16;

/// Where the stack keeps the tag, as the word that it is in a frame; and an offset.
const KEPT_TAG: i16 = -68;
const KEPT_OFFSET: i16 = -72;

/// The filter, from its entry.
pub(super) fn program(asm: &mut Assembler, program: &Program, flow: &Flow) {
    asm.add(alu::mov_imm(A, 0));
    asm.add(alu::mov_imm(X, 0));
    asm.add(asm::load(asm::WORD, FRAME, CTX, LEN));
    if !program.ops().iter().any(|op| looks(*op)) {
        return body(asm, program, flow, &Plain, 0);
    }
    let tagged = asm.label();
    asm.add(asm::load(asm::WORD, VERDICT, CTX, VLAN_PRESENT));
    asm.branch(jump::imm(jump::NE, VERDICT, 0), tagged);
    body(asm, program, flow, &Plain, 0);
    asm.bind(tagged);
    // On the wire the tag's four bytes count.
    asm.add(alu::imm(alu::ADD, FRAME, BEHIND - TAG));
    asm.add(asm::load(asm::WORD, R1, CTX, VLAN_PROTO));
    // The kernel has the protocol in network order, the rest of the tag in its own.
    asm.add(alu::from_network(R1, 2));
    asm.add(alu::imm(alu::SHL, R1, 16));
    asm.add(asm::load(asm::WORD, R2, CTX, VLAN_TCI));
    asm.add(alu::reg(alu::OR, R1, R2));
    asm.add(asm::store(STACK, KEPT_TAG, R1));
    body(asm, program, flow, &Tagged, 1);
}

/// Whether an instruction reads the frame.
fn looks(op: Op) -> bool {
    matches!(op, Op::Absolute(..) | Op::Indirect(..) | Op::XHeader(_) | Op::Length | Op::XLength)
}

/// r0 = bytes at a constant offset, in host order.
fn ld_abs(bytes: u32, offset: i32) -> Insn {
    Insn::new(0x20 | asm::width(bytes), 0, 0, 0, offset)
}

/// r0 = bytes at the offset in a register, in host order.
fn ld_ind(bytes: u32, register: u8) -> Insn {
    Insn::new(0x40 | asm::width(bytes), 0, register, 0, 0)
}

/// Frames with all their bytes in the buffer.
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

/// Frames with a tag beside the bytes. Offsets are those on the wire.
struct Tagged;

impl Loads for Tagged {
    fn absolute(&self, asm: &mut Assembler, to: u8, bytes: u32, offset: u32, known: u32) {
        if !check(asm, bytes, offset, known) {
            return;
        }
        let end = offset + bytes;
        if end > TAG && offset < BEHIND && !(offset >= TAG && end <= BEHIND) {
            // It overlaps the tag, so it is longer than a byte, so it goes to A.
            asm.add(alu::mov_imm(A, 0));
            for at in offset..end {
                wire(asm, 1, at);
                append(asm);
            }
        } else {
            wire(asm, bytes, offset);
            asm.add(alu::mov(to, VERDICT));
        }
    }

    fn indirect(&self, asm: &mut Assembler, bytes: u32, offset: u32) {
        check_indirect(asm, bytes, offset);
        let [behind, across, loaded, done] = [(); 4].map(|()| asm.label());
        // r2 is the load's end: up to the tag no offset moves.
        asm.branch(jump::imm(jump::GT, R2, TAG.cast_signed()), behind);
        asm.add(ld_ind(bytes, R1));
        asm.jump(loaded);
        asm.bind(behind);
        asm.branch(jump::imm(jump::LT, R1, BEHIND.cast_signed()), across);
        asm.add(alu::imm(alu::SUB, R1, BEHIND - TAG));
        asm.add(ld_ind(bytes, R1));
        asm.jump(loaded);
        asm.bind(across);
        // LD_IND overwrites r1 to r5, so the offset waits on the stack.
        asm.add(asm::store(STACK, KEPT_OFFSET, R1));
        asm.add(alu::mov_imm(A, 0));
        for after in 0..bytes {
            asm.add(asm::load(asm::WORD, R1, STACK, KEPT_OFFSET));
            asm.add(alu::imm(alu::ADD, R1, after));
            wire_byte(asm);
            append(asm);
        }
        asm.jump(done);
        asm.bind(loaded);
        asm.add(alu::mov(A, VERDICT));
        asm.bind(done);
    }

    fn length(&self, asm: &mut Assembler, to: u8) {
        asm.add(alu::mov(to, FRAME));
    }
}

/// r0 = bytes before the tag, in it, or after it.
fn wire(asm: &mut Assembler, bytes: u32, offset: u32) {
    let end = offset + bytes;
    if end <= TAG {
        asm.add(ld_abs(bytes, offset.cast_signed()));
    } else if offset >= BEHIND {
        asm.add(ld_abs(bytes, (offset - (BEHIND - TAG)).cast_signed()));
    } else {
        asm.add(asm::load(asm::WORD, VERDICT, STACK, KEPT_TAG));
        asm.add(alu::imm(alu::SHR, VERDICT, 8 * (BEHIND - end)));
        asm.add(alu::imm(alu::AND, VERDICT, u32::MAX >> (32 - 8 * bytes)));
    }
}

/// r0 = the byte at offset r1.
fn wire_byte(asm: &mut Assembler) {
    let [behind, tag, done] = [(); 3].map(|()| asm.label());
    asm.branch(jump::imm(jump::GE, R1, TAG.cast_signed()), behind);
    asm.add(ld_ind(1, R1));
    asm.jump(done);
    asm.bind(behind);
    asm.branch(jump::imm(jump::LT, R1, BEHIND.cast_signed()), tag);
    asm.add(alu::imm(alu::SUB, R1, BEHIND - TAG));
    asm.add(ld_ind(1, R1));
    asm.jump(done);
    asm.bind(tag);
    // Byte 12 is the highest of the word, byte 15 the lowest.
    asm.add(alu::mov_imm(R2, BEHIND - 1));
    asm.add(alu::reg(alu::SUB, R2, R1));
    asm.add(alu::imm(alu::SHL, R2, 3));
    asm.add(asm::load(asm::WORD, VERDICT, STACK, KEPT_TAG));
    asm.add(alu::reg(alu::SHR, VERDICT, R2));
    asm.add(alu::imm(alu::AND, VERDICT, 0xff));
    asm.bind(done);
}

/// A = A with the byte in r0 appended.
fn append(asm: &mut Assembler) {
    asm.add(alu::imm(alu::SHL, A, 8));
    asm.add(alu::reg(alu::OR, A, VERDICT));
}

/// Rejects where the bytes at a constant offset are missing; false if they always are.
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
    // In 64 bits, so that the end does not wrap.
    asm.add(alu::mov64(R2, R1));
    asm.add(alu::add64_imm(R2, bytes.cast_signed()));
    asm.branch(jump::reg(jump::GT, R2, FRAME), Label::Reject);
}
