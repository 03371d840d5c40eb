//! Recording a lab: every link into one store, also links that come while it records.
//!
//! The links of the beginning are one capture. What comes later (a new link, a node that was recreated) is found when the
//! lab's stored state changes or a node ends, and is one more capture into the same store. An interface that returns under
//! its name is reopened by its capture. The first capture enters the lab's user namespace, so the store has to be open
//! by then, and later captures find that done.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use netloom_capture::{Ledger, Options, Sink, Target};
use netloom_model::Plan;
use netloom_model::lookup::target;
use netloom_model::plan::{PlannedEnd, PlannedLink};
use netloom_record::{Books, Link, Nodes, Store, with_earlier};
use netloom_sys::process;

use crate::capture::{Capture, Prepared, Wanted, about};
use crate::{Error, Lab, Result, Spaces};

/// Most memory of the rings of the first links together, and bounds of each.
const RINGS: usize = 256 << 20;
const LEAST_RING: usize = 256 << 10;
const MOST_RING: usize = 16 << 20;
/// Most memory for frames on their way to the disk.
const MEMORY: u64 = 256 << 20;
/// The share of these that links have which come later.
const LATER: usize = 16;
/// Pause between looks for links.
const AGAIN: Duration = Duration::from_millis(500);
/// How long a lab's answers may lag behind its stored state.
const SETTLED: Duration = Duration::from_secs(2);

/// Connects to the lab.
pub type Connect = Box<dyn FnMut() -> std::result::Result<Box<dyn Lab>, Refused>>;

/// Why the lab does not answer.
type Refused = Box<dyn std::error::Error + Send + Sync>;

/// A running recorder.
pub struct Recorder {
    store: Arc<Mutex<Store>>,
    connect: Connect,
    /// The lab's stored state, and when it changed last.
    state: PathBuf,
    changed: Option<SystemTime>,
    parts: Vec<Part>,
    /// Of captures that have ended.
    ended: Ledger,
    nodes: Nodes,
    /// The lab's links.
    planned: BTreeSet<String>,
    is_inside: bool,
    trouble: Option<String>,
    /// Links that cannot be recorded.
    unrecorded: Vec<String>,
    /// Whether a link may be missing, and when links were looked for last.
    is_lacking: bool,
    tried: Option<Instant>,
}

/// Links that are captured together.
struct Part {
    capture: Capture,
    links: Vec<Recorded>,
}

/// A link, with the node or core that its frames are taken in; none for a port of a shared-memory switch.
#[derive(Clone)]
struct Recorded {
    link: String,
    at: String,
    init: Option<Arc<OwnedFd>>,
}

impl Recorded {
    fn lives(&self) -> bool {
        self.init.as_ref().is_none_or(|init| !process::has_ended(init.as_fd()))
    }
}

/// Hands frames of a capture to the store.
#[derive(Debug)]
struct ToStore {
    store: Arc<Mutex<Store>>,
    /// The link's number in the store, for each source.
    links: Vec<u32>,
}

impl Sink for ToStore {
    fn take(&mut self, blocks: &[u8]) {
        lock(&self.store).append(blocks, &self.links);
    }
}

fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Starts to record all links. `folder` is the lab's; `is_inside`: this process is in the lab's user namespace already. No
    /// other thread may run yet.
    ///
    /// # Errors
    /// The lab does not answer; a link cannot be captured.
    pub fn start(
        store: Store,
        folder: &Path,
        connect: Connect,
        is_inside: bool,
    ) -> Result<Recorder> {
        let state = folder.join("state.json");
        // A recording that goes on has packets of nodes that may be gone.
        let told = store.folder().status().ok().flatten();
        let mut recorder = Recorder {
            store: Arc::new(Mutex::new(store)),
            connect,
            changed: changed(&state),
            state,
            parts: vec![],
            ended: Ledger::default(),
            nodes: told.map(|told| told.nodes).unwrap_or_default(),
            planned: BTreeSet::new(),
            // What came while it started is found by the first look.
            is_lacking: true,
            tried: None,
            is_inside,
            trouble: None,
            unrecorded: vec![],
        };
        if let Err(error) = recorder.add_missing() {
            if recorder.parts.is_empty() {
                return Err(error);
            }
            // A node that is down, for one: it may come back.
            recorder.trouble = Some(netloom_sys::describe(&error));
            recorder.tried = Some(Instant::now());
        }
        Ok(recorder)
    }

    /// Looks after it, several times a second; returns whether there is anything left to record.
    pub fn look(&mut self) -> bool {
        for part in std::mem::take(&mut self.parts) {
            if part.capture.has_ended() {
                self.end(part);
                self.is_lacking = true;
            } else {
                self.parts.push(part);
            }
        }
        let now = changed(&self.state);
        let is_gone = now.is_none() && self.parts.is_empty();
        // A node that has ended may be recreated without a change of the state.
        let is_dead = |part: &Part| part.links.iter().any(|link| !link.lives());
        self.is_lacking |= now != self.changed || self.parts.iter().any(is_dead);
        let waits = self.tried.is_some_and(|tried| tried.elapsed() < AGAIN);
        if now.is_some() && self.is_lacking && !waits {
            self.tried = Some(Instant::now());
            match self.add_missing() {
                Ok(()) => {
                    (self.changed, self.trouble) = (now, None);
                    // The state is stored a moment before the lab answers by it.
                    let age = now.and_then(|changed| changed.elapsed().ok());
                    self.is_lacking = age.is_some_and(|age| age < SETTLED);
                    // What replaced these is among the links just added.
                    self.parts.iter_mut().for_each(|part| part.links.retain(Recorded::lives));
                }
                // Its state says what is to be before it is: soon the link is there.
                Err(error) => self.trouble = Some(netloom_sys::describe(&error)),
            }
        }
        !is_gone
    }

    /// The links that are recorded.
    pub fn links(&self) -> Vec<String> {
        let all = self.parts.iter().flat_map(|part| &part.links);
        let all = all.filter(|link| link.lives() && self.planned.contains(&link.link));
        all.map(|link| link.link.clone()).collect()
    }

    /// The links that cannot be: no end of them is an interface or a single port of the lab's.
    pub fn unrecorded(&self) -> &[String] {
        &self.unrecorded
    }

    /// Addresses of nodes, also of those that are gone.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Where every frame has gone so far.
    pub fn books(&self) -> Books {
        // First what is known to be stored: more may be seen meanwhile.
        let mut books = lock(&self.store).books();
        let running = self.parts.iter().map(|part| part.capture.pipeline().snapshot().total);
        let total: Ledger = running.chain([self.ended]).sum();
        books.dropped.ring += total.lost.ring;
        books.dropped.memory += total.lost.memory;
        books.dropped.disk += total.lost.disk;
        // Threads publish their counts some times a second, and what has a fate was seen.
        books.seen = total.offered - total.filtered;
        if !self.parts.is_empty() {
            books.seen = books.seen.max(books.known());
        }
        books
    }

    /// Bytes and segments on disk.
    pub fn size(&self) -> (u64, usize) {
        lock(&self.store).size()
    }

    /// What does not work at the moment.
    pub fn trouble(&self) -> Option<String> {
        let of_store = lock(&self.store).trouble().map(str::to_owned);
        of_store.or_else(|| self.trouble.clone())
    }

    /// Ends it: everything is on disk, and the books close.
    pub fn finish(mut self) -> (Books, Store) {
        for part in std::mem::take(&mut self.parts) {
            part.capture.pipeline().stopper().stop();
            self.end(part);
        }
        lock(&self.store).finish();
        let books = self.books();
        let store = Arc::into_inner(self.store).map(Mutex::into_inner);
        // All sinks have ended with their captures.
        let store = store.expect("the only holder").unwrap_or_else(PoisonError::into_inner);
        (books, store)
    }

    /// Whether the lab is gone, or going: its state is not there.
    pub fn lab_is_going(&self) -> bool {
        changed(&self.state).is_none()
    }

    /// Runs `f` with the store.
    pub fn with_store<T>(&self, f: impl FnOnce(&Store) -> T) -> T {
        f(&lock(&self.store))
    }

    fn end(&mut self, part: Part) {
        let report = part.capture.finish();
        self.ended = [self.ended, report.last.total].into_iter().sum();
        if let Some(failure) = report.failure {
            self.trouble = Some(netloom_sys::describe(&failure));
        }
    }

    /// Captures links that are not captured yet.
    fn add_missing(&mut self) -> Result<()> {
        let lab = (self.connect)().map_err(Error::Lab)?;
        let plan = lab.plan().map_err(Error::Lab)?;
        self.nodes = with_earlier(addresses(&plan), &self.nodes);
        self.planned = plan.links.iter().map(|link| link.name.clone()).collect();
        self.unrecorded = unrecorded(&plan);
        let missing = missing(&plan, &self.parts);
        if missing.is_empty() {
            return Ok(());
        }
        let all = self.capture(lab, &missing);
        if all.is_ok() || missing.len() == 1 {
            self.parts.push(all?);
            return Ok(());
        }
        // One that cannot be captured keeps no other from it.
        let mut failed = Ok(());
        for link in missing {
            match (self.connect)().map_err(Error::Lab).and_then(|lab| self.capture(lab, &[link])) {
                Ok(part) => self.parts.push(part),
                Err(error) => failed = Err(error),
            }
        }
        failed
    }

    fn capture(&mut self, lab: Box<dyn Lab>, missing: &[(String, String)]) -> Result<Part> {
        let targets: Vec<String> = missing.iter().map(|(link, _)| format!("link:{link}")).collect();
        let (spaces, found) = Spaces::find(Some(lab), &targets, false)?;
        let name = spaces.plan().map(|plan| plan.lab.clone());
        // Sources are interfaces, then ports of switches.
        let of_points = found.points.iter().map(|point| Recorded {
            link: point.link.clone().unwrap_or_else(|| point.name.clone()),
            at: point.name.clone(),
            init: spaces.init(&point.space),
        });
        let mirrored = missing.iter().filter(|(_, at)| at.starts_with("switch:"));
        let of_mirrors =
            mirrored.map(|(link, at)| Recorded { link: link.clone(), at: at.clone(), init: None });
        let links: Vec<Recorded> = of_points.chain(of_mirrors).collect();
        // What comes later is few links at a time, each with a pipeline.
        let share = if self.parts.is_empty() { 1 } else { LATER };
        let (rings, memory) = (RINGS / share, MEMORY / share as u64);
        // A power of two, and not more than the share: all together stay within their bound.
        let ring = (rings / links.len().max(1)).clamp(LEAST_RING, MOST_RING);
        let wanted = Wanted { ring: 1 << ring.ilog2(), threads: 1, ..Wanted::default() };
        let prepared = Prepared::new((spaces, found), name.as_deref(), wanted, Default::default())?;
        let about = about(prepared.spaces().plan(), "recording");
        let opened = prepared.open_from(&mut self.is_inside)?;
        let numbers = {
            let mut store = lock(&self.store);
            let link = |of: &Recorded| Link { name: of.link.clone(), description: of.at.clone() };
            links.iter().map(|of| store.link(link(of))).collect()
        };
        let sink = ToStore { store: Arc::clone(&self.store), links: numbers };
        let options = Options { about, memory, ..Options::default() };
        let capture = opened.start(options, Target::Sink(Box::new(sink)))?;
        Ok(Part { capture, links })
    }
}

/// Links of a plan that nothing captures, each with where its frames are to be taken.
fn missing(plan: &Plan, parts: &[Part]) -> Vec<(String, String)> {
    let known = |link: &str, at: &str| {
        let mut all = parts.iter().flat_map(|part| &part.links);
        all.any(|known| known.link == link && known.at == at && known.lives())
    };
    let found = plan.links.iter().filter_map(|link| {
        let target = target::resolve(plan, &format!("link:{}", link.name)).ok()?;
        let at = target.points.first().map(|point| point.name.clone()).or_else(|| {
            let mirror = target.mirrors.first()?;
            Some(format!("switch:{}/{}", mirror.switch, mirror.ports.join(",")))
        })?;
        (!known(&link.name, &at)).then(|| (link.name.clone(), at))
    });
    found.collect()
}

/// Links of a plan that nothing can capture.
fn unrecorded(plan: &Plan) -> Vec<String> {
    let is_seen = |name: &str| {
        let target = target::resolve(plan, &format!("link:{name}"));
        target.is_ok_and(|target| !target.points.is_empty() || !target.mirrors.is_empty())
    };
    // One that ends in a node is seen there, or at the port of its card.
    let is_of_node =
        |link: &&PlannedLink| link.ends.iter().any(|end| matches!(end, PlannedEnd::Node { .. }));
    let links = plan.links.iter().filter(|link| !is_of_node(link)).map(|link| &link.name);
    links.filter(|name| !is_seen(name)).cloned().collect()
}

fn addresses(plan: &Plan) -> Nodes {
    let of = |node: &netloom_model::plan::PlannedNode| {
        node.all_addresses().map(|address| address.addr()).collect()
    };
    plan.nodes.iter().map(|node| (node.name.clone(), of(node))).collect()
}

/// When a file changed last; `None` if it is not there.
fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|found| found.modified()).ok()
}

/// How often [`Recorder::look`] is to be called.
pub const LOOK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_nothing_can_capture_are_known() {
        let text = "name: t\nnodes: {a: , b: }\nswitches: {e: {kind: shm}, w: {kind: shm}, k: }\n\
                    links: [[a, e], [e, w], [w, k], [k, b]]\n";
        let lab = netloom_model::parse("t.yaml", text.as_bytes(), "t").unwrap();
        let plan = netloom_model::plan::plan(&lab).unwrap();
        assert_eq!(unrecorded(&plan), ["e--w"]);
    }
}
