//! Frames from one process to another through a switch of any kind: see [`super::line`].
//!
//! `port-receive LINE BYTES SKIP SECONDS`: announces itself by broadcasts until frames arrive, then counts
//! for SECONDS, from SKIP seconds after the first one; prints `{"frames", "bytes", "cut", "seconds"}`, where
//! `cut` counts frames of another length. `port-send LINE BYTES SECONDS`: waits for that broadcast, then
//! sends until stopped; prints `{"taken", "lost"}`. `port-station LINE SECONDS` announces itself once, and
//! counts frames until stopped; prints as `port-receive`, `seconds` from its first frame to its last.
//! `port-send-to LINE BYTES PROCESS SECONDS` sends for SECONDS to such a station without having heard of it,
//! and prints as `port-send`. `port-echo LINE HOW SECONDS` sends frames back,
//! `port-ping LINE BYTES HOW SECONDS` times the round trip; prints `{"count", "lost", "p50_us", "p99_us"}`.
//! HOW to wait for a frame: `block` in poll(2), `spin`, or `wait` as the library does. BYTES is the frame
//! size, Ethernet header included.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use netloom_port::HEADER;
use netloom_stats::percentile;
use serde::Serialize;

use super::clock::now;
use super::line::{BUFFER, Gave, Line, open, readable, writable};
use super::ready;
use super::stop::Stop;

type Mac = [u8; 6];
const EVERYBODY: Mac = [0xff; 6];
/// EtherType for experiments (IEEE 802, local experimental 1).
const KIND: [u8; 2] = [0x88, 0xb5];
/// Size of a broadcast in bytes.
const SHORT: usize = 60;
/// Frames between two checks of the clock and of the end.
const BATCH: usize = 64;
/// Pause between two broadcasts, and longest wait between two checks of the end.
const LOOK: Duration = Duration::from_millis(20);
/// How long to wait for the other side.
const PATIENCE: Duration = Duration::from_secs(10);
/// Slower answers count as lost.
const LATE: Duration = Duration::from_millis(200);
/// Maximum number of timed answers.
const MOST: usize = 300_000;

/// How to wait for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Block,
    Spin,
    Wait,
}

pub(super) fn how(word: &str) -> Result<How> {
    match word {
        "block" => Ok(How::Block),
        "spin" => Ok(How::Spin),
        "wait" => Ok(How::Wait),
        _ => bail!("peer: `{word}`: block, spin or wait"),
    }
}

/// This process's address: different in each process, because switches remember addresses for a while.
fn own() -> Mac {
    // Query the pid once: it is a system call.
    static OWN: OnceLock<Mac> = OnceLock::new();
    *OWN.get_or_init(|| address(std::process::id()))
}

/// The address of a process.
fn address(process: u32) -> Mac {
    let [a, b, c, d] = process.to_be_bytes();
    [2, 0, a, b, c, d]
}

/// A frame behind the header that every line expects.
fn frame(to: Mac, from: Mac, bytes: usize) -> Result<Vec<u8>> {
    if !(SHORT..=BUFFER - HEADER - 1).contains(&bytes) {
        bail!("peer: {bytes}: no length of a frame");
    }
    let mut frame = vec![0; HEADER + bytes];
    for (at, part) in [(0, &to[..]), (6, &from[..]), (12, &KIND[..])] {
        frame[HEADER + at..HEADER + at + part.len()].copy_from_slice(part);
    }
    Ok(frame)
}

/// Whether a frame is for this address.
fn is_to(frame: &[u8], address: Mac) -> bool {
    frame.get(..6) == Some(&address) && frame.get(12..14) == Some(&KIND)
}

/// Source address of a frame that is long enough to belong to the experiment.
fn sender(frame: &[u8]) -> Mac {
    frame.get(6..12).and_then(|at| at.try_into().ok()).unwrap_or(EVERYBODY)
}

/// Waits for the responder's broadcast; returns its address.
fn greeted(line: &mut dyn Line) -> Result<Mac> {
    let (mut buffer, until) = (vec![0; BUFFER], Instant::now() + PATIENCE);
    while Instant::now() < until {
        readable(line, LOOK)?;
        while let Some(found) = line.receive(&mut buffer)? {
            let frame = &buffer[found];
            if is_to(frame, EVERYBODY) {
                return Ok(sender(frame));
            }
        }
    }
    bail!("nobody told where to send to")
}

/// Result of `port-send`.
#[derive(Debug, Serialize)]
pub(super) struct Given {
    taken: u64,
    lost: u64,
}

pub(super) fn send(line: &str, bytes: usize, most: Duration) -> Result<Given> {
    let stop = Stop::new(most);
    let mut line = open(line, "bench-send")?;
    ready();
    let to = greeted(&mut *line)?;
    line.only_send()?;
    flood(&mut *line, &frame(to, own(), bytes)?, &stop)
}

/// Ends with the port closed.
pub(super) fn send_to(line: &str, bytes: usize, process: u32, time: Duration) -> Result<Given> {
    let mut line = open(line, "bench-send")?;
    line.only_send()?;
    flood(&mut *line, &frame(address(process), own(), bytes)?, &Stop::new(time))
}

fn flood(line: &mut dyn Line, frame: &[u8], stop: &Stop) -> Result<Given> {
    let mut given = Given { taken: 0, lost: 0 };
    while !stop.over() {
        for _ in 0..BATCH {
            match line.send(frame)? {
                Gave::Taken => given.taken += 1,
                Gave::Lost => given.lost += 1,
                Gave::Full => {
                    writable(line, LOOK)?;
                    break;
                }
            }
        }
        line.flush();
    }
    Ok(given)
}

/// Result of `port-receive`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Taken {
    frames: u64,
    bytes: u64,
    cut: u64,
    seconds: f64,
}

pub(super) fn receive(line: &str, bytes: usize, skip: Duration, time: Duration) -> Result<Taken> {
    let mut line = open(line, "bench-receive")?;
    let mut buffer = vec![0; BUFFER];
    ready();
    first(&mut *line, &mut buffer)?;
    count(&mut *line, &mut buffer, (bytes, skip))?;
    count(&mut *line, &mut buffer, (bytes, time))
}

pub(super) fn station(line: &str, most: Duration) -> Result<Taken> {
    let stop = Stop::new(most);
    let mut line = open(line, "bench-station")?;
    line.send(&frame(EVERYBODY, own(), SHORT)?)?;
    line.flush();
    ready();
    let (mut taken, mut buffer, own) = (Taken::default(), vec![0; BUFFER], own());
    let mut first = None;
    while !stop.over() {
        readable(&*line, LOOK)?;
        let before = taken.frames;
        while let Some(found) = line.receive(&mut buffer)? {
            let length = found.len();
            if is_to(&buffer[found], own) {
                taken.frames += 1;
                taken.bytes += length as u64;
            } else {
                taken.cut += 1;
            }
            // A sender that never pauses must not keep it from the clock.
            if taken.frames - before >= 1024 {
                break;
            }
        }
        if taken.frames > before {
            let first = *first.get_or_insert_with(Instant::now);
            taken.seconds = first.elapsed().as_secs_f64();
        }
    }
    Ok(taken)
}

/// Announces this port until the first frame arrives; returns the frame's range.
fn first(line: &mut dyn Line, buffer: &mut [u8]) -> Result<Range<usize>> {
    let (hello, until) = (frame(EVERYBODY, own(), SHORT)?, Instant::now() + PATIENCE);
    while Instant::now() < until {
        // If it is lost or not taken, the next one will do.
        line.send(&hello)?;
        line.flush();
        readable(line, LOOK)?;
        while let Some(found) = line.receive(buffer)? {
            if is_to(&buffer[found.clone()], own()) {
                return Ok(found);
            }
        }
    }
    bail!("nobody sent anything")
}

fn count(
    line: &mut dyn Line,
    buffer: &mut [u8],
    (bytes, time): (usize, Duration),
) -> Result<Taken> {
    let (mut taken, start, own) = (Taken::default(), Instant::now(), own());
    loop {
        readable(line, LOOK)?;
        let mut drained = false;
        while !drained {
            for _ in 0..BATCH {
                let Some(found) = line.receive(buffer)? else {
                    drained = true;
                    break;
                };
                let length = found.len();
                if length == bytes && is_to(&buffer[found], own) {
                    taken.frames += 1;
                    taken.bytes += length as u64;
                } else {
                    taken.cut += 1;
                }
            }
            if start.elapsed() >= time {
                taken.seconds = start.elapsed().as_secs_f64();
                return Ok(taken);
            }
        }
    }
}

/// Result of `port-echo`.
#[derive(Debug, Serialize)]
pub(super) struct Echoed {
    count: u64,
}

pub(super) fn echo(line: &str, how: How, most: Duration) -> Result<Echoed> {
    let stop = Stop::new(most);
    let mut line = open(line, "bench-echo")?;
    let mut buffer = vec![0; BUFFER];
    ready();
    let mut found = Some(first(&mut *line, &mut buffer)?);
    let (mut count, own) = (0, own());
    while !stop.told() {
        let Some(at) = found else {
            found = next(&mut *line, &mut buffer, how, LOOK)?;
            // A spinning process must not outlive its time either; for a blocking one the clock costs
            // nothing.
            if found.is_none() && stop.over() {
                break;
            }
            continue;
        };
        let to = sender(&buffer[at.clone()]);
        let answer = &mut buffer[at.start - HEADER..at.end];
        answer[..HEADER].fill(0);
        answer[HEADER..HEADER + 6].copy_from_slice(&to);
        answer[HEADER + 6..HEADER + 12].copy_from_slice(&own);
        // An answer that is not taken is late for the requester, which counts it.
        line.send(answer)?;
        line.flush();
        count += 1;
        found = next(&mut *line, &mut buffer, how, LOOK)?;
    }
    Ok(Echoed { count })
}

/// The next frame for this port within a bounded wait.
fn next(
    line: &mut dyn Line,
    buffer: &mut [u8],
    how: How,
    most: Duration,
) -> Result<Option<Range<usize>>> {
    let (mut until, mut spins, own) = (None, 0_u32, own());
    loop {
        let mut found = match how {
            How::Wait => line.receive_wait(buffer, most)?,
            How::Block | How::Spin => line.receive(buffer)?,
        };
        while let Some(at) = found {
            if is_to(&buffer[at.clone()], own) {
                return Ok(Some(at));
            }
            found = line.receive(buffer)?;
        }
        match how {
            How::Wait => return Ok(None),
            How::Block if !readable(line, most)? => return Ok(None),
            How::Block => {}
            How::Spin => {
                spins = spins.wrapping_add(1);
                // Reading the clock takes longer than checking for a frame.
                if spins.is_multiple_of(256)
                    && Instant::now() >= *until.get_or_insert_with(|| Instant::now() + most)
                {
                    return Ok(None);
                }
                std::hint::spin_loop();
            }
        }
    }
}

/// Result of `port-ping`.
#[derive(Debug, Serialize)]
pub(super) struct Times {
    count: usize,
    lost: u64,
    p50_us: f64,
    p99_us: f64,
}

pub(super) fn ping(line: &str, bytes: usize, how: How, time: Duration) -> Result<Times> {
    let mut line = open(line, "bench-ping")?;
    ready();
    let to = greeted(&mut *line)?;
    let question = frame(to, own(), bytes)?;
    let (mut buffer, mut times, mut lost) = (vec![0; BUFFER], vec![], 0);
    let start = Instant::now();
    let mut answered = 0_usize;
    while start.elapsed() < time && times.len() < MOST {
        let asked = now();
        line.send(&question)?;
        line.flush();
        if next(&mut *line, &mut buffer, how, LATE)?.is_none() {
            lost += 1;
            continue;
        }
        let took = now() - asked;
        answered += 1;
        // The earlier ones include the setup of edges.
        if answered > 100 {
            #[expect(clippy::cast_precision_loss, reason = "seconds in ns are below 2^53")]
            times.push(took as f64 / 1e3);
        }
    }
    let part = |percent| percentile(&times, percent).unwrap_or(0.0);
    Ok(Times { count: times.len(), lost, p50_us: part(50.0), p99_us: part(99.0) })
}
