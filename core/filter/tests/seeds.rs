//! The seeds of the fuzz target `filter`, and the same for programs that are known to be right.

use super::support;

use support::{frames, noise::Noise, outside::try_bytes, recorded};

use netloom_filter::Insn;

fn bytes(insns: &[Insn], frame: &[u8]) -> Vec<u8> {
    let mut out = u16::try_from(insns.len()).unwrap().to_le_bytes().to_vec();
    for insn in insns {
        out.extend(insn.code.to_le_bytes());
        out.extend([insn.jt, insn.jf]);
        out.extend(insn.k.to_le_bytes());
    }
    out.extend(frame);
    out
}

#[test]
fn seeds_are_read_and_translated() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/filter");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let refused = path.file_name().unwrap().to_str().unwrap().starts_with("refused");
        assert_eq!(try_bytes(&std::fs::read(&path).unwrap()), !refused, "{path:?}");
        count += 1;
    }
    assert!(count >= 5);
}

#[test]
fn recorded_and_random_programs_are_translated_whole() {
    let frame = &frames::corpus()[0];
    for (expression, program) in recorded::programs() {
        assert!(try_bytes(&bytes(program.insns(), frame)), "{expression}");
    }
    let mut noise = Noise::new(6);
    for round in 0..2000 {
        assert!(try_bytes(&bytes(&noise.program(8 + round % 300), frame)));
    }
}

#[test]
fn noise_is_refused_without_a_panic() {
    let mut noise = Noise::new(7);
    for round in 0..20_000 {
        try_bytes(&noise.bytes(round % 100));
    }
}
