//! `tcp-sink PORT SKIP SECONDS`: takes one connection and, SKIP seconds after its first byte, counts for
//! SECONDS; prints `{"bytes_per_s"}`. `tcp-trickle PORT SKIP SECONDS`: the same from when the connection is
//! made, or could have been, and 0 where nothing comes. `tcp-source ADDRESS RATE SECONDS`: writes until the sink has
//! enough; RATE is in bytes a second, 0 for as fast as it goes; prints `{"bytes"}`.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::clock::{due, now, sleep_until};
use super::idle;
use super::{CHUNK, ready};

/// A paced source writes this much at a time, so that it sleeps for a millisecond at 1 Gb/s.
const PIECE: usize = 125_000;
/// A connection that carries nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(10);

/// What `tcp-sink` got.
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

/// As [`sink`], of a path that may carry nothing.
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

/// What comes in a time, be it nothing.
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

/// The longest time for a connection to be made.
const LATEST: Duration = Duration::from_millis(1500);

/// What `tcp-source` gave.
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

/// How it looks when the sink has enough.
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
