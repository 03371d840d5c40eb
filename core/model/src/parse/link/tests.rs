//! Links that are written as text.

use crate::lab::{End, Lab};

fn parse(nodes: &str, link: &str) -> Result<Lab, String> {
    let text = format!("nodes: {{{nodes}}}\nswitches: {{s1: {{}}, b-c: {{}}}}\nlinks: [{link}]\n");
    crate::parse("t.yaml", text.as_bytes(), "t").map_err(|error| error.to_string())
}

/// The ends of a link between these nodes and switches.
fn ends(link: &str) -> String {
    let lab = parse("h1: {}, h-2: {}, a: {}, a-b: {}, c: {}, \"7\": {}, \"8\": {}", link)
        .unwrap_or_else(|error| panic!("{link}: {error}"));
    let shown = |end: &End| match end {
        End::Node { node, iface: None } => lab.nodes[*node].name.clone(),
        End::Node { node, iface: Some(iface) } => format!("{}:{iface}", lab.nodes[*node].name),
        End::Switch { switch } => lab.switches[*switch].name.clone(),
        End::Host { iface } => format!("host:{iface}"),
        End::Internet => "internet".to_owned(),
        End::Nowhere => "nowhere".to_owned(),
    };
    lab.links[0].ends.each_ref().map(shown).join(" ")
}

#[test]
fn a_text_is_divided_where_both_sides_are_ends() {
    for (link, expected) in [
        ("h1-s1", "h1 s1"),
        ("h-2-s1", "h-2 s1"),
        ("s1-h-2", "s1 h-2"),
        ("h1:eth7-h-2:up", "h1:eth7 h-2:up"),
        ("\"h1:eth1 -- s1\"", "h1:eth1 s1"),
        ("h1 <-> s1", "h1 s1"),
        ("h1--s1", "h1 s1"),
        ("h1 s1", "h1 s1"),
        ("\"h1, s1\"", "h1 s1"),
        ("h1-internet", "h1 internet"),
        ("h1-nowhere", "h1 nowhere"),
        ("\"host:eth9-s1\"", "host:eth9 s1"),
        ("{ends: h1-s1, delay: 1ms}", "h1 s1"),
        ("7-8", "7 8"),
    ] {
        assert_eq!(ends(link), expected, "{link}");
    }
}

#[test]
fn a_text_with_two_meanings_or_none_is_refused() {
    let nodes = "h1: {}, h-2: {}, a: {}, a-b: {}, c: {}";
    for (link, message) in [
        (
            "a-b-c",
            "error: links[0]: \"a-b-c\" has more than one meaning\n  help: write [a, b-c] or [a-b, c]",
        ),
        ("h1", "error: links[0]: \"h1\" is not two ends\n  help: write [A, B]"),
        ("h1-", "error: links[0]: \"h1-\" is not two ends"),
        ("x-y-z", "error: links[0]: \"x-y-z\" is not two ends"),
        ("h1-ss1", "error: no node or switch \"ss1\"\n  help: did you mean \"s1\"?"),
        ("h1-h9x", "error: no node or switch \"h9x\""),
        ("h1-h1", "error: link [h1, h1]: joins a node to itself"),
        ("5", "error: links[0]: expected [A, B], A-B or a map with `ends: [A, B]`, found 5"),
    ] {
        let error = parse(nodes, link).unwrap_err();
        assert!(error.contains(message), "{link}: {error}");
    }
    let long = format!("h1{}s1", "-".repeat(2000));
    assert!(parse(nodes, &long).unwrap_err().contains("is not two ends"));
}

#[test]
fn a_switch_that_only_links_name_is_offered_with_its_lines() {
    let text = b"nodes: {h1: {}, h2: {}}\nlinks: [h1-s1, [h2, s1]]\n";
    let error = crate::parse("t.yaml", text, "t").unwrap_err().to_string();
    let help = "  help: a switch has a line of its own: `s1: {}` below a line `switches:`\n";
    assert!(error.contains(help), "{error}");
    let mended = b"nodes: {h1: {}, h2: {}}\nlinks: [h1-s1, [h2, s1]]\nswitches:\n  s1: {}\n";
    assert_eq!(crate::parse("t.yaml", mended, "t").unwrap().links.len(), 2);
}
