//! The process: listens on the host, then lives in the node's network without any right.

use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use netloom_sys::{Failure, caps, namespace, process};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use crate::carry::Carrier;
use crate::datagram::Relay;
use crate::door::{Door, Doors};
use crate::seats::Seats;
use crate::{Port, Protocol, Result, Spec, inward};

/// How often the lab's folder is looked for.
const LOOK: Duration = Duration::from_millis(500);

/// Connections that wait to be accepted: as many as the system allows.
const BACKLOG: i32 = 4096;

/// Connections of a node's ports at a time.
const MOST: usize = 2048;

/// Threads that carry them, for each processor and in all. Programs have one for each of their connections, and the scheduler
/// shares time by threads: with one a processor, 16 connections with a question at a time carried a quarter less.
const CARRIERS_EACH: usize = 3;
const MOST_CARRIERS: usize = 16;

/// Files that are open beside those of connections; datagrams take from both.
const FILES_BESIDES: u64 = 128;

/// The sockets of a node's ports on the host, in the order of the ports.
///
/// # Errors
/// An address is in use, is not the host's, or its port takes a right: the failure names the node and the port.
pub fn listen(spec: &Spec) -> Result<Vec<OwnedFd>> {
    spec.ports.iter().map(|port| listen_at(&spec.node, port)).collect()
}

fn listen_at(node: &str, port: &Port) -> Result<OwnedFd> {
    let object = format!("node {node:?}: port {port}");
    let failed = |operation| Failure::of(&object, operation);
    let family = if port.listen.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let kind = match port.protocol {
        Protocol::Tcp => SocketType::STREAM,
        Protocol::Udp => SocketType::DGRAM,
    };
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)
        .map_err(failed("make a socket"))?;
    if family == AddressFamily::INET6 {
        // The same port of IPv4 may be listed, too, or belong to another.
        sockopt::set_ipv6_v6only(&socket, true).map_err(failed("keep it to IPv6"))?;
    }
    // Not UDP's: there a second process could share the port.
    if port.protocol == Protocol::Tcp {
        // Connections of an earlier process may linger.
        sockopt::set_socket_reuseaddr(&socket, true).map_err(failed("reuse its address"))?;
    }
    rustix::net::bind(&socket, &port.listen).map_err(failed("listen"))?;
    if port.protocol == Protocol::Tcp {
        rustix::net::listen(&socket, BACKLOG).map_err(failed("listen"))?;
    }
    Ok(socket)
}

/// Serves the ports of the node whose network namespace is `space`, until SIGTERM or until the lab's folder is gone. `sockets`:
/// those of [`listen`] for the same ports.
///
/// It gives all rights up: call it in a single-threaded process that does nothing else.
///
/// # Errors
/// The system refuses something.
pub fn serve(spec: &Spec, sockets: Vec<OwnedFd>, space: OwnedFd) -> Result<()> {
    process::set_name(crate::NAME);
    let signals =
        process::catch(&[Signal::TERM.as_raw()]).map_err(Failure::of("ports", "catch signals"))?;
    // Sockets stay where they were made; those that are made from now on are the node's.
    namespace::enter_network(&space).map_err(Failure::of("ports", "enter the node's network"))?;
    // The namespace is to end with the node.
    drop(space);
    // Nothing needs a right from here on: the ports are bound.
    caps::drop_all().map_err(Failure::of("ports", "drop capabilities"))?;
    let most = room();
    let mut doors = vec![];
    for (port, socket) in spec.ports.iter().zip(sockets) {
        let places = inward::places(port.to, &spec.addresses);
        match port.protocol {
            Protocol::Tcp => doors.push(Door { listener: TcpListener::from(socket), places }),
            Protocol::Udp => {
                let relay = Relay::new(UdpSocket::from(socket), places)?;
                let other = Arc::clone(&relay);
                start(move || relay.take())?;
                start(move || other.answer())?;
            }
        }
    }
    if !doors.is_empty() {
        take(doors, most)?;
    }
    while stays(spec, &signals)? {}
    Ok(())
}

/// Takes connections at TCP's ports: this many at a time, on a few threads.
fn take(doors: Vec<Door>, most: usize) -> Result<()> {
    let seats = Seats::new(most);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let count = (CARRIERS_EACH * processors).min(MOST_CARRIERS);
    let carriers = (0..count).map(|_| Carrier::new()).collect::<Result<Vec<_>>>()?;
    for carrier in &carriers {
        let (carrier, seats) = (Arc::clone(carrier), Arc::clone(&seats));
        start(move || carrier.run(&seats))?;
    }
    let doors = Doors::new(doors, carriers, seats)?;
    start(move || doors.run())
}

fn start(run: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name("netloom-port".into()).spawn(run);
    thread.map_err(Failure::of("ports", "start a thread"))?;
    Ok(())
}

/// How many connections there may be, each with two descriptors; the limit of these is raised first.
fn room() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let room = usize::try_from(files.saturating_sub(FILES_BESIDES) / 2).unwrap_or(usize::MAX);
    room.clamp(1, MOST)
}

fn stays(spec: &Spec, signals: &OwnedFd) -> Result<bool> {
    let timeout = Timespec::try_from(LOOK).unwrap_or_default();
    let mut all = [PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
    match poll(&mut all, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(e) => return Err(Failure::new("ports", "wait", e).into()),
    }
    Ok(all[0].revents().is_empty() && spec.home.exists())
}
