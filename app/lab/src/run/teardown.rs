//! Takes a lab down: with the knowledge of a running lab process, or from its folder alone.
//!
//! Continues past every failure and reports all of them. Programs are first asked to end; then every
//! init is killed, and with it everything in its node. It returns when the kernel has destroyed links
//! and namespaces, which it detects by links into some of them, planted before.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use netloom_model::plan::{NodeId, PlannedNode};
use netloom_netlink::{Batch, EndSpec, Socket, VethSpec};
use netloom_node::control::{Connection, Request};
use netloom_node::spec::{socket_index, socket_name};
use netloom_node::{init, spawner};
use netloom_sys::cgroup::{self, Groups};
use netloom_sys::{caps, namespace, process};
use rustix::process::{Pid, Signal};

use crate::build::carrying;
use crate::build::starting::has_work;
use crate::keep::keepers::Keepers;
use crate::keep::switches;
use crate::stage::images;
use crate::stage::inits::{Init, Inits};
use crate::stage::orphans::Orphans;
use crate::stage::spaces::on_a_thread;
use crate::stage::strangers::Strangers;
use crate::store::moved::Home;
use crate::store::state::{Folder, SOCKETS, State};
use crate::{Error, Result};

/// Grace period of programs that were asked to end.
const GRACE: Duration = Duration::from_millis(1000);

/// Time limit for the kernel to end a killed process, and to destroy namespaces.
const KERNEL_TIMEOUT: Duration = Duration::from_secs(30);

/// The number of namespaces with a planted link.
const WITNESSES: usize = 8;

/// Takes down everything of a lab and removes its folder. The caller holds the lab's lock, or is
/// its lab process.
pub(crate) fn take_down(folder: &Folder, state: Option<&State>, inits: Vec<Init>) -> Result<()> {
    match empty(folder, state, inits) {
        Err(e) if !matches!(e, Error::Visited { .. }) => Err(e),
        emptied => {
            let removed = folder.remove();
            // Without the folder nobody could find what was left.
            images::release(state, folder);
            removed.and(emptied)
        }
    }
}

/// Takes down everything of a lab and empties its folder except for the lock.
///
/// # Errors
/// Everything that could not be removed; the folder then stays. [`Error::Visited`] if everything was removed.
pub(crate) fn empty(folder: &Folder, state: Option<&State>, mut inits: Vec<Init>) -> Result<()> {
    // With a low limit of open files, leave some for the rest: other inits are found again later.
    let has_guest = |init: &Init| state.is_some_and(|s| s.moved.iter().any(|m| m.node == init.id));
    // Hosts of interfaces first: these must be returned while their namespace is there.
    inits.sort_by_key(|init| !has_guest(init));
    inits.truncate(room());
    let working = state.iter().flat_map(|s| s.plan.nodes.iter().filter(|n| has_work(n)));
    stop_programs(folder, &working.collect::<Vec<_>>());
    let mut failures = Vec::new();
    if let Some(state) = state {
        failures.extend(return_to_host(state, &inits));
    }
    let plan = state.map(|s| &s.plan);
    let keepers = Keepers::default();
    failures.extend(keepers.all().iter().filter_map(|keeper| keeper.sweep(folder, plan).err()));
    // A lab process knows its own.
    if folder.read_pid() != Some(rustix::process::getpid().as_raw_nonzero().get()) {
        switches::end_astray(folder);
    }
    // The rest is removed while the kernel destroys namespaces; but kernel threads charged to a
    // node stay in its cgroups until its network namespace is destroyed.
    let charged = state.is_some_and(|s| s.plan.nodes.iter().any(|n| n.charge_receive));
    let mut rest = Vec::new();
    let groups = state.map_or_else(|| seen_groups(folder, &inits), |s| Ok(s.groups.clone()));
    let strangers = Strangers::with(&inits);
    let mut gone = Ok(());
    let ended = end_inits(inits, || {
        rest.extend(end_others(folder).err());
        if !charged {
            rest.extend(remove_rest(&keepers, folder, &groups));
        }
        gone = strangers.wait_gone();
        gone.is_ok()
    });
    failures.extend(ended.err());
    if charged {
        rest.extend(remove_rest(&keepers, folder, &groups));
    }
    failures.extend(rest);
    failures.extend(groups.err());
    // Objects that could not be removed must stay findable.
    if failures.is_empty() {
        failures.extend(folder.empty().err());
    }
    if failures.is_empty() {
        return gone;
    }
    failures.extend(gone.err());
    Error::of_all(failures)
}

/// Undoes changes of the host and removes cgroups; continues past failures and returns them.
fn remove_rest(keepers: &Keepers, folder: &Folder, groups: &Result<Groups>) -> Vec<Error> {
    let restored = keepers.all().into_iter().map(|keeper| keeper.restore_host(folder));
    let removed = groups.as_ref().map_or(Ok(()), remove_groups);
    restored.chain([removed]).filter_map(Result::err).collect()
}

/// The cgroups of a lab without a state, as the kernel shows them.
fn seen_groups(folder: &Folder, inits: &[Init]) -> Result<Groups> {
    let id = folder.id();
    let pids = inits.iter().map(|init| init.pid.as_raw_nonzero().get());
    let hierarchies = match caps::is_privileged() {
        true => cgroup::hierarchies_of_root(),
        false => match cgroup::hierarchy_with(&id, pids) {
            Ok(None) => cgroup::hierarchies_of_user(),
            found => found.map(|found| found.into_iter().collect()),
        },
    };
    let hierarchies = hierarchies.map_err(Error::of("cgroups", "look for"))?;
    Ok(Groups::new(hierarchies, &id, BTreeSet::new()))
}

/// Removes a lab's cgroups. An unfinished init may still be in one: it does not listen yet, so it was not found,
/// and it is about to end with its spawner.
fn remove_groups(groups: &Groups) -> Result<()> {
    // A state that was changed must not make root remove cgroups of others.
    if let Some(place) = groups.astray() {
        let reason = "the state has its cgroups there, where none are; nothing there is removed";
        return Err(Error::Invalid {
            object: format!("{place:?}").into(),
            reason: reason.to_owned(),
        });
    }
    let until = Instant::now() + KERNEL_TIMEOUT;
    loop {
        let Err(refused) = groups.remove() else { return Ok(()) };
        let unfinished: Vec<Init> = groups.everybody().into_iter().filter_map(unfinished).collect();
        if unfinished.is_empty() || Instant::now() >= until {
            // Their processes may have ended meanwhile.
            let object = "cgroups";
            return groups.remove().map_err(|_| Error::of(object, "remove")(refused));
        }
        kill(&unfinished, until)?;
    }
}

/// A process that is an init, or a spawner that is about to become one.
fn unfinished(pid: i32) -> Option<Init> {
    let pid = Pid::from_raw(pid)?;
    // Before its name is read: a number that is used again proves nothing.
    let pidfd = process::pidfd(pid).ok()?;
    let name = process::name_of(pid)?;
    let is_one = [spawner::NAME, init::NAME].contains(&name.as_str());
    is_one.then_some(Init { id: NodeId::CORE, pid, pidfd })
}

/// The inits of a lab that listen in its folder: all, or as many as files may be open.
///
/// # Errors
/// Another process listens where an init should.
pub(crate) fn find_inits(folder: &Folder) -> Result<Vec<Init>> {
    let Some(sockets) = folder.sockets_dir()? else { return Ok(vec![]) };
    let found = ids(folder).filter_map(|id| match Init::find(&sockets, id, &id.to_string()) {
        Err(stranger @ Error::Busy { .. }) => Some(Err(stranger)),
        // One that cannot be reached now, for want of descriptors, is found again.
        found => found.ok().flatten().map(Ok),
    });
    found.take(room()).collect()
}

/// The number of sockets of inits in a lab's folder at which somebody listens. Nobody is ended for that, so that they
/// need no proof.
pub(crate) fn count_inits(folder: &Folder) -> usize {
    let sockets = folder.sockets();
    let listens = |id: &NodeId| {
        let path = sockets.join(socket_name(id.get()));
        Connection::open(&id.to_string(), &path).is_ok_and(|found| found.is_some())
    };
    ids(folder).filter(listens).count()
}

/// The numbers of the sockets of inits in a lab's folder.
fn ids(folder: &Folder) -> impl Iterator<Item = NodeId> {
    let names = folder.names_in(Some(SOCKETS)).into_iter();
    names.filter_map(|name| socket_index(name.to_str()?)).map(NodeId::new)
}

/// Ends the inits that were not found yet, as many at a time as files may be open.
fn end_others(folder: &Folder) -> Result<()> {
    loop {
        let others = find_inits(folder)?;
        if others.is_empty() {
            return Ok(());
        }
        kill(&others, Instant::now() + KERNEL_TIMEOUT)?;
    }
}

/// The number of inits, or connections to them, that this process may hold open and still work.
fn room() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    // Half: connections to each, and the files of others' work.
    limit.map_or(usize::MAX, |limit| usize::try_from(limit / 2).unwrap_or(usize::MAX).max(1))
}

/// Returns interfaces of the host that were moved into nodes.
fn return_to_host(state: &State, inits: &[Init]) -> Vec<Error> {
    let hosts: Vec<_> = state.moved.iter().filter(|m| m.home == Home::Host).cloned().collect();
    if hosts.is_empty() {
        return vec![];
    }
    let open = |node: NodeId| -> Option<(NodeId, OwnedFd)> {
        let path = |i: &Init| namespace::network_of(i.pid).ok();
        let found = inits.iter().find(|i| i.id == node)?;
        Some((node, path(found)?))
    };
    let spaces: Vec<(NodeId, OwnedFd)> = hosts.iter().filter_map(|m| open(m.node)).collect();
    let failed = carrying::return_all(state, &Inits::new(), &spaces, &hosts);
    failed.into_iter().map(|(_, failure)| failure).collect()
}

/// Asks the programs of these nodes (ids and names) to end and waits for their inits, which end
/// after them, up to the grace.
pub(crate) fn stop_programs(folder: &Folder, nodes: &[&PlannedNode]) {
    nodes.chunks(room()).for_each(|some| stop_some(folder, some));
}

fn stop_some(folder: &Folder, nodes: &[&PlannedNode]) {
    let mut asked = Vec::new();
    for node in nodes {
        let path = folder.sockets().join(socket_name(node.id.get()));
        // An init that does not answer is killed below.
        if let Ok(Some(connection)) = Connection::open(&node.name, &path) {
            let grace = GRACE + node.kind.as_vm().map_or(Duration::ZERO, netloom_vm::more_grace);
            let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(1000);
            if connection.send(&Request::Stop { grace_ms }).is_ok() {
                asked.push((connection, Instant::now() + grace + Duration::from_millis(200)));
            }
        }
    }
    // All were asked before one is waited for: their grace runs at the same time.
    for (connection, until) in &asked {
        // The connection ends with the init.
        process::wait_readable(connection, until.saturating_duration_since(Instant::now()));
    }
}

/// Kills inits and waits until they, their namespaces and their links no longer exist. Once the processes
/// have ended it always runs `meanwhile`, in the caller's namespace; that returns whether the kernel can
/// destroy the namespaces.
pub(crate) fn end_inits(inits: Vec<Init>, meanwhile: impl FnOnce() -> bool) -> Result<()> {
    // Before the kill: a dead process shows no namespace.
    let witnesses = on_a_thread(|| Ok(plant(&inits)));
    let until = Instant::now() + KERNEL_TIMEOUT;
    // Each takes a descriptor more. Orphans of further nodes go on trying, and the end takes
    // longer.
    let orphans = Orphans::of(&inits, room() / 2);
    let killed = kill(&inits, until);
    orphans.give_up();
    drop(inits);
    let nobody_else = meanwhile();
    if let (Ok(()), Ok(Some(mut socket)), true) = (&killed, witnesses, nobody_else) {
        wait_alone(&mut socket, until);
    }
    killed
}

/// Kills inits and waits until they have ended.
fn kill(inits: &[Init], until: Instant) -> Result<()> {
    for init in inits {
        process::signal(&init.pidfd, Signal::KILL)
            .map_err(Error::of(format!("init {}", init.pid.as_raw_nonzero()), "kill"))?;
    }
    for init in inits {
        if !process::wait_end(&init.pidfd, until.saturating_duration_since(Instant::now())) {
            let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
            let object = format!("process {}", init.pid.as_raw_nonzero());
            return Err(Error::at(object, "wait for its end")(late));
        }
    }
    Ok(())
}

/// Makes a namespace for this thread with links into some of the inits'; it lives as long as the socket.
/// `None` if that is not possible; then teardown does not wait for the kernel.
fn plant(inits: &[Init]) -> Option<Socket> {
    // Nothing is planted where one of them was born.
    let inits: Vec<&Init> = inits.iter().filter(|init| init.has_own_network()).collect();
    if inits.is_empty() {
        return None;
    }
    namespace::new_network().ok()?;
    let mut socket = Socket::open().ok()?;
    let step = inits.len().div_ceil(WITNESSES).max(1);
    let last = inits.len() - 1;
    let chosen = (0..inits.len()).filter(|i| i % step == 0 || *i == last);
    let spaces: Vec<OwnedFd> =
        chosen.filter_map(|i| namespace::network_of(inits[i].pid).ok()).collect();
    let names: Vec<String> = (0..spaces.len()).map(|i| format!("nlw{i}")).collect();
    let mut batch = Batch::new();
    for (name, space) in names.iter().zip(&spaces) {
        let there = EndSpec { netns: Some(space.as_fd()), ..EndSpec::new("nlwitness") };
        batch.push("witness", &VethSpec::new(EndSpec::new(name), there));
    }
    socket.run(&mut batch).ok()?;
    Some(socket)
}

/// Waits until only the loopback is left in the socket's namespace.
fn wait_alone(socket: &mut Socket, until: Instant) {
    while Instant::now() < until {
        match socket.links() {
            Ok(links) if links.len() > 1 => std::thread::sleep(Duration::from_millis(1)),
            _ => return,
        }
    }
}
