//! A question why a flow does not arrive; the answer is [`netloom_why::Report`].

use netloom_why::Protocol;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whose packets do not arrive where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AskWhy {
    /// The node that sends.
    pub from: String,
    /// The node that is to receive, or an address of it.
    pub to: String,
    /// What is sent.
    #[serde(default)]
    pub protocol: Protocol,
    /// The port of the receiver, for TCP and UDP.
    #[serde(default)]
    pub port: Option<u16>,
    /// 4 or 6; where nothing is said, the first that both nodes have.
    #[serde(default)]
    pub family: Option<u8>,
    /// Not about now, but about packets of the last milliseconds, this many, in the lab's recording.
    #[serde(default)]
    pub last_ms: Option<u64>,
    /// About recorded packets from this time on, in nanoseconds since 1970 UTC.
    #[serde(default, with = "netloom_form::exact")]
    #[schema(value_type = Option<netloom_form::schema::Exact>)]
    pub since_ns: Option<u64>,
    /// About recorded packets before this time.
    #[serde(default, with = "netloom_form::exact")]
    #[schema(value_type = Option<netloom_form::schema::Exact>)]
    pub until_ns: Option<u64>,
}

impl AskWhy {
    /// Whether it asks for a time of the past.
    pub(crate) fn is_of_the_past(&self) -> bool {
        self.last_ms.is_some() || self.since_ns.is_some() || self.until_ns.is_some()
    }
}
