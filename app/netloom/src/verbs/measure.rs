//! `measure`: loss and delay of the links, switches and nodes between two nodes; or counts at named
//! interfaces.
//!
//! This process does the work: points are BPF programs attached by links, which end with it in any case.
//! `netloom_marking` interprets blocks, `netloom_measure` reads them.

mod asked;
mod book;
mod interfaces;
mod json;
mod places;
mod show;
mod watch;
mod ways;

use std::sync::Arc;

use anyhow::Result;
use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, Marking};
use netloom_measure::{Session, Setup, Spot};

use crate::Usage;
use crate::flags::Measure;
use crate::output::print;
use crate::spaces::Spaces;
use book::Book;
use places::Places;
use watch::Watch;
use ways::Ways;

/// Blocks that a session keeps until they are read here.
const KEEP: usize = 64;

/// `netloom measure`
pub(crate) fn measure(lab: Option<&str>, args: &Measure) -> Result<i32> {
    if let Some(file) = &args.config {
        return interfaces::measure(lab, args, file);
    }
    let [from, to] = args.targets.as_slice() else {
        let words = "measure takes two nodes, or interfaces with --config FILE";
        return Err(Usage(words.to_owned()).into());
    };
    if from == to {
        let words = format!(
            "node {from:?} is named twice; name the one that sends and the one that receives"
        );
        return Err(Usage(words).into());
    }
    let mut spaces = Spaces::of_lab(lab)?;
    let only = match (args.what.ipv4, args.what.ipv6) {
        (true, _) => Some(4),
        (_, true) => Some(6),
        _ => None,
    };
    let ends = ways::Ends::find(&spaces, [from, to], only)?;
    // Check the request before the machine.
    let mut flows = asked::flows(args);
    let pairs: Vec<_> = ends.destinations.iter().map(|address| (*address, *address)).collect();
    asked::configuration(args, &flows, &[(&pairs, false)], None)?;
    netloom_ebpf::feature::measure_supported(Clock::Monotonic)?;
    let ways = Ways::find(&mut spaces, &ends, args.one_way)?;
    if args.what.flows {
        flows = asked::sockets(&spaces, &ways, &args.what.flow)?;
    }
    let packets: Vec<asked::Packets<'_>> =
        ways.all.iter().map(|way| (way.pairs.as_slice(), way.back)).collect();
    let left_out = ways.left_out.as_ref();
    let configuration = asked::configuration(args, &flows, &packets, left_out)?;
    let signals = super::ending()?;
    spaces.enter()?;
    let places = Places::of(&spaces, ways.passages());
    let mut spots: Vec<Spot> = Vec::new();
    let mut book = Book::new(&ways, &flows, |netif, out, marks| {
        spot(&mut spots, netif, out, marks && !args.no_marking)
    });
    let setup = Setup { configuration, spots, clock: Clock::Monotonic, keep: KEEP, cache: 0 };
    let session = Session::prepare(Arc::new(places), setup)?;
    let watch = Watch::start(session, signals)?;
    let mut output = show::Output::new(args, &ways, &flows, probe(&spaces));
    watch.begun();
    let before = aside(&watch, &book)?;
    output.begin(&watch)?;
    watch.each(&spaces, |told| {
        let blocks = book.add(told)?;
        output.block(told, &blocks, &book, &watch)
    })?;
    output.end(&book, &watch)?;
    output.left_out(aside(&watch, &book)?.saturating_sub(before))?;
    ways::note_changes(&spaces, &ways);
    Ok(0)
}

/// Packets that left the nodes so far without being measured.
fn aside(watch: &Watch, book: &Book) -> Result<u64> {
    let counts = book.senders().into_iter().map(|spot| Ok(watch.session.spot(spot)?.1.aside));
    counts.sum()
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

/// The name in records: the lab, or the machine.
fn probe(spaces: &Spaces) -> String {
    let machine = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    spaces.plan().map_or_else(machine, |plan| plan.lab.clone())
}

/// Writes a line of machine-readable output.
fn line(text: &str) -> Result<()> {
    print(&format!("{text}\n"))
}
