//! What the switch and its tables can do (sections 7.3.1 and 7.3.5.5).
//!
//! Every table can do everything. A controller may say which tables it wants, under which names and with how
//! many entries; a requested feature must be within those that exist, and is then reported.

use netloom_openflow::action::ActionId;
use netloom_openflow::flow::TABLE_ALL;
use netloom_openflow::matching::FieldId;
use netloom_openflow::multipart::{TableFeatures, TableProperty};
use netloom_openflow::port::Name;
use netloom_openflow::switch::{Capabilities, Features, TableMod};
use netloom_openflow::{Field, Reason, Version};

use super::ports::described;
use super::{ConnectionId, Switch};

/// A table's name.
pub(super) fn name(table: u8) -> String {
    format!("table{table}")
}

/// Actions of 1.3, with their numbers.
pub(super) fn actions_13() -> [(u16, ActionId); 16] {
    ActionId::ALL_13
}

impl Switch {
    /// The features, as a connection is told.
    pub(super) fn describe(&self, id: ConnectionId, version: Version) -> Features {
        let auxiliary = self.connections.get(&id).and_then(|connection| connection.auxiliary);
        let v10 = version == Version::V10;
        let ports = self.ports.values().filter(|port| v10 && port.desc.number.to_10().is_some());
        let both = Capabilities::FLOW_STATS
            | Capabilities::TABLE_STATS
            | Capabilities::PORT_STATS
            | Capabilities::QUEUE_STATS;
        let own = if v10 { Capabilities::ARP_MATCH_IP } else { Capabilities::GROUP_STATS };
        Features {
            datapath_id: self.options.datapath_id,
            buffers: self.options.buffers,
            tables: self.options.tables,
            auxiliary: auxiliary.map_or(0, |(_, number)| number),
            capabilities: both | own,
            // Bits of OFPAT_* 0 to 11, all of 1.0; in 1.3 the field is reserved.
            actions: if v10 { 0xfff } else { 0 },
            ports: ports.map(|port| described(&port.desc, version)).collect(),
        }
    }

    pub(super) fn check_table_mod(&self, change: TableMod) -> Result<(), Reason> {
        if change.table != TABLE_ALL && change.table >= self.options.tables {
            return Err(Reason::TableModFailedBadTable);
        }
        // 1.3 has no settings left; the bits of earlier versions are ignored if they are known.
        if change.config & !3 != 0 { Err(Reason::TableModFailedBadConfig) } else { Ok(()) }
    }

    /// How many entries a table can have.
    pub(super) fn max_entries(&self, table: u8) -> u32 {
        let set = self.features.iter().flatten().find(|features| features.table == table);
        set.map_or(self.options.max_entries, |features| features.max_entries)
    }

    /// Features of all tables.
    pub fn table_features(&self) -> Vec<TableFeatures> {
        match &self.features {
            Some(set) => set.clone(),
            None => (0..self.options.tables).map(|table| self.all_features(table)).collect(),
        }
    }

    fn all_features(&self, table: u8) -> TableFeatures {
        let mut properties = vec![];
        let settable = |field: &&Field| {
            !matches!(field, Field::InPort | Field::InPhyPort | Field::Metadata | Field::Ipv6Exthdr)
        };
        let set: Vec<_> =
            Field::ALL.iter().filter(settable).map(|field| FieldId::new(*field, false)).collect();
        let actions: Vec<_> = actions_13().iter().map(|(_, id)| *id).collect();
        for miss in [false, true] {
            properties.extend([
                TableProperty::Instructions { miss, ids: (1..=6).map(|id| (id, None)).collect() },
                TableProperty::NextTables {
                    miss,
                    tables: (table + 1..self.options.tables).collect(),
                },
                TableProperty::WriteActions { miss, ids: actions.clone() },
                TableProperty::ApplyActions { miss, ids: actions.clone() },
                TableProperty::WriteSetField { miss, ids: set.clone() },
                TableProperty::ApplySetField { miss, ids: set.clone() },
            ]);
        }
        let fields = |masked: bool| {
            let id = |field: &Field| FieldId::new(*field, masked && field.maskable());
            Field::ALL.iter().map(id).collect()
        };
        properties.push(TableProperty::Match(fields(true)));
        properties.push(TableProperty::Wildcards(fields(false)));
        TableFeatures {
            table,
            name: Name::new(&name(table)),
            metadata_match: u64::MAX,
            metadata_write: u64::MAX,
            config: 0,
            max_entries: self.options.max_entries,
            properties,
        }
    }

    /// A controller says which tables it wants, and how.
    pub(super) fn set_features(&mut self, tables: Vec<TableFeatures>) -> Result<(), Reason> {
        let mut seen = std::collections::BTreeSet::new();
        for table in &tables {
            if table.table >= self.options.tables || !seen.insert(table.table) {
                return Err(Reason::TableFeaturesFailedBadTable);
            }
            if table.max_entries > self.options.max_entries {
                return Err(Reason::TableFeaturesFailedBadArgument);
            }
            for property in &table.properties {
                check_property(property, table.table, self.options.tables)?;
            }
        }
        self.features = Some(tables);
        self.note(super::Change::Settings);
        Ok(())
    }
}

fn check_property(property: &TableProperty, table: u8, tables: u8) -> Result<(), Reason> {
    let known = |ids: &[FieldId]| ids.iter().all(|id| id.field().is_some());
    let good = match property {
        TableProperty::NextTables { tables: next, .. } => {
            next.iter().all(|next| *next > table && *next < tables)
        }
        TableProperty::Match(ids)
        | TableProperty::Wildcards(ids)
        | TableProperty::WriteSetField { ids, .. }
        | TableProperty::ApplySetField { ids, .. } => known(ids),
        TableProperty::Instructions { ids, .. } => ids.iter().all(|(id, _)| (1..=6).contains(id)),
        TableProperty::Experimenter { .. } => return Err(Reason::TableFeaturesFailedBadType),
        TableProperty::WriteActions { ids, .. } | TableProperty::ApplyActions { ids, .. } => {
            !ids.iter().any(|id| matches!(id, ActionId::Experimenter(_)))
        }
    };
    if good { Ok(()) } else { Err(Reason::TableFeaturesFailedBadArgument) }
}
