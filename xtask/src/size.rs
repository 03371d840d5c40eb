//! `size`: lines of the product, by crate, and how many of them are comments that say why.
//!
//! Counted are the Rust sources of `core/`, `host/`, `parts/` and `app/` without their tests and without
//! `app/bench`, which is a tool for measuring the product. A remark is a `//`
//! comment inside the code; documentation (`///`, `//!`) is counted apart.

use std::collections::BTreeMap;
use std::fs;
use std::ops::AddAssign;
use std::path::Path;

use anyhow::{Context, Result};

use crate::check::sources;
use crate::workspace;

/// The folders of the product's layers.
const LAYERS: &[&str] = &["core", "host", "parts", "app"];
/// Measures the product.
const BENCH: &str = "app/bench";

/// Lines by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    code: usize,
    remarks: usize,
    documentation: usize,
}

impl AddAssign for Lines {
    fn add_assign(&mut self, other: Lines) {
        self.code += other.code;
        self.remarks += other.remarks;
        self.documentation += other.documentation;
    }
}

/// Prints a table of the crates, largest first, and the sum.
pub(crate) fn run() -> Result<()> {
    let root = workspace::root();
    let mut crates: BTreeMap<String, Lines> = BTreeMap::new();
    for layer in LAYERS {
        for file in sources(&root.join(layer))? {
            let name = file.strip_prefix(&root).unwrap_or(&file);
            if let Some(of) = crate_of(name) {
                let text = fs::read_to_string(&file);
                let text = text.with_context(|| format!("read {}", file.display()))?;
                *crates.entry(of).or_default() += count(&text);
            }
        }
    }
    let bench = crates.remove(BENCH).unwrap_or_default();
    let mut sum = Lines::default();
    let mut table: Vec<(String, Lines)> = crates.into_iter().collect();
    table.sort_by_key(|(_, lines)| std::cmp::Reverse(lines.code));
    println!("{:>8} {:>8} {:>8}  crate", "code", "remarks", "docs");
    for (name, lines) in &table {
        show(name, *lines);
        sum += *lines;
    }
    show("the product", sum);
    show("app/bench, beside it", bench);
    let share = 100.0 * lossless(sum.remarks) / lossless(sum.code.max(1));
    println!("remarks: {share:.1} % of the product's code");
    Ok(())
}

fn show(name: &str, lines: Lines) {
    println!("{:>8} {:>8} {:>8}  {name}", lines.code, lines.remarks, lines.documentation);
}

#[allow(clippy::cast_precision_loss, reason = "fewer lines than 2^52")]
fn lossless(lines: usize) -> f64 {
    lines as f64
}

/// The crate of a source, `core/model`; `None` for a test, a benchmark or an example.
fn crate_of(file: &Path) -> Option<String> {
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    let [layer, name, "src", inner @ ..] = parts.as_slice() else { return None };
    let tests = inner.iter().any(|part| *part == "tests" || *part == "tests.rs");
    (!tests).then(|| format!("{layer}/{name}"))
}

/// Counts the lines before the file's own tests.
fn count(text: &str) -> Lines {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let own_tests = |pair: &[&str]| {
        pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    };
    let end = lines.windows(2).position(own_tests).unwrap_or(lines.len());
    let mut found = Lines::default();
    for line in lines[..end].iter().map(|line| line.trim_start()) {
        match line {
            "" => {}
            doc if doc.starts_with("///") || doc.starts_with("//!") => found.documentation += 1,
            remark if remark.starts_with("//") => found.remarks += 1,
            _ => found.code += 1,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart_and_tests_are_left_out() {
        let text = "//! A.\n\nfn a() {\n    // The kernel wants it first.\n    b();\n}\n\n\
                    #[cfg(test)]\nuse c::C;\n\n/// D.\nfn d() {}\n\n#[cfg(test)]\nmod tests {\n    fn e() {}\n}\n";
        assert_eq!(count(text), Lines { code: 6, remarks: 1, documentation: 2 });
    }

    #[test]
    fn tests_belong_to_no_crate() {
        let crate_of = |file| crate_of(Path::new(file));
        assert_eq!(crate_of("core/model/src/plan.rs").as_deref(), Some("core/model"));
        for file in ["core/model/src/plan/tests.rs", "core/model/tests/all.rs", "app/lab/build.rs"]
        {
            assert_eq!(crate_of(file), None, "{file}");
        }
    }
}
