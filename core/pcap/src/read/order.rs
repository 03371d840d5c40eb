//! Reads numbers of a section in its byte order.

use crate::ng;

/// Byte order of a section. Reading past the end gives zeros; callers know the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    /// From the magic after type and length of a section header.
    pub(super) fn of_magic(block: &[u8]) -> Option<Order> {
        [Order::Little, Order::Big].into_iter().find(|order| order.u32(block, 8) == ng::MAGIC)
    }

    #[inline]
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = get(bytes, at);
        if self == Order::Little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    }

    #[inline]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = get(bytes, at);
        if self == Order::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    }

    #[inline]
    pub(super) fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let bytes = get(bytes, at);
        if self == Order::Little { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) }
    }

    #[inline]
    pub(super) fn ticks(self, bytes: &[u8], at: usize) -> u64 {
        u64::from(self.u32(bytes, at)) << 32 | u64::from(self.u32(bytes, at + 4))
    }
}

#[inline]
pub(super) fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|from| from.first_chunk::<N>()).copied().unwrap_or([0; N])
}
