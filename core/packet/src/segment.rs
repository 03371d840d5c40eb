//! Cuts a super-frame into the packets it stands for, as a card with segmentation offload would.
//!
//! TCP over IPv4 and IPv6 and UDP datagrams of one length (USO). Each packet gets its own lengths,
//! IPv4 identification, sequence number and header checksum; CWR stays with the first, FIN and PSH
//! with the last. An unfinished transport checksum stays unfinished, with the pseudo-header's sum
//! for the packet's own length; a finished one is recomputed. Bytes after the IP packet
//! (padding) are dropped. Fragments, UFO and IPv6 jumbograms are errors.
//! See VIRTIO 1.3 section 5.1.6.2, RFC 9293 section 3.1, RFC 3168 section 6.1.2 (CWR).

use crate::checksum::{add, checksum, fold, of_transport, pseudo_header};
use crate::error::{Error, Result, be16, be32, put};
use crate::headers::{Headers, Ip, TCP, UDP};
use crate::vnet::{Gso, VnetHeader};

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Cuts super-frames; keeps one buffer for all of them.
#[derive(Clone, Debug, Default)]
pub struct Segmenter {
    packet: Vec<u8>,
}

impl Segmenter {
    /// A segmenter without a buffer; the first super-frame allocates it.
    pub fn new() -> Self {
        Segmenter::default()
    }

    /// Passes every packet that the frame stands for to `out`, in order, each with its header;
    /// returns their number. A frame that is one packet passes unchanged. On an error
    /// `out` was not called.
    pub fn segment(
        &mut self,
        header: &VnetHeader,
        frame: &[u8],
        out: &mut impl FnMut(&VnetHeader, &[u8]),
    ) -> Result<u32> {
        if header.gso == Gso::None {
            out(header, frame);
            return Ok(1);
        }
        let plan = Plan::new(header, frame)?;
        let payload = frame.get(plan.payload..plan.ip.end).unwrap_or(&[]);
        // A super-frame without payload is still one packet.
        let last = payload.len().div_ceil(plan.size).max(1) - 1;
        for index in 0..=last {
            let start = index * plan.size;
            let end = payload.len().min(start + plan.size);
            self.packet.clear();
            self.packet.extend_from_slice(frame.get(..plan.payload).unwrap_or(&[]));
            self.packet.extend_from_slice(payload.get(start..end).unwrap_or(&[]));
            plan.amend(&mut self.packet, index, index == last);
            out(&plan.header, &self.packet);
        }
        Ok(u32::try_from(last + 1).unwrap_or(u32::MAX))
    }
}

/// [`Segmenter::segment`] with a buffer of its own.
pub fn segment(
    header: &VnetHeader,
    frame: &[u8],
    out: &mut impl FnMut(&VnetHeader, &[u8]),
) -> Result<u32> {
    Segmenter::new().segment(header, frame, out)
}

/// How many packets a frame stands for: as many as [`segment`] produces, and 1 where that refuses.
pub fn packets(header: &VnetHeader, frame: &[u8]) -> u32 {
    if header.gso == Gso::None {
        return 1;
    }
    let Ok(plan) = Plan::new(header, frame) else { return 1 };
    u32::try_from((plan.ip.end - plan.payload).div_ceil(plan.size).max(1)).unwrap_or(u32::MAX)
}

/// What all packets of a super-frame have in common.
struct Plan {
    /// The header of each packet.
    header: VnetHeader,
    network: usize,
    ip: Ip,
    payload: usize,
    size: usize,
    /// The first one's IPv4 identification and TCP sequence number.
    id: u16,
    sequence: u32,
    sums: Sums,
}

/// How to handle transport checksums.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sums {
    Unfinished,
    Whole,
    Absent,
}

impl Plan {
    /// Checks the vnet header against the frame.
    fn new(header: &VnetHeader, frame: &[u8]) -> Result<Plan> {
        let headers = Headers::parse(frame)?;
        let ip = headers.ip.ok_or(Error::Cut("it is not an IP packet"))?;
        let (protocol, v6) = match header.gso {
            Gso::TcpV4 => (TCP, false),
            Gso::TcpV6 => (TCP, true),
            Gso::UdpL4 => (UDP, ip.v6),
            Gso::Udp | Gso::None => return Err(Error::Cut("IP fragments are not made")),
        };
        if (ip.protocol, ip.v6) != (protocol, v6) {
            return Err(Error::Cut("it is of another protocol than its kind"));
        }
        if ip.fragment.is_some() {
            return Err(Error::Cut("it is a fragment"));
        }
        if ip.lengthless && v6 && ip.transport != headers.network + 40 {
            return Err(Error::Cut("it has no length and options that may give one"));
        }
        let payload = ip.payload.ok_or(Error::Cut("its transport header is not whole"))?;
        let size = usize::from(header.gso_size);
        if size == 0 || payload + size - headers.network > usize::from(u16::MAX) {
            return Err(Error::Cut("its packets would be empty or longer than IP allows"));
        }
        let offset: u16 = if protocol == TCP { 16 } else { 6 };
        let start = usize::from(header.csum_start);
        if header.needs_csum && (start != ip.transport || header.csum_offset != offset) {
            return Err(Error::Cut("its unfinished checksum is not that of its transport"));
        }
        let transport = frame.get(ip.transport..).unwrap_or(&[]);
        let sums = match header.needs_csum {
            true => Sums::Unfinished,
            false if protocol == UDP && !v6 && be16(transport, 6) == 0 => Sums::Absent,
            false => Sums::Whole,
        };
        Ok(Plan {
            header: VnetHeader { gso: Gso::None, ecn: false, hdr_len: 0, gso_size: 0, ..*header },
            network: headers.network,
            ip,
            payload,
            size,
            id: be16(frame, headers.network + 4),
            sequence: be32(transport, 4),
            sums,
        })
    }

    /// Adapts a packet's headers to it.
    fn amend(&self, packet: &mut [u8], index: usize, last: bool) {
        let transport = self.ip.transport;
        let length = packet.len() - transport;
        self.amend_ip(packet, index);
        let place = if self.ip.protocol == TCP {
            self.amend_tcp(packet, index, last);
            transport + 16
        } else {
            put(packet, transport + 4, short(length).to_be_bytes());
            transport + 6
        };
        if self.sums == Sums::Absent {
            return;
        }
        // The field counts as zero while its sum is made (RFC 1071).
        put(packet, place, [0, 0]);
        let pseudo = pseudo_header(packet, self.network, &self.ip, length);
        let value = match self.sums {
            Sums::Whole => of_transport(add(pseudo, packet.get(transport..).unwrap_or(&[]))),
            Sums::Unfinished | Sums::Absent => fold(pseudo),
        };
        put(packet, place, value.to_be_bytes());
    }

    fn amend_ip(&self, packet: &mut [u8], index: usize) {
        let length = packet.len() - self.network;
        if self.ip.v6 {
            put(packet, self.network + 4, short(length - 40).to_be_bytes());
            return;
        }
        put(packet, self.network + 2, short(length).to_be_bytes());
        // As the kernel numbers the pieces that it cuts (`inet_gso_segment`).
        let id = self.id.wrapping_add(short(index & 0xffff));
        put(packet, self.network + 4, id.to_be_bytes());
        put(packet, self.network + 10, [0, 0]);
        let sum = checksum(packet.get(self.network..self.ip.transport).unwrap_or(&[]));
        put(packet, self.network + 10, sum.to_be_bytes());
    }

    fn amend_tcp(&self, packet: &mut [u8], index: usize, last: bool) {
        let past = u32::try_from(index * self.size).unwrap_or(0);
        let sequence = self.sequence.wrapping_add(past);
        put(packet, self.ip.transport + 4, sequence.to_be_bytes());
        if let Some(flags) = packet.get_mut(self.ip.transport + 13) {
            *flags &= !(if last { 0 } else { FIN | PSH } | if index == 0 { 0 } else { CWR });
        }
    }
}

/// A length that [`Plan::new`] has checked to fit.
fn short(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;
