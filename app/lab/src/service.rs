//! What a lab process can be asked: the API serves exactly this.

use std::sync::Arc;
use std::time::Duration;

use netloom_model::Plan;
use netloom_node::entry::Door;
use netloom_node::log::Record;

use crate::Result;
use crate::view::{LabStatus, Reachability, Repaired};

/// A running lab. All calls may block, and may come from several threads at once.
pub trait Service: Send + Sync + 'static {
    /// How it is now.
    fn status(&self) -> Result<LabStatus>;

    /// What was made.
    fn plan(&self) -> Arc<Plan>;

    /// Makes nodes anew whose init has ended.
    fn repair(&self) -> Result<Repaired>;

    /// Sends one echo request from every node to every other, in the families asked for (4, 6).
    /// `timeout` bounds the wait for each answer.
    fn ping(&self, families: &[u8], timeout: Duration) -> Result<Reachability>;

    /// What a node's programs wrote after `after_ns`, waiting up to `wait` for something.
    ///
    /// # Errors
    /// No such node.
    fn log(&self, node: &str, after_ns: u64, wait: Duration) -> Result<Vec<Record>>;

    /// What is needed to enter a node.
    ///
    /// # Errors
    /// No such node, or its init has ended.
    fn door(&self, node: &str) -> Result<Door>;

    /// Takes the lab down. Returns when nothing is left but the lab process itself, which ends once
    /// the answer has been given.
    fn down(&self) -> Result<()>;
}
