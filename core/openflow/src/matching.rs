//! What a packet must be like (section 7.2.3; 1.0.0 section 5.2.3).
//!
//! A match is kept in the form it came in, so that it goes out again byte for byte: [`Match10`] with its
//! wildcards, or a list of [`Oxm`]. [`Match::to_oxm`] and [`Match::to_10`] convert.

pub mod convert;
mod field;
mod oxm;
mod v10;

pub use field::{Field, Prerequisite, VID_PRESENT};
pub use oxm::{FieldId, Oxm, check};
pub use v10::{Match10, VLAN_NONE, Wildcards};

use crate::error::Reason;
use crate::wire::{Encoded, Reader, Result, Writer, fail};

/// What a packet must be like.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// The twelve fields of 1.0.
    V10(Match10),
    /// The fields of 1.3.
    Oxm(Vec<Oxm>),
}

impl Default for Match {
    fn default() -> Match {
        Match::Oxm(Vec::new())
    }
}

/// OFPMT_OXM.
const OXM: u16 = 1;

impl Match {
    /// The value of an exact field, if the match has it in the form of 1.3.
    pub fn exact(&self, field: Field) -> Option<u128> {
        let Match::Oxm(fields) = self else { return None };
        fields.iter().find(|oxm| oxm.field == field && oxm.is_exact()).map(|oxm| oxm.value)
    }

    /// Reads a match that a controller sent: its fields must have their prerequisites.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Match> {
        let matching = Match::read_any(r)?;
        if let Match::Oxm(fields) = &matching {
            check(fields).map_err(|reason| crate::wire::Fail { reason, object: "match" })?;
        }
        Ok(matching)
    }

    /// Reads a match with its padding.
    pub(crate) fn read_any(r: &mut Reader<'_>) -> Result<Match> {
        if r.is_10() {
            return Ok(Match::V10(Match10::read(r)?));
        }
        let whole = r.of("match", Reason::BadMatchBadLen);
        if whole.peek_u16(0)? != OXM {
            return fail(Reason::BadMatchBadType, "match: type");
        }
        // The length leaves out the padding, unlike those of actions (section 7.2.3.1).
        let length = usize::from(whole.peek_u16(2)?);
        if length < 4 || length.next_multiple_of(8) > whole.remaining() {
            return whole.too_short();
        }
        let mut fields = r.take(length)?.of("match", Reason::BadMatchBadLen);
        fields.skip(4)?;
        r.pad8(length)?;
        Ok(Match::Oxm(fields.all(Oxm::read)?))
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        match self {
            Match::V10(fields) if w.is_10() => fields.write(w),
            Match::Oxm(fields) if !w.is_10() => {
                let start = w.len();
                w.u16(OXM);
                w.zeros(2);
                for oxm in fields {
                    oxm.write(w);
                }
                w.set_length(start, start + 2, "match")?;
                w.pad8(start);
                Ok(())
            }
            _ => w.lacks("match of another version"),
        }
    }
}
