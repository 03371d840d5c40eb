//! Pictures of a plan: Graphviz text, SVG, and positions for other programs that draw.
//!
//! Pure functions: the same plan gives the same text. Positions come from `netloom-layout`; those of the lab file's
//! `x-layout` are kept. Every name is escaped for its context.
//! Specification: the DOT language of Graphviz; SVG 1.1.

mod card;
mod positions;
mod svg;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use netloom_impair::Impairments;
use netloom_layout::{Graph, Layout, lay_out};
use serde::{Deserialize, Serialize};

use crate::plan::{Interface, Plan, PlannedEnd, PlannedNode, PlannedSwitch};
pub use positions::{Form, Frame, LinkCourse, PlacedDoor, PlacedNode, Positions, positions};
pub use svg::svg;

/// What a vertex of a picture stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = DrawnRole))]
pub enum Role {
    /// A node that does not forward.
    Host,
    /// A node that forwards.
    Router,
    /// A virtual machine.
    Guest,
    /// A switch.
    Switch,
    /// NAT through the host.
    Internet,
    /// An interface of the host.
    HostInterface,
    /// The end of a link that leads nowhere.
    Nowhere,
}

impl Role {
    fn in_layout(self) -> netloom_layout::Role {
        match self {
            Role::Host | Role::Guest => netloom_layout::Role::Host,
            Role::Router => netloom_layout::Role::Router,
            Role::Switch => netloom_layout::Role::Switch,
            Role::Internet | Role::HostInterface | Role::Nowhere => netloom_layout::Role::Door,
        }
    }
}

/// A vertex: an object in which links end.
#[derive(Debug)]
struct Vertex {
    name: String,
    role: Role,
    /// A second line below the name, where there is room.
    caption: String,
    /// Further details, a line each.
    details: Vec<String>,
    /// The vertex that it lives in.
    parent: Option<usize>,
}

/// One end of a link as drawn.
#[derive(Debug)]
struct EdgeEnd {
    vertex: usize,
    /// The interface name, if the end has one.
    interface: String,
    addresses: Vec<String>,
    /// The vertex itself shows the address.
    shown: bool,
}

#[derive(Debug)]
struct Edge {
    name: String,
    ends: [EdgeEnd; 2],
    impairments: [Impairments; 2],
}

/// A plan as vertices and edges: nodes in order, then switches, then doors.
#[derive(Debug)]
struct Picture {
    vertices: Vec<Vertex>,
    edges: Vec<Edge>,
    nodes: usize,
    switches: usize,
}

/// Links up to which the ends of links are labelled, and boxes have a second line.
const LABELLED: usize = 150;

impl Picture {
    fn of(plan: &Plan) -> Picture {
        let mut vertices: Vec<Vertex> = plan.nodes.iter().map(node_vertex).collect();
        vertices.extend(plan.switches.iter().map(switch_vertex));
        let (nodes, switches) = (plan.nodes.len(), plan.switches.len());
        let mut picture = Picture { vertices, edges: Vec::new(), nodes, switches };
        let mut doors = BTreeMap::new();
        for link in &plan.links {
            let ends = [&link.ends[0], &link.ends[1]].map(|end| picture.end(plan, end, &mut doors));
            let (name, impairments) = (link.name.clone(), link.impairments.clone());
            picture.edges.push(Edge { name, ends, impairments });
        }
        picture
    }

    fn is_labelled(&self) -> bool {
        self.edges.len() <= LABELLED && self.vertices.len() <= LABELLED
    }

    /// Where everything stands, with the positions that the lab file fixes.
    fn laid_out(&self, plan: &Plan) -> Layout {
        let fixed = plan.positions_of_file();
        let labelled = self.is_labelled();
        let vertex = |vertex: &Vertex| netloom_layout::Vertex {
            size: card::size(vertex, labelled),
            role: vertex.role.in_layout(),
            parent: vertex.parent,
            fixed: fixed.get(&vertex.name).map(|at| at.map(f64::from)),
        };
        lay_out(&Graph {
            vertices: self.vertices.iter().map(vertex).collect(),
            edges: self
                .edges
                .iter()
                .map(|edge| [edge.ends[0].vertex, edge.ends[1].vertex])
                .collect(),
            link: if labelled { 108.0 } else { 56.0 },
        })
    }

    fn end(
        &mut self,
        plan: &Plan,
        end: &PlannedEnd,
        doors: &mut BTreeMap<String, usize>,
    ) -> EdgeEnd {
        let bare =
            |vertex| EdgeEnd { vertex, interface: String::new(), addresses: vec![], shown: false };
        match end {
            PlannedEnd::Node { node, interface } => {
                let planned = &plan.nodes[*node];
                let interface = &planned.interfaces[*interface];
                EdgeEnd {
                    interface: interface.name.clone(),
                    addresses: interface.addresses.iter().map(ToString::to_string).collect(),
                    // Its box has room for one address.
                    shown: planned.interfaces.len() == 1,
                    ..bare(node.get())
                }
            }
            PlannedEnd::Port { switch, .. } => bare(plan.nodes.len() + switch.get()),
            PlannedEnd::Host { iface } => {
                bare(self.door(format!("host:{iface}"), Role::HostInterface, doors))
            }
            // One for each: nothing joins them.
            PlannedEnd::Nowhere { .. } => bare(self.add_door("nowhere".to_owned(), Role::Nowhere)),
            PlannedEnd::Internet { addresses } => EdgeEnd {
                addresses: addresses.iter().map(ToString::to_string).collect(),
                ..bare(self.door("internet".to_owned(), Role::Internet, doors))
            },
        }
    }

    fn door(&mut self, name: String, role: Role, doors: &mut BTreeMap<String, usize>) -> usize {
        *doors.entry(name).or_insert_with_key(|name| self.add_door(name.clone(), role))
    }

    fn add_door(&mut self, name: String, role: Role) -> usize {
        let caption = String::new();
        self.vertices.push(Vertex { name, role, caption, details: vec![], parent: None });
        self.vertices.len() - 1
    }
}

fn node_vertex(node: &PlannedNode) -> Vertex {
    let describe = |interface: &Interface| {
        let addresses: Vec<String> = interface.addresses.iter().map(ToString::to_string).collect();
        format!("{} {}", interface.name, addresses.join(" "))
    };
    let caption = match &node.interfaces[..] {
        [only] => only.addresses.first().map(ToString::to_string),
        _ => None,
    };
    Vertex {
        name: node.name.clone(),
        role: match (node.kind.as_vm().is_some(), node.forwarding.any()) {
            (true, _) => Role::Guest,
            (false, true) => Role::Router,
            (false, false) => Role::Host,
        },
        caption: caption.unwrap_or_default(),
        details: node.interfaces.iter().map(describe).collect(),
        parent: node.parent.map(|parent| parent.get()),
    }
}

fn switch_vertex(switch: &PlannedSwitch) -> Vertex {
    let caption = switch.kind.caption(&switch.bridge);
    Vertex {
        name: switch.name.clone(),
        role: Role::Switch,
        details: vec![caption.clone()],
        // A bridge needs no word: most switches are.
        caption: if switch.kind.is_bridge() { String::new() } else { caption },
        parent: None,
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
        let shape = match vertex.role {
            Role::Router => "box",
            Role::Host => "ellipse",
            Role::Guest => "ellipse, style=dashed",
            Role::Switch => "diamond",
            Role::Internet | Role::HostInterface | Role::Nowhere => "box, style=dashed",
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
