//! The header of every message (section 7.1) and the versions of the protocol.

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 8;

/// A version that this crate speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// OpenFlow 1.0, on the wire 0x01.
    V10,
    /// OpenFlow 1.3, on the wire 0x04.
    V13,
}

impl Version {
    /// The version of this number on the wire.
    pub const fn from_number(number: u8) -> Option<Version> {
        match number {
            0x01 => Some(Version::V10),
            0x04 => Some(Version::V13),
            _ => None,
        }
    }

    /// Its number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Version::V10 => 0x01,
            Version::V13 => 0x04,
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Version::V10 => "OpenFlow 1.0",
            Version::V13 => "OpenFlow 1.3",
        })
    }
}

/// The header of a message, as it was on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the version.
    pub version: u8,
    /// Type of the message; its meaning depends on the version.
    pub kind: u8,
    /// Length of the message with its header.
    pub length: u16,
    /// Transaction id: an answer has that of its request.
    pub xid: u32,
}

impl Header {
    /// Reads the header, if its bytes are there.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let [version, kind, l0, l1, x0, x1, x2, x3] = *bytes.first_chunk::<HEADER_LEN>()?;
        let length = u16::from_be_bytes([l0, l1]);
        Some(Header { version, kind, length, xid: u32::from_be_bytes([x0, x1, x2, x3]) })
    }

    /// The version, if this crate speaks it.
    pub const fn version(&self) -> Option<Version> {
        Version::from_number(self.version)
    }
}
