//! The trees of valid texts, and the errors of invalid ones.

use super::*;

fn tree(text: &str) -> Node {
    let mut report = Report::new("f");
    let node = load(text.as_bytes(), &mut report);
    assert!(report.is_empty(), "{}", report.finish());
    node.unwrap()
}

fn errors(text: &str) -> String {
    let mut report = Report::new("f");
    load(text.as_bytes(), &mut report);
    report.finish().to_string()
}

fn shape(node: &Node) -> String {
    match &node.kind {
        Kind::Seq(items) => format!("[{}]", items.iter().map(shape).collect::<Vec<_>>().join(" ")),
        Kind::Map(entries) => {
            let parts: Vec<_> =
                entries.iter().map(|e| format!("{}:{}", e.key, shape(&e.value))).collect();
            format!("{{{}}}", parts.join(" "))
        }
        Kind::Null => "~".into(),
        Kind::Str => format!("'{}'", node.text),
        _ => node.text.clone(),
    }
}

#[test]
fn maps_keep_order_and_scalars_keep_their_text() {
    let node = tree("b: 0755\na: [x, '1', 1.10, ~]\n1: {t: true}\n");
    assert_eq!(shape(&node), "{b:0755 a:['x' '1' 1.10 ~] 1:{t:true}}");
    assert!(tree("").is_null());
    assert!(tree("# nothing\n").is_null());
}

#[test]
fn nodes_and_keys_know_their_places() {
    let node = tree("a: 1\n\nbb:\n  - {ä: x, d:   5}\n");
    let bb = &node.entries().unwrap()[1];
    assert_eq!(bb.place, Place { line: 3, column: 1 });
    let item = &bb.value.items().unwrap()[0];
    assert_eq!(item.place, Place { line: 4, column: 5 });
    let d = &item.entries().unwrap()[1];
    assert_eq!(
        (d.place, d.value.place),
        (Place { line: 4, column: 12 }, Place { line: 4, column: 17 })
    );
}

#[test]
fn aliases_copy_and_merge_keys_fill_in() {
    let node =
        tree("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [{x: 9}, *a]}\nd: *a\n\"<<\": 1\n");
    assert_eq!(shape(&node), "{a:{x:1 y:2} b:{y:3 x:1} c:{x:9 y:2} d:{x:1 y:2} <<:1}");
}

#[test]
fn structure_errors() {
    for (text, expected) in [
        ("a: 1\nb: 2\na: 3\n", "f:3:1: error: \"a\" is given twice, first on line 1"),
        ("a: [1\nb: 2\n", "not valid YAML"),
        ("a:\n\tb: 1\n", "help: indent with spaces"),
        ("a: 1\n---\nb: 1\n", "f:2:1: error: a second document"),
        ("{a: 1}: 2\n", "f:1:1: error: a key must be text, found a map"),
        ("? [a]\n: 2\n", "a key must be text, found a list"),
        ("~: 2\n", "a key must be text, found nothing"),
        ("a: *b\n", "not valid YAML"),
        ("a: &b [*b]\n", "f:1:8: error: an alias inside the value that its anchor names"),
        ("a: !x 1\n", "f:1:4: error: tag \"!x\" has no meaning here"),
        ("<<: 1\n", "f:1:1: error: `<<` takes a map"),
    ] {
        let found = errors(text);
        assert!(found.contains(expected), "{text:?}: {found}");
    }
}

#[test]
fn nesting_is_bounded() {
    for open in ["[", "{a: ", "- "] {
        let found = errors(&open.repeat(200));
        assert!(found.contains("nested more than 64 deep"), "{open}: {found}");
    }
}

#[test]
fn alias_bombs_end_early() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    let found = errors(&text);
    assert!(found.contains("anchors and aliases make more than 64 MiB of copies"), "{found}");
}

#[test]
fn tags_of_the_core_schema_are_obeyed() {
    assert_eq!(shape(&tree("[!!str 5, !!int 5, '5']")), "['5' 5 '5']");
}

#[test]
fn the_number_of_values_is_bounded() {
    let text = format!("[{}]", "1,".repeat(MAX_VALUES));
    assert!(errors(&text).contains("more than 2000000 values in one file"));
}
