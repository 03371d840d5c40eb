//! Lab files that are right, and what they mean.

use super::*;
use crate::lab::{End, FileContent, Restart, Via};

fn lab(text: &str) -> Lab {
    parse("t.yaml", text.as_bytes(), "t").unwrap_or_else(|e| panic!("{e}"))
}

fn errors(text: &str) -> String {
    match parse("t.yaml", text.as_bytes(), "t") {
        Ok(lab) => panic!("no error in {lab:?}"),
        Err(e) => e.to_string(),
    }
}

fn names(lab: &Lab) -> Vec<&str> {
    lab.nodes.iter().map(|n| n.name.as_str()).collect()
}

#[test]
fn the_demo_is_read() {
    let lab = lab(include_str!("../../../../examples/two-sites.yaml"));
    assert_eq!(lab.name, "two-sites");
    assert_eq!(names(&lab), ["h1", "h2", "r1", "r2", "web"]);
    assert_eq!(lab.nodes[4].run[0].command[3], "80");
    assert_eq!(lab.nodes[4].files[0].content, FileContent::Text("hello\n".into()));
    assert_eq!(lab.nodes[4].ready.tcp, [80]);
    assert!(lab.nodes[2].forwarding && !lab.nodes[0].forwarding);
    assert_eq!(lab.links.len(), 5);
    assert_eq!(lab.links[3].ends[0], End::Node { node: 2, iface: Some("eth1".into()) });
    assert_eq!(lab.links[0].ends[1], End::Switch { switch: 0 });
    assert!(lab.routing && lab.pool.ipv4.is_some() && lab.pool.ipv6.is_some());
}
