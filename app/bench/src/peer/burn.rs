//! `spin SECONDS`: uses a core and sends nothing; prints `{"turns"}`.
//! `frames IFACE MAC FROM TO direct|queue SECONDS`: 60-byte frames, UDP to the discard port, as many as one
//! core gives to a packet socket; prints `{"offered_per_s", "refused"}`. `hold SECONDS`: keeps that port open
//! and reads nothing; prints `{"port"}`. For a closed port the kernel would look up the route of an answer
//! for every frame.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netloom_packet::checksum::checksum;
use netloom_rawsock::{Frames, Path, Sender};
use serde::Serialize;

use super::stop::Stop;
use super::{figure, ready};

/// Frames per system call: more gain nothing.
const BATCH: usize = 64;
/// Shortest Ethernet frame, without its check sequence.
const LENGTH: usize = 60;
/// The discard port (RFC 863).
const DISCARD: u16 = 9;

/// Result of `spin`.
#[derive(Debug, Serialize)]
pub(super) struct Spun {
    turns: u64,
}

pub(super) fn spin(most: Duration) -> Spun {
    let stop = Stop::new(most);
    ready();
    let mut turns = 0_u64;
    while !stop.over() {
        for _ in 0..1000 {
            std::hint::spin_loop();
        }
        turns += 1;
    }
    Spun { turns }
}

/// Result of `hold`.
#[derive(Debug, Serialize)]
pub(super) struct Held {
    port: u16,
}

pub(super) fn hold(most: Duration) -> Result<Held> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, DISCARD))
        .context("peer: bind the discard port")?;
    let stop = Stop::new(most);
    ready();
    while !stop.over() {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(socket);
    Ok(Held { port: DISCARD })
}

/// Result of `frames`.
#[derive(Debug, Serialize)]
pub(super) struct Flooded {
    /// Frames per second given to the socket.
    offered_per_s: f64,
    /// Those refused by the queue.
    refused: u64,
}

pub(super) fn path(word: &str) -> Result<Path> {
    match word {
        "direct" => Ok(Path::Direct),
        "queue" => Ok(Path::Queue),
        _ => bail!("peer: `{word}`: direct or queue"),
    }
}

/// A datagram in a frame whose Ethernet source is not yet filled in.
pub(super) fn frame(mac: &str, from: &str, to: &str) -> Result<[u8; LENGTH]> {
    let (from, to): (Ipv4Addr, Ipv4Addr) = (figure(from)?, figure(to)?);
    let mut frame = [0; LENGTH];
    frame[..6].copy_from_slice(&mac_of(mac)?);
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
    let length = u16::try_from(LENGTH - 14)?;
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    // TTL, UDP.
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..30].copy_from_slice(&from.octets());
    frame[30..34].copy_from_slice(&to.octets());
    let sum = checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    for (at, value) in [(34, DISCARD), (36, DISCARD), (38, length - 20)] {
        frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }
    Ok(frame)
}

pub(super) fn mac_of(text: &str) -> Result<[u8; 6]> {
    let bytes: Option<Vec<u8>> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    let six = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
    six.with_context(|| format!("peer: `{text}`: no MAC"))
}

pub(super) fn frames(
    interface: &str,
    frame: &[u8; LENGTH],
    path: Path,
    most: Duration,
) -> Result<Flooded> {
    let mut frame = *frame;
    frame[6..12].copy_from_slice(&own_mac(interface)?);
    let index = index_of(interface)?;
    let mut sender = Sender::open(index, path)?;
    let mut frames = Frames::round(&[&frame], BATCH)?;
    let stop = Stop::new(most);
    ready();
    let start = Instant::now();
    while !stop.over() {
        sender.send(&mut frames)?;
    }
    let tally = sender.tally();
    #[expect(clippy::cast_precision_loss, reason = "a count below 2^53")]
    let offered_per_s = tally.offered() as f64 / start.elapsed().as_secs_f64();
    Ok(Flooded { offered_per_s, refused: tally.refused })
}

pub(super) fn own_mac(interface: &str) -> Result<[u8; 6]> {
    let own = std::fs::read_to_string(format!("/sys/class/net/{interface}/address"));
    mac_of(own.context("read the interface's MAC")?.trim())
}

pub(super) fn index_of(interface: &str) -> Result<u32> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/ifindex"));
    figure(text.with_context(|| format!("find the interface {interface}"))?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_valid_datagram() {
        let frame = frame("02:00:00:00:00:01", "10.0.0.1", "10.0.0.2").unwrap();
        assert_eq!(frame[..6], [2, 0, 0, 0, 0, 1]);
        assert_eq!(checksum(&frame[14..34]), 0);
        assert_eq!(u16::from_be_bytes([frame[16], frame[17]]), 46);
        assert_eq!(u16::from_be_bytes([frame[38], frame[39]]), 26);
    }

    #[test]
    fn wrong_words_are_told() {
        assert!(frame("02:00", "10.0.0.1", "10.0.0.2").is_err());
        assert!(frame("02:00:00:00:00:gg", "10.0.0.1", "10.0.0.2").is_err());
        assert!(frame("02:00:00:00:00:01", "10.0.0", "10.0.0.2").is_err());
        assert!(path("sideways").is_err());
    }
}
