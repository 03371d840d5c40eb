//! Doors to the host: an interface bridged in, and the host's network by NAT.
//!
//! Every change of the host is recorded before it is made ([`HostChange`]) and undone in
//! reverse order on down, also by another process after a crash. Names on the host begin with [`MARK`] and
//! a hash of the lab's folder, so that labs never collide; settings that labs share are counted
//! ([`Ledger`]). Labs of ordinary users have doors of the second kind alone, which lead through a network namespace of
//! the lab's own ([`outside`]) and change nothing of the host.

mod following;
mod opening;
mod outside;
mod standing;

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use netloom_model::Plan;
use netloom_model::plan::form::LinkForm;
use netloom_model::plan::{LinkId, PlannedEnd, PlannedLink};
use netloom_netlink::{Batch, Change, DeleteLink, Socket, Traffic, nat};

use crate::build::keeper::{Context, Ground, Keeper};
use crate::keep::ledger::Ledger;
use crate::stage::host;
use crate::stage::spaces::{on_a_thread, run};
use crate::store::host_change::{BRIDGE, HostChange, MARK};
use crate::store::state::{Folder, State};
use crate::{Error, Result};
use following::Following;
use opening::{Opening, check_new, open};
use outside::Outside;

/// First index of links on the host, far above those that the kernel assigns.
const FIRST_INDEX: u32 = 0x2000_0000;

/// Facts about traffic outside of a lab.
#[derive(Debug, Default)]
pub(crate) struct DoorTraffic {
    /// Counters of the outer ends of doors, by link.
    pub(crate) ends: Vec<(LinkId, Traffic)>,
    /// Those of the tap of the program that passes what leaves an ordinary user's lab.
    pub(crate) way_out: Option<Traffic>,
}

/// Keeps the doors of a lab.
#[derive(Default)]
pub(crate) struct Doors {
    /// What an ordinary user's doors lead through.
    outside: Mutex<Option<Outside>>,
}

impl Doors {
    /// Undoes what the doors of a lab are outside of it, so that others can be laid.
    pub(crate) fn close(&self, folder: &Folder) -> Result<()> {
        // The process first: it uses what is given back.
        *self.outside() = None;
        outside::end_process(folder)?;
        give_back(folder)
    }

    /// Makes what is outside fit the lab's current plan, if it fitted `old`.
    pub(crate) fn follow(&self, folder: &Folder, state: &State, old: &Plan) -> Result<()> {
        let plan = &state.plan;
        if !plan.links.iter().any(PlannedLink::leads_to_internet) {
            return Ok(());
        }
        let change = Following::of(old, plan);
        if change.is_none() {
            return Ok(());
        }
        if state.user {
            // One that is gone is recreated, by the plan of that moment.
            return self.outside().as_ref().map_or(Ok(()), |outside| outside.follow(plan, &change));
        }
        let mut doors = Opening::of(folder, plan)?;
        on_a_thread(|| {
            let mut socket = Socket::open().map_err(Error::of("host", "open a netlink socket"))?;
            let name = |link: &PlannedLink| doors.outer(link);
            change.routes(&mut socket, plan, name)?;
            if !change.prefixes {
                return Ok(());
            }
            let outers = plan.links.iter().filter(|link| link.leads_to_internet());
            let outers: Vec<String> = outers.map(|link| doors.outer(link)).collect();
            doors.translate(&mut socket, &outers)
        })
    }

    /// Whether what a plan has can be outside, which the lab may follow next: the host has its interfaces, and none of its
    /// addresses. `moves`: doors come, go or change with it.
    pub(crate) fn check(
        &self,
        folder: &Folder,
        state: &State,
        next: &Plan,
        moves: bool,
    ) -> Result<()> {
        let leads = next.links.iter().any(PlannedLink::leads_to_internet);
        // New prefixes may be the host's, even if no door changes.
        let other = leads && lab_prefixes(next) != lab_prefixes(&state.plan);
        // Most changes are not about doors: nothing need be asked of the host.
        if !moves && !other {
            return Ok(());
        }
        if !state.user {
            return check_new(folder, next);
        }
        if moves {
            host::check_doors_of_user(next)?;
        }
        if leads { outside::check_prefixes(next) } else { Ok(()) }
    }

    /// The outside counts of these doors.
    pub(crate) fn traffic(
        &self,
        folder: &Folder,
        state: &State,
        doors: &[&PlannedLink],
    ) -> Result<DoorTraffic> {
        if state.user {
            return self
                .outside()
                .as_ref()
                .map_or(Ok(DoorTraffic::default()), |o| o.traffic(doors));
        }
        on_a_thread(|| {
            let mut socket =
                Socket::open_to_ask().map_err(Error::of("host", "open a netlink socket"))?;
            let mut all = Vec::new();
            for link in doors {
                let name = opening::outer(folder, link, state.form(link));
                let found = socket.link(name.as_str()).map_err(Error::of(&name, "look up"))?;
                all.extend(found.map(|found| (link.id, found.traffic)));
            }
            Ok(DoorTraffic { ends: all, way_out: None })
        })
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
        give_back(ground.folder)
    }

    fn restore_host(&self, folder: &Folder) -> Result<()> {
        // The list cannot be read: what carries the lab's names is undone.
        let changes = match folder.read_host_changes() {
            Err(Error::Unreadable { .. }) => opening::seen(folder)?,
            read => read?,
        };
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

/// The prefixes of all segments of the lab, aggregated.
pub(crate) fn lab_prefixes(plan: &Plan) -> Vec<IpNet> {
    let of_nodes = plan.nodes.iter().flat_map(|n| &n.interfaces).flat_map(|i| &i.addresses);
    let of_doors = plan.links.iter().flat_map(|l| &l.ends).flat_map(|e| match e {
        PlannedEnd::Internet { addresses } => addresses.as_slice(),
        _ => &[],
    });
    let all: Vec<IpNet> = of_nodes.chain(of_doors).map(IpNet::trunc).collect();
    // Aggregated: fewer rules, and the kernel refuses sets with overlapping intervals.
    IpNet::aggregate(&all)
}

/// Undoes what the doors of a lab have changed of the host. Limits that were raised for the lab stay until it ends.
fn give_back(folder: &Folder) -> Result<()> {
    let (limits, changes): (Vec<_>, Vec<_>) =
        folder.read_host_changes()?.into_iter().partition(HostChange::is_limit);
    Error::of_all(close(folder, &changes))?;
    folder.write_host_changes(&limits)
}

/// Whether nobody on this machine has addresses of a lab that is to be made.
pub(crate) fn has_free_addresses(folder: &Folder, plan: &Plan, user: bool) -> Result<bool> {
    if user {
        return Ok(outside::check_prefixes(plan).is_ok());
    }
    let doors = Opening::of(folder, plan)?;
    on_a_thread(|| {
        let mut socket = Socket::open().map_err(Error::of("host", "open a netlink socket"))?;
        Ok(doors.overlap(&mut socket)?.is_none())
    })
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
    // The file might be changed by others: undoing runs as root.
    if !change.is_ours() {
        let object = format!("{:?}", folder.path().join("host.json"));
        let reason = format!(
            "{change:?} is not a change that netloom makes, and is not undone; remove it there"
        );
        return Err(Error::Invalid { object: object.into(), reason });
    }
    let mut batch = Batch::new();
    match change {
        HostChange::Link(name) => {
            let object = format!("host link {name:?}");
            batch.push_tolerant(object.as_str(), &DeleteLink::new(name.as_str()));
            run(socket, &mut batch, &object, "remove")
        }
        HostChange::Port { iface, was_up } => {
            let object = format!("host interface {iface:?}");
            if is_port_of_others(socket, iface).map_err(Error::of(&object, "look up"))? {
                return Ok(());
            }
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
        HostChange::Sysctl { path, old, .. } => Ledger::open()?.release(path, old, &folder.path()),
    }
}

/// Whether an interface is a port of a bridge that is not one of netloom's: somebody has given it to that since.
fn is_port_of_others(socket: &mut Socket, iface: &str) -> netloom_netlink::Result<bool> {
    let Some(master) = socket.link(iface)?.and_then(|link| link.master) else { return Ok(false) };
    let own = format!("{MARK}{BRIDGE}");
    Ok(socket.link(master)?.is_some_and(|bridge| !bridge.name.starts_with(&own)))
}
