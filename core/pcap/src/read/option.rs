//! The options of a block: code, length, value, padding.
//!
//! They end with the end marker, with the block, or at an incomplete one. The block's type gives
//! each its meaning; an option of wrong length counts as absent.

use super::order::Order;
use crate::filling;

/// Iterates over options.
#[derive(Clone, Debug)]
pub(super) struct Options<'a> {
    order: Order,
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    pub(super) fn new(order: Order, bytes: &'a [u8]) -> Self {
        Options { order, rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        let (head, rest) = self.rest.split_at_checked(4)?;
        let (code, len) = (self.order.u16(head, 0), usize::from(self.order.u16(head, 2)));
        // The last option's padding may be missing.
        let bytes = rest.get(..len)?;
        self.rest = rest.get(len + filling(len)..).unwrap_or_default();
        (code != 0).then_some(Value { code, bytes, order: self.order })
    }
}

/// An option, or a record of names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'a> {
    pub(super) code: u16,
    pub(super) bytes: &'a [u8],
    order: Order,
}

impl<'a> Value<'a> {
    pub(super) fn text(&self) -> String {
        // Some writers include a zero byte at the end.
        let bytes = self.bytes.strip_suffix(b"\0").unwrap_or(self.bytes);
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Its text, up to the first invalid UTF-8.
    pub(super) fn str(&self) -> &'a str {
        let valid = match std::str::from_utf8(self.bytes) {
            Ok(text) => return text,
            Err(error) => error.valid_up_to(),
        };
        self.bytes.get(..valid).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or_default()
    }

    pub(super) fn array<const N: usize>(&self) -> Option<[u8; N]> {
        self.bytes.try_into().ok()
    }

    pub(super) fn byte(&self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&self) -> Option<u32> {
        self.array::<4>().map(|bytes| self.order.u32(&bytes, 0))
    }

    pub(super) fn u64(&self) -> Option<u64> {
        self.array::<8>().map(|bytes| self.order.u64(&bytes, 0))
    }

    /// A time stamp: the higher half comes first in both byte orders.
    pub(super) fn ticks(&self) -> Option<u64> {
        self.array::<8>().map(|bytes| self.order.ticks(&bytes, 0))
    }
}
