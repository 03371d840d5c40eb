//! Ports of a wire: a hidden tap to which frames are redirected, or the inner ends of a link with a
//! built-in wire.

use std::os::fd::OwnedFd;

use netloom_model::plan::NodeId;
use netloom_model::plan::PlannedLink;
use netloom_port::PacketPort;
use netloom_wire::control::PortKind;

use crate::build::keeper::Context;
use crate::stage::attach::{self, AttachPoint};
use crate::stage::hidden_tap;
use crate::{Error, Result};

/// Makes the hidden tap of a direction, in the calling lab's namespace of the point.
pub(super) fn make_tap(
    context: &Context<'_>,
    link: &PlannedLink,
    from: usize,
    point: AttachPoint,
    object: &str,
) -> Result<OwnedFd> {
    let (name, index) = (link.hidden_name(from), link.hidden_index(from));
    attach::run_in(context.inits, point.space, object, || hidden_tap::make(&name, index, object))
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
