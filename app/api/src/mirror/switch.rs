//! What a shared-memory switch can be asked, and its answers.

use std::collections::BTreeMap;

use utoipa::ToSchema;

/// What to ask a shared-memory switch, or to tell it.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum SwitchRequest {
    /// How it is. Answered by `shown`.
    Show,
    /// What its ports have learnt. Answered by `macs`.
    Macs {
        /// The only port to show; the switch itself is 0.
        port: Option<PortKey>,
    },
    /// Changes rules of a port, there or not. Answered by `done`.
    SetPort {
        /// Which.
        port: PortKey,
        /// What.
        change: PortChange,
    },
    /// Sets the VLANs of a port, or takes its rule away. Answered by `done`.
    SetVlan {
        /// Which.
        port: PortKey,
        /// To what; to none when it is `null`.
        vlan: Option<PortVlan>,
    },
    /// A new mirror session. Answered by `mirror`.
    AddMirror(MirrorSession),
    /// Ends a mirror session. Answered by `done`.
    DeleteMirror {
        /// Its number.
        mirror: u16,
    },
    /// Takes a port off the switch. Whoever has it may join again. Answered by `done`.
    Disconnect {
        /// Which.
        port: PortKey,
    },
    /// Ends the switch's process, which the lab starts again. Answered by `done`.
    Stop,
}

/// A port of a switch by its number or by its name.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum PortKey {
    Number(u16),
    Name(String),
}

/// A change of a port's rules: what is not given stays, `null` takes away.
#[derive(ToSchema)]
pub(crate) struct PortChange {
    /// The name its number is reserved for.
    name: Option<String>,
    /// The user who may have it.
    uid: Option<u32>,
    /// The group that may have it.
    gid: Option<u32>,
    /// The only addresses that may send from it, `02:00:00:00:00:01`; any when none.
    macs: Option<Vec<String>>,
    /// Whether others learn from it.
    learn: Option<bool>,
}

/// The VLANs of a port.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum PortVlan {
    /// Frames come and go without a tag and belong to this VLAN.
    Access(u16),
    /// Frames come and go with tags.
    Trunk {
        /// The VLAN of frames without a tag; they are dropped when there is none.
        native: Option<u16>,
        /// The VLANs that may pass with a tag, as `1-3,7`; all when it is not given.
        allowed: Option<String>,
    },
}

/// A mirror session.
#[derive(ToSchema)]
pub(crate) struct MirrorSession {
    /// The port that gets the copies.
    to: u16,
    /// What is copied.
    sources: Vec<MirrorSource>,
    /// Which of it, as `vlan 7, tcp`; all when it is not given.
    filter: Option<String>,
    /// Whether it ends when the port that gets the copies leaves; not when it is not given.
    temporary: Option<bool>,
}

/// What a mirror session looks at.
#[derive(ToSchema)]
pub(crate) struct MirrorSource {
    /// The port.
    port: u16,
    /// Its frames of which direction.
    direction: MirrorDirection,
}

/// Which frames of a port, seen from the switch: what it sends is in, what it gets out.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum MirrorDirection {
    In,
    Out,
    Both,
}

/// What a shared-memory switch answers.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum SwitchAnswer {
    /// It is done.
    Done,
    /// How the switch is.
    Shown(SwitchShown),
    /// What ports have learnt.
    Macs(Vec<MacTable>),
    /// The number of the new mirror session.
    Mirror(u16),
}

/// How a shared-memory switch is. Counters are totals since its process was started.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) struct SwitchShown {
    /// Its process, as it sees itself.
    pid: u32,
    /// The user it runs as.
    uid: u32,
    /// Unix time in seconds when it was started.
    since: u64,
    /// CPU time its process has used, in microseconds.
    cpu_us: u64,
    /// Memory of all rings and tables of its ports, in KiB.
    memory_kib: u64,
    /// Edges between ports.
    edges: usize,
    /// Whether frames are told apart by VLAN.
    vlans: bool,
    /// What the switch itself did with frames that had no edge to go by, by name.
    relay: BTreeMap<String, u64>,
    /// Joins.
    joins: u64,
    /// Joins that were refused.
    refused: u64,
    /// Clients that were let go because of what they sent, or did not read.
    expelled: u64,
    /// Its ports by number; those that only have rules, too.
    ports: Vec<SwitchPort>,
    /// Mirror sessions by number.
    mirrors: BTreeMap<u16, MirrorSession>,
}

/// Whether somebody has a port.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) enum Presence {
    Here,
    Awaited,
    Free,
}

/// How a port of a switch is.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
pub(crate) struct SwitchPort {
    /// Its number.
    number: u16,
    /// The name it has.
    name: String,
    /// `here`; `awaited`: it was there when an earlier process of the switch ended; `free`: there are
    /// only rules for it.
    presence: Presence,
    /// The process that joined; `null` when it is not visible from the switch.
    pid: Option<i32>,
    /// Its user.
    uid: Option<u32>,
    /// Unix time in seconds when it joined.
    since: Option<u64>,
    /// Edges by which it sends to others.
    edges_out: usize,
    /// Edges by which others send to it.
    edges_in: usize,
    /// Memory of its rings and its table in KiB.
    memory_kib: u64,
    /// Whether it takes super-frames.
    super_frames: bool,
    /// Whether it takes frames with unfinished checksums.
    checksums: bool,
    /// What it counts, by name: `received-frames`, `sent-bytes`, `dropped-stalled` and others.
    counters: BTreeMap<String, u64>,
    /// Its rules.
    rules: PortRules,
}

/// The rules of a port of a switch; one that is not given is none.
#[derive(ToSchema)]
pub(crate) struct PortRules {
    /// Reserved: who joins by this name gets this number, and nobody else does.
    name: Option<String>,
    /// Only this user may have the port.
    uid: Option<u32>,
    /// Only processes of this group may have the port; with `uid`, who is either.
    gid: Option<u32>,
    /// Its VLANs.
    vlan: Option<PortVlan>,
    /// The only addresses that may send from here; any when it is not given.
    #[schema(required = false)]
    macs: Vec<String>,
    /// Whether others learn addresses from what it sends; they do when it is not given.
    #[schema(required = false)]
    learn: bool,
}

/// What a port has learnt.
#[derive(ToSchema)]
pub(crate) struct MacTable {
    /// The port that learnt; 0 is the switch itself.
    port: u16,
    /// What.
    entries: Vec<MacEntry>,
}

/// Where a port believes an address to be.
#[derive(ToSchema)]
pub(crate) struct MacEntry {
    /// As `02:…`.
    mac: String,
    /// Its VLAN; 0 when VLANs are not told apart.
    vlan: u16,
    /// The port.
    port: u16,
    /// Seconds since it was heard of.
    age: u64,
}
