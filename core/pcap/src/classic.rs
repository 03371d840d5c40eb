//! Writing the classic pcap format: one link type, no interfaces, 32-bit seconds.
//!
//! Little-endian, version 2.4. One file header, then a record for each packet; each function
//! appends one of these completely. Seconds after 2106 do not fit and stay at the last value.
//! See draft-ietf-opsawg-pcap.

use crate::MOST_DATA;

/// The unit of a record's fraction of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Microseconds; the rest is truncated.
    Micro,
    /// Nanoseconds.
    Nano,
}

/// Bytes of the file header.
pub const HEADER_LEN: usize = 24;

/// Bytes before the data of a record.
pub const RECORD_LEN: usize = 16;

/// The snapshot length that means "no limit": readers take 0 for this, or refuse it.
const UNLIMITED: u32 = 262_144;

/// Magic number of a file with microseconds.
pub(crate) const MICRO: u32 = 0xa1b2_c3d4;

/// Magic number of a file with nanoseconds.
pub(crate) const NANO: u32 = 0xa1b2_3c4d;

/// Appends the file header. `snaplen` is in bytes, 0 for no limit; `linktype` as in LINKTYPE_ values
/// (1 is Ethernet).
pub fn header(out: &mut Vec<u8>, precision: Precision, snaplen: u32, linktype: u16) {
    let magic = match precision {
        Precision::Micro => MICRO,
        Precision::Nano => NANO,
    };
    let snaplen = if snaplen == 0 { UNLIMITED } else { snaplen };
    // Version 2.4 as two fields of 16 bits; the zeros are reserved, once for time zone and
    // accuracy.
    let words = [magic, 0x0004_0002, 0, 0, snaplen, u32::from(linktype)];
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// Appends a packet: `time_ns` since 1970 UTC, `original` its length on the wire, `data` its captured
/// bytes, at most [`MOST_DATA`].
pub fn record(out: &mut Vec<u8>, precision: Precision, time_ns: u64, original: u32, data: &[u8]) {
    let data = data.get(..MOST_DATA).unwrap_or(data);
    let seconds = u32::try_from(time_ns / 1_000_000_000).unwrap_or(u32::MAX);
    let nanos = u32::try_from(time_ns % 1_000_000_000).unwrap_or_default();
    let fraction = match precision {
        Precision::Micro => nanos / 1000,
        Precision::Nano => nanos,
    };
    let captured = u32::try_from(data.len()).unwrap_or_default();
    let mut head = [0; RECORD_LEN];
    for (place, word) in head.chunks_exact_mut(4).zip([seconds, fraction, captured, original]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    out.reserve(RECORD_LEN + data.len());
    out.extend_from_slice(&head);
    out.extend_from_slice(data);
}
