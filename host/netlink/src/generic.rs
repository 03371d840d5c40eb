//! Generic netlink: a socket, and the family ids that the kernel assigns at run time.
//!
//! Specification: `linux/genetlink.h`.

use crate::decode::{Message, attributes, u16_at};
use crate::encode::Encoder;
use crate::error::{Error, Refusal, Result};
use crate::link::LinkRef;
use crate::socket::Socket;
use crate::uapi::REQUEST;

const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const HEADER: usize = 4;

/// A socket of the calling thread's network namespace and one family's id.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) socket: Socket,
    pub(crate) number: u16,
}

impl Family {
    /// Looks up a family; `None` if the kernel has no such family.
    pub(crate) fn find(name: &str) -> Result<Option<Self>> {
        let mut socket = Socket::open_generic()?;
        let mut question = message(CONTROL, GET_FAMILY, REQUEST, |e| e.string(FAMILY_NAME, name));
        let number = socket.ask(&mut question, (name, "find"), &[libc::ENOENT], |answer| {
            let found = body(answer).find(|(kind, _)| *kind == FAMILY_ID);
            found.and_then(|(_, value)| u16_at(value, 0))
        })?;
        Ok(number.map(|number| Self { socket, number }))
    }
}

/// One whole message: the generic header (command, version), then what `body` writes.
pub(crate) fn message(
    family: u16,
    command: u8,
    flags: u16,
    body: impl FnOnce(&mut Encoder<'_>),
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    Encoder::message(&mut bytes, family, flags, |encoder| {
        encoder.fixed(&[command, 1, 0, 0]);
        body(encoder);
    });
    bytes
}

/// The attributes behind the generic header.
pub(crate) fn body<'a>(message: &Message<'a>) -> impl Iterator<Item = (u16, &'a [u8])> {
    attributes(message.payload.get(HEADER..).unwrap_or_default())
}

/// A link's name in errors.
pub(crate) fn object(link: LinkRef<'_>) -> String {
    match link {
        LinkRef::Index(index) => format!("link {index}"),
        LinkRef::Name(name) => format!("link {name:?}"),
    }
}

/// A refusal detected here, in the form of the kernel's.
pub(crate) fn refused(object: String, operation: &'static str, errno: i32, why: String) -> Error {
    let explanation = Some(why);
    Error::Refused(vec![Refusal { object: object.into(), operation, errno, explanation }])
}
