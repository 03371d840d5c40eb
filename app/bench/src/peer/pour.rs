//! Datagrams as fast as sockets take them, with a bounded number in flight.
//!
//! `udp-pour ADDRESS BYTES WINDOW SKIP SECONDS`: datagrams that start with an eight-byte number, many per
//! system call; prints `{"per_s", "sent", "received", "lost", "waited"}`. `udp-drain PORT SECONDS` reads them
//! and acknowledges the count; prints `{"received"}`. At most WINDOW datagrams are sent but not yet read, so
//! that no queue overflows: the rate is loss-free, and any loss is still reported. Rates count datagrams
//! read. The reader takes what has arrived and naps: the sender need not wake it, and rarely contends for the
//! queue's lock.

use std::io::{ErrorKind, IoSlice};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use serde::Serialize;

use super::idle;
use super::packets::enlarge;
use super::ready;
use super::stop::Stop;

/// Datagrams per system call.
const BATCH: u64 = 64;
/// Datagrams after which the reader acknowledges the count.
const TOLD: u64 = 128;
/// After this silence, datagrams in flight count as lost.
const PATIENCE: Duration = Duration::from_millis(200);
/// How often an idle reader acknowledges the count.
const LOOK: Duration = Duration::from_millis(20);
/// Shortest sleep of the reader.
const NAP: Duration = Duration::from_micros(20);
/// Bytes of a datagram's number, and of an acknowledgement.
const NUMBER: usize = 8;

/// Result of `udp-pour`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Poured {
    /// Datagrams read per second, after the skipped time.
    per_s: f64,
    sent: u64,
    received: u64,
    lost: u64,
    /// Share of time without room.
    waited: f64,
}

/// A sender's progress.
#[derive(Debug, Default)]
struct Account {
    sent: u64,
    /// As last acknowledged.
    received: u64,
    lost: u64,
}

impl Account {
    fn on_the_way(&self) -> u64 {
        self.sent.saturating_sub(self.received + self.lost)
    }

    /// Waits until at most `most` datagrams are in flight.
    fn wait(&mut self, socket: &UdpSocket, most: u64) -> Result<()> {
        let mut told = [0; NUMBER];
        while self.on_the_way() > most {
            match socket.recv(&mut told) {
                Ok(NUMBER) => self.received = self.received.max(u64::from_be_bytes(told)),
                Ok(_) => {}
                Err(error) if idle(error.kind()) => self.lost += self.on_the_way(),
                // An ICMP error for an earlier datagram: nobody listened.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error).context("receive"),
            }
        }
        Ok(())
    }
}

pub(super) fn pour(
    to: SocketAddr,
    bytes: usize,
    window: u64,
    [skip, time]: [Duration; 2],
) -> Result<Poured> {
    if !(NUMBER..=65_507).contains(&bytes) || window < 2 * BATCH {
        bail!("peer: {bytes} bytes, {window} on the way: no datagrams");
    }
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context("bind")?;
    socket.connect(to).with_context(|| format!("connect to {to}"))?;
    socket.set_read_timeout(Some(PATIENCE)).context("set a receive timeout")?;
    let mut datagrams = vec![vec![0_u8; bytes]; usize::try_from(BATCH)?];
    let (mut account, mut waited) = (Account::default(), Duration::ZERO);
    let begin = Instant::now();
    let mut counted: Option<(Instant, u64)> = None;
    while begin.elapsed() < skip + time {
        if counted.is_none() && begin.elapsed() >= skip {
            (counted, waited) = (Some((Instant::now(), account.received)), Duration::ZERO);
        }
        if account.on_the_way() > window - BATCH {
            let start = Instant::now();
            // That leaves room for a while.
            account.wait(&socket, window / 2)?;
            waited += start.elapsed();
        }
        account.sent += batch(&socket, &mut datagrams, account.sent)?;
    }
    let (start, before) = counted.unwrap_or((begin, 0));
    let (took, read) = (start.elapsed().as_secs_f64(), account.received.saturating_sub(before));
    account.wait(&socket, 0)?;
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    let per_s = read as f64 / took;
    let Account { sent, received, lost } = account;
    Ok(Poured { per_s, sent, received, lost, waited: waited.as_secs_f64() / took })
}

/// Sends datagrams from number `first` on; returns how many were sent.
fn batch(socket: &UdpSocket, datagrams: &mut [Vec<u8>], first: u64) -> Result<u64> {
    for (number, datagram) in (first..).zip(datagrams.iter_mut()) {
        datagram[..NUMBER].copy_from_slice(&number.to_be_bytes());
    }
    let parts: Vec<[IoSlice<'_>; 1]> = datagrams.iter().map(|d| [IoSlice::new(d)]).collect();
    let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> =
        parts.iter().map(|_| SendAncillaryBuffer::default()).collect();
    let both = parts.iter().zip(&mut controls);
    let mut messages: Vec<MMsgHdr<'_>> = both.map(|(part, c)| MMsgHdr::new(part, c)).collect();
    match sendmmsg(socket, &mut messages, SendFlags::empty()) {
        Ok(sent) => Ok(u64::try_from(sent)?),
        // An ICMP error for an earlier datagram.
        Err(rustix::io::Errno::CONNREFUSED) => Ok(0),
        Err(error) => Err(error).context("send"),
    }
}

/// Result of `udp-drain`.
#[derive(Debug, Serialize)]
pub(super) struct Drained {
    received: u64,
}

/// The reader.
struct Reader {
    socket: UdpSocket,
    /// Whether it is connected to the sender, and so hears nobody else.
    joined: bool,
    received: u64,
    told: u64,
}

impl Reader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<()> {
        if self.joined {
            self.socket.recv(buffer)?;
        } else {
            let (_, from) = self.socket.recv_from(buffer)?;
            self.socket.connect(from)?;
            self.joined = true;
        }
        self.received += 1;
        if self.received >= self.told + TOLD {
            self.tell();
        }
        Ok(())
    }

    fn tell(&mut self) {
        self.told = self.received;
        if self.joined {
            // A sender that is gone needs no acknowledgement.
            let _ = self.socket.send(&self.received.to_be_bytes());
        }
    }
}

pub(super) fn drain(port: u16, most: Duration) -> Result<Drained> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).context("bind")?;
    enlarge(&socket);
    socket.set_nonblocking(true).context("set not to wait")?;
    let mut reader = Reader { socket, joined: false, received: 0, told: 0 };
    let stop = Stop::new(most);
    ready();
    let (mut buffer, mut told) = ([0; 2048], Instant::now());
    while !stop.told() {
        match reader.read(&mut buffer) {
            Ok(()) => {}
            Err(error) if idle(error.kind()) => {
                if told.elapsed() >= LOOK {
                    reader.tell();
                    told = Instant::now();
                    if stop.over() {
                        break;
                    }
                }
                std::thread::sleep(NAP);
            }
            // The sender is gone.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error).context("receive"),
        }
    }
    Ok(Drained { received: reader.received })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn what_is_poured_is_read_and_told() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = socket.local_addr().unwrap();
        let mut reader = Reader { socket, joined: false, received: 0, told: 0 };
        reader.socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let poured_all = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let reading = std::thread::spawn({
            let poured_all = poured_all.clone();
            move || {
                let mut buffer = [0; 100];
                loop {
                    let ended = poured_all.load(Ordering::SeqCst);
                    match reader.read(&mut buffer) {
                        // An acknowledgement came too late for the sender; what it sent is there still.
                        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                        // A sender that has no turn for a while has not ended.
                        Err(_) if ended => break,
                        _ => {}
                    }
                }
                reader.tell();
                reader.received
            }
        });
        let time = Duration::from_millis(50);
        // The rest, too small for an acknowledgement of its own, is acknowledged too late to count.
        let poured = pour(to, 20, 256, [time, time]).unwrap();
        poured_all.store(true, Ordering::SeqCst);
        assert_eq!(poured.received + poured.lost, poured.sent);
        // What the reader had no turn to acknowledge in time counts as lost, as much as that may be.
        assert!(poured.received >= TOLD && poured.per_s > 0.0, "{poured:?}");
        assert_eq!(reading.join().unwrap(), poured.sent);
        assert!(pour(to, 7, 256, [time, time]).is_err() && pour(to, 8, 127, [time, time]).is_err());
    }

    #[test]
    fn what_is_not_read_is_lost() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let time = Duration::from_millis(10);
        let poured = pour(socket.local_addr().unwrap(), 20, 128, [Duration::ZERO, time]).unwrap();
        assert_eq!((poured.received, poured.lost), (0, poured.sent));
        assert!(poured.sent >= BATCH && poured.waited > 0.5, "{poured:?}");
    }
}
