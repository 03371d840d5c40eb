//! Numbered, stamped datagrams in one direction, to measure delay, loss and rate.
//!
//! `udp-sink PORT count|delays SECONDS`: prints `{"received", "distinct", "bits_per_s", "delays_ns"}`, the
//! last only on request. `udp-source ADDRESS BYTES COUNT RATE BURST`: COUNT datagrams of BYTES, RATE per
//! second, with at most BURST overdue ones at once; prints `{"sent"}`. Stamps are CLOCK_MONOTONIC, which both
//! ends share; arrival times are the kernel's. A rate counts whole Ethernet frames (without preamble and
//! check sequence) and skips the first fifth of the time, in which queues fill.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use netloom_rawsock::arrival;
use serde::Serialize;

use super::clock::{Pace, now};
use super::idle;
use super::ready;
use super::stop::Stop;

/// Sequence number and time.
const STAMP: usize = 16;
/// Ethernet, IPv4 and UDP headers.
const HEADERS: u64 = 14 + 20 + 8;
/// How often a waiting reader checks for its end.
const LOOK: Duration = Duration::from_millis(20);
/// Receive buffer in bytes.
const BUFFER: usize = 64 << 20;

/// Output of a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Print {
    /// Counts.
    Count,
    /// Delays too.
    Delays,
}

pub(super) fn print(word: &str) -> Result<Print> {
    match word {
        "count" => Ok(Print::Count),
        "delays" => Ok(Print::Delays),
        _ => bail!("peer: `{word}`: count or delays"),
    }
}

/// Writes number and time to the start of a datagram of at least [`STAMP`] bytes.
pub(super) fn stamp(datagram: &mut [u8], number: u64, time: u64) {
    datagram[..8].copy_from_slice(&number.to_be_bytes());
    datagram[8..STAMP].copy_from_slice(&time.to_be_bytes());
}

/// Number and time of a datagram.
pub(super) fn stamped(datagram: &[u8]) -> Option<(u64, u64)> {
    let (number, rest) = datagram.split_first_chunk()?;
    let (time, _) = rest.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), u64::from_be_bytes(*time)))
}

/// Enlarges the receive buffer as far as allowed: losses in the socket would look like losses on the path.
pub(super) fn enlarge(socket: &UdpSocket) {
    use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
    if set_socket_recv_buffer_size_force(socket, BUFFER).is_err() {
        // A smaller one only loses sooner, and losses are checked against the path's own count.
        let _ = set_socket_recv_buffer_size(socket, BUFFER);
    }
}

/// Result of `udp-sink`.
#[derive(Debug, Serialize)]
pub(super) struct Arrivals {
    received: usize,
    distinct: usize,
    bits_per_s: f64,
    delays_ns: Vec<u64>,
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    number: u64,
    sent: u64,
    came: u64,
    bytes: u64,
}

pub(super) fn sink(port: u16, print: Print, most: Duration) -> Result<Arrivals> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).context("bind")?;
    enlarge(&socket);
    socket.set_read_timeout(Some(LOOK)).context("set a receive timeout")?;
    arrival::note_arrivals(&socket)?;
    let ahead = ahead()?;
    let stop = Stop::new(most);
    ready();
    let (mut buffer, mut arrivals) = (vec![0; 65536], vec![]);
    loop {
        match arrival::receive(&socket, &mut buffer) {
            Ok((count, noted)) => {
                // The arrival time, not the time at which this process was woken.
                let came = noted.map_or_else(now, |noted| noted.saturating_sub(ahead));
                let Some((number, sent)) = stamped(&buffer[..count]) else { continue };
                arrivals.push(Arrival { number, sent, came, bytes: count as u64 });
            }
            // It may end only when nothing is left to read.
            Err(error) if idle(error.kind()) && !stop.over() => {}
            Err(error) if idle(error.kind()) => break,
            Err(error) => return Err(error).context("receive"),
        }
    }
    Ok(sum_up(&arrivals, print == Print::Delays))
}

/// Offset of CLOCK_REALTIME, used for the kernel's arrival times, from CLOCK_MONOTONIC.
fn ahead() -> Result<u64> {
    let real = SystemTime::now().duration_since(UNIX_EPOCH).context("read the clock")?;
    Ok(u64::try_from(real.as_nanos())?.saturating_sub(now()))
}

fn sum_up(arrivals: &[Arrival], delays: bool) -> Arrivals {
    let mut numbers: Vec<u64> = arrivals.iter().map(|arrival| arrival.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let delay = |arrival: &Arrival| arrival.came.saturating_sub(arrival.sent);
    let delays_ns = if delays { arrivals.iter().map(delay).collect() } else { vec![] };
    let (received, distinct) = (arrivals.len(), numbers.len());
    Arrivals { received, distinct, bits_per_s: steady_rate(arrivals).unwrap_or(0.0), delays_ns }
}

/// Bits per second after the first fifth of the time; `None` if too few arrived.
fn steady_rate(arrivals: &[Arrival]) -> Option<f64> {
    let (first, last) = (arrivals.first()?.came, arrivals.last()?.came);
    let from = first + (last - first) / 5;
    let mut steady = arrivals.iter().skip_while(|arrival| arrival.came < from);
    // The first frame's bytes arrived before its time.
    let start = steady.next()?.came;
    let bytes: u64 = steady.map(|arrival| arrival.bytes + HEADERS).sum();
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    (last > start).then(|| (bytes * 8) as f64 * 1e9 / (last - start) as f64)
}

/// Result of `udp-source`.
#[derive(Debug, Serialize)]
pub(super) struct Sent {
    sent: u64,
}

pub(super) fn source(
    to: SocketAddr,
    bytes: usize,
    count: u64,
    rate: f64,
    burst: u64,
) -> Result<Sent> {
    if !(STAMP..=65_507).contains(&bytes) || rate <= 0.0 {
        bail!("peer: {bytes} bytes, {rate} a second: no datagrams");
    }
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context("bind")?;
    socket.connect(to).with_context(|| format!("connect to {to}"))?;
    let mut datagram = vec![0; bytes];
    let mut pace = Pace::new(rate, burst);
    for number in 0..count {
        pace.wait(number);
        stamp(&mut datagram, number, now());
        match socket.send(&datagram) {
            // An ICMP error for an earlier datagram: nobody listens. It counts as sent.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            sent => drop(sent.context("send")?),
        }
    }
    Ok(Sent { sent: count })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(number: u64, came: u64) -> Arrival {
        Arrival { number, sent: 1, came, bytes: 58 }
    }

    #[test]
    fn a_stamp_is_read_as_written() {
        let mut datagram = [0; 20];
        stamp(&mut datagram, 7, 9);
        assert_eq!(stamped(&datagram), Some((7, 9)));
        assert_eq!(stamped(&datagram[..15]), None);
    }

    #[test]
    fn a_rate_is_that_by_hand() {
        // 100-byte frames every millisecond, after ten at once.
        let mut all: Vec<Arrival> = (0..10).map(|number| arrival(number, 0)).collect();
        all.extend((1..=100).map(|number| arrival(number + 9, number * 1_000_000)));
        let sum = sum_up(&all, true);
        assert_eq!((sum.received, sum.distinct), (110, 110));
        assert!((sum.bits_per_s - 800_000.0).abs() < 1e-6, "{}", sum.bits_per_s);
        assert_eq!((sum.delays_ns[0], sum.delays_ns[10]), (0, 999_999));
        assert_eq!(steady_rate(&[]), None);
        assert_eq!(sum_up(&[arrival(3, 5), arrival(3, 6)], false).distinct, 1);
    }

    #[test]
    fn datagrams_go_out_at_their_pace() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = socket.local_addr().unwrap();
        let start = now();
        assert_eq!(source(to, 100, 50, 1000.0, 5).unwrap().sent, 50);
        assert!(now() - start >= 49_000_000);
        let mut buffer = [0; 200];
        for number in 0..50 {
            let count = socket.recv(&mut buffer).unwrap();
            assert_eq!((count, stamped(&buffer).unwrap().0), (100, number));
        }
        assert!(source(to, 15, 1, 1.0, 1).is_err() && source(to, 16, 1, 0.0, 1).is_err());
    }
}
