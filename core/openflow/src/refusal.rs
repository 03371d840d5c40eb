//! Why a message is refused: the error message that says so (section 7.4.4).

use crate::error::Reason;
use crate::header::{HEADER_LEN, Header, Version};
use crate::wire::{Encoded, Fail, Reader, Result, Writer};

/// How many bytes of a refused message are quoted in the answer (section 7.4.4: at least 64, if there are as many).
pub const QUOTED: usize = 64;

/// The type of an error that an experimenter defines.
pub const EXPERIMENTER: u16 = 0xffff;

/// OFPT_ERROR (section 7.4.4). An experimenter's has type [`EXPERIMENTER`], its own type as code, and its number in
/// the first four bytes of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// Type, in the version's numbers.
    pub kind: u16,
    /// Code, in the version's numbers.
    pub code: u16,
    /// The beginning of the refused message; text if no version was agreed on.
    pub data: Vec<u8>,
}

impl ErrorMessage {
    /// The answer to `refused` in a version.
    pub fn new(version: Version, reason: Reason, refused: &[u8]) -> ErrorMessage {
        let (kind, code) = reason.numbers(version);
        let data = refused.get(..QUOTED).unwrap_or(refused).to_vec();
        ErrorMessage { kind, code, data }
    }

    /// Its reason, if the version defines it.
    pub fn reason(&self, version: Version) -> Option<Reason> {
        Reason::from_numbers(version, self.kind, self.code)
    }

    /// The number of the experimenter that defines it.
    pub fn experimenter(&self) -> Option<u32> {
        let number = self.data.first_chunk::<4>().filter(|_| self.kind == EXPERIMENTER);
        number.map(|bytes| u32::from_be_bytes(*bytes))
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<ErrorMessage> {
        Ok(ErrorMessage { kind: r.u16()?, code: r.u16()?, data: r.rest() })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        w.u16(self.kind);
        w.u16(self.code);
        w.bytes(&self.data);
        Ok(())
    }
}

/// Why a message was refused, and what to answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("OpenFlow message: {object}: {name}", name = .reason.name())]
pub struct DecodeError {
    /// The reason to answer with.
    pub reason: Reason,
    /// The refused request, in words.
    pub object: &'static str,
    /// The message's header; `None` if not even that was whole.
    pub header: Option<Header>,
}

impl DecodeError {
    pub(crate) fn new(header: Option<Header>, fail: Fail) -> DecodeError {
        DecodeError { reason: fail.reason, object: fail.object, header }
    }

    /// The transaction id of the refused message.
    pub fn xid(&self) -> u32 {
        self.header.map_or(0, |header| header.xid)
    }

    /// The error message that answers `refused` in the connection's version.
    pub fn answer(&self, version: Version, refused: &[u8]) -> ErrorMessage {
        let length = self.header.map_or(refused.len(), |header| usize::from(header.length));
        // What follows is of other messages; a wrong length must not cut the header.
        let whole = refused.get(..length.max(HEADER_LEN)).unwrap_or(refused);
        ErrorMessage::new(version, self.reason, whole)
    }
}
