//! VLANs of GNS3's Ethernet switches, which are Dynamips': ports of type `access`, `dot1q` or `qinq`, known by number, become rules
//! of the ports that links make.

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
        let mut customers: HashMap<u16, Vec<At<'_>>> = HashMap::new();
        for port in &switch.items {
            let end =
                Ports::number(port).and_then(|number| linked.get(&(switch.id.clone(), number)));
            let Some((link, side)) = end else {
                port.changed("no link ends there");
                continue;
            };
            draft.links[*link].ends[*side].rule = rule(port);
            if let (Some(vlan), Some(kind)) = (vlan(port), port.get("type"))
                && kind.text() == Some("qinq")
            {
                customers.entry(vlan).or_default().push(kind);
            }
        }
        for (vlan, ports) in customers.iter().filter(|(_, ports)| ports.len() > 1) {
            ports.iter().for_each(|at| {
                at.changed(format!(
                    "frames between the qinq ports of VLAN {vlan} keep their tags; GNS3 takes the first one off"
                ));
            });
        }
        if let Some(made) = draft.switches.iter_mut().find(|made| made.name == switch.name) {
            made.keys.push(("kind", "shm".into()));
        }
    }
}

fn vlan(port: &At<'_>) -> Option<u16> {
    let vlan: Option<u16> = port.text_of("vlan").map_or(Some(1), |text| text.parse().ok());
    vlan.filter(|vlan| (1..=4094).contains(vlan))
}

/// The type of the tag that a `qinq` port puts around its frames.
fn tpid(port: &At<'_>) -> &'static str {
    let given = port.text_of("ethertype").unwrap_or_default();
    let types = ["0x8100", "0x88a8", "0x9100", "0x9200"];
    let found = types.iter().find(|tpid| given.eq_ignore_ascii_case(tpid));
    // Dynamips takes this one, too, where it can read none.
    found.copied().unwrap_or("0x8100")
}

/// The rule of a port, of which all is said.
fn rule(port: &At<'_>) -> Option<String> {
    let Some(vlan) = vlan(port) else {
        port.left_out("expected a VLAN from 1 to 4094");
        return None;
    };
    let rule = match port.text_of("type").unwrap_or("access") {
        "access" => format!("vlan: {vlan}"),
        "dot1q" => format!("trunk: all, native: {vlan}"),
        // It takes no frame without a tag.
        "qinq" => format!("qinq: {vlan}, cvlans: all, tpid: {}", tpid(port)),
        _ => {
            port.left_out("expected access, dot1q or qinq");
            return None;
        }
    };
    for (key, at) in port.entries() {
        match key {
            "type" | "vlan" | "port_number" => at.carried(),
            "name" => at.changed("a port is known by what is linked to it"),
            // Other ports than `qinq` have none.
            "ethertype" => at.carried(),
            _ => {}
        }
    }
    Some(rule)
}
