//! Errors of capture files, with their offsets.

use std::io;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a capture file cannot be read or written further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file ends inside a block. Everything before that was returned.
    #[error("capture file: cut short: the block at byte {at} is not whole")]
    Cut {
        /// Where the unfinished block begins.
        at: u64,
    },
    /// The first bytes belong to no known format.
    #[error("capture file: {}", strange(*magic))]
    Format {
        /// The first bytes.
        magic: [u8; 4],
    },
    /// An unknown version of the format.
    #[error("capture file: section at byte {at}: version {major}.{minor} is not known")]
    Version {
        /// Where the section or file header begins.
        at: u64,
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// A block that violates the format.
    #[error("capture file: block at byte {at}, type {kind:#x}: {reason}")]
    Malformed {
        /// Where it begins.
        at: u64,
        /// Its type; 0 for a record of a classic file.
        kind: u32,
        /// What violates the format.
        reason: &'static str,
    },
    /// The source could not be read.
    #[error("capture file: read at byte {at}")]
    Read {
        /// How far the file was read.
        at: u64,
        /// The source's error.
        #[source]
        source: io::Error,
    },
    /// A gap that padding cannot fill.
    #[error(
        "padding: from {from} to {to} bytes: the gap must be a multiple of 4, and none or at least 12"
    )]
    Padding {
        /// Bytes present.
        from: usize,
        /// Bytes requested.
        to: usize,
    },
}

/// What a file is that begins so.
fn strange(magic: [u8; 4]) -> String {
    let packed = match magic {
        [0x1f, 0x8b, ..] => Some("gzip"),
        [0x28, 0xb5, 0x2f, 0xfd] => Some("zstd"),
        [0xfd, b'7', b'z', b'X'] => Some("xz"),
        [b'B', b'Z', b'h', _] => Some("bzip2"),
        [0x04, 0x22, 0x4d, 0x18] => Some("lz4"),
        [b'P', b'K', 3, 4] => Some("zip"),
        _ => None,
    };
    match packed {
        Some(packed) => format!("{packed}: unpack it first"),
        None => {
            let [a, b, c, d] = magic;
            format!(
                "begins with the bytes {a:02x} {b:02x} {c:02x} {d:02x}: neither pcap nor pcapng"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_file_is_named() {
        for (magic, text) in [
            ([0x1f, 0x8b, 8, 0], "capture file: gzip: unpack it first"),
            ([0x28, 0xb5, 0x2f, 0xfd], "capture file: zstd: unpack it first"),
            (*b"abcd", "capture file: begins with the bytes 61 62 63 64: neither pcap nor pcapng"),
        ] {
            assert_eq!(Error::Format { magic }.to_string(), text);
        }
    }
}
