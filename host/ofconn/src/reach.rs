//! Sockets to and for the other end, in other network namespaces, too.
//!
//! A socket belongs to the namespace of the thread that makes it. Each is made by a thread that enters the namespace,
//! makes it and ends; in the namespace that the process came from, which it may not be allowed to enter again, by a
//! thread that stayed there. Making never waits for the other end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::Sender;

use netloom_sys::{Failure, namespace, private_socket};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::{Error, Result};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 256;

/// Longest name of a namespace.
const MOST_NAME: usize = 255;

/// Most namespaces that are known.
const MOST_NAMESPACES: usize = 256;

/// Network namespaces by name.
pub type Namespaces = BTreeMap<String, Space>;

/// The namespace that came with a request to know it by this name, beside those that are known.
///
/// # Errors
/// In words: it may not.
pub fn named(name: &str, with: Vec<OwnedFd>, known: &Namespaces) -> Result<Space, String> {
    let [namespace] = <[OwnedFd; 1]>::try_from(with)
        .map_err(|with| format!("namespace {name:?}: {} descriptors, not one", with.len()))?;
    if name.is_empty() || name.len() > MOST_NAME {
        return Err(format!("namespace: names have 1 to {MOST_NAME} bytes"));
    }
    if known.len() >= MOST_NAMESPACES && !known.contains_key(name) {
        return Err(format!("namespace {name:?}: {MOST_NAMESPACES} are known"));
    }
    Ok(Space::Other(namespace))
}

/// A network namespace.
#[derive(Debug)]
pub enum Space {
    /// One that can be entered.
    Other(OwnedFd),
    /// The one that the process came from.
    Home(Home),
}

type Job = Box<dyn FnOnce() + Send>;

/// A thread that stays in the network namespace in which it was started.
#[derive(Debug)]
pub struct Home(Sender<Job>);

impl Home {
    /// Starts it in the calling thread's namespace. It ends with this value.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn stay() -> Result<Home> {
        let (jobs, to_do) = std::sync::mpsc::channel::<Job>();
        std::thread::Builder::new()
            .name("netloom-home".into())
            .stack_size(64 << 10)
            .spawn(move || to_do.into_iter().for_each(|job| job()))
            .map_err(|e| Failure::new("thread", "start", e))?;
        Ok(Home(jobs))
    }

    fn run<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let ended = || Error::refused("the thread outside has ended");
        let (done, result) = std::sync::mpsc::channel();
        // The caller waits for it.
        let job = move || drop(done.send(act()));
        self.0.send(Box::new(job)).map_err(|_| ended())?;
        result.recv().map_err(|_| ended())?
    }
}

/// A socket that is being connected.
pub enum Reached {
    /// It is connected.
    Done(OwnedFd),
    /// It will be writable when it is, or has failed.
    Pending(OwnedFd),
}

/// Begins a TCP connection from a namespace; `None`: this process's own.
///
/// # Errors
/// The system refuses at once; failures name `whom`.
pub fn tcp(whom: &str, to: SocketAddr, from: Option<&Space>) -> Result<Reached> {
    let object = format!("{whom} {to}");
    inside(from, move || {
        let socket = stream(family(to), &object)?;
        // Small messages are not held back.
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let connected = rustix::net::connect(&socket, &to);
        begun(socket, connected, &object)
    })
}

/// Begins a connection to a UNIX socket.
///
/// # Errors
/// As [`tcp`].
pub fn unix(whom: &str, path: &Path) -> Result<Reached> {
    let object = format!("{whom} {}", path.display());
    let socket = stream(AddressFamily::UNIX, &object)?;
    let address = SocketAddrUnix::new(path).map_err(Failure::of(&object, "connect"))?;
    let connected = rustix::net::connect(&socket, &address);
    begun(socket, connected, &object)
}

fn begun(socket: OwnedFd, connected: rustix::io::Result<()>, object: &str) -> Result<Reached> {
    match connected {
        Ok(()) => Ok(Reached::Done(socket)),
        // An interrupted one goes on by itself (connect(2)).
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(Reached::Pending(socket)),
        Err(e) => Err(Failure::new(object, "connect", e).into()),
    }
}

/// Listens for TCP connections in a namespace.
///
/// # Errors
/// The system refuses.
pub fn listen_tcp(at: SocketAddr, from: Option<&Space>) -> Result<OwnedFd> {
    let object = format!("listener {at}");
    inside(from, move || {
        let failed = |operation| Failure::of(&object, operation);
        let socket = stream(family(at), &object)?;
        sockopt::set_socket_reuseaddr(&socket, true).map_err(failed("reuse its address"))?;
        rustix::net::bind(&socket, &at).map_err(failed("bind"))?;
        rustix::net::listen(&socket, BACKLOG).map_err(failed("listen"))?;
        Ok(socket)
    })
}

/// Listens at a UNIX socket with mode 0600, in place of one of an earlier process.
///
/// # Errors
/// The system refuses.
pub fn listen_unix(path: &Path) -> Result<OwnedFd> {
    let failed = |operation| Failure::of(format!("{path:?}"), operation);
    // Only one process has this folder; the socket is of one that has ended.
    let _ = rustix::fs::unlink(path);
    let socket = private_socket::bind(path, SocketType::STREAM, SocketFlags::NONBLOCK)
        .map_err(failed("bind"))?;
    rustix::net::listen(&socket, BACKLOG).map_err(failed("listen"))?;
    Ok(socket)
}

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn stream(family: AddressFamily, object: &str) -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
        .map_err(|e| Failure::new(object, "make a socket", e).into())
}

/// Does something in a namespace.
fn inside<T: Send + 'static>(
    space: Option<&Space>,
    act: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match space {
        Some(Space::Home(home)) => home.run(act),
        Some(Space::Other(namespace)) => namespace::run_in(namespace.as_fd(), "netloom-reach", act),
        None => act(),
    }
}
