//! VLANs of GNS3's Ethernet switches: ports of type `access` or `dot1q`, known by number, become rules of the ports that
//! links make.

use std::collections::HashMap;

use crate::at::At;
use crate::draft::Draft;

/// A switch with its list of ports.
pub(super) struct Ports<'a> {
    id: String,
    name: String,
    items: Vec<At<'a>>,
}

impl<'a> Ports<'a> {
    pub(super) fn of(id: &str, name: &str, at: &At<'a>) -> Ports<'a> {
        let ports = at.get("properties").and_then(|at| at.get("ports_mapping"));
        let items = ports.iter().flat_map(At::items).collect();
        Ports { id: id.to_owned(), name: name.to_owned(), items }
    }

    fn number(port: &At<'_>) -> Option<u32> {
        port.text_of("port_number")?.parse().ok()
    }

    /// Whether any port is in another VLAN than the first, or in several.
    fn has_vlans(&self) -> bool {
        let vlan = |port: &At<'a>| {
            port.text_of("vlan").is_some_and(|vlan| vlan != "1")
                || port.text_of("type").is_some_and(|kind| kind != "access")
        };
        self.items.iter().any(vlan)
    }
}

/// The ends of links at ports of switches: link and side by the switch's ID and the port's number.
pub(super) type Linked = HashMap<(String, u32), (usize, usize)>;

/// Notes which ports a link has at its two ends; `at` is its two `nodes`, `link` its place among the links.
pub(super) fn note(at: &At<'_>, link: usize, linked: &mut Linked) {
    let nodes = at.get("nodes").map(|at| at.items()).unwrap_or_default();
    for (side, own) in nodes.iter().enumerate() {
        let id = own.text_of("node_id").unwrap_or_default().to_owned();
        linked.extend(Ports::number(own).map(|number| ((id, number), (link, side))));
    }
}

/// Gives switches the rules of their ports.
pub(super) fn carry(switches: &[Ports<'_>], linked: &Linked, draft: &mut Draft) {
    for switch in switches {
        if !switch.has_vlans() {
            let why = "a switch has the ports that its links give it";
            switch.items.iter().for_each(|at| at.changed(why));
            continue;
        }
        for port in &switch.items {
            let end =
                Ports::number(port).and_then(|number| linked.get(&(switch.id.clone(), number)));
            match end {
                Some((link, side)) => draft.links[*link].ends[*side].rule = rule(port),
                None => port.changed("no link ends there"),
            }
        }
        if let Some(made) = draft.switches.iter_mut().find(|made| made.name == switch.name) {
            made.keys.push(("kind", "shm".into()));
        }
    }
}

/// The rule of a port, of which all is said.
fn rule(port: &At<'_>) -> Option<String> {
    let vlan: Option<u16> = port.text_of("vlan").map_or(Some(1), |text| text.parse().ok());
    let Some(vlan) = vlan.filter(|vlan| (1..=4094).contains(vlan)) else {
        port.left_out("expected a VLAN from 1 to 4094");
        return None;
    };
    let rule = match port.text_of("type").unwrap_or("access") {
        "access" => format!("vlan: {vlan}"),
        "dot1q" => format!("trunk: all, native: {vlan}"),
        // To frames without tags it is an access port; those with tags it takes none of.
        "qinq" => {
            port.get("type").iter().for_each(|at| {
                at.changed(format!(
                    "an access port of VLAN {vlan}: netloom's switches put no tag around another, and drop frames with tags there"
                ));
            });
            format!("vlan: {vlan}")
        }
        _ => {
            port.left_out("expected access, dot1q or qinq");
            return None;
        }
    };
    for (key, at) in port.entries() {
        match key {
            "type" | "vlan" | "port_number" => at.carried(),
            "name" => at.changed("a port is known by what is linked to it"),
            "ethertype" if at.is_empty() || at.text() == Some("0x8100") => at.carried(),
            "ethertype" => at.left_out("tags of VLANs are those of 802.1Q"),
            _ => {}
        }
    }
    Some(rule)
}
