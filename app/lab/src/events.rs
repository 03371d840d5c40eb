//! What passes between a lab's maker and its process.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Service;

/// Starts what serves a running lab; what it gives is kept until the lab process ends.
pub(crate) type Serve =
    fn(&Path, Arc<dyn Service>) -> std::result::Result<Box<dyn std::any::Any + Send>, String>;

/// What happens while a lab comes up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// So much of something is done.
    Progress {
        /// `nodes`, `links` or `programs`.
        what: String,
        /// How many are done.
        done: usize,
        /// Of how many.
        total: usize,
    },
    /// Everything is there. Names of nodes that were made.
    Ready {
        /// How many nodes were made now.
        made: usize,
        /// Programs that ended with an error: node, program, how, and its last lines.
        troubles: Vec<String>,
    },
    /// It could not be made. Nothing is left of it, unless it is kept.
    Failed {
        /// Why.
        reason: String,
        /// The machine or the user lacks something.
        unsupported: bool,
    },
}
