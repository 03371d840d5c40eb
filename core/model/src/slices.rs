//! Slices of OpenFlow switches: who controls which packets of which switches, and what they may use.
//!
//! A [`Slice`] is as in the file; [`SliceSpace::spaces`] turns one into the spaces that `netloom-slicing` proves things
//! about. A space of the file speaks of the two ends of a conversation, whichever of them sends; one of `netloom-slicing`
//! of source and destination. Slices have no packet in common; `read` checks that. [`policy`] reads slices from a file
//! of their own.

mod check;
pub(crate) mod keys;
mod policy;
mod ports;
mod read;
mod spaces;
pub(crate) mod stored;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub(crate) use self::check::Switches;
pub use self::policy::{PolicyFile, PolicySwitch, policy};
pub(crate) use self::ports::port;
pub(crate) use self::read::{RawSlices, read};
use crate::kinds::openflow::{Controller, DatapathId, TlsFiles};

/// Maximum number of slices: a switch tells 1,023 apart.
pub(crate) const MOST_SLICES: usize = 1000;

/// Flow entries that slices have on a switch where the file does not say how many: each has an equal share of this total
/// places, with bounds. What a slicer keeps of them fits into half of 256 MiB.
const ENTRIES: u32 = 60_000;
const MOST_SHARE: u32 = 20_000;
const LEAST_SHARE: u32 = 60;

/// Groups and meters that a slice has on a switch by default, if it may have as many entries; and buckets for each group.
const MOST_GROUPS: u32 = 1000;
const BUCKETS: u32 = 10;

/// Bytes by default for each entry.
const BYTES: u64 = 2 * 1024;

/// Maximum number of spaces of a slice on a switch, after every list in them is spread.
pub(crate) const MOST_SPACES: usize = 1024;

/// Maximum number of spaces of a slice on all switches.
pub(crate) const MOST_IN_ALL: usize = 8 * MOST_SPACES;

/// A slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedSlice))]
pub struct Slice {
    /// Its name.
    pub name: String,
    /// Its controllers.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub controllers: Vec<Controller>,
    /// TLS files: the certificate shown to controllers, and the authorities expected of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
    /// By switch: its spaces there.
    #[serde(deserialize_with = "stored::switches")]
    pub switches: BTreeMap<String, Vec<SliceSpace>>,
    /// By switch: the number that its controllers know the switch by, where the file gives one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, String>))]
    pub datapaths: BTreeMap<String, DatapathId>,
    /// What it may use.
    #[serde(default)]
    pub quota: SliceQuota,
}

/// What a slice may use; on each switch, except for CPU time and messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedSliceQuota))]
pub struct SliceQuota {
    /// Flow entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<u32>,
    /// Groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<u32>,
    /// Buckets of all groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buckets: Option<u32>,
    /// Meters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meters: Option<u32>,
    /// Bytes of memory of the slicer for all of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Packets to its controllers a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(alias = "packet_ins")]
    pub packet_ins: Option<u32>,
    /// Messages of its controllers a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u32>,
    /// Bits a second of its packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Thousandths of a CPU for its messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(alias = "cpu_milli")]
    pub cpu_milli: Option<u32>,
}

/// What a slice may have on each switch, with what is meant where the file says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Flow entries.
    pub rules: u32,
    /// Groups.
    pub groups: u32,
    /// Buckets of all groups.
    pub buckets: u32,
    /// Meters.
    pub meters: u32,
    /// Bytes of memory of the slicer for all of these.
    pub memory: u64,
}

impl SliceQuota {
    /// What a slice may have on each switch. `places`: how many switches each slice is on, summed up over all slices.
    pub fn shares(&self, places: usize) -> Shares {
        let places = u32::try_from(places).unwrap_or(u32::MAX).max(1);
        let rules = self.rules.unwrap_or((ENTRIES / places).clamp(LEAST_SHARE, MOST_SHARE));
        let groups = self.groups.unwrap_or(rules.min(MOST_GROUPS));
        Shares {
            rules,
            groups,
            buckets: self.buckets.unwrap_or(groups.saturating_mul(BUCKETS)),
            meters: self.meters.unwrap_or(rules.min(MOST_GROUPS)),
            memory: self.memory.unwrap_or(u64::from(rules) * BYTES),
        }
    }
}

/// Packets of a slice at a switch. All that is given must hold; of a list, one of its items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedSliceSpace))]
pub struct SliceSpace {
    /// The ports that they come in and go out by; none given: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<String>>,
    /// Their VLANs; none given: any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<Vlans>,
    /// Their ethertype.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ethertype: Option<u16>,
    /// Their IP protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// One end, whether it is the source or the destination.
    #[serde(skip_serializing_if = "SpaceEnd::is_any")]
    pub end: SpaceEnd,
    /// The other end.
    #[serde(skip_serializing_if = "SpaceEnd::is_any")]
    pub peer: SpaceEnd,
}

/// VLANs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedSliceVlans))]
pub enum Vlans {
    /// Packets without a tag.
    Untagged,
    /// These, with both ends.
    Range {
        /// The first.
        from: u16,
        /// The last.
        to: u16,
    },
}

/// One end of a conversation; of a list, one of its items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedSpaceEnd))]
pub struct SpaceEnd {
    /// Its MAC addresses.
    #[serde(skip_serializing_if = "Vec::is_empty", with = "netloom_form::macs")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<netloom_form::schema::Mac>))]
    pub macs: Vec<[u8; 6]>,
    /// The prefixes that its address is in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub prefixes: Vec<IpNet>,
    /// Its TCP ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<Ports>,
    /// Its UDP ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub udp: Vec<Ports>,
}

/// Ports of TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedSlicePorts))]
pub struct Ports {
    /// The first.
    pub from: u16,
    /// The last.
    pub to: u16,
}

impl SpaceEnd {
    /// Whether nothing is said of it.
    fn is_any(&self) -> bool {
        *self == SpaceEnd::default()
    }
}

impl Slice {
    /// The nodes with its controllers.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.controllers.iter().filter_map(Controller::node)
    }
}
