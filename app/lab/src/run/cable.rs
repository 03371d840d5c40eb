//! Sets links down and up again, as if their cable were pulled and plugged in.
//!
//! Both ends lose their carrier and keep everything else: at a switch its port is set down, a plug is ended, and
//! of a link with a built-in wire the inner ends are set down, where no node can reach them. A link between two
//! nodes without a wire is one pair of interfaces, which loses its carrier only if one of the two is set down:
//! the second, whose configuration is restored later.
//!
//! The lab's state records which links are down; they stay down when the lab process is killed.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netloom_model::plan::PlannedLink;
use netloom_model::plan::Slot;
use netloom_model::plan::{LinkId, LinkSlot, NodeId};
use netloom_netlink::{Address, Batch, Carried, Change, Socket};

use crate::build::configure;
use crate::build::keeper::{Gone, Keeper};
use crate::run::running::{Running, Work};
use crate::stage::absent::{Cut, cut_of, is_away, is_cut_here};
use crate::stage::attach::{self, AttachPoint};
use crate::stage::inits::Inits;
use crate::stage::spaces;
use crate::store::state::State;
use crate::{Error, Result};

/// Time limit for the kernel's worker to begin with an address.
const SETTLING: Duration = Duration::from_secs(2);

impl Running {
    /// Sets a link down or up.
    pub(crate) fn set_up(&self, work: &mut Work, at: LinkSlot, up: bool) -> Result<()> {
        let id = self.state().plan.links[at].id;
        let was_down = self.state().down.contains(&id);
        self.note_down(work, id, !up)?;
        let done = if up { self.join(&work.inits, at) } else { self.cut(&work.inits, at) };
        if done.is_err() {
            self.note_down(work, id, was_down)?;
        }
        done
    }

    fn note_down(&self, work: &mut Work, id: LinkId, down: bool) -> Result<()> {
        self.change(work, |state| {
            if down {
                state.down.insert(id)
            } else {
                state.down.remove(&id)
            };
            Ok(())
        })
    }

    /// Sets down those of these newly made links that shall be down.
    pub(crate) fn cut_again(&self, inits: &Inits, links: &[LinkSlot]) -> Result<()> {
        let state = self.state();
        let down =
            |at: &&LinkSlot| state.plan.link_at(**at).is_some_and(|l| state.down.contains(&l.id));
        links.iter().filter(down).try_for_each(|at| self.cut(inits, *at))
    }

    fn cut(&self, inits: &Inits, at: LinkSlot) -> Result<()> {
        let state = self.state();
        let link = &state.plan.links[at];
        Keeper::forget(&self.kept.keepers.switches, &state, Gone { nodes: &[], links: &[link] });
        match cut_of(&state, link) {
            Cut::Plugs => Ok(()),
            Cut::Core(ports) => self.set_ports(inits, link, &ports, false),
            Cut::Node(node, interface) => {
                let point = place(&state, node, interface);
                let object = format!("link {:?}", link.name);
                let carried = attach::run_in(inits, point.space, &object, || {
                    set_node_down(&object, point.index)
                })?;
                if let Some(carried) = carried {
                    self.kept.luggage.put(link.id, carried);
                }
                Ok(())
            }
        }
    }

    fn join(&self, inits: &Inits, at: LinkSlot) -> Result<()> {
        let state = self.state();
        let link = &state.plan.links[at];
        match cut_of(&state, link) {
            Cut::Plugs => {}
            Cut::Core(mut ports) => {
                let held = self.kept.keepers.far_links.held_down(&state, link);
                ports.retain(|port| Some(*port) != held);
                self.set_ports(inits, link, &ports, true)?;
            }
            Cut::Node(node, interface) => {
                let carried = self.kept.luggage.take(link.id);
                restore(inits, &state, (node, interface), carried.unwrap_or_default())?;
            }
        }
        self.kept.keepers.switches.fit_links(&self.context(&state, inits), &[at])?;
        self.kept.wake();
        Ok(())
    }

    /// Sets ports in the core namespace down or up.
    fn set_ports(&self, inits: &Inits, link: &PlannedLink, ports: &[u32], up: bool) -> Result<()> {
        let object = format!("link {:?}", link.name);
        attach::run_in(inits, NodeId::CORE, &object, || {
            let mut batch = Batch::new();
            for index in ports {
                let change = Change::of(*index);
                batch.push(object.as_str(), &if up { change.up() } else { change.down() });
            }
            spaces::run(&mut open(&object)?, &mut batch, &object, "set its ports")
        })
    }
}

/// The current place of an interface of a node.
fn place(state: &State, node: Slot, interface: usize) -> AttachPoint {
    attach::at_interface(state, node, interface, netloom_ebpf::Direction::Ingress)
}

fn open(object: &str) -> Result<Socket> {
    Socket::open().map_err(Error::of(object, "open a netlink socket"))
}

/// Sets an interface of the calling thread's namespace down, keeping its addresses; returns what it loses besides.
/// `None` if it is down already.
fn set_node_down(object: &str, index: u32) -> Result<Option<Carried>> {
    let mut socket = open(object)?;
    let links = socket.links().map_err(Error::of(object, "look up"))?;
    let Some(found) = links.iter().find(|l| l.index == index).filter(|l| l.up) else {
        return Ok(None);
    };
    settle_addresses(index);
    let carried = socket.carried(index).map_err(Error::of(object, "read what it carries"))?;
    // The kernel would remove IPv6 addresses. It looks when the interface goes down, and never again.
    let keep = format!("/proc/sys/net/ipv6/conf/{}/keep_addr_on_down", found.name);
    let set = |value: &str| std::fs::write(&keep, value).map_err(Error::at(&keep, "set sysctl"));
    // A kernel without IPv6 has no such file.
    let before = std::fs::read_to_string(&keep).ok();
    if before.is_some() {
        set("1")?;
    }
    let mut batch = Batch::new();
    batch.push(object, &Change::of(index).down());
    let done = spaces::run(&mut socket, &mut batch, object, "set down");
    if let Some(before) = before {
        set(before.trim())?;
    }
    done.map(|()| Some(carried))
}

/// Waits until new IPv6 addresses have their local routes, which a worker of the kernel makes. An interface that is
/// set down before that and keeps its addresses never gets those routes and does not answer
/// (addrconf_dad_work in net/ipv6/addrconf.c).
fn settle_addresses(index: u32) {
    let until = Instant::now() + SETTLING;
    while has_unsettled(index) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether an interface of the calling thread's namespace has addresses without duplicate address detection
/// (IFA_F_NODAD) that still lack their local routes.
fn has_unsettled(index: u32) -> bool {
    const NODAD: u32 = 0x02;
    // A kernel without IPv6 has no such files.
    let read = |file| std::fs::read_to_string(format!("/proc/thread-self/net/{file}"));
    let (Ok(addresses), Ok(routes)) = (read("if_inet6"), read("ipv6_route")) else { return false };
    let hex = |word: Option<&str>| word.and_then(|word| u32::from_str_radix(word, 16).ok());
    let own = addresses.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (address, link, flags) = (words.next()?, hex(words.next())?, hex(words.nth(2))?);
        (link == index && flags & NODAD != 0).then_some(address)
    });
    let is_local = |address: &str, line: &str| {
        let mut words = line.split_whitespace();
        words.next() == Some(address) && words.next() == Some("80")
    };
    own.into_iter().any(|address| !routes.lines().any(|line| is_local(address, line)))
}

/// Whether a route or one of its next hops uses an interface.
fn leaves_by(route: &netloom_model::plan::Route, interface: usize) -> bool {
    route.interface == interface || route.also.iter().any(|hop| hop.interface == interface)
}

/// Sets a node's interface up and restores its planned and its saved configuration.
fn restore(
    inits: &Inits,
    state: &State,
    (node, interface): (Slot, usize),
    carried: Carried,
) -> Result<()> {
    let planned = &state.plan.nodes[node];
    let own = &planned.interfaces[interface];
    let object: Arc<str> = format!("interface \"{}:{}\"", planned.name, own.name).into();
    let point = place(state, node, interface);
    // A moved interface keeps the configuration that it brought along.
    let home = point.space == planned.id;
    attach::run_in(inits, point.space, &object, || {
        let mut socket = open(&object)?;
        let mut batch = Batch::new();
        batch.push(Arc::clone(&object), &Change::of(point.index).up());
        if home {
            for address in &own.addresses {
                let address = Address { replace: true, ..Address::new(point.index, *address) };
                batch.push(Arc::clone(&object), &address);
            }
            let there = |at: usize| !is_away(state, node, at) && !is_cut_here(state, node, at);
            for route in planned.routes.iter().filter(|route| leaves_by(route, interface)) {
                if let Some(way) = configure::InstalledRoute::of(planned, route, there) {
                    way.push(&mut batch, &object, true);
                }
            }
        }
        carried.push(&mut batch, Arc::clone(&object), point.index);
        spaces::run(&mut socket, &mut batch, &object, "restore")
    })?;
    let space = inits.get(&point.space).filter(|init| home && init.lives());
    let Some(init) = space else { return Ok(()) };
    let space = init.network(&planned.name)?;
    configure::give_neighbours(&state.plan, space.as_fd(), node, &[own.link])
}
