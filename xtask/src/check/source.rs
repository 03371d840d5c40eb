//! Rust sources: headers, `unsafe`, lengths. Comments and literals are blanked first.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Lines a file may have before its tests.
const FILE_LINES: usize = 500;
/// Lines a function may have.
const FUNCTION_LINES: usize = 60;
/// Folders that may contain `unsafe`.
const UNSAFE_HOMES: &[&str] = &["host/", "parts/vdeplug/"];

/// Folders of processes that must survive an unwritable standard error.
const SERVING: &[&str] =
    &["core/", "host/", "parts/", "app/lab/", "app/session/", "app/api/", "app/bench/"];

/// Findings in the sources.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) wrong: Vec<String>,
    pub(super) long: Vec<String>,
}

pub(super) fn check(root: &Path) -> Result<Findings> {
    let mut found = Findings::default();
    for file in files(root)? {
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        examine(&name, &text, &mut found);
    }
    Ok(found)
}

/// All Rust sources below a folder, in order of their names.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = vec![];
    collect(folder, &mut files)?;
    files.sort();
    Ok(files)
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && name != "target" && name != "dist" {
            collect(&path, files)?;
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn examine(name: &str, text: &str, found: &mut Findings) {
    if !text.starts_with("//!") {
        found.wrong.push(format!("{name}: no `//!` header"));
    }
    let code = blank(text);
    let home = UNSAFE_HOMES.iter().any(|home| name.starts_with(home));
    if !home && let Some(line) = code.lines().position(|line| words(line).any(|w| w == "unsafe")) {
        found.wrong.push(format!("{name}:{}: `unsafe` outside host/", line + 1));
    }
    let tests = text.lines().position(|line| line.trim() == "#[cfg(test)]");
    let lines = tests.unwrap_or_else(|| text.lines().count());
    let is_test = name.ends_with("/tests.rs") || name.contains("/tests/");
    let serves = SERVING.iter().any(|folder| name.starts_with(folder)) && name.contains("/src/");
    let prints = |line: &str| words(line).any(|w| w == "eprintln" || w == "eprint");
    if serves
        && !is_test
        && let Some(line) = code.lines().take(lines).position(prints)
    {
        found.wrong.push(format!("{name}:{}: `eprintln!` may panic: `journal::line`", line + 1));
    }
    if lines > FILE_LINES && !is_test {
        found.long.push(format!("{name}: {lines} lines"));
    }
    for (function, line, length) in functions(&code) {
        if length > FUNCTION_LINES && line <= lines {
            found.long.push(format!("{name}:{line}: fn {function} has {length} lines"));
        }
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Name, first line and number of lines of every function with a body.
fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = vec![];
    for (index, line) in lines.iter().enumerate() {
        let mut words = words(line).skip_while(|word| *word != "fn").skip(1);
        if let Some(name) = words.next()
            && let Some(length) = body_length(&lines[index..])
        {
            found.push((name.to_owned(), index + 1, length));
        }
    }
    found
}

/// Number of lines up to the end of the first block; `None` for a declaration.
fn body_length(lines: &[&str]) -> Option<usize> {
    let (mut depth, mut brackets) = (0_usize, 0_usize);
    for (index, line) in lines.iter().enumerate() {
        for c in line.chars() {
            match c {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets = brackets.saturating_sub(1),
                // Not in brackets: `[u8; 4]` in a signature ends no declaration.
                ';' if depth == 0 && brackets == 0 => return None,
                '{' => depth += 1,
                '}' if depth <= 1 => return Some(index + 1),
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    None
}

/// The text with comments, strings and character literals replaced by spaces; lines keep their positions.
pub(super) fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        }
        while at < end.min(chars.len()) {
            out.push(if chars[at] == '\n' { '\n' } else { ' ' });
            at += 1;
        }
    }
    out
}

/// End of the comment or literal that starts at `at`; `at` itself if none starts there.
fn literal_end(chars: &[char], at: usize) -> usize {
    let starts = |text: &str| text.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c));
    let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    if starts("//") {
        return chars[at..].iter().position(|c| *c == '\n').map_or(chars.len(), |n| at + n);
    }
    if starts("/*") {
        return comment_end(chars, at);
    }
    if chars[at] == 'r' && !in_word && (starts("r\"") || starts("r#")) {
        return raw_end(chars, at);
    }
    match chars[at] {
        '"' => quoted_end(chars, at, '"'),
        // Unlike a character literal, a lifetime has no closing quote two places on (more if escaped).
        '\'' if chars.get(at + 1) == Some(&'\\') => quoted_end(chars, at, '\''),
        '\'' if chars.get(at + 2) == Some(&'\'') => at + 3,
        _ => at,
    }
}

fn comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0_usize, at);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') if depth == 1 => return i + 2,
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
    }
    chars.len()
}

fn quoted_end(chars: &[char], at: usize, quote: char) -> usize {
    let mut i = at + 1;
    while i < chars.len() && chars[i] != quote {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

/// `r"..."`, `r#"..."#`; `at` itself for a raw identifier.
fn raw_end(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    if chars.get(at + 1 + hashes) != Some(&'"') {
        return at;
    }
    let mut i = at + 2 + hashes;
    while i < chars.len() {
        if chars[i] == '"'
            && chars[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
        {
            return i + 1 + hashes;
        }
        i += 1;
    }
    chars.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Findings {
        let mut found = Findings::default();
        examine(name, text, &mut found);
        found
    }

    #[test]
    fn a_missing_header_is_wrong() {
        assert_eq!(found("core/a.rs", "fn a() {}\n").wrong.len(), 1);
        assert!(found("core/a.rs", "//! Says it.\nfn a() {}\n").wrong.is_empty());
    }

    #[test]
    fn only_the_keyword_unsafe_counts() {
        let text =
            "//! unsafe\n#![forbid(unsafe_code)]\n// unsafe\nconst A: &str = r#\"unsafe \" {\"#;\n";
        assert!(found("core/a.rs", text).wrong.is_empty());
        let text = format!("{text}fn a() {{ let c = '\"'; unsafe {{}} }}\n");
        assert_eq!(found("core/a.rs", &text).wrong, ["core/a.rs:5: `unsafe` outside host/"]);
        assert!(found("host/sys/a.rs", &text).wrong.is_empty());
    }

    #[test]
    fn who_serves_does_not_print_by_what_panics() {
        let text = "//! A.\n// eprintln!\nfn a() { eprintln!(\"b\"); }\n";
        assert_eq!(found("app/lab/src/a.rs", text).wrong.len(), 1);
        assert!(found("app/netloom/src/a.rs", text).wrong.is_empty());
        let tested = "//! A.\n#[cfg(test)]\nmod tests { fn a() { eprintln!(\"b\"); } }\n";
        assert!(found("app/lab/src/a.rs", tested).wrong.is_empty());
    }

    #[test]
    fn long_functions_are_told_and_short_ones_not() {
        let body = "    let c = '{';\n".repeat(59);
        let text = format!("//! A.\nfn a(b: [u8; 4]) {{\n{body}}}\nfn b();\n");
        let told = found("core/a.rs", &text).long;
        assert_eq!(told, ["core/a.rs:2: fn a has 61 lines"]);
        assert!(found("core/a.rs", "//! A.\nfn a(b: [u8; 4]) {\n}\n").long.is_empty());
    }

    #[test]
    fn tests_do_not_count_as_length() {
        let long = format!("//! A.\n{}", "const A: u8 = 0;\n".repeat(500));
        assert_eq!(found("core/a.rs", &long).long, ["core/a.rs: 501 lines"]);
        let tests = format!("//! A.\n#[cfg(test)]\n{}", "const A: u8 = 0;\n".repeat(600));
        assert!(found("core/a.rs", &tests).long.is_empty());
    }
}
