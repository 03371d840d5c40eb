//! Writing pcapng: each function appends one whole block to a vector.
//!
//! Little-endian; times are nanoseconds since 1970 UTC, so every interface has `if_tsresol` 9. A
//! file is a [`section`], an [`interface`] for each capture point (numbered 0, 1, …
//! in order, anywhere before its first packet), then [`packet`]s, [`statistics`] and [`names`]
//! in any order. [`padding`] extends a file to an offset without adding a packet. Options that
//! exceed their 16-bit length are truncated, at a character.
//! See draft-ietf-opsawg-pcapng, sections 3 and 4.

use std::net::IpAddr;

use crate::{Error, InterfaceId, MOST_DATA, Result, filling};

/// Type of a section header block.
pub(crate) const SECTION: u32 = 0x0a0d_0d0a;
/// Type of an interface description block.
pub(crate) const INTERFACE: u32 = 1;
/// Type of an obsolete packet block.
pub(crate) const OLD_PACKET: u32 = 2;
/// Type of a simple packet block.
pub(crate) const SIMPLE_PACKET: u32 = 3;
/// Type of a name resolution block.
pub(crate) const NAMES: u32 = 4;
/// Type of an interface statistics block.
pub(crate) const STATISTICS: u32 = 5;
/// Type of an enhanced packet block.
pub(crate) const PACKET: u32 = 6;

/// Type of [`padding`]: one of those for local use (the highest bit is set), with the letters
/// `NL`. Wireshark, tshark, capinfos, libpcap and scapy silently skip such blocks.
pub const PADDING: u32 = 0x8000_4e4c;

/// The smallest non-empty gap that [`padding`] can fill, in bytes.
pub const PADDING_LEAST: usize = 12;

/// Longest block of padding: libpcap refuses blocks of more than 16 MiB.
const PADDING_MOST: usize = 8 << 20;

/// Bytes of an enhanced packet block, excluding data and options.
pub const PACKET_LEAST: usize = 32;

/// The byte-order magic of a section.
pub(crate) const MAGIC: u32 = 0x1a2b_3c4d;

/// `epb_flags`: the frame was received.
pub const INBOUND: u32 = 1;
/// `epb_flags`: the frame was sent.
pub const OUTBOUND: u32 = 2;
/// `epb_flags`, bit 9: the device computes the checksum, which is not yet right.
pub const CHECKSUM_UNFINISHED: u32 = 1 << 9;
/// `epb_flags`, bit 10: the checksum was verified.
pub const CHECKSUM_VALID: u32 = 1 << 10;
/// `epb_flags`, bit 11: the device cuts the frame into TCP segments.
pub const SEGMENTS: u32 = 1 << 11;

/// The origin of a file, for [`section`]. Empty fields and `None` are not written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Section<'a> {
    /// The program.
    pub application: &'a str,
    /// The operating system.
    pub os: &'a str,
    /// The machine.
    pub hardware: Option<&'a str>,
    /// Anything.
    pub comment: Option<&'a str>,
}

/// A capture point, for [`interface`]. Empty fields and `None` are not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface<'a> {
    /// Name.
    pub name: &'a str,
    /// Its description.
    pub description: &'a str,
    /// The device.
    pub hardware: Option<&'a str>,
    /// The filter, as given.
    pub filter: Option<&'a str>,
    /// Hardware address.
    pub mac: Option<[u8; 6]>,
    /// Addresses with their prefix lengths; a prefix longer than the address counts
    /// as the whole address.
    pub addresses: &'a [(IpAddr, u8)],
    /// Bits per second.
    pub speed: Option<u64>,
    /// Maximum bytes captured of a frame, 0 for all.
    pub snaplen: u32,
    /// The frames' link type, as in LINKTYPE_ values.
    pub linktype: u16,
}

impl Default for Interface<'_> {
    /// An Ethernet interface without further details.
    fn default() -> Self {
        Interface {
            name: "",
            description: "",
            hardware: None,
            filter: None,
            mac: None,
            addresses: &[],
            speed: None,
            snaplen: 0,
            linktype: 1,
        }
    }
}

/// A frame, for [`packet`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Where it was caught.
    pub interface: InterfaceId,
    /// Its time, in nanoseconds since 1970 UTC.
    pub time_ns: u64,
    /// Length on the wire, in bytes.
    pub original: u32,
    /// The captured bytes, at most [`MOST_DATA`].
    pub data: &'a [u8],
    /// `epb_flags`: [`INBOUND`] and so on, 0 for none.
    pub flags: u32,
    /// Frames lost on this interface between the previous frame and this one.
    pub drops: Option<u64>,
    /// A number common to all interfaces that the same frame passes.
    pub id: Option<u64>,
    /// Anything.
    pub comment: Option<&'a str>,
}

/// Counters of an interface since its capture began, for [`statistics`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The interface.
    pub interface: InterfaceId,
    /// When they were read, in nanoseconds since 1970 UTC.
    pub time_ns: u64,
    /// When the capture began.
    pub start_ns: Option<u64>,
    /// When it ended.
    pub end_ns: Option<u64>,
    /// Frames that the interface received.
    pub received: Option<u64>,
    /// Frames that it dropped for lack of resources.
    pub dropped: Option<u64>,
    /// Frames that the filter accepted.
    pub filter_accepted: Option<u64>,
    /// Frames that the operating system dropped.
    pub os_dropped: Option<u64>,
    /// Frames delivered to the program.
    pub delivered: Option<u64>,
}

/// Appends a section header, whose byte order applies up to the next one. It omits the section's
/// length, so that the file may grow.
pub fn section(out: &mut Vec<u8>, section: &Section<'_>) {
    block(out, SECTION, |out| {
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&[1, 0, 0, 0]);
        out.extend_from_slice(&(-1i64).to_le_bytes());
        let mut options = Options::new(out);
        // shb_hardware, shb_os, shb_userappl, opt_comment.
        options.text(2, section.hardware.unwrap_or_default());
        options.text(3, section.os);
        options.text(4, section.application);
        options.text(1, section.comment.unwrap_or_default());
        options.end();
    });
}

/// Appends an interface description. Its times are nanoseconds since 1970 UTC.
pub fn interface(out: &mut Vec<u8>, interface: &Interface<'_>) {
    block(out, INTERFACE, |out| {
        out.extend_from_slice(&interface.linktype.to_le_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&interface.snaplen.to_le_bytes());
        let mut options = Options::new(out);
        // if_name, if_description, if_IPv4addr and if_IPv6addr, if_MACaddr, if_speed, if_tsresol, if_filter,
        // if_hardware.
        options.text(2, interface.name);
        options.text(3, interface.description);
        interface.addresses.iter().for_each(|(address, prefix)| options.address(*address, *prefix));
        if let Some(mac) = interface.mac {
            options.bytes(6, &mac);
        }
        options.number(8, interface.speed);
        options.bytes(9, &[9]);
        if let Some(filter) = interface.filter {
            // The first byte is the filter's kind: 0 is libpcap's text.
            options.bytes(11, &[b"\0", cut(filter, MOST_OPTION - 1).as_bytes()].concat());
        }
        options.text(15, interface.hardware.unwrap_or_default());
        options.end();
    });
}

/// Bytes that [`packet`] appends for `captured` bytes of data, with no option or only flags.
pub const fn packet_len(captured: usize, has_flags: bool) -> usize {
    let captured = if captured > MOST_DATA { MOST_DATA } else { captured };
    PACKET_LEAST + captured + filling(captured) + if has_flags { 12 } else { 0 }
}

/// Appends an enhanced packet block.
#[inline]
pub fn packet(out: &mut Vec<u8>, packet: &Packet<'_>) {
    if packet.flags == 0
        && packet.drops.is_none()
        && packet.id.is_none()
        && packet.comment.is_none()
    {
        plain_packet(out, packet);
    } else {
        packet_with_options(out, packet);
    }
}

/// The 28 bytes before the data, for a block of `total` bytes.
#[inline]
fn packet_head(packet: &Packet<'_>, captured: usize, total: usize) -> [u8; 28] {
    let mut head = [0; 28];
    let mut put = |at: usize, word: u32| head[at..at + 4].copy_from_slice(&word.to_le_bytes());
    put(0, PACKET);
    put(4, word(total));
    put(8, packet.interface);
    put(12, high(packet.time_ns));
    put(16, low(packet.time_ns));
    put(20, word(captured));
    put(24, packet.original);
    head
}

#[inline]
fn plain_packet(out: &mut Vec<u8>, packet: &Packet<'_>) {
    let data = packet.data.get(..MOST_DATA).unwrap_or(packet.data);
    let total = packet_len(data.len(), false);
    out.reserve(total);
    out.extend_from_slice(&packet_head(packet, data.len(), total));
    out.extend_from_slice(data);
    // Padding and the repeated length, as one copy.
    let mut tail = [0; 8];
    let filling = filling(data.len());
    tail[filling..filling + 4].copy_from_slice(&word(total).to_le_bytes());
    out.extend_from_slice(&tail[..filling + 4]);
}

fn packet_with_options(out: &mut Vec<u8>, packet: &Packet<'_>) {
    let data = packet.data.get(..MOST_DATA).unwrap_or(packet.data);
    block(out, PACKET, |out| {
        // The length is set when the block is complete.
        out.extend_from_slice(&packet_head(packet, data.len(), 0)[8..]);
        out.extend_from_slice(data);
        out.extend_from_slice(&[0; 3][..filling(data.len())]);
        let mut options = Options::new(out);
        // epb_flags, epb_dropcount, epb_packetid, opt_comment.
        if packet.flags != 0 {
            options.bytes(2, &packet.flags.to_le_bytes());
        }
        options.number(4, packet.drops);
        options.number(5, packet.id);
        if let Some(comment) = packet.comment {
            options.bytes(1, cut(comment, MOST_OPTION).as_bytes());
        }
        options.end();
    });
}

/// Appends an interface statistics block.
pub fn statistics(out: &mut Vec<u8>, statistics: &Statistics) {
    block(out, STATISTICS, |out| {
        out.extend_from_slice(&statistics.interface.to_le_bytes());
        out.extend_from_slice(&time(statistics.time_ns));
        let mut options = Options::new(out);
        // isb_starttime and isb_endtime, then isb_ifrecv to isb_usrdeliv.
        for (code, at) in [(2, statistics.start_ns), (3, statistics.end_ns)] {
            if let Some(at) = at {
                options.bytes(code, &time(at));
            }
        }
        options.number(4, statistics.received);
        options.number(5, statistics.dropped);
        options.number(6, statistics.filter_accepted);
        options.number(7, statistics.os_dropped);
        options.number(8, statistics.delivered);
        options.end();
    });
}

/// Appends a name resolution block. It omits addresses without a name and
/// empty names; a name ends at a zero byte and has at most 1024 bytes.
pub fn names(out: &mut Vec<u8>, names: &[(IpAddr, &[&str])]) {
    block(out, NAMES, |out| {
        for (address, names) in names {
            let mut record = Vec::new();
            // A zero byte ends a name, so none can be in it.
            for name in names.iter().filter_map(|name| name.split('\0').next()) {
                let name = cut(name, 1024).as_bytes();
                // With the longest address and the name's zero byte.
                if record.len() + name.len() + 17 > MOST_OPTION {
                    name_record(out, *address, &record);
                    record.clear();
                }
                if !name.is_empty() {
                    record.extend_from_slice(name);
                    record.push(0);
                }
            }
            name_record(out, *address, &record);
        }
        // The end of the records, which even a block without any has.
        out.extend_from_slice(&[0; 4]);
    });
}

fn name_record(out: &mut Vec<u8>, address: IpAddr, names: &[u8]) {
    if names.is_empty() {
        return;
    }
    match address {
        IpAddr::V4(four) => put(out, 1, &[&four.octets(), names].concat()),
        IpAddr::V6(six) => put(out, 2, &[&six.octets(), names].concat()),
    }
}

/// Appends meaningless blocks, so that `out` has `to` bytes: one, or one for each 8 MiB.
///
/// # Errors
/// [`Error::Padding`] when `to - out.len()` is negative, not a multiple of 4, or more than 0 and less
/// than [`PADDING_LEAST`]; `out` is then unchanged.
pub fn padding(out: &mut Vec<u8>, to: usize) -> Result<()> {
    let from = out.len();
    let wrong = || Error::Padding { from, to };
    let mut gap = to.checked_sub(from).ok_or_else(wrong)?;
    if gap & 3 != 0 || (gap != 0 && gap < PADDING_LEAST) {
        return Err(wrong());
    }
    out.reserve(gap);
    while gap != 0 {
        // The remainder after a longest block is zero, or enough for one more.
        let now = if gap <= PADDING_MOST { gap } else { PADDING_MOST - PADDING_LEAST };
        block(out, PADDING, |out| out.resize(out.len() + now - PADDING_LEAST, 0));
        gap -= now;
    }
    Ok(())
}

/// Appends a block of this type with this body, whose length must be a multiple of 4.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let total = word(out.len() - start + 4).to_le_bytes();
    out.extend_from_slice(&total);
    out[start + 4..start + 8].copy_from_slice(&total);
}

/// Longest value of an option, bytes.
const MOST_OPTION: usize = 0xffff;

/// Appends options; their end marker only if there was any.
struct Options<'a> {
    out: &'a mut Vec<u8>,
    any: bool,
}

impl<'a> Options<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        Options { out, any: false }
    }

    fn bytes(&mut self, code: u16, value: &[u8]) {
        put(self.out, code, value);
        self.any = true;
    }

    fn text(&mut self, code: u16, value: &str) {
        if !value.is_empty() {
            self.bytes(code, cut(value, MOST_OPTION).as_bytes());
        }
    }

    fn number(&mut self, code: u16, value: Option<u64>) {
        if let Some(value) = value {
            self.bytes(code, &value.to_le_bytes());
        }
    }

    /// An IPv4 address is written with its mask, an IPv6 address with its prefix length.
    fn address(&mut self, address: IpAddr, prefix: u8) {
        match address {
            IpAddr::V4(four) => {
                // There is no shift by all 32 bits: such a prefix has no host bits.
                let host = u32::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
                self.bytes(4, &[four.octets(), (!host).to_be_bytes()].concat());
            }
            IpAddr::V6(six) => self.bytes(5, &[&six.octets()[..], &[prefix.min(128)]].concat()),
        }
    }

    fn end(self) {
        if self.any {
            self.out.extend_from_slice(&[0; 4]);
        }
    }
}

/// An option, or a record of names: code, length, value, padding. Longer values are truncated.
fn put(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = value.get(..MOST_OPTION).unwrap_or(value);
    let len = u16::try_from(value.len()).unwrap_or_default();
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(value);
    out.extend_from_slice(&[0; 3][..filling(value.len())]);
}

/// The longest prefix of a text with at most `most` bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or_default()]
}

/// A length as written in a block. Blocks are shorter than 4 GiB, because data and options
/// are limited.
#[inline]
fn word(len: usize) -> u32 {
    u32::try_from(len).unwrap_or_default()
}

#[inline]
fn high(time_ns: u64) -> u32 {
    u32::try_from(time_ns >> 32).unwrap_or_default()
}

#[inline]
fn low(time_ns: u64) -> u32 {
    u32::try_from(time_ns & 0xffff_ffff).unwrap_or_default()
}

/// A time as written in blocks: the higher half first.
fn time(time_ns: u64) -> [u8; 8] {
    time_ns.rotate_left(32).to_le_bytes()
}
