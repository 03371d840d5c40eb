//! Doors to the host: an interface bridged in, and the host's network by NAT.
//!
//! Every change of the host is recorded before it is made ([`HostChange`]) and undone in
//! reverse order on down, also by another process after a crash. Names on the host begin with [`MARK`] and
//! a hash of the lab's folder, so that labs never collide; settings that labs share are counted
//! ([`Ledger`]). Labs of ordinary users have doors of the second kind alone, which lead through a network namespace of
//! the lab's own ([`outside`]) and change nothing of the host.

mod ledger;
mod outside;

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use ledger::Ledger;
use netloom_model::Plan;
use netloom_model::plan::form::LinkForm;
use netloom_model::plan::{LinkSlot, PlannedEnd};
use netloom_netlink::{
    Address, Batch, BridgeSpec, Change, DeleteLink, EndSpec, LinkInfo, Route, Socket, VethSpec, nat,
};

use crate::build::keeper::{Context, Ground, Keeper};
use crate::build::links::end;
use crate::stage::host::MARK;
use crate::stage::spaces::{Spaces, on_a_thread, run};
use crate::store::host_change::HostChange;
use crate::store::state::{Folder, State};
use crate::{Error, Result};
use outside::Outside;

/// The host's sysctls for forwarding, of IPv4 and IPv6.
const FORWARDING: [&str; 2] = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"];

/// First index of links on the host, far above those that the kernel assigns.
const FIRST_INDEX: u32 = 0x2000_0000;

/// Keeps the doors of a lab.
#[derive(Default)]
pub(crate) struct Doors {
    /// What an ordinary user's doors lead through.
    outside: Mutex<Option<Outside>>,
}

impl Doors {
    /// Undoes what the doors of a lab are outside of it, so that others can be laid.
    pub(crate) fn close(&self, folder: &Folder) -> Result<()> {
        *self.outside() = None;
        outside::end_process(folder)?;
        self.restore_host(folder)?;
        folder.write_host_changes(&[])
    }

    fn outside(&self) -> MutexGuard<'_, Option<Outside>> {
        self.outside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper for Doors {
    fn lay(&self, ground: &Ground<'_>) -> Result<()> {
        let doors = ground.links(LinkForm::is_door);
        if doors.is_empty() {
            return Ok(());
        }
        if !ground.state.user {
            return open(ground, &doors);
        }
        // They are made once in the life of a lab process, all together.
        *self.outside() = Some(Outside::open(ground, &doors)?);
        Ok(())
    }

    fn clear(&self, ground: &Ground<'_>) -> Result<()> {
        if ground.links(LinkForm::is_door).is_empty() {
            return Ok(());
        }
        if ground.state.user {
            *self.outside() = None;
            return outside::end_process(ground.folder);
        }
        self.restore_host(ground.folder)?;
        ground.folder.write_host_changes(&[])
    }

    fn restore_host(&self, folder: &Folder) -> Result<()> {
        let changes = folder.read_host_changes()?;
        if changes.is_empty() { Ok(()) } else { Error::of_all(close(folder, &changes)) }
    }

    fn adopt(&self, context: &Context<'_>) -> Result<()> {
        if outside::is_wanted(context.state) {
            *self.outside() = Outside::find(context.folder)?;
        }
        Ok(())
    }

    fn lost_doors(&self, state: &State) -> bool {
        outside::is_wanted(state) && self.outside().is_none()
    }

    fn watched(&self) -> Vec<OwnedFd> {
        self.outside().iter().filter_map(Outside::watched).collect()
    }

    fn tend(&self, context: &Context<'_>) -> Option<Duration> {
        self.outside()
            .as_mut()
            .and_then(|outside| outside.tend(context.folder, &context.state.plan))
    }

    fn is_whole(&self, _: &State) -> bool {
        self.outside().as_ref().is_none_or(Outside::lives)
    }

    fn end(&self, folder: &Folder) {
        *self.outside() = None;
        if let Err(e) = outside::end_process(folder) {
            netloom_sys::journal::line(format_args!("netloom: {}", netloom_sys::describe(&e)));
        }
    }

    fn sweep(&self, folder: &Folder, _: Option<&Plan>) -> Result<()> {
        outside::end_process(folder)
    }
}

/// Opens the doors of these links. Configuring nodes raises the ends inside the lab.
fn open(ground: &Ground<'_>, links: &[LinkSlot]) -> Result<()> {
    let (folder, spaces, plan) = (ground.folder, ground.spaces, &ground.state.plan);
    let (changes, ledger) = (folder.read_host_changes()?, Ledger::open()?);
    let mut doors = Opening { folder, plan, spaces, changes, ledger };
    on_a_thread(|| {
        let mut socket = Socket::open().map_err(Error::of("host", "open a netlink socket"))?;
        for &index in links {
            for side in [0, 1] {
                let form = spaces.forms.get(plan, &plan.links[index]);
                match &plan.links[index].ends[side] {
                    PlannedEnd::Host { iface } if form == LinkForm::Card => {
                        doors.raise(&mut socket, iface)?;
                    }
                    PlannedEnd::Host { iface } => {
                        doors.bridge_in(&mut socket, index, side, iface)?
                    }
                    PlannedEnd::Internet { addresses } => {
                        doors.nat(&mut socket, index, side, addresses)?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    })
}

/// Whether the host has the interfaces to which a plan leads, free for that, except those that the lab has already.
pub(crate) fn check_new(folder: &Folder, plan: &Plan) -> Result<()> {
    let changes = folder.read_host_changes()?;
    let known = |iface: &str| {
        changes.iter().any(|change| match change {
            HostChange::Port { iface: known, .. } | HostChange::Raised(known) => known == iface,
            HostChange::Link(_) | HostChange::Nat(_) | HostChange::Sysctl { .. } => false,
        })
    };
    on_a_thread(|| {
        let mut socket = Socket::open().map_err(Error::of("host", "open a netlink socket"))?;
        for link in &plan.links {
            for end in &link.ends {
                let PlannedEnd::Host { iface } = end else { continue };
                if known(iface) {
                    continue;
                }
                let object = format!("host interface {iface:?}");
                let found = socket.link(iface.as_str()).map_err(Error::of(&object, "look up"))?;
                let reason = match found {
                    None => Some("no such interface on the host"),
                    // One that a plug reads keeps what it has.
                    Some(_) if plan.has_shm_end(link) => None,
                    Some(found) => in_use(&mut socket, &found, &object)?,
                };
                if let Some(reason) = reason {
                    let reason = format!("{object}: {reason}");
                    return Err(Error::Conflict { lab: plan.lab.clone(), reason });
                }
            }
        }
        Ok(())
    })
}

/// Why an interface of the host cannot be bridged in.
fn in_use(socket: &mut Socket, found: &LinkInfo, object: &str) -> Result<Option<&'static str>> {
    let addresses = socket.addresses().map_err(Error::of(object, "read addresses"))?;
    let own = addresses.iter().any(|a| a.link == found.index && !is_link_local(a.address));
    Ok(match found.master {
        _ if own => Some(
            "has addresses of the host's, which would be cut off; take an interface without addresses, or use \
             `internet`",
        ),
        Some(_) => Some("is a port of another bridge already"),
        None => None,
    })
}

struct Opening<'a> {
    folder: &'a Folder,
    plan: &'a Plan,
    spaces: &'a Spaces<'a>,
    changes: Vec<HostChange>,
    ledger: Ledger,
}

impl Opening<'_> {
    /// Records a change before it is made.
    fn note(&mut self, change: HostChange) -> Result<()> {
        if !self.changes.contains(&change) {
            self.changes.push(change);
            self.folder.write_host_changes(&self.changes)?;
        }
        Ok(())
    }

    /// A name on the host for part `part` of the lab: at most 15 bytes.
    fn name(&self, kind: char, part: usize) -> String {
        let hash = self.folder.hash() & 0x0fff_ffff;
        format!("{MARK}{kind}{hash:07x}{part:x}")
    }

    /// 16 bits of the folder's hash.
    fn part(&self) -> u32 {
        u32::try_from(self.folder.hash() & 0xffff).unwrap_or(0)
    }

    /// The host's interface of a door.
    fn card(&self, socket: &mut Socket, iface: &str, object: &str) -> Result<LinkInfo> {
        let found = socket.link(iface).map_err(Error::of(object, "look up"))?;
        found.ok_or_else(|| self.refused(&format!("{object}: no such interface on the host")))
    }

    /// For a plug, which reads and writes the interface beside the host's own network: the interface is raised,
    /// and otherwise unchanged.
    fn raise(&mut self, socket: &mut Socket, iface: &str) -> Result<()> {
        let object = format!("host interface {iface:?}");
        let found = self.card(socket, iface, &object)?;
        if found.up {
            return Ok(());
        }
        self.note(HostChange::Raised(iface.to_owned()))?;
        let mut batch = Batch::new();
        batch.push(object.as_str(), &Change::of(found.index).up());
        run(socket, &mut batch, &object, "raise")
    }

    fn bridge_in(
        &mut self,
        socket: &mut Socket,
        link: LinkSlot,
        side: usize,
        iface: &str,
    ) -> Result<()> {
        let object = format!("host interface {iface:?}");
        let found = self.card(socket, iface, &object)?;
        if let Some(reason) = in_use(socket, &found, &object)? {
            return Err(self.refused(&format!("{object}: {reason}")));
        }
        let bridge = self.name('b', self.plan.links[link].id.get());
        self.note(HostChange::Link(bridge.clone()))?;
        self.note(HostChange::Port { iface: iface.to_owned(), was_up: found.up })?;
        let mut batch = Batch::new();
        batch.push(object.as_str(), &BridgeSpec::new(&bridge));
        run(socket, &mut batch, &object, "make its bridge")?;
        let index = socket.index_of(&bridge).map_err(Error::of(&object, "find its bridge"))?;
        batch.clear();
        batch.push(object.as_str(), &Change::of(index).up());
        batch.push(object.as_str(), &Change::of(found.index).enslave(index).up());
        let outer = self.name('h', self.plan.links[link].id.get());
        self.push_veth(&mut batch, link, side, &outer, Some(index))?;
        run(socket, &mut batch, &object, "bridge in")
    }

    /// The pair of a door's link: the host's end first, so that it can be a port at once.
    fn push_veth(
        &mut self,
        batch: &mut Batch,
        link: LinkSlot,
        side: usize,
        outer: &str,
        master: Option<u32>,
    ) -> Result<()> {
        self.note(HostChange::Link(outer.to_owned()))?;
        // The kernel uses the inner end's index only if the outer end has one, too.
        let index =
            Some(FIRST_INDEX + self.part() * 4096 + u32::try_from(link.get() % 4096).unwrap_or(0));
        let mtu = Some(self.plan.links[link].mtu);
        let host = EndSpec { mtu, index, ..EndSpec::new(outer) };
        let mut spec = VethSpec::new(host, end(self.plan, self.spaces, link, 1 - side)?);
        spec.a_up = true;
        spec.a_master = master;
        batch.push(format!("link {:?}", self.plan.links[link].name), &spec);
        Ok(())
    }

    fn nat(
        &mut self,
        socket: &mut Socket,
        link: LinkSlot,
        side: usize,
        addresses: &[IpNet],
    ) -> Result<()> {
        let object = format!("link {:?}", self.plan.links[link].name);
        let prefixes = lab_prefixes(self.plan);
        self.check_overlap(socket, &prefixes)?;
        let outer = self.name('i', self.plan.links[link].id.get());
        let mut batch = Batch::new();
        self.push_veth(&mut batch, link, side, &outer, None)?;
        run(socket, &mut batch, &object, "make the host's end")?;
        let index = socket.index_of(&outer).map_err(Error::of(&object, "find its end"))?;
        batch.clear();
        for address in addresses {
            batch.push(object.as_str(), &Address::new(index, *address));
        }
        for (to, via) in self.plan.door_routes(link) {
            batch.push(object.as_str(), &Route::new(to, Some(via), index));
        }
        run(socket, &mut batch, &object, "give the host's end addresses and routes")?;
        let forwarded = self.host_forwarded()?;
        let ipv6 = prefixes.iter().any(|p| p.addr().is_ipv6());
        self.forward(socket, &outer, ipv6)?;
        let table = format!(
            "{}{:08x}-{:x}",
            nat::TABLE_PREFIX,
            self.folder.hash() & 0xffff_ffff,
            link.get()
        );
        self.note(HostChange::Nat(table.clone()))?;
        nat::install(&nat::NatSpec {
            table: &table,
            inside: &[&outer],
            uplink: None,
            prefixes: &prefixes,
            block_other_forwarding: !forwarded,
            bridges: &format!("{MARK}b"),
            siblings: &format!("{MARK}i"),
        })
        .map_err(Error::of(&object, "install NAT"))
    }

    /// Enables forwarding between the lab and the host's uplinks, in the lab's address families.
    fn forward(&mut self, socket: &mut Socket, outer: &str, ipv6: bool) -> Result<()> {
        let links = socket.links().map_err(Error::of("host", "list links"))?;
        let uplinks = socket.uplinks().map_err(Error::of("host", "find uplinks"))?;
        let is_up = |i: u32| uplinks.contains(&i);
        let any = uplinks.is_empty();
        for link in links.iter().filter(|l| l.index != 1 && l.name != outer) {
            let other_lab = link.name.starts_with(MARK) && link.name.len() > 10;
            if is_up(link.index) || (any && link.up && !other_lab) {
                self.set(&format!("net/ipv4/conf/{}/forwarding", link.name), "1")?;
                // A forwarding host ignores router advertisements, from which it may have its own route.
                let accept = format!("net/ipv6/conf/{}/accept_ra", link.name);
                if self.ledger.read(&accept).as_deref() == Some("1") {
                    self.set(&accept, "2")?;
                }
            }
        }
        self.set(&format!("net/ipv4/conf/{outer}/forwarding"), "1")?;
        // IPv6 has a single sysctl for the whole host; the lab's NAT table blocks other forwarding.
        if ipv6 { self.set(FORWARDING[1], "1") } else { Ok(()) }
    }

    /// Whether the host forwards regardless of labs' doors.
    fn host_forwarded(&self) -> Result<bool> {
        for path in FORWARDING {
            if self.ledger.read(path).as_deref() == Some("1")
                && self.ledger.before(path)?.as_deref() != Some("0")
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sets a sysctl, unless the host has the value already.
    fn set(&mut self, path: &str, value: &str) -> Result<()> {
        let Some(now) = self.ledger.read(path) else { return Ok(()) };
        // The value before any lab set it: the last lab restores that.
        let old = self.ledger.before(path)?.unwrap_or(now);
        if old == value {
            return Ok(());
        }
        self.note(HostChange::Sysctl { path: path.to_owned(), old })?;
        self.ledger.take(path, value, &self.folder.path())
    }

    /// A lab whose addresses are also the host's would cut it off from its own network.
    fn check_overlap(&self, socket: &mut Socket, prefixes: &[IpNet]) -> Result<()> {
        let addresses = socket.addresses().map_err(Error::of("host", "read addresses"))?;
        let clash = addresses.iter().find_map(|a| {
            let p = prefixes.iter().find(|p| p.contains(&a.address.addr()))?;
            Some((a.address, *p))
        });
        match clash {
            None => Ok(()),
            Some((address, prefix)) => Err(self.refused(&format!(
                "internet: the host has the address {address}, the lab the prefix {prefix}; give \
                 the lab another `pool:`"
            ))),
        }
    }

    fn refused(&self, reason: &str) -> Error {
        Error::Conflict { lab: self.plan.lab.clone(), reason: reason.to_owned() }
    }
}

fn is_link_local(address: IpNet) -> bool {
    match address.addr() {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// The prefixes of all segments of the lab, aggregated.
fn lab_prefixes(plan: &Plan) -> Vec<IpNet> {
    let of_nodes = plan.nodes.iter().flat_map(|n| &n.interfaces).flat_map(|i| &i.addresses);
    let of_doors = plan.links.iter().flat_map(|l| &l.ends).flat_map(|e| match e {
        PlannedEnd::Internet { addresses } => addresses.as_slice(),
        _ => &[],
    });
    let all: Vec<IpNet> = of_nodes.chain(of_doors).map(IpNet::trunc).collect();
    IpNet::aggregate(&all)
}

/// Undoes changes of the host, last first, but NAT tables at the end: until forwarding is off again on a host that
/// did not forward, they block other forwarding. Continues past failures and returns them.
fn close(folder: &Folder, changes: &[HostChange]) -> Vec<Error> {
    let is_nat = |change: &&HostChange| matches!(change, HostChange::Nat(_));
    let work = || -> Result<Vec<Error>> {
        let mut failures = Vec::new();
        let mut socket = Socket::open().map_err(Error::of("host", "open a netlink socket"))?;
        let first = changes.iter().rev().filter(|change| !is_nat(change));
        for change in first.chain(changes.iter().rev().filter(is_nat)) {
            if let Err(e) = undo(&mut socket, folder, change) {
                failures.push(e);
            }
        }
        Ok(failures)
    };
    on_a_thread(work).unwrap_or_else(|failure| vec![failure])
}

fn undo(socket: &mut Socket, folder: &Folder, change: &HostChange) -> Result<()> {
    let mut batch = Batch::new();
    match change {
        HostChange::Link(name) => {
            let object = format!("host link {name:?}");
            batch.push_tolerant(object.as_str(), &DeleteLink::new(name.as_str()));
            run(socket, &mut batch, &object, "remove")
        }
        HostChange::Port { iface, was_up } => {
            let object = format!("host interface {iface:?}");
            let mut change = Change::of(iface.as_str()).release();
            if !was_up {
                change = change.down();
            }
            batch.push_tolerant(object.as_str(), &change);
            run(socket, &mut batch, &object, "give back")
        }
        HostChange::Raised(iface) => {
            let object = format!("host interface {iface:?}");
            batch.push_tolerant(object.as_str(), &Change::of(iface.as_str()).down());
            run(socket, &mut batch, &object, "set down")
        }
        HostChange::Nat(table) => {
            nat::remove(table).map_err(Error::of(format!("NAT table {table:?}"), "remove"))
        }
        HostChange::Sysctl { path, old } => Ledger::open()?.release(path, old, &folder.path()),
    }
}
