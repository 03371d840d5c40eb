//! What plugs read and write: a tap in a node, a port in the core namespace, a card of the host, or the card of a virtual
//! machine, for which they wait at a socket in its node.

use std::os::fd::OwnedFd;

use netloom_model::plan::NodeId;
use netloom_model::plan::form::LinkForm;
use netloom_model::plan::{PlannedEnd, PlannedLink};
use netloom_netlink::{Batch, Change, Socket};
use netloom_port::{PacketPort, Tap, TapOptions};
use netloom_sys::namespace;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::build::keeper::{Context, Ground};
use crate::stage::attach;
use crate::stage::spaces::on_a_thread;
use crate::store::moved::Home;
use crate::{Error, Result};

/// Frames that a tap queues for its plug: enough for the time that a scheduler may keep the plug waiting, at rates
/// that one CPU carries.
const QUEUE: u32 = 10_000;

/// Makes the taps of links of that form, down and without addresses. They are persistent, so that a plug
/// can be restarted.
pub(super) fn make_taps(ground: &Ground<'_>) -> Result<()> {
    let plan = &ground.state.plan;
    let taps = ground.links(|form| form == LinkForm::Tap);
    if taps.is_empty() {
        return Ok(());
    }
    on_a_thread(|| {
        for link in taps.iter().map(|at| &plan.links[*at]) {
            let Some((node, interface)) = link.node_end() else { continue };
            let object = format!("link {:?}", link.name);
            let planned = &plan.nodes[node].interfaces[interface];
            namespace::enter_network(ground.spaces.open(node)?)
                .map_err(Error::of(&object, "make its tap"))?;
            open_tap(&planned.name, planned.index, &object)?;
            let mut batch = Batch::new();
            let change = Change::of(planned.index).mac(planned.mac).mtu(planned.mtu).queue(QUEUE);
            batch.push(object.as_str(), &change);
            let mut socket = Socket::open().map_err(Error::of(&object, "open a netlink socket"))?;
            socket.run(&mut batch).map_err(Error::of(&object, "set up its tap"))?;
        }
        Ok(())
    })
}

/// Makes a persistent tap, or opens an existing one.
fn open_tap(name: &str, index: u32, object: &str) -> Result<OwnedFd> {
    let options = TapOptions { index: Some(index), persistent: true, ..TapOptions::default() };
    let tap = Tap::create(name, options).map_err(Error::of(object, "open its tap"))?;
    Ok(tap.into_fd())
}

/// Opens the interface of the plug of a link's end: the kind of port, and its descriptor.
pub(super) fn open_interface(
    context: &Context<'_>,
    link: &PlannedLink,
    side: usize,
) -> Result<(&'static str, OwnedFd)> {
    let object = format!("link {:?}", link.name);
    let plan = &context.state.plan;
    if let PlannedEnd::Host { iface } = &link.ends[1 - side] {
        return open_card(iface, &object);
    }
    let form = context.state.form(link);
    if let (LinkForm::Guest, Some((node, interface))) = (form, link.node_end()) {
        let node = &plan.nodes[node];
        let name = netloom_vm::card_socket(&node.interfaces[interface].name);
        let fd = attach::run_in(context.inits, node.id, &object, || listen(&name, &object))?;
        return Ok(("guest", fd));
    }
    let is_tap = form == LinkForm::Tap;
    if let Some((node, interface)) = link.node_end().filter(|_| is_tap) {
        let own = &plan.nodes[node].interfaces[interface];
        let home = Home::Node { node: plan.nodes[node].id, index: own.index };
        // A moved interface may have another name there.
        let away = context.state.moved.iter().find(|m| m.home == home);
        let (space, name) =
            away.map_or((plan.nodes[node].id, &own.name), |moved| (moved.node, &moved.name));
        let open = || open_tap(name, own.index, &object);
        let fd = attach::run_in(context.inits, space, &object, open)?;
        return Ok(("tap", fd));
    }
    let fd = attach::run_in(context.inits, NodeId::CORE, &object, || {
        // Wires and protection are at the port's egress.
        let port = PacketPort::open_behind_egress(link.port_index(side));
        Ok(port.map_err(Error::of(&object, "open its port"))?.into_fd())
    })?;
    Ok(("packet", fd))
}

/// A socket to which the machine in this network namespace comes; nobody outside the namespace reaches its name.
fn listen(name: &str, object: &str) -> Result<OwnedFd> {
    let socket = || -> rustix::io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        net::bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        net::listen(&socket, 4)?;
        Ok(socket)
    };
    socket().map_err(Error::of(object, "listen for its machine's card"))
}

/// A socket on an interface of the host.
fn open_card(iface: &str, object: &str) -> Result<(&'static str, OwnedFd)> {
    let mut socket = Socket::open().map_err(Error::of(object, "open a netlink socket"))?;
    let index = socket.index_of(iface).map_err(Error::of(object, "find the interface"))?;
    let port = PacketPort::open(index);
    Ok(("ring", port.map_err(Error::of(object, "open the interface"))?.into_fd()))
}
