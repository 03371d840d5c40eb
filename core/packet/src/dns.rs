//! DNS messages (RFC 1035): the question of a query, and the addresses that a response gives for its question.
//!
//! A response's aliases (CNAME) are followed from the name that was asked for, which is the one that counts.
//! Only names of host name characters are given, in lower case without the dot of the root. Any bytes may come in.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A question of DNS: a name and a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// The name, in lower case, without the dot of the root.
    pub name: String,
    /// The type of records, such as [`A`].
    pub kind: u16,
}

/// A message with one question of class IN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The number by which a response belongs to its query.
    pub id: u16,
    /// Whether it is a response.
    pub is_response: bool,
    /// Its question.
    pub question: Question,
    /// Addresses of the name, each with the seconds for which it may be kept; none in a query.
    pub addresses: Vec<(IpAddr, u32)>,
}

/// Records of IPv4 addresses.
pub const A: u16 = 1;
/// Records of IPv6 addresses (RFC 3596).
pub const AAAA: u16 = 28;

const CNAME: u16 = 5;
/// Records of EDNS (RFC 6891).
const OPTIONS: u16 = 41;
const CLASS_IN: u16 = 1;
const HEADER: usize = 12;
/// Longest name in its encoding, RFC 1035 section 2.3.4.
const MOST_NAME: usize = 255;
/// Most records that are looked at: more than fit into a message that people send.
const MOST_RECORDS: usize = 4096;
/// The response bit, the kind of message, and the code of a response (RFC 1035 section 4.1.1).
const RESPONSE: u16 = 0x8000;
const KIND: u16 = 0x7800;
const CODE: u16 = 0x000F;
/// What a query may want: recursion, to be told whether the answer is authentic, and answers that were not checked.
const RECURSE: u16 = 0x0100;
const AUTHENTIC: u16 = 0x0020;
const UNCHECKED: u16 = 0x0010;
/// The flag of EDNS by which a query wants signatures (RFC 3225).
const SIGNATURES: u16 = 0x8000;
/// Codes: the server has failed; there is no such name.
const SERVER_FAILURE: u16 = 2;
const NO_SUCH_NAME: u16 = 3;

/// Reads a message; `None` for one without exactly one question of class IN about a host's name.
///
/// Of a message that was cut, the records before the cut count.
pub fn read(bytes: &[u8]) -> Option<Message> {
    let (id, flags) = (word(bytes, 0)?, word(bytes, 2)?);
    let (questions, answers) = (word(bytes, 4)?, word(bytes, 6)?);
    let (name, at) = name(bytes, HEADER)?;
    // A message has one question at most in practice (RFC 9619).
    if questions != 1 || word(bytes, at + 2)? != CLASS_IN {
        return None;
    }
    let question = Question { name: host(&name)?, kind: word(bytes, at)? };
    let is_response = flags & RESPONSE != 0;
    let counts = is_response && flags & CODE == 0;
    let addresses = if counts { addresses(bytes, at + 4, answers, &name) } else { vec![] };
    Some(Message { id, is_response, question, addresses })
}

/// The question of a query that asks for nothing but that: `None` where a server could read more out of it than this name, or
/// another one.
pub fn asked(query: &[u8]) -> Option<Question> {
    let (flags, questions) = (word(query, 2)?, word(query, 4)?);
    let alone = questions == 1 && word(query, 6)? == 0 && word(query, 8)? == 0;
    if flags & (RESPONSE | KIND) != 0 || !alone {
        return None;
    }
    let (name, at) = name(query, HEADER)?;
    // Without pointers, which could lead into the header.
    if at != HEADER + name.len() || word(query, at + 2)? != CLASS_IN {
        return None;
    }
    // A record of EDNS has no name; any other one, or what stands behind the last, could carry some.
    let end = match word(query, 10)? {
        0 => at + 4,
        1 if query.get(at + 4) == Some(&0) && word(query, at + 5)? == OPTIONS => {
            record(query, at + 4)?.1
        }
        _ => return None,
    };
    if end != query.len() {
        return None;
    }
    Some(Question { name: host(&name)?, kind: word(query, at)? })
}

/// The query with nothing in it but its question, where it [asks](asked) for nothing else: of EDNS it says the size of answers
/// that it takes and whether it wants signatures, without options, which servers may pass on.
pub fn plain(query: &[u8]) -> Cow<'_, [u8]> {
    let bare = || {
        asked(query)?;
        let (_, at) = name(query, HEADER)?;
        let mut bare = query.get(..at + 4)?.to_vec();
        let flags = word(query, 2)? & (RECURSE | AUTHENTIC | UNCHECKED);
        bare[2..4].copy_from_slice(&flags.to_be_bytes());
        if word(query, 10)? == 1 {
            // A record without a name: its type, the size, what the flags say, and the length of its options.
            bare.push(0);
            bare.extend(OPTIONS.to_be_bytes());
            bare.extend(query.get(at + 7..at + 9)?);
            bare.extend([0, 0]);
            bare.extend((word(query, at + 11)? & SIGNATURES).to_be_bytes());
            bare.extend([0, 0]);
        }
        Some(bare)
    };
    bare().map_or(Cow::Borrowed(query), Cow::Owned)
}

/// The response to a query that no server has answered: its header and question, with the code of a failed server.
/// `None` for bytes that are not a query.
pub fn failure(query: &[u8]) -> Option<Vec<u8>> {
    answer(query, SERVER_FAILURE)
}

/// The response with the code for a name that does not exist. `None` for bytes that are not a query.
pub fn no_such_name(query: &[u8]) -> Option<Vec<u8>> {
    answer(query, NO_SUCH_NAME)
}

fn answer(query: &[u8], code: u16) -> Option<Vec<u8>> {
    let flags = word(query, 2)?;
    if flags & RESPONSE != 0 || word(query, 4)? != 1 {
        return None;
    }
    let (_, at) = name(query, HEADER)?;
    let mut response = query.get(..at + 4)?.to_vec();
    // Kept: the kind of query and whether recursion is wanted, which is also available then.
    let flags = RESPONSE | flags & 0x7900 | (flags & 0x0100) >> 1 | code;
    response[2..4].copy_from_slice(&flags.to_be_bytes());
    // Records of the query, such as that of EDNS, are not sent back.
    response[6..HEADER].fill(0);
    Some(response)
}

/// A record of an answer.
struct Record {
    owner: Vec<u8>,
    kind: u16,
    seconds: u32,
    data: std::ops::Range<usize>,
}

/// Addresses of `name`, by its aliases if it has any. Those may stand in any order.
fn addresses(bytes: &[u8], at: usize, count: u16, name: &[u8]) -> Vec<(IpAddr, u32)> {
    let records = records(bytes, at, count);
    let (mut owner, mut seconds) = (name.to_vec(), u32::MAX);
    // At most one step a record, so that a circle of aliases ends.
    for _ in 0..=records.len() {
        let alias = records.iter().find(|r| r.kind == CNAME && r.owner == owner);
        let Some(alias) = alias else { break };
        let Some((target, _)) = self::name(bytes, alias.data.start) else { break };
        // An address by aliases is good for as long as the shortest-lived of them.
        (owner, seconds) = (target, seconds.min(alias.seconds));
    }
    let own = records.iter().filter(|record| record.owner == owner);
    own.filter_map(|record| {
        Some((address(record.kind, bytes.get(record.data.clone())?)?, seconds.min(record.seconds)))
    })
    .collect()
}

fn address(kind: u16, data: &[u8]) -> Option<IpAddr> {
    match kind {
        A => Some(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).into()),
        AAAA => Some(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).into()),
        _ => None,
    }
}

/// The whole records from `at`, up to `count`.
fn records(bytes: &[u8], mut at: usize, count: u16) -> Vec<Record> {
    let mut all = vec![];
    for _ in 0..usize::from(count).min(MOST_RECORDS) {
        let Some((record, end)) = record(bytes, at) else { break };
        at = end;
        all.extend(record);
    }
    all
}

/// A record, unless it is of another class, and where the next one begins.
fn record(bytes: &[u8], at: usize) -> Option<(Option<Record>, usize)> {
    let (owner, at) = name(bytes, at)?;
    let (kind, class) = (word(bytes, at)?, word(bytes, at + 2)?);
    let seconds = u32::from(word(bytes, at + 4)?) << 16 | u32::from(word(bytes, at + 6)?);
    // RFC 2181 section 8: what looks negative means zero.
    let seconds = if seconds > i32::MAX.unsigned_abs() { 0 } else { seconds };
    let start = at + 10;
    let end = start + usize::from(word(bytes, at + 8)?);
    bytes.get(start..end)?;
    let record = Record { owner, kind, seconds, data: start..end };
    Some(((class == CLASS_IN).then_some(record), end))
}

/// A name in its encoding without pointers, in lower case, and where what follows it begins.
fn name(bytes: &[u8], start: usize) -> Option<(Vec<u8>, usize)> {
    let (mut name, mut at, mut end, mut bound) = (vec![], start, None, start);
    loop {
        let length = *bytes.get(at)?;
        match length & 0xC0 {
            0 => {
                let label = bytes.get(at..=at + usize::from(length))?;
                name.extend(label.iter().map(u8::to_ascii_lowercase));
                at += label.len();
                if name.len() > MOST_NAME {
                    return None;
                }
                if length == 0 {
                    return Some((name, end.unwrap_or(at)));
                }
            }
            0xC0 => {
                let target = usize::from(word(bytes, at)? & 0x3FFF);
                end = end.or(Some(at + 2));
                // Only backwards, so that it ends.
                if target >= bound {
                    return None;
                }
                (at, bound) = (target, target);
            }
            // 01 and 10 are reserved (RFC 1035, 4.1.4).
            _ => return None,
        }
    }
}

/// A name as text; `None` if it has other characters than a host's.
fn host(encoded: &[u8]) -> Option<String> {
    let (mut text, mut at) = (String::new(), 0);
    while let Some(length @ 1..) = encoded.get(at).map(|length| usize::from(*length)) {
        let label = encoded.get(at + 1..=at + length)?;
        if !label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        text.extend(label.iter().map(|byte| char::from(*byte)));
        at += 1 + length;
    }
    (!text.is_empty()).then_some(text)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
