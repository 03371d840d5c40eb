//! Bringing a lab up, and taking down one whose process is gone: what the user's command does.
//!
//! [`Launch::begin`] forks the spawner while the process is small, before the file is read. Then
//! [`Launch::up`] takes the lab's folder, forks the lab process and listens to its progress. The
//! lab process goes on when its maker is killed; when its maker asks, it takes down what it made.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use netloom_model::Plan;
use netloom_model::plan::PlannedNode;
use netloom_node::spawner::Spawner;
use netloom_node::spec::Prepare;
use netloom_sys::cgroup::{self, Groups};
use netloom_sys::process::{self, Forked, Namespaces};
use netloom_sys::{Unsupported, caps, feature, namespace};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::making::{Init, absolute_paths};
use crate::running::{Running, is_lab_process, name_process, raise_open_files};
use crate::state::{Folder, State};
use crate::{Error, Result, Service, describe, door, teardown};

/// Pause between two looks at a lock that somebody has.
const LOCK_LOOK: Duration = Duration::from_millis(5);

/// Starts what serves a running lab; what it gives is kept until the lab process ends.
pub type Serve = fn(&Path, Arc<dyn Service>) -> std::result::Result<Box<dyn std::any::Any>, String>;

/// What happens while a lab comes up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// So much of something is done.
    Progress {
        /// `nodes`, `links` or `programs`.
        what: String,
        /// How many are done.
        done: usize,
        /// Of how many.
        total: usize,
    },
    /// Everything is there. Names of nodes that were made.
    Ready {
        /// How many nodes were made now.
        made: usize,
    },
    /// It could not be made; nothing is left of it.
    Failed {
        /// Why.
        reason: String,
        /// The machine or the user lacks something.
        unsupported: bool,
    },
}

/// What `up` found and did.
#[derive(Debug)]
pub enum Outcome {
    /// A lab process was started; the lab is up.
    Up {
        /// How many nodes were made.
        made: usize,
        /// They joined others that lived already.
        adopted: bool,
        /// The connection to the lab process; see [`Options::foreground`].
        life: UnixStream,
    },
    /// A lab process of the same content runs already.
    Runs,
}

/// How to bring a lab up.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of labs.
    pub runtime: PathBuf,
    /// The folder of the lab file, for paths in it.
    pub base: PathBuf,
    /// The lab ends when its maker does.
    pub foreground: bool,
    /// Make nodes without the limits they have in the file, where limits cannot be set.
    pub ignore_limits: bool,
}

/// A launch that has its spawner.
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
    /// Why it could not be made; nothing is left of it then. A lab of the same name and another
    /// content that runs already is a [`Error::Conflict`].
    pub fn up(
        self,
        mut plan: Plan,
        options: &Options,
        serve: Serve,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Outcome> {
        absolute_paths(&mut plan.nodes, &options.base);
        let user = !caps::is_privileged();
        if user && door::wanted(&plan) {
            return Err(door::unsupported().into());
        }
        let hierarchies = hierarchies(user, &plan, options.ignore_limits)?;
        let folder = Folder::new(&options.runtime, &plan.lab);
        let Some(lock) = take_folder(&folder)? else {
            return runs_already(&folder, &plan);
        };
        let adopted = self.look_at_old(&folder, &plan)?;
        self.prepare_user(user, &folder, adopted.is_some())?;
        let state = match adopted {
            Some(state) => state,
            None => {
                let limited = |(i, n): (usize, &PlannedNode)| n.limits.memory.map(|_| i);
                let memory = plan.nodes.iter().enumerate().filter_map(limited).collect();
                let groups = Groups::new(hierarchies, &folder.id(), memory);
                State { plan, groups, user, since: crate::status::now_ns() / 1_000_000_000 }
            }
        };
        let adopt = folder.is_up();
        let (ours, theirs) = UnixStream::pair().map_err(Error::state("lab process", "connect"))?;
        let forked = process::fork_alone(Namespaces::NONE, None)
            .map_err(Error::system("lab process", "fork"))?;
        match forked {
            Forked::Child => {
                drop(ours);
                let birth = Birth { folder, state, lock, adopt, foreground: options.foreground };
                birth.live(self.spawner, theirs, serve)
            }
            Forked::Parent(_) => {
                // The spawner ends with its last client: that must be the lab process.
                drop((theirs, lock, self.spawner));
                follow(ours, &folder, adopt, on_event)
            }
        }
    }

    /// What an earlier lab process left: a lab to adopt, or remains, which are removed.
    fn look_at_old(&self, folder: &Folder, plan: &Plan) -> Result<Option<State>> {
        let state = folder.read_state()?;
        match state {
            Some(state) if folder.is_up() => {
                if state.plan.digest == plan.digest {
                    return Ok(Some(state));
                }
                Err(Error::Conflict {
                    lab: plan.lab.clone(),
                    reason: "lives on from another file after its process was killed; remove it \
                             with `netloom down` first"
                        .into(),
                })
            }
            state => {
                let inits = teardown::find_inits(folder);
                if state.is_some() || !inits.is_empty() {
                    // The remover may have to enter the remains' user namespace.
                    empty_in_child(folder, state.as_ref(), inits)?;
                    folder.create()?;
                }
                Ok(None)
            }
        }
    }

    fn prepare_user(&self, user: bool, folder: &Folder, adopt: bool) -> Result<()> {
        if !user {
            return feature_check();
        }
        let living = if adopt { teardown::find_inits(folder) } else { vec![] };
        match living.first() {
            Some(init) => {
                let ns = namespace::user_of(init.pid)
                    .map_err(Error::system("user namespace", "open"))?;
                self.spawner.join_user_namespace(ns)?;
            }
            None => {
                if let Err(refused) = self.spawner.own_user_namespace() {
                    feature::namespaces()?;
                    return Err(refused.into());
                }
            }
        }
        Ok(())
    }
}

/// Makes the lab's folder and takes its lock; `None` when somebody has it.
fn take_folder(folder: &Folder) -> Result<Option<OwnedFd>> {
    loop {
        folder.create()?;
        let lock = match folder.try_lock()? {
            // A killed lab process leaves its spawner, which ends as soon as it sees it.
            None if !has_lab_process(folder) => Some(folder.wait_lock()?),
            lock => lock,
        };
        match lock {
            // Somebody who took the lab down has removed the folder meanwhile: the next one is ours.
            Some(lock) if !folder.is_locked_by(&lock) => {}
            taken => return Ok(taken),
        }
    }
}

/// Whether somebody makes or runs the lab: one who has not noted itself yet counts too.
pub fn has_lab_process(folder: &Folder) -> bool {
    folder.read_pid().is_none_or(|pid| is_lab_process(folder, pid))
}

/// As root everything is tried as it comes; errors name what was refused.
#[allow(clippy::unnecessary_wraps, reason = "the counterpart of the user's checks")]
fn feature_check() -> Result<()> {
    Ok(())
}

/// Where limits can be set, and the refusal when the plan has limits and there is nowhere.
fn hierarchies(user: bool, plan: &Plan, ignore_limits: bool) -> Result<Vec<cgroup::Hierarchy>> {
    let found = if user { cgroup::hierarchies_of_user() } else { cgroup::hierarchies_of_root() };
    let found = found.map_err(Error::system("cgroups", "look for"))?;
    let has = |c: &str| found.iter().any(|h| h.controllers.iter().any(|have| have == c));
    for node in plan.nodes.iter().filter(|_| !ignore_limits) {
        let wanted = [
            ("cpu", node.limits.cpu_milli.is_some()),
            ("memory", node.limits.memory.is_some()),
            ("pids", node.limits.processes.is_some()),
        ];
        if let Some((lacking, _)) = wanted.iter().find(|(c, wants)| *wants && !has(c)) {
            let mut why = feature::no_limits(!user);
            why.reason = format!("node {:?} has a {lacking} limit, and {}", node.name, why.reason);
            why.needs.push_str("; or make it without limits: netloom up --ignore-limits …");
            return Err(why.into());
        }
    }
    Ok(found)
}

fn runs_already(folder: &Folder, plan: &Plan) -> Result<Outcome> {
    let running = folder.read_state()?;
    match running {
        Some(state) if state.plan.digest == plan.digest && folder.is_up() => Ok(Outcome::Runs),
        Some(state) if state.plan.digest != plan.digest => Err(Error::Conflict {
            lab: plan.lab.clone(),
            reason: "runs already from another file; take it down with `netloom down` first, or \
                     give this one another name with --name"
                .into(),
        }),
        _ => Err(Error::Conflict {
            lab: plan.lab.clone(),
            reason: "is being made or taken down just now; try again when that is done".into(),
        }),
    }
}

/// Listens to the lab process until it is ready or has failed.
fn follow(
    stream: UnixStream,
    folder: &Folder,
    adopted: bool,
    on_event: &mut dyn FnMut(&Event),
) -> Result<Outcome> {
    let life = stream.try_clone().map_err(Error::state("lab process", "listen to"))?;
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(Error::state("lab process", "listen to"))?;
        let Ok(event) = serde_json::from_str::<Event>(&line) else { continue };
        on_event(&event);
        match event {
            Event::Progress { .. } => {}
            Event::Ready { made } => return Ok(Outcome::Up { made, adopted, life }),
            Event::Failed { reason, unsupported: false } => {
                return Err(Error::Conflict { lab: folder.name().to_owned(), reason });
            }
            Event::Failed { reason, unsupported: true } => {
                let needs = "see `netloom doctor`".into();
                return Err(Unsupported { feature: "this lab", reason, needs }.into());
            }
        }
    }
    Err(Error::Conflict {
        lab: folder.name().to_owned(),
        reason: format!(
            "its process was killed while the lab was made; `netloom down {}` removes what is left",
            folder.name()
        ),
    })
}

/// A lab process about to live.
struct Birth {
    folder: Folder,
    state: State,
    lock: OwnedFd,
    adopt: bool,
    foreground: bool,
}

impl Birth {
    /// The life of a lab process.
    fn live(self, spawner: Spawner, maker: UnixStream, serve: Serve) -> ! {
        name_process();
        // It leaves the session: no key and no hang-up of the maker's terminal reaches it.
        let _ = rustix::process::setsid();
        // What the maker's caller had open stays with the caller.
        let mut keep = spawner.descriptors().to_vec();
        keep.extend([self.lock.as_fd(), maker.as_fd()]);
        process::close_all_but(&keep);
        let code = match self.run(spawner, maker, serve) {
            Ok(()) => 0,
            Err(e) => {
                eprintln!("netloom: {}", describe(&e));
                1
            }
        };
        process::exit_now(code)
    }

    fn run(self, spawner: Spawner, maker: UnixStream, serve: Serve) -> Result<()> {
        let Birth { folder, state, lock, adopt, foreground } = self;
        redirect_output(&folder)?;
        let open_files = raise_open_files();
        let signals = process::catch(&[Signal::TERM.as_raw(), Signal::INT.as_raw()])
            .map_err(Error::system("signals", "catch"))?;
        process::set_ignored(Signal::PIPE.as_raw(), true);
        let pipe = || {
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
                .map_err(|e| Error::state("pipe", "make")(e.into()))
        };
        let (end, ended) = pipe()?;
        let telling = Telling(maker.try_clone().map_err(Error::state("maker", "tell"))?);
        let made = (|| {
            if !adopt {
                folder.write_state(&state)?;
            }
            folder.write_pid(rustix::process::getpid().as_raw_nonzero().get())?;
            if state.user {
                let ns = namespace::user_of(spawner.pid())
                    .map_err(Error::system("user namespace", "open"))?;
                namespace::enter_user(ns).map_err(Error::system("lab process", "join"))?;
            }
            state.groups.create().map_err(Error::system("cgroups", "make"))?;
            let (reports, status) = pipe()?;
            spawner.prepare(prepare(&folder, &state, open_files), &status, &lock)?;
            Ok::<_, Error>(reports)
        })();
        let reports = match made {
            Ok(reports) => reports,
            Err(e) => {
                spawner.end();
                let inits = teardown::find_inits(&folder);
                return give_up(&telling, e, teardown::take_down(&folder, Some(&state), inits));
            }
        };
        let running = Arc::new(Running::new(folder, state, spawner, reports, ended));
        let brought_up = bring_up(&running, adopt, &telling, serve);
        let server = match brought_up {
            Ok(server) => server,
            // A lab that lived before stays as it is: only what was to be made is missing.
            Err(e) if adopt => return give_up(&telling, e, Ok(())),
            Err(e) => return give_up(&telling, e, running.take_down()),
        };
        let watched = foreground.then_some(&maker);
        let asked = wait_for_end(&signals, watched, &end);
        let result = if asked { Ok(()) } else { running.take_down() };
        drop(server);
        drop(lock);
        result
    }
}

/// Makes the lab, serves it, and tells the maker.
fn bring_up(
    running: &Arc<Running>,
    adopt: bool,
    telling: &Telling,
    serve: Serve,
) -> Result<Box<dyn std::any::Any>> {
    if adopt {
        running.adopt()?;
    }
    let progress = |what: &str, done: usize, total: usize| {
        telling.tell(&Event::Progress { what: what.to_owned(), done, total });
    };
    let made = running.make(&progress)?;
    let service: Arc<dyn Service> = Arc::clone(running) as Arc<dyn Service>;
    let server = serve(&running.folder.path(), service)
        .map_err(|reason| Error::Conflict { lab: running.folder.name().to_owned(), reason })?;
    running.folder.mark_up()?;
    let nodes = made.iter().filter(|i| **i < running.state.plan.nodes.len()).count();
    telling.tell(&Event::Ready { made: nodes });
    Ok(server)
}

/// Tells why the lab could not be made, and what could not be removed.
fn give_up(telling: &Telling, error: Error, removed: Result<()>) -> Result<()> {
    let unsupported = matches!(error, Error::Unsupported(_));
    let mut reason = describe(&error);
    if let Err(left) = &removed {
        reason = format!("{reason}\nand could not be removed: {}", describe(left));
    }
    telling.tell(&Event::Failed { reason, unsupported });
    Err(error)
}

/// Tells the maker; a maker that went away does not matter.
struct Telling(UnixStream);

impl Telling {
    fn tell(&self, event: &Event) {
        if let Ok(mut line) = serde_json::to_vec(event) {
            line.push(b'\n');
            let _ = (&self.0).write_all(&line);
        }
    }
}

fn prepare(folder: &Folder, state: &State, open_files: (Option<u64>, Option<u64>)) -> Prepare {
    Prepare {
        lab: state.plan.lab.clone(),
        state: folder.path(),
        runtime: folder.runtime().to_owned(),
        user: state.user,
        hosts: state.plan.hosts.clone(),
        open_files,
    }
}

/// Standard input from nowhere, output into the lab's own log.
fn redirect_output(folder: &Folder) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let path = folder.path().join("lab.log");
    let mut options = std::fs::File::options();
    let log = options.create(true).append(true).mode(0o600).open(&path);
    let log = log.map_err(Error::state(&path, "open"))?;
    let null = std::fs::File::open("/dev/null").map_err(Error::state("/dev/null", "open"))?;
    let fail = |e: rustix::io::Errno| Error::state(&path, "write output to")(e.into());
    rustix::stdio::dup2_stdin(&null).map_err(fail)?;
    rustix::stdio::dup2_stdout(&log).map_err(fail)?;
    rustix::stdio::dup2_stderr(&log).map_err(fail)
}

/// Waits until the lab is to end: by a signal, with its maker, or because it has been taken down
/// (`true`).
fn wait_for_end(signals: &OwnedFd, maker: Option<&UnixStream>, end: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags};
    loop {
        let mut fds = vec![PollFd::new(end, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        fds.extend(maker.map(|m| PollFd::new(m, PollFlags::IN)));
        if rustix::event::poll(&mut fds, None).is_ok_and(|n| n > 0) {
            return !fds[0].revents().is_empty();
        }
    }
}

/// Takes down a lab whose process is gone. The caller's process must have one thread and is not
/// good for much afterwards: an ordinary user's joins the lab's user namespace.
///
/// # Errors
/// [`Error::NoLab`] when there is none, [`Error::Conflict`] when its process lives.
pub fn down_orphan(runtime: &Path, name: &str) -> Result<()> {
    let folder = Folder::new(runtime, name);
    if !folder.exists() {
        return Err(Error::NoLab(name.to_owned()));
    }
    let _lock = match end_and_lock(&folder) {
        Ok(lock) => lock,
        // Its process has just removed it.
        Err(_) if !folder.exists() => return Ok(()),
        Err(e) => return Err(e),
    };
    if folder.exists() { clean(&folder, folder.read_state()?.as_ref()) } else { Ok(()) }
}

/// Waits for the lock, and asks whoever still makes or runs the lab to end. A lab process notes
/// itself a moment after it has the lock, so it is looked for until it is found.
fn end_and_lock(folder: &Folder) -> Result<OwnedFd> {
    let mut asked = false;
    loop {
        if let Some(lock) = folder.try_lock()? {
            return Ok(lock);
        }
        let alive = folder.read_pid().filter(|p| !asked && is_lab_process(folder, *p));
        if let Some(pidfd) = alive.and_then(Pid::from_raw).and_then(|p| process::pidfd(p).ok()) {
            process::signal(pidfd, Signal::TERM).map_err(Error::system("lab process", "end"))?;
            asked = true;
        }
        std::thread::sleep(LOCK_LOOK);
    }
}

fn clean(folder: &Folder, state: Option<&State>) -> Result<()> {
    let inits = teardown::find_inits(folder);
    if let (Some(init), false) = (inits.first(), caps::is_privileged()) {
        join_user_namespace(init)?;
    }
    teardown::take_down(folder, state, inits)
}

/// Removes remains and leaves the calling process where it is.
fn empty_in_child(folder: &Folder, state: Option<&State>, inits: Vec<Init>) -> Result<()> {
    let tried = feature::in_child(|| {
        let result = match inits.first().filter(|_| !caps::is_privileged()) {
            Some(init) => join_user_namespace(init),
            None => Ok(()),
        };
        result.and_then(|()| teardown::empty(folder, state, inits)).map_err(|e| {
            netloom_sys::Error::call("remains", "remove", std::io::Error::other(describe(&e)))
        })
    });
    tried.map_err(|reason| Error::Conflict { lab: folder.name().to_owned(), reason })
}

fn join_user_namespace(init: &Init) -> Result<()> {
    let ns = namespace::user_of(init.pid).map_err(Error::system("user namespace", "open"))?;
    namespace::enter_user(ns.as_fd()).map_err(Error::system("user namespace of the lab", "join"))
}
