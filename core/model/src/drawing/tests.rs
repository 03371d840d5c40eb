//! Pictures of small, large and hostile plans.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Instant;

use crate::Plan;
use crate::plan::plan;

use super::{Form, Role, dot, positions, svg};

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
    let title = "two-sites: 5 nodes, 1 switch, 7 links";
    for name in ["h1", "h2", "r1", "r2", "web", "s1", "internet", title] {
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
fn links_between_the_same_two_nodes_are_apart() {
    let picture = svg(&two_sites());
    let paths: Vec<&str> = picture.split("<path class=\"near\" d=").skip(1).collect();
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
}

#[test]
fn positions_are_those_of_the_picture() {
    let plan = two_sites();
    let all = positions(&plan);
    let names =
        |of: &[super::PlacedNode]| of.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&all.nodes), ["h1", "h2", "r1", "r2", "web"]);
    assert_eq!(names(&all.switches), ["s1"]);
    assert_eq!(all.doors[0].place.role, Role::Internet);
    assert_eq!(all.doors[0].links, [plan.links[6].name.clone()]);
    let roles: Vec<Role> = all.nodes.iter().map(|node| node.role).collect();
    assert_eq!(roles, [Role::Host, Role::Host, Role::Router, Role::Router, Role::Host]);
    assert_eq!(all.links.len(), 7);
    assert_eq!((all.links[3].shape, all.links[3].via.len()), (Form::Bent, 1));
    assert!(
        all.nodes
            .iter()
            .all(|node| (0..all.width).contains(&node.x) && (0..all.height).contains(&node.y))
    );
}

const FIXED: &str = "name: fixed\nnodes: {a: {}, b: {}, c: {}}\nlinks: [[a, b], [b, c]]\n\
                     x-layout: {a: [600, 400], b: [100, 90], gone: [5, 5]}\n";

#[test]
fn positions_of_the_file_are_kept() {
    let all = positions(&planned(FIXED));
    let [a, b] = [&all.nodes[0], &all.nodes[1]];
    assert_eq!((a.x - b.x, a.y - b.y), (500, 310));
    // Saved as they are, they stay.
    let mut saved = String::from(
        "name: fixed\nnodes: {a: {}, b: {}, c: {}}\nlinks: [[a, b], [b, c]]\nx-layout:\n",
    );
    for node in &all.nodes {
        writeln!(saved, "  {}: [{}, {}]", node.name, node.x, node.y).unwrap();
    }
    assert_eq!(positions(&planned(&saved)).nodes, all.nodes);
}

#[test]
fn positions_of_the_file_are_written_and_change_no_plan() {
    let with = planned(FIXED);
    let without = planned(FIXED.split("x-layout").next().unwrap());
    assert_eq!(with.digest, without.digest);
    let lab = crate::lab_of(&with).expect("a lab");
    let text = crate::write(&lab, "");
    assert!(text.contains("x-layout:\n  a: [600, 400]\n  b: [100, 90]\n"), "{text}");
    assert_eq!(
        crate::parse("lab.yaml", text.as_bytes(), "lab").expect("a valid lab").layout,
        lab.layout
    );
}

#[test]
fn wrong_positions_are_errors_with_their_place() {
    let error = |layout: &str| {
        let text = format!("nodes: {{a: {{}}}}\nx-layout: {layout}\n");
        crate::parse("lab.yaml", text.as_bytes(), "lab").expect_err(layout).to_string()
    };
    for (layout, words) in [
        ("[1, 2]", "x-layout: expected a map of names to [x, y]"),
        ("{a: 5}", "x-layout.a: expected [x, y], in pixels"),
        ("{a: [1]}", "\"a\" needs two numbers, [x, y], and has 1"),
        ("{a: [1, -2]}", "x-layout.a[1]: expected a whole number from 0 to 30000"),
        ("{a: [x, 2]}", "x-layout.a[0]: expected a whole number"),
    ] {
        let error = error(layout);
        assert!(error.contains(words) && error.contains(":2:"), "{layout}: {error}");
    }
}

#[test]
fn impairments_are_shown() {
    let plan = planned(
        "nodes: {a: {}, b: {}}\nlinks: [{ends: [a, b], rate: 10mbit, a: {delay: 20ms, jitter: 1ms, loss: 0.5%}}]\n",
    );
    let text = read_xml(&svg(&plan));
    assert!(text.contains("→ 10mbit · 20ms ±1ms · 0.5% loss  ← 10mbit"), "{text}");
    assert!(text.contains("impaired link"), "{text}");
}

#[test]
fn labels_cover_neither_boxes_nor_each_other() {
    for plan in [two_sites(), torus_plan(49)] {
        let picture = svg(&plan);
        let number = |text: &str, key: &str| -> f64 {
            let from = text.find(&format!(" {key}=\"")).expect("an attribute") + key.len() + 3;
            text[from..].split('"').next().unwrap().parse().unwrap()
        };
        let rects = |class: &str| -> Vec<[f64; 4]> {
            let of = picture.split(class).skip(1);
            of.map(|text| ["x", "y", "width", "height"].map(|key| number(text, key))).collect()
        };
        let boxes = rects("<rect class=\"box\"");
        let labels: Vec<[f64; 4]> =
            [rects("<g class=\"end\"><rect"), rects("<g class=\"pill\"><rect")].concat();
        assert!(!labels.is_empty());
        let apart = |a: &[f64; 4], b: &[f64; 4]| {
            a[0] + a[2] <= b[0] || b[0] + b[2] <= a[0] || a[1] + a[3] <= b[1] || b[1] + b[3] <= a[1]
        };
        for (at, label) in labels.iter().enumerate() {
            assert!(boxes.iter().all(|other| apart(label, other)), "{label:?}");
            assert!(labels[..at].iter().all(|other| apart(label, other)), "{label:?}");
        }
    }
}

/// With `NETLOOM_PICTURES=FOLDER` draws each lab file there, to be looked at; in every run the examples.
#[test]
fn every_example_is_drawn() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let wanted = std::env::var_os("NETLOOM_PICTURES");
    let folder = wanted.clone().unwrap_or_else(|| examples.into());
    let mut drawn = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "yaml") {
            continue;
        }
        let text = std::fs::read(&path).unwrap();
        let lab =
            crate::parse("lab.yaml", &text, "lab").unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let picture = svg(&plan(&lab).expect("a plan"));
        read_xml(&picture);
        if wanted.is_some() {
            std::fs::write(path.with_extension("svg"), picture).unwrap();
        }
        drawn += 1;
    }
    assert!(drawn >= 20 || wanted.is_some(), "{drawn} examples");
}
