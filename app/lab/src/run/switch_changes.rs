//! Switches of a running lab: made, removed, queried.

use netloom_flow::control as flow;
use netloom_flow::control::requests::{Shown, TraceWhat, Traced};
use netloom_model::kinds::SwitchKind;
use netloom_model::lookup::LookupError;
use netloom_model::plan::{PlannedEnd, SwitchSlot};
use netloom_model::{node_name_problem, switch_kind};
use netloom_switch::control::requests::{Answer, Presence, Request};

use crate::run::running::{Running, Work};
use crate::stage::socket_paths;
use crate::store::state::State;
use crate::view::{Changed, NewSwitch};
use crate::{Error, Result, Subject};

impl Running {
    /// See [`CreateSwitch`](crate::calls::CreateSwitch).
    pub(crate) fn make_switch(&self, request: &NewSwitch) -> Result<Changed> {
        let mut work = self.work();
        if work.spawner.is_none() {
            return Err(Error::NoLab(self.folder.name().to_owned()));
        }
        let object = Subject::of("switch", &request.name);
        let invalid = |reason: String| Error::Invalid { object: object.clone(), reason };
        if let Some(problem) = node_name_problem(&request.name) {
            return Err(invalid(problem));
        }
        let state = self.state();
        if state.plan.is_taken(&request.name) {
            let reason = "there is one of this name already".into();
            return Err(Error::Busy { object: object.clone(), reason });
        }
        let is_node = |name: &str| state.plan.node(name).is_some();
        let kind = switch_kind(&request.name, &request.settings, &is_node).map_err(invalid)?;
        let mut added = None;
        self.change(&mut work, |state| {
            added = Some(state.plan.add_switch(&request.name, kind));
            Ok(())
        })?;
        let state = self.state();
        // Its process may refuse what the plan allows, such as a folder that is taken.
        let started = socket_paths::check(&self.folder, &state.plan)
            .and_then(|()| self.start_switch(&state, &work, &request.name));
        if let Err(e) = started {
            self.end_switch(&request.name);
            self.change(&mut work, |state| {
                added.into_iter().for_each(|slot| state.plan.remove_switch(slot));
                Ok(())
            })?;
            return Err(e);
        }
        drop(work);
        // Its process is to be watched from now on.
        self.kept.wake();
        Ok(Changed { name: request.name.clone(), notes: vec![] })
    }

    /// See [`DeleteSwitch`](crate::calls::DeleteSwitch).
    pub(crate) fn remove_switch(&self, switch: &str, force: bool) -> Result<Changed> {
        let mut work = self.work();
        let state = self.state();
        let slot = self.switch_of_process(switch)?;
        let object = Subject::of("switch", switch);
        let busy = |reason: String| Error::Busy { object: object.clone(), reason };
        let is_here =
            |e: &PlannedEnd| matches!(e, PlannedEnd::Port { switch, .. } if *switch == slot);
        let here = state.plan.links.iter().filter(|link| link.ends.iter().any(is_here));
        let links: Vec<&str> = here.map(|link| link.name.as_str()).collect();
        // Links are the lab's: they are removed by name, not along with something.
        if !links.is_empty() {
            return Err(busy(format!("links of the lab end in it: {}", links.join(", "))));
        }
        let is_shm = state.plan.switches[slot].kind.as_shm().is_some();
        let ports = if is_shm { self.ports_of(switch) } else { vec![] };
        if let (false, [_, ..]) = (force, ports.as_slice()) {
            let who = ports.join(", ");
            return Err(busy(format!("ports are on it: {who}; delete it with --force")));
        }
        self.end_switch(switch);
        self.change(&mut work, |state| {
            state.plan.remove_switch(slot);
            Ok(())
        })?;
        Ok(Changed { name: switch.to_owned(), notes: vec![] })
    }

    /// Starts the process of a switch that is in the plan.
    pub(crate) fn start_switch(&self, state: &State, work: &Work, switch: &str) -> Result<()> {
        let context = self.context(state, &work.inits);
        let keepers = &self.kept.keepers;
        let planned = state.plan.switches.iter().find(|planned| planned.name == switch);
        match planned.map(|planned| &planned.kind) {
            Some(SwitchKind::Shm(_)) => keepers.switches.add(&context),
            Some(SwitchKind::Openflow(_)) => keepers.flows.add(&context),
            Some(SwitchKind::Bridge) | None => Ok(()),
        }
    }

    /// Ends the process of a switch, whatever its kind.
    pub(crate) fn end_switch(&self, switch: &str) {
        self.kept.keepers.switches.remove(&self.folder, switch);
        self.kept.keepers.flows.remove(&self.folder, switch);
    }

    /// Names of the ports of a switch.
    fn ports_of(&self, switch: &str) -> Vec<String> {
        let Ok(Answer::Shown(shown)) =
            self.kept.keepers.switches.ask(&self.folder, switch, &Request::Show)
        else {
            return vec![];
        };
        let here = shown.ports.iter().filter(|p| p.presence == Presence::Here);
        here.map(|p| if p.name.is_empty() { p.number.to_string() } else { p.name.clone() })
            .collect()
    }

    /// See [`AskSwitch`](crate::calls::AskSwitch).
    pub(crate) fn ask_the_switch(&self, switch: &str, request: &Request) -> Result<Answer> {
        self.shm_switch(switch)?;
        // The lab process would start it again at once.
        if *request == Request::Stop {
            let reason = "it ends with its lab, or by `netloom switch delete`".into();
            return Err(Error::Invalid { object: Subject::of("switch", switch), reason });
        }
        self.kept.keepers.switches.ask(&self.folder, switch, request)
    }

    /// See [`ShowOpenflow`](crate::calls::ShowOpenflow).
    pub(crate) fn show_the_openflow(&self, switch: &str) -> Result<Shown> {
        match self.ask_openflow(switch, &flow::Request::Show)? {
            flow::Answer::Shown(shown) => Ok(*shown),
            other => Err(misfit(switch, &other)),
        }
    }

    /// See [`TraceFrame`](crate::calls::TraceFrame).
    pub(crate) fn trace_a_frame(&self, switch: &str, what: &TraceWhat) -> Result<Traced> {
        match self.ask_openflow(switch, &flow::Request::Trace(what.clone()))? {
            flow::Answer::Traced(traced) => Ok(*traced),
            other => Err(misfit(switch, &other)),
        }
    }

    /// The switch may be the plane of a router, by the router's name.
    fn ask_openflow(&self, switch: &str, request: &flow::Request) -> Result<flow::Answer> {
        let state = self.state();
        // The planes of routers have no name in the file.
        let router = state.plan.node(switch).and_then(|slot| state.plan.node_at(slot));
        if let Some(router) = router.filter(|node| node.kind.has_separate_plane()) {
            return self.kept.keepers.flows.ask(&self.folder, &router.plane_name(), request);
        }
        let slot = self.switch_slot(switch)?;
        let kind = &self.state().plan.switches[slot].kind;
        if kind.as_openflow().is_none() {
            let kind = kind.word();
            let reason = format!("it is of kind {kind}; only one of kind openflow has flow tables");
            return Err(Error::Invalid { object: Subject::of("switch", switch), reason });
        }
        self.kept.keepers.flows.ask(&self.folder, switch, request)
    }

    /// The place of a switch that a process runs.
    fn switch_of_process(&self, switch: &str) -> Result<SwitchSlot> {
        let slot = self.switch_slot(switch)?;
        if self.state().plan.switches[slot].kind.is_process() {
            return Ok(slot);
        }
        let reason = "it is a bridge of the kernel, which comes and goes with its lab";
        Err(Error::Invalid { object: Subject::of("switch", switch), reason: reason.into() })
    }

    /// The place of a shared-memory switch in the plan.
    fn shm_switch(&self, switch: &str) -> Result<SwitchSlot> {
        let slot = self.switch_slot(switch)?;
        let reason = match &self.state().plan.switches[slot].kind {
            SwitchKind::Shm(_) => return Ok(slot),
            SwitchKind::Bridge => {
                "it is a bridge of the kernel, without rules of ports and mirror sessions; write \
                 `kind: shm` in the lab's file, and `netloom up --replace`"
            }
            SwitchKind::Openflow(_) => {
                "it is of kind openflow: instead of rules of ports, VLANs and mirror sessions it has \
                 flow entries, which `netloom flow` shows and changes"
            }
        };
        Err(Error::Invalid { object: Subject::of("switch", switch), reason: reason.into() })
    }

    /// The place of a switch in the plan.
    fn switch_slot(&self, switch: &str) -> Result<SwitchSlot> {
        let state = self.state();
        let none = || LookupError::NoSwitch {
            lab: state.plan.lab.clone(),
            switch: switch.to_owned(),
            hint: String::new(),
        };
        state.plan.switch(switch).ok_or_else(|| none().into())
    }
}

fn misfit(switch: &str, answer: &flow::Answer) -> Error {
    // An answer of any length would fill the message.
    let text: String = format!("{answer:?}").chars().take(60).collect();
    let reason = format!("unexpected reply from its process: {text}");
    Error::Busy { object: Subject::of("switch", switch), reason }
}
