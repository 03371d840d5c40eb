//! Ports of shared-memory switches that are interfaces of the core namespace, among which the kernel forwards.
//!
//! Such a port has a tap beside it, which its plug reads and writes in place of the port. The switch's process keeps
//! results in programs that it loaded before it gave up its rights; this process attaches them. Where the machine or the
//! switch's process cannot do that, a plug reads the port itself by a packet socket.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use netloom_ebpf::flow::{Attacher, Limit};
use netloom_model::plan::form::{LinkForm, Seat};
use netloom_model::plan::{LinkSide, NodeId, PlannedEnd, PlannedLink};
use netloom_switch::control::Connection;
use netloom_switch::plane::{PlaneAnswer, PlanePort, PlaneRequest};

use super::{process, tell};
use crate::build::keeper::Context;
use crate::stage::{attach, hidden_tap};
use crate::store::state::State;
use crate::{Error, Result};

/// Frames without a result that programs tell of, for each port: the rest of them take their way unseen.
const LIMIT: Limit = Limit { rate: 100, burst: 64 };

/// Numbers of a switch's ports for programs.
const NUMBERS: std::ops::RangeInclusive<u32> = 1..=255;

/// Ports of which one request tells.
const PORTS_TOLD: usize = 100;

/// The programs of switches, by the switches' names.
#[derive(Default)]
pub(super) struct Planes(BTreeMap<String, ([u32; 2], Attacher)>);

/// The interfaces of a link's end in a switch that the kernel may forward at: the port and the tap beside it.
pub(super) fn interfaces(state: &State, link: &PlannedLink, side: usize) -> Option<(u32, u32)> {
    let plan = &state.plan;
    let form = matches!(state.form(link), LinkForm::Pair | LinkForm::Nat);
    // A machine takes the frames of its interface by itself, and a link between two switches has nobody at either end.
    let other = match &link.ends[1 - side] {
        PlannedEnd::Node { .. } => plan.machine_of(link).is_none(),
        PlannedEnd::Internet { .. } => true,
        _ => false,
    };
    let is = !state.user && form && other && state.seat(link, side) == Seat::Port;
    is.then(|| (link.port_index(side), link.beside_index(side)))
}

impl Planes {
    /// The programs of a switch, if its process has any.
    fn of(&mut self, context: &Context<'_>, switch: &str) -> Result<Option<&Attacher>> {
        let ids = match ask(context, switch, &PlaneRequest::PlanePrograms)? {
            Some(PlaneAnswer::Programs(Some(ids))) => ids,
            _ => return Ok(None),
        };
        if self.0.get(switch).is_none_or(|(known, _)| *known != ids) {
            let found = Attacher::of(ids).map_err(Error::of(switch, "find its programs"))?;
            let Some(found) = found else { return Ok(None) };
            self.0.insert(switch.to_owned(), (ids, found));
        }
        Ok(self.0.get(switch).map(|(_, attacher)| attacher))
    }

    /// Has a switch's programs forward at ends of links, if they can; the descriptors of the taps for their plugs.
    pub(super) fn join(
        &mut self,
        context: &Context<'_>,
        switch: &str,
        ends: &[(&PlannedLink, usize)],
    ) -> Result<BTreeMap<LinkSide, OwnedFd>> {
        let state = context.state;
        let is = |(link, side): &(&PlannedLink, usize)| interfaces(state, link, *side).is_some();
        let (here, elsewhere): (Vec<_>, Vec<_>) = ends.iter().copied().partition(is);
        if !elsewhere.is_empty() && !state.user {
            // They may have been some in another form.
            let names = elsewhere.iter().map(|(l, side)| state.plan.port_name(l, *side)).collect();
            ask(context, switch, &PlaneRequest::PlaneGone { names })?;
        }
        if here.is_empty() {
            return Ok(BTreeMap::new());
        }
        let joined = self.join_here(context, switch, &here);
        let taps = joined.as_ref().ok();
        let left = |(link, side): &&(&PlannedLink, usize)| {
            !taps.is_some_and(|taps| taps.contains_key(&(link.id, *side)))
        };
        let left: Vec<_> = here.iter().filter(left).collect();
        if !left.is_empty() {
            // Programs of a process before would take the frames.
            attach::run_in(context.inits, NodeId::CORE, switch, || {
                left.iter().filter_map(|(l, side)| interfaces(state, l, *side)).try_for_each(|at| {
                    Attacher::strip(at).map_err(Error::of(switch, "take old programs off"))
                })
            })?;
        }
        joined
    }

    fn join_here(
        &mut self,
        context: &Context<'_>,
        switch: &str,
        ends: &[(&PlannedLink, usize)],
    ) -> Result<BTreeMap<LinkSide, OwnedFd>> {
        let Some(attacher) = self.of(context, switch)? else { return Ok(BTreeMap::new()) };
        let mut numbers =
            Numbers::of(context.state, attacher).map_err(Error::of(switch, "read its ports"))?;
        let port =
            |(link, side): &(&PlannedLink, usize)| Joining::of(context, link, *side, &mut numbers);
        let ports: Vec<Joining> = ends.iter().filter_map(port).collect();
        let joined = attach::run_in(context.inits, NodeId::CORE, switch, || {
            join_in_core(attacher, switch, ports)
        })?;
        let (ports, taps): (Vec<PlanePort>, Vec<_>) =
            joined.into_iter().map(|(p, tap)| (p.port, (p.end, tap))).unzip();
        for ports in ports.chunks(PORTS_TOLD) {
            ask(context, switch, &PlaneRequest::PlanePorts(ports.to_vec()))?;
        }
        Ok(taps.into_iter().collect())
    }

    /// Tells a new process of a switch which ports its programs are at; returns whether it has those of the one before.
    pub(super) fn tell(&mut self, context: &Context<'_>, switch: &str) -> Result<bool> {
        let Some(attacher) = self.of(context, switch)? else { return Ok(false) };
        let ports = attacher.ports().map_err(Error::of(switch, "read its ports"))?;
        let plan = &context.state.plan;
        let port = |(interface, number): (u32, u32)| {
            let (link, side) = plan.port_of(interface)?;
            Some(PlanePort { name: plan.port_name(link, side), number, interface, fresh: false })
        };
        let is_known = !ports.is_empty();
        let ports: Vec<PlanePort> = ports.into_iter().filter_map(port).collect();
        for ports in ports.chunks(PORTS_TOLD) {
            ask(context, switch, &PlaneRequest::PlanePorts(ports.to_vec()))?;
        }
        Ok(is_known)
    }
}

/// A link's end that becomes a port.
struct Joining {
    end: LinkSide,
    /// The port and the tap beside it.
    at: (u32, u32),
    /// The tap's name.
    tap: String,
    port: PlanePort,
}

impl Joining {
    /// `None` if the kernel cannot forward at this end, or all numbers are taken.
    fn of(
        context: &Context<'_>,
        link: &PlannedLink,
        side: usize,
        numbers: &mut Numbers,
    ) -> Option<Joining> {
        let at = interfaces(context.state, link, side)?;
        let name = context.state.plan.port_name(link, side);
        // Its plug counts from nothing, too.
        let port = PlanePort { name, number: numbers.take(at.0)?, interface: at.0, fresh: true };
        Some(Joining { end: (link.id, side), at, tap: link.beside_name(side), port })
    }
}

/// Makes ports of them in the core namespace, which the calling thread is in. One that cannot be is left out.
fn join_in_core(
    attacher: &Attacher,
    switch: &str,
    ports: Vec<Joining>,
) -> Result<Vec<(Joining, OwnedFd)>> {
    let failed = |e| Error::of(switch, "have the kernel forward")(e);
    let tap = |port: &Joining| -> Result<OwnedFd> {
        let tap = hidden_tap::lay(&port.tap, port.at.1, switch)?;
        // The way back before the way there: a reader of the tap may answer at once.
        attacher.attach_tap(port.at).map_err(failed)?;
        Ok(tap)
    };
    let laid = ports.into_iter().filter_map(|port| match tap(&port) {
        Ok(tap) => Some((port, tap)),
        Err(e) => {
            tell(&e);
            None
        }
    });
    let mut joined: Vec<(Joining, OwnedFd)> = laid.collect();
    hidden_tap::raise(&joined.iter().map(|(p, _)| p.at.1).collect::<Vec<_>>(), switch)?;
    joined.retain(|(p, _)| {
        let done = attacher.attach(p.at, p.port.number, LIMIT).map_err(failed);
        done.inspect_err(tell).is_ok()
    });
    Ok(joined)
}

/// The numbers that a switch's programs have for its ports, by the ports' interfaces.
struct Numbers(BTreeMap<u32, u32>);

impl Numbers {
    /// Those that are taken; forgets ports that are gone.
    fn of(state: &State, attacher: &Attacher) -> netloom_ebpf::Result<Numbers> {
        let mut taken = BTreeMap::new();
        for (index, number) in attacher.ports()? {
            let link = state.plan.port_of(index).filter(|(link, side)| {
                interfaces(state, link, *side).is_some_and(|(port, _)| port == index)
            });
            match link {
                Some(_) => drop(taken.insert(index, number)),
                None => attacher.forget((index, PlannedLink::beside_of_port(index)))?,
            }
        }
        Ok(Numbers(taken))
    }

    /// The number of a port; `None` if all are taken.
    fn take(&mut self, interface: u32) -> Option<u32> {
        if let Some(number) = self.0.get(&interface) {
            return Some(*number);
        }
        let number = NUMBERS.into_iter().find(|n| !self.0.values().any(|used| used == n))?;
        self.0.insert(interface, number);
        Some(number)
    }
}

/// Asks a switch's process; `None` if it is not there, or does not know such requests.
fn ask(context: &Context<'_>, switch: &str, request: &PlaneRequest) -> Result<Option<PlaneAnswer>> {
    let socket = process::socket(context.folder, switch);
    let connection = Connection::open(&socket).map_err(Error::of(switch, "connect"))?;
    let Some(connection) = connection else { return Ok(None) };
    match connection.ask_plane(request) {
        Ok(answer) => Ok(Some(answer)),
        Err(netloom_switch::Error::Refused(_)) => Ok(None),
        Err(e) => Err(Error::of(switch, "ask")(e)),
    }
}
