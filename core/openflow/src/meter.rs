//! Meters (sections 5.7 and 7.3.4.4); 1.0 has none.

use crate::error::Reason;
use crate::wire::{Encoded, Reader, Result, Writer, fail};

/// No meter has a greater number (OFPM_MAX).
pub const METER_MAX: u32 = 0xffff_0000;
/// The meter of the slow path (OFPM_SLOWPATH).
pub const METER_SLOWPATH: u32 = 0xffff_fffd;
/// The meter of the connection to controllers (OFPM_CONTROLLER).
pub const METER_CONTROLLER: u32 = 0xffff_fffe;
/// All meters (OFPM_ALL).
pub const METER_ALL: u32 = 0xffff_ffff;

numbers! {
    /// OFPMC_*.
    MeterCommand: u16 {
        /// Add a meter.
        Add = 0,
        /// Change one.
        Modify = 1,
        /// Delete one, or all.
        Delete = 2,
    }
}

flags! {
    /// OFPMF_*.
    MeterFlags: u16 {
        /// Rates are in kb/s.
        KBPS = 1,
        /// Rates are in packets a second.
        PKTPS = 1 << 1,
        /// Bursts are given.
        BURST = 1 << 2,
        /// Statistics are collected.
        STATS = 1 << 3,
    }
}

/// A band of a meter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Band {
    /// The rate above which it applies, in the meter's unit.
    pub rate: u32,
    /// How much may exceed the rate at once, in kilobits or packets.
    pub burst: u32,
    /// The effect on packets.
    pub kind: BandKind,
}

/// OFPMBT_*: what a band does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BandKind {
    /// Drop.
    Drop,
    /// Raise the drop precedence in the DSCP by this much.
    DscpRemark(u8),
    /// An experimenter's.
    Experimenter {
        /// Its number.
        experimenter: u32,
        /// The rest.
        data: Vec<u8>,
    },
}

impl Band {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Band> {
        let mut r = r.sized(2, 12)?;
        let kind = r.u16()?;
        r.skip(2)?;
        let (rate, burst) = (r.u32()?, r.u32()?);
        let kind = match kind {
            1 => {
                r.skip(4)?;
                BandKind::Drop
            }
            2 => {
                let level = r.u8()?;
                r.skip(3)?;
                BandKind::DscpRemark(level)
            }
            0xffff => BandKind::Experimenter { experimenter: r.u32()?, data: r.rest() },
            _ => return fail(Reason::MeterModFailedBadBand, "meter band: unknown type"),
        };
        r.finish()?;
        Ok(Band { rate, burst, kind })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        let start = w.len();
        w.u16(match self.kind {
            BandKind::Drop => 1,
            BandKind::DscpRemark(_) => 2,
            BandKind::Experimenter { .. } => 0xffff,
        });
        w.zeros(2);
        w.u32(self.rate);
        w.u32(self.burst);
        match &self.kind {
            BandKind::Drop => w.zeros(4),
            BandKind::DscpRemark(level) => {
                w.u8(*level);
                w.zeros(3);
            }
            BandKind::Experimenter { experimenter, data } => {
                w.u32(*experimenter);
                w.bytes(data);
            }
        }
        w.set_length(start, start + 2, "meter band")
    }

    pub(crate) fn read_all(r: &mut Reader<'_>) -> Result<Vec<Band>> {
        r.all(Band::read)
    }
}

/// OFPT_METER_MOD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterMod {
    /// What to do.
    pub command: MeterCommand,
    /// Options.
    pub flags: MeterFlags,
    /// The meter.
    pub meter: u32,
    /// Its bands.
    pub bands: Vec<Band>,
}

impl MeterMod {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<MeterMod> {
        let command = MeterCommand::from(r.u16()?);
        if let MeterCommand::Other(_) = command {
            return fail(Reason::MeterModFailedBadCommand, "meter mod: unknown command");
        }
        let flags = MeterFlags(r.u16()?);
        if flags.0 & !0xf != 0 {
            return fail(Reason::MeterModFailedBadFlags, "meter mod: unknown flags");
        }
        Ok(MeterMod { command, flags, meter: r.u32()?, bands: Band::read_all(r)? })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        w.u16(self.command.into());
        w.u16(self.flags.0);
        w.u32(self.meter);
        self.bands.iter().try_for_each(|band| band.write(w))
    }
}
