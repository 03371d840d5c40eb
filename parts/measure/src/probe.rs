//! Several sessions by number: the backend of the API.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, Marking};
use netloom_marking::session::{Configuration, Program};
use netloom_marking::{Colour, Mark, Marks};
use serde::{Deserialize, Serialize};

use crate::lock::lock;
use crate::{
    Between, Error, Interfaces, Measures, Result, Session, SessionId, Setup, Spot, State, TwoWays,
    Wanted, limits, overlap,
};

/// Maximum number of sessions of a probe.
pub const MOST_SESSIONS: usize = 64;

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SessionSummary))]
pub struct Summary {
    /// Its number.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub id: SessionId,
    /// Its state.
    pub state: State,
}

/// Sessions at the interfaces of one host or lab. Dropping it stops all of them.
pub struct Probe {
    name: String,
    clock: Clock,
    interfaces: Arc<dyn Interfaces>,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    by_id: BTreeMap<SessionId, Slot>,
    last: SessionId,
}

/// Entry of a session.
struct Slot {
    /// Maximum memory of the session in bytes.
    takes: u64,
    stage: Stage,
}

#[derive(Clone)]
enum Stage {
    Preparing(Arc<Setup>),
    Prepared(Arc<Session>),
}

impl Stage {
    fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Stage::Preparing(_) => None,
            Stage::Prepared(session) => Some(session),
        }
    }

    fn setup(&self) -> &Setup {
        match self {
            Stage::Preparing(setup) => setup,
            Stage::Prepared(session) => session.setup(),
        }
    }
}

impl Sessions {
    fn all(&self) -> impl Iterator<Item = (SessionId, &Arc<Session>)> {
        self.by_id.iter().filter_map(|(id, slot)| Some((*id, slot.stage.session()?)))
    }

    /// Reserves a number for a new session.
    fn begin(&mut self, takes: u64, setup: Arc<Setup>) -> Result<SessionId> {
        let refused = |reason| Err(Error::TooMany { object: "sessions".to_owned(), reason });
        if self.by_id.len() >= MOST_SESSIONS {
            let reason = format!("there are {MOST_SESSIONS} already: delete one that has ended");
            return refused(reason);
        }
        let taken: u64 = self.by_id.values().map(|slot| slot.takes).sum();
        if taken.saturating_add(takes) > limits::MOST_TOGETHER {
            let mib = |bytes: u64| bytes >> 20;
            return refused(format!(
                "this one may take {} MiB, the others may take {} of {}: delete one that has ended, or \
                 measure fewer flows, at fewer interfaces, or with fewer samples",
                mib(takes),
                mib(taken),
                mib(limits::MOST_TOGETHER)
            ));
        }
        // Numbers are never used again: a late request must not meet another session.
        self.last += 1;
        self.by_id.insert(self.last, Slot { takes, stage: Stage::Preparing(setup) });
        Ok(self.last)
    }
}

impl Probe {
    /// A probe that uses `name` in its records and the TAI clock.
    pub fn new(name: String, interfaces: Arc<dyn Interfaces>) -> Probe {
        Probe { name, clock: Clock::Tai, interfaces, sessions: Mutex::default() }
    }

    /// Replaces the clock: the monotonic one suits points that are all on this machine.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Probe {
        Probe { clock, ..self }
    }

    /// Its name in records.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Prepares a session at both directions of the interfaces that it names, or of all. Interfaces where it
    /// marks mark their egress packets, with double marking if the session defines the second mark; they are
    /// also measured if not named.
    ///
    /// # Errors
    /// [`Error::TooMany`] when there are [`MOST_SESSIONS`], or when all together might take too much memory;
    /// [`Error::Invalid`] when another session that has not ended marks the same packets in the same bits at
    /// the same place; as [`Session::prepare`].
    pub fn create(&self, configuration: Configuration) -> Result<SessionId> {
        let setup = Arc::new(self.setup(configuration)?);
        let takes = limits::takes(&setup, limits::cpus())?;
        // Reserved before the lock is given back: preparing takes long, and others must count this
        // one and see where it marks.
        let id = lock(&self.sessions).begin(takes, Arc::clone(&setup))?;
        let session = self
            .check_marking(id, &setup.configuration)
            .and_then(|()| Session::prepare(Arc::clone(&self.interfaces), Setup::clone(&setup)));
        let mut sessions = lock(&self.sessions);
        match session {
            Ok(session) => {
                let stage = Stage::Prepared(Arc::new(session));
                sessions.by_id.insert(id, Slot { takes, stage });
                Ok(id)
            }
            Err(error) => {
                sessions.by_id.remove(&id);
                Err(error)
            }
        }
    }

    fn setup(&self, configuration: Configuration) -> Result<Setup> {
        let mut netifs = configuration.netifs.clone();
        if netifs.is_empty() {
            netifs = self.interfaces.names()?;
        }
        let marking = &configuration.marking;
        // Marking interfaces are measured, too: without their counts nothing could be compared.
        netifs.extend(marking.iter().cloned());
        let spots = spots(&netifs, marking, marks(&configuration));
        let keep = limits::keep(&configuration, spots.len());
        Ok(Setup { configuration, spots, clock: self.clock, keep, cache: 0, flows: 0 })
    }

    /// Two sessions that mark a packet at one place would corrupt each other's blocks. Of two that are created at the
    /// same time the one with the higher number is refused: it sees the other's reservation.
    fn check_marking(&self, own: SessionId, configuration: &Configuration) -> Result<()> {
        let others: Vec<_> = {
            let sessions = lock(&self.sessions);
            // Copied: comparing filters takes long.
            sessions.by_id.range(..own).map(|(id, slot)| (*id, slot.stage.clone())).collect()
        };
        for (id, other) in others {
            let theirs = other.setup();
            let marking = &configuration.marking;
            let marks =
                |spot: &&Spot| spot.marking != Marking::Off && marking.contains(&spot.netif);
            let Some(spot) = theirs.spots.iter().find(marks) else { continue };
            // Its marks are gone: ended sessions may stay for their results.
            let ended = other.session().is_some_and(|session| session.state() == State::Ended);
            if !ended && overlap::of(configuration, &theirs.configuration) {
                let object = format!("interface {:?}, egress", spot.netif);
                let reason = format!(
                    "session {id} marks packets there that these filters match, too, in the same \
                     bits: one of them can"
                );
                return Err(Error::Invalid { object, reason });
            }
        }
        Ok(())
    }

    /// Ends a session and drops its results.
    ///
    /// # Errors
    /// No such session.
    pub fn delete(&self, id: SessionId) -> Result<()> {
        let session = self.session(id)?;
        // Removed first: `stop` waits for the last block, and the lock must not be held for that.
        lock(&self.sessions).by_id.remove(&id);
        session.stop();
        Ok(())
    }

    /// A session.
    ///
    /// # Errors
    /// No such session.
    pub fn session(&self, id: SessionId) -> Result<Arc<Session>> {
        let found =
            lock(&self.sessions).by_id.get(&id).and_then(|slot| slot.stage.session().cloned());
        found.ok_or(Error::NoSession { id })
    }

    /// All sessions, by number.
    pub fn list(&self) -> Vec<Summary> {
        let sessions = lock(&self.sessions);
        sessions.all().map(|(id, session)| Summary { id, state: session.state() }).collect()
    }

    /// The results of a session, as far as they are kept.
    ///
    /// # Errors
    /// No such session, interface or filter; errors of the kernel.
    pub fn measures(&self, id: SessionId, wanted: &Wanted) -> Result<Measures> {
        Measures::of(&*self.session(id)?, &self.name, id, wanted)
    }

    /// Two interfaces of a session compared.
    ///
    /// # Errors
    /// No such session, interface or filter.
    pub fn two_ways(&self, id: SessionId, between: &Between) -> Result<TwoWays> {
        TwoWays::of(&*self.session(id)?, &self.name, id, between)
    }
}

/// How a marking session marks packets.
fn marks(configuration: &Configuration) -> Marking {
    let write = |marks: &Marks, double| marks.write(0, Mark { colour: Colour::Starter, double });
    let marks = &configuration.marks;
    let twice = write(marks, true) != write(marks, false);
    if configuration.program == Program::Combined && twice {
        Marking::Double
    } else {
        Marking::Single
    }
}

/// Both directions of each interface, once.
fn spots(netifs: &[String], marking: &[String], how: Marking) -> Vec<Spot> {
    let mut seen = BTreeSet::new();
    let mut spots = Vec::new();
    for netif in netifs.iter().filter(|netif| seen.insert(*netif)) {
        let marking = if marking.contains(netif) { how } else { Marking::Off };
        for (direction, marking) in
            [(Direction::Ingress, Marking::Off), (Direction::Egress, marking)]
        {
            spots.push(Spot { netif: netif.clone(), direction, marking });
        }
    }
    spots
}

#[cfg(test)]
mod tests;
