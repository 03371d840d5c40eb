//! Process 1 of a node.
//!
//! Forked from the spawner and never exec'd, so it shares the spawner's pages. It joins the node's cgroups,
//! builds the node's file system, sets sysctls, enters the node's user namespace if it has one, closes inherited
//! descriptors, drops dangerous capabilities and reports. Then it lives ([`crate::living`]). When it ends, the kernel
//! ends the node. Until it has reported, it dies with its spawner; afterwards its socket identifies it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netloom_control::Desk;
use netloom_sys::Failure;
use netloom_sys::caps::Grant;
use netloom_sys::own_user::{Helper, Taken};
use netloom_sys::process::Ready as ReadyToFork;
use netloom_sys::setup::{Real, Setup};
use netloom_sys::{cgroup, keyring, namespace, private_socket, process, sysctl, title};
use rustix::fs::{Mode, OFlags};
use rustix::net::{SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit};

use crate::figures::{Figures, Sources};
use crate::living::{self, Conditions, Init};
use crate::people;
use crate::programs::Programs;
use crate::root::Shared;
use crate::spec::{Kind, NodeSpec, Prepare, SCOPES, log_names, socket_name};

/// Its name in the process list.
pub const NAME: &str = "netloom-init";

/// What comes before the reason why figures of a node that is set up are the machine's, in its report.
pub const BUT: &str = "but ";

/// Bytes of a report without its end.
const LONGEST: usize = 4000;

/// The variable that shows which folder of labs an init belongs to.
const SHOWN: &str = "NETLOOM_RUNTIME_DIR";

/// What an init inherits from the spawner. It drops all of this before it reports.
pub(crate) struct Inherited {
    pub(crate) prepare: Prepare,
    pub(crate) shared: Shared,
    /// Where to report: one message, `INDEX ok`, maybe with [`BUT`], or `INDEX` and the error.
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
            let but = init.has_figures_of_machine();
            let but = but.map(|why| format!(" {BUT}{why}"));
            report(inherited, &format!("{index} ok{}", but.unwrap_or_default()));
            process::close_all_but(&init.descriptors());
            // From here the socket names this init, so it may outlive its spawner.
            let _ = process::die_with_parent(false);
            init.run()
        }
        Err(reason) => fail(index, inherited, &reason),
    }
}

fn fail(index: usize, inherited: &Inherited, reason: &str) -> ! {
    report(inherited, &format!("{index} {reason}"));
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
    let mut outside = Outside { groups, ..Outside::set_up(spec, helper, inherited)? };
    outside.network.as_mut().map_or(Ok(()), Taken::wait)?;
    let user = outside.network.as_ref().and_then(Taken::user);
    Grant::Privileged.limit()?;
    let kept = [maker, &inside, &inherited.status, &inherited.lock, &outside.listener];
    let kept = kept.into_iter().chain([&outside.signals]).chain(&group);
    let kept = kept.map(AsFd::as_fd).chain(user).chain(outside.sources.descriptors());
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
    /// Where figures of the node are read.
    sources: Sources,
    /// Cgroups still to join.
    groups: cgroup::Join,
    /// The node's network, if a helper made it, with the node's own user namespace, still to enter.
    network: Option<Taken>,
}

impl Outside {
    fn set_up(
        spec: NodeSpec,
        helper: Option<Helper>,
        inherited: &Inherited,
    ) -> netloom_sys::Result<Outside> {
        process::die_with_parent(true)?;
        // PR_SET_PDEATHSIG tells nothing of a parent that died before it was set.
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
        let signals = living::signals()?;
        // Objects made from here on belong to the node's network: sockets, the view of /sys.
        let network = helper.map(Helper::enter_network).transpose()?;
        if spec.kind == Kind::Core {
            // Made here, it does not hold up the spawner.
            namespace::new_network()?;
        }
        let listener = bind(spec.index)?;
        let log = open_log(&spec)?;
        // They are the host's files, which are gone when the node has its own root.
        let sources = match spec.kind {
            Kind::Node => Sources::open(&spec, inherited.shared.loads().ok()),
            Kind::Core => Sources::default(),
        };
        Real.hostname(&spec.host_name)?;
        match spec.kind {
            Kind::Node => inherited.shared.enter(&Real, &spec)?,
            Kind::Core => inherited.shared.enter_bare(&Real, &spec)?,
        }
        let groups = cgroup::Join::default();
        Ok(Outside { spec, listener, signals, log, sources, groups, network })
    }

    fn set_up_inside(self, inherited: &Inherited) -> Result<Init, String> {
        let Outside { spec, listener, signals, log, sources, groups, network } = self;
        groups.enter_files().map_err(words)?;
        drop(groups);
        rustix::net::listen(&listener, 16).map_err(|e| format!("control socket: {e}"))?;
        let mut figures = Figures::none();
        if spec.kind == Kind::Node {
            let leased = inherited.shared.figures();
            let shown = leased.as_ref().map(|leased| leased.shown(spec.no_own_time.is_none()));
            let shown = shown.unwrap_or_default();
            let machine = inherited.shared.finish(&Real, spec.privileged, &shown).map_err(words)?;
            figures = Figures::new(leased, sources.with(machine), spec.no_own_time.clone());
        }
        // Before the user namespace: from inside a node's own, some of these files are hidden (ADR 0035).
        for (path, value) in &spec.sysctls {
            set_sysctl(path, value, &spec)?;
        }
        // Mounts and settings of the host's are made; entering also gives all capabilities again.
        if let Some(user) = network.map(Taken::finish).transpose().map_err(words)?.flatten() {
            namespace::enter_user(user).map_err(words)?;
        }
        if !spec.privileged {
            keyring::forbid().map_err(words)?;
        }
        spec.users.begin().map_err(words)?;
        let grant = Grant::of(spec.privileged);
        grant.limit_programs().map_err(words)?;
        restore_open_files(inherited.prepare.open_files);
        let env = environment(&inherited.prepare.lab, &spec);
        let programs = Programs::new(spec.run, spec.setup, spec.exec, env.clone(), log);
        let conditions =
            Conditions { ready: spec.ready, told_in: spec.told_in, health: spec.health };
        let desk = Desk::new(listener).map_err(|e| e.to_string())?;
        Ok(Init::new((desk, signals), programs, grant, env, conditions, figures))
    }
}

fn report(inherited: &Inherited, text: &str) {
    // Without a reader on the spawner's side the message is not needed.
    let _ = rustix::io::write(&inherited.status, line(text).as_bytes());
}

/// A report as one line, which is cut where it is too long for a write that nothing comes between (PIPE_BUF, pipe(7)).
fn line(text: &str) -> String {
    let text = text.replace('\n', " ");
    let cut = (0..=LONGEST.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    format!("{}\n", &text[..cut.unwrap_or(0)])
}

/// The control socket, bound in the current directory.
fn bind(index: usize) -> netloom_sys::Result<OwnedFd> {
    let name = socket_name(index);
    // Remove the socket of an init that died.
    let _ = rustix::fs::unlink(&name);
    let bound = private_socket::bind(name.as_ref(), SocketType::SEQPACKET, SocketFlags::NONBLOCK);
    Ok(bound.map_err(|e| Failure::path(&name, "make control socket", e))?)
}

fn open_log(spec: &NodeSpec) -> netloom_sys::Result<Option<[File; 2]>> {
    if spec.run.is_empty() && spec.setup.is_empty() && spec.exec.is_empty() {
        return Ok(None);
    }
    // APPEND: the writer empties a file that it has written, and goes on at the new end without a seek.
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
    environment_of(lab, &spec.name, &spec.env)
}

/// The same for a node of this name, with these variables of the lab file.
pub fn environment_of(lab: &str, node: &str, given: &[(String, String)]) -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", people::HOME),
        ("LANG", "C.UTF-8"),
        ("NETLOOM_LAB", lab),
        ("NETLOOM_NODE", node),
        ("NETLOOM_RUNTIME_DIR", SCOPES),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .to_vec();
    for (key, value) in given {
        env.retain(|(k, _)| k != key);
        env.push((key.clone(), value.clone()));
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_one_line_however_long_it_is() {
        assert_eq!(line("7 bind: two\nlines"), "7 bind: two lines\n");
        let long = line(&format!("77 {}", "ä".repeat(LONGEST)));
        assert!(long.ends_with("ä\n") && long.len() <= LONGEST + 1, "{}", long.len());
    }
}
