//! Decodes netlink messages and attributes.
//!
//! No length is trusted: a message or attribute that claims more than is present ends the walk, and
//! a value of the wrong size counts as absent. No input panics. Specification: netlink(7).

use crate::uapi::{ACK_TLVS, CAPPED, HEADER, NLA_TYPE_MASK, NLMSGERR_ATTR_MSG};

/// One received netlink message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) payload: &'a [u8],
}

/// The messages of one datagram.
pub(crate) fn messages(datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let length = usize::try_from(u32_at(rest, 0)?).ok()?;
        let message = Message {
            kind: u16_at(rest, 4)?,
            flags: u16_at(rest, 6)?,
            sequence: u32_at(rest, 8)?,
            // A length below the header's, with which the walk would not advance, ends it here.
            payload: rest.get(HEADER..length)?,
        };
        // Lengths do not count the padding to four bytes.
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// The attributes in a payload: type (without the nesting flag) and value.
pub(crate) fn attributes(payload: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & NLA_TYPE_MASK;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The kernel's answer to one request: 0 or a positive errno, and its explanation, if any.
pub(crate) fn answer(message: &Message<'_>) -> Option<(i32, Option<String>)> {
    // The kernel sends it negative; `i32::MIN` has no opposite.
    let errno = i32_at(message.payload, 0)?.checked_neg()?;
    if message.flags & ACK_TLVS == 0 {
        return Some((errno, None));
    }
    let request = usize::try_from(u32_at(message.payload, 4)?).ok()?;
    // The request comes back whole, unless NETLINK_CAP_ACK cuts it to its header.
    let echoed = if message.flags & CAPPED == 0 { request.next_multiple_of(4) } else { HEADER };
    let words = message.payload.get(4usize.checked_add(echoed)?..).unwrap_or_default();
    let text = attributes(words).find(|(kind, _)| *kind == NLMSGERR_ATTR_MSG);
    Some((errno, text.map(|(_, value)| string(value))))
}

pub(crate) fn u8_at(bytes: &[u8], offset: usize) -> Option<u8> {
    bytes.get(offset).copied()
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array_at(bytes, offset).map(u16::from_ne_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    array_at(bytes, offset).map(u32::from_ne_bytes)
}

pub(crate) fn i32_at(bytes: &[u8], offset: usize) -> Option<i32> {
    array_at(bytes, offset).map(i32::from_ne_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    array_at(bytes, offset).map(u64::from_ne_bytes)
}

pub(crate) fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

/// Text up to the first NUL; bytes that are not UTF-8 become replacement characters.
pub(crate) fn string(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}
