//! The slicer of a lab: one process between the lab's OpenFlow switches and the controllers of its slices.
//!
//! Sliced switches connect to its socket, as to any controller. It survives a kill of the lab process and is restarted
//! when it ends; switches forward on meanwhile. Its configuration (slices, numbers of ports, namespaces of controllers)
//! is sent again by the lab process that starts or finds it. A namespace is taken back as soon as its node ends.

mod desired_state;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netloom_model::Plan;
use netloom_model::kinds::openflow::Controller;
use netloom_model::slices::Slice;
use netloom_slice::Application;
use netloom_slice::control::requests::ControllerShown;
use netloom_slice::control::{Connection, Fault, Shown};

use crate::build::keeper::{Context, Fresh, Gone, Keeper};
use crate::keep::flows::agent::{Space, journal, space};
use crate::stage::role::{self, Pause, Process, Role};
use crate::store::state::{Folder, SLICER as SLICER_FOLDER, State, make_private_dir};
use crate::view::{OpenflowController, OpenflowSlice};
use crate::{Error, Result};

/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The object of failures.
const SLICER: &str = "slicer";

/// The slicer of a lab.
#[derive(Default)]
pub(crate) struct Slicers {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    slicer: Option<Slicer>,
    pause: Pause,
}

/// The process, and the namespaces that it was given.
struct Slicer {
    own: Process,
    folder: Folder,
    spaces: Vec<Space>,
}

impl Slicers {
    /// Has the process that the lab's slices need, none without any, and tells it the slices.
    pub(crate) fn renew(&self, context: &Context<'_>) -> Result<()> {
        if is_wanted(&context.state.plan) {
            return self.inner().have(context);
        }
        // Slices may have gone with a change of the plan.
        self.end(context.folder);
        Ok(())
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open(folder: &Folder) -> Result<Option<Connection>> {
    let opened = Connection::open(&folder.slicer_control()).map_err(Error::of(SLICER, "connect"));
    Ok(opened?.map(|connection| connection.within(PATIENCE)))
}

fn is_wanted(plan: &Plan) -> bool {
    !plan.slices.is_empty()
}

/// What the slicer of a lab says.
///
/// # Errors
/// The lab has none, or its process is not there at the moment.
pub(crate) fn shown(folder: &Folder, plan: &Plan) -> Result<Shown> {
    let object = || SLICER.to_owned();
    if !is_wanted(plan) {
        return Err(Error::Invalid {
            object: object().into(),
            reason: "the lab has no slices".into(),
        });
    }
    let none = || Error::Busy {
        object: object().into(),
        reason: "its process is not there at the moment".into(),
    };
    open(folder)?.ok_or_else(none)?.show().map_err(|e| match e {
        netloom_slice::Error::Control(Fault::Ended) => none(),
        other => Error::of(SLICER, "ask")(other),
    })
}

/// The slices of a switch; what they have, if their slicer says it.
pub(crate) fn on(shown: &Shown, plan: &Plan, switch: &str) -> Vec<OpenflowSlice> {
    let there = plan.slices.iter().filter(|slice| slice.switches.contains_key(switch));
    let status = |slice: &Slice| {
        let said = shown.slices.iter().find(|said| said.name == slice.name);
        let said = said.and_then(|said| said.switches.iter().find(|on| on.switch == switch));
        let controller = |of: &Controller| {
            // The process says addresses, the plan names: both come from one function.
            let wanted = desired_state::controller(of);
            let is = |one: &&ControllerShown| {
                one.target == wanted.target.to_string() && one.namespace == wanted.namespace
            };
            let told = said.and_then(|said| said.controllers.iter().find(is));
            OpenflowController {
                controller: of.to_string(),
                connected: told.is_some_and(|told| told.connected),
                reason: told.and_then(|told| told.reason.clone()),
            }
        };
        OpenflowSlice {
            slice: slice.name.clone(),
            rules: said.map_or(0, |said| said.rules),
            entries: said.map_or(0, |said| said.entries),
            controllers: slice.controllers.iter().map(controller).collect(),
        }
    };
    there.map(status).collect()
}

impl Slicer {
    /// The process, if it lives.
    fn find(folder: &Folder) -> Result<Option<Slicer>> {
        let Some(connection) = open(folder)? else { return Ok(None) };
        let socket = folder.slicer_control();
        let known = Process::known(Role::Slice, &socket, connection.process(), || open(folder))?;
        Ok(known.map(|(own, _)| Slicer { own, folder: folder.clone(), spaces: vec![] }))
    }

    fn start(context: &Context<'_>) -> Result<Slicer> {
        let folder = context.folder;
        make_private_dir(&folder.slicer_folder())?;
        let application = Application {
            socket: Some(folder.slicer_socket()),
            services: Some(folder.slicer_folder()),
            memory: Some(folder.slicer_folder()),
            // It may be long: it follows over the control socket.
            ..Application::new(&context.state.plan.lab, netloom_slice::Policy::default())
        };
        let text = serde_json::to_string(&application)
            .map_err(|e| Error::of(SLICER, "write its options")(std::io::Error::from(e)))?;
        let (path, socket) = (folder.path(), folder.slicer_control());
        let words = [path.as_os_str(), socket.as_os_str(), OsStr::new(&text)];
        let find = || Slicer::find(folder);
        role::start(Role::Slice, &words, None, "start a slicer", find)
    }

    fn connect(&self) -> Result<Connection> {
        let ended = || Error::of(SLICER, "tell")(netloom_slice::Error::Control(Fault::Ended));
        open(&self.folder)?.ok_or_else(ended)
    }

    /// Tells it the slices.
    fn tell(&self, plan: &Plan) -> Result<()> {
        let policy = desired_state::policy(plan);
        self.connect()?.set_policy(&policy).map_err(Error::of(SLICER, "tell it the slices"))
    }

    /// Gives it the namespaces of controllers in living nodes: those that it has not, and of nodes that are `fresh`.
    fn name_spaces(
        &mut self,
        context: &Context<'_>,
        fresh: impl Fn(netloom_model::plan::Slot) -> bool,
    ) -> Result<()> {
        let plan = &context.state.plan;
        let used = self.used_spaces()?;
        for node in desired_state::nodes(plan) {
            let Some(slot) = plan.node(node) else { continue };
            let (id, name) = (plan.nodes[slot].id, desired_state::space_of(node));
            let known = self.spaces.iter().any(|space| space.node == id);
            let Some((space, init)) = space(context.inits, id)? else {
                self.drop_space(&name);
                continue;
            };
            // Giving it again would cut its controllers' connections.
            if known && !fresh(slot) {
                continue;
            }
            // One that an earlier lab process gave it is in use.
            if fresh(slot) || !used.contains(&name) {
                let given = self.connect()?.set_namespace(&name, &space);
                given.map_err(Error::of(SLICER, "give it a namespace"))?;
            }
            self.spaces.retain(|known| known.node != id);
            self.spaces.push(Space { node: id, name, init });
        }
        Ok(())
    }

    /// The namespaces from which it is connected with controllers.
    fn used_spaces(&self) -> Result<BTreeSet<String>> {
        let shown = self.connect()?.show().map_err(Error::of(SLICER, "ask"))?;
        let switches = shown.slices.into_iter().flat_map(|slice| slice.switches);
        let controllers = switches.flat_map(|switch| switch.controllers);
        Ok(controllers.filter(|one| one.connected).filter_map(|one| one.namespace).collect())
    }

    fn drop_space(&self, name: &str) {
        // A process that has ended has let go already.
        let _ = self.connect().map(|connection| connection.drop_namespace(name));
    }

    /// Takes namespaces back.
    fn let_go(&mut self, which: impl Fn(&Space) -> bool) {
        let gone: Vec<Space> = self.spaces.extract_if(.., |space| which(space)).collect();
        gone.iter().for_each(|space| self.drop_space(&space.name));
    }
}

impl Inner {
    /// Finds or starts the process, and tells it everything.
    fn have(&mut self, context: &Context<'_>) -> Result<()> {
        if !is_wanted(&context.state.plan) {
            return Ok(());
        }
        if self.slicer.as_ref().is_none_or(|slicer| !slicer.own.lives()) {
            let slicer = match Slicer::find(context.folder)? {
                Some(slicer) => slicer,
                None => Slicer::start(context)?,
            };
            self.slicer = Some(slicer);
        }
        // Also one that was found: the plan may have changed while no lab process lived.
        self.tell(context, |_| false)
    }

    fn tell(
        &mut self,
        context: &Context<'_>,
        fresh: impl Fn(netloom_model::plan::Slot) -> bool,
    ) -> Result<()> {
        let Some(slicer) = &mut self.slicer else { return Ok(()) };
        slicer.tell(&context.state.plan)?;
        slicer.name_spaces(context, fresh)
    }
}

impl Keeper for Slicers {
    fn fit(&self, context: &Context<'_>, fresh: Fresh<'_>) -> Result<()> {
        let mut inner = self.inner();
        inner.have(context)?;
        inner.tell(context, |node| fresh.slots.contains(&node))
    }

    fn adopt(&self, context: &Context<'_>) -> Result<()> {
        // What fails here is tried again.
        if let Err(e) = self.inner().have(context) {
            journal(&e);
        }
        Ok(())
    }

    fn forget(&self, _: &State, gone: Gone<'_>) {
        if let Some(slicer) = &mut self.inner().slicer {
            slicer.let_go(|space| gone.nodes.contains(&space.node));
        }
    }

    fn watched(&self) -> Vec<OwnedFd> {
        let inner = self.inner();
        let Some(slicer) = &inner.slicer else { return vec![] };
        let inits = slicer.spaces.iter().map(|space| &space.init);
        std::iter::once(&slicer.own.pidfd)
            .chain(inits)
            .filter_map(|fd| fd.try_clone().ok())
            .collect()
    }

    fn tend(&self, context: &Context<'_>) -> Option<Duration> {
        let mut inner = self.inner();
        if let Some(slicer) = &mut inner.slicer {
            slicer.let_go(Space::has_ended);
        }
        if !is_wanted(&context.state.plan) {
            return None;
        }
        let lived = match &inner.slicer {
            Some(slicer) if slicer.own.lives() => return None,
            Some(slicer) => Some(slicer.own.since.elapsed()),
            None => None,
        };
        // Ended before it is replaced: its descriptors would be watched for ever.
        inner.slicer = None;
        // A copy, put back below: the restart needs the rest of `inner` for itself.
        let mut pause = inner.pause;
        let next = pause.restart(lived, "the slicer", || inner.have(context));
        inner.pause = pause;
        next
    }

    fn is_whole(&self, state: &State) -> bool {
        let lives = |slicer: &Slicer| slicer.own.lives();
        !is_wanted(&state.plan) || self.inner().slicer.as_ref().is_some_and(lives)
    }

    fn end(&self, folder: &Folder) {
        if let Some(slicer) = self.inner().slicer.take() {
            slicer.own.end();
        }
        let _ = folder.remove_part(SLICER_FOLDER);
    }

    fn sweep(&self, folder: &Folder, _: Option<&Plan>) -> Result<()> {
        if let Some(slicer) = Slicer::find(folder)? {
            slicer.own.end();
        }
        let _ = folder.remove_part(SLICER_FOLDER);
        Ok(())
    }
}
