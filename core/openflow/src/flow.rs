//! Changes of flow tables, and news of removed entries (sections 7.3.4.1 and 7.4.2; 1.0.0 sections 5.3.3 and 5.4.3).

use crate::action::GROUP_ANY;
use crate::error::Reason;
use crate::instruction::{self, Instruction};
use crate::matching::Match;
use crate::port::PortNumber;
use crate::wire::{Encoded, Reader, Result, Writer, fail};

/// The buffer id that stands for none (OFP_NO_BUFFER).
pub const NO_BUFFER: u32 = 0xffff_ffff;
/// The table that stands for all (OFPTT_ALL).
pub const TABLE_ALL: u8 = 0xff;
/// The last table that can be used (OFPTT_MAX).
pub const TABLE_MAX: u8 = 0xfe;

numbers! {
    /// OFPFC_*: what to do with flow entries.
    FlowCommand: u16 {
        /// Add an entry, or replace an equal one.
        Add = 0,
        /// Change all entries that match.
        Modify = 1,
        /// Change the entry with this match and priority.
        ModifyStrict = 2,
        /// Delete all entries that match.
        Delete = 3,
        /// Delete the entry with this match and priority.
        DeleteStrict = 4,
    }
}

flags! {
    /// OFPFF_*.
    FlowFlags: u16 {
        /// Tell when the entry is removed.
        SEND_FLOW_REM = 1,
        /// Refuse an entry that overlaps another of its priority.
        CHECK_OVERLAP = 1 << 1,
        /// For emergencies (1.0).
        EMERGENCY = 1 << 2,
        /// Start counting again (1.3).
        RESET_COUNTS = 1 << 2,
        /// Count no packets (1.3).
        NO_PACKET_COUNTS = 1 << 3,
        /// Count no bytes (1.3).
        NO_BYTE_COUNTS = 1 << 4,
    }
}

impl FlowFlags {
    /// All that 1.3 has.
    const ALL_13: u16 = 0x1f;
}

/// OFPT_FLOW_MOD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// A number that the controller chose.
    pub cookie: u64,
    /// Bits of the cookie that select entries to change or delete; 0 in 1.0, which cannot select by them.
    pub cookie_mask: u64,
    /// The table; 0 in 1.0.
    pub table: u8,
    /// What to do.
    pub command: FlowCommand,
    /// Seconds without a packet after which it is removed; 0: never.
    pub idle_timeout: u16,
    /// Seconds after which it is removed; 0: never.
    pub hard_timeout: u16,
    /// Greater ones are matched first.
    pub priority: u16,
    /// The buffered packet to apply it to, or [`NO_BUFFER`].
    pub buffer: u32,
    /// Delete only entries with an output to this port.
    pub out_port: PortNumber,
    /// Delete only entries with this group; ANY in 1.0.
    pub out_group: u32,
    /// Options.
    pub flags: FlowFlags,
    /// What packets must be like.
    pub matching: Match,
    /// Their treatment; in 1.0 nothing, or only actions to apply.
    pub instructions: Vec<Instruction>,
}

impl FlowMod {
    /// A modification without timeouts, buffer, filters and flags.
    pub fn new(command: FlowCommand, matching: Match) -> FlowMod {
        FlowMod {
            cookie: 0,
            cookie_mask: 0,
            table: 0,
            command,
            idle_timeout: 0,
            hard_timeout: 0,
            // OFP_DEFAULT_PRIORITY.
            priority: 0x8000,
            buffer: NO_BUFFER,
            out_port: PortNumber::ANY,
            out_group: GROUP_ANY,
            flags: FlowFlags::default(),
            matching,
            instructions: vec![],
        }
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<FlowMod> {
        if r.is_10() { FlowMod::read_10(r) } else { FlowMod::read_13(r) }
    }

    fn read_10(r: &mut Reader<'_>) -> Result<FlowMod> {
        let matching = Match::read(r)?;
        let cookie = r.u64()?;
        let command = FlowCommand::from(r.u16()?);
        known(command)?;
        Ok(FlowMod {
            cookie,
            idle_timeout: r.u16()?,
            hard_timeout: r.u16()?,
            priority: r.u16()?,
            buffer: r.u32()?,
            out_port: PortNumber::read(r)?,
            flags: FlowFlags(r.u16()?),
            instructions: instruction::read_all(r)?,
            ..FlowMod::new(command, matching)
        })
    }

    fn read_13(r: &mut Reader<'_>) -> Result<FlowMod> {
        let (cookie, cookie_mask, table) = (r.u64()?, r.u64()?, r.u8()?);
        let command = FlowCommand::from(u16::from(r.u8()?));
        known(command)?;
        let (idle_timeout, hard_timeout, priority) = (r.u16()?, r.u16()?, r.u16()?);
        let (buffer, out_port, out_group) = (r.u32()?, PortNumber::read(r)?, r.u32()?);
        let flags = FlowFlags(r.u16()?);
        // 1.3 has an error for unknown flags, which 1.0 lacks.
        if flags.0 & !FlowFlags::ALL_13 != 0 {
            return fail(Reason::FlowModFailedBadFlags, "flow mod: unknown flags");
        }
        r.skip(2)?;
        Ok(FlowMod {
            cookie,
            cookie_mask,
            table,
            command,
            idle_timeout,
            hard_timeout,
            priority,
            buffer,
            out_port,
            out_group,
            flags,
            matching: Match::read(r)?,
            instructions: instruction::read_all(r)?,
        })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        let command = u16::from(self.command);
        if w.is_10() {
            self.matching.write(w)?;
            w.u64(self.cookie);
            w.u16(command);
        } else {
            w.u64(self.cookie);
            w.u64(self.cookie_mask);
            w.u8(self.table);
            // Commands are below 256; others come only from 1.0.
            let Ok(command) = u8::try_from(command) else { return w.lacks("flow mod command") };
            w.u8(command);
        }
        w.u16(self.idle_timeout);
        w.u16(self.hard_timeout);
        w.u16(self.priority);
        w.u32(self.buffer);
        self.out_port.write(w)?;
        if w.is_10() {
            w.u16(self.flags.0);
        } else {
            w.u32(self.out_group);
            w.u16(self.flags.0);
            w.zeros(2);
            self.matching.write(w)?;
        }
        instruction::write_all(&self.instructions, w)
    }
}

fn known(command: FlowCommand) -> Result<()> {
    match command {
        FlowCommand::Other(_) => fail(Reason::FlowModFailedBadCommand, "flow mod: unknown command"),
        _ => Ok(()),
    }
}

numbers! {
    /// OFPRR_*: why an entry was removed.
    RemovedReason: u8 {
        /// No packet for its idle timeout.
        IdleTimeout = 0,
        /// Its hard timeout passed.
        HardTimeout = 1,
        /// It was deleted.
        Delete = 2,
        /// Its group was deleted (1.3).
        GroupDelete = 3,
    }
}

/// OFPT_FLOW_REMOVED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// The entry's cookie.
    pub cookie: u64,
    /// Its priority.
    pub priority: u16,
    /// Why it was removed.
    pub reason: RemovedReason,
    /// Its table; 0 in 1.0.
    pub table: u8,
    /// How long it existed.
    pub duration: Duration,
    /// Its idle timeout.
    pub idle_timeout: u16,
    /// Its hard timeout; 0 in 1.0.
    pub hard_timeout: u16,
    /// Packets that it matched.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Its match.
    pub matching: Match,
}

/// A time span on the wire: seconds, and nanoseconds beyond them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Duration {
    /// Whole seconds.
    pub seconds: u32,
    /// Nanoseconds beyond them.
    pub nanoseconds: u32,
}

impl Duration {
    /// From nanoseconds; seconds stop at their maximum.
    pub fn from_nanoseconds(all: u64) -> Duration {
        let seconds = u32::try_from(all / 1_000_000_000).unwrap_or(u32::MAX);
        // Below 10^9.
        Duration { seconds, nanoseconds: u32::try_from(all % 1_000_000_000).unwrap_or(0) }
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Duration> {
        Ok(Duration { seconds: r.u32()?, nanoseconds: r.u32()? })
    }

    pub(crate) fn write(self, w: &mut Writer) {
        w.u32(self.seconds);
        w.u32(self.nanoseconds);
    }
}

impl FlowRemoved {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<FlowRemoved> {
        if r.is_10() { FlowRemoved::read_10(r) } else { FlowRemoved::read_13(r) }
    }

    fn read_10(r: &mut Reader<'_>) -> Result<FlowRemoved> {
        // Any match: prerequisites were checked when the entry was added.
        let matching = Match::read_any(r)?;
        let (cookie, priority, reason) = (r.u64()?, r.u16()?, r.u8()?.into());
        r.skip(1)?;
        let (duration, idle_timeout) = (Duration::read(r)?, r.u16()?);
        r.skip(2)?;
        Ok(FlowRemoved {
            cookie,
            priority,
            reason,
            table: 0,
            duration,
            idle_timeout,
            hard_timeout: 0,
            packets: r.u64()?,
            bytes: r.u64()?,
            matching,
        })
    }

    fn read_13(r: &mut Reader<'_>) -> Result<FlowRemoved> {
        Ok(FlowRemoved {
            cookie: r.u64()?,
            priority: r.u16()?,
            reason: r.u8()?.into(),
            table: r.u8()?,
            duration: Duration::read(r)?,
            idle_timeout: r.u16()?,
            hard_timeout: r.u16()?,
            packets: r.u64()?,
            bytes: r.u64()?,
            matching: Match::read_any(r)?,
        })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        if w.is_10() {
            self.matching.write(w)?;
        }
        w.u64(self.cookie);
        w.u16(self.priority);
        w.u8(self.reason.into());
        w.u8(if w.is_10() { 0 } else { self.table });
        self.duration.write(w);
        w.u16(self.idle_timeout);
        w.u16(if w.is_10() { 0 } else { self.hard_timeout });
        w.u64(self.packets);
        w.u64(self.bytes);
        if w.is_10() { Ok(()) } else { self.matching.write(w) }
    }
}
