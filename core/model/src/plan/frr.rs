//! FRR in a router: its daemons as programs of the node, and their configuration.
//!
//! It follows from the plan as it is when the node is made, so that a router that is recreated after a change of its
//! links is told the new ones. Every daemon is root in the node, because an ordinary user's lab may have no other user
//! to change to; FRR then wants root in its own group. All that the plan leaves open makes FRR quicker than its defaults,
//! and keeps routes while a daemon restarts (RFC 3623, RFC 4724).

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use super::hash::hash;
use super::{Interface, Plan, PlannedEnd, PlannedNode, Slot};
use crate::kinds::router::{Bgp, Ospf, Router};
use crate::lab::{FileContent, FileSpec, Program, Restart};

/// Where Debian has FRR's daemons.
pub const FOLDER: &str = "/usr/lib/frr";

/// Where a router has their configuration.
const CONFIGURATION: &str = "/etc/netloom";

/// Where a router finds what daemons of an earlier node left for it.
pub const CARRIED: &str = "/etc/netloom/carried";

/// How long FRR and its neighbours keep routes over a restart, at most.
const MOST_GRACE: u32 = 1800;

/// For how many seconds neighbours go on while a daemon of OSPF that was killed comes back, at most. Should it not find its
/// own announcements again, it has no routes for this long.
const MOST_KILLED: u32 = 30;

/// The files that say, below the name of a daemon, that it was killed; the process that announces its restart removes them.
pub const KILLED: &str = "-killed";

/// The programs and files that a router has beside those of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Daemons {
    /// In the order of starting, before the file's.
    pub programs: Vec<Program>,
    /// Configuration.
    pub files: Vec<FileSpec>,
}

impl Plan {
    /// The daemons of a router; `None` of another node, or of a router without FRR.
    pub fn daemons_of(&self, slot: Slot) -> Option<Daemons> {
        let node = self.node_at(slot)?;
        let router = node.kind.as_router().filter(|router| router.frr)?;
        let mut daemons = Daemons::default();
        let mut texts = vec![("zebra", String::new())];
        let has = |wanted: fn(&IpNet) -> bool| node.all_addresses().any(wanted);
        if let Some(ospf) = &router.ospf {
            if has(|a| a.addr().is_ipv4()) {
                texts.push(("ospfd", self.ospf_text(node, ospf, router)));
            }
            if has(|a| a.addr().is_ipv6()) {
                texts.push(("ospf6d", self.ospf6_text(node, ospf, router)));
            }
        }
        if let Some(bgp) = &router.bgp {
            texts.push(("bgpd", self.bgp_text(slot, bgp, router)));
        }
        let given = |name: &str| router.config.contains_key(name);
        // A file for a daemon replaces what the plan would say to it, as a whole.
        texts.retain(|(name, _)| !given(name));
        let own = texts.into_iter().map(|(name, text)| (name, FileContent::Text(text)));
        let by_hand = router.config.iter();
        let by_hand = by_hand.map(|(name, path)| (name.as_str(), FileContent::From(path.clone())));
        let mut all: Vec<_> = own.chain(by_hand).collect();
        // The others connect to it.
        all.sort_by_key(|(name, _)| *name != "zebra");
        for (name, content) in all {
            daemons.programs.push(program(name, router));
            daemons.files.push(FileSpec::new(format!("{CONFIGURATION}/{name}.conf"), content));
        }
        if !node.files.iter().any(|file| file.path == "/etc/group") {
            // FRR looks up the group of its sockets by name and ends when there is none.
            let text = FileContent::Text("root:x:0:\nfrrvty:x:0:root\n".to_owned());
            daemons.files.push(FileSpec::new("/etc/group", text));
        }
        Some(daemons)
    }

    /// The number of a router of OSPF, its area, and for how many seconds neighbours are asked to go on when a daemon that was
    /// killed comes back. None if its plane is not separate: it would have no routes meanwhile. Nor if files say what its daemons do.
    pub fn announced(&self, node: &PlannedNode) -> Option<(Ipv4Addr, u32, u32)> {
        let router = node.kind.as_router().filter(|router| router.separate)?;
        let ospf = router.ospf.as_ref()?;
        // An area is written as a number or like an address (RFC 2328, section 1.2).
        let dotted = || ospf.area.parse::<Ipv4Addr>().map(u32::from).ok();
        let area = ospf.area.parse().ok().or_else(dotted)?;
        Some((id_of(node), area, killed_grace(router)))
    }

    fn ospf_text(&self, node: &PlannedNode, ospf: &Ospf, router: &Router) -> String {
        let mut text = String::new();
        for interface in &node.interfaces {
            text += &format!("interface {}\n", interface.name);
            if self.is_alone(interface) {
                // Two routers need no designated router, whose election waits for the dead interval
                // (RFC 2328, section 9.4).
                text += " ip ospf network point-to-point\n";
            }
            text += &times("ip ospf", ospf);
        }
        // Opaque LSAs carry the announcement of a graceful restart (RFC 3623, appendix A).
        text += &format!("router ospf\n ospf router-id {}\n capability opaque\n", id_of(node));
        text += &graceful(router);
        text += " timers throttle spf 10 100 1000\n timers throttle lsa all 100\n";
        text + &format!(" network 0.0.0.0/0 area {}\n", ospf.area)
    }

    fn ospf6_text(&self, node: &PlannedNode, ospf: &Ospf, router: &Router) -> String {
        let mut text = String::new();
        for interface in &node.interfaces {
            let name = &interface.name;
            text += &format!("interface {name}\n ipv6 ospf6 area {}\n", ospf.area);
            if self.is_alone(interface) {
                text += " ipv6 ospf6 network point-to-point\n";
            }
            text += &times("ipv6 ospf6", ospf);
        }
        if node.loopback.iter().any(|a| a.addr().is_ipv6()) {
            text += &format!("interface lo\n ipv6 ospf6 area {}\n", ospf.area);
        }
        text += &format!("router ospf6\n ospf6 router-id {}\n", id_of(node));
        text += &graceful(router);
        text + " timers throttle spf 10 100 1000\n"
    }

    /// Whether an interface's link has one other end, and no switch.
    fn is_alone(&self, interface: &Interface) -> bool {
        let link = self.link_at(interface.link);
        link.is_some_and(|l| l.ends.iter().all(|end| matches!(end, PlannedEnd::Node { .. })))
    }

    fn bgp_text(&self, slot: Slot, bgp: &Bgp, router: &Router) -> String {
        let node = &self.nodes[slot];
        let mut text = format!(
            "router bgp {}\n bgp router-id {}\n no bgp default ipv4-unicast\n no bgp ebgp-requires-policy\n \
             bgp graceful-restart\n bgp graceful-restart preserve-fw-state\n bgp graceful-restart restart-time {}\n \
             bgp bestpath as-path multipath-relax\n timers bgp {} {}\n",
            bgp.system,
            id_of(node),
            router.grace.clamp(1, 4095),
            bgp.keepalive,
            bgp.keepalive.saturating_mul(4),
        );
        // eBGP without policies exchanges nothing by default (RFC 8212). A lab wants what it was
        // drawn for, so that is switched off above.
        let neighbours = self.bgp_neighbours(slot);
        for (address, system) in &neighbours {
            text += &format!(
                " neighbor {address} remote-as {system}\n neighbor {address} timers connect 1\n neighbor {address} \
                 advertisement-interval 0\n",
            );
        }
        // Each family over a session of its own: so next hops are of the family that they are for.
        for (family, is_of) in [("ipv4", true), ("ipv6", false)] {
            text += &format!(" address-family {family} unicast\n  redistribute connected\n");
            for (address, _) in neighbours.iter().filter(|(a, _)| a.is_ipv4() == is_of) {
                text += &format!("  neighbor {address} activate\n");
            }
            text += " exit-address-family\n";
        }
        text
    }

    /// The addresses of other routers with BGP in a prefix of this one's interfaces, with their systems.
    fn bgp_neighbours(&self, slot: Slot) -> Vec<(IpAddr, u32)> {
        let own = self.nodes[slot].interfaces.iter().flat_map(|i| &i.addresses);
        let mine: HashSet<IpNet> = own.map(IpNet::trunc).collect();
        let others = self.slots().zip(&self.nodes).filter(|(other, _)| *other != slot);
        let mut found = Vec::new();
        for (_, node) in others {
            let Some(bgp) = node.kind.as_router().and_then(|router| router.bgp.as_ref()) else {
                continue;
            };
            let theirs = node.interfaces.iter().flat_map(|i| &i.addresses);
            let shared = theirs.filter(|net| mine.contains(&net.trunc()));
            found.extend(shared.map(|net| (net.addr(), bgp.system)));
        }
        found
    }
}

/// How a daemon is started. All but the first wait for zebra's socket, since they look again only after ten seconds.
fn program(name: &str, router: &Router) -> Program {
    let path = format!("{FOLDER}/{name}");
    let file = format!("{CONFIGURATION}/{name}.conf");
    let mut words = vec![path, "-u".into(), "root".into(), "-g".into(), "root".into()];
    words.extend(["-P".into(), "0".into(), "-f".into(), file]);
    if name == "zebra" {
        // Routes stay when it ends, and for this long when it comes back.
        words.extend(["-r".into(), "-K".into(), router.grace.clamp(1, 3600).to_string()]);
        return Program { restart: Restart::Always, ..Program::once(words) };
    }
    let wait = "until [ -S /run/frr/zserv.api ]; do sleep 0.02; done";
    let find = format!("mv {CARRIED}/{name}-* /run/frr/ 2>/dev/null");
    let announced = router.separate && router.ospf.is_some() && name.starts_with("ospf");
    let announced = announced && !router.config.contains_key(name);
    let again = if announced { again_after_a_kill(name, router) } else { String::new() };
    let start = format!("{wait}; {find}; {again}exec {}", words.join(" "));
    let command = vec!["/bin/sh".into(), "-c".into(), start];
    Program { restart: Restart::Always, ..Program::once(command) }
}

fn killed_grace(router: &Router) -> u32 {
    router.grace.clamp(1, MOST_KILLED)
}

/// What a daemon of OSPF that was killed does before it starts again: it has its restart announced, and is told that it
/// restarts, so that it goes on with the adjacencies that its neighbours keep. Unless nobody announces it.
fn again_after_a_kill(name: &str, router: &Router) -> String {
    let killed = format!("/run/frr/{name}{KILLED}");
    let mark = format!("case \"$NETLOOM_ENDED\" in signal*) : > {killed};; esac");
    let turn = format!("while [ -e {killed} ] && [ $n -lt 150 ]; do sleep 0.02; n=$((n+1)); done");
    let until = format!("$(($(date +%s)+{}))", killed_grace(router));
    let state = format!("'{{\"instances\":{{\"default\":{{\"timestamp\":%d}}}}}}' {until}");
    let told = format!("printf {state} > /run/frr/{name}-gr.json");
    format!("{mark}; if [ -e {killed} ]; then n=0; {turn}; rm {killed} 2>/dev/null || {told}; fi; ")
}

fn times(prefix: &str, ospf: &Ospf) -> String {
    let (hello, dead) = (ospf.hello, ospf.dead);
    format!(
        " {prefix} hello-interval {hello}\n {prefix} dead-interval {dead}\n {prefix} retransmit-interval {hello}\n"
    )
}

/// Neighbours keep their routes while this one restarts, and it keeps its own while they do.
fn graceful(router: &Router) -> String {
    let grace = router.grace.clamp(1, MOST_GRACE);
    format!(" graceful-restart grace-period {grace}\n graceful-restart helper enable\n")
}

/// A router's number in routing protocols: its first loopback address of IPv4, else its first of an interface, else one
/// of its name.
fn id_of(node: &PlannedNode) -> Ipv4Addr {
    let made = || {
        // The first byte is from 1 to 223: like a unicast address, and never 0.0.0.0 (RFC 6286).
        let [.., a, b, c, d] = hash(&["router", &node.name]).to_be_bytes();
        Ipv4Addr::new(a % 223 + 1, b, c, d)
    };
    let of_loopback = node.loopback.iter().find_map(|net| match net.addr() {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    of_loopback.or_else(|| node.ipv4()).unwrap_or_else(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        crate::plan::plan(&crate::parse("f", text.as_bytes(), "f").unwrap()).unwrap()
    }

    fn text<'d>(daemons: &'d Daemons, name: &str) -> &'d str {
        let path = format!("/etc/netloom/{name}.conf");
        let file = daemons.files.iter().find(|file| file.path == path).unwrap();
        match &file.content {
            FileContent::Text(text) => text,
            FileContent::From(path) => path.to_str().unwrap(),
        }
    }

    #[test]
    fn ospf_runs_on_all_interfaces_of_both_families() {
        let plan = plan(
            "nodes: {r1: {kind: router, ospf: {area: 7, hello: 2, dead: 9}}, r2: {kind: router, ospf: true}}\n\
             switches: {s: {}}\nlinks: [[r1, r2], [r1, s]]",
        );
        let daemons = plan.daemons_of(plan.node("r1").unwrap()).unwrap();
        let names: Vec<&str> =
            daemons.files.iter().filter_map(|f| f.path.strip_prefix("/etc/netloom/")).collect();
        assert_eq!(names, ["zebra.conf", "ospfd.conf", "ospf6d.conf"]);
        let ospf = text(&daemons, "ospfd");
        assert!(ospf.contains("network 0.0.0.0/0 area 7"), "{ospf}");
        assert!(ospf.contains("interface eth0\n ip ospf network point-to-point\n"), "{ospf}");
        assert!(ospf.contains("interface eth1\n ip ospf hello-interval 2\n"), "{ospf}");
        assert!(ospf.contains("graceful-restart helper enable"), "{ospf}");
        assert!(daemons.programs[0].command.contains(&"/usr/lib/frr/zebra".to_owned()));
        assert!(plan.nodes[0].forwarding.any() && plan.nodes[0].privileged);
        assert!(plan.nodes[0].routes.is_empty(), "a protocol decides its routes");
    }

    #[test]
    fn neighbours_of_bgp_are_found_by_links() {
        let plan = plan(
            "nodes: {a: {kind: router, bgp: {as: 1}}, b: {kind: router, bgp: {as: 2}}, c: {kind: router, bgp: \
             {as: 3}}}\nlinks: [[a, b], [b, c]]",
        );
        let [a, b] = ["a", "b"].map(|name| plan.daemons_of(plan.node(name).unwrap()).unwrap());
        let remote = |of: &Daemons, system| {
            text(of, "bgpd").matches(&format!("remote-as {system}\n")).count()
        };
        assert_eq!([1, 2, 3].map(|system| remote(&b, system)), [2, 0, 2]);
        assert_eq!([1, 2, 3].map(|system| remote(&a, system)), [0, 2, 0]);
    }

    #[test]
    fn a_file_by_hand_replaces_what_would_be_said() {
        let plan = plan(
            "nodes: {a: {kind: router, ospf: true, config: {ospfd: o.conf, ripd: r.conf}}}\n\
             links: [[a, internet]]",
        );
        let daemons = plan.daemons_of(plan.node("a").unwrap()).unwrap();
        assert_eq!(text(&daemons, "ospfd"), "o.conf");
        assert_eq!(text(&daemons, "ripd"), "r.conf");
        assert!(text(&daemons, "ospf6d").contains("router ospf6"));
    }

    #[test]
    fn a_router_without_frr_has_the_plans_routes() {
        let plan = plan(
            "nodes: {a: {kind: router, daemon: none}, b: {kind: router, daemon: none}, h: {}}\n\
             links: [[a, b], [b, h]]",
        );
        assert!(plan.daemons_of(plan.node("a").unwrap()).is_none());
        assert!(!plan.nodes[0].routes.is_empty() && !plan.nodes[0].privileged);
    }
}
