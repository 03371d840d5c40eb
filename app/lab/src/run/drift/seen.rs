//! Reads what the kernel has in the network namespace of the calling thread.

use netloom_model::plan::PlannedNode;
use netloom_netlink::{
    AddressInfo, Family, ForwardingNeighbour, LinkInfo, RouteInfo, RuleInfo, Socket,
};
use netloom_sys::sysctl::NetworkSettings;

use crate::{Error, Result};

/// The objects in a node's network.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) links: Vec<LinkInfo>,
    pub(crate) addresses: Vec<AddressInfo>,
    pub(crate) routes: Vec<RouteInfo>,
    pub(crate) rules: Vec<RuleInfo>,
    /// The sysctls of the plan that the kernel has, by path; none where they were not read.
    pub(crate) settings: Vec<(String, String)>,
    /// Where they were read.
    pub(crate) neighbours: Option<Vec<ForwardingNeighbour>>,
}

/// Reads a node; neighbours only where netloom fixes some, since the kernel walks those of all namespaces for each.
pub(in crate::run) fn node(planned: &PlannedNode, fixes: bool, object: &str) -> Result<Seen> {
    let mut socket = Socket::open_to_ask().map_err(Error::of(object, "open a netlink socket"))?;
    let links = socket.links_alone().map_err(Error::of(object, "read its interfaces"))?;
    let addresses = socket.addresses().map_err(Error::of(object, "read its addresses"))?;
    let routes = routes(&mut socket, object)?;
    let rules = rules(&mut socket, object)?;
    let neighbours = fixes.then(|| neighbours(&mut socket, object)).transpose()?;
    let settings = settings(&planned.sysctls, object)?;
    Ok(Seen { links, addresses, routes, rules, settings, neighbours })
}

fn neighbours(socket: &mut Socket, object: &str) -> Result<Vec<ForwardingNeighbour>> {
    let mut all = Vec::new();
    for family in [Family::V4, Family::V6] {
        all.extend(socket.neighbours(family).map_err(Error::of(object, "read its neighbours"))?);
    }
    Ok(all)
}

/// The routes of both families.
pub(crate) fn routes(socket: &mut Socket, object: &str) -> Result<Vec<RouteInfo>> {
    let mut routes = Vec::new();
    for family in [Family::V4, Family::V6] {
        let found = socket.routes_of_all_kinds(family);
        routes.extend(found.map_err(Error::of(object, "read its routes"))?);
    }
    Ok(routes)
}

/// The rules of both families.
pub(crate) fn rules(socket: &mut Socket, object: &str) -> Result<Vec<RuleInfo>> {
    let mut rules = Vec::new();
    for family in [Family::V4, Family::V6] {
        rules.extend(socket.rules(family).map_err(Error::of(object, "read its rules"))?);
    }
    Ok(rules)
}

/// The current values of planned sysctls.
pub(crate) fn settings(
    planned: &[(String, String)],
    object: &str,
) -> Result<Vec<(String, String)>> {
    let mut settings: Vec<(String, String)> = Vec::new();
    if planned.is_empty() {
        return Ok(settings);
    }
    let files = NetworkSettings::open().map_err(Error::at(object, "open its settings"))?;
    for (path, _) in planned {
        let path = path.strip_prefix('-').unwrap_or(path);
        if settings.iter().all(|(known, _)| known != path) {
            settings.extend(files.get(path).map(|value| (path.to_owned(), value)));
        }
    }
    Ok(settings)
}
