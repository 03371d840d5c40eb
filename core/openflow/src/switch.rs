//! What a switch is and how it is set: features, configuration, table configuration (sections 7.3.1 to 7.3.3;
//! 1.0.0 sections 5.3.1 and 5.3.2).

use crate::error::Reason;
use crate::port::Port;
use crate::wire::{Encoded, Reader, Result, Writer, fail};

flags! {
    /// OFPC_*: what a switch can do.
    Capabilities: u32 {
        /// Statistics of flows.
        FLOW_STATS = 1,
        /// Statistics of tables.
        TABLE_STATS = 1 << 1,
        /// Statistics of ports.
        PORT_STATS = 1 << 2,
        /// A spanning tree (1.0).
        STP = 1 << 3,
        /// Statistics of groups (1.3).
        GROUP_STATS = 1 << 3,
        /// Reassembles IP fragments.
        IP_REASM = 1 << 5,
        /// Statistics of queues.
        QUEUE_STATS = 1 << 6,
        /// Matches addresses in ARP packets (1.0).
        ARP_MATCH_IP = 1 << 7,
        /// Blocks ports to prevent loops (1.3).
        PORT_BLOCKED = 1 << 8,
    }
}

/// OFPT_FEATURES_REPLY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// The switch's number: 16 bits of its maker's choice and a MAC address.
    pub datapath_id: u64,
    /// How many packets it buffers.
    pub buffers: u32,
    /// How many tables it has.
    pub tables: u8,
    /// The connection: 0 is the main one; 0 in 1.0.
    pub auxiliary: u8,
    /// What it can do.
    pub capabilities: Capabilities,
    /// A bit for each action by number (1.0); reserved in 1.3.
    pub actions: u32,
    /// Its ports (1.0); none in 1.3, which asks for them apart.
    pub ports: Vec<Port>,
}

impl Features {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Features> {
        let (datapath_id, buffers, tables) = (r.u64()?, r.u32()?, r.u8()?);
        let auxiliary = if r.is_10() { 0 } else { r.u8()? };
        r.skip(if r.is_10() { 3 } else { 2 })?;
        let (capabilities, actions) = (Capabilities(r.u32()?), r.u32()?);
        let ports = if r.is_10() { r.all(Port::read)? } else { vec![] };
        Ok(Features { datapath_id, buffers, tables, auxiliary, capabilities, actions, ports })
    }

    pub(crate) fn write(&self, w: &mut Writer) -> Encoded {
        w.u64(self.datapath_id);
        w.u32(self.buffers);
        w.u8(self.tables);
        if w.is_10() {
            w.zeros(3);
        } else {
            w.u8(self.auxiliary);
            w.zeros(2);
        }
        w.u32(self.capabilities.0);
        w.u32(self.actions);
        if w.is_10() {
            return self.ports.iter().try_for_each(|port| port.write(w));
        }
        if self.ports.is_empty() { Ok(()) } else { w.lacks("ports of a features reply") }
    }
}

numbers! {
    /// OFPC_FRAG_*: how IP fragments are handled.
    Fragments: u16 {
        /// As other packets, but without ports.
        Normal = 0,
        /// Dropped.
        Drop = 1,
        /// Reassembled.
        Reassemble = 2,
        /// Not used by the specification.
        Mask = 3,
    }
}

/// OFPT_GET_CONFIG_REPLY and OFPT_SET_CONFIG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// How IP fragments are handled.
    pub fragments: Fragments,
    /// How many bytes of a packet without a match a controller gets.
    pub miss_send_len: u16,
}

impl Default for SwitchConfig {
    fn default() -> SwitchConfig {
        // OFP_DEFAULT_MISS_SEND_LEN of openflow.h.
        SwitchConfig { fragments: Fragments::Normal, miss_send_len: 128 }
    }
}

impl SwitchConfig {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<SwitchConfig> {
        Ok(SwitchConfig { fragments: r.u16()?.into(), miss_send_len: r.u16()? })
    }

    /// Of a controller: only flags that exist.
    pub(crate) fn read_set(r: &mut Reader<'_>) -> Result<SwitchConfig> {
        let config = SwitchConfig::read(r)?;
        match config.fragments {
            Fragments::Other(_) | Fragments::Mask => {
                fail(Reason::SwitchConfigFailedBadFlags, "set config: unknown flags")
            }
            _ => Ok(config),
        }
    }

    pub(crate) fn write(self, w: &mut Writer) -> Encoded {
        w.u16(self.fragments.into());
        w.u16(self.miss_send_len);
        Ok(())
    }
}

/// OFPT_TABLE_MOD (1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMod {
    /// The table, or all.
    pub table: u8,
    /// Reserved: the bits of earlier versions.
    pub config: u32,
}

impl TableMod {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<TableMod> {
        let table = r.u8()?;
        r.skip(3)?;
        Ok(TableMod { table, config: r.u32()? })
    }

    pub(crate) fn write(self, w: &mut Writer) -> Encoded {
        w.u8(self.table);
        w.zeros(3);
        w.u32(self.config);
        Ok(())
    }
}
