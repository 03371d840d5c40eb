//! Configurations of points: a program, its sampling, and filters, in the API's form.

use std::fmt;

use anyhow::{Result, anyhow};
use netloom_marking::session::{Body, BodyFilter, Configuration};

/// Low hash bits that must match: one packet in 64 is sampled.
pub(super) const LENGTH: u8 = 6;
/// The value they must have.
pub(super) const MATCH: u32 = 1;
/// Samples per block that the third program keeps.
const NPKTS: u32 = 1024;
/// DSCP values of the blocks, and the bit of double-marked packets.
pub(super) const MARKS: [u8; 2] = [8, 16];
const TWICE: u8 = 32;

/// A program and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) program: u8,
    /// `bob`, `ipsx` or `crc32`; `None` for programs that do not sample.
    pub(super) hash: Option<&'static str>,
}

/// The empty program, the baseline of all others.
pub(super) const DUMMY: Kind = Kind { program: 0, hash: None };
/// Counts packets and their times.
pub(super) const ALL: Kind = Kind { program: 1, hash: None };
/// Counts packets, and times those selected by a fixed hash.
pub(super) const FIXED: Kind = Kind { program: 2, hash: Some("bob") };

impl Kind {
    /// The five programs; sampling ones use BOB.
    pub(super) fn five() -> [Kind; 5] {
        [DUMMY, ALL, FIXED, FIXED.numbered(3), FIXED.numbered(4)]
    }

    /// The same hash with another program.
    pub(super) fn numbered(self, program: u8) -> Kind {
        Kind { program, ..self }
    }

    /// Whether it supports double marking.
    pub(super) fn marks_twice(self) -> bool {
        self.program == 4
    }

    /// Its description in the rows.
    pub(super) fn settings(self) -> &'static str {
        match self.program {
            0 => "does nothing",
            1 => "counts all packets and their times",
            2 => "counts all packets, times one in 64",
            3 => "counts all packets, times 512 to 1,024 of each block",
            _ => "counts all packets, times one in 64 and one marked twice of each block",
        }
    }

    /// Its request body, with blocks of `period` seconds.
    pub(super) fn body(self, period: f64, filters: Vec<BodyFilter>) -> Body {
        let sampled = self.hash.is_some();
        let length = if self.program == 3 { 0 } else { LENGTH };
        Body {
            prog_id: self.program,
            mp: period,
            mpc: 3600.0,
            starter_mark: MARKS[0],
            next_mark: MARKS[1],
            filters,
            match_value: sampled.then_some(MATCH),
            hash_length: sampled.then_some(length),
            hash_function: self.hash.map(str::to_owned),
            npkts: (self.program == 3).then_some(NPKTS),
            delay_mark: self.marks_twice().then_some(TWICE),
            ..Body::default()
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program {}", self.program)?;
        self.hash.map_or(Ok(()), |hash| write!(f, ", {hash}"))
    }
}

/// A body as a point parses it.
pub(super) fn configuration(body: &Body) -> Result<Configuration> {
    Configuration::read(&serde_json::to_vec(body)?).map_err(|problems| anyhow!("{problems:?}"))
}

/// A filter for datagrams to a port.
pub(super) fn to_port(port: u16) -> BodyFilter {
    let proto = Some("udp".to_owned());
    BodyFilter { id: port.into(), proto, dst_port: Some(port), ..BodyFilter::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_asked_for_rightly() {
        for kind in Kind::five() {
            let read = configuration(&kind.body(0.2, vec![to_port(7)])).unwrap();
            assert_eq!(read.sampling.is_some(), kind.hash.is_some(), "{kind}");
            assert_eq!(read.period, 200_000_000);
        }
        for hash in ["ipsx", "crc32"] {
            let kind = Kind { program: 2, hash: Some(hash) };
            assert!(configuration(&kind.body(1.0, vec![to_port(7)])).is_ok(), "{hash}");
            assert_eq!(kind.to_string(), format!("program 2, {hash}"));
        }
    }
}
