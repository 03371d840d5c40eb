//! Requests to a slicer over its control socket, and its answers.

use serde::{Deserialize, Serialize};

use crate::application::Policy;

/// Request to a slicer. Each is answered by [`Answer::Done`] if nothing else is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// State of the slicer. Answered by [`Answer::Shown`].
    Show,
    /// Replaces the slices.
    SetPolicy {
        /// All of them.
        policy: Policy,
    },
    /// Gives a network namespace a name, replacing that of an earlier one. Its descriptor comes with the message.
    /// Controllers with that name are connected to again from it.
    SetNamespace {
        /// The name.
        name: String,
    },
    /// Forgets a namespace; connections from it are closed.
    DropNamespace {
        /// The name.
        name: String,
    },
    /// Ends the process. The switches forward on by the rules that they have.
    Stop,
}

/// A slicer's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The request succeeded.
    Done,
    /// The request failed, with the reason.
    Failed(String),
    /// State of the slicer.
    Shown(Box<Shown>),
}

// Names of two words have `_` as an alias here and below: answers of the API have that form, and clients read them as
// these types.
/// State of a slicer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SlicesShown))]
pub struct Shown {
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// When it began, in seconds since 1970.
    pub since: u64,
    /// CPU time of its process in microseconds.
    #[serde(alias = "cpu_us")]
    pub cpu_us: u64,
    /// Switches that are sliced.
    pub switches: Vec<SwitchShown>,
    /// Slices.
    pub slices: Vec<SliceShown>,
    /// Packets that controllers were not sent because they do not read.
    #[serde(alias = "left_out")]
    pub left_out: u64,
    /// Connections closed because of what they did.
    pub dropped: u64,
    /// What went wrong last, if it still is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SlicedSwitchShown))]
pub struct SwitchShown {
    /// Its name.
    pub name: String,
    /// Its number, if it is connected or known by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datapath: Option<String>,
    /// Whether it is connected, and has identified itself.
    pub connected: bool,
    /// The other end of its connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The version of OpenFlow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What became of what an earlier process had on it; none if it began with an empty switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed: Option<ResumedShown>,
}

/// How a slicer went on with a switch that an earlier process knew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SliceResumedShown))]
pub struct ResumedShown {
    /// Rules that slices had as before.
    pub rules: u64,
    /// Rules that they had no longer.
    pub lost: u64,
    /// Entries of the switch that were left as they were.
    pub kept: u64,
    /// Entries that were made, or changed.
    pub made: u64,
    /// Entries that were removed.
    pub removed: u64,
}

/// A slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SliceShown))]
pub struct SliceShown {
    /// Its name.
    pub name: String,
    /// Messages that were read of it.
    pub messages: u64,
    /// How often it was not read for a while, because a quota was used up.
    pub held: u64,
    /// Time of the slicer that its messages took, in microseconds.
    #[serde(alias = "cpu_us")]
    pub cpu_us: u64,
    /// Its virtual switches.
    pub switches: Vec<VirtualShown>,
}

/// A virtual switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SliceVirtualShown))]
pub struct VirtualShown {
    /// The name of the real switch.
    pub switch: String,
    /// The number that the slice's controllers see, if the switch is connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datapath: Option<String>,
    /// Its ports.
    pub ports: Vec<PortShown>,
    /// Its controllers.
    pub controllers: Vec<ControllerShown>,
    /// Where it can be spoken with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// How many entries of the real switch it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(alias = "most_entries")]
    pub most_entries: Option<u32>,
    /// How many groups it may have.
    #[serde(alias = "most_groups")]
    pub most_groups: u32,
    /// How many buckets all of them may have.
    #[serde(alias = "most_buckets")]
    pub most_buckets: u32,
    /// How many meters it may have.
    #[serde(alias = "most_meters")]
    pub most_meters: u32,
    /// How many bytes of the slicer's memory all of these may take.
    #[serde(alias = "most_memory")]
    pub most_memory: u64,
    /// Rules that it has.
    pub rules: u64,
    /// Entries of the real switch that these take.
    pub entries: u64,
    /// Groups that it has.
    pub groups: u64,
    /// Buckets of these at the real switch.
    pub buckets: u64,
    /// Meters that it has.
    pub meters: u64,
    /// Bytes of the slicer's memory that all of these take.
    pub memory: u64,
    /// Messages that were refused.
    pub refused: u64,
    /// Packets sent to its controllers.
    #[serde(alias = "packet_ins")]
    pub packet_ins: u64,
    /// Packets that were not, because of its quota.
    #[serde(alias = "packet_ins_dropped")]
    pub packet_ins_dropped: u64,
    /// Packets that its controllers sent.
    #[serde(alias = "packet_outs")]
    pub packet_outs: u64,
    /// LLDP packets of it that came back, on any switch.
    #[serde(alias = "lldp_received")]
    pub lldp_received: u64,
    /// The last refusals, the latest last.
    pub refusals: Vec<RefusalShown>,
}

/// A port of a virtual switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SlicePortShown))]
pub struct PortShown {
    /// The number that the slice's controllers see.
    pub number: u32,
    /// The number that it has at the real switch.
    pub real: u32,
    /// Its name.
    pub name: String,
}

/// A controller of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SliceControllerShown))]
pub struct ControllerShown {
    /// Where it is.
    pub target: String,
    /// The namespace that it is reached from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether it is connected, and has said hello.
    pub connected: bool,
    /// Attempts since it answered last.
    pub attempts: u64,
    /// Why it is not connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SliceRefusalShown))]
pub struct RefusalShown {
    /// When, in seconds since 1970.
    pub at: u64,
    /// The request, and why it was refused.
    pub words: String,
    /// A packet with which it would touch another slice, or leave its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}
