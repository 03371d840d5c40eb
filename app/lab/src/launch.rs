//! Brings a lab up: the part of the user's command, before and while a lab process makes it.
//!
//! [`Launch::begin`] forks the spawner while the process is small, before the file is read. Then
//! [`Launch::up`] takes the lab's folder, forks the lab process and reads its progress. The
//! lab process continues if its maker is killed; on its maker's request it takes down what it made.

pub(crate) mod comparing;
pub mod free_addresses;
pub(crate) mod lab_main;
pub mod listing;
pub mod orphan;
pub mod previewing;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use netloom_model::Plan;
use netloom_model::lab::FileContent;
use netloom_model::plan::form::Forms;
use netloom_node::spawner::Spawner;
use netloom_sys::cgroup::{self, Groups};
use netloom_sys::process::{self, Forked, Namespaces};
use netloom_sys::subordinate::{self, Given};
use netloom_sys::{Unsupported, caps, disposition, feature, namespace};
use rustix::process::Signal;

use crate::build::maker::add_group;
use crate::build::routers;
use crate::build::{binds, machines};
use crate::events::{Event, GO, Serve};
use crate::keep::flows;
use crate::keep::wires::expressions;
use crate::launch::comparing::Asked;
use crate::launch::lab_main::Birth;
use crate::run::teardown;
use crate::stage::allowed::{allowed, hierarchies};
use crate::stage::lab_process::is_lab_process;
use crate::stage::{host, images, lab_process, socket_paths, users};
use crate::store::across::Across;
use crate::store::image::Used;
use crate::store::state::{Folder, State};
use crate::{Error, Result};

/// Time limit for a lock without a visible holder, and the interval of checks.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_LOOK: Duration = Duration::from_millis(5);

/// The outcome of `up`.
#[derive(Debug)]
pub enum Outcome {
    /// A lab process was started; the lab is up.
    Up {
        /// The number of nodes made.
        made: usize,
        /// Whether they joined nodes that lived already.
        adopted: bool,
        /// Changes by hand of a lab that lived already, one line per object.
        changed: Vec<String>,
        /// Programs that ended with an error: node, program, cause, and its last lines.
        troubles: Vec<String>,
        /// Commands of `exec` that failed and may, in the same form.
        notes: Vec<String>,
        /// The connection to the lab process; see [`Options::foreground`].
        life: UnixStream,
    },
    /// A lab process of the same content is already running.
    Runs {
        /// Changes by hand since it came up, one line per object.
        changed: Vec<String>,
    },
}

/// How to bring a lab up.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of labs.
    pub runtime: PathBuf,
    /// The folder of the lab file, for paths in it.
    pub base: PathBuf,
    /// Absolute path of the lab file, if there is one.
    pub file: Option<PathBuf>,
    /// The lab ends when its maker does.
    pub foreground: bool,
    /// Make nodes without their limits if this machine cannot set limits.
    pub ignore_limits: bool,
    /// Keep a lab that cannot come up, as far as it was made.
    pub keep: bool,
    /// Whether anybody looks at [`Event::Progress`]: each wakes the maker, on a processor that nodes could use.
    pub progress: bool,
    /// Called with the object of a long wait, and with the action after it.
    pub tell: fn(&str),
    /// Of a plan that is a host's part: its links to other hosts. A lab that is made then waits before programs start; see
    /// [`Launch::up_with`].
    pub across: Option<Across>,
}

/// A launch with its spawner.
pub struct Launch {
    spawner: Spawner,
}

impl Launch {
    /// Forks the spawner. The process must have one thread, and should not have read much yet.
    pub fn begin() -> Result<Launch> {
        Ok(Launch { spawner: Spawner::start()? })
    }

    /// Brings the lab up and returns when it is ready.
    ///
    /// # Errors
    /// Why it could not be made; nothing is left of it then. [`Error::Conflict`] if a lab of the same name and other
    /// content is already running.
    pub fn up(
        self,
        plan: Plan,
        options: &Options,
        serve: Serve,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Outcome> {
        self.up_with(plan, options, serve, on_event, &mut || false)
    }

    /// The same for a host's part of a lab. When it is made, without programs and without carriers of links to other hosts,
    /// `go` is asked, which waits for the other hosts; after `false` it is taken down. `go` is not asked for a lab that lives
    /// already.
    ///
    /// # Errors
    /// As [`Launch::up`].
    pub fn up_with(
        self,
        mut plan: Plan,
        options: &Options,
        serve: Serve,
        on_event: &mut dyn FnMut(&Event),
        go: &mut dyn FnMut() -> bool,
    ) -> Result<Outcome> {
        plan.make_absolute(&options.base);
        binds::settle(&mut plan.nodes, &options.runtime)?;
        binds::check_roots(&plan.nodes, &options.runtime)?;
        flows::check_tls(&plan.switches, &plan.slices)?;
        socket_paths::check(&Folder::new(&options.runtime, &plan.lab), &plan)?;
        machines::check(plan.nodes.iter())?;
        routers::check(&plan)?;
        let user = !caps::is_privileged();
        let hierarchies = possible(&plan, options)?;
        let folder = Folder::new(&options.runtime, &plan.lab);
        let asked = Asked { plan: &plan, file: options.file.as_deref() };
        // Images are fetched before others wait for the lab.
        let brought = match folder.is_up() {
            true => None,
            false => images::bring(&plan, user, on_event)?,
        };
        let Some(lock) = take_folder(&folder, options.tell)? else {
            return runs_already(&folder, asked);
        };
        let adopted = self.look_at_old(&folder, asked)?;
        let changed = adopted.as_ref().map_or_else(Vec::new, |s| comparing::by_hand(s, &plan));
        let many_users = match self.prepare_user(user, &plan, &folder, adopted.is_some()) {
            Ok(many) => many,
            Err(refused) => {
                if adopted.is_none() {
                    // Nothing has been made but the folder.
                    folder.remove()?;
                }
                return Err(refused);
            }
        };
        let mut _held = None;
        let state = match adopted {
            Some(state) => state,
            None => {
                let users = (user, many_users);
                let settled = brought.map(|b| b.settle(&folder, users, on_event)).transpose();
                let (used, hold) = match settled {
                    Ok(settled) => settled.unzip(),
                    Err(e) => {
                        folder.remove()?;
                        return Err(e);
                    }
                };
                _held = hold;
                let used = used.unwrap_or_default();
                fresh_state(&folder, plan, hierarchies, (user, many_users), (options, used))
            }
        };
        let adopt = folder.is_up();
        let (ours, theirs) = UnixStream::pair().map_err(Error::at("lab process", "connect"))?;
        // From the fork on there is something to take down when the user interrupts.
        let signals = disposition::catch_ending().map_err(Error::of("signals", "catch"))?;
        let forked = process::fork_alone(Namespaces::NONE, None)
            .map_err(Error::of("lab process", "fork"))?;
        match forked {
            Forked::Child => {
                drop(ours);
                let Options { foreground, keep, progress, .. } = *options;
                let birth = Birth { folder, state, lock, adopt, foreground, keep, progress };
                birth.live(self.spawner, theirs, serve)
            }
            Forked::Parent(pid) => {
                // The spawner ends with its last client: that must be the lab process.
                drop((theirs, lock, self.spawner));
                let lab_process = process::pidfd(pid).map_err(Error::of("lab process", "watch"))?;
                let folder = &folder;
                let making = Making { folder, stream: ours, lab_process, signals, adopted: adopt };
                making.follow(on_event, go, changed)
            }
        }
    }

    /// Looks for the remains of an earlier lab process: a lab to adopt, or a broken one, which is removed.
    fn look_at_old(&self, folder: &Folder, asked: Asked<'_>) -> Result<Option<State>> {
        let state = folder.read_state()?;
        match state {
            Some(state) if folder.is_up() => {
                if state.plan.digest == asked.plan.digest {
                    return Ok(Some(state));
                }
                Err(comparing::refusal(folder, &state, asked, false)?)
            }
            state => {
                let inits = teardown::find_inits(folder)?;
                if state.is_some() || !inits.is_empty() {
                    // The remover may have to enter the remains' user namespace.
                    orphan::empty_in_child(folder, state.as_ref(), inits)?;
                    folder.create()?;
                }
                Ok(None)
            }
        }
    }

    /// Puts the spawner into the lab's user namespace; returns whether a new one has many users.
    fn prepare_user(&self, user: bool, plan: &Plan, folder: &Folder, adopt: bool) -> Result<bool> {
        if !user {
            // Root needs no preparation; errors name what was refused.
            return Ok(false);
        }
        let living = if adopt { teardown::find_inits(folder)? } else { vec![] };
        match living.first() {
            Some(init) => {
                let ns =
                    namespace::user_of(init.pid).map_err(Error::of("user namespace", "open"))?;
                self.spawner.join_user_namespace(ns)?;
                Ok(false)
            }
            None => self.new_user_namespace(plan),
        }
    }

    fn new_user_namespace(&self, plan: &Plan) -> Result<bool> {
        let many = users::wants_many(plan) && Given::find().is_ok();
        match self.spawner.own_user_namespace(many) {
            Ok(Some(words)) if users::needs_many(plan) => Err(subordinate::refused(&words).into()),
            Ok(refusal) => Ok(many && refusal.is_none()),
            Err(refused) => {
                feature::namespaces()?;
                Err(refused.into())
            }
        }
    }
}

/// Makes the lab's folder and takes its lock; `None` if another process holds it.
fn take_folder(folder: &Folder, tell: fn(&str)) -> Result<Option<OwnedFd>> {
    let until = Instant::now() + LOCK_PATIENCE;
    let (mut told, mut ended) = (false, false);
    loop {
        folder.create()?;
        let lock = match folder.try_lock()? {
            // Short-lived holders: the spawner of a killed lab process, which ends as soon as it notices; a
            // listing; another maker that has not recorded its lab process yet.
            None if !has_lab_process(folder) && Instant::now() < until => {
                let left = until.saturating_duration_since(Instant::now());
                if !told && left < LOCK_PATIENCE - orphan::TELL {
                    tell(&orphan::holders_words(folder));
                    told = true;
                }
                if !ended && left < LOCK_PATIENCE / 2 {
                    // A stopped spawner does not notice that its client has ended.
                    orphan::end_holders(folder, &tell)?;
                    ended = true;
                }
                std::thread::sleep(LOCK_LOOK);
                continue;
            }
            lock => lock,
        };
        match lock {
            // The folder was removed meanwhile by a process that took the lab down: try again.
            Some(lock) if !folder.is_locked_by(&lock) => {}
            taken => return Ok(taken),
        }
    }
}

/// Whether a lab process makes or runs the lab.
pub fn has_lab_process(folder: &Folder) -> bool {
    folder.read_pid().is_some_and(|pid| is_lab_process(folder, pid))
}

/// The state of a lab that is about to be made.
fn fresh_state(
    folder: &Folder,
    plan: Plan,
    hierarchies: Vec<cgroup::Hierarchy>,
    (user, many_users): (bool, bool),
    (options, images): (&Options, BTreeMap<String, Used>),
) -> State {
    let mut groups = Groups::new(hierarchies, &folder.id(), BTreeSet::new());
    for node in &plan.nodes {
        add_group(&mut groups, &plan, node);
    }
    let mut state = State {
        images,
        forms: Forms::of(&plan, allowed(user, &plan)),
        wired: BTreeSet::new(),
        tapped: BTreeSet::new(),
        plan,
        groups,
        user,
        many_users,
        since: lab_process::now_ns() / 1_000_000_000,
        moved: vec![],
        lost: BTreeMap::new(),
        down: BTreeSet::new(),
        leaving: BTreeSet::new(),
        unfinished: BTreeSet::new(),
        file: options.file.clone(),
        across: options.across.clone(),
    };
    let mut plan = state.plan.clone();
    images::dress(&state, &mut plan);
    state.plan = plan;
    state
}

/// Whether this machine and this user can have the lab, as far as can be checked before anything is
/// made: doors, limits, paths of the host in its nodes, and images, which are fetched.
///
/// # Errors
/// The first part that is not possible.
pub fn check(plan: &Plan, options: &Options) -> Result<()> {
    possible(plan, options)?;
    users::try_out(plan, !caps::is_privileged())?;
    let mut plan = plan.clone();
    plan.make_absolute(&options.base);
    binds::settle(&mut plan.nodes, &options.runtime)?;
    binds::check_roots(&plan.nodes, &options.runtime)?;
    flows::check_tls(&plan.switches, &plan.slices)?;
    socket_paths::check(&Folder::new(&options.runtime, &plan.lab), &plan)?;
    for node in &plan.nodes {
        for file in &node.files {
            if let FileContent::From(path) = &file.content {
                let opened = netloom_sys::setup::open_of_lab(path);
                opened.map_err(Error::at(path, "open"))?;
            }
        }
    }
    images::bring(&plan, !caps::is_privileged(), &mut |_| ())?;
    Ok(())
}

/// The cgroup hierarchies for limits; refuses doors and limits that are not possible.
fn possible(plan: &Plan, options: &Options) -> Result<Vec<cgroup::Hierarchy>> {
    let user = !caps::is_privileged();
    if user {
        host::check_doors_of_user(plan)?;
    }
    users::check(plan, user)?;
    expressions::check_all(plan)?;
    hierarchies(user, plan, options.ignore_limits)
}

fn runs_already(folder: &Folder, asked: Asked<'_>) -> Result<Outcome> {
    match folder.read_state()? {
        _ if folder.has_failed() => Err(Error::Conflict {
            lab: asked.plan.lab.clone(),
            reason:
                "could not come up and was kept; take it down with `netloom down` first, or give \
                     --replace"
                    .into(),
        }),
        Some(state) if state.plan.digest != asked.plan.digest => {
            Err(comparing::refusal(folder, &state, asked, true)?)
        }
        Some(state) if folder.is_up() => {
            Ok(Outcome::Runs { changed: comparing::by_hand(&state, asked.plan) })
        }
        _ => Err(Error::Conflict {
            lab: asked.plan.lab.clone(),
            reason: "is being made or taken down just now; try again when that is done".into(),
        }),
    }
}

/// A lab being made, as its maker sees it.
struct Making<'a> {
    folder: &'a Folder,
    stream: UnixStream,
    lab_process: OwnedFd,
    signals: OwnedFd,
    adopted: bool,
}

impl Making<'_> {
    /// Reads events of the lab process until it is ready or has failed, or the user interrupts.
    fn follow(
        mut self,
        on_event: &mut dyn FnMut(&Event),
        go: &mut dyn FnMut() -> bool,
        changed: Vec<String>,
    ) -> Result<Outcome> {
        let mut text = Vec::new();
        while self.read_more(&mut text)? {
            while let Some(end) = text.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                let Ok(event) = serde_json::from_slice::<Event>(&line) else { continue };
                on_event(&event);
                match event {
                    Event::Progress { .. } => {}
                    Event::Prepared => self.answer(go()),
                    Event::Ready { made, troubles, notes } => {
                        let (adopted, life) = (self.adopted, self.stream);
                        return Ok(Outcome::Up { made, adopted, changed, troubles, notes, life });
                    }
                    Event::Failed { reason, unsupported } => {
                        return Err(self.failed(reason, unsupported));
                    }
                }
            }
        }
        let name = self.folder.name();
        Err(self.conflict(format!(
            "its process was killed while the lab was made; `netloom down {name}` removes what is \
             left"
        )))
    }

    /// Tells a lab process that waits whether to go on. One that has ended meanwhile has told why.
    fn answer(&self, go: bool) {
        if go {
            let _ = (&self.stream).write_all(GO);
        } else {
            let _ = self.stream.shutdown(std::net::Shutdown::Write);
        }
    }

    /// Reads the next events; `false` at the end.
    fn read_more(&mut self, text: &mut Vec<u8>) -> Result<bool> {
        use rustix::event::{PollFd, PollFlags};
        let mut fds =
            [PollFd::new(&self.stream, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
        // On an interruption or a failure, reading reports the cause.
        let _ = rustix::event::poll(&mut fds, None);
        if !fds[1].revents().is_empty() {
            return Err(self.give_up());
        }
        let mut buffer = [0; 4096];
        let n = self.stream.read(&mut buffer).map_err(Error::at("lab process", "listen to"))?;
        text.extend_from_slice(&buffer[..n]);
        Ok(n > 0)
    }

    /// The user interrupted: ends the lab process and removes what it has made.
    fn give_up(&self) -> Error {
        // A lab process may be killed at any moment; no signal is needed if it has ended.
        let _ = process::signal(&self.lab_process, Signal::KILL);
        process::wait_end(&self.lab_process, LOCK_PATIENCE);
        if self.adopted {
            return self.conflict("interrupted; its nodes live on as they were".into());
        }
        match orphan::down_orphan(self.folder.runtime(), self.folder.name(), &|_| {}) {
            Ok(()) => self.conflict("interrupted; nothing is left of it".into()),
            Err(left) => left,
        }
    }

    fn failed(&self, reason: String, unsupported: bool) -> Error {
        if unsupported {
            let needs = "see `netloom doctor`".into();
            return Unsupported { feature: "this lab", reason, needs }.into();
        }
        self.conflict(reason)
    }

    fn conflict(&self, reason: String) -> Error {
        Error::Conflict { lab: self.folder.name().to_owned(), reason }
    }
}
