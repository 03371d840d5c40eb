//! What a lab process can be asked: the API serves exactly this.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use netloom_measure::Probe;
use netloom_model::Plan;
use netloom_node::entry::Door;
use netloom_node::log::Record;
use netloom_node::ping::Pace;
use netloom_switch::control::requests::{Answer, Request};

use crate::Result;
use crate::view::{
    Changed, Fates, LabStatus, LinkSettings, LinkStatus, MoveInterface, NewLink, NewNode,
    NewSwitch, NodeSettings, NodeStatus, PairReachability, Reachability, Repaired,
};

/// A running lab. All calls may block, and may come from several threads at once.
pub trait Service: Send + Sync + 'static {
    /// How it is now.
    fn status(&self) -> Result<LabStatus>;

    /// How one node is now, as in [`status`](Service::status).
    ///
    /// # Errors
    /// No such node.
    fn node(&self, node: &str) -> Result<NodeStatus>;

    /// How one link is now, as in [`status`](Service::status). `link` is its name, an end of it, `NODE:IFACE`, or both
    /// of its ends, `A,B`.
    ///
    /// # Errors
    /// No such link, or several are meant.
    fn link(&self, link: &str) -> Result<LinkStatus>;

    /// What was made.
    fn plan(&self) -> Arc<Plan>;

    /// Makes nodes anew whose init has ended.
    fn repair(&self) -> Result<Repaired>;

    /// Sends one echo request from every node to every other, in the families asked for (4, 6).
    /// `timeout` bounds the wait for each answer.
    fn ping(&self, families: &[u8], timeout: Duration) -> Result<Reachability>;

    /// Sends echo requests from one node to another, in the families asked for (4, 6) that both have an
    /// address of.
    ///
    /// # Errors
    /// No such node, or its init has ended.
    fn ping_pair(
        &self,
        from: &str,
        to: &str,
        families: &[u8],
        pace: Pace,
    ) -> Result<PairReachability>;

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

    /// Passes a caller's descriptors on to a node's init, which starts a program with them
    /// ([`netloom_node::by_init`]).
    ///
    /// # Errors
    /// No such node, or its init has ended.
    fn run_in(&self, node: &str, fds: &[OwnedFd]) -> Result<()>;

    /// The same for the lab's core namespace, where the ports of its switches are.
    ///
    /// # Errors
    /// Its init has ended; asked from inside a node.
    fn core(&self) -> Result<Door>;

    /// Makes a node. Its name is given back as it is known from here.
    ///
    /// # Errors
    /// The name is taken or cannot be one, the parent may not have more children, a setting is wrong.
    fn create_node(&self, request: &NewNode) -> Result<Changed>;

    /// Removes a node with all nodes in it. Refused while processes or sockets live there, unless
    /// `force`.
    fn delete_node(&self, node: &str, force: bool) -> Result<Changed>;

    /// Changes limits, protection, root of a node.
    fn set_node(&self, node: &str, change: &NodeSettings) -> Result<Changed>;

    /// Moves an interface to another node.
    fn move_interface(&self, request: &MoveInterface) -> Result<Changed>;

    /// Changes what a link does to frames. `link` is its name, or an end of it, `NODE:IFACE`, which
    /// then is the end that sends.
    fn set_link(&self, link: &str, change: &LinkSettings) -> Result<LinkStatus>;

    /// Makes a link between two nodes, or a node and a switch. Its name is given back.
    ///
    /// # Errors
    /// No such end, a name or an address is taken, a setting is wrong.
    fn create_link(&self, request: &NewLink) -> Result<Changed>;

    /// Removes a link with its interfaces.
    ///
    /// # Errors
    /// No such link; it is a door or joins two switches; an interface of it is elsewhere.
    fn delete_link(&self, link: &str) -> Result<Changed>;

    /// Notes the fate of every packet of a link from now on (`keep` of them a direction), or stops
    /// to (`None`).
    fn note_fates(&self, link: &str, keep: Option<usize>) -> Result<()>;

    /// Fates noted in one direction with a sequence number above `after`, at most 4096; waits up to
    /// `wait` for some.
    fn fates(&self, link: &str, end: usize, after: Option<u64>, wait: Duration) -> Result<Fates>;

    /// Makes a switch.
    ///
    /// # Errors
    /// The name is taken or cannot be one, a setting is wrong.
    fn create_switch(&self, request: &NewSwitch) -> Result<Changed>;

    /// Removes a switch. Refused while ports are on it, unless `force`.
    ///
    /// # Errors
    /// No such switch, or a link of the lab ends in it.
    fn delete_switch(&self, switch: &str, force: bool) -> Result<Changed>;

    /// Asks a shared-memory switch.
    ///
    /// # Errors
    /// No such switch, it is of another kind or its process is not there, or it refused.
    fn ask_switch(&self, switch: &str, request: &Request) -> Result<Answer>;

    /// What measures at the lab's interfaces. Its sessions end with the lab.
    ///
    /// # Errors
    /// Asked from inside a node; the lab is being taken down.
    fn probe(&self) -> Result<Arc<Probe>>;

    /// Takes the lab down. Returns when nothing is left but the lab process itself, which ends once
    /// the answer has been given.
    fn down(&self) -> Result<()>;
}
