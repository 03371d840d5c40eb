//! Schemas of requests to a shared-memory switch, and of its answers.

use std::collections::BTreeMap;

use utoipa::ToSchema;

/// A request to a shared-memory switch.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum SwitchRequest {
    /// State of the switch. Answered by `shown`.
    Show,
    /// Learned addresses of its ports. Answered by `macs`.
    Macs {
        /// The only port to show; the switch itself is 0.
        port: Option<PortKey>,
    },
    /// Changes rules of a port, occupied or not. Answered by `done`.
    SetPort {
        /// The port.
        port: PortKey,
        /// The change.
        change: PortChange,
    },
    /// Sets the VLANs of a port, or removes its rule. Answered by `done`.
    SetVlan {
        /// The port.
        port: PortKey,
        /// The VLANs; `null` removes the rule.
        vlan: Option<PortVlan>,
    },
    /// Starts a mirror session. Answered by `mirror`.
    AddMirror(MirrorSession),
    /// Ends a mirror session. Answered by `done`.
    DeleteMirror {
        /// Its number.
        mirror: u16,
    },
    /// Disconnects a port from the switch. Its owner may join again. Answered by `done`.
    Disconnect {
        /// The port.
        port: PortKey,
    },
    /// Stops the switch's process, which the lab starts again. Answered by `done`.
    Stop,
}

/// A port of a switch by its number or by its name.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum PortKey {
    Number(u16),
    Name(String),
}

/// A change of a port's rules: absent ones stay, `null` removes one.
#[derive(ToSchema)]
pub(crate) struct PortChange {
    /// The name its number is reserved for.
    name: Option<String>,
    /// The user who may have it.
    uid: Option<u32>,
    /// The group that may have it.
    gid: Option<u32>,
    /// The only source addresses it may send from, `02:00:00:00:00:01`; `null` allows any.
    macs: Option<Vec<String>>,
    /// Whether others learn addresses from its frames.
    learn: Option<bool>,
}

/// The VLANs of a port.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum PortVlan {
    /// Untagged frames only, all in this VLAN.
    Access(u16),
    /// Tagged frames.
    Trunk {
        /// The VLAN of untagged frames; without one they are dropped.
        native: Option<u16>,
        /// The VLANs allowed with a tag, as `1-3,7`; all if absent.
        allowed: Option<String>,
    },
}

/// A mirror session.
#[derive(ToSchema)]
pub(crate) struct MirrorSession {
    /// The port that receives the copies.
    to: u16,
    /// The sources.
    sources: Vec<MirrorSource>,
    /// The frames to copy, as `vlan 7, tcp`; all if absent.
    filter: Option<String>,
    /// Whether the session ends when the port that receives the copies leaves; false if absent.
    temporary: Option<bool>,
}

/// A source of a mirror session.
#[derive(ToSchema)]
pub(crate) struct MirrorSource {
    /// The port.
    port: u16,
    /// The direction of its frames.
    direction: MirrorDirection,
}

/// Direction of a port's frames, seen from the switch: what the port sends is in, what it receives is out.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum MirrorDirection {
    In,
    Out,
    Both,
}

/// A shared-memory switch's answer.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum SwitchAnswer {
    /// Done.
    Done,
    /// State of the switch.
    Shown(SwitchShown),
    /// Learned addresses of ports.
    Macs(Vec<MacTable>),
    /// The number of the new mirror session.
    Mirror(u16),
}

/// State of a shared-memory switch. Counters are totals since its process started.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) struct SwitchShown {
    /// Its pid, in its own PID namespace.
    pid: u32,
    /// The user it runs as.
    uid: u32,
    /// Unix time in seconds of its start.
    since: u64,
    /// CPU time of its process, in microseconds.
    cpu_us: u64,
    /// Memory of all rings and tables of its ports, in KiB.
    memory_kib: u64,
    /// Edges between ports.
    edges: usize,
    /// Whether VLANs are separated.
    vlans: bool,
    /// The switch's own counters, by name: frames that it relayed because no edge carried them.
    relay: BTreeMap<String, u64>,
    /// Joins.
    joins: u64,
    /// Refused joins.
    refused: u64,
    /// Clients dropped because of invalid data or unread messages.
    expelled: u64,
    /// Its ports by number, including those that only have rules.
    ports: Vec<SwitchPort>,
    /// Mirror sessions by number.
    mirrors: BTreeMap<u16, MirrorSession>,
}

/// Whether a port is occupied.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum Presence {
    Here,
    Awaited,
    Free,
}

/// State of a port of a switch.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) struct SwitchPort {
    /// Its number.
    number: u16,
    /// Its name.
    name: String,
    /// `here`: connected; `awaited`: connected when an earlier process of the switch ended; `free`: only its
    /// rules exist.
    presence: Presence,
    /// The process that joined; `null` if the switch cannot see it.
    pid: Option<i32>,
    /// Its user.
    uid: Option<u32>,
    /// Unix time in seconds of its join.
    since: Option<u64>,
    /// Edges on which it sends.
    edges_out: usize,
    /// Edges on which it receives.
    edges_in: usize,
    /// Memory of its rings and its table in KiB.
    memory_kib: u64,
    /// Whether it accepts super-frames.
    super_frames: bool,
    /// Whether it accepts frames with partial checksums.
    checksums: bool,
    /// Its counters, by name: `received-frames`, `sent-bytes`, `dropped-stalled` and others.
    counters: BTreeMap<String, u64>,
    /// Its rules.
    rules: PortRules,
}

/// The rules of a port of a switch; an absent rule does not exist.
#[derive(ToSchema)]
pub(crate) struct PortRules {
    /// Reserved name: a client that joins by it gets this number, and no other client does.
    name: Option<String>,
    /// Only this user may have the port.
    uid: Option<u32>,
    /// Only processes of this group may have the port; combined with `uid`, either suffices.
    gid: Option<u32>,
    /// Its VLANs.
    vlan: Option<PortVlan>,
    /// The only source addresses allowed on this port; any if absent.
    #[schema(required = false)]
    macs: Vec<String>,
    /// Whether others learn addresses from its frames; true if absent.
    #[schema(required = false)]
    learn: bool,
}

/// Learned addresses of a port.
#[derive(ToSchema)]
pub(crate) struct MacTable {
    /// The port that learned them; 0 is the switch itself.
    port: u16,
    /// The addresses.
    entries: Vec<MacEntry>,
}

/// A learned address and its port.
#[derive(ToSchema)]
pub(crate) struct MacEntry {
    /// As `02:…`.
    mac: String,
    /// Its VLAN; 0 when VLANs are not separated.
    vlan: u16,
    /// The port.
    port: u16,
    /// Seconds since its last frame.
    age: u64,
}
