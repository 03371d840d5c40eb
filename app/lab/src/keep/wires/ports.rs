//! Ports of a wire: a hidden tap to which frames are redirected, or the inner ends of a link with a
//! built-in wire.

use std::os::fd::OwnedFd;

use netloom_model::plan::NodeId;
use netloom_model::plan::PlannedLink;
use netloom_netlink::{Batch, Change, Socket};
use netloom_port::{PacketPort, Tap, TapOptions};
use netloom_wire::control::PortKind;

use crate::build::keeper::Context;
use crate::stage::attach::{self, AttachPoint};
use crate::{Error, Result};

/// A tap accepts super-frames whatever the link's MTU: the largest MTU that the kernel permits.
const TAP_MTU: u32 = 65_521;

/// Frames that a tap holds until the wires' process takes them. The kernel's 500 are 25 ms at 20,000 frames a second: a
/// busy machine lets a process wait for longer, and what a full tap drops is in no ledger.
const TAP_QUEUE: u32 = 10_000;

/// Makes the hidden tap of a direction, in the calling lab's namespace of the point.
pub(super) fn make_tap(
    context: &Context<'_>,
    link: &PlannedLink,
    from: usize,
    point: AttachPoint,
    object: &str,
) -> Result<OwnedFd> {
    let (name, index) = (link.hidden_name(from), link.hidden_index(from));
    attach::run_in(context.inits, point.space, object, || {
        let options = TapOptions { index: Some(index), ..TapOptions::default() };
        let tap = Tap::create(&name, options).map_err(Error::of(object, "make its tap"))?;
        // The node must not send frames of its own over it.
        let quiet = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
        if std::path::Path::new(&quiet).exists() {
            std::fs::write(&quiet, "1").map_err(Error::at(&quiet, "set sysctl"))?;
        }
        let mut batch = Batch::new();
        batch.push(object, &Change::of(index).mtu(TAP_MTU).queue(TAP_QUEUE).up());
        let mut socket = Socket::open().map_err(Error::of(object, "open a netlink socket"))?;
        socket.run(&mut batch).map_err(Error::of(object, "raise its tap"))?;
        Ok(tap.into_fd())
    })
}

/// Opens the inner ends of a link with a built-in wire: the one that frames of this direction come
/// from, and the one they go to.
pub(super) fn inner_ports(
    context: &Context<'_>,
    link: &PlannedLink,
    from: usize,
    object: &str,
) -> Result<Vec<(PortKind, OwnedFd)>> {
    attach::run_in(context.inits, NodeId::CORE, object, || {
        let open = |side: usize| -> Result<_> {
            let port = PacketPort::open(link.hidden_index(side));
            let port = port.map_err(Error::of(object, "open its inner end"))?;
            Ok((PortKind::Packet, port.into_fd()))
        };
        Ok(vec![open(from)?, open(1 - from)?])
    })
}
