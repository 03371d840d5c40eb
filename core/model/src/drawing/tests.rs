//! Pictures of small, large and hostile plans.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Instant;

use crate::Plan;
use crate::plan::plan;

use super::{dot, layout, svg};

fn planned(yaml: &str) -> Plan {
    let lab = crate::parse("lab.yaml", yaml.as_bytes(), "lab").expect("a valid lab");
    plan(&lab).expect("a plan")
}

fn two_sites() -> Plan {
    planned(
        "name: two-sites\n\
         nodes: {h1: {}, h2: {}, r1: {forwarding: true}, r2: {forwarding: true}, web: {}}\n\
         switches: {s1: {}}\n\
         links:\n- [h1, s1]\n- [h2, s1]\n- [s1, r1]\n- [r1, r2]\n- [r1, r2]\n- [r2, web]\n- [r2, internet]\n",
    )
}

/// Links between n nodes: a torus of about this size.
fn torus(n: usize) -> (usize, Vec<(usize, usize)>) {
    let side = n.isqrt();
    let at = |x: usize, y: usize| (x % side) * side + y % side;
    let cells = (0..side).flat_map(|x| (0..side).map(move |y| (x, y)));
    let edges =
        cells.flat_map(|(x, y)| [(at(x, y), at(x + 1, y)), (at(x, y), at(x, y + 1))]).collect();
    (side * side, edges)
}

fn torus_plan(n: usize) -> Plan {
    let (n, edges) = torus(n);
    let mut yaml = String::from("name: torus\nnodes:\n");
    for v in 0..n {
        writeln!(yaml, "  n{v}: {{forwarding: {}}}", v % 2 == 0).unwrap();
    }
    yaml.push_str("routing: none\nlinks:\n");
    for (a, b) in edges {
        writeln!(yaml, "- [n{a}, n{b}]").unwrap();
    }
    planned(&yaml)
}

/// A plan that no lab file can give: names that try to break out of their context.
fn hostile() -> Plan {
    let mut plan = two_sites();
    plan.lab = "</title><script>alert(1)</script>".into();
    plan.nodes[0].name = "\"];evil [label=\"&<x a='b'>\\".into();
    plan.nodes[1].name = "a\nb\u{0}\u{1b}\u{ffff}\\".into();
    plan.nodes[1].interfaces[0].name = "<&\">".into();
    plan.links[0].name = "]]><!--".into();
    plan.switches[0].name = "x".repeat(300);
    plan
}

/// Checks that tags are balanced and attributes quoted; returns the text between tags.
fn read_xml(xml: &str) -> String {
    let mut open = Vec::new();
    let mut text = String::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        text.push_str(&rest[..start]);
        let mut quoted = false;
        let end = rest[start..]
            .find(|c| {
                quoted ^= c == '"';
                c == '>' && !quoted
            })
            .expect("a tag ends");
        let tag = &rest[start + 1..start + end];
        assert!(!tag.contains('<'), "a tag in a tag: {tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed what was not open");
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().expect("a name"));
        }
        rest = &rest[start + end + 1..];
    }
    assert!(open.is_empty(), "left open: {open:?}");
    for part in xml.split('&').skip(1) {
        let entity = part.split(';').next().unwrap();
        assert!(["amp", "lt", "gt", "quot", "#39"].contains(&entity), "entity {entity:?}");
    }
    assert!(xml.chars().all(|c| c == '\n' || (!c.is_control() && c != '\u{ffff}')));
    text
}

/// Quotes are closed on every line, and the text outside them is our own.
fn check_dot(text: &str) {
    for line in text.lines() {
        let (mut quoted, mut escaped, mut outside) = (false, false, String::new());
        for c in line.chars() {
            if quoted && escaped {
                escaped = false;
            } else if quoted && c == '\\' {
                escaped = true;
            } else if c == '"' {
                quoted = !quoted;
            } else if !quoted {
                outside.push(c);
            }
        }
        assert!(!quoted, "an open quote: {line}");
        assert!(!outside.contains("evil") && !outside.contains('\\'), "{line}");
    }
    assert_eq!(text.matches("\n}\n").count(), 1);
}

#[test]
fn dot_shows_nodes_interfaces_and_addresses() {
    let plan = two_sites();
    let text = dot(&plan);
    check_dot(&text);
    assert!(text.starts_with("graph \"two-sites\" {\n"));
    for (name, shape) in
        [("h1", "ellipse"), ("r1", "box"), ("s1", "diamond"), ("internet", "box, style=dashed")]
    {
        assert!(text.contains(&format!("[label=\"{name}\", shape={shape}")), "{name}: {text}");
    }
    assert_eq!(text.matches(" -- ").count(), plan.links.len());
    let h1 = &plan.nodes[0].interfaces[0];
    let label = format!("taillabel=\"eth0\\n{}\\n{}\"", h1.addresses[0], h1.addresses[1]);
    assert!(text.contains(&label), "{label}: {text}");
}

#[test]
fn svg_is_well_formed_and_shows_every_name() {
    let plan = two_sites();
    let text = read_xml(&svg(&plan));
    for name in ["h1", "h2", "r1", "r2", "web", "s1", "internet", "two-sites: 5 nodes, 7 links"] {
        assert!(text.contains(name), "{name}");
    }
    for interface in plan.nodes.iter().flat_map(|n| &n.interfaces) {
        assert!(text.contains(&interface.addresses[1].to_string()), "{interface:?}");
    }
}

#[test]
fn hostile_names_stay_text() {
    let plan = hostile();
    let picture = svg(&plan);
    let text = read_xml(&picture);
    assert!(!picture.contains("<script") && !picture.contains("<!--"));
    assert!(text.contains("&quot;];evil [label=&quot;&amp;&lt;x a=&#39;b&#39;&gt;\\"));
    let text = dot(&plan);
    check_dot(&text);
    assert!(text.contains(r#"label="\"];evil [label=\"&<x a='b'>\\""#), "{text}");
}

#[test]
fn an_empty_plan_and_a_lone_node_are_drawn() {
    let mut plan = planned("nodes: {a: {}}\n");
    read_xml(&svg(&plan));
    check_dot(&dot(&plan));
    plan.nodes.clear();
    let empty = svg(&plan);
    read_xml(&empty);
    assert!(!empty.contains("NaN") && !empty.contains("inf"), "{empty}");
}

#[test]
fn the_same_plan_gives_the_same_picture() {
    for plan in [two_sites(), torus_plan(400)] {
        assert_eq!(svg(&plan), svg(&plan));
        assert_eq!(dot(&plan), dot(&plan));
    }
}

#[test]
fn no_two_vertices_are_in_the_same_place() {
    let (torus_size, torus_edges) = torus(900);
    let star: Vec<(usize, usize)> = (1..200).map(|v| (0, v)).collect();
    let line: Vec<(usize, usize)> = (1..350).map(|v| (v - 1, v)).collect();
    let full: Vec<(usize, usize)> = (0..30).flat_map(|a| (0..a).map(move |b| (a, b))).collect();
    for (what, n, edges) in [
        ("torus", torus_size, torus_edges),
        ("star", 200, star),
        ("line", 350, line),
        ("full", 30, full),
        ("nothing joined", 500, vec![]),
        ("pair twice and a loop", 3, vec![(0, 1), (1, 0), (2, 2)]),
    ] {
        let points = layout::place(n, &edges, 0.5);
        assert_eq!(points.len(), n);
        for (v, a) in points.iter().enumerate() {
            assert!(a[0].is_finite() && a[1].is_finite(), "{what}: {v}");
            for (w, b) in points[..v].iter().enumerate() {
                let distance = (a[0] - b[0]).hypot(a[1] - b[1]);
                assert!(distance > 0.4, "{what}: {v} and {w} are {distance} apart");
            }
        }
    }
}

#[test]
fn links_between_the_same_two_nodes_are_apart() {
    let picture = svg(&two_sites());
    let paths: Vec<&str> = picture.split("<path d=").skip(1).collect();
    let courses: BTreeSet<&str> =
        paths.iter().map(|path| path.split('/').next().expect("a path")).collect();
    assert_eq!(paths.len(), 7);
    assert_eq!(courses.len(), paths.len());
}

/// Reports the duration; asserts only completeness.
#[test]
fn a_thousand_nodes_are_drawn() {
    let plan = torus_plan(1024);
    let start = Instant::now();
    let picture = svg(&plan);
    println!("{} nodes, {} links: {:?}", plan.nodes.len(), plan.links.len(), start.elapsed());
    let text = read_xml(&picture);
    assert_eq!(picture.matches("<g class=\"link\"").count(), 2048);
    assert!(plan.nodes.iter().all(|node| text.contains(&node.name)));
    if let Some(folder) = std::env::var_os("NETLOOM_PICTURES") {
        let folder = std::path::PathBuf::from(folder);
        std::fs::write(folder.join("torus.svg"), picture).unwrap();
        std::fs::write(folder.join("two-sites.svg"), svg(&two_sites())).unwrap();
        std::fs::write(folder.join("two-sites.dot"), dot(&two_sites())).unwrap();
    }
}
