//! A running lab as seen and managed from inside one of its nodes: the nodes in it and nothing else.
//!
//! The socket of a call determines what its caller may do, never the content of the call: each node that
//! may have children has a folder of sockets of its own, visible in it below `/run/netloom`. Names omit
//! the node's own; `.` is the node itself. Objects outside are neither shown nor
//! reachable: a link that leaves the subtree has no name here. Nor are paths of the host: a request cannot name
//! a root, a new node gets that of the node it is in, and no descriptor of a directory is handed
//! out, since `..` leads up from one.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use netloom_flow::control::requests::{Shown as FlowShown, TraceWhat, Traced};
use netloom_measure::Probe;
use netloom_model::Plan;
use netloom_model::lookup::LookupError;
use netloom_model::plan::{NodeId, PlannedEnd};
use netloom_node::entry::Entry;
use netloom_node::log::Record;
use netloom_node::ping::Pace;
use netloom_slice::control::Shown as Sliced;
use netloom_switch::control::requests::{Answer, Request};
use rustix::fs::{Mode, OFlags};

use crate::run::running::Running;
use crate::service::LogMark;
use crate::store::state::{SCOPE_MARK, make_private_dir};
use crate::view::{
    Applied, Apply, Changed, Fates, LabState, LabStatus, LinkSettings, LinkStatus, MoveInterface,
    NewLink, NewNode, NewSwitch, NodeSettings, NodeState, NodeStatus, PairReachability,
    Reachability, Repaired,
};
use crate::{Error, Result, Service};

/// The view from inside a node.
pub(crate) struct Scoped {
    running: Arc<Running>,
    /// The node's id.
    root: NodeId,
}

/// Why a request from inside a node cannot name a root.
const NO_ROOT: &str = "a root is given from outside of it only, because its path is one of the host; a node made in here \
                       gets the root of the node that it is in";

/// Makes the folder through which a node sees the nodes in it.
pub(crate) fn make_folder(running: &Running, node: NodeId) -> Result<std::path::PathBuf> {
    let path = running.folder.scope(node);
    make_private_dir(&path)?;
    let mark = path.join(SCOPE_MARK);
    // The node may have made what lies there: symbolic links are not followed.
    let flags =
        OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(&mark, flags, Mode::RUSR | Mode::WUSR).map_err(Error::at(&mark, "write"))?;
    Ok(path)
}

/// A node's name inside itself: without the names of the nodes around it.
fn short(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_owned()
}

/// A failed lookup in the words of this view. Hints are dropped: they would tell names from outside.
fn without_outside(error: LookupError, lab: String, local: impl Fn(&str) -> String) -> LookupError {
    let hint = String::new();
    match error {
        LookupError::NoNode { node, .. } => LookupError::NoNode { lab, node: local(&node), hint },
        LookupError::NoLink { link, .. } => LookupError::NoLink { lab, link: local(&link), hint },
        LookupError::NoSwitch { switch, .. } => {
            LookupError::NoSwitch { lab, switch: local(&switch), hint }
        }
        LookupError::Invalid { object, reason } => {
            LookupError::Invalid { object: local(&object), reason: local(&reason) }
        }
    }
}

/// A text of the lab in the words of this view: removes `prefix` from names.
fn strip(text: &str, prefix: &str) -> String {
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(prefix) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let begins = before.ends_with("--") || !out.ends_with(of_a_name);
        let kept = if begins { "" } else { prefix };
        out.push_str(kept);
        rest = &after[prefix.len()..];
        if begins {
            // The rest is the name itself, which may begin with the same text.
            let end = rest.find(|c| !of_a_name(c)).unwrap_or(rest.len());
            let end = rest[..end].find("--").unwrap_or(end);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
    out.push_str(rest);
    out
}

/// A node as shown here, if it is visible: `shown` has the names of visible links.
fn local_node(mut node: NodeStatus, prefix: &str, shown: &BTreeSet<String>) -> Option<NodeStatus> {
    let local = |name: &str| name.strip_prefix(prefix).map(str::to_owned);
    node.name = local(&node.name)?;
    node.parent = node.parent.and_then(|p| local(&p));
    for interface in &mut node.interfaces {
        let known = shown.contains(&interface.link);
        interface.link = if known { strip(&interface.link, prefix) } else { String::new() };
    }
    for sender in node.protect.iter_mut().flat_map(|p| &mut p.senders) {
        sender.sender = local(&sender.sender).unwrap_or_else(|| "(outside)".to_owned());
    }
    Some(node)
}

/// Names of the links with both ends below a node.
fn links_below(plan: &Plan, prefix: &str) -> BTreeSet<String> {
    let inner = |end: &PlannedEnd| plan.end_text(end).starts_with(prefix);
    let links = plan.links.iter().filter(|link| link.ends.iter().all(inner));
    links.map(|link| link.name.clone()).collect()
}

impl Scoped {
    /// The view from inside the node `root`, an id.
    pub(crate) fn new(running: Arc<Running>, root: NodeId) -> Scoped {
        Scoped { running, root }
    }

    /// The node's own name in the lab.
    fn own_name(&self) -> Result<String> {
        let state = self.running.state();
        let found = state.plan.nodes.iter().find(|n| n.id == self.root);
        found.map(|n| n.name.clone()).ok_or_else(|| Error::NoLab("(of this node)".into()))
    }

    /// Whether programs in here may enter nodes.
    fn is_privileged(&self) -> bool {
        let state = self.running.state();
        state.plan.nodes.iter().any(|n| n.id == self.root && n.privileged)
    }

    /// The name in the lab of a node in here.
    fn full(&self, node: &str) -> Result<String> {
        let own = self.own_name()?;
        Ok(if node == "." { own } else { format!("{own}/{node}") })
    }

    /// The same for a node to change, which must not be the node itself.
    fn below(&self, node: &str) -> Result<String> {
        if node == "." {
            return Err(self.refused("a node cannot change what bounds itself"));
        }
        self.full(node)
    }

    /// Refuses a root in a request from here: its path would be one of the host.
    fn refuse_root<'a>(
        &self,
        mut settings: impl Iterator<Item = &'a (String, String)>,
    ) -> Result<()> {
        match settings.any(|(key, _)| key == "root") {
            true => Err(self.refused(NO_ROOT)),
            false => Ok(()),
        }
    }

    fn refused(&self, reason: &str) -> Error {
        let lab = short(&self.own_name().unwrap_or_default());
        Error::Conflict { lab, reason: reason.to_owned() }
    }

    /// Puts a lab's error into the words of this view.
    fn seen(&self, error: Error) -> Error {
        let Ok(own) = self.own_name() else { return error };
        let prefix = format!("{own}/");
        let local = |name: &str| strip(name, &prefix);
        let short = short(&own);
        match error {
            Error::Lookup(error) => without_outside(error, short, local).into(),
            Error::DeadNode(node) => Error::DeadNode(local(&node)),
            Error::Conflict { reason, .. } => {
                Error::Conflict { lab: short, reason: local(&reason) }
            }
            Error::Busy { object, reason } => {
                Error::Busy { object: local(&object), reason: local(&reason) }
            }
            Error::Invalid { object, reason } => {
                Error::Invalid { object: local(&object), reason: local(&reason) }
            }
            other => other,
        }
    }

    /// The lab's name of `NODE:IFACE`.
    fn interface(&self, interface: &str) -> Result<String> {
        match interface.split_once(':') {
            Some(("host", _)) | None => {
                let reason = format!("interface {interface:?}: only NODE:IFACE of a node in here");
                Err(self.refused(&reason))
            }
            Some((node, iface)) => Ok(format!("{}:{iface}", self.full(node)?)),
        }
    }

    /// The requested link, which must have both ends in here.
    fn link_here(&self, link: &str) -> Result<String> {
        let own = self.own_name()?;
        let state = self.running.state();
        let none = || {
            Error::from(LookupError::NoLink {
                lab: short(&own),
                link: link.to_owned(),
                hint: String::new(),
            })
        };
        let slot = state.plan.slot_of(self.root).ok_or_else(none)?;
        let inside = state.plan.subtree(slot);
        let (found, end) = netloom_model::lookup::find_link(&inside, link)?;
        match end {
            // An end also selects the direction: keep it.
            Some(side) => {
                let end = inside.end_text(&inside.links[found].ends[side]);
                Ok(format!("{own}/{end}"))
            }
            None => {
                let id = inside.links[found].id;
                let whole = state.plan.links.iter().find(|l| l.id == id);
                whole.map(|l| l.name.clone()).ok_or_else(none)
            }
        }
    }

    /// The visible part of a lab's status.
    fn view(&self, mut status: LabStatus) -> Result<LabStatus> {
        let own = self.own_name()?;
        let prefix = format!("{own}/");
        status.links.retain(|l| l.ends.iter().all(|end| end.starts_with(&prefix)));
        let shown: BTreeSet<String> = status.links.iter().map(|l| l.name.clone()).collect();
        let node = |n: NodeStatus| local_node(n, &prefix, &shown);
        status.nodes = status.nodes.into_iter().filter_map(node).collect();
        for link in &mut status.links {
            self.localise(&prefix, link);
        }
        status.switches.clear();
        status.drift.clear();
        status.machine_drops.clear();
        let whole = status.nodes.iter().all(|n| n.alive && n.state == NodeState::Up);
        // A view of a starting lab, or of one kept after a failure, has the same state.
        if matches!(status.state, LabState::Up | LabState::Degraded) {
            status.state = if whole { LabState::Up } else { LabState::Degraded };
        }
        status.name = short(&own);
        Ok(status)
    }

    fn localise(&self, prefix: &str, link: &mut LinkStatus) {
        link.name = strip(&link.name, prefix);
        for end in &mut link.ends {
            *end = strip(end, prefix);
        }
        for direction in link.wire.iter_mut().flat_map(|w| &mut w.directions).flatten() {
            direction.from = strip(&direction.from, prefix);
        }
    }

    fn local_change(&self, mut changed: Changed) -> Result<Changed> {
        let prefix = format!("{}/", self.own_name()?);
        changed.name = strip(&changed.name, &prefix);
        for note in &mut changed.notes {
            *note = strip(note, &prefix);
        }
        Ok(changed)
    }
}

impl Service for Scoped {
    fn plan_limit(&self) -> usize {
        0
    }

    fn status(&self) -> Result<LabStatus> {
        self.view(self.running.status()?)
    }

    fn node(&self, node: &str) -> Result<NodeStatus> {
        let own = self.own_name()?;
        let (full, prefix) = (format!("{own}/{node}"), format!("{own}/"));
        let found = self.running.node(&full).map_err(|e| self.seen(e))?;
        let shown = links_below(&self.running.state().plan, &prefix);
        let none = || {
            Error::from(LookupError::NoNode {
                lab: short(&own),
                node: node.to_owned(),
                hint: String::new(),
            })
        };
        local_node(found, &prefix, &shown).ok_or_else(none)
    }

    fn link(&self, link: &str) -> Result<LinkStatus> {
        let mut status = self.running.link(&self.link_here(link)?).map_err(|e| self.seen(e))?;
        self.localise(&format!("{}/", self.own_name()?), &mut status);
        Ok(status)
    }

    fn plan(&self) -> Arc<Plan> {
        let state = self.running.state();
        let slot = state.plan.slot_of(self.root);
        Arc::new(slot.map_or_else(Plan::default, |slot| state.plan.subtree(slot)))
    }

    fn repair(&self, _: bool) -> Result<Repaired> {
        let prefix = format!("{}/", self.own_name()?);
        // Manual changes are the lab owner's business.
        let mut repaired = self.running.repair(true).map_err(|e| self.seen(e))?;
        repaired.drift.clear();
        repaired.nodes.retain_mut(|n| match n.strip_prefix(&prefix) {
            Some(local) => {
                *n = local.to_owned();
                true
            }
            None => false,
        });
        Ok(repaired)
    }

    fn ping(&self, families: &[u8], timeout: Duration) -> Result<Reachability> {
        let state = self.running.state();
        let slot = state.plan.slot_of(self.root);
        let slots = slot.map_or_else(Vec::new, |slot| state.plan.descendants(slot));
        let mut found = self.running.ping_among(&slots, families, timeout)?;
        let prefix = format!("{}/", self.own_name()?);
        for node in &mut found.nodes {
            *node = strip(node, &prefix);
        }
        Ok(found)
    }

    fn ping_pair(
        &self,
        from: &str,
        to: &str,
        families: &[u8],
        pace: Pace,
    ) -> Result<PairReachability> {
        let (full_from, full_to) = (self.full(from)?, self.full(to)?);
        let found = self.running.ping_one(&full_from, &full_to, families, pace);
        let found = found.map_err(|e| self.seen(e))?;
        Ok(PairReachability { from: from.to_owned(), to: to.to_owned(), ..found })
    }

    fn log(&self, node: &str, after_ns: u64) -> Result<Vec<Record>> {
        self.running.log(&self.below(node)?, after_ns).map_err(|e| self.seen(e))
    }

    fn log_mark(&self, node: &str) -> Result<LogMark> {
        self.running.log_mark(&self.below(node)?).map_err(|e| self.seen(e))
    }

    fn entry(&self, node: &str) -> Result<Entry> {
        let mut entry = self.running.entry(&self.below(node)?).map_err(|e| self.seen(e))?;
        // The caller is in the lab's user namespace already.
        entry.user = false;
        entry.by_init = !self.is_privileged();
        entry
            .groups
            .without_directory()
            .map_err(Error::of(format!("node {node:?}"), "open its cgroups"))?;
        node.clone_into(&mut entry.node);
        Ok(entry)
    }

    fn run_in(&self, node: &str, fds: &[OwnedFd]) -> Result<()> {
        self.running.run_in(&self.below(node)?, fds).map_err(|e| self.seen(e))
    }

    fn core(&self) -> Result<Entry> {
        Err(self.refused("what is between nodes is seen outside of them"))
    }

    fn create_node(&self, request: &NewNode) -> Result<Changed> {
        let mut request = request.clone();
        if request.root.is_some() {
            return Err(self.refused(NO_ROOT));
        }
        self.refuse_root(request.settings.iter())?;
        request.name = self.below(&request.name)?;
        let made = self.running.create(&request).map_err(|e| self.seen(e))?;
        self.local_change(made)
    }

    fn delete_node(&self, node: &str, force: bool) -> Result<Changed> {
        let gone = self.running.delete(&self.below(node)?, force).map_err(|e| self.seen(e))?;
        self.local_change(gone)
    }

    fn set_node(&self, node: &str, change: &NodeSettings) -> Result<Changed> {
        self.refuse_root(change.settings.iter())?;
        let set = self.running.set(&self.below(node)?, change).map_err(|e| self.seen(e))?;
        self.local_change(set)
    }

    fn move_control(&self, node: &str) -> Result<Changed> {
        let moved = self.running.move_control(&self.below(node)?).map_err(|e| self.seen(e))?;
        self.local_change(moved)
    }

    fn move_interface(&self, request: &MoveInterface) -> Result<Changed> {
        if request.to == "host" {
            return Err(self.refused("interfaces can be moved between nodes in here only"));
        }
        let request = MoveInterface {
            interface: self.interface(&request.interface)?,
            to: self.full(&request.to)?,
            ..request.clone()
        };
        let moved = self.running.move_to(&request).map_err(|e| self.seen(e))?;
        self.local_change(moved)
    }

    fn set_link(&self, link: &str, change: &LinkSettings) -> Result<LinkStatus> {
        let link = self.link_here(link)?;
        let mut status = self.running.impair(&link, change).map_err(|e| self.seen(e))?;
        self.localise(&format!("{}/", self.own_name()?), &mut status);
        Ok(status)
    }

    fn create_link(&self, request: &NewLink) -> Result<Changed> {
        let below = |end: &str| match end.split_once(':') {
            Some((node, iface)) => Ok::<_, Error>(format!("{}:{iface}", self.below(node)?)),
            None => self.below(end),
        };
        let mut request =
            NewLink { a: below(&request.a)?, b: below(&request.b)?, ..request.clone() };
        for (end, _) in &mut request.addresses {
            *end = below(end)?;
        }
        let made = self.running.make_link(&request).map_err(|e| self.seen(e))?;
        self.local_change(made)
    }

    fn delete_link(&self, link: &str) -> Result<Changed> {
        let gone = self.running.remove_link(&self.link_here(link)?).map_err(|e| self.seen(e))?;
        self.local_change(gone)
    }

    fn note_fates(&self, link: &str, keep: Option<usize>) -> Result<()> {
        self.running.note(&self.link_here(link)?, keep).map_err(|e| self.seen(e))
    }

    fn fates(&self, link: &str, end: usize, after: Option<u64>) -> Result<Fates> {
        let link = self.link_here(link)?;
        self.running.fates_of(&link, end, after).map_err(|e| self.seen(e))
    }

    fn create_switch(&self, _: &NewSwitch) -> Result<Changed> {
        Err(self.refused("switches are made outside of nodes"))
    }

    fn delete_switch(&self, _: &str, _: bool) -> Result<Changed> {
        Err(self.refused("switches are removed outside of nodes"))
    }

    fn ask_switch(&self, _: &str, _: &Request) -> Result<Answer> {
        Err(self.refused("switches are shown and changed outside of nodes"))
    }

    fn show_openflow(&self, _: &str) -> Result<FlowShown> {
        Err(self.refused("switches are shown and changed outside of nodes"))
    }

    fn show_slices(&self) -> Result<Sliced> {
        Err(self.refused("switches are shown and changed outside of nodes"))
    }

    fn trace_frame(&self, _: &str, _: &TraceWhat) -> Result<Traced> {
        Err(self.refused("switches are shown and changed outside of nodes"))
    }

    fn apply(&self, _: Apply) -> Result<Applied> {
        Err(self.refused("a file is applied to its lab from outside of its nodes"))
    }

    fn probe(&self) -> Result<Arc<Probe>> {
        Err(self.refused("a lab is measured from outside of its nodes"))
    }

    fn down(&self) -> Result<()> {
        Err(self.refused("a node cannot take down the lab that it lives in"))
    }
}

#[cfg(test)]
mod tests {
    use netloom_model::lookup::LookupError;

    use super::{strip, without_outside};

    #[test]
    fn names_go_without_the_nodes_own() {
        for (text, seen) in [
            ("t/a", "a"),
            ("t/t/a", "t/a"),
            ("t/a:eth0--t/b:eth1", "a:eth0--b:eth1"),
            ("at/a", "at/a"),
            ("node \"t/a\": has 3", "node \"a\": has 3"),
            ("t/a--x, t/b", "a--x, b"),
            ("t", "t"),
        ] {
            assert_eq!(strip(text, "t/"), seen, "{text}");
        }
    }

    #[test]
    fn failed_lookups_tell_no_name_from_outside() {
        let hint = || "; did you mean \"out\"".to_owned();
        let of = |error| without_outside(error, "t".into(), |text| strip(text, "l/t/")).to_string();
        let lab = || "l".to_owned();
        let node = LookupError::NoNode { lab: lab(), node: "l/t/a".into(), hint: hint() };
        assert_eq!(of(node), r#"node "a": not in lab "t""#);
        let link = LookupError::NoLink { lab: lab(), link: "l/t/a:eth0".into(), hint: hint() };
        assert_eq!(of(link), r#"link "a:eth0": not in lab "t""#);
        let switch = LookupError::NoSwitch { lab: lab(), switch: "l/t/s".into(), hint: hint() };
        assert_eq!(of(switch), r#"switch "s": not in lab "t""#);
        let object = "node \"l/t/a\"".into();
        let invalid = LookupError::Invalid { object, reason: "l/t/b has links".into() };
        assert_eq!(of(invalid), r#"node "a": b has links"#);
    }
}
