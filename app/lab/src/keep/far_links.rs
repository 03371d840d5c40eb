//! The continuation of links to other hosts. In the core namespace such a link ends at an interface that leads nowhere; each
//! direction is redirected between that and a VXLAN device to the other host, so that nodes see the MTU of the link and
//! not that of the network between the hosts, and frames stay as large as the kernel makes them. Frames of a machine that is not
//! the link's other host are redirected to a device that drops and counts them.
//!
//! The devices are in the core namespace and go with it; their sockets are in the namespace of the lab process, which has
//! the network between the hosts. Until all hosts have made their parts, the links have no carrier, nor while their other host
//! does not answer: the hosts' core namespaces ask each other by that one device, of whose number each host has only one.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use netloom_model::plan::form::PRESENCE;
use netloom_model::plan::{LinkSlot, NodeId, PRESENCE_NUMBER, PlannedLink};
use netloom_netlink::{
    Address, Batch, Change, DeleteLink, IngressDiscipline, Neighbour, RedirectAll, RedirectFrom,
    SendTo, Socket, Tagged, VxlanSpec,
};

use crate::build::keeper::{Context, Fresh, Keeper};
use crate::stage::attach;
use crate::stage::inits::Inits;
use crate::stage::spaces::{inside, open, run};
use crate::store::across::{Across, Far};
use crate::store::state::State;
use crate::view::{AcrossView, PeerView};
use crate::{Error, Result};

/// Where errors are.
const CORE: &str = "core namespace";

/// The network on which hosts ask each other: addresses of it are that of no node, since it is in the core namespace.
const PRESENCE_PREFIX: u8 = 16;

/// Name of its device; the MTU is that of every underlay.
const PRESENCE_NAME: &str = "nlk";
const PRESENCE_MTU: u32 = 1280;

/// Continues links to other hosts.
#[derive(Default)]
pub(crate) struct FarLinks {
    /// Hosts that do not answer.
    silent: Mutex<BTreeSet<String>>,
}

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
        let asks = inside(core.as_fd(), CORE, |socket| {
            let mut batch = Batch::new();
            for (_, link, far) in &new {
                batch.push_tolerant(object(link), &DeleteLink::new(link.far_index(far.side)));
            }
            run(socket, &mut batch, CORE, "remove links to other hosts")?;
            let links = socket.links().map_err(Error::of(CORE, "look up"))?;
            Ok(links.iter().any(|link| link.index == PRESENCE))
        })?;
        if !asks {
            make_presence(across, core.as_fd())?;
        }
        learn(across, core.as_fd())?;
        make_devices(across, &new, core.as_fd())?;
        let hold = !context.folder.is_up();
        inside(core.as_fd(), CORE, |socket| {
            let mut batch = Batch::new();
            for (_, link, far) in &new {
                let (near, device) = (link.port_index(far.side), link.far_index(far.side));
                for index in [near, device] {
                    batch.push_tolerant(object(link), &IngressDiscipline(index));
                }
                batch.push(object(link), &RedirectAll { from: near, to: device });
                for tagged in Tagged::ALL {
                    let (from, to, sender) = (device, near, far.address);
                    batch.push(object(link), &RedirectFrom { from, to, sender, tagged });
                }
                batch.push(object(link), &RedirectAll { from: device, to: PRESENCE });
                if hold || self.is_silent(&far.peer) {
                    batch.push(object(link), &Change::of(near).down());
                }
            }
            run(socket, &mut batch, CORE, "continue links to other hosts")
        })
    }
}

/// Makes the device by which hosts ask each other. It sends to no other machine, so that it drops what is redirected to it.
fn make_presence(across: &Across, core: BorrowedFd<'_>) -> Result<()> {
    let (own, mac) = Across::presence_of(across.place);
    let mut batch = Batch::new();
    let spec = VxlanSpec {
        name: PRESENCE_NAME,
        netns: core,
        index: PRESENCE,
        mtu: PRESENCE_MTU,
        number: PRESENCE_NUMBER,
        local: across.underlay,
        remote: None,
        mac: Some(mac),
        port: across.port,
    };
    let object = "presence of other hosts";
    batch.push(object, &spec);
    run(&mut open(object)?, &mut batch, object, "make")?;
    inside(core, CORE, |socket| {
        let own = ipnet::Ipv4Net::new_assert(own, PRESENCE_PREFIX);
        let mut batch = Batch::new();
        batch.push(object, &Address::new(PRESENCE, own.into()));
        run(socket, &mut batch, CORE, "give the host's address to")
    })
}

/// Has it know the hosts that links lead to: another file may lead to others than before.
fn learn(across: &Across, core: BorrowedFd<'_>) -> Result<()> {
    inside(core, CORE, |socket| {
        let (mut batch, object) = (Batch::new(), "presence of other hosts");
        for peer in &across.peers {
            let (address, mac) = Across::presence_of(peer.place);
            let neighbour = Neighbour { link: PRESENCE, address: address.into(), mac };
            batch.push_tolerant(object, &neighbour);
            batch.push(object, &SendTo { device: PRESENCE, mac, machine: peer.address });
        }
        run(socket, &mut batch, CORE, "learn of other hosts")
    })
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
            remote: Some(far.address),
            mac: None,
            port: across.port,
        };
        batch.push(format!("{} to host {:?}", object(link), far.peer), &spec);
    }
    run(&mut open("links to other hosts")?, &mut batch, "links to other hosts", "make")
}

impl FarLinks {
    /// Gives links to other hosts their carrier, now that all hosts have made their parts.
    pub(crate) fn go(&self, state: &State, inits: &Inits) -> Result<()> {
        let peers = state.across.iter().flat_map(|across| &across.peers);
        let there: Vec<&str> =
            peers.map(|peer| peer.name.as_str()).filter(|peer| !self.is_silent(peer)).collect();
        if there.is_empty() {
            return Ok(());
        }
        attach::run_in(inits, NodeId::CORE, CORE, || {
            let mut socket = open(CORE)?;
            there.iter().try_for_each(|peer| carry(state, peer, true, &mut socket))
        })
    }

    /// Notes whether a host answers, and gives its links a carrier or takes it from them. The socket is of the core namespace.
    pub(crate) fn note(
        &self,
        state: &State,
        peer: &str,
        answers: bool,
        socket: &mut Socket,
    ) -> Result<()> {
        {
            let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
            if answers {
                silent.remove(peer)
            } else {
                silent.insert(peer.to_owned())
            };
        }
        carry(state, peer, answers, socket)
    }

    fn is_silent(&self, peer: &str) -> bool {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner).contains(peer)
    }

    /// The interface of a link that stays down while the link's other host does not answer, if so it is.
    pub(crate) fn held_down(&self, state: &State, link: &PlannedLink) -> Option<u32> {
        let mut all = state.across.iter().flat_map(|across| &across.far);
        let far = all.find(|far| far.link == link.id)?;
        self.is_silent(&far.peer).then(|| link.port_index(far.side))
    }

    /// Removes the devices of links that go, or are recreated.
    pub(crate) fn remove(
        &self,
        state: &State,
        inits: &Inits,
        links: &[&PlannedLink],
    ) -> Result<()> {
        let gone = |far: &Far| links.iter().find(|link| link.id == far.link);
        let far = state.across.iter().flat_map(|across| &across.far);
        let far: Vec<_> = far.filter_map(|far| Some((gone(far)?, far.side))).collect();
        if far.is_empty() {
            return Ok(());
        }
        attach::run_in_living(inits, NodeId::CORE, CORE, || {
            let mut batch = Batch::new();
            for (link, side) in &far {
                batch.push_tolerant(object(link), &DeleteLink::new(link.far_index(*side)));
            }
            run(&mut open(CORE)?, &mut batch, CORE, "remove links to other hosts")
        })
        .map(drop)
    }

    /// What is known of the other hosts; `None` for a lab of one host.
    pub(crate) fn view(&self, state: &State, inits: &Inits) -> Option<AcrossView> {
        let across = state.across.as_ref()?;
        let dropped = attach::run_in_living(inits, NodeId::CORE, CORE, || {
            let links = open(CORE)?.links().map_err(Error::of(CORE, "read counters"))?;
            Ok(links.iter().find(|link| link.index == PRESENCE).map(|l| l.traffic.tx_dropped))
        });
        let peer = |name: &String| PeerView { host: name.clone(), answers: !self.is_silent(name) };
        Some(AcrossView {
            host: across.host.clone(),
            peers: across.peers.iter().map(|known| peer(&known.name)).collect(),
            // A lab without links across has neither the device nor drops.
            foreign_frames: dropped.ok().flatten().flatten().unwrap_or(0),
        })
    }
}

/// Sets the ends of links to a host up or down in the core namespace. Links that were set down stay so.
fn carry(state: &State, peer: &str, up: bool, socket: &mut Socket) -> Result<()> {
    let mut batch = Batch::new();
    for (_, link, far) in all(state).filter(|(_, _, far)| far.peer == peer) {
        if up && state.down.contains(&link.id) {
            continue;
        }
        let change = Change::of(link.port_index(far.side));
        // A link that is made again meanwhile is fitted as the host is then.
        batch.push_tolerant(object(link), &if up { change.up() } else { change.down() });
    }
    run(socket, &mut batch, CORE, "set the carrier of links to other hosts")
}

fn object(link: &PlannedLink) -> String {
    format!("link {:?}", link.name)
}
