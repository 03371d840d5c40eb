//! The wires of a lab: inserted into impaired links, and removed once a link is no longer impaired.
//!
//! A process of its own carries the frames. It has no rights and survives a kill of the lab process.
//! If the lab may load BPF programs, then at the point
//! where a direction passes ([`attach`](crate::stage::attach)) a program redirects frames through a hidden tap, so
//! that a wire can be inserted and removed without a reset. A link between two nodes has such a point if it
//! consists of two veth pairs, whose inner ends, in the core namespace, are joined by programs here. In an ordinary user's
//! lab the process reads and writes these inner ends by packet sockets. A pair is led through the core for its
//! first wire ([`through_core`](crate::run::through_core)).
//!
//! A direction without impairments has no wire in its path. If the process ends, links that need
//! it carry nothing until the lab process has restarted it.

pub(crate) mod expressions;
mod ports;
mod process;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netloom_ebpf::wire::Splice;
use netloom_impair::{Count, Impairments, seed_for};
use netloom_model::Plan;
use netloom_model::plan::PlannedLink;
use netloom_model::plan::WIRE_AT_DOOR;
use netloom_model::plan::form::{LinkForm, can_have_wire, hidden_index, side_of, wired_form};
use netloom_model::plan::{LinkSide, LinkSlot, NodeId};
use netloom_netlink::Socket;
use netloom_sys::Unsupported;
use netloom_wire::control::{
    Connection, DirectionSpec, DirectionState, PortKind, Request, WireState,
};

use self::ports::{inner_ports, make_tap};
use self::process::{Process, end_process};
use crate::build::keeper::{Context, Fresh, Gone, Keeper};
use crate::keep::flows;
use crate::stage::allowed::allowed;
use crate::stage::attach::{self, AttachPoint};
use crate::stage::role::{self, FIRST_PAUSE, LONGEST_PAUSE, STEADY};
use crate::store::state::{Folder, State};
use crate::{Error, Result, Subject};

/// The wires of a lab.
#[derive(Default)]
pub(crate) struct Wires {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    process: Option<Process>,
    restarts: u32,
    pause: Duration,
    /// By namespace.
    splices: BTreeMap<NodeId, Splice>,
    /// Directions with a wire: link's id and sending end, and the point where frames are caught (`None`:
    /// the wire is built in).
    placed: BTreeMap<LinkSide, Option<AttachPoint>>,
    /// Wires, by number, that a process which did not answer still has to end.
    left: BTreeSet<usize>,
    /// Directions whose change it did not answer: it may make it later, though the lab's plan has gone back.
    unsure: BTreeSet<LinkSide>,
}

/// The states of all wires, by link's id and sending end; else why there are none.
pub(crate) type States = std::result::Result<BTreeMap<LinkSide, DirectionState>, String>;

impl Wires {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inserts, changes or removes the wires of these links, as their impairments need.
    pub(crate) fn fit_links(&self, context: &Context<'_>, links: &[LinkSlot]) -> Result<()> {
        let mut inner = self.inner();
        for index in links {
            let link = &context.state.plan.links[*index];
            for from in [0, 1] {
                inner.fit_direction(context, link, from)?;
            }
        }
        Ok(())
    }

    /// Removes the wires of a link whose interface is about to move, and every program at its current
    /// place.
    pub(crate) fn take_out(&self, context: &Context<'_>, link: &PlannedLink) -> Result<()> {
        if context.state.form(link) == LinkForm::Joined {
            // They are between its interfaces.
            return Ok(());
        }
        let mut inner = self.inner();
        for from in [0, 1] {
            inner.take_out(context, link, from, false)?;
            let point = attach::of_direction(context.state, link, from);
            let splice = point.and_then(|s| Some((s, inner.splices.get(&s.space)?)));
            let Some((point, splice)) = splice.filter(|(s, _)| s.space != NodeId::CORE) else {
                continue;
            };
            let object = format!("link {:?}", link.name);
            attach::run_in(context.inits, point.space, &object, || {
                splice.leave(point.index).map_err(Error::of(&object, "leave its interface"))
            })?;
        }
        Ok(())
    }

    /// The states of all wires.
    pub(crate) fn states(&self, context: &Context<'_>) -> States {
        let mut inner = self.inner();
        if inner.placed.is_empty() {
            return Ok(BTreeMap::new());
        }
        inner.catch_up(context);
        let ended = || "stopped: its process has ended".to_owned();
        let process = inner.process.as_ref().filter(|p| p.lives()).ok_or_else(ended)?;
        let all = process.connection.list(None).map_err(|e| match e {
            netloom_wire::Error::Control(_) => ended(),
            other => format!("not known: {}", netloom_sys::describe(&other)),
        })?;
        let one = |(number, [state, _]): (usize, WireState)| Some((side_of(number), state?));
        let mut states: BTreeMap<_, _> = all.into_iter().filter_map(one).collect();
        inner.count_overruns(context, &mut states);
        Ok(states)
    }

    /// Number of restarts of the process.
    pub(crate) fn restarts(&self) -> u32 {
        self.inner().restarts
    }

    /// Sends the process a request about one direction.
    pub(crate) fn ask<T>(
        &self,
        link: &PlannedLink,
        from: usize,
        question: impl FnOnce(&Connection, usize) -> netloom_wire::Result<T>,
    ) -> Result<T> {
        let inner = self.inner();
        let object = Subject::of("link", &link.name);
        let known = inner.placed.contains_key(&(link.id, from));
        match inner.process.as_ref().filter(|p| known && p.lives()) {
            Some(process) => question(&process.connection, link.wire_number(from))
                .map_err(Error::of(&object, "ask")),
            None => Err(Error::Invalid {
                object,
                reason: "nothing is impaired in that direction, so there is no wire to ask".into(),
            }),
        }
    }

    /// The form that a living link must get before its wires can be put in; `None` if they can as it is, or never.
    pub(crate) fn form_needed(
        &self,
        context: &Context<'_>,
        link: &PlannedLink,
    ) -> Option<LinkForm> {
        let machine = context.state.plan.machine_of(link).is_some();
        match context.state.form(link) {
            _ if !link.is_impaired() => return None,
            LinkForm::Pair => {}
            LinkForm::Tap if !machine => {}
            _ => return None,
        }
        let late = gets_frames_first(context, link).is_some() || reads_sockets(context, link);
        wired_form(link, allowed(context.state.user, &context.state.plan), late)
    }

    /// Whether a direction has a wire.
    pub(crate) fn has(&self, link: &PlannedLink, from: usize) -> bool {
        self.inner().placed.contains_key(&(link.id, from))
    }
}

impl Keeper for Wires {
    fn sweep(&self, folder: &Folder, _: Option<&Plan>) -> Result<()> {
        end_process(folder)
    }

    fn fit(&self, context: &Context<'_>, fresh: Fresh<'_>) -> Result<()> {
        let made: Vec<&PlannedLink> =
            fresh.links.iter().map(|l| &context.state.plan.links[*l]).collect();
        let nodes = fresh.ids(context.state);
        // New pairs may have the indexes of those that are gone.
        self.forget(context.state, Gone { nodes: &nodes, links: &made });
        self.inner().join(context, &made)?;
        self.fit_links(context, fresh.links)
    }

    fn adopt(&self, context: &Context<'_>) -> Result<()> {
        let mut inner = self.inner();
        let known = inner.find_known(context)?;
        let links = context.state.plan.links.iter();
        let joined: Vec<&PlannedLink> = links
            .filter(|link| context.state.form(link) == LinkForm::Joined)
            .filter(|link| !context.state.lost.contains_key(&link.id))
            .collect();
        // All joined links share the core's programs: one of them leads to all.
        if let Some(link) = joined.first() {
            inner.reopen(context, attach::behind_node(link, 0))?;
        }
        inner.join(context, &joined)?;
        let mut lacking = Vec::new();
        for link in &context.state.plan.links {
            for from in [0, 1] {
                let built_in = context.state.form(link) == LinkForm::Wired;
                if !built_in && link.impairments[from].is_none() {
                    continue;
                }
                let found = attach::of_direction(context.state, link, from);
                let Some(point) = (if built_in { Some(None) } else { found.map(Some) }) else {
                    continue;
                };
                let known = known.contains_key(&link.wire_number(from));
                if let (Some(point), true) = (point, known) {
                    inner.reopen(context, point)?;
                }
                // Before it works: a restarted process gets what is noted here.
                inner.placed.insert((link.id, from), point);
                if !known {
                    lacking.push((link, from, point));
                }
            }
        }
        for (link, from, point) in lacking {
            if let Err(e) = inner.carry_again(context, link, from, point) {
                netloom_sys::journal::line(format_args!("netloom: {}", netloom_sys::describe(&e)));
                inner.placed.remove(&(link.id, from));
            }
        }
        Ok(())
    }

    fn forget(&self, _: &State, gone: Gone<'_>) {
        let mut inner = self.inner();
        for link in gone.links {
            (0..2).for_each(|from| inner.forget(link, from));
        }
        inner.splices.retain(|space, _| !gone.nodes.contains(space));
    }

    fn watched(&self) -> Vec<OwnedFd> {
        let inner = self.inner();
        inner.process.iter().filter_map(|p| p.own.pidfd.try_clone().ok()).collect()
    }

    fn tend(&self, context: &Context<'_>) -> Option<Duration> {
        let mut inner = self.inner();
        let ended = inner.process.take_if(|p| !p.lives());
        inner.catch_up(context);
        if inner.placed.is_empty() || inner.process.is_some() {
            let lags = !inner.left.is_empty() || !inner.unsure.is_empty();
            return lags.then_some(LONGEST_PAUSE);
        }
        if let Some(ended) = ended {
            inner.restarts += 1;
            let steady = ended.own.since.elapsed() > STEADY;
            inner.pause = if steady { FIRST_PAUSE } else { role::longer(inner.pause) };
            // A first end may be an accident; only repeated ones wait.
            if !steady && inner.restarts > 1 {
                return Some(inner.pause);
            }
        }
        match inner.restore(context) {
            Ok(()) => None,
            Err(e) => {
                netloom_sys::journal::line(format_args!(
                    "netloom: wires: {}",
                    netloom_sys::describe(&e)
                ));
                inner.pause = role::longer(inner.pause);
                Some(inner.pause)
            }
        }
    }

    fn end(&self, _: &Folder) {
        let mut inner = self.inner();
        inner.placed.clear();
        if let Some(process) = inner.process.take() {
            process.end();
        }
    }
}

impl Inner {
    /// The wires in the process that an earlier lab process started; none if it has ended.
    fn find_known(&mut self, context: &Context<'_>) -> Result<BTreeMap<usize, WireState>> {
        let Some(process) = Process::find(context.folder)? else { return Ok(BTreeMap::new()) };
        match process.connection.list(None) {
            Ok(known) => {
                self.process = Some(process);
                Ok(known)
            }
            // It was about to end when it was found.
            Err(_) if process.ends_soon() => Ok(BTreeMap::new()),
            Err(e) => Err(Error::of("wires", "list")(e)),
        }
    }

    /// Joins the inner ends of those of these links that have any.
    fn join(&mut self, context: &Context<'_>, links: &[&PlannedLink]) -> Result<()> {
        let joined = |link: &&&PlannedLink| context.state.form(link) == LinkForm::Joined;
        let links: Vec<&PlannedLink> = links.iter().filter(joined).copied().collect();
        if links.is_empty() {
            return Ok(());
        }
        let splices = &mut self.splices;
        attach::run_in(context.inits, NodeId::CORE, "links", || {
            let make = || Splice::create().map_err(Error::of("links", "load programs that join"));
            let splice = attach::kept(splices, NodeId::CORE, make)?;
            for link in links {
                // A direction with a wire is led there when that is put in.
                for from in (0..2).filter(|from| link.impairments[*from].is_none()) {
                    let way = (link.inner_index(from), link.inner_index(1 - from));
                    let led = splice.lead(way.0, way.1);
                    led.map_err(Error::of(format!("link {:?}", link.name), "join its pairs"))?;
                }
            }
            Ok(())
        })
    }

    fn fit_direction(
        &mut self,
        context: &Context<'_>,
        link: &PlannedLink,
        from: usize,
    ) -> Result<()> {
        let wanted = &link.impairments[from];
        let has = self.placed.contains_key(&(link.id, from));
        let built_in = context.state.form(link) == LinkForm::Wired;
        // A built-in wire stays in the path even without impairments, since it is the only path.
        match (has, wanted.is_none() && !built_in) {
            (false, true) => Ok(()),
            (false, false) => self.put_in(context, link, from),
            (true, true) => self.take_out(context, link, from, true),
            (true, false) => self.change(context, link, from, wanted),
        }
    }

    /// Adds frames that taps dropped because they were not read in time. The kernel counts them at the
    /// interface, the process does not see them. They count as offered and lost.
    fn count_overruns(
        &self,
        context: &Context<'_>,
        states: &mut BTreeMap<LinkSide, DirectionState>,
    ) {
        let mut by_space: BTreeMap<NodeId, Vec<LinkSide>> = BTreeMap::new();
        for (key, point) in &self.placed {
            if let Some(point) = point {
                by_space.entry(point.space).or_default().push(*key);
            }
        }
        for (space, keys) in by_space {
            let read = attach::run_in(context.inits, space, "wires", || {
                let mut socket =
                    Socket::open().map_err(Error::of("wires", "open a netlink socket"))?;
                socket.links().map_err(Error::of("wires", "read their taps"))
            });
            let Ok(links) = read else { continue };
            for (id, from) in keys {
                let index = hidden_index((id, from));
                let tap = links.iter().find(|l| l.index == index);
                let (Some(tap), Some(state)) = (tap, states.get_mut(&(id, from))) else { continue };
                // The process never saw them.
                let lost = Count::new(tap.traffic.tx_dropped, 0);
                state.ledger.offered.add(lost);
                state.ledger.lost.overrun.add(lost);
            }
        }
    }

    fn change(
        &mut self,
        context: &Context<'_>,
        link: &PlannedLink,
        from: usize,
        wanted: &Impairments,
    ) -> Result<()> {
        let object = format!("link {:?}", link.name);
        let process = self.process.as_ref().filter(|p| p.lives());
        // A restarted process gets the settings of that moment.
        let Some(process) = process else { return Ok(()) };
        let request = Request::Set {
            wire: link.wire_number(from),
            direction: 0,
            impairments: expressions::expanded(&context.state.plan, &link.name, wanted)?,
        };
        let changed = process.connection.order(&request, &[]);
        match &changed {
            Ok(()) | Err(netloom_wire::Error::Refused(_)) => self.unsure.remove(&(link.id, from)),
            Err(_) => self.unsure.insert((link.id, from)),
        };
        changed.map_err(Error::of(&object, "change its wire"))
    }

    fn put_in(&mut self, context: &Context<'_>, link: &PlannedLink, from: usize) -> Result<()> {
        let object = Subject::of("link", &link.name);
        let point = if context.state.form(link) == LinkForm::Wired {
            None
        } else if !can_have_wire(&context.state.plan, link) {
            return Err(Error::Invalid { object, reason: WIRE_AT_DOOR.into() });
        } else if let Some(end) = gets_frames_first(context, link) {
            let reason = format!(
                "it ends in {end}, so that a wire must be there from the start: declare an \
                 impairment of it in the lab file, such as delay: 1ms"
            );
            return Err(Error::Invalid { object, reason });
        } else if context.state.user {
            return Err(unsupported(&object).into());
        } else if reads_sockets(context, link) {
            let reason = "it is a door of an OpenFlow switch that gets its frames by packet sockets, before any \
                          program: put another switch between them"
                .into();
            return Err(Error::Invalid { object, reason });
        } else {
            let none = || Error::Invalid {
                object: object.clone(),
                reason: "neither end is in the lab, so nothing can be impaired".into(),
            };
            Some(attach::of_direction(context.state, link, from).ok_or_else(none)?)
        };
        // Before the ports are made, which it is given.
        self.start(context)?;
        if let Err(e) = self.carry(context, link, from, point) {
            // It may have the wire by now, and would refuse the next one of this number.
            self.left.insert(link.wire_number(from));
            self.end_left();
            return Err(e);
        }
        self.placed.insert((link.id, from), point);
        Ok(())
    }

    /// Adopts a direction that an earlier lab process inserted.
    fn carry_again(
        &mut self,
        context: &Context<'_>,
        link: &PlannedLink,
        from: usize,
        point: Option<AttachPoint>,
    ) -> Result<()> {
        if self.process.is_none() {
            self.process = Some(Process::start(context.folder)?);
        }
        if let Some(point) = point {
            self.reopen(context, point)?;
        }
        self.carry(context, link, from, point)
    }

    /// Makes the ports of a direction, passes them to the process, and redirects frames there.
    fn carry(
        &mut self,
        context: &Context<'_>,
        link: &PlannedLink,
        from: usize,
        point: Option<AttachPoint>,
    ) -> Result<()> {
        let object = format!("link {:?}", link.name);
        let ports = match point {
            Some(point) => vec![(PortKind::Tap, make_tap(context, link, from, point, &object)?)],
            None => inner_ports(context, link, from, &object)?,
        };
        let kinds = ports.iter().map(|(kind, _)| *kind).collect::<Vec<_>>();
        let fds = ports.iter().map(|(_, fd)| fd.as_fd()).collect::<Vec<_>>();
        let asked = &link.impairments[from];
        let side = u8::try_from(from).unwrap_or(0);
        let spec = DirectionSpec {
            impairments: expressions::expanded(&context.state.plan, &link.name, asked)?,
            seed: seed_for(&link.name, side, asked.seed),
            // One seed a direction: a repeated run loses the same frames.
            input: 0,
            output: kinds.len() - 1,
        };
        let add = Request::Add {
            wire: link.wire_number(from),
            ports: kinds,
            directions: Box::new([Some(spec), None]),
        };
        self.end_left();
        if let Some(process) = &self.process {
            // The process has the wire before frames are led there: none is lost between.
            process.connection.order(&add, &fds).map_err(Error::of(&object, "add its wire"))?;
        }
        match point {
            Some(point) => self.splice_in(context, link, from, point, &object),
            None => Ok(()),
        }
    }

    fn splice_in(
        &mut self,
        context: &Context<'_>,
        link: &PlannedLink,
        from: usize,
        point: AttachPoint,
        object: &str,
    ) -> Result<()> {
        let tap = link.hidden_index(from);
        let splices = &mut self.splices;
        let joined = context.state.form(link) == LinkForm::Joined;
        attach::run_in(context.inits, point.space, object, || {
            let make = || {
                let made = if point.space == NodeId::CORE {
                    Splice::create()
                } else {
                    Splice::create_small()
                };
                made.map_err(Error::of(object, "load its programs"))
            };
            let splice = attach::kept(splices, point.space, make)?;
            if joined {
                return splice
                    .lead_tap(tap, link.inner_index(1 - from))
                    .and_then(|()| splice.lead(point.index, tap))
                    .map_err(Error::of(object, "lead frames to its wire"));
            }
            if let Err(netloom_ebpf::Error::Exists { .. }) =
                splice.attach_tap(tap, point.index, point.direction)
            {
                // It belongs to the programs of a namespace that no longer exists.
                Splice::strip(point.index).map_err(Error::of(object, "take old programs off"))?;
            }
            splice
                .attach_tap(tap, point.index, point.direction)
                .map_err(Error::of(object, "attach to its tap"))?;
            splice
                .insert(point.index, point.direction, tap)
                .map_err(Error::of(object, "lead frames to its wire"))
        })
    }

    fn reopen(&mut self, context: &Context<'_>, point: AttachPoint) -> Result<()> {
        if self.splices.contains_key(&point.space) {
            return Ok(());
        }
        // Links of a node that has ended will be recreated, with their wires.
        let found = attach::run_in_living(context.inits, point.space, "wires", || {
            Splice::reopen(point.index).map_err(Error::of("wires", "find programs"))
        })?;
        if let Some(splice) = found.flatten() {
            self.splices.insert(point.space, splice);
        }
        Ok(())
    }

    fn take_out(
        &mut self,
        context: &Context<'_>,
        link: &PlannedLink,
        from: usize,
        drain: bool,
    ) -> Result<()> {
        let object = format!("link {:?}", link.name);
        // Noted as gone first: a restart must not bring it back.
        let Some(point) = self.placed.remove(&(link.id, from)) else { return Ok(()) };
        if let (Some(point), true) = (point, point.is_some()) {
            let splice = self.splices.get(&point.space);
            let joined = context.state.form(link) == LinkForm::Joined;
            let led = attach::run_in(context.inits, point.space, &object, || match splice {
                Some(splice) if joined => splice
                    .lead(point.index, link.inner_index(1 - from))
                    .map_err(Error::of(&object, "lead frames past its wire")),
                Some(splice) => splice
                    .remove(point.index, point.direction)
                    .map(drop)
                    .map_err(Error::of(&object, "lead frames past its wire")),
                None => Ok(()),
            });
            if let Err(e) = led {
                // Frames still go there: a restart must bring it back.
                self.placed.insert((link.id, from), Some(point));
                return Err(e);
            }
        }
        match self.process.as_ref().filter(|p| p.lives()) {
            // Delayed frames are delivered on time; the caller does not wait for that.
            Some(process) => {
                let number = link.wire_number(from);
                process.connection.remove(number, drain).map(drop).map_err(|e| {
                    self.left.insert(number);
                    Error::of(&object, "remove its wire")(e)
                })
            }
            None => Ok(()),
        }
    }

    /// Has the process do what it did not answer before, or undo it, once it answers again.
    fn catch_up(&mut self, context: &Context<'_>) {
        self.end_left();
        for (id, from) in self.unsure.clone() {
            let link = context.state.plan.links.iter().find(|link| link.id == id);
            let link = link.filter(|_| self.placed.contains_key(&(id, from)));
            let done = link.is_none_or(|link| {
                self.change(context, link, from, &link.impairments[from]).is_ok()
            });
            if !done {
                return;
            }
            self.unsure.remove(&(id, from));
        }
    }

    /// Has the process end wires that it could not be asked to end before. While it does not answer, they stay noted.
    fn end_left(&mut self) {
        let Some(process) = self.process.as_ref().filter(|p| p.lives()) else {
            return self.left.clear();
        };
        let answers = |number: &usize| {
            let removed = process.connection.remove(*number, false);
            matches!(removed, Ok(_) | Err(netloom_wire::Error::Refused(_)))
        };
        self.left.retain(|number| !answers(number));
    }

    /// Forgets a direction whose link no longer exists.
    fn forget(&mut self, link: &PlannedLink, from: usize) {
        if let Some(splice) = self.splices.get(&NodeId::CORE) {
            // Its pairs may be recreated with the same indexes.
            let _ = splice.forget(link.inner_index(from));
        }
        let known = self.placed.remove(&(link.id, from)).is_some();
        if let (true, Some(process)) = (known, self.process.as_ref().filter(|p| p.lives())) {
            // Its ports no longer exist in any case.
            if process.connection.remove(link.wire_number(from), false).is_err() {
                self.left.insert(link.wire_number(from));
            }
        }
    }

    /// Starts the process unless it runs.
    fn start(&mut self, context: &Context<'_>) -> Result<()> {
        if self.process.as_ref().is_some_and(Process::lives) {
            return Ok(());
        }
        // Without wires nothing need be restored: this is a first start.
        if self.placed.is_empty() {
            self.process = Some(Process::start(context.folder)?);
            return Ok(());
        }
        self.restarts += 1;
        self.restore(context)
    }

    /// Starts the process and gives it all wires again.
    fn restore(&mut self, context: &Context<'_>) -> Result<()> {
        self.process = Some(Process::start(context.folder)?);
        let links = &context.state.plan.links;
        let placed: Vec<_> = self.placed.iter().map(|(k, v)| (*k, *v)).collect();
        for ((id, from), point) in placed {
            let Some(link) = links.iter().find(|l| l.id == id) else { continue };
            self.carry(context, link, from, point)?;
        }
        Ok(())
    }
}

/// What gets a link's frames before a program does that could be put there, if anything.
fn gets_frames_first(context: &Context<'_>, link: &PlannedLink) -> Option<&'static str> {
    let plan = &context.state.plan;
    if plan.has_shm_end(link) {
        return Some("a shared-memory switch");
    }
    plan.machine_of(link).map(|_| "a virtual machine")
}

/// Whether a link ends in an OpenFlow switch that does not get its frames where wires are put in.
fn reads_sockets(context: &Context<'_>, link: &PlannedLink) -> bool {
    let plan = &context.state.plan;
    let switch = plan.openflow_switch_of(link).and_then(|slot| plan.switch_at(slot));
    switch.is_some_and(|switch| !flows::runs_after_wires(context.folder, &switch.name))
}

fn unsupported(object: &str) -> Unsupported {
    Unsupported {
        feature: "wires at doors",
        reason: format!("{object} is a door, where a wire needs BPF programs"),
        needs: "run the lab as root".into(),
    }
}
