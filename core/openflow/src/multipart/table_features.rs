//! What tables can do, asked for or set (section 7.3.5.5).

use crate::action::ActionId;
use crate::error::Reason;
use crate::matching::FieldId;
use crate::port::Name;
use crate::wire::{Encoded, Fail, Reader, Result, Writer, fail};

/// A property of a table. In lists of pairs the flag is whether it holds for the table-miss entry alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableProperty {
    /// Instructions, by number; experimenters with theirs.
    Instructions {
        /// For the table-miss entry.
        miss: bool,
        /// Numbers of types, with the number of the experimenter.
        ids: Vec<(u16, Option<u32>)>,
    },
    /// Tables to go to.
    NextTables {
        /// For the table-miss entry.
        miss: bool,
        /// The tables.
        tables: Vec<u8>,
    },
    /// Actions for the action set.
    WriteActions {
        /// For the table-miss entry.
        miss: bool,
        /// The actions.
        ids: Vec<ActionId>,
    },
    /// Actions to apply.
    ApplyActions {
        /// For the table-miss entry.
        miss: bool,
        /// The actions.
        ids: Vec<ActionId>,
    },
    /// Fields that can be matched.
    Match(Vec<FieldId>),
    /// Fields that need not be matched.
    Wildcards(Vec<FieldId>),
    /// Fields that the action set can set.
    WriteSetField {
        /// For the table-miss entry.
        miss: bool,
        /// The fields.
        ids: Vec<FieldId>,
    },
    /// Fields that applied actions can set.
    ApplySetField {
        /// For the table-miss entry.
        miss: bool,
        /// The fields.
        ids: Vec<FieldId>,
    },
    /// An experimenter's.
    Experimenter {
        /// For the table-miss entry.
        miss: bool,
        /// Its number.
        experimenter: u32,
        /// The rest.
        data: Vec<u8>,
    },
}

impl TableProperty {
    const fn number(&self) -> u16 {
        match self {
            TableProperty::Instructions { miss, .. } => *miss as u16,
            TableProperty::NextTables { miss, .. } => 2 + *miss as u16,
            TableProperty::WriteActions { miss, .. } => 4 + *miss as u16,
            TableProperty::ApplyActions { miss, .. } => 6 + *miss as u16,
            TableProperty::Match(_) => 8,
            TableProperty::Wildcards(_) => 10,
            TableProperty::WriteSetField { miss, .. } => 12 + *miss as u16,
            TableProperty::ApplySetField { miss, .. } => 14 + *miss as u16,
            TableProperty::Experimenter { miss, .. } => 0xfffe + *miss as u16,
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<TableProperty> {
        let mut body = r.sized(2, 4)?;
        // A property's length leaves out its padding (section 7.3.5.5).
        r.pad8(body.remaining())?;
        let kind = body.u16()?;
        body.skip(2)?;
        let miss = kind & 1 == 1;
        let fields = |body: &mut Reader<'_>| body.all(FieldId::read);
        let actions = |body: &mut Reader<'_>| body.all(ActionId::read).map_err(in_table);
        Ok(match kind {
            0 | 1 => TableProperty::Instructions { miss, ids: body.all(instruction)? },
            2 | 3 => TableProperty::NextTables { miss, tables: body.rest() },
            4 | 5 => TableProperty::WriteActions { miss, ids: actions(&mut body)? },
            6 | 7 => TableProperty::ApplyActions { miss, ids: actions(&mut body)? },
            8 => TableProperty::Match(fields(&mut body)?),
            10 => TableProperty::Wildcards(fields(&mut body)?),
            12 | 13 => TableProperty::WriteSetField { miss, ids: fields(&mut body)? },
            14 | 15 => TableProperty::ApplySetField { miss, ids: fields(&mut body)? },
            0xfffe | 0xffff => {
                TableProperty::Experimenter { miss, experimenter: body.u32()?, data: body.rest() }
            }
            _ => return fail(Reason::TableFeaturesFailedBadType, "table property: unknown type"),
        })
    }

    fn write(&self, w: &mut Writer) -> Encoded {
        let start = w.len();
        w.u16(self.number());
        w.zeros(2);
        match self {
            TableProperty::Instructions { ids, .. } => {
                for (kind, experimenter) in ids {
                    w.u16(*kind);
                    w.u16(if experimenter.is_some() { 8 } else { 4 });
                    if let Some(number) = experimenter {
                        w.u32(*number);
                    }
                }
            }
            TableProperty::NextTables { tables, .. } => w.bytes(tables),
            TableProperty::WriteActions { ids, .. } | TableProperty::ApplyActions { ids, .. } => {
                ids.iter().try_for_each(|id| id.write(w))?;
            }
            TableProperty::Match(ids)
            | TableProperty::Wildcards(ids)
            | TableProperty::WriteSetField { ids, .. }
            | TableProperty::ApplySetField { ids, .. } => ids.iter().for_each(|id| id.write(w)),
            TableProperty::Experimenter { experimenter, data, .. } => {
                w.u32(*experimenter);
                w.bytes(data);
            }
        }
        w.set_length(start, start + 2, "table property")?;
        w.pad8(start);
        Ok(())
    }
}

fn in_table(refused: Fail) -> Fail {
    let reason = match refused.reason {
        Reason::BadActionBadType => Reason::TableFeaturesFailedBadArgument,
        other => other,
    };
    Fail { reason, ..refused }
}

fn instruction(r: &mut Reader<'_>) -> Result<(u16, Option<u32>)> {
    let mut id = r.sized(2, 4)?;
    let kind = id.u16()?;
    id.skip(2)?;
    let experimenter = if kind == 0xffff { Some(id.u32()?) } else { None };
    id.finish()?;
    Ok((kind, experimenter))
}

/// What a table can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFeatures {
    /// The table.
    pub table: u8,
    /// Its name.
    pub name: Name<32>,
    /// Bits of the metadata that can be matched.
    pub metadata_match: u64,
    /// Bits of the metadata that can be written.
    pub metadata_write: u64,
    /// Bits of the table's configuration.
    pub config: u32,
    /// How many entries it can have.
    pub max_entries: u32,
    /// Its properties.
    pub properties: Vec<TableProperty>,
}

impl TableFeatures {
    fn read(r: &mut Reader<'_>) -> Result<TableFeatures> {
        let mut r = r.sized(0, 64)?;
        let r = &mut r;
        r.skip(2)?;
        let table = r.u8()?;
        r.skip(5)?;
        Ok(TableFeatures {
            table,
            name: Name(r.array()?),
            metadata_match: r.u64()?,
            metadata_write: r.u64()?,
            config: r.u32()?,
            max_entries: r.u32()?,
            properties: r.all(TableProperty::read)?,
        })
    }

    pub(super) fn write(&self, w: &mut Writer) -> Encoded {
        let start = w.len();
        w.zeros(2);
        w.u8(self.table);
        w.zeros(5);
        w.bytes(&self.name.0);
        w.u64(self.metadata_match);
        w.u64(self.metadata_write);
        w.u32(self.config);
        w.u32(self.max_entries);
        self.properties.iter().try_for_each(|property| property.write(w))?;
        w.set_length(start, start, "table features")
    }
}

/// Reads tables until nothing is left.
pub(super) fn read_all(r: &mut Reader<'_>) -> Result<Vec<TableFeatures>> {
    let mut tables = r.of("table features", Reason::TableFeaturesFailedBadLen);
    let all = tables.all(TableFeatures::read)?;
    // `of` copied the reader.
    r.rest();
    Ok(all)
}
