//! `tcp-sink PORT SKIP SECONDS`: accepts one connection and counts for SECONDS, from SKIP seconds after its
//! first byte; prints `{"bytes_per_s"}`. `tcp-trickle PORT SKIP SECONDS`: the same from SKIP seconds after
//! the connection, and 0 if there is none or nothing arrives. `tcp-source ADDRESS RATE SECONDS`: writes until
//! the sink closes; RATE is in bytes per second, 0 for top speed; prints `{"bytes"}`.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::clock::{due, now, sleep_until};
use super::idle;
use super::{CHUNK, ready};

/// Bytes per write of a paced source, so that it sleeps for a millisecond at 1 Gb/s.
const PIECE: usize = 125_000;
/// A connection silent for this long is given up.
const SILENCE: Duration = Duration::from_secs(10);

/// Result of `tcp-sink`.
#[derive(Debug, Serialize)]
pub(super) struct Got {
    bytes_per_s: f64,
}

pub(super) fn sink(port: u16, skip: Duration, time: Duration) -> Result<Got> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).context("listen")?;
    ready();
    take(&listener, skip, time)
}

fn take(listener: &TcpListener, skip: Duration, time: Duration) -> Result<Got> {
    let (mut stream, _) = listener.accept().context("accept")?;
    stream.set_read_timeout(Some(SILENCE)).context("set a receive timeout")?;
    let mut buffer = vec![0; 2 * CHUNK];
    let mut more = || -> Result<u64> {
        match stream.read(&mut buffer).context("receive")? {
            0 => bail!("the source ended before the time was over"),
            count => Ok(count as u64),
        }
    };
    more()?;
    let first = Instant::now();
    while first.elapsed() < skip {
        more()?;
    }
    let (start, mut bytes) = (Instant::now(), 0);
    while start.elapsed() < time {
        bytes += more()?;
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of bytes below 2^53")]
    Ok(Got { bytes_per_s: bytes as f64 / start.elapsed().as_secs_f64() })
}

/// [`sink`] for a path that may carry nothing.
pub(super) fn trickle(port: u16, skip: Duration, time: Duration) -> Result<Got> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).context("listen")?;
    listener.set_nonblocking(true).context("set not to wait")?;
    ready();
    let until = Instant::now() + LATEST;
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Ok(Got { bytes_per_s: 0.0 });
            }
            Err(error) => return Err(error).context("accept"),
        }
    };
    stream.set_nonblocking(false).context("set to wait")?;
    count_what_comes(&stream, skip)?;
    count_what_comes(&stream, time)
}

/// Counts bytes for a time, possibly none.
fn count_what_comes(mut stream: &TcpStream, time: Duration) -> Result<Got> {
    stream.set_read_timeout(Some(Duration::from_millis(20))).context("set a receive timeout")?;
    let (start, mut bytes, mut buffer) = (Instant::now(), 0_u64, vec![0; 2 * CHUNK]);
    while start.elapsed() < time {
        match stream.read(&mut buffer) {
            Ok(count) => bytes += count as u64,
            Err(error) if idle(error.kind()) => {}
            Err(error) => return Err(error).context("receive"),
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of bytes below 2^53")]
    Ok(Got { bytes_per_s: bytes as f64 / start.elapsed().as_secs_f64() })
}

/// Longest wait for a connection.
const LATEST: Duration = Duration::from_millis(1500);

/// Result of `tcp-source`.
#[derive(Debug, Serialize)]
pub(super) struct Gave {
    bytes: u64,
}

pub(super) fn source(to: SocketAddr, rate: f64, most: Duration) -> Result<Gave> {
    let mut stream = TcpStream::connect(to).with_context(|| format!("connect to {to}"))?;
    stream.set_write_timeout(Some(SILENCE)).context("set a send timeout")?;
    let chunk = vec![0x5a; if rate > 0.0 { PIECE } else { CHUNK }];
    let pieces = rate / chunk.len() as f64;
    let (start, until) = (now(), Instant::now() + most);
    let mut number = 0_u64;
    while Instant::now() < until {
        if rate > 0.0 {
            sleep_until(due(start, number, pieces));
        }
        match stream.write_all(&chunk) {
            Ok(()) => number += 1,
            Err(error) if ended(error.kind()) => break,
            Err(error) => return Err(error).context("send"),
        }
    }
    Ok(Gave { bytes: number * chunk.len() as u64 })
}

/// Whether an error means that the sink has closed.
fn ended(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paced_stream_keeps_its_pace() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let short = Duration::from_millis(100);
        let sink = std::thread::spawn(move || take(&listener, short, short).unwrap());
        let gave = source(to, 1e8, Duration::from_secs(5)).unwrap();
        let got = sink.join().unwrap();
        assert!(gave.bytes > 0);
        assert!(got.bytes_per_s < 3e8, "{got:?}");
    }
}
