//! Forwarding in the kernel among ports that are interfaces: results of this switch's rules and of its ports' tables, kept in
//! BPF programs.
//!
//! Nothing is decided there. A frame without a result takes its way through the rings, and the programs tell how it began.
//! If its sender knows where its destination is, its receiver knows where its source is, both are interfaces, and nobody
//! else is to have it ([`direct`]), then it is a result for frames with the same addresses, type and tag. Each change of
//! rules, mirror sessions and ports, and each station that moves, ends all results before anything else happens.
//! Stations whose frames programs forward are told to their receivers now and then, which see none of these frames and
//! would forget them.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use netloom_bridge::{Mac, Mirrors, SwitchRules, Vid, classify, direct};
use netloom_ebpf::flow::{Carried, Entry, Flow, List, Options, one_tag_at_most};
use netloom_pipeline::FlowKey;
use netloom_shm::inbox::{self, PeerInbox};
use netloom_sys::{Failure, namespace};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::error::SWITCH;
use crate::notices::Hint;

/// Results at a time: those for which the programs have memory from the start.
const RESULTS: u32 = 4096;

/// Bytes of the ring of notices: it holds a thousand, and a port has a rate.
const RING: u32 = 1 << 18;

/// Notices in a turn.
const TURN: usize = 64;

/// Interval at which results are looked through.
const LOOK: Duration = Duration::from_secs(10);

/// After how many looks a result that forwarded nothing ends.
const IDLE: u8 = 6;

/// Seconds after which a port forgets a silent station.
const AGEING: u32 = 300;

/// A request about the plane: only the process that started the switch makes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum PlaneRequest {
    /// The kernel's numbers of the programs. Answered by `programs`.
    PlanePrograms,
    /// Ports are interfaces at which the programs are. Answered by `done`.
    PlanePorts(Vec<PlanePort>),
    /// Ports are none any more. Answered by `done`.
    PlaneGone {
        /// Their names on the switch.
        names: Vec<String>,
    },
}

/// A port that is an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlanePort {
    /// Its name on the switch.
    pub name: String,
    /// Its number for the programs, 1 to 255.
    pub number: u32,
    /// The index of its interface.
    pub interface: u32,
    /// Another port had the number.
    pub fresh: bool,
}

/// The answer to a request about the plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlaneAnswer {
    /// The programs; none if the switch has no plane.
    Programs(Option<[u32; 2]>),
    /// Done.
    Done,
}

/// Where a port is for the programs.
#[derive(Clone, Debug)]
struct Place {
    name: String,
    interface: u32,
}

/// A result that is kept.
#[derive(Clone, Copy, Debug)]
struct Kept {
    key: FlowKey,
    from: u8,
    to: u8,
    vid: Option<Vid>,
    source: Mac,
    destination: Mac,
    /// When it was used, as last seen, and looks since then.
    used: u64,
    idle: u8,
}

/// How a frame without a result began.
pub(crate) struct Notice {
    port: u32,
    key: FlowKey,
    start: Vec<u8>,
}

/// Ports as the switch has them.
pub(crate) trait Ports {
    /// The number of a connected port by its name.
    fn number(&self, name: &str) -> Option<u8>;
    /// The name of a connected port.
    fn name(&self, number: u8) -> Option<&str>;
    /// What a connected port shows of itself.
    fn inbox(&self, number: u8) -> Option<&PeerInbox>;
}

/// The programs of a switch, and what they keep.
pub struct Plane {
    flow: Flow,
    /// By the number that programs have.
    places: BTreeMap<u32, Place>,
    kept: HashMap<u32, Kept>,
    slots: HashMap<FlowKey, u32>,
    next: u32,
    looked: Instant,
}

impl Plane {
    /// Loads the programs in the network namespace of the ports, or takes over those of an earlier process, which are at one of
    /// these pairs of interface and tap. The calling thread stays in the namespace.
    ///
    /// # Errors
    /// What the kernel or the user lacks.
    pub fn open(space: OwnedFd, ports: &[(u32, u32)]) -> Result<Plane> {
        namespace::enter_network(space).map_err(Failure::of(SWITCH, "enter its ports' network"))?;
        let failed = |e| Failure::new(SWITCH, "forward in the kernel", std::io::Error::other(e));
        // An interface that is gone cannot be asked, and programs of another version do not help.
        let found = ports.iter().find_map(|at| Flow::reopen_beside(*at).ok().flatten());
        let made = || {
            Flow::create(&Options {
                ports: 1024,
                results: RESULTS,
                operations: RESULTS,
                ring: RING,
                beside: true,
            })
        };
        let flow = found.map_or_else(made, Ok).map_err(failed)?;
        let mut plane = Plane {
            flow,
            places: BTreeMap::new(),
            kept: HashMap::new(),
            slots: HashMap::new(),
            next: 0,
            looked: Instant::now(),
        };
        // Stations may have moved while nobody was told.
        plane.end_unseen();
        Ok(plane)
    }

    /// Carries out a request.
    pub(crate) fn obey(&mut self, request: PlaneRequest) -> Result<PlaneAnswer> {
        match request {
            PlaneRequest::PlanePrograms => {
                let failed = |e| Failure::new(SWITCH, "ask for programs", std::io::Error::other(e));
                let ids = self.flow.programs().map_err(failed)?;
                Ok(PlaneAnswer::Programs(Some(ids)))
            }
            PlaneRequest::PlaneGone { names } => {
                self.end_all();
                self.places.retain(|_, place| !names.contains(&place.name));
                Ok(PlaneAnswer::Done)
            }
            PlaneRequest::PlanePorts(ports) => {
                self.end_all();
                for PlanePort { name, number, interface, fresh } in ports {
                    self.places.retain(|_, place| place.name != name);
                    if fresh {
                        self.flow.clear_carried(number);
                    }
                    self.places.insert(number, Place { name, interface });
                }
                Ok(PlaneAnswer::Done)
            }
        }
    }

    /// Ends all results. When it returns, no frame is treated by one. Without any it costs nothing: a port whose stations
    /// move all the time tells of each.
    pub(crate) fn end_all(&mut self) {
        if !self.kept.is_empty() {
            self.end_unseen();
        }
    }

    /// The same, also of results that another process kept.
    fn end_unseen(&mut self) {
        self.flow.set_generation(self.flow.generation() + 1);
        self.kept.clear();
        self.slots.clear();
    }

    /// Readable while there are notices.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.flow.upcalls_fd()
    }

    /// The next notices.
    pub(crate) fn notices(&mut self) -> Vec<Notice> {
        let mut all = Vec::new();
        self.flow.upcalls().receive(TURN, &mut |told| {
            if let Some(key) = told.key {
                all.push(Notice { port: told.port, key, start: told.frame.to_vec() });
            }
        });
        all
    }

    /// Keeps a result for frames like this one, if there is one.
    pub(crate) fn learn(
        &mut self,
        notice: &Notice,
        rules: (&SwitchRules, &Mirrors),
        ports: &dyn Ports,
    ) {
        let Some((kept, list)) = self.result(notice, rules, ports) else { return };
        // More than one frame may have been told of before the result was there.
        if self.slots.contains_key(&kept.key) {
            return;
        }
        let slot = self.next % self.flow.room().max(1);
        self.next = self.next.wrapping_add(1);
        self.end(slot);
        let (key, mask) = (&notice.key, &Flow::bridged_mask());
        let generation = self.flow.generation();
        let entry = Entry { slot, generation, key, mask, list: &list };
        if self.flow.install(&entry).unwrap_or(false) {
            self.slots.insert(kept.key, slot);
            self.kept.insert(slot, kept);
        }
    }

    fn result(
        &self,
        notice: &Notice,
        (rules, mirrors): (&SwitchRules, &Mirrors),
        ports: &dyn Ports,
    ) -> Option<(Kept, List)> {
        let from = ports.number(&self.places.get(&notice.port)?.name)?;
        let (source, destination) = (Mac::source(&notice.start)?, Mac::destination(&notice.start)?);
        let vid = classify(rules, from.into(), &notice.start).ok()?.vid;
        let to = station(ports.inbox(from)?, vid, destination)?;
        let (number, interface) = self.place(ports.name(to)?)?;
        let found = direct(rules, mirrors, from.into(), to.into(), &notice.start)?;
        let kept = Kept {
            key: notice.key.masked(&Flow::bridged_mask()),
            from,
            to,
            vid,
            source,
            destination,
            used: 0,
            idle: 0,
        };
        if !one_tag_at_most(&notice.key, &notice.start) || !is_known(&kept, rules, ports) {
            return None;
        }
        Some((kept, List::retagged(found.how, (interface, number))?))
    }

    fn place(&self, name: &str) -> Option<(u32, u32)> {
        let found = self.places.iter().find(|(_, place)| place.name == name);
        found.map(|(number, place)| (*number, place.interface))
    }

    fn end(&mut self, slot: u32) {
        if let Some(kept) = self.kept.remove(&slot) {
            self.slots.remove(&kept.key);
            self.flow.remove(slot);
        }
    }

    /// Until results are to be looked through; never while there are none.
    pub(crate) fn pause(&self) -> Option<Duration> {
        (!self.kept.is_empty()).then(|| LOOK.saturating_sub(self.looked.elapsed()))
    }

    /// Looks through the results, if it is time: ends those that are not used or not right any more, and returns what the
    /// receivers of the others are to be told of their senders' stations.
    pub(crate) fn look(&mut self, rules: &SwitchRules, ports: &dyn Ports) -> Vec<Hint> {
        if self.looked.elapsed() < LOOK {
            return Vec::new();
        }
        self.looked = Instant::now();
        let (mut hints, mut over) = (Vec::new(), Vec::new());
        for (slot, kept) in &mut self.kept {
            let used = self.flow.counts(*slot).used;
            let is_used = used != std::mem::replace(&mut kept.used, used);
            kept.idle = if is_used { 0 } else { kept.idle + 1 };
            let at = ports.inbox(kept.from).and_then(|of| station(of, kept.vid, kept.destination));
            if kept.idle >= IDLE || at != Some(kept.to) || !is_known(kept, rules, ports) {
                over.push(*slot);
            } else if is_used && rules.port(kept.from.into()).learn {
                let Kept { from, to, vid, source, .. } = *kept;
                hints.push(Hint { from: to, to: from, vid, mac: source });
            }
        }
        over.into_iter().for_each(|slot| self.end(slot));
        self.flow.settle();
        // Of one station of a VLAN once to each.
        hints.sort_unstable_by_key(|hint| (hint.from, hint.vid.map(Vid::number), hint.mac.0));
        hints.dedup();
        hints
    }

    /// What programs forwarded from and to a port; `None` if it is not an interface of theirs.
    pub(crate) fn carried(&self, name: &str) -> Option<Carried> {
        self.place(name).map(|(number, _)| self.flow.carried(number))
    }
}

/// The port at which another one knows a station.
fn station(at: &PeerInbox, vid: Option<Vid>, mac: Mac) -> Option<u8> {
    let found = at.find(mac.0, vid.map_or(0, Vid::number))?;
    is_fresh(&found).then(|| u8::try_from(found.port).ok())?
}

fn is_fresh(entry: &inbox::Entry) -> bool {
    crate::relay::seconds().saturating_sub(entry.seen) <= AGEING
}

/// Whether the receiver would learn nothing from such frames.
fn is_known(kept: &Kept, rules: &SwitchRules, ports: &dyn Ports) -> bool {
    let at = || station(ports.inbox(kept.to)?, kept.vid, kept.source);
    !rules.port(kept.from.into()).learn || at() == Some(kept.from)
}
