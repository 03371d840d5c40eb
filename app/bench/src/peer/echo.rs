//! `echo-server PORT SECONDS`: sends every datagram back; prints `{"echoed"}`. Connections to the port are
//! taken by nobody.
//! `service PORT MICROSECONDS SECONDS`: the same after so much CPU time of work on each.
//! `echo-client ADDRESS RATE SECONDS`: sends at its pace, whatever comes back; prints
//! `{"sent", "received", "p50_us", "p99_us"}`, times from sending a datagram to reading its echo; null when
//! none came back.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use netloom_stats::percentile;
use rustix::net::{SendFlags, sendto};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::clock::{Pace, nanoseconds, now};
use super::idle;
use super::packets::{enlarge, stamp, stamped};
use super::ready;
use super::stop::Stop;

/// How often a waiting reader checks for its end.
const LOOK: Duration = Duration::from_millis(50);
/// Slower echoes count as lost.
const PATIENCE: Duration = Duration::from_millis(300);
const LENGTH: usize = 64;
/// Maximum burst after a delay of the client.
const BURST: u64 = 64;

/// Result of `echo-server`.
#[derive(Debug, Serialize)]
pub(super) struct Echoed {
    echoed: u64,
}

pub(super) fn server(port: u16, most: Duration) -> Result<Echoed> {
    service(port, 0, most)
}

/// Works on each datagram for this many microseconds of CPU time, then sends it back.
pub(super) fn service(port: u16, work: u64, most: Duration) -> Result<Echoed> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).context("bind")?;
    socket.set_read_timeout(Some(LOOK)).context("set a receive timeout")?;
    let _queue = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).context("listen")?;
    let stop = Stop::new(most);
    ready();
    let (mut buffer, mut echoed) = ([0; 2048], 0_u64);
    while !stop.over() {
        match socket.recv_from(&mut buffer) {
            Ok((count, from)) => {
                let until = cpu_time() + work * 1000;
                while cpu_time() < until {
                    std::hint::spin_loop();
                }
                // Nobody may be there, only a broadcast address, or one whose neighbour is not found yet, for
                // which everybody else would wait.
                let sent = sendto(&socket, &buffer[..count], SendFlags::DONTWAIT, &from);
                echoed += u64::from(sent.is_ok());
            }
            Err(error) if idle(error.kind()) => {}
            Err(error) => return Err(error).context("receive"),
        }
    }
    Ok(Echoed { echoed })
}

/// Nanoseconds of CPU time of this thread.
fn cpu_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let [seconds, nanoseconds] = [time.tv_sec, time.tv_nsec].map(|n| u64::try_from(n).unwrap_or(0));
    seconds * 1_000_000_000 + nanoseconds
}

/// Result of `echo-client`.
#[derive(Debug, Serialize)]
pub(super) struct Latency {
    sent: u64,
    received: usize,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
}

pub(super) fn client(to: SocketAddr, rate: f64, time: Duration) -> Result<Latency> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context("bind")?;
    socket.connect(to).with_context(|| format!("connect to {to}"))?;
    socket.set_read_timeout(Some(PATIENCE)).context("set a receive timeout")?;
    enlarge(&socket);
    let reader = socket.try_clone().context("share the socket")?;
    let reading = std::thread::spawn(move || read_all(&reader));
    let sent = send_all(&socket, rate, time)?;
    let Ok(times) = reading.join() else { bail!("the reader panicked") };
    let times = times?;
    let at = |percent| percentile(&times, percent).ok();
    Ok(Latency { sent, received: times.len(), p50_us: at(50.0), p99_us: at(99.0) })
}

fn send_all(socket: &UdpSocket, rate: f64, time: Duration) -> Result<u64> {
    let until = now() + nanoseconds(time);
    let (mut pace, mut number) = (Pace::new(rate, BURST), 0);
    let mut datagram = [0; LENGTH];
    loop {
        if pace.wait(number) >= until {
            return Ok(number);
        }
        stamp(&mut datagram, number, now());
        socket.send(&datagram).context("send")?;
        number += 1;
    }
}

/// Times in microseconds, until no more echoes arrive.
fn read_all(socket: &UdpSocket) -> Result<Vec<f64>> {
    let (mut buffer, mut times) = ([0; 2048], vec![]);
    loop {
        match socket.recv(&mut buffer) {
            Ok(count) => {
                let Some((_, then)) = stamped(&buffer[..count]) else { continue };
                #[expect(clippy::cast_precision_loss, reason = "seconds in ns are below 2^53")]
                times.push(now().saturating_sub(then) as f64 / 1e3);
            }
            Err(error) if idle(error.kind()) => return Ok(times),
            Err(error) => return Err(error).context("receive"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_are_timed() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = server.local_addr().unwrap();
        let echoing = std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            loop {
                let (length, from) = server.recv_from(&mut buffer).unwrap();
                if length < LENGTH {
                    return;
                }
                server.send_to(&buffer[..length], from).unwrap();
            }
        });
        let latency = client(to, 1000.0, Duration::from_millis(50)).unwrap();
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().send_to(&[0], to).unwrap();
        echoing.join().unwrap();
        assert!((1..=50).contains(&latency.sent), "{latency:?}");
        assert_eq!(latency.received as u64, latency.sent);
        assert!(latency.p50_us > Some(0.0) && latency.p50_us <= latency.p99_us, "{latency:?}");
    }
}
