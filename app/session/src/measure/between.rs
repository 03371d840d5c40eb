//! A measurement between two nodes: every hop on the current paths, in both directions.
//!
//! While it runs, it looks for new flows, if asked, and for changes of routes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use netloom_ebpf::Direction;
use netloom_ebpf::feature::measure_supported;
use netloom_ebpf::measure::{Clock, Marking};
use netloom_marking::session::Configuration;
use netloom_measure::{ClosedBlock, Session, Setup, Spot, State, flows_that_fit};

use super::book::{Blocks, Book};
use super::flows::{self, Flow, FlowPorts, Flows, MOST_FLOWS, Method, Packets, REST};
use super::note::Note;
use super::paths::{self, Ends, Paths};
use super::places::Places;
use super::reroutes::{Rerouted, Reroutes};
use super::seek::Seeker;
use super::watch::{Event, Watch};
use super::{KEEP, probe};
use crate::{Error, Lab, Result, Spaces};

/// The measurement between two nodes.
#[derive(Clone, Debug)]
pub struct Request {
    /// The node that sends and the one that receives.
    pub nodes: [String; 2],
    /// Only this family, 4 or 6.
    pub only: Option<u8>,
    /// Only from the first node to the second.
    pub one_way: bool,
    /// Whether packets are marked here; else something else does.
    pub marking: bool,
    /// Which packets.
    pub flows: Flows,
    /// How.
    pub method: Method,
}

/// Flows that may join while it runs, and the kernel memory that all may take.
const LATER: u32 = 64;
const MOST_MEMORY: u64 = 1 << 27;

/// A measurement whose paths are found and whose configuration is valid.
pub struct Prepared {
    /// New paths may lead through other nodes.
    spaces: RefCell<Spaces>,
    ways: Paths,
    flows: Vec<Flow>,
    configuration: Configuration,
    request: Request,
}

impl Prepared {
    /// Finds the paths and the flows; `tell` is called with what is worth knowing.
    ///
    /// # Errors
    /// [`Error::Configuration`] and [`Error::NoAddress`] for requests, [`Error::Unsupported`]; a node that does not
    /// exist, does not answer, or has no route.
    pub fn new(
        lab: Box<dyn Lab>,
        request: &Request,
        tell: &mut dyn FnMut(Note),
    ) -> Result<Prepared> {
        let mut spaces = Spaces::of_lab(lab)?;
        let nodes = [request.nodes[0].as_str(), request.nodes[1].as_str()];
        let ends = Ends::find(&spaces, nodes, request.only)?;
        // Check the request before the machine.
        let mut flows = request.flows.given();
        let pairs: Vec<_> = ends.destinations.iter().map(|address| (*address, *address)).collect();
        flows::configuration(&request.method, &flows, &[(&pairs, false)], None)?;
        measure_supported(Clock::Monotonic)?;
        let ways = Paths::find(&mut spaces, &ends, request.one_way, tell)?;
        if request.flows.connected {
            flows = flows::sockets(&spaces, &ways, &request.flows.each, tell)?;
        }
        let left_out = ways.left_out.as_ref();
        let configuration =
            flows::configuration(&request.method, &flows, &packets(&ways), left_out)?;
        let (spaces, request) = (RefCell::new(spaces), request.clone());
        Ok(Prepared { spaces, ways, flows, configuration, request })
    }

    /// Enters the lab's user namespace, if any, before any other thread starts.
    ///
    /// # Errors
    /// [`Error::UserNamespace`].
    pub fn enter(&mut self) -> Result<()> {
        self.spaces.get_mut().enter()
    }

    /// The paths.
    pub fn ways(&self) -> &Paths {
        &self.ways
    }

    /// The flows.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// The name in records: the lab's.
    pub fn probe(&self) -> String {
        probe(&self.spaces.borrow())
    }

    /// Starts it; `interrupts` counts the requests to end it: the first ends it when the current block is closed, the
    /// second at once.
    ///
    /// # Errors
    /// [`Error::Measure`].
    pub fn start(&self, interrupts: Arc<AtomicU32>) -> Result<Measurement<'_>> {
        let places = Places::of(&self.spaces.borrow(), self.ways.passages());
        let mut spots: Vec<Spot> = Vec::new();
        let book = Book::new(&self.ways, &self.flows, |netif, out, marks| {
            spot(&mut spots, netif, out, marks && self.request.marking)
        });
        let configuration = self.configuration.clone();
        let clock = Clock::Monotonic;
        let mut setup = Setup { configuration, spots, clock, keep: KEEP, cache: 0, flows: 0 };
        let seeker = self.seeker(&mut setup);
        // Before points are attached: what changes from now on is noticed.
        let reroutes = Reroutes::watch(&self.spaces.borrow(), &self.ways, clock.now())?;
        let session = Session::prepare(Arc::new(places), setup)?;
        let watch = Watch::start(session, interrupts)?;
        let flows = self.flows.clone();
        Ok(Measurement { prepared: self, watch, book, flows, seeker, reroutes, before: 0 })
    }

    /// What looks for flows while it runs; makes room for them.
    fn seeker(&self, setup: &mut Setup) -> Option<Seeker> {
        if !self.request.flows.connected {
            return None;
        }
        let known: BTreeSet<FlowPorts> = self.flows.iter().filter_map(Flow::ports).collect();
        let ways = u32::try_from(self.ways.all.len()).unwrap_or(1).max(1);
        let now = u32::try_from(self.flows.len()).unwrap_or(u32::MAX);
        let fitting = flows_that_fit(setup, MOST_MEMORY) / ways;
        let most = u32::try_from(MOST_FLOWS).unwrap_or(u32::MAX);
        // One more than the most: the rest is a flow, too.
        let room = fitting.min(most.saturating_add(1)).saturating_sub(now).min(LATER);
        setup.flows = now.saturating_add(room).saturating_mul(ways);
        Some(Seeker::new(known, usize::try_from(room).unwrap_or(0)))
    }
}

/// The packets of all paths.
fn packets(ways: &Paths) -> Vec<Packets<'_>> {
    ways.all.iter().map(|way| (way.pairs.as_slice(), way.back)).collect()
}

impl Prepared {
    /// Adds flows to a running session and its book; returns their indices and first blocks.
    fn join(
        &self,
        session: &Session,
        (book, flows): (&mut Book, &mut Vec<Flow>),
        found: Vec<FlowPorts>,
    ) -> Result<Vec<(usize, u64)>> {
        let rest = flows.iter().position(|flow| flow.name == REST);
        let Some(rest) = rest.filter(|_| !found.is_empty() && session.state() == State::Running)
        else {
            return Ok(vec![]);
        };
        let packets = packets(&self.ways);
        let mut all = Vec::new();
        let first = flows.len();
        for (index, flow) in (first..).zip(found.into_iter().map(Flow::from)) {
            all.extend(flows::joins(&self.request.method, (&flow, index), rest, &packets)?);
            flows.push(flow);
        }
        let from = match session.join(&all) {
            Ok(from) => from,
            // It ended meanwhile.
            Err(netloom_measure::Error::Order { .. }) => {
                flows.truncate(first);
                return Ok(vec![]);
            }
            Err(error) => return Err(error.into()),
        };
        let joined = first..flows.len();
        joined.clone().for_each(|flow| book.join(flow, from));
        Ok(joined.map(|flow| (flow, from)).collect())
    }
}

/// Index of a spot, added if missing.
fn spot(spots: &mut Vec<Spot>, netif: &str, out: bool, marks: bool) -> usize {
    let direction = if out { Direction::Egress } else { Direction::Ingress };
    let same = |spot: &Spot| spot.netif == netif && spot.direction == direction;
    let index = spots.iter().position(same).unwrap_or_else(|| {
        spots.push(Spot { netif: netif.to_owned(), direction, marking: Marking::Off });
        spots.len() - 1
    });
    if marks {
        spots[index].marking = Marking::Single;
    }
    index
}

/// A running measurement.
pub struct Measurement<'p> {
    prepared: &'p Prepared,
    watch: Watch,
    book: Book,
    /// Those of the start, and those that joined.
    flows: Vec<Flow>,
    seeker: Option<Seeker>,
    reroutes: Reroutes,
    /// Packets that had left without being measured when block 0 began.
    before: u64,
}

/// A closed block of all paths.
#[derive(Clone, Copy)]
pub struct Closed<'m> {
    /// What all points counted.
    pub told: &'m ClosedBlock,
    /// For each entry of the book, the block.
    pub blocks: &'m Blocks,
    /// The book, with this block in it.
    pub book: &'m Book,
    /// The flows.
    pub flows: &'m [Flow],
    /// The session.
    pub watch: &'m Watch,
}

/// What a running measurement tells.
pub enum News<'m> {
    /// A block is closed.
    Closed(Closed<'m>),
    /// A flow appeared, which is measured from this block on.
    Joined {
        /// The flow.
        flow: &'m Flow,
        /// Its first block.
        from: u64,
    },
    /// Packets of a path take another one, or the measured one again.
    Rerouted(Rerouted),
    /// Something else to know.
    Note(Note),
}

impl Measurement<'_> {
    /// Waits until block 0 begins or an interrupt arrives: everything sent from then on is counted.
    ///
    /// # Errors
    /// [`Error::Measure`].
    pub fn begin(&mut self) -> Result<()> {
        self.watch.begun();
        // Points count from the moment they are attached, which is before block 0.
        self.before = self.aside()?;
        Ok(())
    }

    /// Passes each closed block to `work`, and what changes meanwhile, and returns when there are no more: with
    /// the reason, if the session ended early.
    ///
    /// # Errors
    /// An error of `work`, which ends it; [`Error::Ended`] without any block; [`Error::Marking`].
    pub fn each<E: From<Error>>(
        &mut self,
        mut work: impl FnMut(News<'_>) -> Result<(), E>,
    ) -> Result<Option<String>, E> {
        let Measurement { prepared, watch, book, flows, seeker, reroutes, .. } = self;
        let (spaces, ways) = (&prepared.spaces, &prepared.ways);
        let are_gone = || spaces.borrow().are_gone();
        let ended = watch.each(are_gone, |event| {
            let told = match event {
                Event::Closed(told) => told,
                Event::Look => {
                    let (now, schedule) = (watch.now(), &watch.schedule);
                    for change in reroutes.look(&mut spaces.borrow_mut(), ways, schedule, now) {
                        work(News::Rerouted(change))?;
                    }
                    let Some(seeker) = seeker else { return Ok(()) };
                    let (found, note) = seeker.look(&spaces.borrow(), ways, now);
                    note.map_or(Ok(()), |note| work(News::Note(note)))?;
                    let news = prepared.join(&watch.session, (book, flows), found)?;
                    for (flow, from) in news {
                        work(News::Joined { flow: &flows[flow], from })?;
                    }
                    return Ok(());
                }
            };
            let blocks = &book.add(told, |way| reroutes.flawed(way, told.block))?;
            work(News::Closed(Closed { told, blocks, book, flows, watch }))
        });
        reroutes.end();
        ended
    }

    /// The flows: those of the start, and those that joined.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// The session.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// All blocks so far.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// Packets between the nodes since block 0 that were not measured, because of their family.
    ///
    /// # Errors
    /// [`Error::Measure`].
    pub fn left_out(&self) -> Result<u64> {
        Ok(self.aside()?.saturating_sub(self.before))
    }

    /// Links on the paths that got or lost a wire while they were measured: figures of hops next to them cannot be
    /// relied on.
    pub fn rewired(&self) -> Vec<String> {
        paths::rewired(&self.prepared.spaces.borrow(), &self.prepared.ways)
    }

    /// Packets that left the nodes so far without being measured.
    fn aside(&self) -> Result<u64> {
        let senders = self.book.senders().into_iter();
        senders.map(|spot| Ok(self.watch.session.spot(spot)?.1.aside)).sum()
    }
}
