//! What nodes change where they are: limits, protection, host names, settings of the kernel, files.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::Arc;

use ipnet::IpNet;
use netloom_model::Plan;
use netloom_model::merging::Merged;
use netloom_model::plan::{
    LinkId, LinkSlot, NodeId, PlannedLink, PlannedNode, PlannedSwitch, is_of_an_interface,
};
use netloom_node::{copy, placing};
use netloom_sys::{namespace, sysctl};

use super::places;
use crate::build::configure::is_late;
use crate::run::link_changes::nodes_of;
use crate::run::running::{Running, Work};
use crate::stage::spaces::on_a_thread;
use crate::stage::users;
use crate::store::state::State;
use crate::{Error, Result};

/// The plans that the machine may follow: the lab's when this began, and before that, if an earlier attempt was cut off,
/// the one that stood before it.
pub(super) struct Was<'a> {
    pub(super) now: Arc<State>,
    pub(super) before: Option<&'a State>,
}

impl Was<'_> {
    pub(super) fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.before.iter().map(|state| &state.plan).chain([&self.now.plan])
    }

    pub(super) fn nodes(&self, id: NodeId) -> Vec<&PlannedNode> {
        self.plans().filter_map(|plan| Some(&plan.nodes[plan.slot_of(id)?])).collect()
    }

    /// A link with the plan it is in.
    pub(super) fn links(&self, id: LinkId) -> Vec<(&Plan, &PlannedLink)> {
        self.plans().filter_map(|plan| Some((plan, &plan.links[plan.link_slot_of(id)?]))).collect()
    }

    pub(super) fn switches(&self, name: &str) -> Vec<&PlannedSwitch> {
        self.plans().filter_map(|plan| Some(&plan.switches[plan.switch(name)?])).collect()
    }

    /// The addresses of an interface.
    pub(super) fn addresses(&self, node: NodeId, index: u32, link: LinkId) -> Vec<IpNet> {
        self.plans().flat_map(|plan| addresses(plan, node, index, link)).collect()
    }
}

impl Running {
    /// Changes nodes, links and switches where they are; programs follow.
    pub(super) fn change_parts(
        &self,
        work: &mut Work,
        merged: &Merged,
        was: &Was<'_>,
    ) -> Result<()> {
        self.change_links(work, merged, was)?;
        self.change_loopbacks(work, merged, was, false)?;
        self.change_slices(work, was)?;
        self.change_switches(work, merged, was)?;
        for id in &merged.changed.nodes {
            for old in was.nodes(*id) {
                self.change_node(work, *id, old)?;
            }
            self.bind_anew(work, *id, was)?;
        }
        self.tell_name_servers(work, was.plans())?;
        self.publish_anew(work, merged, was)
    }

    /// Restarts what listens on the host for nodes whose published ports or addresses have changed.
    fn publish_anew(&self, work: &Work, merged: &Merged, was: &Was<'_>) -> Result<()> {
        let state = self.state();
        let ends = places(&state.plan, &merged.changed.links);
        let ends = ends.iter().flat_map(|at| nodes_of(&state.plan.links[*at]));
        let mut ids: BTreeSet<NodeId> = ends.map(|slot| state.plan.nodes[slot].id).collect();
        ids.extend(&merged.changed.nodes);
        // What the process is told; a node without ports has none.
        let told = |node: &PlannedNode| {
            let addresses = || node.all_addresses().copied().collect::<Vec<_>>();
            (!node.ports.is_empty()).then(|| (node.ports.clone(), addresses()))
        };
        ids.retain(|id| {
            let now = state.plan.slot_of(*id).and_then(|slot| told(&state.plan.nodes[slot]));
            was.nodes(*id).into_iter().any(|old| told(old) != now)
        });
        if ids.is_empty() {
            return Ok(());
        }
        self.kept.keepers.ports.renew(&self.context(&state, &work.inits), &ids)
    }

    fn change_node(&self, work: &mut Work, id: NodeId, old: &PlannedNode) -> Result<()> {
        let state = self.state();
        let Some(slot) = state.plan.slot_of(id) else { return Ok(()) };
        let new = state.plan.nodes[slot].clone();
        if !work.inits.get(&id).is_some_and(|init| init.lives()) {
            return Ok(());
        }
        if new.limits != old.limits {
            self.apply_limits(work, old, &new)?;
        }
        if new.protect != old.protect || new.charge_receive != old.charge_receive {
            let state = self.state();
            self.apply_guards_from(work, &state, slot, old, &new)?;
        }
        if let Some(init) = work.inits.get(&id).filter(|_| new.host_name() != old.host_name()) {
            namespace::set_host_name(init.pidfd.as_fd(), new.host_name())
                .map_err(Error::of(format!("node {:?}", new.name), "name it"))?;
        }
        self.place_files(work, &state, old, &new)
    }

    fn place_files(
        &self,
        work: &Work,
        state: &State,
        old: &PlannedNode,
        new: &PlannedNode,
    ) -> Result<()> {
        let fresh: Vec<_> = new.files.iter().filter(|file| !old.files.contains(file)).collect();
        let is_given = |path: &str| new.files.iter().any(|file| file.path == path);
        let gone: Vec<_> = old.files.iter().filter(|file| !is_given(&file.path)).collect();
        let none = fresh.is_empty() && gone.is_empty();
        let Some(init) = work.inits.get(&new.id).filter(|_| !none) else { return Ok(()) };
        let root = copy::open_root(&new.name, init.pidfd.as_fd())?;
        let users = users::in_node(state, new);
        gone.into_iter().try_for_each(|file| placing::remove(root.as_fd(), &file.path))?;
        fresh.into_iter().try_for_each(|file| Ok(placing::place(root.as_fd(), file, users)?))
    }

    /// Sets the kernel's settings of nodes whose facts changed. One that is no longer given gets the value that the
    /// kernel gives to a new node.
    pub(super) fn set_sysctls(&self, work: &Work, merged: &Merged, was: &Was<'_>) -> Result<()> {
        let state = self.state();
        for id in &merged.changed.nodes {
            let Some(slot) = state.plan.slot_of(*id) else { continue };
            let node = &state.plan.nodes[slot];
            let Some(init) = work.inits.get(id).filter(|init| init.lives()) else { continue };
            let wanted = effective(node);
            let mut writes: BTreeMap<String, Option<String>> = BTreeMap::new();
            for old in was.nodes(*id) {
                let old = effective(old);
                let fresh = wanted.iter().filter(|(path, value)| old.get(*path) != Some(value));
                let fresh = fresh.map(|(path, (given, value))| (given.clone(), path, Some(value)));
                let gone = old.iter().filter(|(path, _)| !wanted.contains_key(*path));
                let gone = gone.map(|(path, (given, _))| (given.clone(), path, None));
                for (given, _, value) in fresh.chain(gone) {
                    writes.insert(given, value.cloned());
                }
            }
            // The kernel then resets what follows from it, of interfaces and for redirects.
            if FIRST.iter().any(|path| writes.contains_key(*path)) {
                let reset = wanted.iter().filter(|(path, _)| is_late(path));
                writes
                    .extend(reset.map(|(_, (given, value))| (given.clone(), Some(value.clone()))));
            }
            if !writes.is_empty() {
                let space = init.network(&node.name)?;
                write(node, &space, &writes)?;
            }
        }
        Ok(())
    }
}

/// Settings that reset others when they change (`inet_forward_change` and `addrconf_fixup_forwarding` of the kernel), and so
/// are written before them.
const FIRST: [&str; 2] = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"];

/// The kernel's settings of a node, by path: as given, and the value that is written last.
fn effective(node: &PlannedNode) -> BTreeMap<String, (String, String)> {
    let plain = |path: &str| path.strip_prefix('-').unwrap_or(path).to_owned();
    let all = node.sysctls.iter();
    all.map(|(path, value)| (plain(path), (path.clone(), value.clone()))).collect()
}

/// Writes settings in a node; those without a value get the kernel's.
fn write(
    node: &PlannedNode,
    space: &std::os::fd::OwnedFd,
    writes: &BTreeMap<String, Option<String>>,
) -> Result<()> {
    let object = format!("node {:?}", node.name);
    let (first, then): (Vec<_>, Vec<_>) =
        writes.iter().partition(|(path, _)| FIRST.contains(&path.as_str()));
    let given = first.into_iter().chain(then).map(|(path, value)| match value {
        Some(value) => Ok((path.clone(), Some(value.clone()))),
        None if is_of_an_interface(path) => Ok((path.clone(), None)),
        None => Ok((path.clone(), value_of_new(path)?)),
    });
    let given = given.collect::<Result<Vec<_>>>()?;
    on_a_thread(|| {
        namespace::enter_network(space.as_fd()).map_err(Error::of(&object, "enter"))?;
        for (path, value) in &given {
            let of = || format!("{object}: {}", sysctl::full(path));
            let value = value.clone().or_else(|| of_default(path));
            // The kernel has no such setting any more, or never had: then there is nothing to give back.
            let Some(value) = value else { continue };
            sysctl::set_in_node(path, &value, node.privileged)
                .map_err(|e| Error::at(of(), "set sysctl")(e))?;
        }
        Ok(())
    })
}

/// The value of a setting in a new network namespace.
fn value_of_new(path: &str) -> Result<Option<String>> {
    on_a_thread(|| {
        namespace::new_network().map_err(Error::of("settings", "look up"))?;
        Ok(read(path))
    })
}

/// The value that the node gives to a setting of a new interface.
fn of_default(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    *parts.get_mut(3)? = "default";
    read(&parts.join("/"))
}

fn read(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(sysctl::full(path)).ok()?;
    Some(text.trim().to_owned())
}

/// The addresses of a node's interface in a plan, by index and link.
fn addresses(plan: &Plan, node: NodeId, index: u32, link: LinkId) -> Vec<IpNet> {
    let found = plan.slot_of(node).map(|slot| &plan.nodes[slot]);
    let of_link = |at: LinkSlot| plan.link_at(at).is_some_and(|of| of.id == link);
    let own = found.and_then(|n| n.interfaces.iter().find(|i| i.index == index && of_link(i.link)));
    own.map_or_else(Vec::new, |own| own.addresses.clone())
}
