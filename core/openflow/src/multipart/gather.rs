//! Long answers into parts, and parts into one (section 7.3.5: OFPMPF_REQ_MORE, OFPMPF_REPLY_MORE).
//!
//! Parts are cut between entries. Gathering is bounded by the total of bytes.

use super::{MORE, MultipartReply, MultipartRequest, Reply, Request, TableStats};
use crate::error::EncodeError;
use crate::header::Version;
use crate::wire::{Encoded, Writer};

/// Bytes of entries in a part: what fits into a message beside its header and that of the answer,
/// 8 bytes each (in 1.0 the second has 4).
const PART: usize = 65_535 - 16;

/// An answer as messages to be sent one after another; an empty answer is one empty part.
///
/// # Errors
/// If the version lacks the answer, or a single entry is longer than a message.
pub fn segments(version: Version, body: Reply) -> Result<Vec<MultipartReply>, EncodeError> {
    let bodies = match body {
        Reply::Flow(all) => cut(version, all, |one, w| one.write(w), Reply::Flow),
        Reply::Table(all) => cut(version, all, TableStats::write_one, Reply::Table),
        Reply::PortStats(all) => cut(version, all, |one, w| one.write(w), Reply::PortStats),
        Reply::QueueStats(all) => cut(version, all, |one, w| one.write(w), Reply::QueueStats),
        Reply::GroupStats(all) => cut(version, all, |one, w| one.write(w), Reply::GroupStats),
        Reply::GroupDesc(all) => cut(version, all, |one, w| one.write(w), Reply::GroupDesc),
        Reply::MeterStats(all) => cut(version, all, |one, w| one.write(w), Reply::MeterStats),
        Reply::MeterConfig(all) => cut(version, all, |one, w| one.write(w), Reply::MeterConfig),
        Reply::TableFeatures(all) => cut(version, all, |one, w| one.write(w), Reply::TableFeatures),
        Reply::PortDesc(all) => cut(version, all, |one, w| one.write(w), Reply::PortDesc),
        single => Ok(vec![single]),
    }?;
    // `cut` gives at least one.
    let last = bodies.len() - 1;
    let part = |(index, body)| MultipartReply { flags: if index < last { MORE } else { 0 }, body };
    Ok(bodies.into_iter().enumerate().map(part).collect())
}

/// Groups entries so that each group fits; at least one group.
fn cut<T>(
    version: Version,
    all: Vec<T>,
    write: impl Fn(&T, &mut Writer) -> Encoded,
    join: impl Fn(Vec<T>) -> Reply,
) -> Result<Vec<Reply>, EncodeError> {
    let (mut parts, mut part, mut length) = (vec![], vec![], 0);
    for one in all {
        let mut w = Writer::new(version);
        write(&one, &mut w)?;
        if w.len() > PART {
            return Err(EncodeError::TooLong { object: "entry of an answer", length: w.len() });
        }
        if length + w.len() > PART {
            parts.push(join(std::mem::take(&mut part)));
            length = 0;
        }
        length += w.len();
        part.push(one);
    }
    parts.push(join(part));
    Ok(parts)
}

/// Parts of one request or answer as they arrive.
#[derive(Clone, Debug)]
pub struct Gather<T> {
    body: Option<T>,
    bytes: usize,
}

impl<T> Default for Gather<T> {
    fn default() -> Gather<T> {
        Gather { body: None, bytes: 0 }
    }
}

/// Why parts do not become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatherError {
    /// More bytes than the caller allows (OFPBRC_MULTIPART_BUFFER_OVERFLOW).
    #[error("multipart message: more than {most} bytes in all")]
    Overflow {
        /// The limit.
        most: usize,
    },
    /// A part of another type than those before it, or of one that has no parts.
    #[error("multipart message: parts of different types")]
    Mixed,
}

impl<T> Gather<T> {
    /// How many bytes of parts wait for others.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a part of `bytes` bytes; returns the whole when it was the last. After an error it is empty.
    fn add(
        &mut self,
        flags: u16,
        body: T,
        bytes: usize,
        most: usize,
        join: impl Fn(&mut T, T) -> bool,
    ) -> Result<Option<T>, GatherError> {
        self.bytes += bytes;
        if self.bytes > most {
            *self = Gather { body: None, bytes: 0 };
            return Err(GatherError::Overflow { most });
        }
        let whole = match self.body.take() {
            None => body,
            Some(mut first) => {
                if !join(&mut first, body) {
                    self.bytes = 0;
                    return Err(GatherError::Mixed);
                }
                first
            }
        };
        if flags & MORE != 0 {
            self.body = Some(whole);
            return Ok(None);
        }
        self.bytes = 0;
        Ok(Some(whole))
    }
}

impl Gather<Reply> {
    /// Adds an answer's part of `bytes` bytes; returns the whole answer when it was the last.
    ///
    /// # Errors
    /// If parts are of different types, or are more than `most` bytes together.
    pub fn reply(
        &mut self,
        part: MultipartReply,
        bytes: usize,
        most: usize,
    ) -> Result<Option<Reply>, GatherError> {
        self.add(part.flags, part.body, bytes, most, join_replies)
    }
}

impl Gather<Request> {
    /// Adds a request's part of `bytes` bytes; returns the whole request when it was the last.
    ///
    /// # Errors
    /// If parts are of different types, or are more than `most` bytes together.
    pub fn request(
        &mut self,
        part: MultipartRequest,
        bytes: usize,
        most: usize,
    ) -> Result<Option<Request>, GatherError> {
        self.add(part.flags, part.body, bytes, most, join_requests)
    }
}

fn join_requests(first: &mut Request, next: Request) -> bool {
    match (first, next) {
        (Request::TableFeatures(all), Request::TableFeatures(more)) => all.extend(more),
        (
            Request::Experimenter { experimenter, data },
            Request::Experimenter { experimenter: same, data: more },
        ) if *experimenter == same => data.extend(more),
        _ => return false,
    }
    true
}

fn join_replies(first: &mut Reply, next: Reply) -> bool {
    match (first, next) {
        (Reply::Flow(all), Reply::Flow(more)) => all.extend(more),
        (Reply::Table(all), Reply::Table(more)) => all.extend(more),
        (Reply::PortStats(all), Reply::PortStats(more)) => all.extend(more),
        (Reply::QueueStats(all), Reply::QueueStats(more)) => all.extend(more),
        (Reply::GroupStats(all), Reply::GroupStats(more)) => all.extend(more),
        (Reply::GroupDesc(all), Reply::GroupDesc(more)) => all.extend(more),
        (Reply::MeterStats(all), Reply::MeterStats(more)) => all.extend(more),
        (Reply::MeterConfig(all), Reply::MeterConfig(more)) => all.extend(more),
        (Reply::TableFeatures(all), Reply::TableFeatures(more)) => all.extend(more),
        (Reply::PortDesc(all), Reply::PortDesc(more)) => all.extend(more),
        (
            Reply::Experimenter { experimenter, data },
            Reply::Experimenter { experimenter: same, data: more },
        ) if *experimenter == same => data.extend(more),
        _ => return false,
    }
    true
}
