//! Client for calls to a running lab from another process.
//!
//! Calls block. They run on a runtime inside the calling thread and start no thread, so that the caller may
//! fork afterwards. Each call uses its own connection, so it notices a lab that ended or restarted since the
//! last call. A call ends by its timeout or with the lab process. The exchange itself is in `exchange`.

mod exchange;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use axum::http::Method;
use netloom_flow::control::requests::{Shown, TraceWhat, Traced};
use netloom_lab::view::{
    Applied, Apply, Changed, Fates, LabStatus, LinkSettings, LinkStatus, MoveInterface, NewLink,
    NewNode, NewSwitch, NodeSettings, NodeStatus, PairReachability, Reachability, Repaired,
};
use netloom_model::Plan;
use netloom_node::entry::Entry;
use netloom_node::log::Record;
use netloom_node::ping::Pace;
use netloom_slice::control::Shown as Sliced;
use netloom_switch::control::requests;
use netloom_sys::{Failure, process, scm};
use tokio::runtime::{Builder, Runtime};

use self::exchange::Call;
use crate::change::Noting;
use crate::entry::Asked;
use crate::handles::Ask;
use crate::routes::Ended;
use crate::{API_SOCKET, Result, entry};

/// Timeout of quick calls.
const QUICK: Duration = Duration::from_secs(60);

/// Timeout of calls that make or remove objects, or test everything.
const WHOLE: Duration = Duration::from_secs(600);

/// Timeout of taking a lab down; after that it is taken down without the lab process.
const DOWN: Duration = Duration::from_secs(120);

/// Delay before the first check whether the lab process answers at all, and between checks.
const LOOK: Duration = Duration::from_millis(500);

/// How long a lab process may answer nothing at all: a stopped one, and any other.
const STOPPED: Duration = Duration::from_secs(3);
const SILENT: Duration = Duration::from_secs(30);

/// A running lab.
#[derive(Debug)]
pub struct Client {
    folder: PathBuf,
    socket: PathBuf,
    /// Made by the first call over HTTP; entering a node needs none.
    runtime: OnceLock<Runtime>,
    bounded: bool,
    tell: Option<fn(Option<i32>)>,
}

impl Client {
    /// A client of the lab whose state is in `folder`, after checking that it listens.
    ///
    /// # Errors
    /// [`crate::Error::NotRunning`] when nobody listens there, [`crate::Error::Stranger`] when another user does.
    pub fn connect(folder: &Path) -> Result<Client> {
        let path = folder.join(API_SOCKET);
        drop(Self::open(folder, &path)?);
        let runtime = OnceLock::new();
        Ok(Client { folder: folder.to_owned(), socket: path, runtime, bounded: true, tell: None })
    }

    fn runtime(&self) -> Result<&Runtime> {
        if let Some(made) = self.runtime.get() {
            return Ok(made);
        }
        let made = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::of("client", "make runtime"))?;
        Ok(self.runtime.get_or_init(|| made))
    }

    /// Makes the client check during calls whether the lab process answers at all. After about a second of
    /// silence it calls `tell` with the process's pid, if visible; later the call ends with
    /// [`crate::Error::Silent`].
    pub fn telling(mut self, tell: fn(Option<i32>)) -> Client {
        self.tell = Some(tell);
        self
    }

    /// Makes calls wait as long as the lab process lives.
    pub fn without_timeout(mut self) -> Client {
        self.bounded = false;
        self
    }

    /// A pidfd of the lab process, to wait for its end; `None` when the process is not visible from here or
    /// has just ended.
    ///
    /// # Errors
    /// [`crate::Error::NotRunning`] when nobody listens.
    pub fn process(&self) -> Result<Option<OwnedFd>> {
        let socket = Self::open(&self.folder, &self.socket)?;
        Ok(scm::peer_pid(&socket).and_then(|pid| process::pidfd(pid).ok()))
    }

    /// Current state of the lab.
    pub fn status(&self) -> Result<LabStatus> {
        self.json(&Call::new(Method::GET, "/v1/lab", QUICK))
    }

    /// The lab's plan.
    pub fn plan(&self) -> Result<Plan> {
        self.json(&Call::new(Method::GET, "/v1/lab/plan", QUICK))
    }

    /// State of a node.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 404 when there is no such node.
    pub fn node(&self, node: &str) -> Result<NodeStatus> {
        let uri = format!("/v1/nodes/{}", encoded(node));
        self.json(&Call::new(Method::GET, uri, QUICK))
    }

    /// Recreates nodes whose init has ended, and reverts manual changes made without netloom, unless `keep_drift`.
    pub fn repair(&self, keep_drift: bool) -> Result<Repaired> {
        let uri = format!("/v1/lab/repair?keep_drift={keep_drift}");
        self.json(&Call::new(Method::POST, uri, WHOLE))
    }

    /// Takes the lab down; returns when only the lab process is left, which then ends.
    pub fn down(&self) -> Result<()> {
        self.json(&Call::new(Method::DELETE, "/v1/lab", DOWN)).map(|_: Ended| ())
    }

    /// Sends an echo request from every node to every other in these families (4, 6), and waits up to
    /// `timeout` (1 ms to 60 s) for each answer.
    pub fn ping(&self, families: &[u8], timeout: Duration) -> Result<Reachability> {
        let families: Vec<String> = families.iter().map(u8::to_string).collect();
        let uri = format!(
            "/v1/lab/ping?family={}&timeout_ms={}",
            families.join(","),
            timeout.as_millis()
        );
        self.json(&Call::new(Method::POST, uri, WHOLE))
    }

    /// Sends echo requests from one node to another, in those of these families (4, 6) of which both have an
    /// address: 1 to 1000 requests, up to a second apart, with up to 60 s for each answer.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 404 when there is no such node, 409 when its init has ended.
    pub fn ping_pair(
        &self,
        from: &str,
        to: &str,
        families: &[u8],
        pace: Pace,
    ) -> Result<PairReachability> {
        let families: Vec<String> = families.iter().map(u8::to_string).collect();
        let uri = format!(
            "/v1/nodes/{}/ping?to={}&family={}&count={}&interval_ms={}&timeout_ms={}",
            encoded(from),
            encoded(to),
            families.join(","),
            pace.count,
            pace.interval.as_millis(),
            pace.timeout.as_millis()
        );
        let takes = 2 * (pace.interval.saturating_mul(pace.count) + pace.timeout);
        self.json(&Call::new(Method::POST, uri, WHOLE + takes))
    }

    /// Output of a node's programs after this Unix time in nanoseconds. Waits up to `wait` (at most 60 s) for
    /// some; empty when there was none.
    pub fn node_log(&self, node: &str, after_ns: u64, wait: Duration) -> Result<Vec<Record>> {
        let uri = format!(
            "/v1/nodes/{}/log?after_ns={after_ns}&wait_ms={}",
            encoded(node),
            wait.as_millis()
        );
        self.json(&Call::new(Method::GET, uri, QUICK + wait))
    }

    /// Makes a node; returns when it is ready.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 400 for an invalid name or setting, 404 when there is no such parent,
    /// 409 when the name is taken or the parent may not have more nodes.
    pub fn create_node(&self, request: &NewNode) -> Result<Changed> {
        self.json(&Call::new(Method::POST, "/v1/nodes", WHOLE).with(request))
    }

    /// Removes a node with all nodes in it.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 404 when there is no such node, 409 when processes or sockets live
    /// there and `force` is not set.
    pub fn delete_node(&self, node: &str, force: bool) -> Result<Changed> {
        let uri = format!("/v1/nodes/{}?force={force}", encoded(node));
        self.json(&Call::new(Method::DELETE, uri, WHOLE))
    }

    /// Changes limits, protection or root of a node.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 400 for an invalid setting, 404 when there is no such node.
    pub fn set_node(&self, node: &str, change: &NodeSettings) -> Result<Changed> {
        let uri = format!("/v1/nodes/{}", encoded(node));
        self.json(&Call::new(Method::PATCH, uri, WHOLE).with(change))
    }

    /// Moves the control plane of a router whose plane is separate to a fresh node.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 404 when there is no such node, 400 when it has no such plane.
    pub fn move_control(&self, node: &str) -> Result<Changed> {
        let uri = format!("/v1/nodes/{}/move-control", encoded(node));
        self.json(&Call::new(Method::POST, uri, WHOLE))
    }

    /// Moves an interface to another node.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 404 when there is no such node or interface.
    pub fn move_interface(&self, request: &MoveInterface) -> Result<Changed> {
        self.json(&Call::new(Method::POST, "/v1/interfaces/move", WHOLE).with(request))
    }

    /// State of a link, given by its name or an end of it, `NODE:IFACE`.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 404 when there is none.
    pub fn link(&self, link: &str) -> Result<LinkStatus> {
        self.json(&Call::new(Method::GET, format!("/v1/links/{}", encoded(link)), QUICK))
    }

    /// Makes a link; returns when it carries frames.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 400 for an unusable end or setting, 404 when there is no such node.
    pub fn create_link(&self, request: &NewLink) -> Result<Changed> {
        self.json(&Call::new(Method::POST, "/v1/links", WHOLE).with(request))
    }

    /// Turns the lab into the one of a file.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 400 when the lab cannot become that while it lives, 409 when other steps are
    /// needed than the expected ones, or when it stands in between: then the same call does the rest.
    pub fn apply(&self, request: &Apply) -> Result<Applied> {
        self.json(&Call::new(Method::POST, "/v1/lab/apply", WHOLE).with(request))
    }

    /// Removes a link.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 404 when there is no such link, 400 when it cannot be removed.
    pub fn delete_link(&self, link: &str) -> Result<Changed> {
        self.json(&Call::new(Method::DELETE, format!("/v1/links/{}", encoded(link)), WHOLE))
    }

    /// Changes a link's impairments; the link is given by its name or the sending end.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 400 for an invalid setting, 404 when there is no such link.
    pub fn set_link(&self, link: &str, change: &LinkSettings) -> Result<LinkStatus> {
        let uri = format!("/v1/links/{}", encoded(link));
        self.json(&Call::new(Method::PATCH, uri, WHOLE).with(change))
    }

    /// Records the fate of every packet of a link from now on, keeping the last `keep` (at most 1,000,000)
    /// per direction; `None` or 0 stops it.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 404 when there is no such link.
    pub fn note_fates(&self, link: &str, keep: Option<usize>) -> Result<()> {
        let uri = format!("/v1/links/{}/fates?keep={}", encoded(link), keep.unwrap_or(0));
        self.json(&Call::new(Method::PUT, uri, WHOLE)).map(|_: Noting| ())
    }

    /// Recorded fates of packets that one end (0 or 1) sent, with a sequence number above `after`, at most
    /// 4096. Waits up to `wait` (at most 60 s) for some; empty when there were none.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 404 when there is no such link.
    pub fn fates(
        &self,
        link: &str,
        end: usize,
        after: Option<u64>,
        wait: Duration,
    ) -> Result<Fates> {
        let after = after.map_or_else(String::new, |n| format!("&after={n}"));
        let (link, wait_ms) = (encoded(link), wait.as_millis());
        let uri = format!("/v1/links/{link}/fates?end={end}{after}&wait_ms={wait_ms}");
        self.json(&Call::new(Method::GET, uri, QUICK + wait))
    }

    /// Makes a switch; returns when ports may join.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 400 for an invalid name or setting, 409 when the name is taken.
    pub fn create_switch(&self, request: &NewSwitch) -> Result<Changed> {
        self.json(&Call::new(Method::POST, "/v1/switches", WHOLE).with(request))
    }

    /// Removes a switch.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 404 when there is no such switch, 409 when it has ports and `force` is
    /// not set.
    pub fn delete_switch(&self, switch: &str, force: bool) -> Result<Changed> {
        let uri = format!("/v1/switches/{}?force={force}", encoded(switch));
        self.json(&Call::new(Method::DELETE, uri, WHOLE))
    }

    /// State of an OpenFlow switch.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 404 when there is no such switch, 400 when it is of another kind, 409 when
    /// its process does not run.
    pub fn show_openflow(&self, switch: &str) -> Result<Shown> {
        let uri = format!("/v1/switches/{}/openflow", encoded(switch));
        self.json(&Call::new(Method::GET, uri, QUICK))
    }

    /// State of the lab's slices.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 400 when the lab has none, 409 when their process does not run.
    pub fn show_slices(&self) -> Result<Sliced> {
        self.json(&Call::new(Method::GET, "/v1/slices".to_owned(), QUICK))
    }

    /// What an OpenFlow switch would do with a frame.
    ///
    /// # Errors
    /// The same, and 400 when the frame is none.
    pub fn trace_frame(&self, switch: &str, what: &TraceWhat) -> Result<Traced> {
        let uri = format!("/v1/switches/{}/trace", encoded(switch));
        self.json(&Call::new(Method::POST, uri, QUICK).with(what))
    }

    /// Sends a request to a shared-memory switch.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 404 when there is no such switch, 400 when it refuses, 409 when its
    /// process is not running at the moment.
    pub fn ask_switch(
        &self,
        switch: &str,
        request: &requests::Request,
    ) -> Result<requests::Answer> {
        let uri = format!("/v1/switches/{}/requests", encoded(switch));
        self.json(&Call::new(Method::POST, uri, QUICK).with(request))
    }

    /// The entry to a node: everything needed to enter it.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 404 when there is no such node, 409 when its init has ended.
    pub fn entry(&self, node: &str) -> Result<Entry> {
        let question = Ask { node: Some(node.to_owned()), run: false };
        self.ask(&question, &[])?.entry()
    }

    /// Passes descriptors to the init of a node, which starts a program with them
    /// ([`netloom_node::by_init::Call`]).
    ///
    /// # Errors
    /// As [`Client::entry`].
    pub fn run_in(&self, node: &str, fds: &[BorrowedFd<'_>]) -> Result<()> {
        let question = Ask { node: Some(node.to_owned()), run: true };
        self.ask(&question, fds)?.passed()
    }

    /// The entry to the core namespace, which contains the ports of switches.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 409 from inside a node.
    pub fn core(&self) -> Result<Entry> {
        self.ask(&Ask { node: None, run: false }, &[])?.entry()
    }

    /// If this takes long, checks whether the lab process answers at all, as every call does.
    fn ask(&self, question: &Ask, given: &[BorrowedFd<'_>]) -> Result<Asked> {
        let asked = entry::ask(&self.folder, question, given)?;
        if !asked.is_answered(LOOK) {
            self.runtime()?.block_on(async {
                tokio::select! {
                    answered = asked.answered() => answered,
                    silent = self.watch() => Err(silent),
                }
            })?;
        }
        Ok(asked)
    }
}

/// A path segment, with all but unreserved characters as `%XX` (RFC 3986, section 2).
fn encoded(segment: &str) -> String {
    let mut text = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn segments_keep_only_unreserved_characters() {
        assert_eq!(encoded("h1.lab-2_x~"), "h1.lab-2_x~");
        assert_eq!(encoded("a/b?c%d e#é"), "a%2Fb%3Fc%25d%20e%23%C3%A9");
    }
}
