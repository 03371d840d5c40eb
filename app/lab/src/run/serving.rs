//! Answers requests to a running lab: implements [`Service`]. Views are read from the kernel on request.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use netloom_flow::control::requests::{Shown as FlowShown, TraceWhat, Traced};
use netloom_measure::Probe;
use netloom_model::Plan;
use netloom_model::lookup::{find_link, slot};
use netloom_model::plan::{NodeId, Slot};
use netloom_node::Users;
use netloom_node::control::{self, Connection};
use netloom_node::entry::Entry;
use netloom_node::init;
use netloom_node::log::{self, Record};
use netloom_node::ping::Pace;
use netloom_node::spec::{NodeSpec, log_names, socket_name};
use netloom_slice::control::Shown as Sliced;
use netloom_switch::control::requests::{Answer, Request};
use netloom_sys::cgroup::Join;
use netloom_sys::namespace;

use crate::keep::slicers;
use crate::run::drift::Left;
use crate::run::running::{Made, Phase, Running};
use crate::run::sources::Sources;
use crate::run::status;
use crate::service::LogMark;
use crate::stage::users;
use crate::view::{
    Applied, Apply, Changed, Fates, LabStatus, LinkSettings, LinkStatus, MoveInterface, NewLink,
    NewNode, NewSwitch, NodeSettings, NodeStatus, PairReachability, Reachability, Repaired,
};
use crate::{Error, Result, Service};

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
}

impl Service for Running {
    fn plan_limit(&self) -> usize {
        (2 * self.state().plan.weight()).clamp(LEAST_PLAN, MOST_PLAN)
    }

    fn status(&self) -> Result<LabStatus> {
        let state = self.state();
        let pids = self.pids(&state.plan);
        let kept = self.kept.keepers.all().into_iter().all(|keeper| keeper.is_whole(&state));
        let whole = self.has_core() && pids.iter().all(Option::is_some) && kept;
        let mut sources = Sources::new(self, &state, &pids);
        if self.phase() == Phase::Up {
            let core = self.inhabited(&self.work(), &state).core;
            sources.drift = Some((Left::read(&self.folder)?, core));
        }
        status::read(&sources, whole)
    }

    fn node(&self, node: &str) -> Result<NodeStatus> {
        let state = self.state();
        let at = slot(&state.plan, node)?;
        let pids = self.pids_of(&state.plan, &BTreeSet::from([at]));
        status::read_node(&Sources::new(self, &state, &pids), at)
    }

    fn link(&self, link: &str) -> Result<LinkStatus> {
        let state = self.state();
        let (at, _) = find_link(&state.plan, link)?;
        let slots = status::ends_and_guests(&state, &state.plan.links[at]);
        let pids = self.pids_of(&state.plan, &slots);
        status::read_link(&Sources::new(self, &state, &pids), at)
    }

    fn plan(&self) -> Arc<Plan> {
        Arc::new(self.state().plan.clone())
    }

    fn repair(&self, keep_drift: bool) -> Result<Repaired> {
        self.drop_silent();
        let Made { nodes, troubles, notes } = self.make(&|_, _, _| {})?;
        let drift = self.settle_drift(keep_drift)?;
        Ok(Repaired { nodes, troubles, notes, drift })
    }

    fn ping(&self, families: &[u8], timeout: Duration) -> Result<Reachability> {
        let all: Vec<Slot> = self.state().plan.slots().collect();
        self.ping_among(&all, families, timeout)
    }

    fn ping_pair(
        &self,
        from: &str,
        to: &str,
        families: &[u8],
        pace: Pace,
    ) -> Result<PairReachability> {
        self.ping_one(from, to, families, pace)
    }

    fn log(&self, node: &str, after_ns: u64) -> Result<Vec<Record>> {
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
        records.retain(|r| r.time_ns > after_ns);
        for r in &mut records {
            let command = || match r.program.checked_sub(runs)? {
                setup if setup < setups => Some(format!("setup {}", setup + 1)),
                exec => Some(format!("exec {}", exec - setups + 1)),
            };
            r.name = names.get(r.program).cloned().or_else(command);
        }
        Ok(records)
    }

    fn log_mark(&self, node: &str) -> Result<LogMark> {
        let state = self.state();
        let id = state.plan.nodes[slot(&state.plan, node)?].id;
        Ok(self.logs(id).map(|path| {
            let found = std::fs::metadata(path);
            let written = |at: &std::fs::Metadata| {
                i128::from(at.mtime()) * 1_000_000_000 + i128::from(at.mtime_nsec())
            };
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
        let id = self.with_init(node, |_, planned, _| Ok(planned.id))?;
        let socket = self.folder.sockets().join(socket_name(id.get()));
        let init = Connection::open_within(node, &socket, Some(PASSING_ON))?;
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

    fn create_node(&self, request: &NewNode) -> Result<Changed> {
        self.create(request)
    }

    fn delete_node(&self, node: &str, force: bool) -> Result<Changed> {
        self.delete(node, force)
    }

    fn set_node(&self, node: &str, change: &NodeSettings) -> Result<Changed> {
        self.set(node, change)
    }

    fn move_control(&self, node: &str) -> Result<Changed> {
        Running::move_control(self, node)
    }

    fn move_interface(&self, request: &MoveInterface) -> Result<Changed> {
        self.move_to(request)
    }

    fn set_link(&self, link: &str, change: &LinkSettings) -> Result<LinkStatus> {
        self.impair(link, change)
    }

    fn create_link(&self, request: &NewLink) -> Result<Changed> {
        self.make_link(request)
    }

    fn delete_link(&self, link: &str) -> Result<Changed> {
        self.remove_link(link)
    }

    fn note_fates(&self, link: &str, keep: Option<usize>) -> Result<()> {
        self.note(link, keep)
    }

    fn fates(&self, link: &str, end: usize, after: Option<u64>) -> Result<Fates> {
        self.fates_of(link, end, after)
    }

    fn create_switch(&self, request: &NewSwitch) -> Result<Changed> {
        self.make_switch(request)
    }

    fn delete_switch(&self, switch: &str, force: bool) -> Result<Changed> {
        self.remove_switch(switch, force)
    }

    fn ask_switch(&self, switch: &str, request: &Request) -> Result<Answer> {
        self.ask_the_switch(switch, request)
    }

    fn show_openflow(&self, switch: &str) -> Result<FlowShown> {
        self.show_the_openflow(switch)
    }

    fn show_slices(&self) -> Result<Sliced> {
        slicers::shown(&self.folder, &self.state().plan)
    }

    fn trace_frame(&self, switch: &str, what: &TraceWhat) -> Result<Traced> {
        self.trace_a_frame(switch, what)
    }

    fn apply(&self, request: Apply) -> Result<Applied> {
        self.apply_plan(request)
    }

    fn probe(&self) -> Result<Arc<Probe>> {
        self.kept.probing.probe(self.folder.name())
    }

    fn down(&self) -> Result<()> {
        self.enter(Phase::Ended);
        let result = self.take_down();
        if !matches!(result, Err(Error::Stuck { .. })) {
            // The lab process ends in any case: the next `down` finds what is left.
            let _ = rustix::io::write(&self.ended, b".");
        }
        result
    }
}
