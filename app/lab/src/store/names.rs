//! The names of a lab's objects, stored beside its state for the completion of command lines.
//!
//! The state of a large lab takes long to read, and its process may be busy; this file is small. It is written after
//! the state, so it may briefly lag by one change. Labs of older versions lack it: completion then offers no names.

use netloom_model::Plan;
use netloom_model::plan::PlannedEnd;
use serde::{Deserialize, Serialize};

use crate::store::moved::{Home, Moved};

/// The file in the lab's folder.
pub(crate) const FILE: &str = "names.json";

/// The names of a lab's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// Nodes, a child as `PARENT/NAME`.
    pub nodes: Vec<String>,
    /// Interfaces of nodes, at their current nodes: `NODE:IFACE`.
    pub interfaces: Vec<String>,
    /// Links.
    pub links: Vec<String>,
    /// Switches, and whether programs can join them.
    pub switches: Vec<(String, bool)>,
    /// Ports of switches: the switch and the port's name.
    pub ports: Vec<(String, String)>,
}

impl Names {
    /// The names in a lab of this plan, of which these interfaces were moved.
    pub(crate) fn now(plan: &Plan, moved: &[Moved]) -> Names {
        Names { interfaces: interfaces(plan, moved), ..Names::of_plan(plan) }
    }

    /// The names in a plan.
    pub fn of_plan(plan: &Plan) -> Names {
        let ports = plan.links.iter().flat_map(|link| {
            let [a, b] = &link.ends;
            [(a, b), (b, a)].into_iter().filter_map(|(at, end)| match at {
                PlannedEnd::Port { .. } => Some((plan.end_text(at), plan.end_text(end))),
                _ => None,
            })
        });
        Names {
            nodes: plan.nodes.iter().map(|node| node.name.clone()).collect(),
            interfaces: interfaces(plan, &[]),
            links: plan.links.iter().map(|link| link.name.clone()).collect(),
            switches: plan
                .switches
                .iter()
                .map(|s| (s.name.clone(), s.kind.can_be_joined()))
                .collect(),
            ports: ports.collect(),
        }
    }
}

/// The interfaces of all nodes, moved ones at their current nodes.
fn interfaces(plan: &Plan, moved: &[Moved]) -> Vec<String> {
    let mut found = Vec::new();
    for node in &plan.nodes {
        let is_home = |index: u32| {
            let home = Home::Node { node: node.id, index };
            !moved.iter().any(|moved| moved.home == home)
        };
        let here = node.interfaces.iter().filter(|i| is_home(i.index)).map(|i| &i.name);
        let guests = moved.iter().filter(|moved| moved.node == node.id).map(|moved| &moved.name);
        found.extend(here.chain(guests).map(|name| format!("{}:{name}", node.name)));
    }
    found
}

#[cfg(test)]
mod tests {
    use netloom_model::plan::NodeId;

    use super::*;

    fn plan() -> Plan {
        let text = "nodes: {a: {children: {nodes: {x: {}}}}, b: {}}\n\
                    switches: {s1: {}, s2: {kind: shm}}\n\
                    links: [[a, b], [b, s1], [a/x, s2], [internet, s1]]";
        let lab = netloom_model::parse("f", text.as_bytes(), "f").unwrap();
        netloom_model::plan::plan(&lab).unwrap()
    }

    #[test]
    fn all_that_can_be_named_is_there() {
        let names = Names::of_plan(&plan());
        assert_eq!(names.nodes, ["a", "a/x", "b"]);
        assert_eq!(names.interfaces, ["a:eth0", "a/x:eth0", "b:eth0", "b:eth1"]);
        assert_eq!(names.switches, [("s1".to_owned(), false), ("s2".to_owned(), true)]);
        let ports: Vec<String> =
            names.ports.iter().map(|(s, port)| format!("{s} {port}")).collect();
        assert_eq!(ports, ["s1 b:eth1", "s2 a/x:eth0", "s1 internet"]);
    }

    #[test]
    fn an_interface_that_was_moved_is_where_it_is_now() {
        let moved = Moved {
            home: Home::Node { node: NodeId::new(0), index: 2 },
            old_name: "eth0".into(),
            node: NodeId::new(2),
            name: "lan0".into(),
            index: 9,
            mac: [2, 0, 0, 0, 0, 1],
            was_up: true,
        };
        assert_eq!(interfaces(&plan(), &[moved]), ["a/x:eth0", "b:eth0", "b:eth1", "b:lan0"]);
    }

    #[test]
    fn what_cannot_be_read_has_no_names() {
        let folder = crate::Folder::new(std::path::Path::new("/nowhere"), "lab");
        assert_eq!(Names::of(&folder), Names::default());
    }
}
