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
}
