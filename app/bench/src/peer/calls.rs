//! `calls KIND COUNT`: makes a call COUNT times on loopback, each timed by itself, and prints the median as
//! `{"count", "median_us"}`.
//!
//! Kinds: `tcp` and `udp` (connect(2)), `bind`, `socket` (a stream of TCP), `socket-asked` (one of netlink that policies
//! decide about), `sendto`, `sendto-first` (each to another address). What a call needs and what it leaves is not timed.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use netloom_stats::percentile;
use rustix::net::{
    AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, bind, connect, netlink, sendto,
    socket_with, sockopt,
};
use serde::Serialize;

use super::clock::now;

/// What is made between two looks at what arrived.
const BURST: u32 = 64;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// Port to which single datagrams go: nobody listens, and nobody answers to an unconnected socket.
const DISCARD: u16 = 9;

/// Times of a call.
#[derive(Debug, Serialize)]
pub(super) struct Times {
    count: usize,
    median_us: f64,
}

pub(super) fn calls(kind: &str, count: u32) -> Result<Times> {
    let mut times = Vec::with_capacity(count as usize);
    match kind {
        "tcp" => tcp(count, &mut times)?,
        "udp" => udp(count, &mut times)?,
        "bind" => binds(count, &mut times)?,
        "socket" => repeat(count, &mut times, || stream().map(drop))?,
        "socket-asked" => repeat(count, &mut times, || diagnostic().map(drop))?,
        "sendto" => sends(count, &mut times)?,
        "sendto-first" => first_sends(count, &mut times)?,
        other => bail!("peer calls: `{other}`: no such call"),
    }
    Ok(Times { count: times.len(), median_us: percentile(&times, 50.0)? })
}

/// Times `call` alone.
fn timed<T>(times: &mut Vec<f64>, call: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = now();
    let done = call();
    #[expect(clippy::cast_precision_loss, reason = "an hour in ns is below 2^53")]
    times.push((now() - before) as f64 / 1e3);
    done
}

fn repeat<T>(count: u32, times: &mut Vec<f64>, mut call: impl FnMut() -> Result<T>) -> Result<()> {
    (0..count).try_for_each(|_| timed(times, &mut call).map(drop))
}

fn stream() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).context("make a socket")
}

/// A socket that lists sockets (sock_diag(7)).
fn diagnostic() -> Result<OwnedFd> {
    let (family, flags) = (AddressFamily::NETLINK, SocketFlags::CLOEXEC);
    let made = socket_with(family, SocketType::RAW, flags, Some(netlink::SOCK_DIAG));
    made.context("make a netlink socket")
}

fn datagrams() -> Result<OwnedFd> {
    let (family, flags) = (AddressFamily::INET, SocketFlags::CLOEXEC);
    let made = socket_with(family, SocketType::DGRAM, flags, None::<Protocol>);
    made.context("make a socket")
}

/// A connection each, ended by a reset, which leaves no port in use.
fn tcp(count: u32, times: &mut Vec<f64>) -> Result<()> {
    let listener = listener()?;
    let address = listener.local_addr().context("read own address")?;
    for number in 0..count {
        let socket = stream()?;
        timed(times, || connect(&socket, &address).context("connect"))?;
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).context("set how it ends")?;
        drop(socket);
        if number % BURST == 0 {
            while listener.accept().is_ok() {}
        }
    }
    Ok(())
}

fn listener() -> Result<std::net::TcpListener> {
    let socket = stream()?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).context("bind to 127.0.0.1")?;
    rustix::net::listen(&socket, BACKLOG).context("listen on 127.0.0.1")?;
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true).context("set not to wait")?;
    Ok(listener)
}

fn udp(count: u32, times: &mut Vec<f64>) -> Result<()> {
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind to 127.0.0.1")?;
    let address = server.local_addr().context("read own address")?;
    let socket = datagrams()?;
    repeat(count, times, || connect(&socket, &address).context("connect"))
}

/// To one port, again and again.
fn binds(count: u32, times: &mut Vec<f64>) -> Result<()> {
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind to 127.0.0.1")?;
    let address = free.local_addr().context("read own address")?;
    drop(free);
    for _ in 0..count {
        let socket = datagrams()?;
        timed(times, || bind(&socket, &address).context("bind"))?;
    }
    Ok(())
}

fn sends(count: u32, times: &mut Vec<f64>) -> Result<()> {
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind to 127.0.0.1")?;
    server.set_nonblocking(true).context("set not to wait")?;
    let address = server.local_addr().context("read own address")?;
    let socket = datagrams()?;
    for number in 0..count {
        timed(times, || one_byte(&socket, &address))?;
        if number % BURST == 0 {
            while server.recv(&mut [0; 8]).is_ok() {}
        }
    }
    Ok(())
}

fn first_sends(count: u32, times: &mut Vec<f64>) -> Result<()> {
    let socket = datagrams()?;
    let mut host = u32::from(Ipv4Addr::new(127, 1, 0, 0));
    repeat(count, times, || {
        host += 1;
        one_byte(&socket, &SocketAddrV4::new(host.into(), DISCARD).into())
    })
}

fn one_byte(socket: impl AsFd, to: &std::net::SocketAddr) -> Result<()> {
    sendto(socket, b"x", SendFlags::empty(), to).context("send a datagram")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_timed_as_often_as_asked() {
        for kind in ["tcp", "udp", "bind", "socket", "socket-asked", "sendto", "sendto-first"] {
            let times = calls(kind, 200).unwrap();
            assert_eq!(times.count, 200, "{kind}");
            assert!(times.median_us > 0.0, "{kind}: {times:?}");
        }
        assert!(calls("close", 1).is_err());
    }
}
