//! The life of a lab process: makes the lab, serves it, takes it down.
//!
//! [`launch`](crate::launch) forks it from the user's command. It leaves its maker's session, closes files that are
//! not its own, and reports its progress to its maker. It ends when the lab has been taken down: by a call of its
//! API, by SIGTERM or SIGINT, or, in the foreground, with its maker. If it is killed, everything else stays.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use netloom_model::plan::PlannedNode;
use netloom_node::spawner::Spawner;
use netloom_node::spec::Prepare;
use netloom_sys::{describe, disposition, namespace, process};
use rustix::process::Signal;

use crate::events::{Event, GO, Serve};
use crate::run::interfaces::Places;
use crate::run::respawning::prepare;
use crate::run::running::{Again, Kept, Made, Phase, Running};
use crate::run::teardown;
use crate::stage::lab_process::{few_files, name_process, raise_open_files};
use crate::store::state::{Folder, State};
use crate::{Error, Result, Service};

/// Time limit for the end of a lab that is taken down while it is made.
const DOWN_TIMEOUT: Duration = Duration::from_secs(60);

/// The file that takes the output of a lab process.
const LOG: &str = "lab.log";

/// The server of a lab, kept while the lab runs.
type Server = Box<dyn std::any::Any + Send>;

/// A lab process at its start.
pub(crate) struct Birth {
    pub(crate) folder: Folder,
    pub(crate) state: State,
    /// The lab's lock, held for life.
    pub(crate) lock: OwnedFd,
    /// Whether the lab lives already and is adopted.
    pub(crate) adopt: bool,
    /// Whether the lab ends with its maker.
    pub(crate) foreground: bool,
    /// Whether a lab that cannot come up is kept.
    pub(crate) keep: bool,
    /// Whether the maker shows progress.
    pub(crate) progress: bool,
}

impl Birth {
    /// The life of a lab process.
    pub(crate) fn live(self, spawner: Spawner, maker: UnixStream, serve: Serve) -> ! {
        name_process(self.folder.name());
        disposition::restore_defaults();
        // Leave the session: signals of the maker's terminal no longer reach this process.
        let _ = rustix::process::setsid();
        // Close files inherited from the maker's caller.
        let mut keep = spawner.descriptors().to_vec();
        keep.extend([self.lock.as_fd(), maker.as_fd()]);
        process::close_all_but(&keep);
        let code = match self.run(spawner, maker, serve) {
            Ok(()) => 0,
            Err(e) => {
                netloom_sys::journal::line(format_args!("netloom: {}", describe(&e)));
                1
            }
        };
        process::exit_now(code)
    }

    fn run(self, spawner: Spawner, maker: UnixStream, serve: Serve) -> Result<()> {
        let Birth { folder, state, lock, adopt, foreground, keep, progress } = self;
        redirect_output(&folder)?;
        let open_files = raise_open_files();
        // Looked up before the process joins a user namespace, in which an ordinary user is root.
        let records = netloom_record::Folder::root().ok();
        let signals = process::catch(&[Signal::TERM.as_raw(), Signal::INT.as_raw()])
            .map_err(Error::of("signals", "catch"))?;
        process::set_ignored(Signal::PIPE.as_raw(), true);
        let pipe = || {
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
                .map_err(Error::at("pipe", "make"))
        };
        let (end, ended) = pipe()?;
        let copied = maker.try_clone().map_err(Error::at("maker", "tell"))?;
        let telling = Telling { maker: copied, progress };
        // A closure, so that whatever fails in it is undone below.
        let made = (|| {
            if !adopt {
                folder.write_state(&state)?;
            }
            folder.write_pid(rustix::process::getpid().as_raw_nonzero().get())?;
            if state.user {
                let ns = namespace::user_of(spawner.pid())
                    .map_err(Error::of("user namespace", "open"))?;
                namespace::enter_user(ns).map_err(Error::of("lab process", "join"))?;
            }
            let (reports, status) = pipe()?;
            let network_ahead = !adopt && !state.user && state.plan.nodes.iter().any(is_outer);
            let prepare = Prepare { network_ahead, ..prepare(&folder, &state, open_files) };
            spawner.begin_prepare(prepare, &status, &lock)?;
            // Meanwhile the spawner mounts.
            state.groups.create().map_err(Error::of("cgroups", "make"))?;
            spawner.finish_prepare()?;
            Ok::<_, Error>(reports)
        })();
        let nodes = state.plan.nodes.len();
        let reports = match made {
            Ok(reports) => reports,
            Err(e) => {
                spawner.end();
                if adopt {
                    return Err(give_up(&telling, e, Ok(()), None, nodes));
                }
                let inits = teardown::find_inits(&folder).unwrap_or_default();
                let removed = teardown::take_down(&folder, Some(&state), inits);
                return Err(give_up(&telling, e, removed, None, nodes));
            }
        };
        let (woken, wake) = pipe()?;
        let kept_lock = lock.try_clone().map_err(Error::at("lock", "copy"))?;
        let running = Arc::new_cyclic(|me| {
            let kept = Kept::new(serve, me.clone(), Arc::new(Places(me.clone())), &spawner, wake);
            let again = Again { lock: kept_lock, open_files };
            Running::new(folder, state, (spawner, reports, again), (ended, records), kept)
        });
        let coming = Coming { running: &running, telling: &telling, end: &end, adopt, keep };
        let server = coming.up(serve)?;
        let watched = foreground.then_some(&maker);
        let asked = wait_for_end(&running, &signals, watched, &[&end, &woken]);
        let result = if asked { Ok(()) } else { running.take_down() };
        drop(server);
        drop(lock);
        result
    }
}

/// Whether a node is in no other, and gets a user namespace of its own.
fn is_outer(node: &PlannedNode) -> bool {
    node.parent.is_none() && !node.privileged
}

/// A lab that comes up.
struct Coming<'a> {
    running: &'a Arc<Running>,
    telling: &'a Telling,
    /// Written to when the lab has been taken down.
    end: &'a OwnedFd,
    adopt: bool,
    keep: bool,
}

impl Coming<'_> {
    /// Brings the lab up, or keeps it as far as it was made if requested; returns its server.
    ///
    /// # Errors
    /// Why it cannot come up; the maker has been told. It has been taken down, unless it lived before.
    fn up(&self, serve: Serve) -> Result<Server> {
        let Coming { running, telling, .. } = self;
        let (error, server) = match self.serve(serve) {
            Err(error) => (error, None),
            Ok(server) => match bring_up(running, telling, self.end) {
                Ok(()) => return Ok(server),
                Err(error) if self.keep && !self.adopt && running.enter(Phase::Failed) => {
                    stay(running, telling, &error);
                    return Ok(server);
                }
                Err(error) => (error, Some(server)),
            },
        };
        let phase = running.phase();
        let hint = (phase == Phase::Starting)
            .then_some("`netloom up --keep` leaves a lab that failed as it is, to be examined");
        let (error, removed, hint) = match phase {
            Phase::Ended => {
                process::wait_end(self.end, DOWN_TIMEOUT);
                (Error::TakenDown, Ok(()), None)
            }
            // A lab that lived before stays: only the missing parts are still missing.
            _ if self.adopt => (error, Ok(()), None),
            _ => (error, running.take_down(), hint),
        };
        // Running calls, as one for the end of the lab, get their answer first.
        drop(server);
        Err(give_up(telling, error, removed, hint, running.state().plan.nodes.len()))
    }

    /// Finds living parts, and serves the lab from then on: it can be inspected while it is made.
    fn serve(&self, serve: Serve) -> Result<Server> {
        let running = self.running;
        crate::run::hosts_file::watch(Arc::downgrade(running));
        if self.adopt {
            running.adopt()?;
        }
        let service: Arc<dyn Service> = Arc::clone(running) as Arc<dyn Service>;
        serve(&running.folder.path(), service)
            .map_err(|reason| Error::Conflict { lab: running.folder.name().to_owned(), reason })
    }
}

/// Makes the lab and tells the maker. `end` becomes readable when it is taken down meanwhile.
fn bring_up(running: &Arc<Running>, telling: &Telling, end: &OwnedFd) -> Result<()> {
    let progress = |what: &str, done: usize, total: usize| {
        if !telling.progress {
            return;
        }
        telling.tell(&Event::Progress { what: what.to_owned(), done, total });
    };
    // A lab that was up before has its word already.
    let waits = running.state().across.is_some() && !running.folder.is_up();
    let go = || -> Result<()> {
        if waits {
            telling.wait_for_go(end)?;
        }
        crate::run::far_carriers::watch(Arc::downgrade(running));
        Ok(())
    };
    let Made { nodes, troubles, notes } = running.make(&progress, &go, true)?;
    running.serve_scopes()?;
    crate::run::tending::watch_loads(Arc::downgrade(running));
    if !running.enter(Phase::Up) {
        return Err(Error::NoLab(running.folder.name().to_owned()));
    }
    running.folder.mark_up()?;
    telling.tell(&Event::Ready { made: nodes.len(), troubles, notes });
    Ok(())
}

/// Marks the lab as one that could not come up and is kept, and tells the maker.
fn stay(running: &Arc<Running>, telling: &Telling, error: &Error) {
    let mut reason = describe(error);
    if let Err(unnoted) = running.folder.mark_failed(&reason) {
        netloom_sys::journal::line(format_args!("netloom: {}", describe(&unnoted)));
    }
    crate::run::tending::watch_loads(Arc::downgrade(running));
    let name = running.folder.name();
    reason.push_str(&format!("\nthe partial lab is kept; `netloom down {name}` removes it"));
    telling.tell(&Event::Failed { reason, unsupported: false });
}

/// Tells the maker why the lab could not be made, and what could not be removed or else how to see more.
/// Returns the reason.
fn give_up(
    telling: &Telling,
    error: Error,
    removed: Result<()>,
    hint: Option<&str>,
    nodes: usize,
) -> Error {
    let unsupported = matches!(error, Error::Unsupported(_));
    let mut reason = describe(&error);
    if let Some(few) = few_files(nodes) {
        reason = format!("{reason}\n{few}");
    }
    match (&removed, hint) {
        (Err(left), _) => {
            reason = format!("{reason}\nand could not be removed: {}", describe(left));
        }
        (Ok(()), Some(hint)) => reason = format!("{reason}\n{hint}"),
        (Ok(()), None) => {}
    }
    telling.tell(&Event::Failed { reason, unsupported });
    error
}

/// Tells the maker; it does not matter if the maker has ended.
struct Telling {
    maker: UnixStream,
    /// Whether it wants to know of progress.
    progress: bool,
}

impl Telling {
    /// Tells that a part is made, and waits until the maker has heard the same of all others.
    ///
    /// # Errors
    /// The maker has ended or says that another host failed, or the lab is taken down meanwhile.
    fn wait_for_go(&self, end: &OwnedFd) -> Result<()> {
        use std::io::Read;

        use rustix::event::{PollFd, PollFlags};
        self.tell(&Event::Prepared);
        loop {
            let mut fds =
                [PollFd::new(&self.maker, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
            // On an interruption it is asked again.
            let _ = rustix::event::poll(&mut fds, None);
            if !fds[1].revents().is_empty() {
                return Err(Error::TakenDown);
            }
            if fds[0].revents().is_empty() {
                continue;
            }
            let mut word = [0; GO.len()];
            return match (&self.maker).read_exact(&mut word) {
                Ok(()) if word == GO => Ok(()),
                _ => Err(Error::NotAllReady),
            };
        }
    }

    fn tell(&self, event: &Event) {
        if let Ok(mut line) = serde_json::to_vec(event) {
            line.push(b'\n');
            let _ = (&self.maker).write_all(&line);
        }
    }
}

/// Redirects standard input from /dev/null and output to the lab's log.
fn redirect_output(folder: &Folder) -> Result<()> {
    let (path, log) = (folder.path().join(LOG), folder.append_to(LOG)?);
    let null = std::fs::File::open("/dev/null").map_err(Error::at("/dev/null", "open"))?;
    let fail = |e: rustix::io::Errno| Error::at(&path, "write output to")(e);
    rustix::stdio::dup2_stdin(&null).map_err(fail)?;
    rustix::stdio::dup2_stdout(&log).map_err(fail)?;
    rustix::stdio::dup2_stderr(&log).map_err(fail)
}

/// Waits for the end of the lab: by a signal, with its maker, or because it has been taken down
/// (`true`). Meanwhile restarts what ends on its own. `pipes`: one is written to when the lab is down, the other
/// when the set of watched descriptors has changed.
fn wait_for_end(
    running: &Running,
    signals: &OwnedFd,
    maker: Option<&UnixStream>,
    pipes: &[&OwnedFd; 2],
) -> bool {
    use rustix::event::{PollFd, PollFlags};
    let [end, woken] = pipes;
    // Try again what could not be started when the lab was adopted.
    let mut again = Some(Duration::ZERO);
    loop {
        let watched = running.watched();
        let mut fds: Vec<PollFd<'_>> =
            [*end, *woken, signals].map(|fd| PollFd::new(fd, PollFlags::IN)).into();
        fds.extend(maker.map(|m| PollFd::new(m, PollFlags::IN)));
        let first = fds.len();
        fds.extend(watched.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let timeout = again.map(process::timespec);
        if rustix::event::poll(&mut fds, timeout.as_ref()).is_err() {
            continue;
        }
        let ready = |i: usize| !fds[i].revents().is_empty();
        if ready(0) {
            return true;
        }
        if ready(2) || (maker.is_some() && ready(3)) {
            return false;
        }
        if ready(1) {
            let mut drained = [0; 64];
            // The content is irrelevant: it only wakes this loop.
            let _ = rustix::io::read(woken, &mut drained);
        }
        if again.is_some() || (first..fds.len()).any(ready) {
            again = running.tend();
        }
    }
}
