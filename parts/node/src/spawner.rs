//! The process that clones every init, and its client in the lab process.
//!
//! It stays single-threaded, so that its clones may call anything, and is forked before its creator starts
//! any thread. It holds the lab's lock as long as it lives: a process that gets the lock knows that nothing more is
//! created. It ends when its client does. Messages are a length (u32, little endian) and JSON.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use netloom_sys::own_user::Helper;
use netloom_sys::process::{self, Birth, Forked, Namespaces, Prepared};
use netloom_sys::{Failure, setup::Real};
use netloom_sys::{
    cgroup, disposition, feature, keyring, mountinfo, namespace, scm, subordinate, title,
};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::error::failed;
use crate::init::{self, Inherited};
use crate::root::Shared;
use crate::spec::{Kind, NodeSpec, Prepare};
use crate::{Error, Result};

/// Its name in the process list.
pub const NAME: &str = "netloom-spawn";

/// Largest message in either direction.
const MAX_MESSAGE: u32 = 64 << 20;

/// Time for an answer: a thousand inits on a busy machine take less.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time for a killed spawner to end.
const KILLED: Duration = Duration::from_secs(5);

#[derive(Serialize, Deserialize)]
enum Ask {
    /// Make a user namespace and become root in it, with `many` users if this user is given more.
    OwnUser { many: bool },
    /// Join the user namespace whose descriptor is attached.
    JoinUser,
    /// Make the part that nodes share; the status pipe and the lab's lock are attached.
    Prepare(Box<Prepare>),
    /// Clone these inits; for children, inside the PID namespace whose descriptor is attached, with networks of
    /// the user namespace whose descriptor follows, if one does.
    Create(Vec<NodeSpec>),
}

#[derive(Serialize, Deserialize)]
enum Reply {
    Done,
    /// The user namespace has one user, because more were refused in these words.
    OneUser(String),
    /// The inits' pids, in request order.
    Created(Vec<i32>),
    Refused(String),
}

/// Where children are created: namespaces of their surrounding node.
#[derive(Clone, Copy, Debug)]
pub struct Surrounding<'a> {
    /// Its PID namespace.
    pub processes: BorrowedFd<'a>,
    /// Its own user namespace, if it has one.
    pub user: Option<BorrowedFd<'a>>,
}

/// The client. Dropping it ends the spawner, and with it every init that has not reported.
pub struct Spawner {
    socket: OwnedFd,
    pid: Pid,
    pidfd: OwnedFd,
}

impl Spawner {
    /// Forks the spawner.
    ///
    /// # Errors
    /// The process has more than one thread, or the kernel refuses.
    pub fn start() -> Result<Spawner> {
        let (ours, theirs) = Self::socket()?;
        let forked =
            process::fork_alone(Namespaces::NONE, None).map_err(failed("spawner", "fork"))?;
        match forked {
            Forked::Parent(pid) => {
                let pidfd = process::pidfd(pid).map_err(failed("spawner", "watch"))?;
                Ok(Spawner { socket: ours, pid, pidfd })
            }
            Forked::Child => {
                process::close_all_but(&[theirs.as_fd()]);
                std::mem::forget(ours);
                serve(&theirs)
            }
        }
    }

    /// Makes the client's socket for a spawner in a separate process, and the peer socket that process passes
    /// to [`serve_at`].
    pub fn socket() -> Result<(OwnedFd, OwnedFd)> {
        // A stream: the specs of many nodes are longer than what a SEQPACKET socket takes in one message.
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|e| lost("make its socket", e.into()))
    }

    /// The client for a spawner process that holds the peer of `socket`.
    pub fn of(socket: OwnedFd, pid: Pid) -> Result<Spawner> {
        let pidfd = process::pidfd(pid).map_err(failed("spawner", "watch"))?;
        Ok(Spawner { socket, pid, pidfd })
    }

    /// Whether the spawner lives.
    pub fn lives(&self) -> bool {
        !process::has_ended(self.pidfd.as_fd())
    }

    /// Ends the spawner and waits for its end.
    pub fn end(self) {
        let Spawner { socket, pidfd, .. } = self;
        drop(socket);
        // It only has to leave its loop; a process that needs the lock waits for it in any case.
        process::wait_end(&pidfd, std::time::Duration::from_secs(5));
    }

    /// Descriptors that the client keeps open.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.socket.as_fd(), self.pidfd.as_fd()]
    }

    /// The spawner's pid.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Gives the spawner its own user namespace, with this user as root, and with `many` users if this user is given
    /// more. Returns the words in which more were refused: then it has one.
    pub fn own_user_namespace(&self, many: bool) -> Result<Option<String>> {
        match self.ask(&Ask::OwnUser { many }, &[])? {
            Reply::OneUser(words) => Ok(Some(words)),
            _ => Ok(None),
        }
    }

    /// Makes the spawner join an existing user namespace.
    pub fn join_user_namespace(&self, ns: impl AsFd) -> Result<()> {
        self.ask(&Ask::JoinUser, &[ns.as_fd()]).map(drop)
    }

    /// Makes the part that nodes share. Inits report to `status`; the spawner holds `lock` until it ends.
    pub fn prepare(&self, prepare: Prepare, status: &OwnedFd, lock: &OwnedFd) -> Result<()> {
        self.begin_prepare(prepare, status, lock)?;
        self.finish_prepare()
    }

    /// [`Spawner::prepare`] without waiting for the answer.
    pub fn begin_prepare(&self, prepare: Prepare, status: &OwnedFd, lock: &OwnedFd) -> Result<()> {
        self.send(&Ask::Prepare(Box::new(prepare)), &[status.as_fd(), lock.as_fd()])
    }

    /// Waits for the answer to [`Spawner::begin_prepare`].
    pub fn finish_prepare(&self) -> Result<()> {
        self.answer().map(drop)
    }

    /// Requests these inits without waiting for the answer; children `inside` their surrounding node.
    pub fn begin_create(
        &self,
        specs: Vec<NodeSpec>,
        inside: Option<Surrounding<'_>>,
    ) -> Result<()> {
        let fds = inside.into_iter().flat_map(|i| std::iter::once(i.processes).chain(i.user));
        let fds: Vec<BorrowedFd<'_>> = fds.collect();
        self.send(&Ask::Create(specs), &fds)
    }

    /// Waits for the answer to [`Spawner::begin_create`]: the pids in request order.
    pub fn finish_create(&self) -> Result<Vec<Pid>> {
        match self.receive()? {
            Reply::Created(pids) => Ok(pids.into_iter().filter_map(Pid::from_raw).collect()),
            Reply::Refused(report) => Err(Error::Refused { report }),
            Reply::Done | Reply::OneUser(_) => {
                Err(lost("understand", io::ErrorKind::InvalidData.into()))
            }
        }
    }

    fn ask(&self, ask: &Ask, fds: &[BorrowedFd<'_>]) -> Result<Reply> {
        self.send(ask, fds)?;
        self.answer()
    }

    fn answer(&self) -> Result<Reply> {
        match self.receive()? {
            Reply::Refused(report) => Err(Error::Refused { report }),
            reply => Ok(reply),
        }
    }

    fn send(&self, ask: &Ask, fds: &[BorrowedFd<'_>]) -> Result<()> {
        send(&self.socket, ask, fds).map_err(|e| lost("ask", e))
    }

    fn receive(&self) -> Result<Reply> {
        if !process::wait_readable(&self.socket, PATIENCE) {
            return Err(self.killed());
        }
        match receive::<Reply>(&self.socket) {
            Ok(Some((reply, _))) => Ok(reply),
            Ok(None) => Err(lost("hear from", io::ErrorKind::UnexpectedEof.into())),
            Err(e) => Err(lost("hear from", e)),
        }
    }
}

impl Spawner {
    /// Kills a spawner that is stopped or hangs: its answer would be taken for that to the next request. What it has not
    /// finished ends with it, and the lab process starts another.
    fn killed(&self) -> Error {
        let pid = self.pid.as_raw_nonzero();
        let _ = process::signal(&self.pidfd, Signal::KILL);
        process::wait_end(&self.pidfd, KILLED);
        let words =
            format!("process {pid} has not answered for {PATIENCE:?} and is killed; try again");
        lost("hear from", io::Error::new(io::ErrorKind::TimedOut, words))
    }
}

fn lost(operation: &'static str, source: io::Error) -> Error {
    Failure::new("spawner", operation, source).into()
}

fn send<T: Serialize>(socket: &OwnedFd, message: &T, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // With the length, since descriptors arrive with the bytes they were sent with, and those are read alone.
    scm::send(socket, &length.to_le_bytes(), fds).map_err(io::Error::other)?;
    let mut left = body.as_slice();
    while !left.is_empty() {
        let sent = scm::send(socket, left, &[]).map_err(io::Error::other)?;
        left = &left[sent..];
    }
    Ok(())
}

/// One message and its descriptors; `None` if the peer is gone.
fn receive<T: for<'a> Deserialize<'a>>(socket: &OwnedFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut head = [0u8; 4];
    let (n, fds) = scm::receive(socket, &mut head).map_err(io::Error::other)?;
    if n == 0 {
        return Ok(None);
    }
    let length = u32::from_le_bytes(head);
    if n != head.len() || length > MAX_MESSAGE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length as usize];
    let mut have = 0;
    while have < body.len() {
        match rustix::io::read(socket, &mut body[have..]) {
            Ok(0) => return Ok(None),
            Ok(n) => have += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(Some((serde_json::from_slice(&body)?, fds)))
}

/// Turns the calling process into a spawner. It must be single-threaded; every open descriptor except
/// `socket` is closed.
pub fn serve_at(socket: OwnedFd) -> ! {
    process::close_all_but(&[socket.as_fd()]);
    serve(&socket)
}

/// The spawner's main loop.
fn serve(socket: &OwnedFd) -> ! {
    process::set_name(NAME);
    // The spawner and its inits do not keep the caller's terminal or pipes open.
    if let Ok(null) = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    // Leave the terminal's session, so that the user's key signals never reach nodes.
    let _ = rustix::process::setsid();
    process::block_signals();
    keyring::leave_session();
    // The signal dispositions of programs in nodes must not depend on the caller's.
    disposition::restore_defaults();
    // Ended inits are reaped by the kernel.
    process::set_ignored(rustix::process::Signal::CHILD.as_raw(), true);
    let boot_offset = namespace::boot_offset();
    let mut life = Life { inherited: None, ahead: None, boot_offset };
    while let Ok(Some((ask, fds))) = receive::<Ask>(socket) {
        let reply = life.answer(ask, fds).unwrap_or_else(Reply::Refused);
        if send(socket, &reply, &[]).is_err() {
            break;
        }
    }
    process::exit_now(0)
}

struct Life {
    inherited: Option<Inherited>,
    /// The first node's network, if it is made already.
    ahead: Option<Helper>,
    /// That of this process's own time.
    boot_offset: i64,
}

impl Life {
    fn answer(&mut self, ask: Ask, fds: Vec<OwnedFd>) -> std::result::Result<Reply, String> {
        let words = |e: netloom_sys::Error| netloom_sys::describe(&e);
        match ask {
            Ask::OwnUser { many } => return own_user_namespace(many).map_err(words),
            Ask::JoinUser => {
                let ns = fds.first().ok_or("no descriptor came along")?;
                namespace::enter_user(ns).map_err(words)?;
            }
            Ask::Prepare(prepare) => {
                let mut fds = fds.into_iter();
                let (Some(status), Some(lock)) = (fds.next(), fds.next()) else {
                    return Err("no descriptors came along".into());
                };
                title::set(&format!("{NAME}: {}", prepare.lab));
                // The helper works while this process mounts, and has the lock, too. Whatever refuses it now refuses
                // the node's own helper.
                self.ahead = prepare.network_ahead.then(|| Helper::start(None).ok()).flatten();
                self.inherited = Some(share(*prepare, status, lock)?);
            }
            Ask::Create(specs) => {
                let mut fds = fds.iter().map(AsFd::as_fd);
                let inside =
                    fds.next().map(|processes| Surrounding { processes, user: fds.next() });
                // Children's networks belong to the user namespace of the node around them, the one
                // made ahead to a new one.
                let ahead = self.ahead.take().filter(|_| inside.is_none());
                return self.create(specs, inside, ahead);
            }
        }
        Ok(Reply::Done)
    }

    fn create(
        &self,
        specs: Vec<NodeSpec>,
        inside: Option<Surrounding<'_>>,
        mut ahead: Option<Helper>,
    ) -> std::result::Result<Reply, String> {
        let inherited = self.inherited.as_ref().ok_or("asked for nodes before prepare")?;
        // Start all before waiting for the first.
        let mut begun = Vec::with_capacity(specs.len());
        for spec in specs {
            let name = spec.name.clone();
            let spec = self.in_time_of_its_own(spec);
            let born = clone_init(spec, inherited, inside, &mut ahead);
            let born = born.map_err(|e| refused(&name, &e))?;
            begun.push((name, born));
        }
        let pid = |(name, born): (String, Born)| match born {
            Born::Here(pid) => Ok(pid.as_raw_nonzero().get()),
            Born::Inside(birth) => {
                let found = birth.finish().and_then(|child| process::pid_of(child.as_fd()));
                found.map(|pid| pid.as_raw_nonzero().get()).map_err(|e| refused(&name, &e))
            }
        };
        Ok(Reply::Created(begun.into_iter().map(pid).collect::<std::result::Result<_, _>>()?))
    }

    /// A node begins to live in a time of its own, if the kernel makes one.
    fn in_time_of_its_own(&self, spec: NodeSpec) -> NodeSpec {
        if spec.kind == Kind::Core {
            return spec;
        }
        // Here, before each clone: unshare(2) gives a time namespace to children alone, and its offsets are
        // fixed once a process is in it (time_namespaces(7)).
        let made = namespace::new_boot_time(self.boot_offset);
        NodeSpec { no_own_time: made.err().map(|e| netloom_sys::describe(&e)), ..spec }
    }
}

fn own_user_namespace(many: bool) -> netloom_sys::Result<Reply> {
    if !many {
        return feature::enter_own_user_namespace().map(|()| Reply::Done);
    }
    let refusal = subordinate::enter(&subordinate::Given::find()?)?;
    Ok(refusal.map_or(Reply::Done, Reply::OneUser))
}

fn refused(node: &str, error: &netloom_sys::Error) -> String {
    format!("node {node:?}: {}", netloom_sys::describe(error))
}

/// Makes the part that nodes share, in the spawner's own mount namespace.
fn share(
    prepare: Prepare,
    status: OwnedFd,
    lock: OwnedFd,
) -> std::result::Result<Inherited, String> {
    let words = |e: netloom_sys::Error| netloom_sys::describe(&e);
    // Inits and their programs inherit the umask.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let mounts = mountinfo::read().map_err(words)?;
    namespace::private_mounts().map_err(words)?;
    let shared = Shared::create(&Real, &prepare, &mounts).map_err(words)?;
    let sockets = prepare.state.join("n");
    rustix::process::chdir(&sockets).map_err(|e| format!("{}: enter: {e}", sockets.display()))?;
    let spawner = process::pidfd(rustix::process::getpid()).map_err(words)?;
    Ok(Inherited { prepare, shared, status, spawner, lock })
}

/// An init being created.
enum Born {
    Here(Pid),
    Inside(Birth),
}

fn clone_init(
    spec: NodeSpec,
    inherited: &Inherited,
    inside: Option<Surrounding<'_>>,
    ahead: &mut Option<Helper>,
) -> netloom_sys::Result<Born> {
    let is_bounded = spec.kind == Kind::Node && !spec.privileged && !inherited.prepare.user;
    let user = inside.and_then(|i| i.user);
    let made = |ahead: &mut Option<Helper>| ahead.take().map_or_else(|| Helper::start(user), Ok);
    let helper = is_bounded.then(|| made(ahead)).transpose()?;
    if let Some(Surrounding { processes: outer, .. }) = inside {
        let prepare = |maker: &OwnedFd| init::make_ready(spec, helper, inherited, (outer, maker));
        return match process::fork_prepared(prepare)? {
            Prepared::Parent(birth) => Ok(Born::Inside(birth)),
            Prepared::Child(outside) => init::go_on(outside, inherited),
        };
    }
    let group = spec.v2_cgroup.as_deref().map(cgroup::open_dir).transpose()?;
    // A helper makes a bounded node's network, so that the node's own user namespace owns it; the core makes
    // its own, and does not hold up the spawner.
    let has_no_network = is_bounded || spec.kind == Kind::Core;
    let kinds = if has_no_network { Namespaces::NODE_BUT_NETWORK } else { Namespaces::NODE };
    match process::fork_alone(kinds, group.as_ref().map(AsFd::as_fd))? {
        Forked::Parent(pid) => Ok(Born::Here(pid)),
        Forked::Child => init::become_init(spec, helper, inherited),
    }
}
