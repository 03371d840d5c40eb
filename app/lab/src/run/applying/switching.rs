//! Switches that come, go and change.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use netloom_model::merging::Merged;
use netloom_model::plan::{NodeId, PlannedSwitch};
use netloom_netlink::{Batch, Change, DeleteLink};

use super::changing::Was;
use crate::build::links;
use crate::run::running::{Running, Work};
use crate::stage::spaces::{inside, run};
use crate::{Error, Result};

impl Running {
    /// Makes new switches, without ports. Bridges that are missing because a lab process was killed are made, too.
    pub(super) fn add_switches(
        &self,
        work: &mut Work,
        merged: &Merged,
        was: &Was<'_>,
    ) -> Result<()> {
        let added: Vec<PlannedSwitch> = {
            let known = self.state();
            let switches = merged.target.switches.iter();
            let new = switches.filter(|s| merged.added.switches.contains(&s.name));
            new.filter(|s| known.plan.switch(&s.name).is_none()).cloned().collect()
        };
        if !added.is_empty() {
            self.change(work, |state| {
                state.plan.switches.extend(added.iter().cloned());
                Ok(())
            })?;
        } else if was.before.is_none() {
            return Ok(());
        }
        let state = self.state();
        let core = self.core_space(work)?;
        let there: BTreeSet<u32> = inside(core.as_fd(), "core namespace", |socket| {
            let all = socket.links().map_err(Error::of("core namespace", "list interfaces"))?;
            Ok(all.into_iter().map(|link| link.index).collect())
        })?;
        links::make_bridges(&state.plan, core.as_fd(), |bridge| !there.contains(&bridge.index))?;
        for switch in added.iter().filter(|switch| switch.kind.is_process()) {
            self.start_switch(&state, work, &switch.name)?;
        }
        Ok(())
    }

    /// Removes switches in which no link ends any more.
    pub(super) fn drop_switches(&self, work: &mut Work, names: &BTreeSet<String>) -> Result<()> {
        for name in names {
            let state = self.state();
            let Some(slot) = state.plan.switch(name) else { continue };
            let switch = &state.plan.switches[slot];
            if switch.kind.is_bridge() {
                let (core, object) = (self.core_space(work)?, format!("switch {name:?}"));
                inside(core.as_fd(), &object, |socket| {
                    let mut batch = Batch::new();
                    batch.push_tolerant(object.as_str(), &DeleteLink::new(switch.index));
                    run(socket, &mut batch, &object, "remove")
                })?;
            } else {
                self.end_switch(name);
            }
            self.change(work, |state| {
                state.plan.remove_switch(slot);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Changes switches where they are.
    pub(super) fn change_switches(
        &self,
        work: &Work,
        merged: &Merged,
        was: &Was<'_>,
    ) -> Result<()> {
        let state = self.state();
        for name in &merged.changed.switches {
            let Some(slot) = state.plan.switch(name) else { continue };
            let (new, object) = (&state.plan.switches[slot], format!("switch {name:?}"));
            if new.kind.is_bridge() {
                let core = self.core_space(work)?;
                inside(core.as_fd(), &object, |socket| {
                    let mut batch = Batch::new();
                    batch.push(object.as_str(), &Change::of(new.index).mtu(new.mtu));
                    run(socket, &mut batch, &object, "set its MTU")
                })?;
            }
            let old = was.switches(name);
            if let Some(options) = new.kind.as_shm() {
                let old: Vec<_> = old.iter().filter_map(|old| old.kind.as_shm()).collect();
                self.kept.keepers.switches.rule_anew(&self.folder, name, &old, options)?;
            }
            if new.kind.as_openflow().is_some() && old.iter().any(|old| old.kind != new.kind) {
                self.kept.keepers.flows.restart(&self.context(&state, &work.inits), name)?;
            }
        }
        Ok(())
    }

    /// Makes slices those of the current plan, and has switches that became sliced, or stopped being so, speak with whom they
    /// are to speak with. Those whose own settings change, too, are started again with these.
    pub(super) fn change_slices(&self, work: &Work, was: &Was<'_>) -> Result<()> {
        let state = self.state();
        let plan = &state.plan;
        if was.plans().all(|old| old.slices == plan.slices) {
            return Ok(());
        }
        let context = self.context(&state, &work.inits);
        let keepers = &self.kept.keepers;
        keepers.slicers.renew(&context)?;
        for switch in plan.switches.iter().filter(|switch| switch.kind.as_openflow().is_some()) {
            let name = &switch.name;
            let sliced = plan.is_sliced(name);
            let differs = was.plans().any(|old| old.is_sliced(name) != sliced);
            if differs && was.switches(name).iter().all(|old| old.kind == switch.kind) {
                keepers.flows.restart(&context, name)?;
            }
        }
        Ok(())
    }

    /// The core's network namespace.
    pub(crate) fn core_space(&self, work: &Work) -> Result<std::os::fd::OwnedFd> {
        let core = work.inits.get(&NodeId::CORE).filter(|init| init.lives());
        core.ok_or_else(|| Error::DeadNode("(core)".into()))?.network("(core)")
    }
}
