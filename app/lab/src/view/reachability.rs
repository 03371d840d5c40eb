//! Which node reaches which: answers to echo requests, all pairs or one.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which node reaches which.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reachability {
    /// The nodes, in the order of rows and columns.
    pub nodes: Vec<String>,
    /// A row a sender, a cell a receiver; the diagonal is `null`.
    pub families: Vec<Family>,
}

/// Reachability in one address family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Family {
    /// 4 or 6.
    pub version: u8,
    /// Round-trip time in microseconds; `null` where there is no answer, or nothing was asked
    /// because one of the two has no address of the family.
    pub rtt_us: Vec<Vec<Option<u32>>>,
    /// Pairs asked.
    pub asked: u64,
    /// Pairs that answered.
    pub answered: u64,
}

/// Answers of one node to another's echo requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PairReachability {
    /// The node that asked.
    pub from: String,
    /// The node that was asked.
    pub to: String,
    /// By address family that both have an address of.
    pub families: Vec<PairFamily>,
}

/// Answers in one address family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PairFamily {
    /// 4 or 6.
    pub version: u8,
    /// The address that was asked.
    pub address: String,
    /// By request the round-trip time in microseconds; `null` where no answer came in time.
    pub rtt_us: Vec<Option<u32>>,
}
