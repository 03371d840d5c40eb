//! The shared-memory switches of a lab: their processes, and the plugs that join nodes and doors to them.
//!
//! A switch is a process of its own that hands out rings, found by its socket; programs of the host may
//! join there, too, if its mode permits. A link that ends in such a switch has a plug at that end: a
//! process that carries frames between the switch and an interface. The interface is a tap in
//! the node itself, if taps can be made and nothing has to be between node and switch; otherwise the end in the core
//! namespace of the link's veth pair, read and written by a packet socket. Where the kernel may forward among the switch's
//! ports ([`planes`]), it is a tap beside that end. An interface of the host is read and written where it is.
//!
//! Switches and plugs survive a kill of the lab process, and are restarted when they end. Ports
//! of a restarted switch continue by themselves; frames of a link without its plug are lost meanwhile.

mod planes;
mod ports;
mod process;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netloom_model::Plan;
use netloom_model::kinds::shm::{ShmSwitch, VdeFolder};
use netloom_model::merging::KeyChange;
use netloom_model::plan::port_names::MOST_PORT_NAME;
use netloom_model::plan::{LinkId, LinkSide, LinkSlot, NodeId, SwitchSlot};
use netloom_model::plan::{PlannedLink, PlannedSwitch};
use netloom_switch::control::requests::{Answer, Presence, Request, Shown};
use netloom_switch::control::{Connection, PATIENCE};

use self::planes::Planes;
use self::ports::{make_taps, open_interface};
use self::process::Plug;
pub use self::rules::SwitchOptions;
pub(crate) use self::rules::vlan_of;
use self::rules::{options_text, set_rules};
use crate::build::keeper::{Context, Fresh, Gone, Ground, Keeper};
use crate::stage::allowed::allowed;
use crate::stage::attach;
use crate::stage::role::{self, Pause, Process, Role, UnlistedProcess};
use crate::store::state::{Folder, State, make_private_dir, make_shared_dir};
use crate::{Error, Result, Subject};

// What a plan calls a port is a name for the protocol.
const _: () = assert!(MOST_PORT_NAME <= netloom_shm::protocol::MOST_NAME);

/// How long a reading of counters waits for a switch.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);

/// Time limit for new ports to join, and the interval of checks.
const JOIN_TIMEOUT: Duration = Duration::from_secs(3);
const JOIN_LOOK: Duration = Duration::from_millis(2);

/// The shared-memory switches of a lab.
#[derive(Default)]
pub(crate) struct Switches {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// By name.
    switches: BTreeMap<String, Process>,
    plugs: BTreeMap<LinkSide, Process>,
    /// What offers switches to clients of classic VDE, by the switch's name.
    vdes: BTreeMap<String, Process>,
    /// Their folders, which outlive them if they are killed.
    vde_folders: BTreeMap<String, PathBuf>,
    planes: Planes,
    /// Switches whose process is new, and does not know its ports that are interfaces.
    untold: BTreeSet<String>,
    pause: Pause,
}

impl Switches {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts missing switches, and the plugs of these links again.
    pub(crate) fn fit_links(&self, context: &Context<'_>, links: &[LinkSlot]) -> Result<()> {
        let mut inner = self.inner();
        inner.start_switches(context)?;
        let down = |at: &LinkSlot| context.state.down.contains(&context.state.plan.links[*at].id);
        // A link that is down has no plugs, so that nothing passes.
        let links: Vec<LinkSlot> = links.iter().copied().filter(|at| !down(at)).collect();
        inner.tell_of_ports(context);
        let plan = &context.state.plan;
        let ends = links.iter().flat_map(|at| [(&plan.links[*at], 0), (&plan.links[*at], 1)]);
        let ends: Vec<End<'_>> = ends.collect();
        for (link, side) in &ends {
            // A plug in the way holds the port and the lock.
            inner.forget((link.id, *side));
        }
        inner.plug_in(context, &ends)?;
        // Plugs join without this lock; others need it meanwhile.
        drop(inner);
        self.await_ports(context, &links)
    }

    /// Waits until the ports of these links have joined their switches. A plug that ends meanwhile is no
    /// failure: it is restarted.
    fn await_ports(&self, context: &Context<'_>, links: &[LinkSlot]) -> Result<()> {
        let plan = &context.state.plan;
        let mut wanted: BTreeMap<SwitchSlot, BTreeSet<String>> = BTreeMap::new();
        for link in links.iter().map(|l| &plan.links[*l]) {
            for side in 0..2 {
                let Some(switch) = plan.shm_switch_at(&link.ends[side]) else { continue };
                wanted.entry(switch).or_default().insert(plan.port_name(link, side));
            }
        }
        let until = Instant::now() + JOIN_TIMEOUT;
        for (switch, mut missing) in wanted {
            let name = &plan.switches[switch].name;
            // One limit for all: a switch that is stuck delays the others' look, but not for ever.
            while !missing.is_empty() && Instant::now() < until {
                let Answer::Shown(shown) = self.ask(context.folder, name, &Request::Show)? else {
                    break;
                };
                for port in shown.ports.iter().filter(|p| p.presence == Presence::Here) {
                    missing.remove(&port.name);
                }
                if !missing.is_empty() {
                    std::thread::sleep(JOIN_LOOK);
                }
            }
        }
        Ok(())
    }

    /// Starts one switch that was added to the plan.
    pub(crate) fn add(&self, context: &Context<'_>) -> Result<()> {
        self.inner().start_switches(context)
    }

    /// Ends one switch for good.
    pub(crate) fn remove(&self, folder: &Folder, switch: &str) {
        let mut inner = self.inner();
        inner.end_vde(switch);
        if let Some(process) = inner.switches.remove(switch) {
            process.end();
        }
        remove_files(folder, switch);
    }

    /// Sets those rules of a switch that differ from earlier ones.
    pub(crate) fn rule_anew(
        &self,
        folder: &Folder,
        switch: &str,
        old: &[&ShmSwitch],
        new: &ShmSwitch,
    ) -> Result<()> {
        for request in self.rule_changes(folder, switch, old, new)? {
            self.ask(folder, switch, &request)?;
        }
        Ok(())
    }

    /// What [`Switches::rule_anew`] asks for; also asked before anything of a file is applied, since it may be refused.
    pub(crate) fn rule_changes(
        &self,
        folder: &Folder,
        switch: &str,
        old: &[&ShmSwitch],
        new: &ShmSwitch,
    ) -> Result<Vec<Request>> {
        let object = Subject::of("switch", switch);
        let Answer::Shown(shown) = self.ask(folder, switch, &Request::Show)? else {
            let reason = "its process does not say which ports it has".to_owned();
            return Err(Error::Busy { object, reason });
        };
        rules::changes(&shown, old, new, &object)
    }

    /// Rules of ports and mirror sessions that were changed by hand, by switch. `shown` gives what a switch shows; one that does
    /// not answer is compared later.
    pub(crate) fn differences(
        state: &State,
        shown: impl Fn(&str) -> Option<Arc<Shown>>,
    ) -> Vec<(String, Vec<KeyChange>)> {
        let of_switch = |switch: &PlannedSwitch| {
            let (name, options) = (&switch.name, switch.kind.as_shm()?);
            let shown = shown(name)?;
            let found = rules::drifted(&shown, options, &Subject::of("switch", name)).ok()?;
            (!found.changes.is_empty()).then(|| (name.clone(), found.changes))
        };
        state.plan.switches.iter().filter_map(of_switch).collect()
    }

    /// Makes rules of ports and mirror sessions those of the file, where they were changed by hand.
    pub(crate) fn mend(&self, folder: &Folder, switch: &str, options: &ShmSwitch) -> Result<()> {
        let Answer::Shown(shown) = self.ask(folder, switch, &Request::Show)? else {
            return Ok(());
        };
        for request in rules::drifted(&shown, options, &Subject::of("switch", switch))?.requests {
            self.ask(folder, switch, &request)?;
        }
        Ok(())
    }

    /// The folder by which clients of classic VDE know a switch.
    pub(crate) fn vde_folder(
        folder: &Folder,
        switch: &str,
        options: &ShmSwitch,
    ) -> Option<PathBuf> {
        process::vde_folder(folder, switch, options)
    }

    /// Sends a request to a switch.
    pub(crate) fn ask(&self, folder: &Folder, switch: &str, request: &Request) -> Result<Answer> {
        self.ask_within(folder, switch, request, PATIENCE)
    }

    fn ask_within(
        &self,
        folder: &Folder,
        switch: &str,
        request: &Request,
        patience: Duration,
    ) -> Result<Answer> {
        let object = Subject::of("switch", switch);
        let socket = process::socket(folder, switch);
        let open = Connection::open(&socket).map_err(Error::of(&object, "connect"))?;
        let none = || Error::Busy {
            object: object.clone(),
            reason: "its process is not there at the moment".into(),
        };
        // A switch may be in the middle of starting again.
        open.ok_or_else(none)?.within(patience).ask(request).map_err(|e| match e {
            netloom_switch::Error::Refused(reason) => {
                Error::Busy { object: object.clone(), reason }
            }
            other => Error::of(&object, "ask")(other),
        })
    }

    /// What a switch shows; `None` while its process is not there, or does not answer soon.
    pub(crate) fn shown(&self, folder: &Folder, switch: &str) -> Option<Arc<Shown>> {
        match self.ask_within(folder, switch, &Request::Show, SHOWN_WITHIN) {
            Ok(Answer::Shown(shown)) => Some(shown.into()),
            _ => None,
        }
    }

    /// Whether all plugs of a link live.
    pub(crate) fn is_plugged(&self, plan: &Plan, link: &PlannedLink) -> bool {
        let inner = self.inner();
        let wanted = (0..2).filter(|side| plan.shm_switch_at(&link.ends[*side]).is_some());
        wanted.into_iter().all(|side| inner.plugs.get(&(link.id, side)).is_some_and(Process::lives))
    }
}

impl Keeper for Switches {
    fn lay(&self, ground: &Ground<'_>) -> Result<()> {
        make_taps(ground)
    }

    fn sweep(&self, folder: &Folder, plan: Option<&Plan>) -> Result<()> {
        end_processes(folder, plan)
    }

    fn fit(&self, context: &Context<'_>, fresh: Fresh<'_>) -> Result<()> {
        self.fit_links(context, fresh.links)
    }

    fn adopt(&self, context: &Context<'_>) -> Result<()> {
        let mut inner = self.inner();
        inner.start_switches(context)?;
        let mut missing = vec![];
        for (link, side) in joined(context.state) {
            let found = process::find_plug(&context.folder.plug_lock(link.id, side))?;
            match found {
                Some(plug) => drop(inner.plugs.insert((link.id, side), plug)),
                None => missing.push((link, side)),
            }
        }
        // Others go on: a lab with one port less is better than none.
        inner.plug_in(context, &missing).unwrap_or_else(|e| tell(&e));
        inner.tell_of_ports(context);
        Ok(())
    }

    fn forget(&self, _: &State, gone: Gone<'_>) {
        let mut inner = self.inner();
        for link in gone.links {
            (0..2).for_each(|side| inner.forget((link.id, side)));
        }
    }

    fn watched(&self) -> Vec<OwnedFd> {
        let inner = self.inner();
        let all = inner.switches.values().chain(inner.plugs.values()).chain(inner.vdes.values());
        all.filter_map(|p| p.pidfd.try_clone().ok()).collect()
    }

    fn tend(&self, context: &Context<'_>) -> Option<Duration> {
        let mut inner = self.inner();
        let ended = inner.take_ended();
        let missing = inner.is_missing(context.state);
        if !missing {
            return None;
        }
        // A copy, put back below: the restart needs the rest of `inner` for itself.
        let mut pause = inner.pause;
        let next = pause.restart(ended, "switches", || inner.restore(context));
        inner.pause = pause;
        next
    }

    fn is_whole(&self, state: &State) -> bool {
        let inner = self.inner();
        let mut switches = state.plan.switches.iter().filter(|s| s.kind.as_shm().is_some());
        let lives =
            |all: &BTreeMap<String, Process>, name| all.get(name).is_some_and(Process::lives);
        switches.all(|s| {
            lives(&inner.switches, &s.name) && (!offers_vde(s) || lives(&inner.vdes, &s.name))
        })
    }

    fn end(&self, folder: &Folder) {
        let mut inner = self.inner();
        // Plugs first: they would try to join again what ends.
        for (_, process) in std::mem::take(&mut inner.plugs) {
            process.end();
        }
        for switch in inner.vde_folders.keys().cloned().collect::<Vec<_>>() {
            inner.end_vde(&switch);
        }
        for (name, process) in std::mem::take(&mut inner.switches) {
            process.end();
            remove_files(folder, &name);
        }
    }
}

impl Inner {
    fn forget(&mut self, side: LinkSide) {
        if let Some(process) = self.plugs.remove(&side) {
            process.end();
        }
    }

    fn start_switches(&mut self, context: &Context<'_>) -> Result<()> {
        for switch in &context.state.plan.switches {
            let Some(options) = switch.kind.as_shm() else { continue };
            if self.switches.get(&switch.name).is_some_and(Process::lives) {
                continue;
            }
            // One of an earlier lab process goes on, with its ports.
            let found = process::find_switch(&process::socket(context.folder, &switch.name))?;
            let process = match found {
                Some(process) => process,
                None => {
                    self.untold.insert(switch.name.clone());
                    start_switch(context, &switch.name, options)?
                }
            };
            self.switches.insert(switch.name.clone(), process);
        }
        for switch in context.state.plan.switches.iter().filter(|s| offers_vde(s)) {
            self.offer_vde(context, switch)?;
        }
        Ok(())
    }

    /// Starts what offers a switch to clients of classic VDE, if it does not live.
    fn offer_vde(&mut self, context: &Context<'_>, switch: &PlannedSwitch) -> Result<()> {
        let Some(options) = switch.kind.as_shm() else { return Ok(()) };
        let Some(path) = process::vde_folder(context.folder, &switch.name, options) else {
            return Ok(());
        };
        if self.vdes.get(&switch.name).is_some_and(Process::lives) {
            return Ok(());
        }
        let process = match process::find_plug(&context.folder.vde_lock(&switch.name))? {
            Some(process) => process,
            None => {
                let text = options_text(&switch.name, options, context.state.user, None)?;
                process::start_vde(context.folder, &switch.name, &path, &text)?
            }
        };
        self.vdes.insert(switch.name.clone(), process);
        self.vde_folders.insert(switch.name.clone(), path);
        Ok(())
    }

    fn end_vde(&mut self, switch: &str) {
        if let Some(process) = self.vdes.remove(switch) {
            process.end();
        }
        if let Some(path) = self.vde_folders.remove(switch) {
            netloom_switch::classic::clear(&path);
        }
    }

    /// Tells new processes of switches what the ones before them knew of ports that are interfaces. If one could not take over
    /// the programs, its ports join again.
    fn tell_of_ports(&mut self, context: &Context<'_>) {
        for switch in std::mem::take(&mut self.untold) {
            let told = self.planes.tell(context, &switch);
            let again = match &told {
                Ok(true) => vec![],
                _ => self.beside(context.state, &switch),
            };
            for (link, side) in &again {
                self.forget((link.id, *side));
            }
            let failed = self.plug_in(context, &again).err();
            failed.or(told.err()).iter().for_each(tell);
        }
    }

    /// The ends of links in a switch that have a plug, and may be at interfaces.
    fn beside<'a>(&self, state: &'a State, switch: &str) -> Vec<End<'a>> {
        let of = |(link, side): &End<'_>| {
            let at = state.plan.shm_switch_at(&link.ends[*side]);
            at.is_some_and(|slot| state.plan.switches[slot].name == switch)
                && self.plugs.contains_key(&(link.id, *side))
                && planes::interfaces(state, link, *side).is_some()
        };
        joined(state).filter(of).collect()
    }

    /// Starts the plugs of those of these ends of links that are in such a switch. All are tried; one reason is enough.
    fn plug_in(&mut self, context: &Context<'_>, ends: &[End<'_>]) -> Result<()> {
        let plan = &context.state.plan;
        let mut of: BTreeMap<SwitchSlot, Vec<End<'_>>> = BTreeMap::new();
        for end in ends {
            if let Some(switch) = plan.shm_switch_at(&end.0.ends[end.1]) {
                of.entry(switch).or_default().push(*end);
            }
        }
        let mut failed = None;
        for (switch, ends) in of {
            let switch = &plan.switches[switch].name;
            // A kernel that does not forward leaves the switch as it was before.
            let mut taps = self.planes.join(context, switch, &ends).unwrap_or_else(|e| {
                tell(&e);
                BTreeMap::new()
            });
            for end in ends {
                let tap = taps.remove(&(end.0.id, end.1));
                failed = self.start_plug(context, end, switch, tap).err().or(failed);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Starts the plug of an end of a link at a tap beside its port, or at the interface that it has.
    fn start_plug(
        &mut self,
        context: &Context<'_>,
        (link, side): End<'_>,
        switch: &str,
        tap: Option<OwnedFd>,
    ) -> Result<()> {
        let (kind, fd) = match tap {
            Some(tap) => ("beside", tap),
            None => open_interface(context, link, side)?,
        };
        let name = context.state.plan.port_name(link, side);
        let lock = context.folder.plug_lock(link.id, side);
        let socket = process::socket(context.folder, switch);
        let plug = Plug { lock: &lock, switch: &socket, name: &name, kind };
        self.plugs.insert((link.id, side), process::start_plug(&plug, fd)?);
        Ok(())
    }

    /// Forgets processes that have ended; returns the shortest life among them.
    fn take_ended(&mut self) -> Option<Duration> {
        let mut shortest = None;
        let mut keep = |process: &Process| {
            let lives = process.lives();
            if !lives {
                let lived = process.since.elapsed();
                shortest = Some(shortest.map_or(lived, |s: Duration| s.min(lived)));
            }
            lives
        };
        self.switches.retain(|_, p| keep(p));
        self.plugs.retain(|_, p| keep(p));
        self.vdes.retain(|_, p| keep(p));
        shortest
    }

    fn is_missing(&self, state: &State) -> bool {
        let switch = |s: &netloom_model::plan::PlannedSwitch| {
            s.kind.as_shm().is_some() && !self.switches.contains_key(&s.name)
                || offers_vde(s) && !self.vdes.contains_key(&s.name)
        };
        let plug = |(l, side): (&PlannedLink, usize)| !self.plugs.contains_key(&(l.id, side));
        state.plan.switches.iter().any(switch) || joined(state).any(plug)
    }

    /// Starts all missing processes, plugs only if their interface is present.
    fn restore(&mut self, context: &Context<'_>) -> Result<()> {
        self.start_switches(context)?;
        let missing: Vec<End<'_>> = joined(context.state)
            .filter(|(link, side)| !self.plugs.contains_key(&(link.id, *side)))
            .collect();
        let done = self.plug_in(context, &missing);
        self.tell_of_ports(context);
        done
    }
}

/// An end of a link.
type End<'a> = (&'a PlannedLink, usize);

/// Writes to the lab's log what a lab goes on without.
fn tell(error: &Error) {
    netloom_sys::journal::line(format_args!("netloom: {}", netloom_sys::describe(error)));
}

/// The ends of links that are in shared-memory switches.
pub(crate) fn ends(plan: &Plan) -> impl Iterator<Item = (&PlannedLink, usize)> {
    let both = plan.links.iter().flat_map(|link| [(link, 0), (link, 1)]);
    both.filter(|(link, side)| plan.shm_switch_at(&link.ends[*side]).is_some())
}

/// The ends that need a plug: a link that is down, or with a lost interface, has none.
fn joined(state: &State) -> impl Iterator<Item = (&PlannedLink, usize)> {
    let out = |id: &LinkId| state.down.contains(id) || state.lost.contains_key(id);
    ends(&state.plan).filter(move |(link, _)| !out(&link.id))
}

fn start_switch(context: &Context<'_>, name: &str, options: &ShmSwitch) -> Result<Process> {
    let state = context.folder.switch_state(name);
    make_private_dir(&context.folder.switch_files())?;
    // Users that may join a switch must reach its socket.
    make_shared_dir(&process::socket(context.folder, name))?;
    // Later processes have the rules in their state, with what was changed by hand.
    let fresh = !state.exists();
    let space = match allowed(context.state.user, &context.state.plan).planes {
        true => attach::open(context.inits, NodeId::CORE)?,
        false => None,
    };
    // An interface that was made just now is in no programs.
    let before = |(link, side)| planes::interfaces(context.state, link, side).filter(|_| !fresh);
    let of_this = |(link, side): &(&PlannedLink, usize)| {
        let at = context.state.plan.shm_switch_at(&link.ends[*side]);
        at.is_some_and(|slot| context.state.plan.switches[slot].name == name)
    };
    let plane =
        space.as_ref().map(|_| joined(context.state).filter(of_this).filter_map(before).collect());
    let text = options_text(name, options, context.state.user, plane)?;
    let process = process::start_switch(context.folder, name, &text, space)?;
    if fresh && let Err(e) = set_rules(context.folder, name, options) {
        // With only a part of its rules it would pass frames that it must not pass.
        process.end();
        remove_files(context.folder, name);
        return Err(e);
    }
    Ok(process)
}

fn offers_vde(switch: &PlannedSwitch) -> bool {
    switch.kind.as_shm().is_some_and(|options| options.vde != VdeFolder::None)
}

/// Ends the switches and plugs of a lab whose lab process has ended.
fn end_processes(folder: &Folder, plan: Option<&Plan>) -> Result<()> {
    // Without a plan only files tell which switches there were.
    let seen = plan.is_none().then(|| seen(folder)).into_iter().flatten();
    let planned = plan.into_iter().flat_map(|p| &p.switches).filter_map(|switch| {
        let vde = process::vde_folder(folder, &switch.name, switch.kind.as_shm()?);
        Some((switch.name.clone(), vde))
    });
    let switches: Vec<(String, Option<PathBuf>)> = planned.chain(seen).collect();
    for lock in folder.plug_locks() {
        if let Some(process) = process::find_plug(&lock)? {
            process.end();
        }
    }
    for (name, vde) in switches {
        if let Some(process) = process::find_switch(&process::socket(folder, &name))? {
            process.end();
        }
        if let Some(path) = vde {
            netloom_switch::classic::clear(&path);
        }
        remove_files(folder, &name);
    }
    Ok(())
}

/// Ends processes of a lab that neither a socket nor a lock leads to any longer, and removes what they serve outside of the
/// lab's folder.
pub(crate) fn end_astray(folder: &Folder) {
    for UnlistedProcess { role, words, process, .. } in role::of_lab(folder) {
        process.end();
        match (role, words.as_slice()) {
            (Role::Vde, [_, _, path, ..]) => netloom_switch::classic::clear(Path::new(path)),
            (Role::Switch, [socket, ..]) => remove_socket(Path::new(socket)),
            _ => {}
        }
    }
}

/// The switches of a lab whose plan is not known, with the folders by which clients of VDE know them: those whose files are
/// there.
fn seen(folder: &Folder) -> Vec<(String, Option<PathBuf>)> {
    let with_vde = |name: String| {
        let vde = process::offered(&folder.vde_lock(&name));
        (name, vde)
    };
    folder.switches_with_state().into_iter().map(with_vde).collect()
}

/// Removes the files of a switch, its socket and state; the folder of sockets with the last one.
fn remove_files(folder: &Folder, switch: &str) {
    let _ = std::fs::remove_file(folder.switch_state(switch));
    remove_socket(&process::socket(folder, switch));
}

fn remove_socket(socket: &Path) {
    let _ = std::fs::remove_file(socket);
    let _ = socket.parent().map(std::fs::remove_dir);
}
