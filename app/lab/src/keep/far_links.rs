//! The continuation of links to other hosts. In the core namespace such a link ends at an interface that leads nowhere; each
//! direction is redirected between that and a VXLAN device to the other host, so that nodes see the MTU of the link and
//! not that of the network between the hosts, and frames stay as large as the kernel makes them.
//!
//! The devices are in the core namespace and go with it; their sockets are in the namespace of the lab process, which has
//! the network between the hosts. Until all hosts have made their parts, the links have no carrier.

use std::os::fd::{AsFd, BorrowedFd};

use netloom_model::plan::{LinkSlot, NodeId, PlannedLink};
use netloom_netlink::{Batch, Change, DeleteLink, IngressDiscipline, RedirectAll, VxlanSpec};

use crate::build::keeper::{Context, Fresh, Keeper};
use crate::stage::attach;
use crate::stage::inits::Inits;
use crate::stage::spaces::{inside, open, run};
use crate::store::across::{Across, Far};
use crate::store::state::State;
use crate::{Error, Result};

/// Where errors are.
const CORE: &str = "core namespace";

/// Continues links to other hosts.
#[derive(Default)]
pub(crate) struct FarLinks;

/// The links of a state that lead to other hosts, and where.
fn all(state: &State) -> impl Iterator<Item = (LinkSlot, &PlannedLink, &Far)> {
    let far = state.across.iter().flat_map(|across| &across.far);
    far.filter_map(|far| {
        let mut links = state.plan.link_slots().zip(&state.plan.links);
        let (at, link) = links.find(|(_, link)| link.id == far.link)?;
        Some((at, link, far))
    })
}

impl Keeper for FarLinks {
    fn fit(&self, context: &Context<'_>, fresh: Fresh<'_>) -> Result<()> {
        let Some(across) = &context.state.across else { return Ok(()) };
        let new: Vec<_> =
            all(context.state).filter(|(at, _, _)| fresh.links.contains(at)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let Some(core) = attach::open(context.inits, NodeId::CORE)? else {
            return Err(Error::Invalid {
                object: CORE.into(),
                reason: "its init has ended".into(),
            });
        };
        // Those of links that are recreated.
        inside(core.as_fd(), CORE, |socket| {
            let mut batch = Batch::new();
            for (_, link, far) in &new {
                batch.push_tolerant(object(link), &DeleteLink::new(link.far_index(far.side)));
            }
            run(socket, &mut batch, CORE, "remove links to other hosts")
        })?;
        make_devices(across, &new, core.as_fd())?;
        let hold = !context.folder.is_up();
        inside(core.as_fd(), CORE, |socket| {
            let mut batch = Batch::new();
            for (_, link, far) in &new {
                let (near, device) = (link.port_index(far.side), link.far_index(far.side));
                for (from, to) in [(near, device), (device, near)] {
                    batch.push_tolerant(object(link), &IngressDiscipline(from));
                    batch.push(object(link), &RedirectAll { from, to });
                }
                if hold {
                    batch.push(object(link), &Change::of(near).down());
                }
            }
            run(socket, &mut batch, CORE, "continue links to other hosts")
        })
    }
}

/// Makes the devices from this thread's namespace, where their sockets stay.
fn make_devices(
    across: &Across,
    new: &[(LinkSlot, &PlannedLink, &Far)],
    core: BorrowedFd<'_>,
) -> Result<()> {
    let mut batch = Batch::new();
    for (_, link, far) in new {
        let spec = VxlanSpec {
            name: &link.far_name(far.side),
            netns: core,
            index: link.far_index(far.side),
            mtu: link.mtu,
            number: far.number,
            local: across.underlay,
            remote: far.address,
            port: across.port,
        };
        batch.push(format!("{} to host {:?}", object(link), far.peer), &spec);
    }
    run(&mut open("links to other hosts")?, &mut batch, "links to other hosts", "make")
}

impl FarLinks {
    /// Gives links to other hosts their carrier, now that all hosts have made their parts.
    pub(crate) fn go(&self, state: &State, inits: &Inits) -> Result<()> {
        let raised: Vec<_> =
            all(state).filter(|(_, link, _)| !state.down.contains(&link.id)).collect();
        if raised.is_empty() {
            return Ok(());
        }
        attach::run_in(inits, NodeId::CORE, CORE, || {
            let mut batch = Batch::new();
            for (_, link, far) in &raised {
                batch.push(object(link), &Change::of(link.port_index(far.side)).up());
            }
            run(&mut open(CORE)?, &mut batch, CORE, "set links to other hosts up")
        })
    }
}

fn object(link: &PlannedLink) -> String {
    format!("link {:?}", link.name)
}
