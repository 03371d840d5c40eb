//! What the process of an OpenFlow switch is told, from the plan: how it begins, its ports, its controllers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use netloom_flow::application::{self, Application, Fail, Target, Tls, Version};
use netloom_flow::control::PortSpec;
use netloom_flow::control::requests::ControllerShown;
use netloom_model::Plan;
use netloom_model::kinds::openflow::{
    Controller, FailMode, OpenflowSwitch, OpenflowVersion, TlsFiles,
};
use netloom_model::plan::{PlannedEnd, PlannedLink, PlannedSwitch, SwitchSlot};

use crate::store::state::Folder;

/// The name of the network namespace that a switch's process is started in: the host's.
pub const OUTSIDE: &str = "host";

/// The name of a node's network namespace.
pub(super) fn space_of(node: &str) -> String {
    format!("node:{node}")
}

/// How a switch begins.
pub(super) fn application(
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
    let mut seen = std::collections::BTreeSet::new();
    options.controllers.iter().filter_map(Controller::node).filter(move |node| seen.insert(*node))
}

/// The ports of a switch at the ends of these links.
pub(super) fn ports<'p>(
    plan: &'p Plan,
    of: SwitchSlot,
    links: impl Iterator<Item = &'p PlannedLink>,
) -> impl Iterator<Item = PortSpec> {
    let ends = links.flat_map(|link| [(link, 0), (link, 1)]);
    ends.filter_map(move |(link, side)| match &link.ends[side] {
        PlannedEnd::Port { switch, name, mac, number: Some(number) } if *switch == of => {
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
