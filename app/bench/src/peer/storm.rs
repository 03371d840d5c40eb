//! `storm IFACE MAC FROM TO TO6 PORT KIND SECONDS`: a flood of one kind, as fast as one core sends it, past the
//! sender's queueing discipline; prints `{"offered_per_s", "refused"}`.
//!
//! * `datagrams`: minimum frames to a UDP port.
//! * `syn`: connection requests (RFC 9293) to a TCP port, from ever other ports.
//! * `echo`: ICMP echo requests (RFC 792).
//! * `neighbours`: IPv6 neighbour solicitations (RFC 4861), from ever other addresses of the segment.
//! * `broadcast`, `multicast`: datagrams to the port at 255.255.255.255, and at 224.0.0.1, which all hear.
//! * `super`: super-frames, 44 datagrams of 1472 bytes each in one (UDP_SEGMENT).

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netloom_packet::checksum::checksum;
use netloom_rawsock::{Frames, Path, Sender, option};
use rustix::io::Errno;
use serde::Serialize;

use super::burn::{index_of, mac_of, own_mac};
use super::stop::Stop;
use super::{figure, ready};

/// Frames per system call.
const BATCH: usize = 64;
/// Different frames of a flood whose senders or ports change.
const VARIETY: u16 = 512;
/// Shortest Ethernet frame, without its check sequence.
const SHORTEST: usize = 60;
/// Datagrams in a super-frame, and bytes of each.
const SEGMENTS: usize = 44;
const SEGMENT: usize = 1472;
/// Of linux/udp.h.
const UDP_SEGMENT: i32 = 103;
const UDP: u8 = 17;
const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;

/// Result of `storm`.
#[derive(Debug, Serialize)]
pub(super) struct Offered {
    /// Frames per second given to the socket.
    offered_per_s: f64,
    /// Those refused.
    refused: u64,
}

/// Who floods whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    own: [u8; 6],
    mac: [u8; 6],
    from: Ipv4Addr,
    to: Ipv4Addr,
    to6: Ipv6Addr,
    port: u16,
}

impl Pair {
    pub(super) fn new(interface: &str, words: [&str; 5]) -> Result<Pair> {
        let [mac, from, to, to6, port] = words;
        Ok(Pair {
            own: own_mac(interface)?,
            mac: mac_of(mac)?,
            from: figure(from)?,
            to: figure(to)?,
            to6: figure(to6)?,
            port: figure(port)?,
        })
    }
}

/// Floods from an interface.
pub(super) fn storm(interface: &str, pair: Pair, kind: &str, most: Duration) -> Result<Offered> {
    if kind == "super" {
        return super_frames(pair, most);
    }
    let frames = frames(pair, kind)?;
    let set: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let mut sender = Sender::open(index_of(interface)?, Path::Direct)?;
    let mut frames = Frames::round(&set, BATCH.max(set.len()))?;
    let stop = Stop::new(most);
    ready();
    let start = Instant::now();
    while !stop.over() {
        sender.send(&mut frames)?;
    }
    let tally = sender.tally();
    Ok(Offered { offered_per_s: rate(tally.offered(), start), refused: tally.refused })
}

#[expect(clippy::cast_precision_loss, reason = "a count below 2^53")]
fn rate(count: u64, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}

fn super_frames(pair: Pair, most: Duration) -> Result<Offered> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context("bind")?;
    let segment = i32::try_from(SEGMENT).unwrap_or(0);
    option::set(&socket, i32::from(UDP), UDP_SEGMENT, segment).context("send super-frames")?;
    let (to, bytes) = (SocketAddrV4::new(pair.to, pair.port), vec![0; SEGMENTS * SEGMENT]);
    let stop = Stop::new(most);
    ready();
    let (start, mut sent, mut refused) = (Instant::now(), 0, 0);
    while !stop.over() {
        match socket.send_to(&bytes, to) {
            Ok(_) => sent += 1,
            Err(e) if e.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => refused += 1,
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => sent += 1,
            Err(e) => return Err(e).context("send a super-frame"),
        }
    }
    Ok(Offered { offered_per_s: rate(sent, start), refused })
}

/// The frames of a flood, sent in turn.
fn frames(pair: Pair, kind: &str) -> Result<Vec<Vec<u8>>> {
    let datagram = |mac, to| {
        let packet = packet(pair.from, to, UDP, &udp(pair.port));
        vec![frame(mac, pair.own, [8, 0], &packet)]
    };
    Ok(match kind {
        "datagrams" => datagram(pair.mac, pair.to),
        "broadcast" => datagram([0xff; 6], Ipv4Addr::BROADCAST),
        "multicast" => datagram([1, 0, 0x5e, 0, 0, 1], Ipv4Addr::new(224, 0, 0, 1)),
        "echo" => {
            let packet = packet(pair.from, pair.to, ICMP, &echo());
            vec![frame(pair.mac, pair.own, [8, 0], &packet)]
        }
        "syn" => (0..VARIETY).map(|number| syn(pair, number)).collect(),
        "neighbours" => (0..VARIETY).map(|number| solicitation(pair, number)).collect(),
        _ => bail!("peer: `{kind}`: no kind of flood"),
    })
}

fn frame(to: [u8; 6], from: [u8; 6], kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
    let mut frame = [&to[..], &from, &kind, packet].concat();
    frame.resize(frame.len().max(SHORTEST), 0);
    frame
}

/// An IPv4 packet.
fn packet(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + payload.len()).unwrap_or(u16::MAX);
    let mut head = vec![0x45, 0];
    head.extend(length.to_be_bytes());
    head.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
    head.extend(from.octets());
    head.extend(to.octets());
    let sum = checksum(&head);
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    head.extend(payload);
    head
}

/// A datagram of 18 bytes without a checksum.
fn udp(port: u16) -> Vec<u8> {
    let words = [9, port, 26, 0].map(u16::to_be_bytes);
    [words.concat(), vec![0; 18]].concat()
}

fn echo() -> Vec<u8> {
    let mut message = vec![8, 0, 0, 0, 0x6e, 0x6c, 0, 1];
    message.resize(26, 0);
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// A connection request from the port of this number.
fn syn(pair: Pair, number: u16) -> Vec<u8> {
    let mut segment = vec![];
    segment.extend((1024 + number).to_be_bytes());
    segment.extend(pair.port.to_be_bytes());
    segment.extend((u32::from(number) << 16).to_be_bytes());
    // No acknowledgement, 5 words, SYN, window, checksum, no urgent data.
    segment.extend([0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
    let (from, to) = (pair.from.octets(), pair.to.octets());
    let sum = checksum(&[&from[..], &to, &[0, TCP, 0, 20], &segment].concat());
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    frame(pair.mac, pair.own, [8, 0], &packet(pair.from, pair.to, TCP, &segment))
}

/// A neighbour solicitation from an address of the segment that ends so.
fn solicitation(pair: Pair, number: u16) -> Vec<u8> {
    let to = pair.to6.octets();
    let mut from = to;
    from[8..14].copy_from_slice(&pair.own);
    from[14..].copy_from_slice(&number.to_be_bytes());
    let [.., a, b, c] = to;
    let group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c];
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(to);
    // The link-layer address of the source.
    message.extend([1, 1]);
    message.extend(pair.own);
    let length = u8::try_from(message.len()).unwrap_or(0);
    let pseudo = [&from[..], &group, &[0, 0, 0, length, 0, 0, 0, ICMP6], &message].concat();
    let sum = checksum(&pseudo);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let head = [0x60, 0, 0, 0, 0, length, ICMP6, 255];
    let packet = [&head[..], &from, &group, &message].concat();
    frame([0x33, 0x33, 0xff, a, b, c], pair.own, [0x86, 0xdd], &packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> Pair {
        Pair {
            own: [2, 0, 0, 0, 0, 9],
            mac: [2, 0, 0, 0, 0, 1],
            from: "10.0.0.2".parse().unwrap(),
            to: "10.0.0.1".parse().unwrap(),
            to6: "fd00::1:2:3".parse().unwrap(),
            port: 7000,
        }
    }

    #[test]
    fn every_kind_has_valid_packets() {
        for kind in ["datagrams", "broadcast", "multicast", "echo", "syn"] {
            for frame in frames(pair(), kind).unwrap() {
                assert!(frame.len() >= SHORTEST);
                assert_eq!(checksum(&frame[14..34]), 0, "{kind}");
                let length = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
                let payload = &frame[34..14 + length];
                let pseudo = [&frame[26..34], &[0, TCP, 0, 20], payload].concat();
                match kind {
                    "syn" => assert_eq!(checksum(&pseudo), 0),
                    "echo" => assert_eq!(checksum(payload), 0),
                    _ => assert_eq!(payload[2..4], 7000_u16.to_be_bytes()),
                }
            }
        }
        assert!(frames(pair(), "rain").is_err());
    }

    #[test]
    fn solicitations_come_from_different_neighbours() {
        let all = frames(pair(), "neighbours").unwrap();
        let mut sources: Vec<&[u8]> = all.iter().map(|frame| &frame[22..38]).collect();
        sources.dedup();
        assert_eq!(sources.len(), usize::from(VARIETY));
        for frame in &all {
            let pseudo = [&frame[22..54], &[0, 0, 0, 32, 0, 0, 0, ICMP6], &frame[54..]].concat();
            assert_eq!(checksum(&pseudo), 0);
            assert_eq!(frame[..6], [0x33, 0x33, 0xff, 2, 0, 3]);
        }
    }
}
