//! Keeps the nodes' `/etc/hosts` up to date while addresses change.
//!
//! A thread of the lab process receives address changes of all nodes by one socket (see
//! [`AddressWatch`]), queries the changed nodes, and writes the file if its text differs. It is idle while nothing
//! changes. All nodes share one file, in the tmpfs below their overlays. It is written in place, because nodes would
//! not see a replacement. A node that wrote its own `/etc/hosts` keeps that. Later lab processes reach the file
//! through the core's init, or through the spawner.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::{PoisonError, Weak};
use std::time::Duration;

use netloom_model::plan::NodeId;
use netloom_netlink::{AddressWatch, Changed};
use netloom_node::root::{HOSTS_OF_THE_CORE, HOSTS_OF_THE_SPAWNER};
use netloom_sys::{describe, journal, namespace};
use rustix::event::{PollFd, PollFlags};
use rustix::process::Pid;

use crate::run::resolving::Table;
use crate::run::running::Running;
use crate::stage::addresses::{self, Held};
use crate::stage::spaces::{NODES_AT_A_TIME, on_a_thread};
use crate::store::state::State;
use crate::{Error, Result};

/// Delay between a change of addresses and their reading, so that several changes are read at once.
const REST: Duration = Duration::from_millis(10);

/// Time limit of the wait for names after a change of the lab.
const PATIENCE: Duration = Duration::from_secs(2);

impl Running {
    /// Waits, for a bounded time, until the file has the names of the current lab.
    pub(crate) fn settle_names(&self) {
        self.settle_names_of(self.names_told());
    }

    /// Has the file written, and returns what [`Running::settle_names_of`] waits for.
    pub(crate) fn names_told(&self) -> u64 {
        self.kept.resolving.wake();
        self.kept.resolving.table().told
    }

    /// Waits, for a bounded time, until the file has the names of the lab at the time of a call of
    /// [`Running::names_told`].
    pub(crate) fn settle_names_of(&self, told: u64) {
        let resolving = &self.kept.resolving;
        let table = resolving.table();
        let behind = |table: &mut Table| table.runs && !table.over && table.seen_to < told;
        let waited = resolving.done.wait_timeout_while(table, PATIENCE, behind);
        let (table, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !table.runs {
            // No thread follows: the planned addresses are the best available.
            write(&self.state().plan.hosts, &files(self, &table));
        }
    }
}

/// Keeps the file up to date on a thread of its own, as long as the lab exists.
pub(crate) fn watch(running: Weak<Running>) {
    let thread = std::thread::Builder::new().name("netloom-hosts".into()).stack_size(256 << 10);
    let runs = |running: &Weak<Running>, runs: bool| {
        let Some(running) = running.upgrade() else { return };
        running.kept.resolving.table().runs = runs;
        running.kept.resolving.done.notify_all();
    };
    runs(&running, true);
    let theirs = Weak::clone(&running);
    let started = thread.spawn(move || {
        if let Err(e) = follow(&theirs) {
            let why = describe(&e);
            journal::line(format_args!(
                "netloom: /etc/hosts of nodes no longer follows addresses: {why}"
            ));
        }
        runs(&theirs, false);
    });
    if started.is_err() {
        // Without the thread the file stays as planned.
        runs(&running, false);
    }
}

/// Follows addresses from the time when there are nodes: the thread's own network namespace takes the kernel as
/// long as a node's, which the nodes shall not wait for.
fn follow(running: &Weak<Running>) -> Result<()> {
    let Some(wake) = running.upgrade().and_then(|r| r.kept.resolving.wake_of()) else {
        return Ok(());
    };
    let mut first = [PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN)];
    // The count stays, so the follower looks at once. Interrupted, it only begins earlier.
    let _ = rustix::event::poll(&mut first, None);
    Follower::new()?.run(running, &wake)
}

/// The thread, in a network namespace of its own, which has an id for the namespace of each node.
struct Follower {
    watch: AddressWatch,
    /// The watched nodes, by id: their inits and namespace ids. A namespace id is used once.
    heard: BTreeMap<NodeId, (Pid, i32)>,
    next: i32,
    /// Addresses of nodes, by id.
    held: BTreeMap<NodeId, Vec<Held>>,
    /// The text written last.
    written: String,
}

impl Follower {
    fn new() -> Result<Follower> {
        let object = "the nodes' addresses";
        namespace::new_network().map_err(Error::of(object, "watch"))?;
        let watch = AddressWatch::open().map_err(Error::of(object, "watch"))?;
        let (heard, held) = (BTreeMap::new(), BTreeMap::new());
        Ok(Follower { watch, heard, next: 1, held, written: String::new() })
    }

    fn run(&mut self, running: &Weak<Running>, wake: &OwnedFd) -> Result<()> {
        loop {
            let mut fds = [self.watch.as_fd(), wake.as_fd()]
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            let _ = rustix::event::poll(&mut fds, None);
            if fds[1].revents().is_empty() {
                std::thread::sleep(REST);
            }
            let mut count = [0; 8];
            // The content is irrelevant: it only wakes this thread.
            let _ = rustix::io::read(wake, &mut count);
            let Some(running) = running.upgrade() else { return Ok(()) };
            let (inits, files, told) = {
                let table = running.kept.resolving.table();
                if table.over {
                    return Ok(());
                }
                (table.inits.clone(), files(&running, &table), table.told)
            };
            let state = running.state();
            let changed = self.changed(&inits)?;
            self.read(&state, &inits, &changed)?;
            self.write(&state, &files);
            running.kept.resolving.table().seen_to = told;
            running.kept.resolving.done.notify_all();
        }
    }

    /// The nodes whose addresses to read: new ones, and those with changes.
    fn changed(&mut self, inits: &BTreeMap<NodeId, Pid>) -> Result<BTreeSet<NodeId>> {
        let same = |id: &NodeId, pid: &Pid| inits.get(id) == Some(pid);
        self.heard.retain(|id, (pid, _)| same(id, pid));
        self.held.retain(|id, _| self.heard.contains_key(id));
        let fresh: Vec<(NodeId, Pid)> = inits
            .iter()
            .filter(|(id, _)| **id != NodeId::CORE && !self.heard.contains_key(id))
            .map(|(id, pid)| (*id, *pid))
            .collect();
        for some in fresh.chunks(NODES_AT_A_TIME) {
            let mut spaces = Vec::new();
            for (id, pid) in some {
                self.heard.insert(*id, (*pid, self.next));
                // An init that has just ended has no addresses.
                spaces.extend(namespace::network_of(*pid).ok().map(|space| (self.next, space)));
                self.next += 1;
            }
            let numbered = spaces.iter().map(|(number, space)| (*number, space.as_fd()));
            let added = self.watch.add(numbered);
            added.map_err(Error::of("the nodes' addresses", "watch"))?;
        }
        let mut changed: BTreeSet<NodeId> = fresh.into_iter().map(|(id, _)| id).collect();
        let heard = self.watch.changed();
        match heard.map_err(Error::of("the nodes' addresses", "watch"))? {
            Changed::Anywhere => changed.extend(self.heard.keys()),
            Changed::In(numbers) => {
                let of = self.heard.iter().filter(|(_, (_, number))| numbers.contains(number));
                changed.extend(of.map(|(id, _)| *id));
            }
        }
        Ok(changed)
    }

    /// Reads the addresses of nodes.
    fn read(
        &mut self,
        state: &State,
        inits: &BTreeMap<NodeId, Pid>,
        changed: &BTreeSet<NodeId>,
    ) -> Result<()> {
        if changed.is_empty() {
            return Ok(());
        }
        let nodes = state.plan.nodes.iter().filter(|node| changed.contains(&node.id));
        let found: Vec<(NodeId, Vec<Held>)> = on_a_thread(|| {
            let one = |node: &netloom_model::plan::PlannedNode| {
                let space = namespace::network_of(*inits.get(&node.id)?).ok()?;
                // A node that is ending cannot be read, and is forgotten soon.
                Some((node.id, addresses::read(node, space.as_fd()).ok()?))
            };
            Ok(nodes.filter_map(one).collect())
        })?;
        self.held.extend(found);
        Ok(())
    }

    /// Writes the file if its text has changed.
    fn write(&mut self, state: &State, files: &[PathBuf]) {
        let mut text = state.plan.hosts_with(|node| {
            let held = self.held.get(&node.id)?.iter();
            Some(
                held.map(|h| (h.interface.as_str(), h.address.addr()))
                    .collect::<Vec<(&str, IpAddr)>>(),
            )
        });
        // Nodes on other hosts have the addresses of the plan: theirs are not followed here.
        text += state.across.as_ref().map_or("", |across| &across.names);
        if text == self.written {
            return;
        }
        write(&text, files);
        self.written = text;
    }
}

/// Writes a text into these files, of which some may be the same.
fn write(text: &str, files: &[PathBuf]) {
    let mut done = BTreeSet::new();
    for path in files {
        // The core of a lab of an earlier version does not have the file.
        let Ok(file) = File::options().read(true).write(true).open(path) else { continue };
        let Ok(found) = file.metadata() else { continue };
        if done.insert((found.dev(), found.ino()))
            && let Err(e) = put(&file, text)
        {
            journal::line(format_args!("netloom: {}: write: {e}", path.display()));
        }
    }
}

/// Writes a text to a file that others read: in a single write, before the rest of the old text is cut off.
fn put(file: &File, text: &str) -> io::Result<()> {
    let length = text.len() as u64;
    let mut old = vec![0; text.len()];
    let same = file.metadata()?.len() == length && file.read_exact_at(&mut old, 0).is_ok();
    if same && old == text.as_bytes() {
        return Ok(());
    }
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(length)
}

/// Paths of the file: through the core's init, and through the spawner's mount namespace.
fn files(running: &Running, table: &Table) -> Vec<PathBuf> {
    let root = |pid: Pid| format!("/proc/{}/root", pid.as_raw_nonzero());
    let core = table.inits.get(&NodeId::CORE).map(|pid| root(*pid) + HOSTS_OF_THE_CORE);
    let state = running.folder.path();
    let spawner =
        table.spawner.map(|pid| format!("{}{}{HOSTS_OF_THE_SPAWNER}", root(pid), state.display()));
    core.into_iter().chain(spawner).map(PathBuf::from).collect()
}
