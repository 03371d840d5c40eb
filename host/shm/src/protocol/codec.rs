//! Encodes and decodes messages. Byte for byte: docs/abi/switch-join.md.

use std::fmt;

use netloom_bridge::{Mac, Vid};

use super::{
    Capabilities, Direction, EdgeName, Edges, Join, Joined, MOST_EDGES, MOST_MESSAGE, MOST_NAME,
    MOST_PART, MOST_TEXT, Message, Reason, Refused, Token,
};
use crate::{Error, Result};

/// Bytes of an [`EdgeName`].
const EDGE: usize = 8;

impl<'a> Message<'a> {
    /// Encodes the message, at most [`MOST_MESSAGE`] bytes, into `to`, replacing its content.
    ///
    /// # Errors
    /// [`Error::Message`] if a name, a text, a list or a body exceeds its limit.
    pub fn encode(&self, to: &mut Vec<u8>) -> Result<()> {
        to.clear();
        to.extend(self.kind().to_le_bytes());
        to.extend([0; 2]);
        match *self {
            Message::Join(join) => encode_join(&join, to)?,
            Message::Joined(Joined { version, number, generation, token }) => {
                to.extend(version.to_le_bytes());
                to.extend([port(number)?, 0]);
                to.extend(generation.to_le_bytes());
                to.extend(token);
            }
            Message::Refused(Refused { reason, number, text }) => {
                limit(text.len(), MOST_TEXT, "text too long")?;
                to.extend(reason.number().to_le_bytes());
                to.extend([number, 0]);
                to.extend(text.as_bytes());
            }
            Message::Open { to: number } => to.extend([port(number)?, 0, 0, 0]),
            Message::Opened { to: number, generation }
            | Message::Edge { from: number, generation }
            | Message::PortGone { number, generation } => {
                to.extend([port(number)?, 0, 0, 0]);
                to.extend(generation.to_le_bytes());
            }
            Message::Close { number, direction } => {
                to.extend([port(number)?, direction.number(), 0, 0]);
            }
            Message::Station { number, vid, mac } => {
                check_station(vid, mac).map_err(unsent)?;
                to.extend([port(number)?, 0]);
                to.extend(vid.to_le_bytes());
                to.extend(mac);
                to.extend([0; 2]);
            }
            Message::Bye | Message::Moved => {}
            Message::Request { id, last, body } => encode_part(id, last, false, body, to)?,
            Message::Answer { id, last, failed, body } => {
                encode_part(id, last, failed, body, to)?;
            }
        }
        Ok(())
    }

    /// Decodes the bytes of one message.
    ///
    /// # Errors
    /// [`Error::Message`] for everything that [`Message::encode`] does not produce.
    pub fn decode(bytes: &'a [u8]) -> Result<Message<'a>> {
        limit(bytes.len(), MOST_MESSAGE, "too long").map_err(as_read)?;
        let mut from = Reader(bytes);
        let kind = from.u16()?;
        from.zeros(2)?;
        let message = match kind {
            1 => Message::Join(decode_join(&mut from)?),
            2 => Message::Joined(decode_joined(&mut from)?),
            3 => Message::Refused(decode_refused(&mut from)?),
            4 => {
                let to = from.port()?;
                from.zeros(3)?;
                Message::Open { to }
            }
            5 => {
                from.port_generation().map(|(to, generation)| Message::Opened { to, generation })?
            }
            6 => from
                .port_generation()
                .map(|(from, generation)| Message::Edge { from, generation })?,
            7 => from
                .port_generation()
                .map(|(number, generation)| Message::PortGone { number, generation })?,
            8 => {
                let number = from.port()?;
                let direction = from.direction()?;
                from.zeros(2)?;
                Message::Close { number, direction }
            }
            9 => Message::Bye,
            10 => match decode_part(&mut from)? {
                (_, _, true, _) => return Err(wrong("unknown flags")),
                (id, last, false, body) => Message::Request { id, last, body },
            },
            11 => {
                let (id, last, failed, body) = decode_part(&mut from)?;
                Message::Answer { id, last, failed, body }
            }
            12 => decode_station(&mut from)?,
            13 => Message::Moved,
            _ => return Err(wrong("unknown kind")),
        };
        if from.0.is_empty() { Ok(message) } else { Err(wrong("longer than its kind")) }
    }

    fn kind(&self) -> u16 {
        match self {
            Message::Join(_) => 1,
            Message::Joined(_) => 2,
            Message::Refused(_) => 3,
            Message::Open { .. } => 4,
            Message::Opened { .. } => 5,
            Message::Edge { .. } => 6,
            Message::PortGone { .. } => 7,
            Message::Close { .. } => 8,
            Message::Bye => 9,
            Message::Request { .. } => 10,
            Message::Answer { .. } => 11,
            Message::Station { .. } => 12,
            Message::Moved => 13,
        }
    }
}

fn encode_join(join: &Join<'_>, to: &mut Vec<u8>) -> Result<()> {
    check_name(join.name).map_err(unsent)?;
    limit(join.edges.len(), MOST_EDGES, "too many edges")?;
    let flags =
        u8::from(join.capabilities.super_frames) | u8::from(join.capabilities.checksums) << 1;
    to.extend(join.version.to_le_bytes());
    to.extend([join.number, flags]);
    to.extend(join.token);
    to.extend(short(join.edges.len())?.to_le_bytes());
    to.extend(short(join.name.len())?.to_le_bytes());
    let name = to.len();
    to.extend(join.name.as_bytes());
    to.resize(name + MOST_NAME, 0);
    for EdgeName { number, direction, generation } in join.edges {
        to.extend([port(number)?, direction.number(), 0, 0]);
        to.extend(generation.to_le_bytes());
    }
    Ok(())
}

fn decode_join<'a>(from: &mut Reader<'a>) -> Result<Join<'a>> {
    let version = from.u16()?;
    let [number, flags] = from.array()?;
    // Unknown bits are refused, so that later versions can give them a meaning.
    if flags & !3 != 0 {
        return Err(wrong("unknown capabilities"));
    }
    let token: Token = from.array()?;
    let edges = usize::from(from.u16()?);
    let length = usize::from(from.u16()?);
    limit(edges, MOST_EDGES, "too many edges").map_err(as_read)?;
    let name = from.take(MOST_NAME)?;
    let (name, rest) = name.split_at_checked(length).ok_or(wrong("name too long"))?;
    if rest.iter().any(|b| *b != 0) {
        return Err(wrong("reserved bytes set"));
    }
    let name = std::str::from_utf8(name).map_err(|_| wrong("name is not text"))?;
    check_name(name).map_err(wrong)?;
    let edges = from.take(edges * EDGE)?;
    let mut entries = Reader(edges);
    while !entries.0.is_empty() {
        entries.edge()?;
    }
    let capabilities = Capabilities { super_frames: flags & 1 != 0, checksums: flags & 2 != 0 };
    Ok(Join { version, number, capabilities, token, name, edges: Edges::Read(edges) })
}

fn decode_joined(from: &mut Reader<'_>) -> Result<Joined> {
    let version = from.u16()?;
    let number = from.port()?;
    from.zeros(1)?;
    Ok(Joined { version, number, generation: from.u32()?, token: from.array()? })
}

fn decode_refused<'a>(from: &mut Reader<'a>) -> Result<Refused<'a>> {
    let reason = Reason::from_number(from.u16()?).ok_or(wrong("unknown reason"))?;
    let [number] = from.array()?;
    from.zeros(1)?;
    let text = from.rest();
    limit(text.len(), MOST_TEXT, "text too long").map_err(as_read)?;
    let text = std::str::from_utf8(text).map_err(|_| wrong("text is none"))?;
    Ok(Refused { reason, number, text })
}

fn decode_station<'a>(from: &mut Reader<'a>) -> Result<Message<'a>> {
    let number = from.port()?;
    from.zeros(1)?;
    let (vid, mac) = (from.u16()?, from.array()?);
    from.zeros(2)?;
    check_station(vid, mac).map_err(wrong)?;
    Ok(Message::Station { number, vid, mac })
}

/// Whether a VLAN (0 for none) and an address can be a station's.
fn check_station(vid: u16, mac: [u8; 6]) -> Result<(), &'static str> {
    if vid != 0 && Vid::new(vid).is_none() {
        return Err("no VLAN has this number");
    }
    if Mac(mac).is_station() { Ok(()) } else { Err("no station has this address") }
}

fn encode_part(id: u32, last: bool, failed: bool, body: &[u8], to: &mut Vec<u8>) -> Result<()> {
    limit(body.len(), MOST_PART, "part too long")?;
    to.extend(id.to_le_bytes());
    to.extend([u8::from(last) | u8::from(failed) << 1, 0, 0, 0]);
    to.extend(body);
    Ok(())
}

/// Its id, whether it is the last part, whether it failed, its body.
fn decode_part<'a>(from: &mut Reader<'a>) -> Result<(u32, bool, bool, &'a [u8])> {
    let id = from.u32()?;
    let [flags] = from.array()?;
    from.zeros(3)?;
    if flags & !3 != 0 {
        return Err(wrong("unknown flags"));
    }
    Ok((id, flags & 1 != 0, flags & 2 != 0, from.rest()))
}

/// Whether a name is valid for a port.
///
/// # Errors
/// Its fault.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        Err("name is empty")
    } else if name.len() > MOST_NAME {
        Err("name too long")
    } else if name.chars().any(char::is_control) {
        Err("name has control characters")
    } else {
        Ok(())
    }
}

fn wrong(reason: &'static str) -> Error {
    Error::Message { operation: "read", reason }
}

fn unsent(reason: &'static str) -> Error {
    Error::Message { operation: "write", reason }
}

fn as_read(error: Error) -> Error {
    match error {
        Error::Message { reason, .. } => wrong(reason),
        other => other,
    }
}

fn limit(length: usize, most: usize, reason: &'static str) -> Result<()> {
    if length <= most { Ok(()) } else { Err(unsent(reason)) }
}

fn short(length: usize) -> Result<u16> {
    u16::try_from(length).map_err(|_| unsent("too long"))
}

fn port(number: u8) -> Result<u8> {
    if number == 0 { Err(unsent("0 is not a port")) } else { Ok(number) }
}

/// The rest of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or(wrong("shorter than its kind"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(wrong("shorter than its kind"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn zeros(&mut self, length: usize) -> Result<()> {
        // The same for reserved bytes.
        let zero = self.take(length)?.iter().all(|b| *b == 0);
        if zero { Ok(()) } else { Err(wrong("reserved bytes set")) }
    }

    fn port(&mut self) -> Result<u8> {
        match self.array()? {
            [0] => Err(wrong("0 is not a port")),
            [number] => Ok(number),
        }
    }

    fn direction(&mut self) -> Result<Direction> {
        match self.array()? {
            [0] => Ok(Direction::Out),
            [1] => Ok(Direction::In),
            _ => Err(wrong("unknown direction")),
        }
    }

    fn port_generation(&mut self) -> Result<(u8, u32)> {
        let number = self.port()?;
        self.zeros(3)?;
        Ok((number, self.u32()?))
    }

    fn edge(&mut self) -> Result<EdgeName> {
        let number = self.port()?;
        let direction = self.direction()?;
        self.zeros(2)?;
        Ok(EdgeName { number, direction, generation: self.u32()? })
    }
}

impl Direction {
    fn number(self) -> u8 {
        match self {
            Direction::Out => 0,
            Direction::In => 1,
        }
    }
}

impl Edges<'_> {
    /// Number of edges.
    pub fn len(&self) -> usize {
        match self {
            Edges::Given(edges) => edges.len(),
            Edges::Read(bytes) => bytes.len() / EDGE,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> IntoIterator for Edges<'a> {
    type Item = EdgeName;
    type IntoIter = EdgeIter<'a>;

    fn into_iter(self) -> EdgeIter<'a> {
        EdgeIter(self)
    }
}

/// An iterator over [`Edges`].
#[derive(Clone, Debug)]
pub struct EdgeIter<'a>(Edges<'a>);

impl Iterator for EdgeIter<'_> {
    type Item = EdgeName;

    fn next(&mut self) -> Option<EdgeName> {
        match &mut self.0 {
            Edges::Given(edges) => {
                let (first, rest) = edges.split_first()?;
                *edges = rest;
                Some(*first)
            }
            Edges::Read(bytes) => {
                let mut from = Reader(bytes);
                let first = from.edge().ok()?;
                *bytes = from.0;
                Some(first)
            }
        }
    }
}

/// All reasons, with their numbers and words.
const REASONS: [(Reason, u16, &str); 10] = [
    (Reason::Version, 1, "versions differ"),
    (Reason::Taken, 2, "taken"),
    (Reason::Name, 3, "no name"),
    (Reason::Full, 4, "full"),
    (Reason::Denied, 5, "not allowed"),
    (Reason::Memory, 6, "wrong memory"),
    (Reason::NoPort, 7, "no such port"),
    (Reason::Token, 8, "token not known"),
    (Reason::Protocol, 9, "against the protocol"),
    (Reason::Other, 100, "other reason"),
];

impl Reason {
    fn number(self) -> u16 {
        REASONS.iter().find(|(reason, ..)| *reason == self).map_or(100, |(_, number, _)| *number)
    }

    fn from_number(number: u16) -> Option<Reason> {
        REASONS.iter().find(|(_, n, _)| *n == number).map(|(reason, ..)| *reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words =
            REASONS.iter().find(|(reason, ..)| reason == self).map_or("", |(.., words)| words);
        f.write_str(words)
    }
}
