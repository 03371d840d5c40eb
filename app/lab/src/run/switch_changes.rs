//! Switches of a running lab: made, removed, queried.

use netloom_model::lookup::LookupError;
use netloom_model::plan::SwitchSlot;
use netloom_model::{node_name_problem, switch_kind};
use netloom_switch::control::requests::{Answer, Presence, Request};

use crate::run::running::Running;
use crate::view::{Changed, NewSwitch};
use crate::{Error, Result};

impl Running {
    /// See [`Service::create_switch`](crate::Service::create_switch).
    pub(crate) fn make_switch(&self, request: &NewSwitch) -> Result<Changed> {
        let mut work = self.work();
        if work.spawner.is_none() {
            return Err(Error::NoLab(self.folder.name().to_owned()));
        }
        let object = format!("switch {:?}", request.name);
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
        if let Err(e) = self.kept.keepers.switches.add(&self.context(&state, &work.inits)) {
            self.kept.keepers.switches.remove(&self.folder, &request.name);
            self.change(&mut work, |state| {
                added.into_iter().for_each(|slot| state.plan.remove_switch(slot));
                Ok(())
            })?;
            return Err(e);
        }
        drop(work);
        self.kept.wake();
        Ok(Changed { name: request.name.clone(), notes: vec![] })
    }

    /// See [`Service::delete_switch`](crate::Service::delete_switch).
    pub(crate) fn remove_switch(&self, switch: &str, force: bool) -> Result<Changed> {
        let mut work = self.work();
        let state = self.state();
        let slot = self.shm_switch(switch)?;
        let object = format!("switch {switch:?}");
        let busy = |reason: String| Error::Busy { object: object.clone(), reason };
        let ends =
            crate::keep::switches::ends(&state.plan).map(|(link, side)| (link, &link.ends[side]));
        let here = ends.filter(|(_, end)| state.plan.shm_switch_at(end) == Some(slot));
        let links: Vec<&str> = here.map(|(link, _)| link.name.as_str()).collect();
        if !links.is_empty() {
            return Err(busy(format!("links of the lab end in it: {}", links.join(", "))));
        }
        let ports = self.ports_of(switch);
        if let (false, [_, ..]) = (force, ports.as_slice()) {
            let who = ports.join(", ");
            return Err(busy(format!("ports are on it: {who}; delete it with --force")));
        }
        self.kept.keepers.switches.remove(&self.folder, switch);
        self.change(&mut work, |state| {
            state.plan.remove_switch(slot);
            Ok(())
        })?;
        Ok(Changed { name: switch.to_owned(), notes: vec![] })
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

    /// See [`Service::ask_switch`](crate::Service::ask_switch).
    pub(crate) fn ask_the_switch(&self, switch: &str, request: &Request) -> Result<Answer> {
        self.shm_switch(switch)?;
        if *request == Request::Stop {
            let reason = "it ends with its lab, or by `netloom switch delete`".into();
            return Err(Error::Invalid { object: format!("switch {switch:?}"), reason });
        }
        self.kept.keepers.switches.ask(&self.folder, switch, request)
    }

    /// The place of a shared-memory switch in the plan.
    fn shm_switch(&self, switch: &str) -> Result<SwitchSlot> {
        let state = self.state();
        let none = || LookupError::NoSwitch {
            lab: state.plan.lab.clone(),
            switch: switch.to_owned(),
            hint: String::new(),
        };
        let slot = state.plan.switch(switch).ok_or_else(none)?;
        if state.plan.switches[slot].kind.as_shm().is_none() {
            let reason = "it is a bridge of the kernel; only switches of kind shm can be asked";
            let object = format!("switch {switch:?}");
            return Err(Error::Invalid { object, reason: reason.into() });
        }
        Ok(slot)
    }
}
