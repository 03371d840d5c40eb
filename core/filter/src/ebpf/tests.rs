//! Tests of translations that need no kernel.

use super::*;
use crate::Program;

#[test]
fn a_program_that_keeps_all_has_no_reject() {
    let reject = Insn::new(0xb7, 0, 0, 0, 99);
    for flavour in [Flavour::Packet, Flavour::Socket] {
        let out = translate_with(&Program::all(), flavour, &[jump::EXIT], &[reject]).unwrap();
        assert!(!out.contains(&reject));
        assert_eq!(out.last(), Some(&jump::EXIT));
    }
}
