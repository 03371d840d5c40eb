//! The switch in words, and counters of tables (sections 7.3.5.1 and 7.3.5.4).

use crate::port::Name;
use crate::wire::{Encoded, Reader, Result, Writer};

/// The switch in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desc {
    /// Its maker.
    pub manufacturer: Name<256>,
    /// Its hardware.
    pub hardware: Name<256>,
    /// Its software.
    pub software: Name<256>,
    /// Its serial number.
    pub serial: Name<32>,
    /// What people call it.
    pub datapath: Name<256>,
}

impl Desc {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Desc> {
        Ok(Desc {
            manufacturer: Name(r.array()?),
            hardware: Name(r.array()?),
            software: Name(r.array()?),
            serial: Name(r.array()?),
            datapath: Name(r.array()?),
        })
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.bytes(&self.manufacturer.0);
        w.bytes(&self.hardware.0);
        w.bytes(&self.software.0);
        w.bytes(&self.serial.0);
        w.bytes(&self.datapath.0);
    }
}

/// Counters of a table. Name, wildcards and maximum are only in 1.0, and zero in 1.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// The table.
    pub table: u8,
    /// Its name.
    pub name: Name<32>,
    /// The wildcards that it supports.
    pub wildcards: u32,
    /// How many entries it can have.
    pub max_entries: u32,
    /// How many it has.
    pub active: u32,
    /// Packets looked up.
    pub lookups: u64,
    /// Packets that matched.
    pub matched: u64,
}

impl TableStats {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<TableStats> {
        let v10 = r.is_10();
        let table = r.u8()?;
        r.skip(3)?;
        let name = if v10 { Name(r.array()?) } else { Name::default() };
        Ok(TableStats {
            table,
            name,
            wildcards: if v10 { r.u32()? } else { 0 },
            max_entries: if v10 { r.u32()? } else { 0 },
            active: r.u32()?,
            lookups: r.u64()?,
            matched: r.u64()?,
        })
    }

    /// As the others of lists, which can fail.
    pub(super) fn write_one(&self, w: &mut Writer) -> Encoded {
        self.write(w);
        Ok(())
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.u8(self.table);
        w.zeros(3);
        if w.is_10() {
            w.bytes(&self.name.0);
            w.u32(self.wildcards);
            w.u32(self.max_entries);
        }
        w.u32(self.active);
        w.u64(self.lookups);
        w.u64(self.matched);
    }
}
