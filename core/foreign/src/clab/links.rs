//! Links of containerlab, in their brief form and by type.

use std::cell::{Cell, RefCell};

use ipnet::IpNet;

use crate::at::At;
use crate::clab::management::Network;
use crate::clab::{Lab, MTU, Place};
use crate::draft::{Draft, End, Link};
use crate::{Job, Result, shell, wrong};

/// The end of a link that leads nowhere.
const NOWHERE: &str = "nowhere";

/// Reads all links.
pub(super) fn read(
    job: &Job<'_>,
    topology: &At<'_>,
    lab: &Lab,
    network: &Network<'_>,
    draft: &mut Draft,
) -> Result<()> {
    let Some(links) = topology.get("links") else { return Ok(()) };
    if links.is_empty() {
        links.carried();
    }
    let count = Cell::new(0);
    for at in links.items() {
        check(job, &at)?;
        let reader = Reader { lab, network, at: &at, count: &count, renamed: RefCell::default() };
        let Some(link) = reader.link(draft) else { continue };
        draft.links.push(link);
        // Only of a link that is taken: a command for an interface that is not there would fail.
        for (node, command) in reader.renamed.take() {
            if let Some(node) = draft.node(&node) {
                node.setup.push(command);
            }
        }
    }
    Ok(())
}

/// What containerlab itself takes for no link.
fn check(job: &Job<'_>, at: &At<'_>) -> Result<()> {
    let refuse = |at: &At<'_>, why: &str| Err(wrong(job.file, at.place.line, why));
    if let (None, None) = (at.get("type"), at.get("endpoints")) {
        return refuse(
            at,
            "a link has `endpoints: [\"NODE:INTERFACE\", \"NODE:INTERFACE\"]`, or a `type`",
        );
    }
    let Some(endpoints) = at.get("endpoints") else { return Ok(()) };
    let items = endpoints.items();
    if items.len() != 2 {
        return refuse(
            &endpoints,
            "a link has two ends: `endpoints: [\"NODE:INTERFACE\", \"NODE:INTERFACE\"]`",
        );
    }
    for item in items {
        if item.text().is_some_and(|text| !text.contains(':')) {
            let text = item.text().unwrap_or_default();
            return refuse(&item, &format!("an end of a link is NODE:INTERFACE, not {text:?}"));
        }
    }
    Ok(())
}

struct Reader<'a> {
    lab: &'a Lab,
    network: &'a Network<'a>,
    at: &'a At<'a>,
    /// How many interfaces have short names so far.
    count: &'a Cell<u32>,
    /// Commands that give interfaces their long names.
    renamed: RefCell<Vec<(String, Vec<String>)>>,
}

impl Reader<'_> {
    fn link(&self, draft: &mut Draft) -> Option<Link> {
        let kind = self.at.get("type");
        // In whatever letters (`parseLinkType`).
        let word = kind.as_ref().map(|at| at.text().unwrap_or_default().trim().to_lowercase());
        let ends = match word.as_deref() {
            None if self.at.get("endpoints").is_some() => self.brief(),
            None | Some("veth") => self.both(),
            Some("mgmt-net") => self.one().map(|end| [end, self.management()]),
            Some("dummy") => self.one().map(|end| [end, End::port(NOWHERE)]),
            Some("host") => self.none("netloom makes no interfaces on the host"),
            Some("macvlan") => self.none(
                "netloom makes no macvlan; a link to `host:IFACE` takes the interface itself",
            ),
            Some("vxlan" | "vxlan-stitch") => self.none(
                "it leads out of the lab by the host's network; `ip link add … type vxlan` in `exec` is a tunnel within",
            ),
            Some("veth-stitch") => self.none("netloom makes no interfaces on the host"),
            Some(_) => self.none("no such type of link is known"),
        }?;
        kind.iter().for_each(At::carried);
        let mtu = self.mtu(&ends, draft);
        self.rest();
        Some(Link {
            ends,
            mtu,
            item: self.at.get("endpoints").unwrap_or_else(|| self.at.clone()).item(),
            ..Link::default()
        })
    }

    /// Leaves the whole link out.
    fn none<T>(&self, why: &str) -> Option<T> {
        self.at.left_out(why);
        None
    }

    fn management(&self) -> End {
        self.at
            .get("host-interface")
            .iter()
            .for_each(|at| at.left_out("a switch's ports have no names of their own"));
        self.network.need();
        End::port(self.network.switch())
    }

    /// The MTU of a link between nodes; a switch has its own.
    fn mtu(&self, ends: &[End; 2], draft: &mut Draft) -> Option<u32> {
        let at = self.at.get("mtu");
        let given = at.as_ref().and_then(|at| at.text()?.parse::<u32>().ok());
        if let (Some(at), None) = (&at, given) {
            at.odd("a number");
        }
        let on_switch = ends.iter().find(|end| end.iface.is_none() && end.at != NOWHERE);
        let Some(end) = on_switch else {
            at.iter().for_each(At::carried);
            return Some(given.unwrap_or(MTU));
        };
        if let (Some(at), Some(mtu)) = (at, given) {
            let switch = draft.switches.iter_mut().find(|switch| switch.name == end.at);
            match switch.and_then(|s| s.keys.iter_mut().find(|(key, _)| *key == "mtu")) {
                // The first link that names an MTU decides it; the switch began with the default.
                Some((_, value)) if *value == MTU.to_string() => {
                    *value = mtu.to_string();
                    at.changed("the MTU of the whole switch");
                }
                Some((_, value)) if *value == mtu.to_string() => at.carried(),
                _ => at.left_out("the links of a switch have one MTU"),
            }
        }
        None
    }

    /// Keys that every form may have.
    fn rest(&self) {
        for (key, at) in self.at.entries() {
            match key {
                "vars" => at.left_out("only for configuration of vendors' kinds"),
                "labels" => at.left_out("lab files have no labels"),
                "ipv4" | "ipv6" => {}
                _ => {}
            }
        }
    }

    fn brief(&self) -> Option<[End; 2]> {
        let endpoints = self.at.get("endpoints")?;
        let items = endpoints.items();
        // Without `type` the ends may still be maps.
        if items.iter().any(|item| item.node.entries().is_some()) {
            return self.both();
        }
        let [a, b] = items.as_slice() else {
            return self.none("a link has two ends");
        };
        let mut ends = [self.brief_end(a)?, self.brief_end(b)?];
        for key in ["ipv4", "ipv6"] {
            let Some(list) = self.at.get(key) else { continue };
            for (item, end) in list.items().iter().zip(ends.iter_mut()) {
                address(item, end);
            }
        }
        items.iter().for_each(At::carried);
        Some(ends)
    }

    fn brief_end(&self, at: &At<'_>) -> Option<End> {
        let Some((node, iface)) = at.text().and_then(|text| text.split_once(':')) else {
            return self.none("expected NODE:INTERFACE");
        };
        self.end(at, node, iface)
    }

    /// An end, whose interface stands at this place.
    fn end(&self, at: &At<'_>, node: &str, iface: &str) -> Option<End> {
        match node {
            // A node of the lab may have this name.
            "host" if !self.lab.names.contains_key("host") => {
                return self.none("netloom makes no interfaces on the host");
            }
            "mgmt-net" if self.network.is_there() => return Some(self.management()),
            "mgmt-net" => return self.none("there is no management network"),
            "macvlan" => {
                return self.none(
                    "netloom makes no macvlan; a link to `host:IFACE` takes the interface itself",
                );
            }
            _ => {}
        }
        match self.lab.names.get(node) {
            Some(Place::Node(name)) => match netloom_model::node_interface_problem(iface) {
                None => Some(End::of(name, iface)),
                Some(_) => self.renamed(at, name, iface),
            },
            Some(Place::Switch(name)) => Some(End::port(name)),
            Some(Place::Nothing(why)) => self.none(why),
            None => self.none("there is no such node"),
        }
    }

    /// An interface whose name Linux does not take has a short one, and its own, without slashes and blanks, beside it.
    fn renamed(&self, at: &At<'_>, node: &str, iface: &str) -> Option<End> {
        let other: String = iface.chars().map(|c| if "/ ".contains(c) { '-' } else { c }).collect();
        // ALTIFNAMSIZ is 128, with the NUL (linux/if.h).
        if other.is_empty() || other.len() > 127 || !other.chars().all(|c| c.is_ascii_graphic()) {
            return self.none("no name that an interface can have");
        }
        self.count.set(self.count.get() + 1);
        let name = format!("clab-{}", self.count.get());
        // `forgiving`: without iproute2 in its image the node still comes up, with the short name.
        let words = ["ip", "link", "property", "add", "dev", &name, "altname", &other];
        let command = shell::forgiving(words.map(str::to_owned).to_vec());
        self.renamed.borrow_mut().push((node.to_owned(), command));
        at.changed(format!("{iface:?} is called {name}, and {other:?} by the node's `ip`"));
        Some(End::of(node, name))
    }

    /// Both `endpoints` of a link with a type.
    fn both(&self) -> Option<[End; 2]> {
        let endpoints = self.at.get("endpoints")?;
        let items = endpoints.items();
        let [a, b] = items.as_slice() else {
            return self.none("a link has two ends");
        };
        Some([self.long_end(a)?, self.long_end(b)?])
    }

    /// The only `endpoint` of a link that leads elsewhere.
    fn one(&self) -> Option<End> {
        let Some(at) = self.at.get("endpoint") else { return self.none("it has no endpoint") };
        self.long_end(&at)
    }

    fn long_end(&self, at: &At<'_>) -> Option<End> {
        if at.text().is_some() {
            let end = self.brief_end(at)?;
            at.carried();
            return Some(end);
        }
        let node = at.text_of("node").unwrap_or_default();
        let interface = at.get("interface");
        let iface = interface.as_ref().and_then(At::text).unwrap_or_default();
        let mut end = self.end(interface.as_ref().unwrap_or(at), node, iface)?;
        for key in ["node", "interface"] {
            at.get(key).iter().for_each(At::carried);
        }
        if let Some(mac) = at.get("mac") {
            match mac.text() {
                Some(text) if end.iface.is_some() => {
                    end.mac = Some(text.to_owned());
                    mac.carried();
                }
                _ => mac.left_out("only an interface of a node has a hardware address"),
            }
        }
        for key in ["ipv4", "ipv6"] {
            if let Some(item) = at.get(key) {
                address(&item, &mut end);
            }
        }
        at.get("vars")
            .iter()
            .for_each(|at| at.left_out("only for configuration of vendors' kinds"));
        Some(end)
    }
}

fn address(at: &At<'_>, end: &mut End) {
    match at.text().map(str::parse::<IpNet>) {
        Some(Ok(net)) if end.iface.is_some() => {
            end.addresses.push(net);
            at.carried();
        }
        Some(Ok(_)) => at.left_out("a switch has no addresses"),
        _ if at.is_empty() => at.carried(),
        _ => at.odd("an address with its prefix length"),
    }
}
