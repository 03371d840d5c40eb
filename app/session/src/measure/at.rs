//! A measurement at named interfaces, of a lab or of the host: what each counts, without comparison.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use netloom_ebpf::Direction;
use netloom_ebpf::feature::measure_supported;
use netloom_ebpf::measure::{Clock, Marking};
use netloom_marking::session::{Configuration, Program};
use netloom_measure::{ClosedBlock, Session, Setup, Spot};
use netloom_model::lookup::target::{Point, Space, Target};

use super::places::Places;
use super::watch::{Event, Watch};
use super::{KEEP, probe};
use crate::{Error, Result, Spaces};

/// A measurement whose interfaces are found.
pub struct Prepared {
    spaces: Spaces,
    points: Vec<Point>,
    setup: Setup,
}

impl Prepared {
    /// Checks a request to measure at `found` as a configuration says; with `mark`, all of them mark packets.
    ///
    /// # Errors
    /// [`Error::Request`] for a switch, and for an interface that marks and is none of them; [`Error::Unsupported`].
    pub fn new(
        (spaces, found): (Spaces, Target),
        configuration: Configuration,
        mark: bool,
    ) -> Result<Prepared> {
        if let Some(mirrored) = found.mirrors.first() {
            let switch = &mirrored.switch;
            return Err(Error::Request(format!(
                "switch {switch:?}: it is in shared memory; measure at its nodes' interfaces \
                 (a guest with `vhost-user` has none there)"
            )));
        }
        let on_host = found.points.iter().any(|point| point.space == Space::Host);
        // Hosts agree on TAI, which has no leap seconds (ADR 0028).
        let clock = if on_host { Clock::Tai } else { Clock::Monotonic };
        measure_supported(clock)?;
        let spots = spots(&found.points, &configuration, mark)?;
        let setup = Setup { configuration, spots, clock, keep: KEEP, cache: 0, flows: 0 };
        Ok(Prepared { spaces, points: found.points, setup })
    }

    /// Enters the lab's user namespace, if any, before any other thread starts.
    ///
    /// # Errors
    /// [`Error::UserNamespace`].
    pub fn enter(&mut self) -> Result<()> {
        self.spaces.enter()
    }

    /// Starts it; `interrupts` counts the requests to end it, as in [`between`](super::between).
    ///
    /// # Errors
    /// [`Error::Measure`].
    pub fn start(self, interrupts: Arc<AtomicU32>) -> Result<Running> {
        let named = self.points.iter().map(|p| (name(p), &p.space, p.interface.as_str()));
        let places = Arc::new(Places::of(&self.spaces, named));
        let watch = Watch::start(Session::prepare(places, self.setup)?, interrupts)?;
        Ok(Running { spaces: self.spaces, watch })
    }
}

/// An interface's name in records; on the host its own name.
fn name(point: &Point) -> String {
    match point.space {
        Space::Host => point.interface.clone(),
        _ => point.name.clone(),
    }
}

/// Both directions of each interface.
fn spots(points: &[Point], configuration: &Configuration, mark: bool) -> Result<Vec<Spot>> {
    let twice = configuration.program == Program::Combined && configuration.marks.can_double();
    let marks = if twice { Marking::Double } else { Marking::Single };
    let names: Vec<String> = points.iter().map(name).collect();
    if let Some(missing) = configuration.marking.iter().find(|netif| !names.contains(netif)) {
        return Err(Error::Request(format!(
            "marking: {missing:?} is none of the interfaces that are measured at"
        )));
    }
    let spots = names.into_iter().flat_map(|netif| {
        let marking =
            if mark || configuration.marking.contains(&netif) { marks } else { Marking::Off };
        let ingress =
            Spot { netif: netif.clone(), direction: Direction::Ingress, marking: Marking::Off };
        [ingress, Spot { netif, direction: Direction::Egress, marking }]
    });
    Ok(spots.collect())
}

/// A running measurement.
pub struct Running {
    spaces: Spaces,
    watch: Watch,
}

impl Running {
    /// Waits until block 0 begins or an interrupt arrives: everything sent from then on is counted.
    pub fn begin(&self) {
        self.watch.begun();
    }

    /// Passes each closed block to `work`, and returns when there are no more: with the reason, if the session
    /// ended early.
    ///
    /// # Errors
    /// An error of `work`, which ends it; [`Error::Ended`] without any block.
    pub fn each<E: From<Error>>(
        &self,
        mut work: impl FnMut(&ClosedBlock) -> Result<(), E>,
    ) -> Result<Option<String>, E> {
        let are_gone = || self.spaces.are_gone();
        self.watch.each(are_gone, |event| match event {
            Event::Look => Ok(()),
            Event::Closed(told) => work(told),
        })
    }

    /// The session.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The name in records: the lab, or the machine.
    pub fn probe(&self) -> String {
        probe(&self.spaces)
    }
}
