//! Devices of CORE: hosts and routers with their services.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Job;
use crate::at::At;
use crate::core_xml::links::{ENDS, interface_name};
use crate::core_xml::{Place, Places, name, picture};
use crate::draft::{Draft, End, Node, Route};

/// Reads a device.
pub(super) fn read(
    job: &Job<'_>,
    root: &At<'_>,
    at: &At<'_>,
    places: &mut Places,
    draft: &mut Draft,
) {
    let id = at.text_of("@id").unwrap_or_default().to_owned();
    let name = name(at, draft);
    let mut node = Node::named(&name);
    picture(at);
    at.get("@id").iter().for_each(At::carried);
    services(root, at, &mut node);
    if let Some(kind) = at.get("@type") {
        match kind.text().unwrap_or_default() {
            "router" | "mdr" | "prouter" | "PC" | "host" | "" => {
                kind.changed("what a device does is what its services say");
            }
            _ => kind.left_out("no such device in netloom"),
        }
    }
    image(job, at, &mut node);
    places.insert(id, Place::Node(name));
    draft.nodes.push(node);
}

/// Devices of class `docker` have an image.
fn image(job: &Job<'_>, at: &At<'_>, node: &mut Node) {
    let is_docker = at.text_of("@class") == Some("docker");
    for key in ["@class", "@image"] {
        let Some(given) = at.get(key) else { continue };
        match given.text().unwrap_or_default() {
            "" => given.carried(),
            _ if !is_docker => given.left_out("netloom has no such device"),
            _ if job.options.host_programs => given.left_out("the node runs the host's programs"),
            image => {
                if key == "@image" {
                    node.key("image", crate::write::scalar(image));
                }
                given.carried();
            }
        }
    }
}

/// The services of a device, old and new ones.
fn named<'a>(at: &At<'a>) -> Vec<At<'a>> {
    let mut found = vec![];
    for key in ["services", "configservices"] {
        for list in at.get(key).iter().flat_map(At::items) {
            found.extend(list.get("service").iter().flat_map(At::items));
            list.entries().is_empty().then(|| list.carried());
        }
    }
    found
}

/// What devices of a type do that name no services (`ServiceManager.defaults`).
const USUAL: [(&str, &[&str]); 4] = [
    ("mdr", &["zebra", "OSPFv3MDR", "IPForward"]),
    ("PC", &["DefaultRoute"]),
    ("router", &["zebra", "OSPFv2", "OSPFv3", "IPForward"]),
    ("host", &["DefaultRoute", "SSH"]),
];

/// The services of a device: its own, or those of its type, which the file may say.
fn names<'a>(root: &At<'a>, at: &At<'a>) -> Vec<&'a str> {
    let own: Vec<&str> = named(at).iter().filter_map(|s| s.text_of("@name")).collect();
    if !own.is_empty() {
        return own;
    }
    let kind = at.text_of("@type").unwrap_or_default();
    let all = root.get("default_services").iter().flat_map(At::items).collect::<Vec<_>>();
    let mut all = all.iter().flat_map(|at| at.get("node")).flat_map(|at| at.items());
    match all.find(|at| at.text_of("@type") == Some(kind)) {
        Some(of_type) => {
            let services = of_type.get("service").map(|at| at.items()).unwrap_or_default();
            services.iter().filter_map(|at| at.text_of("@name")).collect()
        }
        None => {
            let usual = USUAL.iter().find(|(known, _)| *known == kind);
            usual.map(|(_, services)| services.to_vec()).unwrap_or_default()
        }
    }
}

fn services(root: &At<'_>, at: &At<'_>, node: &mut Node) {
    let names = names(root, at);
    for service in named(at) {
        let Some(name) = service.get("@name") else { continue };
        match name.text().unwrap_or_default() {
            "OSPFv2" | "OSPFv3" | "FRROSPFv2" | "FRROSPFv3" => {
                name.changed("OSPF by FRR, on all interfaces, in area 0");
            }
            "zebra" | "FRRzebra" => {
                name.changed("FRR, with configuration made from the lab file");
            }
            "IPForward" | "DefaultRoute" => name.carried(),
            "StaticRoute" => name.left_out("its routes are comments until they are edited"),
            "SSH" => name.left_out("`netloom exec` and `netloom shell` need no server"),
            _ => name.left_out("netloom has no such service; write it as a program of `run`"),
        }
    }
    if named(at).is_empty() && !names.is_empty() {
        let why = format!("without services of its own it has its type's: {}", names.join(", "));
        at.get("@type").iter().for_each(|at| at.changed(&*why));
    }
    let has = |some: &[&str]| names.iter().any(|name| some.contains(name));
    if has(&["OSPFv2", "OSPFv3", "FRROSPFv2", "FRROSPFv3"]) {
        node.keys.push(("kind", "router".into()));
        node.keys.push(("ospf", "{hello: 1, dead: 4}".into()));
    } else if has(&["zebra", "FRRzebra", "IPForward"]) {
        node.forwarding = Some("true");
    }
}

/// Default routes of devices with the service `DefaultRoute`: on the first interface, to the address behind that of each
/// prefix (`DefaultRouteService`).
pub(super) fn routes(places: &Places, root: &At<'_>, draft: &mut Draft) {
    let first = first_interfaces(root);
    for devices in root.get("devices").iter().flat_map(At::items) {
        for at in devices.get("device").iter().flat_map(At::items) {
            let id = at.text_of("@id").unwrap_or_default();
            let place = places.get(id).filter(|_| names(root, &at).contains(&"DefaultRoute"));
            let (Some(Place::Node(name)), Some((_, iface))) = (place, first.get(id)) else {
                continue;
            };
            let is_first = |end: &&End| end.at == *name && end.iface.as_ref() == Some(iface);
            let ends = draft.links.iter().flat_map(|link| &link.ends);
            let routes = ends.filter(is_first).flat_map(default_routes).collect();
            if let Some(node) = draft.node(name) {
                node.routes = routes;
            }
        }
    }
}

/// The number and the name of the first interface of each device, by the device's number.
fn first_interfaces<'a>(root: &At<'a>) -> HashMap<&'a str, (u32, String)> {
    let mut first: HashMap<&str, (u32, String)> = HashMap::new();
    for links in root.get("links").iter().flat_map(At::items) {
        for link in links.get("link").iter().flat_map(At::items) {
            for (id, iface) in ENDS.iter().filter_map(|keys| interface(&link, keys)) {
                let number = iface.text_of("@id").and_then(|text| text.parse().ok()).unwrap_or(0);
                let known = first.entry(id).or_insert((u32::MAX, String::new()));
                if number < known.0 {
                    *known = (number, interface_name(Some(&iface)));
                }
            }
        }
    }
    first
}

fn interface<'a>(link: &At<'a>, (nodes, ifaces): &super::links::Keys) -> Option<(&'a str, At<'a>)> {
    let id = nodes.iter().find_map(|key| link.text_of(key))?;
    Some((id, ifaces.iter().find_map(|key| link.get(key))?.items().into_iter().next()?))
}

fn default_routes(end: &End) -> Vec<Route> {
    let mut routes: Vec<Route> = vec![];
    for net in &end.addresses {
        let next = match net.network() {
            IpAddr::V4(first) => IpAddr::V4(Ipv4Addr::from_bits(first.to_bits().wrapping_add(1))),
            IpAddr::V6(first) => IpAddr::V6(Ipv6Addr::from_bits(first.to_bits().wrapping_add(1))),
        };
        // Its own: the kernel refuses the command.
        if net.prefix_len() < net.max_prefix_len() && next != net.addr() {
            let via = Some(next.to_string());
            routes.push(Route { to: "default".into(), via, dev: end.iface.clone() });
        }
    }
    routes
}
