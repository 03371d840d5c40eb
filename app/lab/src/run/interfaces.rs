//! The interfaces of a lab by their names, for measurements.
//!
//! Names are those of [`target`](netloom_model::lookup::target): `h1:eth0`, and `s1/h1:eth0` for the port of a bridge. An
//! interface that was moved to another node is found there.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Weak;

use netloom_ebpf::Direction;
use netloom_measure::{Error as MeasureError, Interfaces};
use netloom_model::lookup::target::{self, Point, Space};
use netloom_model::plan::NodeId;
use netloom_netlink::Socket;
use netloom_sys::namespace;

use crate::run::running::Running;
use crate::stage::attach;
use crate::store::state::State;

type Measured<T> = std::result::Result<T, MeasureError>;

/// The interfaces of a lab.
pub(crate) struct Places(pub(crate) Weak<Running>);

/// An interface as it is now.
struct Found {
    space: NodeId,
    /// Its index if known, else its name.
    interface: std::result::Result<u32, String>,
}

impl Interfaces for Places {
    fn names(&self) -> Measured<Vec<String>> {
        let Some(running) = self.0.upgrade() else { return Ok(vec![]) };
        let state = running.state();
        Ok(target::interfaces(&state.plan).into_iter().map(|point| point.name).collect())
    }

    fn visit(
        &self,
        netif: &str,
        work: &mut (dyn FnMut(u32) -> Measured<()> + Send),
    ) -> Measured<()> {
        let none = || MeasureError::NoInterface { netif: netif.to_owned() };
        let running = self.0.upgrade().ok_or_else(none)?;
        let state = running.state();
        let found = target::interface(&state.plan, netif).and_then(|p| find(&state, &p));
        let found = found.ok_or_else(none)?;
        let space = space(&running, found.space).ok_or_else(none)?;
        namespace::run_in(space.as_fd(), "netloom-point", || {
            let mut socket = Socket::open_to_ask()?;
            let link = match &found.interface {
                Ok(index) => socket.link(*index)?,
                Err(name) => socket.link(name.as_str())?,
            };
            // Closed before the work, which may last as long as a measurement.
            drop(socket);
            work(link.ok_or_else(none)?.index)
        })
    }
}

/// The place of an interface of the lab.
fn find(state: &State, point: &Point) -> Option<Found> {
    let name = match &point.space {
        Space::Host => return None,
        Space::Core => {
            return Some(Found { space: NodeId::CORE, interface: Err(point.interface.clone()) });
        }
        Space::Node(name) => name,
    };
    let slot = state.plan.node(name)?;
    let mut interfaces = state.plan.nodes[slot].interfaces.iter();
    let at = interfaces.position(|interface| interface.name == point.interface)?;
    let spot = attach::at_interface(state, slot, at, Direction::Ingress);
    Some(Found { space: spot.space, interface: Ok(spot.index) })
}

/// The network namespace of a node, or the core's; `None` if its init has ended.
fn space(running: &Running, id: NodeId) -> Option<OwnedFd> {
    attach::open(&running.work().inits, id).ok().flatten()
}
