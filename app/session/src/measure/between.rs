//! A measurement between two nodes: every hop on the current paths, in both directions.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use netloom_ebpf::Direction;
use netloom_ebpf::feature::measure_supported;
use netloom_ebpf::measure::{Clock, Marking};
use netloom_marking::session::Configuration;
use netloom_measure::{Session, Setup, Spot, Told};

use super::book::{Blocks, Book};
use super::flows::{self, Flow, Flows, Method, Packets};
use super::note::Note;
use super::paths::{self, Ends, Paths};
use super::places::Places;
use super::watch::Watch;
use super::{KEEP, probe};
use crate::{Error, Lab, Result, Spaces};

/// What is measured between two nodes.
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

/// A measurement whose paths are found and whose configuration is valid.
pub struct Prepared {
    spaces: Spaces,
    ways: Paths,
    flows: Vec<Flow>,
    configuration: Configuration,
    marking: bool,
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
        let packets: Vec<Packets<'_>> =
            ways.all.iter().map(|way| (way.pairs.as_slice(), way.back)).collect();
        let left_out = ways.left_out.as_ref();
        let configuration = flows::configuration(&request.method, &flows, &packets, left_out)?;
        Ok(Prepared { spaces, ways, flows, configuration, marking: request.marking })
    }

    /// Enters the lab's user namespace, if any, before any other thread starts.
    ///
    /// # Errors
    /// [`Error::UserNamespace`].
    pub fn enter(&mut self) -> Result<()> {
        self.spaces.enter()
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
        probe(&self.spaces)
    }

    /// Starts it; `interrupts` counts the requests to end it: the first ends it when the current block is closed, the
    /// second at once.
    ///
    /// # Errors
    /// [`Error::Measure`].
    pub fn start(&self, interrupts: Arc<AtomicU32>) -> Result<Measurement<'_>> {
        let places = Places::of(&self.spaces, self.ways.passages());
        let mut spots: Vec<Spot> = Vec::new();
        let book = Book::new(&self.ways, &self.flows, |netif, out, marks| {
            spot(&mut spots, netif, out, marks && self.marking)
        });
        let configuration = self.configuration.clone();
        let setup = Setup { configuration, spots, clock: Clock::Monotonic, keep: KEEP, cache: 0 };
        let session = Session::prepare(Arc::new(places), setup)?;
        let watch = Watch::start(session, interrupts)?;
        Ok(Measurement { prepared: self, watch, book, before: 0 })
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
    /// Packets that had left without being measured when block 0 began.
    before: u64,
}

/// A closed block of all paths.
#[derive(Clone, Copy)]
pub struct Closed<'m> {
    /// What all points counted.
    pub told: &'m Told,
    /// For each entry of the book, the block.
    pub blocks: &'m Blocks,
    /// The book, with this block in it.
    pub book: &'m Book,
    /// The session.
    pub watch: &'m Watch,
}

impl Measurement<'_> {
    /// Waits until block 0 begins or an interrupt arrives: everything sent from then on is counted.
    ///
    /// # Errors
    /// [`Error::Measure`].
    pub fn begin(&mut self) -> Result<()> {
        self.watch.begun();
        self.before = self.aside()?;
        Ok(())
    }

    /// Passes each closed block to `work`, and returns when there are no more: with the reason, if the session
    /// ended early.
    ///
    /// # Errors
    /// An error of `work`, which ends it; [`Error::Ended`] without any block; [`Error::Marking`].
    pub fn each<E: From<Error>>(
        &mut self,
        mut work: impl FnMut(Closed<'_>) -> Result<(), E>,
    ) -> Result<Option<String>, E> {
        let (watch, book) = (&self.watch, &mut self.book);
        watch.each(&self.prepared.spaces, |told| {
            let blocks = &book.add(told)?;
            work(Closed { told, blocks, book, watch })
        })
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
        paths::rewired(&self.prepared.spaces, &self.prepared.ways)
    }

    /// Packets that left the nodes so far without being measured.
    fn aside(&self) -> Result<u64> {
        let senders = self.book.senders().into_iter();
        senders.map(|spot| Ok(self.watch.session.spot(spot)?.1.aside)).sum()
    }
}
