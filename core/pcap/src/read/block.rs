//! Parses the blocks of a pcapng file. Framing is done: a body is the bytes between the two lengths.
//!
//! See draft-ietf-opsawg-pcapng, section 4, and its appendix for the obsolete packet block.

use std::net::IpAddr;

use super::clock::Clock;
use super::option::{Options, Value};
use super::order::{Order, get};
use super::{Format, InterfaceInfo, Item, Packet, SectionInfo, Statistics};
use crate::{Error, InterfaceId, filling, ng};

/// A block's length as in the file, if it is valid.
pub(super) fn length(at: u64, kind: u32, total: u32) -> crate::Result<usize> {
    let wrong = |reason| Error::Malformed { at, kind, reason };
    if total < 12 {
        return Err(wrong("its length is less than 12"));
    }
    if total & 3 != 0 {
        return Err(wrong("its length is not a multiple of 4"));
    }
    usize::try_from(total).map_err(|_| wrong("longer than memory"))
}

/// Whether blocks of this type are parsed.
#[inline]
pub(super) fn is_known(kind: u32) -> bool {
    (ng::INTERFACE..=ng::PACKET).contains(&kind)
}

/// Parses a section header, whose body has 16 bytes or more.
pub(super) fn section(order: Order, body: &[u8]) -> SectionInfo {
    let mut info = SectionInfo {
        format: Format::Ng,
        big_endian: order == Order::Big,
        version: (order.u16(body, 4), order.u16(body, 6)),
        application: None,
        os: None,
        hardware: None,
        comments: Vec::new(),
    };
    for option in Options::new(order, body.get(16..).unwrap_or_default()) {
        match option.code {
            1 => info.comments.push(option.text()),
            2 => info.hardware = Some(option.text()),
            3 => info.os = Some(option.text()),
            4 => info.application = Some(option.text()),
            _ => {}
        }
    }
    info
}

/// Parses an interface description.
pub(super) fn interface(
    order: Order,
    id: InterfaceId,
    body: &[u8],
) -> Result<InterfaceInfo, &'static str> {
    let options = body.get(8..).ok_or("shorter than an interface description")?;
    let mut info = InterfaceInfo {
        id,
        linktype: order.u16(body, 0),
        snaplen: order.u32(body, 4),
        resolution: 6,
        ..InterfaceInfo::default()
    };
    Options::new(order, options).for_each(|option| interface_option(&mut info, &option));
    Ok(info)
}

fn interface_option(info: &mut InterfaceInfo, option: &Value<'_>) {
    match option.code {
        1 => info.comments.push(option.text()),
        2 => info.name = Some(option.text()),
        3 => info.description = Some(option.text()),
        4 => info.addresses.extend(option.array::<8>().map(|[a, b, c, d, mask @ ..]| {
            let bits = u32::from_be_bytes(mask).leading_ones();
            (IpAddr::from([a, b, c, d]), u8::try_from(bits).unwrap_or_default())
        })),
        5 => info.addresses.extend(
            option
                .array::<17>()
                .map(|bytes| (IpAddr::from(get::<16>(&bytes, 0)), bytes[16].min(128))),
        ),
        6 => info.mac = option.array().or(info.mac),
        7 => info.eui = option.array().or(info.eui),
        8 => info.speed = option.u64().or(info.speed),
        9 => info.resolution = option.byte().unwrap_or(info.resolution),
        // The first byte is the filter's kind: 0 is text.
        11 => {
            if let Some(text) = option.bytes.strip_prefix(b"\0") {
                info.filter = Some(String::from_utf8_lossy(text).into_owned());
            }
        }
        12 => info.os = Some(option.text()),
        13 => info.fcs_length = option.byte().or(info.fcs_length),
        14 => info.offset = option.u64().map_or(info.offset, u64::cast_signed),
        15 => info.hardware = Some(option.text()),
        16 => info.tx_speed = option.u64().or(info.tx_speed),
        17 => info.rx_speed = option.u64().or(info.rx_speed),
        _ => {}
    }
}

/// The context in which blocks are parsed.
pub(super) struct Known<'a> {
    pub(super) order: Order,
    pub(super) interfaces: &'a [InterfaceInfo],
    pub(super) clocks: &'a [Clock],
}

impl Known<'_> {
    /// The item in a block's body; the error says what violates the format.
    pub(super) fn item<'b>(&self, kind: u32, body: &'b [u8]) -> Result<Item<'b>, &'static str> {
        match kind {
            ng::PACKET => self.packet(body).map(Item::Packet),
            ng::SIMPLE_PACKET => self.simple_packet(body).map(Item::Packet),
            ng::OLD_PACKET => self.old_packet(body).map(Item::Packet),
            ng::STATISTICS => self.statistics(body).map(Item::Statistics),
            ng::NAMES => Ok(Item::Names(self.names(body))),
            _ => Ok(Item::Other { kind }),
        }
    }

    fn clock(&self, interface: InterfaceId) -> Result<&Clock, &'static str> {
        let index = usize::try_from(interface).unwrap_or(usize::MAX);
        self.clocks.get(index).ok_or("of an interface that is not described before it")
    }

    fn packet<'b>(&self, body: &'b [u8]) -> Result<Packet<'b>, &'static str> {
        let rest = body.get(20..).ok_or("shorter than a packet block")?;
        let order = self.order;
        let interface = order.u32(body, 0);
        let (data, options) = split(rest, order.u32(body, 12))?;
        let mut packet = Packet {
            interface,
            time_ns: self.clock(interface)?.ns(order.ticks(body, 4)),
            original: order.u32(body, 16),
            data,
            flags: 0,
            drops: None,
            id: None,
            comment: None,
        };
        for option in Options::new(order, options) {
            match option.code {
                1 => packet.comment = packet.comment.or(Some(option.str())),
                2 => packet.flags = option.u32().unwrap_or(packet.flags),
                4 => packet.drops = option.u64().or(packet.drops),
                5 => packet.id = option.u64().or(packet.id),
                _ => {}
            }
        }
        Ok(packet)
    }

    /// It has neither interface nor time: the first interface applies, and its `snaplen`.
    fn simple_packet<'b>(&self, body: &'b [u8]) -> Result<Packet<'b>, &'static str> {
        let rest = body.get(4..).ok_or("shorter than a simple packet block")?;
        let original = self.order.u32(body, 0);
        let first = self.interfaces.first().ok_or("a section without interfaces")?;
        let most = if first.snaplen == 0 { original } else { original.min(first.snaplen) };
        let len = usize::try_from(most).unwrap_or(usize::MAX).min(rest.len());
        Ok(Packet {
            interface: 0,
            time_ns: None,
            original,
            data: rest.get(..len).unwrap_or_default(),
            flags: 0,
            drops: None,
            id: None,
            comment: None,
        })
    }

    fn old_packet<'b>(&self, body: &'b [u8]) -> Result<Packet<'b>, &'static str> {
        let rest = body.get(20..).ok_or("shorter than a packet block")?;
        let order = self.order;
        let interface = InterfaceId::from(order.u16(body, 0));
        let drops = order.u16(body, 2);
        let (data, options) = split(rest, order.u32(body, 12))?;
        let mut packet = Packet {
            interface,
            time_ns: self.clock(interface)?.ns(order.ticks(body, 4)),
            original: order.u32(body, 16),
            data,
            flags: 0,
            // All ones: unknown.
            drops: (drops != u16::MAX).then_some(u64::from(drops)),
            id: None,
            comment: None,
        };
        for option in Options::new(order, options) {
            match option.code {
                1 => packet.comment = packet.comment.or(Some(option.str())),
                2 => packet.flags = option.u32().unwrap_or(packet.flags),
                _ => {}
            }
        }
        Ok(packet)
    }

    fn statistics(&self, body: &[u8]) -> Result<Statistics, &'static str> {
        let options = body.get(12..).ok_or("shorter than a statistics block")?;
        let interface = self.order.u32(body, 0);
        let clock = self.clock(interface)?;
        let time_ns = clock.ns(self.order.ticks(body, 4));
        let mut read = Statistics { interface, time_ns, ..Statistics::default() };
        for option in Options::new(self.order, options) {
            match option.code {
                2 => read.start_ns = option.ticks().and_then(|at| clock.ns(at)),
                3 => read.end_ns = option.ticks().and_then(|at| clock.ns(at)),
                4 => read.received = option.u64(),
                5 => read.dropped = option.u64(),
                6 => read.filter_accepted = option.u64(),
                7 => read.os_dropped = option.u64(),
                8 => read.delivered = option.u64(),
                _ => {}
            }
        }
        Ok(read)
    }

    /// Records look like options and end like them.
    fn names(&self, body: &[u8]) -> Vec<(IpAddr, Vec<String>)> {
        let record = |record: Value<'_>| {
            let (address, names) = match record.code {
                1 => (IpAddr::from(*record.bytes.first_chunk::<4>()?), record.bytes.get(4..)?),
                2 => (IpAddr::from(*record.bytes.first_chunk::<16>()?), record.bytes.get(16..)?),
                _ => return None,
            };
            let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
            Some((address, names.map(|n| String::from_utf8_lossy(n).into_owned()).collect()))
        };
        Options::new(self.order, body).filter_map(record).collect()
    }
}

/// The data of a packet, and the bytes after its padding.
fn split(rest: &[u8], captured: u32) -> Result<(&[u8], &[u8]), &'static str> {
    let len = usize::try_from(captured).unwrap_or(usize::MAX);
    let data = rest.get(..len).ok_or("its packet is longer than it")?;
    Ok((data, rest.get(len + filling(len)..).unwrap_or_default()))
}
