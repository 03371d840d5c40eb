//! The guest's interfaces, addresses and routes, as planned, by netlink.

use std::net::IpAddr;

use netloom_model::plan::{self, PlannedNode};
use netloom_netlink::{Address, Batch, Change, Multipath, Route, Socket};

use super::tolerate;
use crate::{Error, Result};

/// Sets all of them. A single one that the kernel refuses is told on the console.
pub(super) fn set_up(node: &PlannedNode) -> Result<()> {
    let mut socket = Socket::open()?;
    let run = |socket: &mut Socket, mut batch: Batch| -> Result<()> {
        socket.run(&mut batch).map_err(Error::from)
    };
    let mut batch = Batch::new();
    batch.push("loopback", &Change::of("lo").up());
    run(&mut socket, batch)?;
    let mut indexes = Vec::new();
    for (number, interface) in node.interfaces.iter().enumerate() {
        let index = socket.index_of(&format!("vec{number}"))?;
        indexes.push(index);
        let object = format!("interface {:?}", interface.name);
        let mut batch = Batch::new();
        // Before it is up: older kernels do not rename an interface that is.
        batch.push(object.as_str(), &Change::rename(index, &interface.name));
        let change = Change::of(index).mac(interface.mac).mtu(interface.mtu);
        batch.push(object.as_str(), &change);
        batch.push(object.as_str(), &Change::of(index).up());
        run(&mut socket, batch)?;
        // One by one: a refused one must not take the others with it.
        for address in &interface.addresses {
            let mut batch = Batch::new();
            batch.push(format!("address {address}"), &Address::new(index, *address));
            tolerate(run(&mut socket, batch));
        }
    }
    for route in &node.routes {
        let mut batch = Batch::new();
        push_route(&mut batch, route, &indexes);
        tolerate(run(&mut socket, batch));
    }
    Ok(())
}

fn push_route(batch: &mut Batch, route: &plan::Route, indexes: &[u32]) {
    let Some(index) = indexes.get(route.interface) else { return };
    let object = format!("route to {}", route.to);
    let first = route.via.map(|via| (via, *index));
    let also = route.also.iter().filter_map(|hop| Some((hop.via, *indexes.get(hop.interface)?)));
    let hops: Vec<(IpAddr, u32)> = first.into_iter().chain(also).collect();
    if hops.len() > 1 {
        batch.push(object, &Multipath { to: route.to, hops: &hops, replace: false });
    } else {
        batch.push(object, &Route::new(route.to, route.via, *index));
    }
}
