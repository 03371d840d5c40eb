//! Flow entries and sums over them (sections 7.3.5.2 and 7.3.5.3).

use crate::action::GROUP_ANY;
use crate::flow::{Duration, FlowFlags, TABLE_ALL};
use crate::header::{HEADER_LEN, Header, Version};
use crate::instruction::{self, Instruction};
use crate::matching::Match;
use crate::multipart::{FLOW, MORE};
use crate::port::PortNumber;
use crate::wire::{Encoded, Reader, Result, Writer};

/// Which flow entries are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRequest {
    /// The table, or all.
    pub table: u8,
    /// Only entries with an output to this port, or ANY.
    pub out_port: PortNumber,
    /// Only entries with this group, or ANY; ANY in 1.0.
    pub out_group: u32,
    /// The cookie to compare with; 0 in 1.0.
    pub cookie: u64,
    /// Its bits that count; 0 in 1.0.
    pub cookie_mask: u64,
    /// The entries' match is this or narrower.
    pub matching: Match,
}

impl FlowRequest {
    /// All entries that match, in all tables.
    pub fn new(matching: Match) -> FlowRequest {
        let (table, out_port, out_group) = (TABLE_ALL, PortNumber::ANY, GROUP_ANY);
        FlowRequest { table, out_port, out_group, cookie: 0, cookie_mask: 0, matching }
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<FlowRequest> {
        if r.is_10() {
            let matching = Match::read(r)?;
            let table = r.u8()?;
            r.skip(1)?;
            let out_port = PortNumber::read(r)?;
            return Ok(FlowRequest { table, out_port, ..FlowRequest::new(matching) });
        }
        let table = r.u8()?;
        r.skip(3)?;
        let (out_port, out_group) = (PortNumber::read(r)?, r.u32()?);
        r.skip(4)?;
        let (cookie, cookie_mask) = (r.u64()?, r.u64()?);
        let matching = Match::read(r)?;
        Ok(FlowRequest { table, out_port, out_group, cookie, cookie_mask, matching })
    }

    pub(super) fn write(&self, w: &mut Writer) -> Encoded {
        if w.is_10() {
            self.matching.write(w)?;
            w.u8(self.table);
            w.zeros(1);
            return self.out_port.write(w);
        }
        w.u8(self.table);
        w.zeros(3);
        self.out_port.write(w)?;
        w.u32(self.out_group);
        w.zeros(4);
        w.u64(self.cookie);
        w.u64(self.cookie_mask);
        self.matching.write(w)
    }
}

/// A flow entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// Its table.
    pub table: u8,
    /// How long it exists.
    pub duration: Duration,
    /// Its priority.
    pub priority: u16,
    /// Its idle timeout in seconds.
    pub idle_timeout: u16,
    /// Its hard timeout in seconds.
    pub hard_timeout: u16,
    /// Its flags; none in 1.0.
    pub flags: FlowFlags,
    /// Its cookie.
    pub cookie: u64,
    /// Packets that it matched.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Its match.
    pub matching: Match,
    /// What it does.
    pub instructions: Vec<Instruction>,
}

impl FlowStats {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<FlowStats> {
        let mut r = r.sized(0, 4)?;
        let r = &mut r;
        r.skip(2)?;
        let table = r.u8()?;
        r.skip(1)?;
        // 1.0 has the match before the times, 1.3 behind the counters.
        let early = if r.is_10() { Some(Match::read_any(r)?) } else { None };
        let duration = Duration::read(r)?;
        let (priority, idle_timeout, hard_timeout) = (r.u16()?, r.u16()?, r.u16()?);
        // 1.3 has them in two of the six bytes that pad in 1.0.
        let flags = FlowFlags(if r.is_10() { 0 } else { r.u16()? });
        r.skip(if r.is_10() { 6 } else { 4 })?;
        let (cookie, packets, bytes) = (r.u64()?, r.u64()?, r.u64()?);
        let matching = match early {
            Some(matching) => matching,
            None => Match::read_any(r)?,
        };
        let instructions = instruction::read_all(r)?;
        Ok(FlowStats {
            table,
            duration,
            priority,
            idle_timeout,
            hard_timeout,
            flags,
            cookie,
            packets,
            bytes,
            matching,
            instructions,
        })
    }

    pub(super) fn write(&self, w: &mut Writer) -> Encoded {
        let start = w.len();
        w.zeros(2);
        w.u8(self.table);
        w.zeros(1);
        let v10 = w.is_10();
        if v10 {
            self.matching.write(w)?;
        }
        self.duration.write(w);
        w.u16(self.priority);
        w.u16(self.idle_timeout);
        w.u16(self.hard_timeout);
        if !v10 {
            w.u16(self.flags.0);
        }
        w.zeros(if v10 { 6 } else { 4 });
        w.u64(self.cookie);
        w.u64(self.packets);
        w.u64(self.bytes);
        if !v10 {
            self.matching.write(w)?;
        }
        instruction::write_all(&self.instructions, w)?;
        w.set_length(start, start, "statistics of a flow entry")
    }
}

/// What a flow entry has counted, without its match and instructions, which take most of the time to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowCounts {
    /// Its cookie.
    pub cookie: u64,
    /// Packets that it matched.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// How long it exists.
    pub duration: Duration,
}

impl From<&FlowStats> for FlowCounts {
    fn from(entry: &FlowStats) -> FlowCounts {
        let FlowStats { cookie, packets, bytes, duration, .. } = *entry;
        FlowCounts { cookie, packets, bytes, duration }
    }
}

impl FlowCounts {
    /// The counts of the flow entries in a message, with its transaction id, and whether more parts follow; `None` if it is
    /// another message, or one that ends within an entry.
    pub fn of_message(bytes: &[u8]) -> Option<(u32, bool, Vec<FlowCounts>)> {
        let header = Header::parse(bytes)?;
        // Number of the message, bytes before its first entry, and where in an entry (`ofp_flow_stats`) these are.
        let (kind, head, duration, cookie) = match header.version()? {
            Version::V10 => (17, 4, 44, 64),
            Version::V13 => (19, 8, 4, 24),
        };
        let body = bytes.get(HEADER_LEN..usize::from(header.length))?;
        let [t0, t1, f0, f1] = *body.first_chunk()?;
        if header.kind != kind || u16::from_be_bytes([t0, t1]) != FLOW {
            return None;
        }
        let (mut rest, mut all) = (body.get(head..)?, vec![]);
        while let Some(length) = rest.first_chunk() {
            let (entry, behind) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
            let short = |at| Some(u32::from_be_bytes(*entry.get(at..)?.first_chunk()?));
            let long = |at| Some(u64::from_be_bytes(*entry.get(at..)?.first_chunk()?));
            all.push(FlowCounts {
                cookie: long(cookie)?,
                packets: long(cookie + 8)?,
                bytes: long(cookie + 16)?,
                duration: Duration { seconds: short(duration)?, nanoseconds: short(duration + 4)? },
            });
            rest = behind;
        }
        let more = u16::from_be_bytes([f0, f1]) & MORE != 0;
        rest.is_empty().then_some((header.xid, more, all))
    }
}

/// Sums over flow entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Entries.
    pub flows: u32,
}

impl Aggregate {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Aggregate> {
        let sums = Aggregate { packets: r.u64()?, bytes: r.u64()?, flows: r.u32()? };
        r.skip(4)?;
        Ok(sums)
    }

    pub(super) fn write(self, w: &mut Writer) {
        w.u64(self.packets);
        w.u64(self.bytes);
        w.u32(self.flows);
        w.zeros(4);
    }
}
