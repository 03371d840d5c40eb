//! Bytes from outside as a program and a frame: whatever they are, nothing panics, and a translation
//! is whole.
//!
//! Two bytes (little-endian) say how many instructions follow, eight bytes each; the rest is the frame.

use netloom_filter::ebpf::{self, Flavour, translate};
use netloom_filter::{Insn, MOST_INSNS, Program};

/// Checks, runs and translates; whether the program was taken.
pub(crate) fn try_bytes(bytes: &[u8]) -> bool {
    let Some((count, rest)) = bytes.split_first_chunk() else { return false };
    let count = usize::from(u16::from_le_bytes(*count)).min(rest.len() / 8);
    let (insns, frame) = rest.split_at(8 * count);
    let insns = insns.chunks_exact(8).map(|of| {
        Insn::new(
            u16::from_le_bytes([of[0], of[1]]),
            of[2],
            of[3],
            u32::from_le_bytes([of[4], of[5], of[6], of[7]]),
        )
    });
    let Ok(program) = Program::new(insns.collect()) else { return false };
    assert!(program.insns().len() <= MOST_INSNS);
    program.run(frame, u32::try_from(frame.len()).unwrap_or(u32::MAX));
    program.run(&[], 0);
    for flavour in [Flavour::Packet, Flavour::Socket] {
        if let Ok(insns) = translate(&program, flavour) {
            assert_whole(&insns);
        }
    }
    true
}

/// Every jump goes forward and stays inside, every instruction is reached, and all paths end in an exit.
fn assert_whole(insns: &[ebpf::Insn]) {
    let mut reached = vec![false; insns.len()];
    reached[0] = true;
    for (at, insn) in insns.iter().enumerate() {
        assert!(reached[at], "instruction {at} is not reached");
        let jumps = insn.code() & 0x07 == 0x05 && insn.code() != 0x95;
        let falls = insn.code() != 0x05 && insn.code() != 0x95;
        if jumps {
            let skip = usize::try_from(insn.off()).expect("jumps go forward");
            reached[at + 1 + skip] = true;
        }
        if falls {
            reached[at + 1] = true;
        }
    }
}
