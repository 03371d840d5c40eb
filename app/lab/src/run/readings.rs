//! What the lab process knows of its lab while somebody listens to its events; `streaming` reads it.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use netloom_model::plan::NodeId;
use netloom_netlink::{LinkInfo, ManySpaces};
use netloom_sys::namespace;
use rustix::process::Pid;

use crate::metrics::{Earlier, Metrics};
use crate::stage::addresses::Held;
use crate::stage::lab_process::now_ns;
use crate::stage::spaces::{NODES_AT_A_TIME, on_a_thread};
use crate::store::state::State;
use crate::stream::{A_TURN, Kept, Recorder};
use crate::{Error, Result, view};

/// The stream, once somebody has listened.
#[derive(Default)]
pub(crate) struct Streaming {
    pub(super) stream: Mutex<Option<Stream>>,
    /// Held from an exposition until what it hands over is written: a later one must not be replaced by it.
    pub(super) handing_over: Mutex<()>,
}

/// What is known of a lab while it is listened to.
pub(super) struct Stream {
    pub(super) kept: Kept,
    pub(super) recorder: Recorder,
    pub(super) metrics: Metrics,
    /// When the lab was read last.
    pub(super) read: Option<Instant>,
    pub(super) next: Instant,
    pub(super) spaces: Spaces,
    /// What the last reading was of; `None` if all is to be read.
    pub(super) of: Option<Arc<State>>,
    /// What was seen of nodes, by slot.
    pub(super) nodes: Vec<Seen>,
    /// Counters of the interfaces in the core namespace, by index.
    pub(super) core: BTreeMap<u32, view::Traffic>,
    /// How many nodes, and switches, have their turn in this reading.
    pub(super) share: usize,
    /// Which nodes, and which switches, were visited last.
    pub(super) turns: [usize; 2],
}

/// What was seen of a node.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) pid: Option<Pid>,
    pub(super) links: Vec<LinkInfo>,
    pub(super) held: Vec<Held>,
}

impl Stream {
    /// That of a lab whose earlier process left this of its metrics.
    pub(super) fn new(earlier: Earlier) -> Result<Stream> {
        let now = now_ns();
        Ok(Stream {
            kept: Kept::new(now),
            recorder: Recorder::default(),
            metrics: Metrics::after(earlier),
            read: None,
            next: Instant::now(),
            spaces: Spaces::new()?,
            of: None,
            nodes: vec![],
            core: BTreeMap::new(),
            share: A_TURN,
            turns: [0; 2],
        })
    }
}

/// The namespaces of a lab, as a socket knows them.
pub(super) struct Spaces {
    socket: ManySpaces,
    /// Ids, with the inits whose namespaces they are. None is used twice.
    ids: BTreeMap<NodeId, (Pid, i32)>,
    next: i32,
}

impl Spaces {
    fn new() -> Result<Spaces> {
        let object = "the lab's namespaces";
        // The socket keeps the empty namespace of the thread, which ends.
        let socket = on_a_thread(|| {
            namespace::new_network().map_err(Error::of(object, "watch"))?;
            ManySpaces::open().map_err(Error::of(object, "watch"))
        })?;
        Ok(Spaces { socket, ids: BTreeMap::new(), next: 1 })
    }

    /// Makes the namespaces of these inits known, and no others.
    pub(super) fn follow(&mut self, inits: &BTreeMap<NodeId, Pid>) {
        // An init that was replaced has another namespace under the same id.
        self.ids.retain(|id, (pid, _)| inits.get(id) == Some(pid));
        let unknown: Vec<_> = inits.iter().filter(|(id, _)| !self.ids.contains_key(id)).collect();
        for some in unknown.chunks(NODES_AT_A_TIME) {
            let mut fresh = Vec::new();
            for (id, pid) in some {
                // An init that has just ended has no interfaces.
                let Ok(space) = namespace::network_of(**pid) else { continue };
                self.ids.insert(**id, (**pid, self.next));
                fresh.push((self.next, space));
                // Ids of namespaces that ended are never given again: a late answer cannot be mistaken.
                self.next += 1;
            }
            // One that is refused cannot be read by its id, and is visited instead.
            let _ = self.socket.add(fresh.iter().map(|(number, space)| (*number, space.as_fd())));
        }
    }

    /// The interfaces in the namespace of a node or of the core; `None` if they cannot be read.
    pub(super) fn links(&mut self, node: NodeId) -> Option<Vec<LinkInfo>> {
        let (_, number) = self.ids.get(&node)?;
        self.socket.links(*number).ok()
    }
}
