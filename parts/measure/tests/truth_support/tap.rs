//! Packet sockets at the ends: every frame, and when the kernel noted it.
//!
//! Outgoing frames are noted behind the programs of egress, incoming ones before those of ingress: so
//! what a point sees last longer than between two taps.

use std::os::fd::OwnedFd;

use netloom_rawsock::{arrival, socket};
use netloom_sys::clock;
use rustix::net::SocketFlags;

use super::frame::{self, HEADER, Read};
use super::net::{NetNs, mac};

const PACKET_VNET_HDR: i32 = 15;
const ROOM: i32 = 128 << 20;

/// A frame with the header before it.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    /// On CLOCK_MONOTONIC.
    pub(crate) time: u64,
    pub(crate) read: Read,
    pub(crate) bytes: Vec<u8>,
}

impl Noted {
    /// The packet from its IP header on.
    pub(crate) fn packet(&self) -> &[u8] {
        &self.bytes[HEADER + self.read.ip..]
    }

    /// The size of its segments (0 if it is one packet) and the packet, in hexadecimal.
    pub(crate) fn line(&self) -> String {
        let size = u16::from_ne_bytes([self.bytes[4], self.bytes[5]]);
        let hex: String = self.packet().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{size} {hex}\n")
    }

    pub(crate) fn sequence(&self, port: u16) -> Option<u64> {
        frame::sequence(&self.read, &self.bytes, port)
    }
}

/// A tap at an interface.
#[derive(Debug)]
pub(crate) struct Tap {
    fd: OwnedFd,
    mac: [u8; 6],
    /// What the kernel does not tell.
    segment: Option<u16>,
}

impl Tap {
    pub(crate) fn open(space: &NetNs, index: u32) -> Tap {
        Self::open_with(space, index, None)
    }

    /// One for UDP datagrams whose sender has them cut into segments of this size, where the kernel tells of no such
    /// super-frame: then it gives no header, and what is longer than a segment is one.
    pub(crate) fn of_segments(space: &NetNs, index: u32, segment: u16) -> Tap {
        Self::open_with(space, index, Some(segment))
    }

    fn open_with(space: &NetNs, index: u32, segment: Option<u16>) -> Tap {
        let fd = space.run(|| {
            let fd = socket::open(index, SocketFlags::NONBLOCK).unwrap();
            if segment.is_none() {
                socket::set(&fd, index, PACKET_VNET_HDR, 1, "enable offload reports of").unwrap();
            }
            arrival::note_arrivals(&fd).unwrap();
            socket::enlarge(&fd, ROOM, 0);
            socket::bind(&fd, index, socket::ALL).unwrap();
            fd
        });
        Tap { fd, mac: mac(index), segment }
    }

    /// All IP frames that it has: `out` those that left, else those that came.
    pub(crate) fn all(&self, out: bool) -> Vec<Noted> {
        let ahead = clock::offset(clock::realtime, clock::monotonic);
        let mut room = vec![0; 70_000];
        let before = if self.segment.is_some() { HEADER } else { 0 };
        let mut all = Vec::new();
        loop {
            let (length, time) = match arrival::receive(&self.fd, &mut room[before..]) {
                Ok((length, time)) => (before + length, time),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(e) => panic!("tap: {e}"),
            };
            room[..before].fill(0);
            let Some(mut read) = frame::read(&room[..length]) else { continue };
            if let Some(segment) = self.segment
                && read.protocol == 17
                && length - HEADER - read.transport - 8 > usize::from(segment)
            {
                // VIRTIO_NET_HDR_GSO_UDP_L4
                room[1] = 5;
                room[4..6].copy_from_slice(&segment.to_ne_bytes());
                read = frame::read(&room[..length]).unwrap();
            }
            if (read.source_mac == self.mac) == out {
                let time = time.unwrap().wrapping_add_signed(-ahead);
                all.push(Noted { time, read, bytes: room[..length].to_vec() });
            }
        }
        assert_eq!(socket::statistics(&self.fd).unwrap().lost, 0, "the tap lost frames");
        all
    }
}
