//! Any bytes to a YAML tree: no panic, a bounded tree, errors with places.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netloom_config::{Kind, Node, Report, load};

/// Every node has a place.
fn check(node: &Node) {
    assert!(node.place.line > 0 && node.place.column > 0);
    match &node.kind {
        Kind::Seq(items) => items.iter().for_each(check),
        Kind::Map(entries) => entries.iter().for_each(|e| {
            assert!(e.place.line > 0 && e.place.column > 0);
            check(&e.value);
        }),
        _ => {}
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut report = Report::new("fuzz");
    match load(bytes, &mut report) {
        Some(tree) => check(&tree),
        None => assert!(!report.is_empty()),
    }
    let diagnostics = report.finish();
    assert!(
        diagnostics.list.iter().all(|d| d.line > 0 && d.column > 0 && !d.message.contains('\n'))
    );
});
