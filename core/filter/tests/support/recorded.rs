//! Expressions with the programs that libpcap 1.10.3 made of them: `tests/expressions.txt`.
//!
//! A line is an expression; the one below it, indented, its program: code, jt, jf and k of each
//! instruction. `cargo run -p netloom-libpcap --example record-expressions` writes the programs again.

use netloom_filter::{Insn, Program};
use std::fmt::Write;
use std::path::PathBuf;

/// How many bytes the programs keep.
pub(crate) const SNAPLEN: u32 = 262_144;

fn file() -> PathBuf {
    // The folder is used by crates in other places of the workspace, each two levels below its root.
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../core/filter/tests/expressions.txt"))
}

/// The expressions alone.
pub(crate) fn expressions() -> Vec<String> {
    let text = std::fs::read_to_string(file()).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with([' ', '#']) && !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// Expressions and programs.
pub(crate) fn programs() -> Vec<(String, Program)> {
    let text = std::fs::read_to_string(file()).unwrap();
    let mut out = Vec::new();
    let mut expression = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix(' ') {
            None => expression = line,
            Some(program) => {
                let insns = program.split(',').map(insn).collect();
                out.push((expression.to_owned(), Program::new(insns).unwrap()));
            }
        }
    }
    out
}

fn insn(text: &str) -> Insn {
    let numbers: Vec<u32> = text.split_whitespace().map(|n| n.parse().unwrap()).collect();
    let [code, jt, jf, k] = numbers[..] else { panic!("four numbers, not {text:?}") };
    Insn::new(code.try_into().unwrap(), jt.try_into().unwrap(), jf.try_into().unwrap(), k)
}

/// Writes the file again, with other programs.
pub(crate) fn write(programs: &[(String, Program)]) {
    let old = std::fs::read_to_string(file()).unwrap();
    let mut text: String =
        old.lines().filter(|line| line.starts_with('#')).flat_map(|line| [line, "\n"]).collect();
    for (expression, program) in programs {
        let insns: Vec<String> = program
            .insns()
            .iter()
            .map(|insn| format!("{} {} {} {}", insn.code, insn.jt, insn.jf, insn.k))
            .collect();
        writeln!(text, "{expression}\n {}", insns.join(",")).unwrap();
    }
    std::fs::write(file(), text).unwrap();
}
