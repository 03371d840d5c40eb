//! Loads by direct access, for XDP.
//!
//! r9 is the frame's first byte, r5 its end. Every load is at a constant offset from r9 or from a fresh
//! copy of it, so what the verifier learned by one check holds for all later loads below it. So a
//! check is emitted only where some path has not made it. An offset from X is bounded to 16 bits before
//! it is added, as the verifier requires (its `MAX_PACKET_OFF`).

use super::asm::{self, A, Assembler, CTX, FRAME, Label, R1, R2, R5, X, alu, jump};
use super::{Flow, Loads, body};
use crate::Program;

/// The largest offset up to which the verifier tracks a pointer into a packet.
const FARTHEST: u32 = 0xffff;

/// Offsets of `data` and `data_end` in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;

/// The filter, from its entry.
pub(super) fn program(asm: &mut Assembler, program: &Program, flow: &Flow) {
    // Both are 0 at the start of a classic program; and the verifier refuses registers that nothing
    // has set.
    asm.add(alu::mov_imm(A, 0));
    asm.add(alu::mov_imm(X, 0));
    asm.add(asm::load(asm::WORD, FRAME, CTX, DATA));
    asm.add(asm::load(asm::WORD, R5, CTX, DATA_END));
    body(asm, program, flow, &Direct, 0);
}

struct Direct;

impl Loads for Direct {
    fn absolute(&self, asm: &mut Assembler, to: u8, bytes: u32, offset: u32, known: u32) {
        let end = offset.saturating_add(bytes);
        // The verifier loses track of a pointer that goes further, and refuses the load.
        let (Ok(end_i32), true) = (i32::try_from(end), end <= FARTHEST) else {
            return asm.reject();
        };
        let near = i16::try_from(offset);
        if known < end || near.is_err() {
            asm.add(alu::mov64(R1, FRAME));
            asm.add(alu::add64_imm(R1, end_i32));
            asm.branch(jump::reg(jump::GT, R1, R5), Label::Reject);
        }
        match near {
            Ok(offset) => asm.add(asm::load(asm::width(bytes), to, FRAME, offset)),
            // A load's own offset has 16 bits with a sign, so it goes back from the end.
            Err(_) => asm.add(asm::load(asm::width(bytes), to, R1, back(bytes))),
        }
        swap(asm, to, bytes);
    }

    fn indirect(&self, asm: &mut Assembler, bytes: u32, offset: u32) {
        let most = FARTHEST - bytes;
        asm.add(alu::mov(R1, X));
        // In 32 bits X + k wraps, as in classic BPF.
        asm.add(alu::imm(alu::ADD, R1, offset));
        asm.branch(jump::imm(jump::GT, R1, most.cast_signed()), Label::Reject);
        asm.add(alu::mov64(R2, FRAME));
        asm.add(alu::reg64(alu::ADD, R2, R1));
        // To the verifier both are one pointer: the check of this copy holds for r2.
        asm.add(alu::mov64(R1, R2));
        asm.add(alu::add64_imm(R1, bytes.cast_signed()));
        asm.branch(jump::reg(jump::GT, R1, R5), Label::Reject);
        asm.add(asm::load(asm::width(bytes), A, R2, 0));
        swap(asm, A, bytes);
    }

    fn length(&self, asm: &mut Assembler, to: u8) {
        asm.add(alu::mov64(to, R5));
        asm.add(alu::reg64(alu::SUB, to, FRAME));
        // All else relies on A and X being zero-extended.
        asm.add(alu::mov(to, to));
    }
}

/// From the end of a load to its first byte.
fn back(bytes: u32) -> i16 {
    match bytes {
        1 => -1,
        2 => -2,
        _ => -4,
    }
}

/// Converts bytes of the frame from network order.
fn swap(asm: &mut Assembler, register: u8, bytes: u32) {
    if bytes > 1 {
        asm.add(alu::from_network(register, bytes));
    }
}
