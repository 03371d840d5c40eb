//! Pictures of a plan: Graphviz text and SVG.
//!
//! Pure functions: the same plan gives the same text. Routers are boxes, hosts ellipses, switches
//! diamonds, doors to the host dashed boxes. Every name is escaped for its context.
//! Specification: the DOT language of Graphviz; SVG 1.1.

mod layout;
mod svg;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use crate::plan::{Plan, PlannedEnd, PlannedNode};
pub use svg::svg;

/// What a vertex of the picture represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Router,
    Host,
    Switch,
    Door,
}

/// A vertex: an object in which links end.
#[derive(Debug)]
struct Vertex {
    name: String,
    shape: Shape,
    /// Further details, a line each.
    details: Vec<String>,
}

/// One end of a link as drawn.
#[derive(Debug)]
struct EdgeEnd {
    vertex: usize,
    /// The interface name, if the end has one.
    interface: String,
    addresses: Vec<String>,
}

#[derive(Debug)]
struct Edge {
    name: String,
    ends: [EdgeEnd; 2],
}

/// A plan as vertices and edges: nodes in order, then switches, then doors.
#[derive(Debug)]
struct Picture {
    vertices: Vec<Vertex>,
    edges: Vec<Edge>,
}

impl Picture {
    fn of(plan: &Plan) -> Picture {
        let mut picture = Picture { vertices: Vec::new(), edges: Vec::new() };
        picture.vertices.extend(plan.nodes.iter().map(node_vertex));
        picture.vertices.extend(plan.switches.iter().map(|switch| Vertex {
            name: switch.name.clone(),
            shape: Shape::Switch,
            details: vec![switch.kind.caption(&switch.bridge)],
        }));
        let mut doors = std::collections::BTreeMap::new();
        for link in &plan.links {
            let ends = [&link.ends[0], &link.ends[1]].map(|end| picture.end(plan, end, &mut doors));
            picture.edges.push(Edge { name: link.name.clone(), ends });
        }
        picture
    }

    fn end(
        &mut self,
        plan: &Plan,
        end: &PlannedEnd,
        doors: &mut std::collections::BTreeMap<String, usize>,
    ) -> EdgeEnd {
        match end {
            PlannedEnd::Node { node, interface } => {
                let interface = &plan.nodes[*node].interfaces[*interface];
                EdgeEnd {
                    vertex: node.get(),
                    interface: interface.name.clone(),
                    addresses: interface.addresses.iter().map(ToString::to_string).collect(),
                }
            }
            PlannedEnd::Port { switch, .. } => EdgeEnd {
                vertex: plan.nodes.len() + switch.get(),
                interface: String::new(),
                addresses: vec![],
            },
            PlannedEnd::Host { iface } => {
                let vertex = self.door(format!("host:{iface}"), doors);
                EdgeEnd { vertex, interface: String::new(), addresses: vec![] }
            }
            // One for each: nothing joins them.
            PlannedEnd::Nowhere { .. } => {
                let vertex = self.vertices.len();
                let name = "nowhere".to_owned();
                self.vertices.push(Vertex { name, shape: Shape::Door, details: vec![] });
                EdgeEnd { vertex, interface: String::new(), addresses: vec![] }
            }
            PlannedEnd::Internet { addresses } => EdgeEnd {
                vertex: self.door("internet".to_owned(), doors),
                interface: String::new(),
                addresses: addresses.iter().map(ToString::to_string).collect(),
            },
        }
    }

    fn door(
        &mut self,
        name: String,
        doors: &mut std::collections::BTreeMap<String, usize>,
    ) -> usize {
        *doors.entry(name).or_insert_with_key(|name| {
            self.vertices.push(Vertex { name: name.clone(), shape: Shape::Door, details: vec![] });
            self.vertices.len() - 1
        })
    }
}

fn node_vertex(node: &PlannedNode) -> Vertex {
    let describe = |interface: &crate::plan::Interface| {
        let addresses: Vec<String> = interface.addresses.iter().map(ToString::to_string).collect();
        format!("{} {}", interface.name, addresses.join(" "))
    };
    Vertex {
        name: node.name.clone(),
        shape: if node.forwarding.any() { Shape::Router } else { Shape::Host },
        details: node.interfaces.iter().map(describe).collect(),
    }
}

/// The plan as Graphviz text, an undirected graph: `dot`, `neato` and `sfdp` draw it.
pub fn dot(plan: &Plan) -> String {
    let picture = Picture::of(plan);
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = writeln!(out, "graph {} {{", quote(&plan.lab));
    out.push_str("  node [fontname=\"sans-serif\"];\n");
    out.push_str("  edge [fontname=\"sans-serif\", fontsize=9];\n");
    for (index, vertex) in picture.vertices.iter().enumerate() {
        let shape = match vertex.shape {
            Shape::Router => "box",
            Shape::Host => "ellipse",
            Shape::Switch => "diamond",
            Shape::Door => "box, style=dashed",
        };
        let (name, tooltip) = (quote(&vertex.name), quote(&vertex.details.join("\n")));
        let _ = writeln!(out, "  v{index} [label={name}, shape={shape}, tooltip={tooltip}];");
    }
    for edge in &picture.edges {
        let [a, b] = &edge.ends;
        let _ = writeln!(
            out,
            "  v{} -- v{} [taillabel={}, headlabel={}, tooltip={}];",
            a.vertex,
            b.vertex,
            quote(&end_label(a)),
            quote(&end_label(b)),
            quote(&edge.name)
        );
    }
    out.push_str("}\n");
    out
}

/// The interface and its addresses, a line each.
fn end_label(end: &EdgeEnd) -> String {
    let mut lines: Vec<&str> = vec![end.interface.as_str()];
    lines.extend(end.addresses.iter().map(String::as_str));
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

/// A quoted string of the DOT language that displays as the text itself: a backslash would start an
/// escape in a label, so it is doubled.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
