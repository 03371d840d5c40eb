//! What the lab process knows of its lab while somebody listens to its events; `streaming` reads it.

use std::collections::{BTreeMap, BTreeSet};
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
use crate::stage::spaces::on_a_thread;
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
    pub(super) fn new(earlier: Earlier) -> Stream {
        let now = now_ns();
        Stream {
            kept: Kept::new(now),
            recorder: Recorder::default(),
            metrics: Metrics::after(earlier),
            read: None,
            next: Instant::now(),
            spaces: Spaces::default(),
            of: None,
            nodes: vec![],
            core: BTreeMap::new(),
            share: A_TURN,
            turns: [0; 2],
        }
    }
}

/// Nodes that share a socket. For each link the kernel looks for the namespace at its other end among all that the socket's own
/// has ids of, one after the other; a socket that knows a thousand makes that the largest part of a reading.
const GROUP: usize = 32;
/// Sockets beyond twice what all nodes need, before those that came one by one are put together.
const SPARE: usize = 8;
/// The first of our ids. The kernel gives others to neighbours by itself, from 0 on, and may give those again.
const FIRST: i32 = 1 << 20;

/// The namespaces of a lab, as sockets know them.
#[derive(Default)]
pub(super) struct Spaces {
    /// By a number that is given once.
    sockets: BTreeMap<usize, ManySpaces>,
    next: usize,
    known: BTreeMap<NodeId, Known>,
}

/// A namespace: the init whose it is, and the socket that knows it by an id.
struct Known {
    pid: Pid,
    socket: usize,
    id: i32,
}

impl Spaces {
    /// Makes the namespaces of these inits known, and no others. Where only some sockets can be opened, the nodes of the rest stay unknown.
    ///
    /// # Errors
    /// Not even one socket can be opened.
    pub(super) fn follow(&mut self, inits: &BTreeMap<NodeId, Pid>) -> Result<()> {
        // An init that was replaced has another namespace.
        self.known.retain(|node, known| inits.get(node) == Some(&known.pid));
        let used: BTreeSet<usize> = self.known.values().map(|known| known.socket).collect();
        self.sockets.retain(|number, _| used.contains(number));
        let needed = |nodes: usize| nodes.div_ceil(GROUP);
        let lacking = needed(inits.len() - self.known.len());
        if self.sockets.len() + lacking > 2 * needed(inits.len()) + SPARE {
            (self.known, self.sockets) = Default::default();
        }
        let unknown = inits.iter().filter(|(node, _)| !self.known.contains_key(node));
        // The core has links to all nodes, and would make all of them known to its neighbours' socket.
        let (core, nodes): (Vec<_>, Vec<_>) =
            unknown.map(|(node, pid)| (*node, *pid)).partition(|(node, _)| *node == NodeId::CORE);
        for some in std::iter::once(&core[..]).chain(nodes.chunks(GROUP)).filter(|s| !s.is_empty())
        {
            match open() {
                Ok(socket) => self.join(socket, some),
                Err(error) if self.sockets.is_empty() => return Err(error),
                // The rest is visited.
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Makes nodes known to a new socket: to none that has been used, since the kernel may have given them ids there.
    fn join(&mut self, mut socket: ManySpaces, nodes: &[(NodeId, Pid)]) {
        let mut fresh = Vec::new();
        for ((node, pid), id) in nodes.iter().zip(FIRST..) {
            // An init that has just ended has no interfaces.
            let Ok(space) = namespace::network_of(*pid) else { continue };
            self.known.insert(*node, Known { pid: *pid, socket: self.next, id });
            fresh.push((id, space));
        }
        // One that is refused cannot be read by its id, and is visited instead.
        let _ = socket.add(fresh.iter().map(|(id, space)| (*id, space.as_fd())));
        self.sockets.insert(self.next, socket);
        self.next += 1;
    }

    /// The interfaces in the namespace of a node or of the core; `None` if they cannot be read.
    pub(super) fn links(&mut self, node: NodeId) -> Option<Vec<LinkInfo>> {
        let known = self.known.get(&node)?;
        self.sockets.get_mut(&known.socket)?.links(known.id).ok()
    }
}

/// A socket that knows no namespace yet. It keeps the empty one of a thread, which ends.
fn open() -> Result<ManySpaces> {
    let object = "the lab's namespaces";
    on_a_thread(|| {
        namespace::new_network().map_err(Error::of(object, "watch"))?;
        ManySpaces::open().map_err(Error::of(object, "watch"))
    })
}
