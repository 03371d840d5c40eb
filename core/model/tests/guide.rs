//! The tables of keys in `docs/guide/lab-file.md` and `hosts.md` are those of the parser.
//!
//! A comment `keys of OBJECT`, or `keys of OBJECT, kind KIND`, stands before a table, which ends with its last row.
//! `UPDATE=1 cargo test -p netloom-model integration::guide` writes the tables, as `cargo xtask codegen` does.

use std::fs;
use std::path::Path;

use netloom_model::reference::{KeyInWords, Keys, hosts_reference, reference};

const MARK: &str = "<!-- keys of ";

#[test]
fn the_guide_has_the_tables_of_the_parser() {
    for (name, known) in [("lab-file.md", reference()), ("hosts.md", hosts_reference())] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(name);
        let page = fs::read_to_string(&path).unwrap();
        let fresh = with_tables(&page, &known);
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &fresh).unwrap();
        } else {
            assert!(page == fresh, "{name} lacks changes of keys: run `cargo xtask codegen`");
        }
    }
}

/// The page with each table made from the parser's.
fn with_tables(page: &str, known: &[Keys]) -> String {
    let mut text = String::new();
    let mut in_table = false;
    for line in page.lines() {
        in_table &= line.starts_with('|');
        if !in_table {
            text += &format!("{line}\n");
        }
        if let Some(of) = line.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(" -->")) {
            text += &table(page, known, of);
            in_table = true;
        }
    }
    text
}

/// The table of an object's keys, or of those that only a kind of it has.
fn table(page: &str, known: &[Keys], of: &str) -> String {
    let (object, kind) = match of.split_once(", kind ") {
        Some((object, kind)) => (object, Some(kind)),
        None => (of, None),
    };
    let map = known.iter().find(|map| map.of == object).unwrap_or_else(|| panic!("no {object}"));
    let mut rows: String = "| key | value | meaning |\n|---|---|---|\n".into();
    for key in map.keys.iter().filter(|key| key.kind == kind) {
        rows += &row(page, key);
    }
    if object == "lab" {
        rows += "| other `x-…` | anything | Ignored: a place for YAML anchors. |\n";
    }
    rows
}

fn row(page: &str, key: &KeyInWords) -> String {
    let required = if key.required { "; required" } else { "" };
    let of_kind = key.kind.and_then(|kind| key.about.strip_prefix(&format!("{kind}: ")));
    let about = of_kind.map_or_else(|| key.about.to_owned(), upper);
    let value = linked(page, &key.value);
    format!("| `{}` | {value}{required} | {about} |\n", key.name)
}

/// Links each `a map of X keys` to the section that has them.
fn linked(page: &str, value: &str) -> String {
    let mut pieces = value.split("a map of ");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        text += "a map of ";
        match piece.split_once(" keys") {
            Some((object, rest)) if page.contains(&format!("# Keys of `{object}`\n")) => {
                text += &format!("[{object} keys](#keys-of-{object}){rest}");
            }
            _ => text += piece,
        }
    }
    text
}

fn upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
