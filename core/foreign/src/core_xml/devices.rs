//! Devices of CORE: hosts and routers with their services.

use ipnet::IpNet;

use crate::Job;
use crate::at::At;
use crate::core_xml::{Place, Places, name, picture};
use crate::draft::{Draft, Node, Route};

/// Reads a device.
pub(super) fn read(job: &Job<'_>, at: &At<'_>, places: &mut Places, draft: &mut Draft) {
    let id = at.text_of("@id").unwrap_or_default().to_owned();
    let name = name(at, draft);
    let mut node = Node::named(&name);
    picture(at);
    at.get("@id").iter().for_each(At::carried);
    if let Some(kind) = at.get("@type") {
        match kind.text().unwrap_or_default() {
            "router" | "mdr" | "prouter" | "PC" | "host" | "" => {
                kind.changed("what a device does is what its services say");
            }
            _ => kind.left_out("no such device in netloom"),
        }
    }
    image(job, at, &mut node);
    services(at, &mut node);
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

fn services(at: &At<'_>, node: &mut Node) {
    let mut ospf = false;
    let mut router = false;
    for service in named(at) {
        let Some(name) = service.get("@name") else { continue };
        match name.text().unwrap_or_default() {
            "OSPFv2" | "OSPFv3" | "FRROSPFv2" | "FRROSPFv3" => {
                ospf = true;
                name.changed("OSPF by FRR, on all interfaces, in area 0");
            }
            "zebra" | "FRRzebra" => {
                router = true;
                name.changed("FRR, with configuration made from the lab file");
            }
            "IPForward" => {
                router = true;
                name.carried();
            }
            "DefaultRoute" => name.carried(),
            "StaticRoute" => name.left_out("its routes are comments until they are edited"),
            "SSH" => name.left_out("`netloom exec` and `netloom shell` need no server"),
            _ => name.left_out("netloom has no such service; write it as a program of `run`"),
        }
    }
    if ospf {
        node.keys.push(("kind", "router".into()));
        node.keys.push(("ospf", "{hello: 1, dead: 4}".into()));
    } else if router {
        node.forwarding = Some("true");
    }
}

/// Default routes of devices with the service `DefaultRoute`: to the first address of each prefix that they are in.
pub(super) fn routes(places: &Places, root: &At<'_>, draft: &mut Draft) {
    for devices in root.get("devices").iter().flat_map(At::items) {
        for at in devices.get("device").iter().flat_map(At::items) {
            let is_default = |s: &At<'_>| s.text_of("@name") == Some("DefaultRoute");
            let place = places.get(at.text_of("@id").unwrap_or_default());
            let Some(Place::Node(name)) = place.filter(|_| named(&at).iter().any(is_default))
            else {
                continue;
            };
            let routes = default_routes(name, draft);
            if let Some(node) = draft.node(name) {
                node.routes = routes;
            }
        }
    }
}

fn default_routes(name: &str, draft: &Draft) -> Vec<Route> {
    let ends = draft.links.iter().flat_map(|link| &link.ends).filter(|end| end.at == name);
    let mut seen = [false; 2];
    let mut routes = vec![];
    for end in ends {
        for net in &end.addresses {
            let first = match net.trunc() {
                IpNet::V4(net) => net.hosts().next().map(std::net::IpAddr::V4),
                IpNet::V6(net) => {
                    // `hosts` begins with the network's own address, which is
                    // the anycast address of its routers (RFC 4291, 2.6.1).
                    net.hosts().find(|a| *a != net.network()).map(std::net::IpAddr::V6)
                }
            };
            let family = usize::from(net.addr().is_ipv6());
            let Some(first) = first.filter(|first| *first != net.addr() && !seen[family]) else {
                continue;
            };
            seen[family] = true;
            routes.push(Route {
                to: "default".into(),
                via: Some(first.to_string()),
                dev: end.iface.clone(),
            });
        }
    }
    routes
}
