//! Formatted files read as the same tree, keep their comments and do not change a second time.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;
use crate::written;

fn of(text: &str) -> String {
    format("f", text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn refused(text: &str) -> String {
    format("f", text.as_bytes()).unwrap_err().list[0].to_string()
}

/// Each text, and what becomes of it.
#[track_caller]
fn becomes(text: &str, wanted: &str) {
    assert_eq!(of(text), wanted, "of {text:?}");
    assert_eq!(of(wanted), wanted, "twice");
}

#[test]
fn levels_have_two_columns_and_lists_stand_inside_their_maps() {
    becomes(
        "nodes:\n    h1:\n        run: x\n    h2: {}\n",
        "nodes:\n  h1:\n    run: x\n  h2: {}\n",
    );
    becomes("links:\n- [a, b]\n- [b, c]\nname: t\n", "links:\n  - [a, b]\n  - [b, c]\nname: t\n");
    becomes(
        "l:\n   -   a: 1\n       b: 2\n   -\n      c: 3\n",
        "l:\n  - a: 1\n    b: 2\n  -\n    c: 3\n",
    );
    becomes("- - a\n  - b\n-   - c\n", "- - a\n  - b\n- - c\n");
    becomes("l:\n- a:\n  - 1\n  - 2\n  b: 3\n", "l:\n  - a:\n      - 1\n      - 2\n    b: 3\n");
}

#[test]
fn blanks_are_one_or_none() {
    becomes(
        "a :   1\nb:  [ 1,2 ,3 ]\nc: { x : 1,y: 2 }\n",
        "a: 1\nb: [1, 2, 3]\nc: {x: 1, y: 2}\n",
    );
    becomes("a: {\"x\":1, 'y':[2],z: }\n", "a: {x: 1, \"y\": [2], z:}\n");
    becomes("a: &x   {b: 1}\nc:   *x\nd: !!str   5\n", "a: &x {b: 1}\nc: *x\nd: !!str 5\n");
    becomes("x: &k a\n*k : 1\n", "x: &k a\n*k : 1\n");
    becomes("\n\na: 1\n\n\n\nb: 2\n\n\n", "a: 1\n\nb: 2\n");
    becomes("\u{feff}a: 1\r\nb: 2\rc: 3  ", "a: 1\nb: 2\nc: 3\n");
    becomes("--- \na: 1\n...\n", "---\na: 1\n...\n");
    becomes("x: {host: ::1, a: [fd00::1/64, 1:2]}\n", "x: {host: ::1, a: [fd00::1/64, 1:2]}\n");
}

#[test]
fn lines_in_brackets_stand_below_what_follows_the_bracket() {
    becomes(
        "a: {x: 1,\n y: 2,\n     z: [3,\n  4]}\n",
        "a: {x: 1,\n    y: 2,\n    z: [3,\n        4]}\n",
    );
    becomes("a:\n  b: [\n      1,\n        2\n  ]\n", "a:\n  b: [\n    1,\n    2\n    ]\n");
    becomes(
        "l:\n  - x: {\n      y: [\n       1\n      ]\n    }\n",
        "l:\n  - x: {\n      y: [\n        1\n      ]\n      }\n",
    );
    becomes("a: {\n    }\nb: [ 'c',\n    ]\n", "a: {\n  }\nb: [c,\n   ]\n");
    becomes("a: [ # c\n 1, # d\n # e\n 2]\n", "a: [ # c\n  1,  # d\n  # e\n  2]\n");
    becomes("{a: 1,\n b: 2}\n", "{a: 1,\n b: 2}\n");
}

#[test]
fn quotes_stay_where_they_are_needed() {
    becomes(
        "a: [\"web\", '80', \"yes\", 'it''s', 'a: b', \"r1:eth1\", '\"', \"a\\tb\", '/srv/x', \"\"]\n",
        "a: [web, \"80\", \"yes\", 'it''s', \"a: b\", \"r1:eth1\", '\"', \"a\\tb\", /srv/x, \"\"]\n",
    );
    becomes("'h1': 'x'\n\"h{i}\": \"<<\"\n", "h1: x\n\"h{i}\": \"<<\"\n");
}

#[test]
fn texts_of_several_lines_keep_what_they_say() {
    becomes("a: one\n    two\n\n    three\nb: 1\n", "a: one\n  two\n\n  three\nb: 1\n");
    becomes(
        "a:\n    b: \"one\n      two \\\n       three\"\n",
        "a:\n  b: \"one\n    two \\\n    three\"\n",
    );
    becomes(
        "f:\n    /x: |\n        line\n          more\n\n        end\n\n    /y: >-\n     a\nb: |2\n    x\n",
        "f:\n  /x: |\n    line\n      more\n\n    end\n\n  /y: >-\n    a\nb: |2\n    x\n",
    );
    becomes("a: |+ # kept\n   x\n\n\nb: 1\n", "a: |+ # kept\n  x\n\n\nb: 1\n");
    becomes("- |\n # no comment\n x\n- >\n\n   y\n", "- |\n  # no comment\n  x\n- >\n\n  y\n");
    becomes("a: |\n    x", "a: |\n  x\n");
    becomes("a: [one\n  two, 'x\n\n  y']\n", "a: [one\n    two, 'x\n\n    y']\n");
}

#[test]
fn comments_stay_with_what_they_are_about() {
    becomes(
        "# top\n\nnodes:   # all\n    # of h1\n    h1: {}\n    # behind h1\n# of links\nlinks:\n# of the first\n- [a, b]\n  # deep\n",
        "# top\n\nnodes:   # all\n  # of h1\n  h1: {}\n  # behind h1\n# of links\nlinks:\n  # of the first\n  - [a, b]\n  # deep\n",
    );
    // Comments below each other still are, and none is glued to its text.
    becomes("a:  1 # x\nbc: 2 # y\n", "a: 1  # x\nbc: 2 # y\n");
    becomes("l:\n- aaa # x\n- b   # y\n", "l:\n  - aaa  # x\n  - b    # y\n");
    becomes("a: |\n    text\n   # no text\n\nb: 1\n", "a: |\n  text\n# no text\n\nb: 1\n");
    becomes("a: x#y # z\n", "a: x#y # z\n");
}

#[test]
fn what_cannot_be_kept_is_named() {
    for (text, wanted) in [
        (
            "a: 1\n? b\n: 2\n",
            "f:2:1: error: a key behind \"?\" cannot be formatted\n  help: write KEY: VALUE",
        ),
        ("a: {? b : 2}\n", "f:1:5: error: a key behind"),
        ("%YAML 1.2\n---\na: 1\n", "f:1:1: error: a directive cannot be formatted"),
        ("--- {a: 1}\n", "f:1:1: error: text behind \"---\" cannot be formatted"),
        ("a: [1\n", "f:1:4: error: not valid YAML: \"[\" is not closed"),
        ("a: 1\na: 2\n", "f:2:1: error: \"a\" is given twice"),
        ("a: \0", "f:1:4: error: control character"),
        (
            "\n\n\u{feff}\n# c\n",
            "f:3:1: error: a byte order mark that is not at the beginning cannot be formatted\n  help: remove it",
        ),
    ] {
        let told = refused(text);
        assert!(told.starts_with(wanted), "{told}");
    }
}

/// A value of a made file.
#[derive(Clone, Debug)]
enum Made {
    Text(String),
    List(Vec<Made>),
    Map(Vec<Made>),
}

fn made() -> impl Strategy<Value = Made> {
    let text = prop_oneof![
        "[a-z]{1,6}",
        "[0-9]{1,3}",
        "[a-z]:[a-z]",
        "[a-z ]{0,8}[a-z]",
        "yes|no|~|true|0x1f|1e3",
        "[ -~]{0,8}",
        "[äß日#:,\\[\\]{}&*!|>'\"%@` -]{0,6}"
    ];
    let leaf = text.prop_map(Made::Text);
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Made::List),
            prop::collection::vec(inner, 0..4).prop_map(Made::Map),
        ]
    })
}

/// Writes a value in a style that numbers choose.
struct Style<'n> {
    numbers: std::iter::Cycle<std::slice::Iter<'n, u8>>,
    out: String,
}

impl Style<'_> {
    fn chance(&mut self, of: u8) -> bool {
        self.numbers.next().is_some_and(|n| n % of == 0)
    }

    fn up_to(&mut self, most: u8) -> usize {
        usize::from(self.numbers.next().copied().unwrap_or(0) % (most + 1))
    }

    fn blanks(&mut self) {
        let count = self.up_to(2);
        self.out.push_str(&" ".repeat(count));
    }

    fn break_line(&mut self) {
        if self.chance(4) {
            self.out.push_str("  # c: [");
        }
        self.out.push('\n');
        for _ in 0..self.up_to(2) {
            if self.chance(2) {
                self.blanks();
                self.out.push_str("#d");
            }
            self.out.push('\n');
        }
    }

    fn text(&mut self, text: &str) {
        if self.chance(2) && !text.contains('\'') {
            self.out.push_str(&format!("'{text}'"));
        } else if self.chance(3) {
            self.out.push_str(&written::quoted(text));
        } else {
            self.out.push_str(&written::scalar(text));
        }
    }

    fn flow(&mut self, value: &Made, indent: usize) {
        let gap = |style: &mut Self| {
            if style.chance(4) {
                style.break_line();
                let more = style.up_to(4);
                style.out.push_str(&" ".repeat(indent + 1 + more));
            } else {
                style.blanks();
            }
        };
        match value {
            Made::Text(text) => self.text(text),
            Made::List(items) | Made::Map(items) => {
                let is_map = matches!(value, Made::Map(_));
                self.out.push(if is_map { '{' } else { '[' });
                for (number, item) in items.iter().enumerate() {
                    gap(self);
                    if is_map {
                        self.text(&format!("k{number}"));
                        self.out.push_str(": ");
                    }
                    self.flow(item, indent);
                    gap(self);
                    if number + 1 < items.len() || self.chance(2) {
                        self.out.push(',');
                    }
                }
                gap(self);
                self.out.push(if is_map { '}' } else { ']' });
            }
        }
    }

    /// Writes a value behind a dash or a colon, in lines of its own if it is a list or a map.
    fn block(&mut self, value: &Made, indent: usize, may_stand: bool) {
        let (items, is_map) = match value {
            Made::Text(_) => &(vec![], false),
            Made::List(items) => &(items.clone(), false),
            Made::Map(items) => &(items.clone(), true),
        };
        if items.is_empty() || self.chance(4) {
            self.out.push(' ');
            self.blanks();
            if let (Made::Text(text), true) = (value, self.chance(5)) {
                let lines = text.trim();
                if !lines.is_empty() {
                    self.out.push_str("|\n");
                    self.out.push_str(&format!("{}{lines}\n", " ".repeat(indent + 3)));
                    return;
                }
            }
            self.flow(value, indent);
            return self.break_line();
        }
        self.break_line();
        // A list in a map may start in the column of the keys.
        let deeper = if !is_map && may_stand && self.chance(2) { 0 } else { 1 + self.up_to(3) };
        let own = indent + deeper;
        for (number, item) in items.iter().enumerate() {
            self.out.push_str(&" ".repeat(own));
            if *is_map {
                self.text(&format!("k{number}"));
                self.out.push(':');
            } else {
                self.out.push('-');
            }
            self.block(item, own, *is_map);
        }
    }
}

fn comments_of(text: &str) -> usize {
    text.matches("# c: [").count() + text.matches("#d").count()
}

#[test]
fn made_files_keep_all_and_do_not_change_twice() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let config = Config { cases: 1500, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let files = (prop::collection::vec(made(), 1..5), prop::collection::vec(any::<u8>(), 1..200));
    runner
        .run(&files, |(items, numbers)| {
            let mut style = Style { numbers: numbers.iter().cycle(), out: String::new() };
            for (number, item) in items.iter().enumerate() {
                style.out.push_str(&format!("top{number}:"));
                style.block(item, 0, true);
            }
            let text = style.out;
            let mut report = Report::new("f");
            let tree = load(text.as_bytes(), &mut report);
            prop_assert!(report.is_empty(), "{text}\n{}", report.finish());
            let result = format("f", text.as_bytes());
            prop_assert!(result.is_ok(), "{text}\n{}", result.unwrap_err());
            let result = result.unwrap_or_default();
            let again = load(result.as_bytes(), &mut report);
            prop_assert_eq!(differs(&tree.unwrap(), &again.unwrap()), None);
            prop_assert_eq!(comments_of(&result), comments_of(&text));
            prop_assert_eq!(format("f", result.as_bytes()).unwrap(), result);
            Ok(())
        })
        .unwrap();
}

#[test]
fn seeds_are_refused_or_keep_all() {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut formatted = 0;
    for target in ["format", "config_parse", "lab_parse"] {
        for seed in std::fs::read_dir(seeds.join(target)).unwrap() {
            let path = seed.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            match format("f", &bytes) {
                Ok(text) => {
                    formatted += 1;
                    assert_eq!(of(&text), text, "{}", path.display());
                    assert_eq!(comments_of(&text), comments_of(&String::from_utf8(bytes).unwrap()));
                }
                // A place is named, or YAML itself is broken: nothing that is read is lost.
                Err(errors) => assert!(!errors.to_string().contains("would not be"), "{errors}"),
            }
        }
    }
    assert!(formatted > 20, "only {formatted}");
}
