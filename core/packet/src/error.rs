//! Errors of frames.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a frame could not be read or cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A header is truncated.
    #[error("{object}: read: needs {needs} bytes, has {has}")]
    Short {
        /// The header.
        object: &'static str,
        /// Bytes it needs.
        needs: usize,
        /// Bytes there are.
        has: usize,
    },
    /// A field has an impossible value.
    #[error("{object}: read: {field} is {value}")]
    Field {
        /// The header.
        object: &'static str,
        /// The field.
        field: &'static str,
        /// Its value.
        value: usize,
    },
    /// The vnet header of a super-frame contradicts the frame's own headers.
    #[error("super-frame: cut: {0}")]
    Cut(&'static str),
}

/// `bytes` from `start` on, at least `needs` of them.
pub(crate) fn at_least<'a>(
    object: &'static str,
    bytes: &'a [u8],
    start: usize,
    needs: usize,
) -> Result<&'a [u8]> {
    let rest = bytes.get(start..).unwrap_or(&[]);
    if rest.len() < needs {
        return Err(Error::Short { object, needs, has: rest.len() });
    }
    Ok(rest)
}

/// The two bytes at `at` as a big-endian number; 0 beyond the end.
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..).and_then(<[u8]>::first_chunk) {
        Some(&two) => u16::from_be_bytes(two),
        None => 0,
    }
}

/// The four bytes at `at` as a big-endian number; 0 beyond the end.
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..).and_then(<[u8]>::first_chunk) {
        Some(&four) => u32::from_be_bytes(four),
        None => 0,
    }
}

/// Writes bytes at `at`, if they fit.
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = value;
    }
}
