//! The process: listens on the host, then lives in the node's network without any right.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use netloom_sys::{Failure, caps, namespace, process};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::Signal;

use crate::{Port, Protocol, Result, Spec, datagram, inward, stream};

/// How often the lab's folder is looked for.
const LOOK: Duration = Duration::from_millis(500);

/// Connections that wait to be accepted.
const BACKLOG: i32 = 256;

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

/// Serves the ports of the node whose network namespace is `space`, until SIGTERM or until the lab's folder is gone.
///
/// It gives all rights up: call it in a single-threaded process that does nothing else.
///
/// # Errors
/// A port cannot be had, or the system refuses something.
pub fn serve(spec: &Spec, space: OwnedFd) -> Result<()> {
    process::set_name(crate::NAME);
    let signals =
        process::catch(&[Signal::TERM.as_raw()]).map_err(Failure::of("ports", "catch signals"))?;
    let sockets = listen(spec)?;
    // Sockets stay where they were made; those that are made from now on are the node's.
    namespace::enter_network(&space).map_err(Failure::of("ports", "enter the node's network"))?;
    // The namespace is to end with the node.
    drop(space);
    caps::drop_all().map_err(Failure::of("ports", "drop capabilities"))?;
    for (port, socket) in spec.ports.iter().zip(sockets) {
        let places = inward::places(port.to, &spec.addresses);
        let object = format!("node {:?}: port {port}", spec.node);
        thread::Builder::new()
            .name("netloom-port".into())
            .spawn(taking(port.protocol, socket, places))
            .map_err(Failure::of(object, "start a thread"))?;
    }
    while stays(spec, &signals)? {}
    Ok(())
}

fn taking(
    protocol: Protocol,
    socket: OwnedFd,
    places: Vec<SocketAddr>,
) -> Box<dyn FnOnce() + Send> {
    match protocol {
        Protocol::Tcp => {
            let listener = TcpListener::from(socket);
            Box::new(move || stream::take(&listener, &places))
        }
        Protocol::Udp => {
            let socket = Arc::new(UdpSocket::from(socket));
            Box::new(move || datagram::take(&socket, &places))
        }
    }
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
