//! The classic format: a header of 24 bytes, then records.
//!
//! Also reads files of before version 2.4, whose two lengths may be swapped, and
//! those of a patched libpcap with 8 more bytes in each record.
//! See draft-ietf-opsawg-pcap, and pcap-savefile(5) for earlier versions.

use super::order::Order;
use super::{Format, InterfaceInfo};
use crate::classic;

/// Magic number of files with longer records.
const LONGER: u32 = 0xa1b2_cd34;

pub(super) const HEADER_LEN: usize = classic::HEADER_LEN;

/// The format of a classic file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) order: Order,
    /// Nanoseconds in the fraction's unit.
    unit: u64,
    /// Bytes before the data of a record.
    pub(super) record: usize,
    swapped: Swapped,
}

/// Whether the original length precedes the captured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Swapped {
    No,
    /// If that makes the captured one the smaller.
    Maybe,
    Yes,
}

impl Layout {
    /// From the magic number, if this format has it.
    pub(super) fn of(magic: [u8; 4]) -> Option<Layout> {
        [Order::Little, Order::Big].into_iter().find_map(|order| {
            let (unit, record) = match order.u32(&magic, 0) {
                classic::MICRO => (1000, classic::RECORD_LEN),
                classic::NANO => (1, classic::RECORD_LEN),
                LONGER => (1000, classic::RECORD_LEN + 8),
                _ => return None,
            };
            Some(Layout { order, unit, record, swapped: Swapped::No })
        })
    }

    /// For this version, if it is known.
    pub(super) fn for_version(self, version: (u16, u16)) -> Option<Layout> {
        let swapped = match version {
            (2, ..=2) => Swapped::Yes,
            (2, 3) => Swapped::Maybe,
            (2, _) => Swapped::No,
            // Written by DG/UX.
            (543, 0) => Swapped::Yes,
            _ => return None,
        };
        Some(Layout { swapped, ..self })
    }

    pub(super) fn format(&self) -> Format {
        if self.unit == 1 { Format::ClassicNano } else { Format::ClassicMicro }
    }
}

/// The content of the header.
pub(super) struct Header {
    pub(super) version: (u16, u16),
    pub(super) interface: InterfaceInfo,
}

impl Header {
    /// Reads the first [`HEADER_LEN`] bytes.
    pub(super) fn read(layout: &Layout, bytes: &[u8]) -> Header {
        let order = layout.order;
        let [f, _, high, low] = order.u32(bytes, 20).to_be_bytes();
        let interface = InterfaceInfo {
            linktype: u16::from_be_bytes([high, low]),
            snaplen: order.u32(bytes, 16),
            resolution: if layout.unit == 1 { 9 } else { 6 },
            // Four bits of the length in 16-bit words, and one that says that the length is present.
            fcs_length: (f & 0x04 != 0).then_some((f >> 4) * 2),
            ..InterfaceInfo::default()
        };
        Header { version: (order.u16(bytes, 4), order.u16(bytes, 6)), interface }
    }
}

/// The header of a record.
pub(super) struct Record {
    pub(super) time_ns: u64,
    pub(super) captured: usize,
    pub(super) original: u32,
}

impl Record {
    /// Reads the first bytes of a record.
    #[inline]
    pub(super) fn read(layout: &Layout, bytes: &[u8]) -> Record {
        let word = |at| layout.order.u32(bytes, at);
        let (mut captured, mut original) = (word(8), word(12));
        let swap = match layout.swapped {
            Swapped::No => false,
            Swapped::Maybe => captured > original,
            Swapped::Yes => true,
        };
        if swap {
            std::mem::swap(&mut captured, &mut original);
        }
        Record {
            // Less than 2^62 and 2^42.
            time_ns: u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)) * layout.unit,
            captured: usize::try_from(captured).unwrap_or(usize::MAX),
            original,
        }
    }
}
