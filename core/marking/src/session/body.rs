//! The body as written: for clients, examples and the API's document.
//!
//! `check` reads it and reports all errors at once; a test that writes this and reads it back keeps
//! the names of both in step.

use serde::{Deserialize, Serialize};

/// What is measured: a configuration as in the source's API. Fields after `netifs` are ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Configuration))]
pub struct Body {
    /// Program: 0 empty, 1 all packets, 2 fixed hash, 3 dynamic hash, 4 loss of all packets with
    /// delay of selected or double-marked ones.
    #[cfg_attr(feature = "schema", schema(maximum = 4))]
    pub prog_id: u8,
    /// Measurement period in seconds: the length of a block.
    pub mp: f64,
    /// Length of the whole measurement in seconds.
    pub mpc: f64,
    /// DSCP value (0 to 63) of blocks 0, 2, 4 …
    #[cfg_attr(feature = "schema", schema(maximum = 63))]
    pub starter_mark: u8,
    /// DSCP value (0 to 63) of blocks 1, 3, 5 …
    #[cfg_attr(feature = "schema", schema(maximum = 63))]
    pub next_mark: u8,
    /// Which packets are measured.
    pub filters: Vec<BodyFilter>,
    /// The value that hashes must equal in their low bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_value: Option<u32>,
    /// How many low bits must agree; program 3 starts with this number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(maximum = 32))]
    pub hash_length: Option<u8>,
    /// `bob`, `ipsx` or `crc32`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash_function: Option<String>,
    /// Program 3: the maximum samples kept of a block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub npkts: Option<u32>,
    /// Interfaces to measure at; all if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netifs: Option<Vec<Netif>>,
    /// Interfaces at whose egress packets of the filters are marked; none if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marking: Option<Vec<Netif>>,
    /// How long after its end a block still counts packets, in seconds; below half of `mp`. If
    /// omitted a quarter of `mp`, at most 1 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<f64>,
    /// Which bits of the DSCP field may be written; the others are kept. All six if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 63))]
    pub mark_mask: Option<u8>,
    /// Program 4: DSCP bits also set in double-marked packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 63))]
    pub delay_mark: Option<u8>,
    /// What is hashed: `portable` (default), `rfc5475` or `source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The hash's initial value; 0 if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// Where the hashed part of the payload begins, in bytes; 0 if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_offset: Option<u16>,
    /// Its length, 1 to 32 bytes; 8 if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 32))]
    pub payload_size: Option<u8>,
    /// Which of several matching filters gets a packet: `first` in the list (default) or `longest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precedence: Option<String>,
}

/// A filter: omitted or null fields match anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Filter))]
pub struct BodyFilter {
    /// The number that identifies its measures.
    pub id: u32,
    /// Source: an address or a prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src_ip: Option<String>,
    /// Destination: an address or a prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst_ip: Option<String>,
    /// `tcp`, `udp`, `icmp`, `icmpv6`, `sctp`, or a number as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proto: Option<String>,
    /// Source port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src_port: Option<u16>,
    /// Destination port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst_port: Option<u16>,
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Netif {
    /// Its name; in a lab `NODE:IFACE`, and `SWITCH/NODE:IFACE` for the port of a bridge.
    pub netif: String,
}
