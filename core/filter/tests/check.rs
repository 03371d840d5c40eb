//! Programs that are not filters, each with its reason.

use netloom_filter::ebpf::{Flavour, translate};
use netloom_filter::{Error, Insn, MOST_INSNS, Program};

const RETURN: Insn = Insn::new(0x06, 0, 0, 96);

fn refused(insns: &[Insn]) -> Error {
    Program::new(insns.to_vec()).unwrap_err()
}

#[test]
fn the_number_of_instructions_is_bounded() {
    assert_eq!(refused(&[]), Error::Count { count: 0 });
    assert!(Program::new(vec![RETURN; MOST_INSNS]).is_ok());
    assert_eq!(refused(&vec![RETURN; MOST_INSNS + 1]), Error::Count { count: MOST_INSNS + 1 });
}

#[test]
fn only_what_the_kernel_knows_is_taken() {
    // A load of 8 bytes, X as the verdict, a length of one byte, a jump to X, a signed comparison.
    for code in [0x38, 0x0e, 0x90, 0x0d, 0x65, 0x8c, 0x120, 0xffff] {
        let insn = Insn::new(code, 0, 0, 0);
        assert_eq!(refused(&[insn, RETURN]), Error::Operation { at: 0, code });
    }
    let taken = (0..=u16::MAX).filter(|code| {
        let insn = Insn::new(*code, 0, 0, 1);
        let writes = Insn::new(0x02, 0, 0, 1);
        Program::new(vec![writes, insn, RETURN, RETURN]).is_ok()
    });
    // bpf_check_classic's table: 21 of arithmetic, 15 of loads and stores, 4 of the rest, 9 jumps.
    assert_eq!(taken.count(), 49);
}

#[test]
fn jumps_stay_inside_and_the_end_returns() {
    let jump = |k| Insn::new(0x05, 0, 0, k);
    assert!(Program::new(vec![jump(0), RETURN]).is_ok());
    for k in [1, 2, u32::MAX] {
        assert_eq!(refused(&[jump(k), RETURN]), Error::Jump { at: 0 });
    }
    assert_eq!(refused(&[Insn::new(0x15, 1, 0, 0), RETURN]), Error::Jump { at: 0 });
    assert_eq!(refused(&[Insn::new(0x15, 0, 1, 0), RETURN]), Error::Jump { at: 0 });
    assert_eq!(refused(&[RETURN, Insn::new(0x87, 0, 0, 0)]), Error::End);
}

#[test]
fn operands_are_checked() {
    assert_eq!(refused(&[Insn::new(0x34, 0, 0, 0), RETURN]), Error::Division { at: 0 });
    assert_eq!(refused(&[Insn::new(0x94, 0, 0, 0), RETURN]), Error::Division { at: 0 });
    assert_eq!(refused(&[Insn::new(0x64, 0, 0, 32), RETURN]), Error::Shift { at: 0, by: 32 });
    assert_eq!(refused(&[Insn::new(0x02, 0, 0, 16), RETURN]), Error::Memory { at: 0, slot: 16 });
    // SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT.
    let ancillary = Insn::new(0x30, 0, 0, 0xffff_f030);
    assert_eq!(refused(&[ancillary, RETURN]), Error::Ancillary { at: 0, offset: -4048 });
}

#[test]
fn scratch_memory_is_written_on_every_path_before_it_is_read() {
    let (store, load) = (Insn::new(0x02, 0, 0, 3), Insn::new(0x60, 0, 0, 3));
    assert!(Program::new(vec![store, load, RETURN]).is_ok());
    let around = [Insn::new(0x15, 0, 1, 0), store, load, RETURN];
    assert_eq!(refused(&around), Error::Unwritten { at: 2, slot: 3 });
}

#[test]
fn division_by_x_of_zero_rejects() {
    for code in [0x3c, 0x9c] {
        let program = Program::new(vec![Insn::new(code, 0, 0, 0), RETURN]).unwrap();
        assert_eq!(program.run(&[0; 60], 60), 0);
    }
}

#[test]
fn what_is_too_long_for_jumps_says_so() {
    let mut insns = vec![Insn::new(0x50, 0, 0, 0); MOST_INSNS - 1];
    insns.push(RETURN);
    let program = Program::new(insns).unwrap();
    for flavour in [Flavour::Packet, Flavour::Socket] {
        assert!(matches!(translate(&program, flavour), Err(Error::TooLong { .. })), "{flavour:?}");
    }
}
