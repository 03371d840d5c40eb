//! Answers requests to a running lab: implements [`Service`]. Views are read from the kernel on request.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use netloom_measure::Probe;
use netloom_model::Plan;
use netloom_model::lookup::{LookupError, slot};
use netloom_model::plan::{NodeId, Slot};
use netloom_node::Users;
use netloom_node::control::{self, Connection};
use netloom_node::entry::Entry;
use netloom_node::init;
use netloom_node::log;
use netloom_node::spec::{NodeSpec, log_names, socket_name};
use netloom_slice::control::{Shown as Sliced, SliceShown};
use netloom_sys::cgroup::Join;
use netloom_sys::namespace;
use rustix::process::Pid;

use crate::keep::slicers;
use crate::run::drift::Differences;
use crate::run::lists;
use crate::run::running::{Made, Phase, Running};
use crate::run::sources::Sources;
use crate::run::status;
use crate::service::LogMark;
use crate::service::call::{Answers, Call, Within};
use crate::service::calls::{self, ReadLog, calls};
use crate::stage::users;
use crate::store::state::State;
use crate::view::{Ended, InterfaceStatus, LogLine, NodeStatus, Repaired};
use crate::{Error, Result, Service, UNRECORDED};

/// The longest plan that is taken, whatever the lab is like, and for the largest labs. 100,000 routes are 5.9 MB.
const LEAST_PLAN: usize = 16 << 20;
const MOST_PLAN: usize = 256 << 20;

/// Time limit for an init to accept a caller.
const PASSING_ON: Duration = Duration::from_secs(5);

impl Running {
    /// The files of a node's log.
    fn logs(&self, node: NodeId) -> [PathBuf; 2] {
        log_names(node.get()).map(|name| self.folder.sockets().join(name))
    }

    /// Whether all inits, whose pids these are, and all keepers are complete.
    pub(crate) fn is_whole(&self, state: &State, pids: &[Option<Pid>]) -> bool {
        let kept = self.kept.keepers.all().into_iter().all(|keeper| keeper.is_whole(state));
        self.has_core() && pids.iter().all(Option::is_some) && kept
    }

    pub(crate) fn node(&self, node: &str) -> Result<NodeStatus> {
        let state = self.state();
        let at = slot(&state.plan, node)?;
        let pids = self.pids_of(&state.plan, &BTreeSet::from([at]));
        status::read_node(&Sources::new(self, &state, &pids), at)
    }

    pub(crate) fn repair(&self, keep_drift: bool) -> Result<Repaired> {
        // First: inits that hang would count as living.
        self.drop_silent();
        let state = self.state();
        // It runs again before the rest is compared.
        let is_up = self.phase() == Phase::Up;
        let lacking = if is_up { self.lacking_recorder(&state) } else { None };
        let Made { nodes, troubles, notes } = self.make(&|_, _, _| {}, &|| Ok(()), !keep_drift)?;
        let mut drift = self.settle_drift(keep_drift)?;
        if !keep_drift && !troubles.iter().any(|trouble| trouble.starts_with(UNRECORDED)) {
            drift.extend(Differences::default().with_processes(vec![], lacking).lines(&state));
        }
        Ok(Repaired { nodes, troubles, notes, drift })
    }

    pub(crate) fn log(&self, call: &ReadLog) -> Result<Vec<LogLine>> {
        let node = &*call.node;
        let state = self.state();
        let planned = &state.plan.nodes[slot(&state.plan, node)?];
        // The only program around a machine shows its console.
        let (names, runs) = match planned.kind.as_vm() {
            Some(_) => (Vec::new(), 1),
            None => {
                // A router's daemons come before the file's programs.
                let daemons = state.plan.daemons_of(slot(&state.plan, node)?);
                let mut programs = daemons.map(|of| of.programs).unwrap_or_default();
                programs.extend(planned.run.iter().cloned());
                (log::names(&programs), programs.len())
            }
        };
        let setups = planned.setup.len();
        let mut records = log::read(&self.logs(planned.id));
        // The newest are wanted: cut off before the limit counts from the oldest.
        records.retain(|r| r.time_ns > call.after.0);
        if let Some(tail) = call.tail {
            let tail = usize::try_from(tail).unwrap_or(usize::MAX);
            records.drain(..records.len().saturating_sub(tail));
        }
        records.truncate(call.limit.size());
        for r in &mut records {
            let command = || match r.program.checked_sub(runs)? {
                setup if setup < setups => Some(format!("setup {}", setup + 1)),
                exec => Some(format!("exec {}", exec - setups + 1)),
            };
            r.name = names.get(r.program).cloned().or_else(command);
        }
        Ok(records.into_iter().map(LogLine::from).collect())
    }

    /// The plan of the lab, or of what is in a node.
    pub(crate) fn plan_of(&self, part: Within) -> Result<Plan> {
        let state = self.state();
        let Some(root) = part.0 else { return Ok(state.plan.clone()) };
        Ok(state.plan.slot_of(root).map_or_else(Plan::default, |slot| state.plan.subtree(slot)))
    }

    /// The nodes of the lab, or of what is in a node.
    pub(crate) fn slots_of(&self, part: Within) -> Vec<Slot> {
        lists::slots_within(&self.state().plan, part)
    }

    /// An interface of a node.
    pub(crate) fn interface(&self, node: &str, name: &str) -> Result<InterfaceStatus> {
        let found = self.node(node)?.interfaces.into_iter().find(|one| one.name == name);
        found.ok_or_else(|| self.lacks("interface", format!("{node}:{name}")))
    }

    /// The state of a slice.
    pub(crate) fn slice(&self, name: &str) -> Result<SliceShown> {
        let found = self.slices()?.slices.into_iter().find(|one| one.name == name);
        found.ok_or_else(|| self.lacks("slice", name.to_owned()))
    }

    pub(super) fn lacks(&self, kind: &'static str, name: String) -> Error {
        LookupError::NoPart { lab: self.state().plan.lab.clone(), kind, name }.into()
    }

    /// The state of the lab's slices.
    pub(crate) fn slices(&self) -> Result<Sliced> {
        slicers::shown(&self.folder, &self.state().plan)
    }

    /// Takes the lab down. Returns when nothing is left but the lab process itself, which ends once the answer has been
    /// given.
    pub(crate) fn end(&self) -> Result<Ended> {
        let lab = self.state().plan.lab.clone();
        self.enter(Phase::Ended);
        let result = self.take_down();
        if !matches!(result, Err(Error::Stuck { .. })) {
            // The lab process ends in any case: the next `down` finds what is left.
            let _ = rustix::io::write(&self.ended, b".");
        }
        result.map(|()| Ended { lab })
    }
}

macro_rules! answered {
    ($($name:ident = $row:tt do |$lab:ident, $call:ident| $run:expr;)*) => {$(
        impl Answers<calls::$name> for Running {
            fn answer(&self, $call: calls::$name) -> Result<<calls::$name as Call>::Answer> {
                let $lab = self;
                $run
            }
        }
    )*};
}
calls!(answered);

impl Service for Running {
    fn plan_limit(&self) -> usize {
        // Twice what it is now, so that a lab can grow.
        (2 * self.state().plan.weight()).clamp(LEAST_PLAN, MOST_PLAN)
    }

    fn log_mark(&self, node: &str) -> Result<LogMark> {
        let state = self.state();
        let id = state.plan.nodes[slot(&state.plan, node)?].id;
        Ok(self.logs(id).map(|path| {
            let found = std::fs::metadata(path);
            let written = |at: &std::fs::Metadata| {
                i128::from(at.mtime()) * 1_000_000_000 + i128::from(at.mtime_nsec())
            };
            // A log that is not there yet is empty.
            found.map_or((0, 0), |found| (found.len(), written(&found)))
        }))
    }

    fn entry(&self, node: &str) -> Result<Entry> {
        self.with_init(node, |state, planned, found| {
            let object = format!("node {node:?}");
            let init = found.pidfd.try_clone().map_err(Error::at(&object, "copy its pidfd"))?;
            let groups = state
                .groups
                .join_handles(planned.id.get())
                .map_err(Error::of(&object, "open its cgroups"))?;
            let mut spec = NodeSpec::core(planned.id.get(), node);
            spec.env.clone_from(&planned.env);
            let env = init::environment(&state.plan.lab, &spec);
            Ok(Entry {
                node: node.to_owned(),
                init,
                groups,
                user: state.user,
                own_user: namespace::has_other_user(found.pid),
                env,
                nested: planned.children.is_some() || planned.parent.is_some(),
                privileged: planned.privileged,
                users: users::in_node(state, planned),
                by_init: false,
                machine: planned.kind.as_vm().is_some(),
            })
        })
    }

    fn run_in(&self, node: &str, fds: &[OwnedFd]) -> Result<()> {
        // The lock is not held while the init is waited for.
        let id = self.with_init(node, |_, planned, _| Ok(planned.id))?;
        let socket = self.folder.sockets().join(socket_name(id.get()));
        let init = Connection::open_within(node, &socket, PASSING_ON)?;
        let init = init.ok_or_else(|| Error::DeadNode(node.to_owned()))?;
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        Ok(init.send_with(&control::Request::Run, &fds)?)
    }

    fn core(&self) -> Result<Entry> {
        let state = self.state();
        let (lab, user) = (state.plan.lab.clone(), state.user);
        let work = self.work();
        let found = work.inits.get(&NodeId::CORE).filter(|i| i.lives());
        let object = "core namespace";
        let init = found.ok_or_else(|| Error::DeadNode(object.to_owned()))?;
        let init = init.pidfd.try_clone().map_err(Error::at(object, "copy its pidfd"))?;
        // No node's cgroups: what is done in the core is nobody's to pay.
        let groups = Join { tasks: vec![], v2: None };
        Ok(Entry {
            node: lab,
            init,
            groups,
            user,
            own_user: false,
            env: vec![],
            nested: false,
            privileged: true,
            users: Users::Kernel,
            by_init: false,
            machine: false,
        })
    }

    fn metrics(&self) -> Result<String> {
        self.exposition()
    }

    fn probe(&self) -> Result<Arc<Probe>> {
        self.kept.probing.probe(self.folder.name())
    }
}
