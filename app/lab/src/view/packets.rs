//! A question about packets of the past, and its answer.

use netloom_model::Plan;
use netloom_model::lookup::{LookupError, find_link};
use netloom_record::Frame;
use netloom_sighting::{Flow, summary};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which packets of a recording. A time is needed: `last_ms`, or `since_ns` or `until_ns`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AskPackets {
    /// A flow: up to two nodes or addresses, then `80/tcp`, `53/udp` or `icmp`, each of which may be left out; or one filter
    /// in libpcap's language. Empty: all packets.
    #[serde(default)]
    pub what: Vec<String>,
    /// Only what was seen at these links; empty: at any.
    #[serde(default)]
    pub links: Vec<String>,
    /// From this time on, in nanoseconds since 1970 UTC.
    #[serde(default, with = "netloom_form::exact")]
    #[schema(value_type = Option<netloom_form::schema::Exact>)]
    pub since_ns: Option<u64>,
    /// Before this time, in nanoseconds since 1970 UTC.
    #[serde(default, with = "netloom_form::exact")]
    #[schema(value_type = Option<netloom_form::schema::Exact>)]
    pub until_ns: Option<u64>,
    /// Only packets of the last milliseconds, this many.
    #[serde(default)]
    pub last_ms: Option<u64>,
    /// Most packets of the answer; 1,000 where nothing is said, and at most 100,000.
    #[serde(default)]
    pub most: Option<usize>,
}

/// The link of a plan that a word means in a question about a recording; `None` if the plan has no such link.
///
/// # Errors
/// [`netloom_record::Error::Question`]: it may mean several links.
pub fn link_of_question(plan: &Plan, word: &str) -> netloom_record::Result<Option<String>> {
    match find_link(plan, word) {
        Ok((at, _)) => Ok(Some(plan.links[at].name.clone())),
        Err(several @ LookupError::Invalid { .. }) => {
            Err(netloom_record::Error::Question(several.to_string()))
        }
        Err(_) => Ok(None),
    }
}

/// Packets of a recording, in the order in which they were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundPackets {
    /// The packets, once for each link that they were seen at.
    pub packets: Vec<PacketSeen>,
    /// Whether there are more.
    pub more: bool,
    /// Parts of the recording that gave way to newer ones meanwhile.
    #[serde(default)]
    pub gone: usize,
    /// Parts that were left out: of another version, or damaged.
    #[serde(default)]
    pub strange: usize,
    /// Why what the recorder said last cannot be read: then nodes of the past are not known by name.
    #[serde(default)]
    pub problem: Option<String>,
}

/// A packet at a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PacketSeen {
    /// When, in nanoseconds since 1970 UTC.
    #[serde(with = "netloom_form::exact")]
    #[schema(value_type = netloom_form::schema::Exact)]
    pub time_ns: u64,
    /// The link.
    pub link: String,
    /// A number common to all sightings of the packet in one part of the recording.
    #[serde(with = "netloom_form::exact")]
    #[schema(value_type = netloom_form::schema::Exact)]
    pub packet: u64,
    /// Its length on the wire.
    pub bytes: u32,
    /// Where it comes from; `null` for other than IP packets.
    pub from: Option<String>,
    /// Where it goes.
    pub to: Option<String>,
    /// The number of its protocol.
    pub protocol: Option<u8>,
    /// Source and target port of TCP and UDP.
    pub ports: Option<[u16; 2]>,
    /// What it is, in words.
    pub summary: String,
}

impl From<&Frame> for PacketSeen {
    fn from(frame: &Frame) -> PacketSeen {
        let flow = Flow::of(&frame.data);
        PacketSeen {
            time_ns: frame.time_ns,
            link: frame.link.to_string(),
            packet: frame.packet,
            bytes: frame.original,
            from: flow.map(|flow| flow.from.to_string()),
            to: flow.map(|flow| flow.to.to_string()),
            protocol: flow.map(|flow| flow.protocol),
            ports: flow.and_then(|flow| flow.ports).map(|(from, to)| [from, to]),
            summary: summary(&frame.data),
        }
    }
}
