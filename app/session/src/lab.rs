//! A running lab, as far as sessions need it.

use netloom_lab::view::LinkStatus;
use netloom_model::Plan;
use netloom_node::entry::Entry;
use netloom_switch::control::requests::{Answer, Request};

/// What a lab answers; its failures keep their type, as sources of [`Error::Lab`](crate::Error::Lab).
pub type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A running lab.
pub trait Lab {
    /// Its plan as it is now.
    ///
    /// # Errors
    /// The lab does not answer.
    fn plan(&self) -> Outcome<Plan>;

    /// The entry to a node.
    ///
    /// # Errors
    /// There is no such node, or its init has ended.
    fn entry(&self, node: &str) -> Outcome<Entry>;

    /// The entry to the core namespace, which has the ports of switches.
    ///
    /// # Errors
    /// The caller may not enter it.
    fn core(&self) -> Outcome<Entry>;

    /// All links as they are now.
    ///
    /// # Errors
    /// The lab does not answer.
    fn links(&self) -> Outcome<Vec<LinkStatus>>;

    /// Asks a shared-memory switch of the lab.
    ///
    /// # Errors
    /// There is no such switch, or it refuses.
    fn ask_switch(&self, switch: &str, request: &Request) -> Outcome<Answer>;
}
