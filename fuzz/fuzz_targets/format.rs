//! Any bytes as a lab file to format: refused with a place, or a text that says the same and does not change again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netloom_config::{Kind, Node, Report, format, load};

/// Whether two trees say the same, wherever it stands.
fn same(a: &Node, b: &Node) -> bool {
    match (&a.kind, &b.kind) {
        (Kind::Seq(a), Kind::Seq(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Kind::Map(a), Kind::Map(b)) => {
            let entries = a.iter().zip(b);
            a.len() == b.len() && entries.into_iter().all(|(a, b)| a.key == b.key && same(&a.value, &b.value))
        }
        (Kind::Float(_), Kind::Float(_)) => a.text == b.text,
        (a_kind, b_kind) => a_kind == b_kind && a.text == b.text,
    }
}

fuzz_target!(|bytes: &[u8]| {
    match format("fuzz", bytes) {
        Err(errors) => assert!(errors.list.iter().all(|d| d.line > 0 && d.column > 0)),
        Ok(text) => {
            let read = |bytes: &[u8]| {
                let mut report = Report::new("fuzz");
                let tree = load(bytes, &mut report);
                tree.filter(|_| report.is_empty()).expect("valid YAML")
            };
            assert!(same(&read(bytes), &read(text.as_bytes())));
            assert_eq!(format("fuzz", text.as_bytes()).expect("formatted once"), text);
        }
    }
});
