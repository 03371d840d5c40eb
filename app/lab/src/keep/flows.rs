//! The OpenFlow switches of a lab: a process each, in the lab's core namespace, where its ports are.
//!
//! A port is the end of a link's veth pair in that namespace. Processes survive a kill of the lab process and are
//! restarted when they end; tables and counters are in their folders, so that the next process goes on with them.
//! The lab process sends ports and the namespaces of controllers again each time it starts or
//! finds it. A namespace is taken back as soon as its node ends, which the process would keep alive otherwise.

pub(crate) mod agent;
mod desired_state;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netloom_flow::control::requests::ControllerState;
use netloom_flow::control::{Answer, Fault, PortSpec, Request};
use netloom_model::Plan;
use netloom_model::kinds::openflow::Controller;
use netloom_model::plan::{PlannedEnd, PlannedLink, PlannedSwitch, Slot};
use netloom_model::slices::Slice;

use self::agent::Agent;
pub use self::desired_state::OUTSIDE;
use self::desired_state::Wanted;
pub(crate) use self::desired_state::{plane_ports, tls};
use crate::build::keeper::{Context, Fresh, Gone, Keeper};
use crate::stage::role::Pause;
use crate::store::state::{Folder, State};
use crate::view::{OpenflowController, OpenflowStatus};
use crate::{Error, Result, Subject};

/// The OpenFlow switches of a lab.
#[derive(Default)]
pub(crate) struct Flows {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// By name of the switch.
    agents: BTreeMap<String, Agent>,
    pause: Pause,
}

impl Flows {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts one switch that was added to the plan.
    pub(crate) fn add(&self, context: &Context<'_>) -> Result<()> {
        self.inner().start_missing(context).map(drop)
    }

    /// Ends the process of a switch and restarts it, with what the plan says. Its data plane forwards meanwhile, and
    /// what controllers told it is in its files.
    pub(crate) fn restart(&self, context: &Context<'_>, switch: &str) -> Result<()> {
        let mut inner = self.inner();
        if let Some(agent) = inner.agents.remove(switch) {
            agent.end();
        }
        inner.start_missing(context).map(drop)
    }

    /// Ends one switch for good.
    pub(crate) fn remove(&self, folder: &Folder, switch: &str) {
        if let Some(agent) = self.inner().agents.remove(switch) {
            agent.end();
        }
        agent::remove_files(folder, switch);
    }

    /// Sends a request to a switch.
    pub(crate) fn ask(&self, folder: &Folder, switch: &str, request: &Request) -> Result<Answer> {
        let object = Subject::of("switch", switch);
        // A connection of its own each time: one request of another does not wait for this.
        let none = || Error::Busy {
            object: object.clone(),
            reason: "its process is not there at the moment".into(),
        };
        let connection = agent::open(folder, switch)?.ok_or_else(none)?;
        connection.ask(request, &[]).map_err(|e| match e {
            netloom_flow::Error::Refused(reason) => {
                Error::Invalid { object: object.clone(), reason }
            }
            // It ended between the look and the request.
            netloom_flow::Error::Control(Fault::Ended) => none(),
            other => Error::of(&object, "ask")(other),
        })
    }
}

impl Flows {
    /// What a switch does now; `None` for one of another kind.
    pub(crate) fn status(&self, folder: &Folder, switch: &PlannedSwitch) -> Option<OpenflowStatus> {
        let options = switch.kind.as_openflow()?;
        let found = match self.ask(folder, &switch.name, &Request::Show) {
            Ok(Answer::Shown(shown)) => Ok(*shown),
            Ok(_) => Err("unexpected reply".to_owned()),
            Err(e) => Err(netloom_sys::describe(&e)),
        };
        let shown = found.as_ref().ok();
        let controller = |of: &Controller| {
            let told = shown
                .and_then(|s| s.controllers.iter().find(|told| desired_state::is_of(of, told)));
            let connected = told.is_some_and(|told| told.state == ControllerState::Connected);
            let reason = told.and_then(|told| told.reason.clone()).filter(|_| !connected);
            OpenflowController { controller: of.to_string(), connected, reason }
        };
        Some(OpenflowStatus {
            socket: folder.flow_socket(&switch.name).display().to_string(),
            running: shown.is_some(),
            datapath: options.datapath.map_or_else(String::new, |id| id.to_string()),
            plane: shown.map(|s| s.plane.kind.clone()),
            slower: shown.and_then(|s| s.plane.slower.clone()),
            entries: shown.map_or(0, |s| s.entries),
            standalone: shown.is_some_and(|s| s.standalone),
            controllers: options.controllers.iter().map(controller).collect(),
            slices: vec![],
            trouble: found.as_ref().map_or_else(|why| Some(why.clone()), |s| s.trouble.clone()),
        })
    }
}

/// Whether a switch gets its frames from programs that run after those of wires, at the same place.
pub(crate) fn runs_after_wires(folder: &Folder, switch: &str) -> bool {
    let shown = agent::open(folder, switch).ok().flatten().and_then(|c| c.show().ok());
    shown.is_some_and(|shown| shown.plane.kind == "tcx")
}

/// Those ports of a plane at a link whose interfaces are new with these nodes; with none of them, the link is new.
fn made_anew(
    plan: &Plan,
    slots: &[Slot],
    router: Slot,
    (link, side, [outside, inside]): (&PlannedLink, usize, [PortSpec; 2]),
) -> impl Iterator<Item = PortSpec> {
    let other = &link.ends[1 - side];
    let plain = match other {
        PlannedEnd::Node { node, .. } => plan.separate_at(other).is_none().then_some(*node),
        _ => None,
    };
    let all = slots.is_empty();
    let is_new =
        [all || plain.is_some_and(|node| slots.contains(&node)), all || slots.contains(&router)];
    [outside, inside].into_iter().zip(is_new).filter_map(|(port, new)| new.then_some(port))
}

/// Reads the files of switches and slices for TLS, as their processes will.
pub(crate) fn check_tls(switches: &[PlannedSwitch], slices: &[Slice]) -> Result<()> {
    let of_switches = switches.iter().filter_map(|switch| {
        let files = switch.kind.as_openflow()?.tls.as_ref()?;
        Some((format!("switch {:?}: tls", switch.name), files))
    });
    let of_slices = slices
        .iter()
        .filter_map(|slice| Some((format!("slice {:?}: tls", slice.name), slice.tls.as_ref()?)));
    for (object, files) in of_switches.chain(of_slices) {
        if let Err(e) = tls(files).check() {
            return Err(Error::Invalid {
                object: object.into(),
                reason: netloom_sys::describe(&e),
            });
        }
    }
    Ok(())
}

impl Keeper for Flows {
    fn fit(&self, context: &Context<'_>, fresh: Fresh<'_>) -> Result<()> {
        let mut inner = self.inner();
        let plan = &context.state.plan;
        if fresh.slots.contains(&plan.core_slot()) {
            // Processes of an earlier core hold its namespace, which has no ports any more.
            inner.end_all();
        }
        let started = inner.start_missing(context)?;
        // Those just started were told everything at their start.
        for wanted in desired_state::all(plan).filter(|wanted| !started.contains(&wanted.name())) {
            let Some(agent) = inner.agents.get_mut(&wanted.name()) else { continue };
            let links = fresh.links.iter().map(|at| &plan.links[*at]);
            match wanted {
                Wanted::Switch(slot, switch, _) => {
                    agent.name_spaces(context, switch, |node, _| fresh.slots.contains(&node))?;
                    agent.add_ports(desired_state::ports(plan, slot, links))?;
                }
                Wanted::Plane(slot, _) => {
                    let ports = desired_state::ports_of_plane(plan, slot, links);
                    let new = ports.flat_map(|ports| made_anew(plan, fresh.slots, slot, ports));
                    agent.add_ports(new)?;
                }
            }
        }
        Ok(())
    }

    fn adopt(&self, context: &Context<'_>) -> Result<()> {
        let mut inner = self.inner();
        // What fails here is done when the lab's core is recreated, or is tried again.
        let started = inner.start_missing(context).unwrap_or_else(|e| {
            agent::journal(&e);
            vec![]
        });
        for wanted in desired_state::all(&context.state.plan) {
            if let Some(agent) = inner.agents.get_mut(&wanted.name())
                && !started.contains(&wanted.name())
                && let Err(e) = agent.tell_again(context, &wanted)
            {
                agent::journal(&e);
            }
        }
        Ok(())
    }

    fn forget(&self, state: &State, gone: Gone<'_>) {
        let mut inner = self.inner();
        for end in gone.links.iter().flat_map(|link| &link.ends) {
            if let PlannedEnd::Node { node, interface } = end
                && let Some(router) = state.plan.separate_at(end).map(|_| &state.plan.nodes[*node])
                && let Some(agent) = inner.agents.get_mut(&router.plane_name())
                && let Some(interface) = router.interfaces.get(*interface)
            {
                desired_state::plane_ports(interface)
                    .into_iter()
                    .for_each(|port| agent.remove_port(port));
            }
            // Ports without a number are those of switches of other kinds.
            let PlannedEnd::Port { switch, number: Some(number), .. } = end else { continue };
            let name = state.plan.switch_at(*switch).map(|switch| &switch.name);
            if let Some(agent) = name.and_then(|name| inner.agents.get_mut(name)) {
                agent.remove_port(*number);
            }
        }
        for node in gone.nodes {
            // Descriptors would keep the network of a node that goes alive.
            inner.agents.values_mut().for_each(|agent| agent.let_go(|space| space.node == *node));
        }
    }

    fn watched(&self) -> Vec<OwnedFd> {
        self.inner().agents.values().flat_map(Agent::watched).collect()
    }

    fn tend(&self, context: &Context<'_>) -> Option<Duration> {
        let mut inner = self.inner();
        inner.agents.values_mut().for_each(|agent| agent.let_go(|space| space.has_ended()));
        let ended = inner.take_ended();
        if inner.has_all(context.state) {
            return None;
        }
        // A copy, put back below: the restart needs the rest of `inner` for itself.
        let mut pause = inner.pause;
        let next =
            pause.restart(ended, "OpenFlow switches", || inner.start_missing(context).map(drop));
        inner.pause = pause;
        next
    }

    fn is_whole(&self, state: &State) -> bool {
        let inner = self.inner();
        desired_state::all(&state.plan)
            .all(|w| inner.agents.get(&w.name()).is_some_and(Agent::lives))
    }

    fn end(&self, folder: &Folder) {
        self.inner().end_all();
        agent::remove_all_files(folder);
    }

    fn sweep(&self, folder: &Folder, _: Option<&Plan>) -> Result<()> {
        agent::end_processes(folder)
    }
}

impl Inner {
    /// Finds or starts the processes of switches that have none; returns the names of those that were started, and told
    /// everything.
    fn start_missing(&mut self, context: &Context<'_>) -> Result<Vec<String>> {
        let mut started = Vec::new();
        for wanted in desired_state::all(&context.state.plan) {
            let name = wanted.name();
            if self.agents.get(&name).is_some_and(Agent::lives) {
                continue;
            }
            // One of an earlier lab process goes on: its flows and counters stay.
            let agent = match Agent::find(context.folder, &name)? {
                Some(agent) => agent,
                None => {
                    let mut agent = Agent::start(context, &wanted)?;
                    agent.tell_again(context, &wanted)?;
                    started.push(name.clone());
                    agent
                }
            };
            self.agents.insert(name, agent);
        }
        Ok(started)
    }

    fn has_all(&self, state: &State) -> bool {
        desired_state::all(&state.plan).all(|wanted| self.agents.contains_key(&wanted.name()))
    }

    /// Forgets processes that have ended; returns the shortest life among them.
    fn take_ended(&mut self) -> Option<Duration> {
        let mut shortest: Option<Duration> = None;
        self.agents.retain(|_, agent| {
            if !agent.lives() {
                let lived = agent.age();
                shortest = Some(shortest.map_or(lived, |s| s.min(lived)));
            }
            agent.lives()
        });
        shortest
    }

    fn end_all(&mut self) {
        std::mem::take(&mut self.agents).into_values().for_each(Agent::end);
    }
}
