//! The process of an OpenFlow switch: found, started, told, ended.
//!
//! Its control socket identifies it: the kernel tells a client the listening process.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_flow::control::requests::{ControllerState, PortShown};
use netloom_flow::control::{Connection, Fault, PortSpec};
use netloom_model::plan::{NodeId, PlannedEnd, PlannedLink, PlannedSwitch, Slot};
use netloom_sys::process;

use super::desired_state::{self, Wanted, space_of};
use crate::build::keeper::Context;
use crate::stage::role::{self, Process, Role};
use crate::stage::{attach, inits::Inits};
use crate::store::state::{FLOWS, Folder, make_private_dir};
use crate::{Error, Result};

/// Time limit for an answer: a switch of a thousand ports on a busy machine still gives it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process, and the namespaces that it was given.
pub(super) struct Agent {
    own: Process,
    /// Its control socket.
    socket: PathBuf,
    switch: String,
    spaces: Vec<Space>,
}

/// The network namespace of a node, for as long as its init lives.
pub(crate) struct Space {
    pub(crate) node: NodeId,
    pub(crate) name: String,
    pub(crate) init: OwnedFd,
}

// By pidfd: a pid may be given again.
impl Space {
    pub(crate) fn has_ended(&self) -> bool {
        process::has_ended(self.init.as_fd())
    }
}

/// A connection to the process of a switch, if it lives.
pub(super) fn open(folder: &Folder, switch: &str) -> Result<Option<Connection>> {
    open_at(&folder.flow_control(switch), switch)
}

fn open_at(socket: &Path, switch: &str) -> Result<Option<Connection>> {
    let opened =
        Connection::open(socket).map_err(Error::of(format!("switch {switch:?}"), "connect"));
    Ok(opened?.map(|connection| connection.within(PATIENCE)))
}

fn known(socket: &Path, switch: &str) -> Result<Option<Agent>> {
    let Some(connection) = open_at(socket, switch)? else { return Ok(None) };
    let known =
        Process::known(Role::Flow, socket, connection.process(), || open_at(socket, switch))?;
    let (socket, switch) = (socket.to_owned(), switch.to_owned());
    Ok(known.map(|(own, _)| Agent { own, socket, switch, spaces: vec![] }))
}

impl Agent {
    /// The process of a switch, if it lives.
    pub(super) fn find(folder: &Folder, switch: &str) -> Result<Option<Agent>> {
        known(&folder.flow_control(switch), switch)
    }

    /// Starts the process in the lab's core namespace.
    pub(super) fn start(context: &Context<'_>, wanted: &Wanted<'_>) -> Result<Agent> {
        let (folder, name) = (context.folder, &*wanted.name());
        let object = || format!("switch {name:?}");
        make_private_dir(&folder.flow_folder(name))?;
        // Its ports' interfaces are there.
        let core = attach::open(context.inits, NodeId::CORE)?.ok_or_else(|| Error::Busy {
            object: object().into(),
            reason: "the lab's core namespace is gone; `netloom up` recreates it".into(),
        })?;
        let application = desired_state::application(&context.state.plan, folder, wanted);
        let text = serde_json::to_string(&application)
            .map_err(|e| Error::of(object(), "write its options")(std::io::Error::from(e)))?;
        let (path, socket) = (folder.path(), folder.flow_control(name));
        let words = [path.as_os_str(), socket.as_os_str(), OsStr::new(&text)];
        let find = || Agent::find(folder, name);
        role::start(Role::Flow, &words, Some(core), "start an OpenFlow switch", find)
    }

    pub(super) fn lives(&self) -> bool {
        self.own.lives()
    }

    /// Since when it is known.
    pub(super) fn age(&self) -> Duration {
        self.own.since.elapsed()
    }

    pub(super) fn end(self) {
        self.own.end();
    }

    /// Descriptors that become readable when it ends, or a node whose namespace it has.
    pub(super) fn watched(&self) -> impl Iterator<Item = OwnedFd> {
        let all = std::iter::once(&self.own.pidfd).chain(self.spaces.iter().map(|s| &s.init));
        all.filter_map(|pidfd| pidfd.try_clone().ok()).collect::<Vec<_>>().into_iter()
    }

    /// A new connection: after a failure an old one is of no more use.
    fn connect(&self) -> Result<Connection> {
        let ended = || self.failed("tell")(netloom_flow::Error::Control(Fault::Ended));
        open_at(&self.socket, &self.switch)?.ok_or_else(ended)
    }

    fn failed(&self, operation: &'static str) -> impl Fn(netloom_flow::Error) -> Error + use<> {
        Error::of(format!("switch {:?}", self.switch), operation)
    }

    /// Tells it all its ports and the namespaces that it misses, and removes those ports that are no longer in the
    /// plan. A port that it refuses is noted in the log: its link is recreated, and then the port is added.
    pub(super) fn tell_again(&mut self, context: &Context<'_>, wanted: &Wanted<'_>) -> Result<()> {
        let plan = &context.state.plan;
        let connection = self.connect()?;
        let shown = connection.show().map_err(self.failed("ask"))?;
        let all = wanted.ports(plan, plan.links.iter());
        // Of a link that was removed while no lab process lived.
        for number in left_over(&shown.ports, &all) {
            connection.remove_port(number).map_err(self.failed("take a port away"))?;
        }
        let here = match wanted {
            // Also of a link whose other end is recreated, or of a router that is.
            Wanted::Plane(..) => all,
            Wanted::Switch(_, switch, _) => {
                let waits = |name: &str| {
                    let mut here =
                        shown.controllers.iter().filter(|c| c.namespace.as_deref() == Some(name));
                    here.any(|controller| controller.state == ControllerState::Waiting)
                };
                self.name_spaces(context, switch, |_, name| waits(name))?;
                wanted.ports(plan, plan.links.iter().filter(|link| has_ends(context, link)))
            }
        };
        for port in here {
            if let Err(e) = self.add_port(&connection, port) {
                journal(&e);
            }
        }
        Ok(())
    }

    /// Gives it the namespaces of its controllers: of all that are `wanted`, by node and name. Those of living nodes that
    /// it is not given it has.
    pub(super) fn name_spaces(
        &mut self,
        context: &Context<'_>,
        switch: &PlannedSwitch,
        wanted: impl Fn(Slot, &str) -> bool,
    ) -> Result<()> {
        let Some(options) = switch.kind.as_openflow() else { return Ok(()) };
        let plan = &context.state.plan;
        for node in desired_state::nodes_of(options) {
            let Some(slot) = plan.node(node) else { continue };
            let (id, name) = (plan.nodes[slot].id, space_of(node));
            let known = self.spaces.iter().any(|space| space.node == id);
            let Some((space, init)) = space(context.inits, id)? else {
                self.drop_space(&name);
                continue;
            };
            if wanted(slot, &name) {
                self.name_space(&name, &space)?;
            } else if known {
                continue;
            }
            // An older init of the same node has another namespace.
            self.spaces.retain(|known| known.node != id);
            self.spaces.push(Space { node: id, name, init });
        }
        Ok(())
    }

    fn name_space(&self, name: &str, space: &OwnedFd) -> Result<()> {
        let connection = self.connect()?;
        connection.set_namespace(name, space).map_err(self.failed("give it a namespace"))
    }

    fn drop_space(&self, name: &str) {
        // A process that has ended has let go already.
        let _ = self.connect().map(|connection| connection.drop_namespace(name));
    }

    /// Adds ports, or announces them again.
    pub(super) fn add_ports(&self, ports: impl Iterator<Item = PortSpec>) -> Result<()> {
        let mut ports = ports.peekable();
        if ports.peek().is_none() {
            return Ok(());
        }
        let connection = self.connect()?;
        ports.try_for_each(|port| self.add_port(&connection, port))
    }

    fn add_port(&self, connection: &Connection, port: PortSpec) -> Result<()> {
        let object = format!("switch {:?}: port {}", self.switch, port.name);
        connection.add_port(port).map_err(Error::of(object, "add"))
    }

    /// Removes a port; one that it does not have is not a failure, nor is a process that has just ended.
    pub(super) fn remove_port(&self, number: u32) {
        let _ = self.connect().map(|connection| connection.remove_port(number));
    }

    /// Takes namespaces back.
    pub(super) fn let_go(&mut self, which: impl Fn(&Space) -> bool) {
        let gone: Vec<Space> = self.spaces.extract_if(.., |space| which(space)).collect();
        gone.iter().for_each(|space| self.drop_space(&space.name));
    }
}

/// Whether the nodes at the ends of a link live and have its interfaces.
fn has_ends(context: &Context<'_>, link: &PlannedLink) -> bool {
    let lives = |end: &PlannedEnd| match end {
        PlannedEnd::Node { node, .. } => {
            let id = context.state.plan.node_at(*node).map(|node| node.id);
            id.and_then(|id| context.inits.get(&id)).is_some_and(|init| init.lives())
        }
        _ => true,
    };
    link.ends.iter().all(lives) && !context.state.lost.contains_key(&link.id)
}

/// The numbers of ports that a process has and should not.
fn left_over(shown: &[PortShown], wanted: &[PortSpec]) -> Vec<u32> {
    let is_wanted = |shown: &&PortShown| {
        wanted.iter().any(|p| p.number == shown.number && p.interface == shown.interface)
    };
    shown.iter().filter(|port| !is_wanted(port)).map(|port| port.number).collect()
}

/// The network namespace of a living node, with the pidfd of its init.
pub(crate) fn space(inits: &Inits, node: NodeId) -> Result<Option<(OwnedFd, OwnedFd)>> {
    let Some(space) = attach::open(inits, node)? else { return Ok(None) };
    let init = inits.get(&node).and_then(|init| init.pidfd.try_clone().ok());
    Ok(init.map(|init| (space, init)))
}

/// Writes a failure that stops nothing into the lab's log.
pub(crate) fn journal(failure: &Error) {
    netloom_sys::journal::line(format_args!("netloom: {}", netloom_sys::describe(failure)));
}

/// Removes the files of a switch.
pub(super) fn remove_files(folder: &Folder, switch: &str) {
    let own = folder.flow_folder(switch);
    let _ =
        own.file_name().and_then(|name| name.to_str()).map(|name| folder.remove_in(FLOWS, name));
    // The folder goes with the last switch.
    let _ = std::fs::remove_dir(folder.flow_files());
}

/// Removes the files of all switches.
pub(super) fn remove_all_files(folder: &Folder) {
    let _ = folder.remove_part(FLOWS);
}

/// Ends the processes of a lab whose lab process has ended.
pub(super) fn end_processes(folder: &Folder) -> Result<()> {
    for name in folder.names_in(Some(FLOWS)) {
        let socket = folder.flow_files().join(&name).join("control");
        if let Some(agent) = known(&socket, &name.to_string_lossy())? {
            agent.end();
        }
    }
    remove_all_files(folder);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(links: &str) -> netloom_model::Plan {
        let nodes = "nodes: {a: {kind: router, plane: separate}, b: , c: }";
        let text = format!("links: [{links}]\n{nodes}\nswitches: {{s: {{kind: openflow}}}}\n");
        let lab = netloom_model::parse("lab", text.as_bytes(), "lab").unwrap();
        netloom_model::plan::plan(&lab).unwrap()
    }

    /// A plane has two ports of a link, a switch has one.
    #[test]
    fn ports_of_a_link_that_is_gone_are_left_over() {
        let (old, new) = (plan("[a, b], [b, s], [a, s], [a, c]"), plan("[a, b], [b, s]"));
        for (which, all, left) in [("s", 2, 1), ("a", 6, 4)] {
            let of = |plan: &netloom_model::Plan| -> Vec<PortSpec> {
                let all = desired_state::all(plan);
                let mut wanted = all.filter(|wanted| match wanted {
                    Wanted::Switch(_, switch, _) => switch.name == which,
                    Wanted::Plane(_, node) => node.name == which,
                });
                wanted.next().unwrap().ports(plan, plan.links.iter())
            };
            let shown = |port: PortSpec| PortShown {
                number: port.number,
                interface: port.interface,
                ..PortShown::default()
            };
            let had: Vec<PortShown> = of(&old).into_iter().map(shown).collect();
            assert_eq!(had.len(), all, "{which}");
            assert_eq!(left_over(&had, &of(&old)), [0; 0]);
            let gone = left_over(&had, &of(&new));
            assert_eq!(gone.len(), left, "{which}: {gone:?}");
        }
    }
}
