//! Requests to a switch over its control socket, and its answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::application::{Controller, Fail, Tls, Version};
use crate::data_plane::PlaneFacts;

/// A port by its number or by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowPortKey))]
pub enum PortKey {
    /// By number.
    Number(u32),
    /// By name.
    Name(String),
}

impl From<u32> for PortKey {
    fn from(number: u32) -> PortKey {
        PortKey::Number(number)
    }
}

impl From<&str> for PortKey {
    fn from(name: &str) -> PortKey {
        PortKey::Name(name.to_owned())
    }
}

/// A port to add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PortSpec {
    /// Its number, 1 to 65279, so that controllers of 1.0 can name it.
    pub number: u32,
    /// Its name, for controllers; they see its first 15 bytes.
    pub name: String,
    /// The interface, in the network namespace of the switch's process.
    pub interface: String,
    /// Its MAC address; none: that of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<[u8; 6]>,
}

/// Request to an OpenFlow switch. Each is answered by [`Answer::Done`] if nothing else is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// State of the switch. Answered by [`Answer::Shown`].
    Show,
    /// Adds a port. One with the same number and interface is changed; one with the same number and another
    /// interface is refused, as is an interface that another port has.
    AddPort(PortSpec),
    /// Removes a port.
    RemovePort {
        /// The port.
        port: PortKey,
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
    /// Replaces the controllers. Connections to those that stay are kept.
    SetControllers {
        /// All of them.
        controllers: Vec<Controller>,
        /// How those with TLS are reached.
        #[serde(default)]
        tls: Option<Tls>,
    },
    /// Sets what happens while no controller is connected.
    SetFail {
        /// That.
        fail: Fail,
    },
    /// What would happen to a frame; nothing is counted or sent. Answered by [`Answer::Traced`].
    Trace(TraceWhat),
    /// Flow entries, groups and meters. Answered by [`Answer::Tables`].
    Tables {
        /// The only table to show.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        table: Option<u8>,
    },
    /// Ends the process. A data plane in the kernel forwards on.
    Stop,
}

/// A frame to trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowTraceWhat))]
pub enum TraceWhat {
    /// One made of a match in the syntax of ovs-ofctl, such as `in_port=1,tcp,nw_dst=10.0.0.2,tp_dst=80`.
    Match(String),
    /// A whole one.
    Frame {
        /// The port that it comes in by.
        port: PortKey,
        /// Its bytes, in hexadecimal digits.
        hex: String,
    },
}

/// A switch's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The request succeeded.
    Done,
    /// The request failed, with the reason.
    Failed(String),
    /// State of the switch.
    Shown(Box<Shown>),
    /// What would happen to a frame.
    Traced(Box<Traced>),
    /// Flow entries, groups and meters.
    Tables(Box<Tables>),
}

/// State of an OpenFlow switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowShown))]
pub struct Shown {
    /// Its name.
    pub name: String,
    /// Its number for controllers, as `0x` and 16 digits.
    pub datapath: String,
    /// Versions of OpenFlow that it speaks.
    pub versions: Vec<Version>,
    /// Its pid, in its own PID namespace.
    pub pid: u32,
    /// When its process was started, in seconds since 1970.
    pub since: u64,
    /// CPU time of its process, in microseconds.
    #[serde(alias = "cpu_us")]
    pub cpu_us: u64,
    /// How many earlier processes of it this one took over from.
    pub takeovers: u64,
    /// What happens while no controller is connected.
    pub fail: Fail,
    /// Whether it forwards as a learning switch now, because no controller is connected.
    pub standalone: bool,
    /// What moves its frames.
    pub plane: PlaneFacts,
    /// How many tables it has.
    pub tables: u8,
    /// How many entries a table can have.
    #[serde(alias = "max_entries")]
    pub max_entries: u32,
    /// Flow entries.
    pub entries: u64,
    /// Groups.
    pub groups: u64,
    /// Meters.
    pub meters: u64,
    /// Its ports by number.
    pub ports: Vec<PortShown>,
    /// Its configured controllers.
    pub controllers: Vec<ControllerShown>,
    /// Connections that others made: to its socket, or to where it listens.
    pub connections: Vec<ConnectionShown>,
    /// Its counters, by name: `connections_dropped`, `packet_ins_dropped` and others.
    #[serde(with = "netloom_form::words")]
    pub counters: BTreeMap<String, u64>,
    /// What went wrong last, if anything did.
    pub trouble: Option<String>,
}

/// State of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowPort))]
pub struct PortShown {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Its interface.
    pub interface: String,
    /// Its MAC address, as `02:00:00:00:00:01`.
    pub mac: String,
    /// Whether frames can go through it.
    pub up: bool,
    /// What a controller configured: `port-down`, `no-recv`, `no-fwd`, `no-flood`, `no-packet-in`.
    #[serde(with = "netloom_form::words")]
    pub config: Vec<String>,
    /// Its counters, by name: `received_packets`, `sent_bytes`, `upcalls`, `upcalls_dropped` and others.
    #[serde(with = "netloom_form::words")]
    pub counters: BTreeMap<String, u64>,
}

/// How it stands with a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum ControllerState {
    /// Its namespace is not known yet.
    #[default]
    Waiting,
    /// A connection is being made.
    Connecting,
    /// It is connected.
    Connected,
    /// The last attempt failed; the next follows.
    Backoff,
    /// The switch listens there.
    Listening,
}

/// A controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowController))]
pub struct ControllerShown {
    /// Where it is.
    pub target: String,
    /// The namespace that it is reached from.
    pub namespace: Option<String>,
    /// How it stands.
    pub state: ControllerState,
    /// The connection, if there is one.
    pub connection: Option<ConnectionShown>,
    /// How many connections there are beside it.
    pub auxiliary: u64,
    /// Attempts since it was last connected, or configured.
    pub attempts: u64,
    /// Why the last attempt failed, or the last connection ended.
    pub reason: Option<String>,
}

/// A connection that speaks OpenFlow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowConnection))]
pub struct ConnectionShown {
    /// The other end.
    pub peer: String,
    /// The version agreed on.
    pub version: Option<Version>,
    /// Its role: `equal`, `master` or `slave`.
    pub role: String,
    /// When it was made, in seconds since 1970.
    pub since: u64,
    /// Messages received.
    pub received: u64,
    /// Messages sent.
    pub sent: u64,
    /// Bytes that the other end has not taken yet.
    pub queued: u64,
    /// Packets left out because it does not read.
    #[serde(alias = "packet_ins_dropped")]
    pub packet_ins_dropped: u64,
}

/// What would happen to a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowTraced))]
pub struct Traced {
    /// The port that it comes in by.
    pub port: u32,
    /// The frame, in hexadecimal digits.
    pub frame: String,
    /// The frame's fields, in the syntax of ovs-ofctl.
    pub fields: String,
    /// Whether it is forwarded as by a learning switch, without tables.
    pub standalone: bool,
    /// The tables that it goes through.
    pub steps: Vec<TraceStep>,
    /// Groups that it goes through, with the bucket.
    pub groups: Vec<(u32, usize)>,
    /// Meters that it goes through.
    pub meters: Vec<u32>,
    /// What is done, in order: actions, and `output:2` for each port that it leaves by; `copy {` and `}` around
    /// what is done to a copy.
    pub effects: Vec<String>,
    /// What leaves.
    pub sent: Vec<TraceSent>,
    /// Where it, or a copy, gets no further, and why.
    pub drops: Vec<String>,
    /// How many messages about it controllers would get.
    #[serde(alias = "packet_ins")]
    pub packet_ins: u64,
    /// The fields that decided, in the syntax of ovs-ofctl: frames that agree in them are treated alike.
    #[serde(alias = "decided_by")]
    pub decided_by: String,
    /// Why frames like it are not treated by a kept result.
    #[serde(alias = "not_kept")]
    pub not_kept: Option<String>,
}

/// A table that a frame goes through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowTraceStep))]
pub struct TraceStep {
    /// The table.
    pub table: u8,
    /// The entry that matches, in the syntax of ovs-ofctl; absent if none does.
    pub entry: Option<String>,
}

/// A frame that would leave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowTraceSent))]
pub struct TraceSent {
    /// The port's number.
    pub port: u32,
    /// The port's name.
    pub name: String,
    /// The queue, if one was set.
    pub queue: Option<u32>,
    /// The frame, in hexadecimal digits.
    pub frame: String,
}

/// Flow entries, groups and meters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowTables))]
pub struct Tables {
    /// Tables that have entries or have been looked up in.
    pub tables: Vec<TableShown>,
    /// Groups, in the syntax of ovs-ofctl.
    pub groups: Vec<String>,
    /// Meters, in the syntax of ovs-ofctl.
    pub meters: Vec<String>,
}

/// A flow table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowTable))]
pub struct TableShown {
    /// Its number.
    pub table: u8,
    /// Packets looked up.
    pub lookups: u64,
    /// Packets that matched.
    pub matched: u64,
    /// Its entries, those with the highest priority first.
    pub entries: Vec<EntryShown>,
}

/// A flow entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowEntry))]
pub struct EntryShown {
    /// In the syntax of ovs-ofctl.
    pub flow: String,
    /// Packets that it matched.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// How long it exists, in milliseconds.
    pub age_ms: u64,
    /// For how long no packet has matched it, in milliseconds.
    pub idle_ms: u64,
}
