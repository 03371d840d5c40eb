//! The host's side of doors of root: bridges, ends of links with routes into the lab, forwarding and NAT.
//!
//! Every change of the host is recorded before it is made.

use std::net::IpAddr;

use ipnet::IpNet;
use netloom_model::Plan;
use netloom_model::plan::form::LinkForm;
use netloom_model::plan::{LinkSlot, PlannedEnd, PlannedLink, WayBack};
use netloom_netlink::{
    Address, Batch, BridgeSpec, Change, EndSpec, Family, LinkInfo, Route, Socket, VethSpec, nat,
};

use super::{FIRST_INDEX, lab_prefixes};

use crate::build::keeper::Ground;
use crate::build::links::end;
use crate::keep::ledger::Ledger;
use crate::stage::spaces::{on_a_thread, run};
use crate::store::host_change::settings::{self, FORWARDING};
use crate::store::host_change::{BRIDGE, DOOR, HostChange, LINK_HASH, MARK, PORT};
use crate::store::state::Folder;
use crate::{Error, Result};

/// Opens the doors of these links. Configuring nodes raises the ends inside the lab.
pub(super) fn open(ground: &Ground<'_>, links: &[LinkSlot]) -> Result<()> {
    let (spaces, plan) = (ground.spaces, &ground.state.plan);
    let mut doors = Opening::of(ground.folder, plan)?;
    on_a_thread(|| {
        let mut socket = Socket::open().map_err(Error::of("host", "open a netlink socket"))?;
        let mut outers = Vec::new();
        if links.iter().any(|link| plan.links[*link].leads_to_internet()) {
            // Before anything is changed: an overlap would cut the host off.
            doors.check_overlap(&mut socket)?;
        }
        let back = plan.ways_back();
        for &index in links {
            for side in [0, 1] {
                let form = spaces.forms.get(plan, &plan.links[index]);
                match &plan.links[index].ends[side] {
                    PlannedEnd::Host { iface } if form == LinkForm::Card => {
                        doors.raise(&mut socket, iface)?;
                    }
                    PlannedEnd::Host { iface } => {
                        let near = spaces.near(plan, &[index])?;
                        let inner = end(plan, &near, index, 1 - side)?;
                        doors.bridge_in(&mut socket, index, inner, iface)?;
                    }
                    PlannedEnd::Internet { addresses } => {
                        let near = spaces.near(plan, &[index])?;
                        let inner = end(plan, &near, index, 1 - side)?;
                        outers.push(doors.lead_out(&mut socket, index, inner, addresses, &back)?);
                    }
                    _ => {}
                }
            }
        }
        if outers.is_empty() { Ok(()) } else { doors.translate(&mut socket, &outers) }
    })
}

/// Whether the host has the interfaces to which a plan leads, free for that, except those that the lab has already, and none
/// of its addresses.
pub(super) fn check_new(folder: &Folder, plan: &Plan) -> Result<()> {
    let doors = Opening::of(folder, plan)?;
    let changes = &doors.changes;
    let known = |iface: &str| {
        changes.iter().any(|change| match change {
            HostChange::Port { iface: known, .. } | HostChange::Raised(known) => known == iface,
            HostChange::Link(_) | HostChange::Nat(_) | HostChange::Sysctl { .. } => false,
        })
    };
    on_a_thread(|| {
        let mut socket = Socket::open().map_err(Error::of("host", "open a netlink socket"))?;
        if plan.links.iter().any(PlannedLink::leads_to_internet) {
            doors.check_overlap(&mut socket)?;
        }
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
    // Every interface has those: nobody reaches the host by them on purpose.
    let own = addresses.iter().any(|a| a.link == found.index && !is_link_local(a.address));
    Ok(match found.master {
        // A bridge port has no address of its own: what came for it would no longer arrive.
        _ if own => Some(
            "has addresses of the host's, which would be cut off; take an interface without addresses, or use \
             `internet`",
        ),
        Some(_) => Some("is a port of another bridge already"),
        None => None,
    })
}

/// A name on the host for part `part` of the lab in `folder`: at most 15 bytes.
pub(super) fn name(folder: &Folder, kind: char, part: impl Into<Option<usize>>) -> String {
    // Interfaces have at most 15 bytes: 28 bits of the hash leave room for the part.
    let hash = folder.hash() & 0x0fff_ffff;
    let part = part.into().map_or_else(String::new, |part| format!("{part:x}"));
    format!("{MARK}{kind}{hash:0LINK_HASH$x}{part}")
}

/// The name of the host's end of a door's pair.
pub(super) fn outer(folder: &Folder, link: &PlannedLink, form: LinkForm) -> String {
    let kind = if form == LinkForm::Bridged { PORT } else { DOOR };
    name(folder, kind, link.id.get())
}

/// What the kernel and the count of settings show that a lab has changed of the host, in the order of making. That it raised
/// an interface, or gave one to a bridge, is not seen: the kernel releases that with the bridge, and it stays up.
pub(super) fn seen(folder: &Folder) -> Result<Vec<HostChange>> {
    let starts = [BRIDGE, PORT, DOOR].map(|kind| name(folder, kind, None));
    let links = on_a_thread(|| {
        let mut socket = Socket::open().map_err(Error::of("host", "open a netlink socket"))?;
        socket.links().map_err(Error::of("host", "list links"))
    })?;
    let own = links.into_iter().map(|link| link.name);
    let own = own.filter(|name| starts.iter().any(|start| name.starts_with(start.as_str())));
    let table = table(folder);
    // Where this user may not list tables, the lab has made none.
    let has_table = nat::list().is_ok_and(|all| all.contains(&table));
    let mut changes: Vec<HostChange> =
        has_table.then_some(HostChange::Nat(table)).into_iter().collect();
    changes.extend(Ledger::open()?.of(&folder.path())?);
    changes.extend(own.map(HostChange::Link));
    Ok(changes)
}

/// The name of a lab's NAT table.
pub(super) fn table(folder: &Folder) -> String {
    format!("{}{:08x}", nat::TABLE_PREFIX, folder.hash() & 0xffff_ffff)
}

pub(super) struct Opening<'a> {
    pub(super) folder: &'a Folder,
    pub(super) plan: &'a Plan,
    pub(super) changes: Vec<HostChange>,
    pub(super) ledger: Ledger,
}

impl<'a> Opening<'a> {
    pub(super) fn of(folder: &'a Folder, plan: &'a Plan) -> Result<Opening<'a>> {
        let (changes, ledger) = (folder.read_host_changes()?, Ledger::open()?);
        Ok(Opening { folder, plan, changes, ledger })
    }

    /// The name of the host's end of a door to the internet.
    pub(super) fn outer(&self, link: &PlannedLink) -> String {
        outer(self.folder, link, LinkForm::Nat)
    }

    /// Records a change before it is made.
    fn note(&mut self, change: HostChange) -> Result<()> {
        // A repeated attempt has it already, with the value from before.
        if !self.changes.contains(&change) {
            self.changes.push(change);
            self.folder.write_host_changes(&self.changes)?;
        }
        Ok(())
    }

    fn name(&self, kind: char, part: usize) -> String {
        name(self.folder, kind, part)
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
        // One that is up already is nothing to undo later.
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
        inner: EndSpec<'_>,
        iface: &str,
    ) -> Result<()> {
        let object = format!("host interface {iface:?}");
        let found = self.card(socket, iface, &object)?;
        if let Some(reason) = in_use(socket, &found, &object)? {
            return Err(self.refused(&format!("{object}: {reason}")));
        }
        let bridge = self.name(BRIDGE, self.plan.links[link].id.get());
        // Before the bridge exists: a killed process leaves only what the list names.
        self.note(HostChange::Link(bridge.clone()))?;
        self.note(HostChange::Port { iface: iface.to_owned(), was_up: found.up })?;
        let mut batch = Batch::new();
        batch.push(object.as_str(), &BridgeSpec::new(&bridge));
        run(socket, &mut batch, &object, "make its bridge")?;
        let index = socket.index_of(&bridge).map_err(Error::of(&object, "find its bridge"))?;
        batch.clear();
        batch.push(object.as_str(), &Change::of(index).up());
        // The port is raised with it: an interface that is down passes nothing.
        batch.push(object.as_str(), &Change::of(found.index).enslave(index).up());
        let outer = self.name(PORT, self.plan.links[link].id.get());
        self.push_veth(&mut batch, link, inner, &outer, Some(index))?;
        run(socket, &mut batch, &object, "bridge in")
    }

    /// The pair of a door's link: the host's end first, so that it can be a port at once.
    fn push_veth(
        &mut self,
        batch: &mut Batch,
        link: LinkSlot,
        inner: EndSpec<'_>,
        outer: &str,
        master: Option<u32>,
    ) -> Result<()> {
        self.note(HostChange::Link(outer.to_owned()))?;
        // The kernel uses the inner end's index only if the outer end has one, too.
        let index =
            // Labs differ in the hash's part, a lab's doors in the last 12 bits.
            Some(FIRST_INDEX + self.part() * 4096 + u32::try_from(link.get() % 4096).unwrap_or(0));
        let mtu = Some(self.plan.links[link].mtu);
        let host = EndSpec { mtu, index, ..EndSpec::new(outer) };
        let mut spec = VethSpec::new(host, inner);
        spec.a_up = true;
        spec.a_master = master;
        batch.push(format!("link {:?}", self.plan.links[link].name), &spec);
        Ok(())
    }

    /// Makes the pair of a door to the internet, with what the host knows of the nodes behind it; returns the name of the
    /// host's end.
    fn lead_out(
        &mut self,
        socket: &mut Socket,
        link: LinkSlot,
        inner: EndSpec<'_>,
        addresses: &[IpNet],
        back: &[WayBack],
    ) -> Result<String> {
        let object = format!("link {:?}", self.plan.links[link].name);
        let outer = self.outer(&self.plan.links[link]);
        let mut batch = Batch::new();
        self.push_veth(&mut batch, link, inner, &outer, None)?;
        run(socket, &mut batch, &object, "make the host's end")?;
        let index = socket.index_of(&outer).map_err(Error::of(&object, "find its end"))?;
        batch.clear();
        for address in addresses {
            batch.push(object.as_str(), &Address::new(index, *address));
        }
        for way in back.iter().filter(|way| way.door == link) {
            batch.push(object.as_str(), &Route::new(way.to, Some(way.via), index));
        }
        run(socket, &mut batch, &object, "give the host's end addresses and routes")?;
        Ok(outer)
    }

    /// Lets the host forward between its uplinks and these ends of doors, with NAT for the lab's prefixes.
    pub(super) fn translate(&mut self, socket: &mut Socket, outers: &[String]) -> Result<()> {
        self.note(HostChange::Nat(table(self.folder)))?;
        // Rules before forwarding: at no moment does the host forward for others.
        self.with_rules(outers, nat::install)?.map_err(Error::of("internet", "install NAT"))?;
        let prefixes = lab_prefixes(self.plan);
        // Only now: on a host that did not forward, the table keeps others from being forwarded.
        self.forward(socket, outers, prefixes.iter().any(|prefix| prefix.addr().is_ipv6()))
    }

    /// Does something with the rules of the host for these ends of doors.
    pub(super) fn with_rules<T>(
        &self,
        outers: &[String],
        work: impl FnOnce(&nat::NatSpec<'_>) -> T,
    ) -> Result<T> {
        let inside: Vec<&str> = outers.iter().map(String::as_str).collect();
        Ok(work(&nat::NatSpec {
            table: &table(self.folder),
            inside: &inside,
            uplink: None,
            prefixes: &lab_prefixes(self.plan),
            // A host that forwarded before goes on for all.
            block_other_forwarding: !self.host_forwarded()?,
            bridges: &format!("{MARK}{BRIDGE}"),
            siblings: &format!("{MARK}{DOOR}"),
            hold_repeated: false,
        }))
    }

    /// Enables forwarding between the lab and the host's uplinks, in the lab's address families.
    fn forward(&mut self, socket: &mut Socket, outers: &[String], ipv6: bool) -> Result<()> {
        let links = socket.links().map_err(Error::of("host", "list links"))?;
        let uplinks = socket.uplinks().map_err(Error::of("host", "find uplinks"))?;
        let is_up = |i: u32| uplinks.contains(&i);
        // Without a default route every interface that is up may lead outside.
        let any = uplinks.is_empty();
        // Loopback does not forward.
        for link in links.iter().filter(|l| l.index != 1 && !outers.contains(&l.name)) {
            let other_lab = link.name.starts_with(MARK) && link.name.len() > 10;
            if is_up(link.index) || (any && link.up && !other_lab) {
                self.set(&settings::forwarding(&link.name), "1")?;
                // A forwarding host ignores router advertisements, from which it may have its own route.
                let accept = settings::accept_ra(&link.name);
                // One that ignores them already stays as it is.
                if self.ledger.read(&accept).as_deref() == Some("1") {
                    self.set(&accept, "2")?;
                }
            }
        }
        for outer in outers {
            self.set(&settings::forwarding(outer), "1")?;
        }
        // IPv6 has a single sysctl for the whole host; the lab's NAT table blocks other forwarding.
        if ipv6 { self.set(FORWARDING[1], "1") } else { Ok(()) }
    }

    /// Whether the host forwards regardless of labs' doors.
    fn host_forwarded(&self) -> Result<bool> {
        for path in FORWARDING {
            if self.ledger.read(path).as_deref() == Some("1")
                && self.ledger.before(path, &self.folder.path())?.as_deref() != Some("0")
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sets a sysctl, unless the host has the value already.
    fn set(&mut self, path: &str, value: &str) -> Result<()> {
        // A kernel without IPv6 has no such sysctl.
        let Some(now) = self.ledger.read(path) else { return Ok(()) };
        // The value before any lab set it: the last lab restores that.
        let old = self.ledger.before(path, &self.folder.path())?.unwrap_or(now);
        if old == value {
            return Ok(());
        }
        self.note(HostChange::Sysctl { path: path.to_owned(), old, more: None })?;
        self.ledger.take(path, value, &self.folder.path())
    }

    /// A lab whose addresses are also the host's would cut it off from its own network.
    fn check_overlap(&self, socket: &mut Socket) -> Result<()> {
        self.overlap(socket)?.map_or(Ok(()), |(taken, prefix)| {
            Err(self.refused(&format!(
                "internet: {taken}, the lab the prefix {prefix}; give the lab another `pool:`, or other addresses \
                 where they are given by hand"
            )))
        })
    }

    /// Which one has a prefix of the lab already: the host itself, or another lab behind its doors. The ends of the lab's own doors are
    /// none of these.
    pub(super) fn overlap(&self, socket: &mut Socket) -> Result<Option<(String, IpNet)>> {
        let prefixes = lab_prefixes(self.plan);
        let addresses = socket.addresses().map_err(Error::of("host", "read addresses"))?;
        let links = socket.links().map_err(Error::of("host", "list links"))?;
        let name = |index: u32| {
            links.iter().find(|link| link.index == index).map_or("", |link| link.name.as_str())
        };
        let is_own = |index: u32| {
            let name = name(index);
            let made =
                |change: &HostChange| matches!(change, HostChange::Link(made) if made == name);
            self.changes.iter().any(made)
        };
        for found in addresses.iter().filter(|found| !is_own(found.link)) {
            if let Some(prefix) = prefixes.iter().find(|p| p.contains(&found.address.addr())) {
                return Ok(Some((format!("the host has the address {}", found.address), *prefix)));
            }
        }
        let door = format!("{MARK}{DOOR}");
        let of_others = links.iter().filter(|link| link.name.starts_with(&door));
        let others: Vec<u32> = of_others.map(|link| link.index).filter(|i| !is_own(*i)).collect();
        // A host may have a million routes: they are read only if other labs have some.
        let families = [Family::V4, Family::V6].into_iter().filter(|_| !others.is_empty());
        for family in families {
            for route in socket.routes(family).map_err(Error::of("host", "read routes"))? {
                let is_of_others = route.links.iter().any(|link| others.contains(link));
                let overlaps = |p: &&IpNet| p.contains(&route.to) || route.to.contains(*p);
                let prefix = prefixes.iter().find(overlaps);
                if let (true, Some(prefix)) = (is_of_others, prefix) {
                    return Ok(Some((format!("another lab has the prefix {}", route.to), *prefix)));
                }
            }
        }
        Ok(None)
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
