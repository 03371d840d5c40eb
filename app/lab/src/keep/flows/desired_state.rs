//! Configuration of an OpenFlow switch's process, from the plan: its start, ports and controllers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use netloom_flow::application::{self, Application, Fail, Target, Tls, Version};
use netloom_flow::control::PortSpec;
use netloom_flow::control::requests::ControllerShown;
use netloom_model::Plan;
use netloom_model::kinds::openflow::{
    Controller, FailMode, OpenflowSwitch, OpenflowVersion, TlsFiles,
};
use netloom_model::plan::{
    Interface, PlannedEnd, PlannedLink, PlannedNode, PlannedSwitch, Slot, SwitchSlot,
};

use crate::store::state::Folder;

/// The name of the network namespace that a switch's process is started in: the host's.
pub const OUTSIDE: &str = "host";

/// The name of a node's network namespace.
pub(super) fn space_of(node: &str) -> String {
    format!("node:{node}")
}

/// How many small frames may wait for the tables of a router's plane: at 100,000 a second, 80 ms.
const WAITING: u32 = 8192;

/// Entries that a table of a plane may have: for all routes and neighbours of its kernel.
const ROUTES: u32 = 1_000_000;

/// How a switch begins.
pub(super) fn application(plan: &Plan, folder: &Folder, wanted: &Wanted<'_>) -> Application {
    match wanted {
        Wanted::Switch(_, switch, options) => of_switch(plan, folder, switch, options),
        Wanted::Plane(_, node) => {
            let name = wanted.name();
            let number = u64::try_from(node.id.get()).unwrap_or(0);
            Application {
                versions: vec![Version::V13],
                tables: 4,
                max_entries: ROUTES,
                waiting: WAITING,
                // Without its controller a plane goes on forwarding by the last routes.
                fail: Fail::Secure,
                openflow: folder.flow_socket(&name),
                ..Application::new(&name, number + 1, &folder.flow_folder(&name))
            }
        }
    }
}

fn of_switch(
    plan: &Plan,
    folder: &Folder,
    switch: &PlannedSwitch,
    options: &OpenflowSwitch,
) -> Application {
    let datapath = options.datapath.map_or(1, |id| id.get());
    let own = folder.flow_folder(&switch.name);
    Application {
        versions: options.versions.iter().map(|version| version_of(*version)).collect(),
        tables: options.tables,
        max_entries: options.max_entries,
        fail: match options.fail {
            FailMode::Secure => Fail::Secure,
            FailMode::Standalone => Fail::Standalone,
        },
        openflow: folder.flow_socket(&switch.name),
        controllers: controllers(plan, folder, switch, options),
        auxiliary: options.auxiliary,
        tls: options.tls.as_ref().map(tls),
        ..Application::new(&switch.name, datapath, &own)
    }
}

/// The controllers of a switch: one with slices has the slicer alone.
fn controllers(
    plan: &Plan,
    folder: &Folder,
    switch: &PlannedSwitch,
    options: &OpenflowSwitch,
) -> Vec<application::Controller> {
    // Controllers connect to the slicer, each to its slice's switch.
    if plan.is_sliced(&switch.name) {
        let target = Target::Unix(folder.slicer_socket());
        return vec![application::Controller { target, namespace: None }];
    }
    options.controllers.iter().map(controller).collect()
}

/// What a switch needs for TLS.
pub(crate) fn tls(files: &TlsFiles) -> Tls {
    let TlsFiles { authorities, certificate, key, name } = files.clone();
    Tls { authorities, certificate, key, name }
}

fn version_of(version: OpenflowVersion) -> Version {
    match version {
        OpenflowVersion::V10 => Version::V10,
        OpenflowVersion::V13 => Version::V13,
    }
}

/// A controller with the namespace that it is reached from.
fn controller(controller: &Controller) -> application::Controller {
    let here = |port: u16| Target::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    let host = || Some(OUTSIDE.to_owned());
    let (target, namespace) = match controller {
        Controller::Tcp(address, port) => (Target::Tcp(SocketAddr::new(*address, *port)), host()),
        Controller::Tls(address, port) => (Target::Tls(SocketAddr::new(*address, *port)), host()),
        // Paths are the same in every network namespace.
        Controller::Unix(path) => (Target::Unix(path.clone()), None),
        Controller::Node(node, port) => (here(*port), Some(space_of(node))),
        Controller::Host(port) => (here(*port), host()),
    };
    application::Controller { target, namespace }
}

/// Whether a process speaks of this controller.
pub(super) fn is_of(of: &Controller, shown: &ControllerShown) -> bool {
    let told = controller(of);
    told.target.to_string() == shown.target && told.namespace == shown.namespace
}

/// The nodes with controllers of a switch.
pub(super) fn nodes_of(options: &OpenflowSwitch) -> impl Iterator<Item = &str> {
    // Several controllers may be in one node, whose namespace is given once.
    let mut seen = std::collections::BTreeSet::new();
    options.controllers.iter().filter_map(Controller::node).filter(move |node| seen.insert(*node))
}

/// A switch that a process runs: one of the file, or the plane of a router.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'p> {
    Switch(SwitchSlot, &'p PlannedSwitch, &'p OpenflowSwitch),
    Plane(Slot, &'p PlannedNode),
}

impl Wanted<'_> {
    /// The name by which its process is known. A plane's name is not the name of a switch.
    pub(super) fn name(&self) -> String {
        match self {
            Wanted::Switch(_, switch, _) => switch.name.clone(),
            Wanted::Plane(_, node) => node.plane_name(),
        }
    }

    /// Its ports at the ends of these links.
    pub(super) fn ports<'p>(
        &self,
        plan: &'p Plan,
        links: impl Iterator<Item = &'p PlannedLink>,
    ) -> Vec<PortSpec> {
        match self {
            Wanted::Switch(slot, ..) => ports(plan, *slot, links).collect(),
            Wanted::Plane(slot, _) => {
                ports_of_plane(plan, *slot, links).flat_map(|(_, _, ports)| ports).collect()
            }
        }
    }
}

/// All OpenFlow switches of a plan.
pub(super) fn all(plan: &Plan) -> impl Iterator<Item = Wanted<'_>> {
    let switches = plan.switch_slots().zip(&plan.switches).filter_map(|(slot, switch)| {
        Some(Wanted::Switch(slot, switch, switch.kind.as_openflow()?))
    });
    let nodes = plan.slots().zip(&plan.nodes);
    let planes = nodes.filter(|(_, node)| node.kind.has_separate_plane());
    switches.chain(planes.map(|(slot, node)| Wanted::Plane(slot, node)))
}

/// The ports of an interface's plane: where its link is, and where the router is.
pub(crate) fn plane_ports(interface: &Interface) -> [u32; 2] {
    [interface.index * 2, interface.index * 2 + 1]
}

/// The ports of a plane at the ends of these links: where links are, and where the router is.
pub(super) fn ports_of_plane<'p>(
    plan: &'p Plan,
    of: Slot,
    links: impl Iterator<Item = &'p PlannedLink>,
) -> impl Iterator<Item = (&'p PlannedLink, usize, [PortSpec; 2])> {
    let ends = links.flat_map(|link| [(link, 0), (link, 1)]);
    ends.filter_map(move |(link, side)| match &link.ends[side] {
        PlannedEnd::Node { node, interface } if *node == of => {
            let interface = plan.nodes[of].interfaces.get(*interface)?;
            let [outside, inside] = plane_ports(interface);
            let port =
                |number, interface: String, name| PortSpec { number, name, interface, mac: None };
            let name = &interface.name;
            let outside = port(outside, link.outer_name(side), name.clone());
            let inside = port(inside, link.inner_name(side), format!("{name}-in"));
            Some((link, side, [outside, inside]))
        }
        _ => None,
    })
}

/// The ports of a switch at the ends of these links.
pub(super) fn ports<'p>(
    plan: &'p Plan,
    of: SwitchSlot,
    links: impl Iterator<Item = &'p PlannedLink>,
) -> impl Iterator<Item = PortSpec> {
    let ends = links.flat_map(|link| [(link, 0), (link, 1)]);
    ends.filter_map(move |(link, side)| match &link.ends[side] {
        PlannedEnd::Port { switch, name, mac, number: Some(number), .. } if *switch == of => {
            Some(PortSpec {
                number: *number,
                name: plan.port_name(link, side),
                interface: name.clone(),
                mac: Some(*mac),
            })
        }
        _ => None,
    })
}
