//! Work in a node once the lab is ready: commands that follow, and checks that repeat.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Program, Ready};

/// A command that is done when every node of the lab is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Exec {
    /// What is started, and as whom; it is never started again.
    pub program: Program,
    /// Whether the lab cannot come up when it fails.
    pub fatal: bool,
    /// How long it may take.
    #[serde(with = "netloom_form::duration")]
    #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Duration))]
    pub timeout: Duration,
}

impl Exec {
    /// How long a command may take that says nothing else.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
}

/// A check of a node that repeats as long as it lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Health {
    /// What must hold; its `timeout` is how long the command may take.
    pub check: Ready,
    /// From the end of a check to the next.
    #[serde(with = "netloom_form::duration")]
    #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Duration))]
    pub interval: Duration,
    /// How many checks must fail in a row before the node counts as unhealthy.
    pub retries: u32,
}

impl Default for Health {
    fn default() -> Health {
        let check = Ready { timeout: Duration::from_secs(5), ..Ready::default() };
        Health { check, interval: Duration::from_secs(10), retries: 3 }
    }
}
