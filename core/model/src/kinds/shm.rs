//! Shared-memory switches of a lab: their options and the rules of their ports.
//!
//! As in the file, checked: VLANs, addresses and filters are kept in the text form that
//! `netloom_bridge` reads. A port is identified by its name: that of the link's other end (`h1:eth0`,
//! `host:eth1`), or one by which a program joins.

pub(crate) mod keys;
mod read;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use self::read::{ARENA, MOST_AGEING, RawShm, lock, read, vid};
use crate::file::table::KindKeys;

/// The value of the key `kind`.
pub(crate) const WORD: &str = "shm";

/// Its keys.
pub(crate) const KEYS: KindKeys = KindKeys { kind: WORD, keys: keys::KEYS };

/// Maximum number of ports, including those of programs.
pub(crate) const MOST_PORTS: usize = netloom_bridge::MOST_PORTS as usize;

/// In a lock of a [`crate::lab::Switch`]: the address of the node's interface at the other end of the
/// link. A plan has the address itself instead.
pub const OWN_ADDRESS: &str = "own";

/// The options of a switch of kind `shm`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedShm))]
pub struct ShmSwitch {
    /// The mode of its socket, which decides which users may join.
    pub mode: u32,
    /// The group of its socket, by name or number.
    pub group: Option<String>,
    /// Bytes of the ring from the switch to each port: a power of two.
    pub arena: u32,
    /// Seconds after which an unseen address is forgotten.
    pub ageing: u32,
    /// Rules of ports, by name; names without a link's end are reserved for programs.
    pub ports: BTreeMap<String, ShmPort>,
    /// Mirror sessions.
    pub mirrors: Vec<ShmMirror>,
    /// Whether and where clients of classic VDE join it.
    #[serde(default)]
    pub vde: VdeFolder,
}

/// The folder by which clients of classic VDE know a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedVde))]
pub enum VdeFolder {
    /// There is none.
    #[default]
    None,
    /// Beside the switch's socket.
    Beside,
    /// At this path from the root.
    At(String),
}

impl Default for ShmSwitch {
    fn default() -> ShmSwitch {
        ShmSwitch {
            mode: 0o600,
            group: None,
            arena: 256 << 10,
            ageing: 60,
            ports: BTreeMap::new(),
            mirrors: Vec::new(),
            vde: VdeFolder::None,
        }
    }
}

impl ShmSwitch {
    /// Replaces `own` by addresses in the locks of ports; `mac_of` returns them by the ports' names.
    pub(super) fn fill_in_own_addresses(&mut self, mac_of: impl Fn(&str) -> Option<[u8; 6]>) {
        for (name, port) in &mut self.ports {
            if !port.lock.iter().any(|lock| lock == OWN_ADDRESS) {
                continue;
            }
            // A missing address is left out, which the parser prevents.
            let own = mac_of(name).map(|mac| netloom_bridge::Mac(mac).to_string());
            let locks = std::mem::take(&mut port.lock).into_iter();
            let filled = |lock: String| if lock == OWN_ADDRESS { own.clone() } else { Some(lock) };
            port.lock = locks.filter_map(filled).collect();
        }
    }
}

/// The rules of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedPort))]
pub struct ShmPort {
    /// Its number; the switch chooses by default.
    pub number: Option<u16>,
    /// The user that may have it, by name or number.
    pub owner: Option<String>,
    /// Its VLANs.
    pub vlan: Option<PortVlan>,
    /// The only source addresses it may use, `02:00:00:00:00:01`; any if empty.
    pub lock: Vec<String>,
}

/// The VLANs of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedVlan))]
pub enum PortVlan {
    /// Untagged frames belong to this one, 1 to 4094.
    Access(u16),
    /// Frames have tags.
    Trunk {
        /// The VLAN of untagged frames.
        native: Option<u16>,
        /// VLANs that may pass: `1-3,7`, `all`.
        allowed: String,
    },
    /// A customer's frames with the tags that they have, all in one VLAN.
    Qinq {
        /// The VLAN.
        vlan: u16,
        /// The only VLANs that the customer's tags may have: `1-3,7`, `all`.
        cvlans: Option<String>,
        /// The type of the tag around: `0x88a8`.
        tpid: String,
    },
}

/// A mirror session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedMirror))]
pub struct ShmMirror {
    /// Names of the source ports.
    pub from: Vec<String>,
    /// Which of their frames are copied.
    pub direction: MirrorDirection,
    /// Name of the port that gets the copies.
    pub to: String,
    /// The filter of frames: `vlan 7, tcp, port 80`; empty for all.
    pub filter: String,
}

/// A direction seen from the switch: `in` are frames that the port sends, `out` those that it gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedMirrorDirection))]
pub enum MirrorDirection {
    /// Frames that the port sends.
    In,
    /// Frames that the port gets.
    Out,
    /// Both.
    #[default]
    Both,
}
