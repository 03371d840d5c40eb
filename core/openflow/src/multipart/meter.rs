//! Meters: counters, configuration, features (sections 7.3.5.12 to 7.3.5.14).

use crate::flow::Duration;
use crate::meter::{Band, MeterFlags};
use crate::wire::{Encoded, Reader, Result, Writer};

/// Counters of a meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterStats {
    /// The meter.
    pub meter: u32,
    /// How many flow entries refer to it.
    pub flows: u32,
    /// Packets that went through it.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// How long it exists.
    pub duration: Duration,
    /// Packets and bytes to which each band applied.
    pub bands: Vec<(u64, u64)>,
}

impl MeterStats {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<MeterStats> {
        let mut r = r.sized(4, 40)?;
        let r = &mut r;
        let meter = r.u32()?;
        r.skip(8)?;
        Ok(MeterStats {
            meter,
            flows: r.u32()?,
            packets: r.u64()?,
            bytes: r.u64()?,
            duration: Duration::read(r)?,
            bands: r.all(|r| Ok((r.u64()?, r.u64()?)))?,
        })
    }

    pub(super) fn write(&self, w: &mut Writer) -> Encoded {
        let start = w.len();
        w.u32(self.meter);
        w.zeros(8);
        w.u32(self.flows);
        w.u64(self.packets);
        w.u64(self.bytes);
        self.duration.write(w);
        for (packets, bytes) in &self.bands {
            w.u64(*packets);
            w.u64(*bytes);
        }
        w.set_length(start, start + 4, "statistics of a meter")
    }
}

/// A meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// Its options.
    pub flags: MeterFlags,
    /// Its number.
    pub meter: u32,
    /// Its bands.
    pub bands: Vec<Band>,
}

impl MeterConfig {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<MeterConfig> {
        let mut r = r.sized(0, 8)?;
        r.skip(2)?;
        let flags = MeterFlags(r.u16()?);
        Ok(MeterConfig { flags, meter: r.u32()?, bands: Band::read_all(&mut r)? })
    }

    pub(super) fn write(&self, w: &mut Writer) -> Encoded {
        let start = w.len();
        w.zeros(2);
        w.u16(self.flags.0);
        w.u32(self.meter);
        self.bands.iter().try_for_each(|band| band.write(w))?;
        w.set_length(start, start, "configuration of a meter")
    }
}

/// What meters can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterFeatures {
    /// How many there can be.
    pub max_meters: u32,
    /// A bit for each type of band, by number.
    pub band_types: u32,
    /// Flags that they can have.
    pub capabilities: u32,
    /// How many bands one can have.
    pub max_bands: u8,
    /// How many colours there are.
    pub max_color: u8,
}

impl MeterFeatures {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<MeterFeatures> {
        let (max_meters, band_types, capabilities) = (r.u32()?, r.u32()?, r.u32()?);
        let (max_bands, max_color) = (r.u8()?, r.u8()?);
        r.skip(2)?;
        Ok(MeterFeatures { max_meters, band_types, capabilities, max_bands, max_color })
    }

    pub(super) fn write(self, w: &mut Writer) {
        w.u32(self.max_meters);
        w.u32(self.band_types);
        w.u32(self.capabilities);
        w.u8(self.max_bands);
        w.u8(self.max_color);
        w.zeros(2);
    }
}
