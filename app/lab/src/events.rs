//! Events that the lab process reports to its maker, the command that started it.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Service;

/// Starts the server of a running lab; the returned value is kept until the lab process ends.
pub(crate) type Serve =
    fn(&Path, Arc<dyn Service>) -> std::result::Result<Box<dyn std::any::Any + Send>, String>;

/// What a maker answers to [`Event::Prepared`] when the lab may go on.
pub(crate) const GO: &[u8] = b"g";

/// An event while a lab comes up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Progress of one step.
    Progress {
        /// `nodes`, `links`, `programs` or `exec`.
        what: String,
        /// How many are done.
        done: usize,
        /// Of how many.
        total: usize,
    },
    /// A part of a lab is made: it waits for its maker's word, or the end of the connection, before programs start.
    Prepared,
    /// The lab is up.
    Ready {
        /// The number of nodes made now.
        made: usize,
        /// Programs that ended with an error: node, program, cause, and its last lines.
        troubles: Vec<String>,
        /// Commands of `exec` that failed and may, in the same form.
        #[serde(default)]
        notes: Vec<String>,
    },
    /// It could not be made. Nothing is left of it, unless it is kept.
    Failed {
        /// The reason.
        reason: String,
        /// The machine or the user lacks something.
        unsupported: bool,
    },
}
