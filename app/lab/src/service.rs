//! The requests to a lab process: the API serves exactly these.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use netloom_flow::control::requests::{Shown as FlowShown, TraceWhat, Traced};
use netloom_measure::Probe;
use netloom_model::Plan;
use netloom_node::entry::Entry;
use netloom_node::log::Record;
use netloom_node::ping::Pace;
use netloom_slice::control::Shown as Sliced;
use netloom_switch::control::requests::{Answer, Request};

use crate::Result;
use crate::view::{
    Applied, Apply, Changed, Fates, LabStatus, LinkSettings, LinkStatus, MoveInterface, NewLink,
    NewNode, NewSwitch, NodeSettings, NodeStatus, PairReachability, Reachability, Repaired,
};

/// Of both files of a log: its size, and when it was written last, in nanoseconds.
pub type LogMark = [(u64, i128); 2];

/// A running lab. All calls may block, and may come from several threads at once.
pub trait Service: Send + Sync + 'static {
    /// The longest plan that [`apply`](Service::apply) takes, as JSON in bytes; 0 where it takes none.
    fn plan_limit(&self) -> usize;

    /// The current status.
    fn status(&self) -> Result<LabStatus>;

    /// The current status of one node, as in [`status`](Service::status).
    ///
    /// # Errors
    /// No such node.
    fn node(&self, node: &str) -> Result<NodeStatus>;

    /// The current status of one link, as in [`status`](Service::status). `link` is its name, an end, `NODE:IFACE`, or
    /// both ends, `A,B`.
    ///
    /// # Errors
    /// No such link, or several are meant.
    fn link(&self, link: &str) -> Result<LinkStatus>;

    /// The plan.
    fn plan(&self) -> Arc<Plan>;

    /// Recreates nodes whose init has ended, and reverts manual changes made without netloom, unless `keep_drift`.
    fn repair(&self, keep_drift: bool) -> Result<Repaired>;

    /// Sends one echo request from every node to every other, in the requested families (4, 6).
    /// `timeout` bounds the wait for each answer.
    fn ping(&self, families: &[u8], timeout: Duration) -> Result<Reachability>;

    /// Sends echo requests from one node to another, in those of the requested families (4, 6) in which both have
    /// addresses.
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

    /// Output of a node's programs after `after_ns`.
    ///
    /// # Errors
    /// No such node.
    fn log(&self, node: &str, after_ns: u64) -> Result<Vec<Record>>;

    /// The state of a node's log: while it is the same, so is the log. Much cheaper than reading that.
    ///
    /// # Errors
    /// No such node.
    fn log_mark(&self, node: &str) -> Result<LogMark>;

    /// Descriptors for entering a node.
    ///
    /// # Errors
    /// No such node, or its init has ended.
    fn entry(&self, node: &str) -> Result<Entry>;

    /// Passes a caller's descriptors on to a node's init, which starts a program with them
    /// ([`netloom_node::by_init`]).
    ///
    /// # Errors
    /// No such node, or its init has ended.
    fn run_in(&self, node: &str, fds: &[OwnedFd]) -> Result<()>;

    /// The same for the lab's core namespace, where the ports of its switches are.
    ///
    /// # Errors
    /// Its init has ended, or the request comes from inside a node.
    fn core(&self) -> Result<Entry>;

    /// Makes a node. Returns its name as known here.
    ///
    /// # Errors
    /// The name is taken or cannot be one, the parent may not have more children, a setting is wrong.
    fn create_node(&self, request: &NewNode) -> Result<Changed>;

    /// Removes a node with all nodes in it. Refused while processes or sockets live there, unless
    /// `force`.
    fn delete_node(&self, node: &str, force: bool) -> Result<Changed>;

    /// Changes limits, protection, root of a node.
    fn set_node(&self, node: &str, change: &NodeSettings) -> Result<Changed>;

    /// Moves the control plane of a router whose plane is separate to a fresh node.
    fn move_control(&self, node: &str) -> Result<Changed>;

    /// Moves an interface to another node.
    fn move_interface(&self, request: &MoveInterface) -> Result<Changed>;

    /// Changes what a link does to frames. `link` is its name, or an end of it, `NODE:IFACE`, which
    /// then is the end that sends.
    fn set_link(&self, link: &str, change: &LinkSettings) -> Result<LinkStatus>;

    /// Makes a link between two nodes, or a node and a switch. Returns its name.
    ///
    /// # Errors
    /// No such end, a name or an address is taken, a setting is wrong.
    fn create_link(&self, request: &NewLink) -> Result<Changed>;

    /// Removes a link with its interfaces.
    ///
    /// # Errors
    /// No such link; it is a door or joins two switches; an interface of it is elsewhere.
    fn delete_link(&self, link: &str) -> Result<Changed>;

    /// Records the fate of every packet of a link from now on (the last `keep` per direction), or stops
    /// that (`None`).
    fn note_fates(&self, link: &str, keep: Option<usize>) -> Result<()>;

    /// Recorded fates of one direction with a sequence number above `after`, at most 4096.
    fn fates(&self, link: &str, end: usize, after: Option<u64>) -> Result<Fates>;

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

    /// Sends a request to a shared-memory switch.
    ///
    /// # Errors
    /// No such switch, it is of another kind, its process does not run, or it refused.
    fn ask_switch(&self, switch: &str, request: &Request) -> Result<Answer>;

    /// State of an OpenFlow switch.
    ///
    /// # Errors
    /// No such switch, it is of another kind, or its process does not run.
    fn show_openflow(&self, switch: &str) -> Result<FlowShown>;

    /// State of the lab's slices.
    ///
    /// # Errors
    /// The lab has none, or their process does not run.
    fn show_slices(&self) -> Result<Sliced>;

    /// What an OpenFlow switch would do with a frame; nothing is counted or sent.
    ///
    /// # Errors
    /// The same, or the frame is none.
    fn trace_frame(&self, switch: &str, what: &TraceWhat) -> Result<Traced>;

    /// Turns the lab into the one of a file: each part is added, changed, recreated or removed, and the rest not touched.
    ///
    /// # Errors
    /// Why the lab cannot become that while it lives; what the kernel or a node refuses. After the latter the lab stands
    /// in between, and the same request does the rest.
    fn apply(&self, request: Apply) -> Result<Applied>;

    /// The probe for measurements at the lab's interfaces. Its sessions end with the lab.
    ///
    /// # Errors
    /// The request comes from inside a node, or the lab is being taken down.
    fn probe(&self) -> Result<Arc<Probe>>;

    /// Takes the lab down. Returns when nothing is left but the lab process itself, which ends once
    /// the answer has been given.
    fn down(&self) -> Result<()>;
}
