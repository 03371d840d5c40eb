//! Process 1 of a node.
//!
//! Forked from the spawner and never exec'd, so it shares the spawner's pages. It joins the node's cgroups,
//! builds the node's file system, sets sysctls, enters the node's user namespace if it has one, closes inherited
//! descriptors, drops dangerous capabilities and reports. Then it waits: it reaps children, runs the node's
//! programs, writes their log and answers on its control socket. When it ends, the kernel ends the node. Until it
//! has reported, it dies with its spawner; afterwards its socket identifies it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use netloom_model::lab::Ready;
use netloom_sys::Failure;
use netloom_sys::caps::Grant;
use netloom_sys::own_user::{Helper, Taken};
use netloom_sys::process::Ready as ReadyToFork;
use netloom_sys::setup::{Real, Setup};
use netloom_sys::{cgroup, keyring, namespace, process, scm, sysctl, title};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Resource, Rlimit};

use crate::by_init::deputy;
use crate::control::{Answer, MAX_MESSAGE, NodeReport, Request};
use crate::programs::{Programs, command};
use crate::ready;
use crate::root::Shared;
use crate::settle;
use crate::spec::{Kind, NodeSpec, Prepare, SCOPES, log_names, socket_name};

/// Its name in the process list.
pub const NAME: &str = "netloom-init";

/// First and longest pause between two checks for readiness.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const SLOWEST_LOOK: Duration = Duration::from_millis(50);

/// Limits on the CPU time that a node's processes use, and on how long they are active, before the node
/// counts as busy instead of starting; see [`settle`].
const SETTLING_CPU: Duration = Duration::from_millis(250);
const SETTLING: Duration = Duration::from_secs(3);

/// The variable that shows which folder of labs an init belongs to.
const SHOWN: &str = "NETLOOM_RUNTIME_DIR";

/// What an init inherits from the spawner. It drops all of this before it reports.
pub(crate) struct Inherited {
    pub(crate) prepare: Prepare,
    pub(crate) shared: Shared,
    /// Where to report: one message, `INDEX ok` or `INDEX` and the error.
    pub(crate) status: OwnedFd,
    /// The spawner's pidfd.
    pub(crate) spawner: OwnedFd,
    /// The lab's lock, held by every process that can still create something.
    pub(crate) lock: OwnedFd,
}

/// Becomes the init of `spec`. The current directory is the folder of control sockets. `helper` makes the node's
/// network, if that is not there yet.
pub(crate) fn become_init(spec: NodeSpec, helper: Option<Helper>, inherited: &Inherited) -> ! {
    let index = spec.index;
    // Join first, so that the cgroups account for everything created from here on.
    let joined = cgroup::open_v1(&spec.tasks).and_then(|groups| groups.enter_files());
    match joined.and_then(|()| Outside::set_up(spec, helper, inherited)) {
        Ok(outside) => go_on(outside, inherited),
        Err(e) => fail(index, inherited, &words(e)),
    }
}

/// Continues an init prepared by [`make_ready`].
pub(crate) fn go_on(outside: Outside, inherited: &Inherited) -> ! {
    let index = outside.spec.index;
    match outside.set_up_inside(inherited) {
        Ok(mut init) => {
            // The init is in place now: processes with more capabilities than the node's programs may inspect
            // it.
            let _ = process::show();
            report(inherited, &format!("{index} ok\n"));
            process::close_all_but(&init.descriptors());
            // From here the socket names this init, so it may outlive its spawner.
            let _ = process::die_with_parent(false);
            init.run()
        }
        Err(reason) => fail(index, inherited, &reason),
    }
}

fn fail(index: usize, inherited: &Inherited, reason: &str) -> ! {
    report(inherited, &format!("{index} {}\n", reason.replace('\n', " ")));
    process::exit_now(1)
}

fn words(e: netloom_sys::Error) -> String {
    netloom_sys::describe(&e)
}

/// Steps of a child's init before its surrounding node can see it: all that do not need its own PID
/// namespace. It keeps only files and sockets from which no path leads outside.
pub(crate) fn make_ready(
    spec: NodeSpec,
    helper: Option<Helper>,
    inherited: &Inherited,
    (outer, maker): (BorrowedFd<'_>, &OwnedFd),
) -> netloom_sys::Result<ReadyToFork<Outside>> {
    namespace::new_but_processes(helper.is_none())?;
    let group = spec.v2_cgroup.as_deref().map(cgroup::open_dir).transpose()?;
    let group = group.map(|dir| namespace::without_parents(dir.as_fd())).transpose()?;
    let inside = outer.try_clone_to_owned();
    let inside = inside.map_err(|e| Failure::path("PID namespace", "copy", e))?;
    let groups = cgroup::open_v1(&spec.tasks)?;
    let outside = Outside { groups, ..Outside::set_up(spec, helper, inherited)? };
    Grant::Privileged.limit()?;
    let kept = [maker, &inside, &inherited.status, &inherited.lock, &outside.listener];
    let kept = kept.into_iter().chain([&outside.signals]).chain(&group).chain(&outside.user);
    let kept = kept.map(AsFd::as_fd);
    let files = outside.groups.tasks.iter().map(AsFd::as_fd);
    let logs = outside.log.iter().flatten().map(AsFd::as_fd);
    let kept: Vec<BorrowedFd<'_>> = kept.chain(files).chain(logs).collect();
    process::close_all_but(&kept);
    Ok(ReadyToFork { value: outside, inside: Some(inside), group, mortal: true })
}

/// Outside resources of an init that is set up except for what needs its own PID namespace.
pub(crate) struct Outside {
    spec: NodeSpec,
    /// Bound now; it listens later, because the kernel names the process that calls listen as the listener.
    listener: OwnedFd,
    signals: OwnedFd,
    log: Option<[File; 2]>,
    /// Cgroups still to join.
    groups: cgroup::Join,
    /// The node's own user namespace, still to enter.
    user: Option<OwnedFd>,
}

impl Outside {
    fn set_up(
        spec: NodeSpec,
        helper: Option<Helper>,
        inherited: &Inherited,
    ) -> netloom_sys::Result<Outside> {
        process::die_with_parent(true)?;
        if process::has_ended(inherited.spawner.as_fd()) {
            process::exit_now(1);
        }
        process::set_name(NAME);
        let title = match spec.kind {
            Kind::Node => format!("{NAME}: {}", spec.name),
            Kind::Core => format!("{NAME}: core of {}", spec.name),
        };
        // The rest of the caller's environment is not for the node.
        title::set_with_only(&title, &[SHOWN]);
        process::set_ignored(libc_sigchld(), false);
        let signals = process::signalfd(&[libc_sigchld(), libc_sigterm()])?;
        // What is made from here on belongs to the node's network: sockets, the view of /sys.
        let network = helper.map(Helper::enter_network).transpose()?;
        let listener = bind(spec.index)?;
        let log = open_log(&spec)?;
        Real.hostname(&spec.host_name)?;
        match spec.kind {
            Kind::Node => inherited.shared.enter(&Real, &spec)?,
            Kind::Core => inherited.shared.enter_bare(&Real, &spec)?,
        }
        let user = network.map(Taken::finish).transpose()?.flatten();
        Ok(Outside { spec, listener, signals, log, groups: cgroup::Join::default(), user })
    }

    fn set_up_inside(self, inherited: &Inherited) -> Result<Init, String> {
        let Outside { spec, listener, signals, log, groups, user } = self;
        groups.enter_files().map_err(words)?;
        drop(groups);
        rustix::net::listen(&listener, 16).map_err(|e| format!("control socket: {e}"))?;
        if spec.kind == Kind::Node {
            inherited.shared.finish(&Real, spec.privileged).map_err(words)?;
        }
        for (path, value) in &spec.sysctls {
            set_sysctl(path, value, &spec)?;
        }
        // Mounts and settings of the host's are made; entering also gives all capabilities anew.
        if let Some(user) = user {
            namespace::enter_user(user).map_err(words)?;
        }
        if !spec.privileged {
            keyring::forbid().map_err(words)?;
        }
        let grant = Grant::of(spec.privileged);
        grant.limit_programs().map_err(words)?;
        restore_open_files(inherited.prepare.open_files);
        let env = environment(&inherited.prepare.lab, &spec);
        Ok(Init {
            grant,
            listener,
            signals,
            programs: Programs::new(spec.run, spec.setup, env.clone(), log),
            connections: vec![],
            waiting: None,
            failed: None,
            env,
            ready: spec.ready,
            stop_at: None,
        })
    }
}

fn report(inherited: &Inherited, text: &str) {
    // Below PIPE_BUF a write is atomic; without a reader on the spawner's side the message is not needed.
    let cut = &text.as_bytes()[..text.len().min(4000)];
    let _ = rustix::io::write(&inherited.status, cut);
}

/// A running init.
struct Init {
    /// Capabilities of its programs.
    grant: Grant,
    listener: OwnedFd,
    signals: OwnedFd,
    programs: Programs,
    connections: Vec<Caller>,
    waiting: Option<Waiting>,
    /// Why the node failed to become ready.
    failed: Option<String>,
    env: Vec<(String, String)>,
    ready: Ready,
    stop_at: Option<Instant>,
}

/// A connection.
struct Caller {
    socket: OwnedFd,
    /// It requested the start and is told the result.
    of_start: bool,
}

/// Pending readiness: somebody waits for it.
struct Waiting {
    until: Instant,
    next: Instant,
    pause: Duration,
    probe: Option<Pid>,
    probe_ok: bool,
    /// What is still missing.
    lacks: String,
    /// All conditions of `ready` were met: since when, and the CPU time used until then.
    fulfilled: Option<(Instant, Duration)>,
}

impl Init {
    /// Descriptors that stay open.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let own = [self.listener.as_fd(), self.signals.as_fd()];
        own.into_iter().chain(self.programs.log_files()).collect()
    }

    fn run(&mut self) -> ! {
        loop {
            // A child that ended while the signal mask was open for another caused no signal.
            self.on_signals();
            let timeout = self.next_time();
            let (connections, outputs) = self.wait(timeout);
            self.on_signals();
            for index in outputs {
                self.programs.drain(index);
            }
            self.accept();
            for index in connections.into_iter().rev() {
                self.serve(index);
            }
            self.look();
            let late = |at: Instant| self.programs.all_ended() || Instant::now() >= at;
            if self.stop_at.is_some_and(late) {
                process::exit_now(0);
            }
        }
    }

    fn next_time(&mut self) -> Option<Instant> {
        let restart = self.programs.restart_due(Instant::now());
        let look = self.waiting.as_ref().map(|w| w.next);
        [restart, look, self.stop_at].into_iter().flatten().min()
    }

    /// Waits for an event: the readable connections and outputs.
    fn wait(&self, until: Option<Instant>) -> (Vec<usize>, Vec<usize>) {
        let outputs: Vec<(usize, &OwnedFd)> = self.programs.outputs().collect();
        let mut fds = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
        ];
        fds.extend(self.connections.iter().map(|c| PollFd::new(&c.socket, PollFlags::IN)));
        fds.extend(outputs.iter().map(|(_, o)| PollFd::new(*o, PollFlags::IN)));
        let timeout = until.map(|t| process::timespec(t.saturating_duration_since(Instant::now())));
        // Interrupted or refused: the loop checks everything again.
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
        let awake = |i: usize| !fds[i].revents().is_empty();
        let first = 2 + self.connections.len();
        let connections = (0..self.connections.len()).filter(|i| awake(2 + i)).collect();
        let ready = outputs.iter().enumerate().filter(|(i, _)| awake(first + i));
        (connections, ready.map(|(_, (index, _))| *index).collect())
    }

    fn on_signals(&mut self) {
        while let Some(signal) = process::next_signal(&self.signals) {
            if signal == libc_sigterm() {
                self.begin_stop(Duration::from_secs(1));
            }
        }
        let now = Instant::now();
        while let Ok(Some((pid, exit))) = process::reap() {
            if let Some(failure) = self.programs.ended(pid, exit, now) {
                if let Some(story) = failure {
                    self.answer_start(&Answer::Ended(story));
                }
                if let Err(words) = self.programs.go_on() {
                    self.fail(&words);
                } else if let Some(waiting) = &mut self.waiting {
                    waiting.next = now;
                }
                continue;
            }
            if let Some(waiting) = self.waiting.as_mut().filter(|w| w.probe == Some(pid)) {
                waiting.probe = None;
                waiting.probe_ok = exit == process::Exit::Code(0);
                waiting.next = if waiting.probe_ok { now } else { now + waiting.pause };
            }
        }
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(socket) = rustix::net::accept_with(&self.listener, flags) {
            let own = rustix::process::geteuid().as_raw();
            if scm::peer_uid(&socket).is_ok_and(|uid| uid == own) {
                self.connections.push(Caller { socket, of_start: false });
            }
        }
    }

    fn serve(&mut self, index: usize) {
        let mut buffer = vec![0; MAX_MESSAGE];
        let received = scm::receive(&self.connections[index].socket, &mut buffer);
        let (request, fds) = match received {
            Ok((n, fds)) if n > 0 => (serde_json::from_slice(&buffer[..n]).ok(), fds),
            _ => (None, vec![]),
        };
        match request {
            Some(Request::Run) => deputy::fork(self.grant, fds),
            Some(Request::Start) => {
                self.connections[index].of_start = true;
                self.start();
            }
            Some(Request::Programs) => {
                let answer = Answer::Programs(self.programs.states());
                self.answer(index, &answer);
            }
            Some(Request::Report) => {
                let report = self.report();
                self.answer(index, &Answer::Report(report));
            }
            Some(Request::Stop { grace_ms }) => self.begin_stop(Duration::from_millis(grace_ms)),
            None => drop(self.connections.swap_remove(index)),
        }
    }

    fn answer(&self, index: usize, answer: &Answer) {
        let Some(Caller { socket, .. }) = self.connections.get(index) else { return };
        if let Ok(bytes) = serde_json::to_vec(answer) {
            // A caller that is gone needs no answer.
            let _ = scm::send(socket, &bytes, &[]);
        }
    }

    /// Answers the connections that requested the start.
    fn answer_start(&self, answer: &Answer) {
        let asked = |i: &usize| self.connections[*i].of_start;
        (0..self.connections.len()).filter(asked).for_each(|i| self.answer(i, answer));
    }

    fn report(&self) -> NodeReport {
        let waiting = self.waiting.as_ref().map(|w| w.lacks.clone());
        let before = || self.programs.before_ready().filter(|_| self.failed.is_none());
        NodeReport {
            programs: self.programs.states(),
            waits_for: before().or(waiting),
            failed: self.failed.clone(),
        }
    }

    fn start(&mut self) {
        if self.waiting.is_some() {
            return;
        }
        if let Some(failed) = &self.failed {
            return self.answer_start(&Answer::Failed(failed.clone()));
        }
        if let Err(words) = self.programs.start() {
            return self.fail(&words);
        }
        let now = Instant::now();
        self.waiting = Some(Waiting {
            until: now + self.ready.timeout,
            next: now,
            pause: FIRST_LOOK,
            probe: None,
            probe_ok: self.ready.exec.is_none(),
            lacks: String::new(),
            fulfilled: None,
        });
    }

    /// The node cannot become ready: reports why, and the programs' last output.
    fn fail(&mut self, words: &str) {
        self.waiting = None;
        self.failed = Some(words.to_owned());
        self.programs.drain_all();
        let mut told = format!("{words}{}", self.programs.stories());
        // Messages are bounded, and JSON may need six bytes for one.
        while serde_json::to_vec(&told).is_ok_and(|json| json.len() > MAX_MESSAGE / 2) {
            told = told.chars().take(told.chars().count() / 2).collect();
        }
        self.answer_start(&Answer::Failed(told));
    }

    /// Checks for readiness when a check is due.
    fn look(&mut self) {
        let now = Instant::now();
        let Some(waiting) = self.waiting.as_mut().filter(|w| w.next <= now) else { return };
        waiting.pause = (waiting.pause * 3 / 2).min(SLOWEST_LOOK);
        waiting.next = now + waiting.pause;
        let late = now >= waiting.until;
        match self.lacking() {
            None if self.has_settled(now) => {
                self.waiting = None;
                self.answer_start(&Answer::Ready);
            }
            None => {}
            Some(lack) if self.programs.are_started() && self.programs.has_failure() => {
                self.fail(&format!("not ready: {lack}"));
            }
            Some(lack) if late => self.fail(&format!("not ready in time: {lack}")),
            Some(lack) => {
                if let Some(waiting) = &mut self.waiting {
                    waiting.lacks = lack;
                }
            }
        }
    }

    /// The first unmet condition of `ready`; `None` once all were met.
    fn lacking(&mut self) -> Option<String> {
        let waiting = self.waiting.as_ref()?;
        if waiting.fulfilled.is_some() {
            return None;
        }
        if let Some(before) = self.programs.before_ready() {
            return Some(before);
        }
        if let Some(lack) = ready::lacking(&self.ready) {
            return Some(lack);
        }
        if !waiting.probe_ok {
            self.probe();
            return Some("its ready command does not succeed".to_owned());
        }
        None
    }

    /// Whether nothing in the node is active any more, so that a program that fails at once has failed. A
    /// node that stays active is not waited for beyond the limits.
    fn has_settled(&mut self, now: Instant) -> bool {
        let Some(waiting) = &mut self.waiting else { return true };
        if self.programs.all_ended() || settle::has_settled() {
            return true;
        }
        let (since, used) = *waiting.fulfilled.get_or_insert_with(|| {
            waiting.pause = FIRST_LOOK;
            waiting.next = now + FIRST_LOOK;
            (now, settle::cpu_time())
        });
        waiting.lacks = "its programs are at work".to_owned();
        now >= since + SETTLING || settle::cpu_time() >= used + SETTLING_CPU
    }

    /// Runs the ready command unless it is running.
    fn probe(&mut self) {
        let (Some(waiting), Some(argv)) = (self.waiting.as_mut(), &self.ready.exec) else { return };
        if waiting.probe.is_some() {
            return;
        }
        let quiet = std::process::Stdio::null;
        let mut command = command(argv, &self.env);
        command.stdout(quiet()).stderr(quiet());
        let child = process::with_open_mask(|| command.spawn());
        waiting.probe = child.ok().and_then(|c| Pid::from_raw(i32::try_from(c.id()).ok()?));
    }

    fn begin_stop(&mut self, grace: Duration) {
        if self.stop_at.is_none() {
            self.programs.stop();
            self.stop_at = Some(Instant::now() + grace);
        }
    }
}

fn libc_sigchld() -> i32 {
    rustix::process::Signal::CHILD.as_raw()
}

fn libc_sigterm() -> i32 {
    rustix::process::Signal::TERM.as_raw()
}

/// The control socket, bound in the current directory.
fn bind(index: usize) -> netloom_sys::Result<OwnedFd> {
    let name = socket_name(index);
    let fail = |e: rustix::io::Errno| Failure::path(&name, "make control socket", e);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(fail)?;
    // Remove the socket of an init that died.
    let _ = rustix::fs::unlink(&name);
    let address = SocketAddrUnix::new(&name).map_err(fail)?;
    // The umask at bind sets the socket's mode.
    let mask = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = rustix::net::bind(&socket, &address);
    rustix::process::umask(mask);
    bound.map_err(fail)?;
    Ok(socket)
}

fn open_log(spec: &NodeSpec) -> netloom_sys::Result<Option<[File; 2]>> {
    if spec.run.is_empty() && spec.setup.is_empty() {
        return Ok(None);
    }
    let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
    let open = |name: &String| {
        rustix::fs::open(name, flags, Mode::from_raw_mode(0o600))
            .map(File::from)
            .map_err(|e| Failure::path(name, "open log", e))
    };
    let [a, b] = log_names(spec.index);
    Ok(Some([open(&a)?, open(&b)?]))
}

/// Sets a sysctl. Errors fail a node; the core skips settings that this kernel lacks.
fn set_sysctl(path: &str, value: &str, spec: &NodeSpec) -> Result<(), String> {
    let Err(e) = sysctl::set_in_node(path, value, spec.privileged) else { return Ok(()) };
    if spec.kind == Kind::Core && e.kind() == std::io::ErrorKind::NotFound {
        return Ok(());
    }
    Err(format!("sysctl {}={value}: {e}", path.replace('/', ".")))
}

fn restore_open_files(limits: (Option<u64>, Option<u64>)) {
    let limit = Rlimit { current: limits.0, maximum: limits.1 };
    // Lowering a limit is always allowed; if this fails, programs may only open more files.
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
}

/// The environment of a node's programs.
pub fn environment(lab: &str, spec: &NodeSpec) -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/root"),
        ("LANG", "C.UTF-8"),
        ("NETLOOM_LAB", lab),
        ("NETLOOM_NODE", &spec.name),
        ("NETLOOM_RUNTIME_DIR", SCOPES),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .to_vec();
    for (key, value) in &spec.env {
        env.retain(|(k, _)| k != key);
        env.push((key.clone(), value.clone()));
    }
    env
}
