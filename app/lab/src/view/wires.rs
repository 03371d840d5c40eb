//! Wires in links: their counters by direction, and the fates of single packets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A wire in a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WireView {
    /// `running`, or why it does not; the link carries nothing then.
    pub state: String,
    /// How often its process was started again.
    pub restarts: u32,
    /// From the first end to the second, and back; `null`: nothing is impaired that way.
    pub directions: Vec<Option<DirectionView>>,
}

/// One direction of a wire: what it does, and totals since it was put in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DirectionView {
    /// The end that sends, as in the link's `ends`.
    pub from: String,
    /// What it does, by key and value as in the lab file.
    pub impairments: BTreeMap<String, String>,
    /// Packets that came.
    pub offered_packets: u64,
    /// Bytes that came.
    pub offered_bytes: u64,
    /// Packets that were sent on, duplicates included.
    pub sent_packets: u64,
    /// Bytes that were sent on.
    pub sent_bytes: u64,
    /// Packets that were sent twice.
    pub duplicated: u64,
    /// Packets in which a bit was turned over.
    pub corrupted: u64,
    /// Packets that overtook others.
    pub reordered: u64,
    /// Packets held now.
    pub held_packets: u64,
    /// Bytes held now.
    pub held_bytes: u64,
    /// Packets lost, by cause.
    #[serde(with = "netloom_form::words")]
    pub lost: BTreeMap<String, u64>,
    /// How late packets were sent on, in microseconds: the mean and the worst.
    pub late_us: [f64; 2],
    /// How late they were all together, in nanoseconds.
    #[serde(default, with = "netloom_form::exact")]
    #[schema(value_type = netloom_form::schema::Exact)]
    pub late_sum_ns: u64,
}

/// Fates of single packets in one direction of a wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fates {
    /// In order.
    pub fates: Vec<FateView>,
    /// How many were overwritten before they were read.
    pub missed: u64,
}

/// The fate of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FateView {
    /// Counts packets of the direction.
    pub sequence: u64,
    /// The end that sent, 0 or 1.
    pub end: usize,
    /// Unix time in nanoseconds when it came.
    #[serde(with = "netloom_form::exact")]
    #[schema(value_type = netloom_form::schema::Exact)]
    pub time_ns: u64,
    /// Hash of what no hop changes of it, in hex.
    pub hash: String,
    /// Length of the frame.
    pub bytes: u32,
    /// `sent`, or the cause of its loss.
    #[serde(with = "netloom_form::words")]
    pub fate: String,
    /// How long it is held, in nanoseconds, when it is sent.
    pub delay_ns: Option<u64>,
    /// It is sent twice.
    pub duplicated: bool,
    /// A bit of it was turned over.
    pub corrupted: bool,
}
