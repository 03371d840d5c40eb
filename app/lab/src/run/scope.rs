//! A running lab as seen and managed from inside one of its nodes: the nodes in it and nothing else.
//!
//! The socket of a call determines what its caller may do, never the content of the call: each node that
//! may have children has a folder of sockets of its own, visible in it below `/run/netloom`. Names omit
//! the node's own; `.` is the node itself. Objects outside are neither shown nor
//! reachable: a link that leaves the subtree has no name here. Nor are paths of the host: a request cannot name
//! a root, a new node gets that of the node it is in, and no descriptor of a directory is handed
//! out, since `..` leads up from one.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use netloom_filter::expand::rename;
use netloom_flow::control::requests::{Shown as FlowShown, TraceWhat, Traced};
use netloom_measure::Probe;
use netloom_model::Plan;
use netloom_model::drawing::Positions;
use netloom_model::lookup::LookupError;
use netloom_model::plan::{LinkId, NodeId};
use netloom_node::entry::Entry;
use netloom_slice::control::{Shown as Sliced, SliceShown};
use netloom_switch::control::requests::{Answer, Request};
use netloom_why::Report;
use rustix::fs::{Mode, OFlags};

use crate::run::running::Running;
use crate::service::LogMark;
use crate::service::call::{Answers, Call, Inside, Named, Within};
use crate::store::state::{SCOPE_MARK, State, make_private_dir};
use crate::view::{
    Applied, Apply, AskPackets, AskWhy, Changed, Ended, Fates, FidelityView, FoundPackets,
    InterfaceStatus, LabCounts, LabEvent, LabState, LabStatus, LinkSettings, LinkStatus, LogLine,
    MoveInterface, NewLink, NewNode, NewSwitch, NodeSettings, NodeState, NodeStatus, Noting,
    PairReachability, Reachability, Repaired, SwitchStatus,
};
use crate::{Error, Result, Service, Subject};

/// The view from inside a node.
pub(crate) struct Scoped {
    running: Arc<Running>,
    /// The node's id.
    root: NodeId,
}

/// What stands for an object that is not seen.
const OUTSIDE: &str = "(outside)";

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

/// What a word of a text stands for.
enum Word {
    /// A node in here, under this name; or the node itself.
    Here(String),
    /// A node or switch that is not seen.
    Outside,
}

/// A text of the lab in the words of this view. `known` finds what a word names. A word that is not in quotes and no part of a
/// longer name is taken for a name from outside only if it can be nothing else.
fn rendered(text: &str, known: impl Fn(&str) -> Option<Word>) -> String {
    let of_a_name = |c: char| c.is_alphanumeric() || "._-/".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find(of_a_name) {
        let (before, from) = rest.split_at(begin);
        out.push_str(before);
        let end = from.find(|c| !of_a_name(c)).unwrap_or(from.len());
        let (words, after) = from.split_at(end);
        // A sentence ends with a stop, a name does not.
        let stop = words.len() - words.trim_end_matches('.').len();
        let (words, stop) = words.split_at(words.len() - stop);
        let quoted = before.ends_with('"') && after.starts_with(['"', ':']);
        // Names of links are those of their ends.
        let parts: Vec<&str> = words.split("--").collect();
        let told = parts.iter().map(|part| match known(part) {
            Some(Word::Here(name)) => name,
            Some(Word::Outside) if quoted || parts.len() > 1 || part.contains('/') => {
                OUTSIDE.to_owned()
            }
            // `name:` ends a part of a message: then it is a word.
            Some(Word::Outside) if after.starts_with(':') && !after.starts_with(": ") => {
                OUTSIDE.to_owned()
            }
            _ => (*part).to_owned(),
        });
        out.push_str(&told.collect::<Vec<_>>().join("--"));
        out.push_str(stop);
        rest = after;
    }
    out + rest
}

impl Scoped {
    /// The view from inside the node `root`, an id.
    pub(crate) fn new(running: Arc<Running>, root: NodeId) -> Scoped {
        Scoped { running, root }
    }

    /// What is seen at the moment.
    fn view(&self) -> Result<View> {
        View::of(self.running.state(), self.root)
            .ok_or_else(|| Error::NoLab("(of this node)".into()))
    }

    /// Whether programs in here may enter nodes.
    fn is_privileged(&self) -> bool {
        let state = self.running.state();
        state.plan.nodes.iter().any(|n| n.id == self.root && n.privileged)
    }

    /// Does something with a node in here, in the lab's words.
    fn with<T>(&self, node: &str, work: impl FnOnce(&str) -> Result<T>) -> Result<T> {
        let view = self.view()?;
        let mut name = node.to_owned();
        view.node(&mut name, false)?;
        work(&name).map_err(|error| view.seen(error))
    }

    fn refused(&self, reason: &str) -> Error {
        let lab = self.view().map(|view| view.inside.lab).unwrap_or_default();
        Error::Conflict { lab, reason: reason.to_owned() }
    }
}

/// What is seen from inside a node.
struct View {
    root: NodeId,
    /// The node's name in the lab.
    own: String,
    /// What the names of nodes in it begin with there.
    prefix: String,
    /// The plan of what is in it.
    inside: Plan,
    state: Arc<State>,
    /// Names of links inside, by those in the lab: answers ask for each of many.
    links: OnceLock<BTreeMap<String, String>>,
}

impl View {
    /// The view from a node; `None` if there is none.
    fn of(state: Arc<State>, root: NodeId) -> Option<View> {
        let slot = state.plan.slot_of(root)?;
        let own = state.plan.node_at(slot)?.name.clone();
        let (prefix, inside) = (format!("{own}/"), state.plan.subtree(slot));
        Some(View { root, own, prefix, inside, state, links: OnceLock::new() })
    }

    /// Puts a lab's error into the words of this view.
    fn seen(&self, error: Error) -> Error {
        // Names are replaced in every text: no message may tell what is outside.
        let local = |name: &str| self.text(name);
        let lab = self.inside.lab.clone();
        match error {
            Error::Lookup(error) => self.lookup(error, lab).into(),
            Error::DeadNode(node) => Error::DeadNode(self.called("node", &node)),
            Error::Conflict { reason, .. } => Error::Conflict { lab, reason: local(&reason) },
            Error::Busy { object, reason } => {
                Error::Busy { object: self.subject(object), reason: local(&reason) }
            }
            Error::Invalid { object, reason } => {
                Error::Invalid { object: self.subject(object), reason: local(&reason) }
            }
            other => match netloom_sys::Unsupported::behind(&other) {
                // What the machine lacks names no object.
                Some(lacking) => Error::Unsupported(lacking.clone()),
                None => Error::Told(local(&netloom_sys::describe(&other))),
            },
        }
    }

    /// An object as it is called here.
    fn subject(&self, object: Subject) -> Subject {
        let called = object.named().map(|(kind, name)| self.called(kind, name));
        match called {
            Some(name) => object.called(name),
            None => self.text(&object).into(),
        }
    }

    /// The name of an object here. That of the lab is the node's own; what is not there may be asked for, or is gone.
    fn called(&self, kind: &str, name: &str) -> String {
        let plan = &self.state.plan;
        let (here, known) = match kind {
            "node" if name == self.own => (Some(self.inside.lab.clone()), true),
            "node" => (self.name_of(name), plan.node(name).is_some()),
            "link" => (self.link_of(name), false),
            "switch" => (None, plan.switch(name).is_some()),
            _ => (None, false),
        };
        match (here, known) {
            (Some(name), _) => name,
            (None, true) => OUTSIDE.to_owned(),
            (None, false) => self.text(name),
        }
    }

    /// A failed lookup. Hints are dropped: they would tell names from outside.
    fn lookup(&self, error: LookupError, lab: String) -> LookupError {
        let hint = String::new();
        match error {
            LookupError::NoNode { node, .. } => {
                LookupError::NoNode { lab, node: self.called("node", &node), hint }
            }
            LookupError::NoLink { link, .. } => {
                LookupError::NoLink { lab, link: self.called("link", &link), hint }
            }
            LookupError::NoSwitch { switch, .. } => {
                LookupError::NoSwitch { lab, switch: self.called("switch", &switch), hint }
            }
            LookupError::NoPart { kind, name, .. } => {
                LookupError::NoPart { lab, kind, name: self.called(kind, &name) }
            }
            LookupError::Invalid { object, reason } => {
                LookupError::Invalid { object: self.text(&object), reason: self.text(&reason) }
            }
        }
    }

    /// What a word names: a node by its identity, also one that is gone; or a switch.
    fn word(&self, word: &str) -> Option<Word> {
        if word == self.own {
            return Some(Word::Here(self.inside.lab.clone()));
        }
        if let Some(name) = word.strip_prefix(&self.prefix) {
            return Some(Word::Here(name.to_owned()));
        }
        let plan = &self.state.plan;
        let outside = plan.node(word).is_some() || plan.switch(word).is_some();
        outside.then_some(Word::Outside)
    }

    fn no_link(&self, link: &str) -> Error {
        let (lab, hint) = (self.inside.lab.clone(), String::new());
        LookupError::NoLink { lab, link: link.to_owned(), hint }.into()
    }
}

impl Inside for View {
    fn node(&self, name: &mut String, own: bool) -> Result<()> {
        *name = match (name.as_str(), own) {
            (".", true) => self.own.clone(),
            (".", false) => return Err(self.refused("a node cannot change what bounds itself")),
            (name, _) => format!("{}{name}", self.prefix),
        };
        Ok(())
    }

    fn end(&self, end: &mut String) -> Result<()> {
        match end.split_once(':') {
            Some((node, iface)) => {
                let mut node = node.to_owned();
                self.node(&mut node, false)?;
                *end = format!("{node}:{iface}");
                Ok(())
            }
            None => self.node(end, false),
        }
    }

    fn interface(&self, interface: &mut String) -> Result<()> {
        match interface.split_once(':') {
            Some(("host", _)) | None => {
                // Anything without a node, such as a port of the core, is outside.
                let reason = format!("interface {interface:?}: only NODE:IFACE of a node in here");
                Err(self.refused(&reason))
            }
            Some((node, iface)) => {
                let mut node = node.to_owned();
                self.node(&mut node, true)?;
                *interface = format!("{node}:{iface}");
                Ok(())
            }
        }
    }

    /// The link must have both ends in here.
    fn link(&self, link: &mut String) -> Result<()> {
        // Looked up in the part alone: a link that leads out has no name here.
        let found = netloom_model::lookup::find_link(&self.inside, link);
        let (found, end) = found.map_err(|error| self.seen(error.into()))?;
        let found = &self.inside.links[found];
        *link = match end {
            // An end also selects the direction: keep it.
            Some(side) => format!("{}{}", self.prefix, self.inside.end_text(&found.ends[side])),
            None => {
                let whole = self.state.plan.links.iter().find(|l| l.id == found.id);
                whole.map(|l| l.name.clone()).ok_or_else(|| self.no_link(link))?
            }
        };
        Ok(())
    }

    fn within(&self) -> Within {
        Within(Some(self.root))
    }

    fn lab(&self) -> String {
        self.inside.lab.clone()
    }

    fn refused(&self, reason: &str) -> Error {
        Error::Conflict { lab: self.lab(), reason: reason.to_owned() }
    }

    fn name_of(&self, node: &str) -> Option<String> {
        node.strip_prefix(&self.prefix).map(str::to_owned)
    }

    fn link_of(&self, link: &str) -> Option<String> {
        let names = self.links.get_or_init(|| {
            let inside: BTreeMap<LinkId, &String> =
                self.inside.links.iter().map(|l| (l.id, &l.name)).collect();
            let all = self.state.plan.links.iter();
            all.filter_map(|l| Some((l.name.clone(), (*inside.get(&l.id)?).clone()))).collect()
        });
        names.get(link).cloned()
    }

    fn expression(&self, expression: &mut String) -> Result<()> {
        let named = |word: &str| {
            let is_address = word.starts_with(|c: char| c.is_ascii_digit()) || word.contains(':');
            let mut name = word.to_owned();
            self.node(&mut name, true)?;
            match self.state.plan.node(&name) {
                Some(_) => Ok(Some(name)),
                // An address or a word of the filter's own language names no node.
                None if is_address || AFTER_SIDE.contains(&word) => Ok(None),
                // Whether it is outside or nowhere is not told.
                None => {
                    let (lab, hint) = (self.lab(), String::new());
                    Err(Error::from(LookupError::NoNode { lab, node: word.to_owned(), hint }))
                }
            }
        };
        *expression = rename(expression, named)?;
        Ok(())
    }

    fn expression_of(&self, expression: &str) -> String {
        let named = |word: &str| {
            Ok::<_, std::convert::Infallible>(self.word(word).map(|found| match found {
                Word::Here(name) if name == self.inside.lab => ".".to_owned(),
                Word::Here(name) => name,
                Word::Outside => "(outside)".to_owned(),
            }))
        };
        rename(expression, named).unwrap_or_else(|never| match never {})
    }

    fn text(&self, text: &str) -> String {
        rendered(text, |word| self.word(word))
    }
}

/// Words of pcap-filter(7) that may follow `src` or `dst`.
const AFTER_SIDE: [&str; 7] = ["host", "net", "port", "portrange", "and", "or", "not"];

/// Puts names in settings of a link into the lab's words.
fn enter_settings(settings: &mut [(String, String)], inside: &dyn Inside) -> Result<()> {
    let mut drops = settings.iter_mut().filter(|(key, _)| key == "drop");
    drops.try_for_each(|(_, expression)| inside.expression(expression))
}

/// Names of nodes, of which some are not seen.
fn leave_names(names: &mut Vec<String>, inside: &dyn Inside) {
    *names = names.iter().filter_map(|name| inside.name_of(name)).collect();
}

fn leave_texts(texts: &mut [String], inside: &dyn Inside) {
    texts.iter_mut().for_each(|text| *text = inside.text(text));
}

/// Refuses a root in a request from here: its path would be one of the host.
fn refuse_root(settings: &[(String, String)], inside: &dyn Inside) -> Result<()> {
    match settings.iter().any(|(key, _)| key == "root") {
        true => Err(inside.refused(NO_ROOT)),
        false => Ok(()),
    }
}

impl Named for NewNode {
    fn enter(&mut self, inside: &dyn Inside) -> Result<()> {
        if self.root.is_some() {
            return Err(inside.refused(NO_ROOT));
        }
        refuse_root(&self.settings, inside)?;
        inside.node(&mut self.name, false)
    }
}

impl Named for NodeSettings {
    fn enter(&mut self, inside: &dyn Inside) -> Result<()> {
        refuse_root(&self.settings, inside)
    }
}

impl Named for MoveInterface {
    fn enter(&mut self, inside: &dyn Inside) -> Result<()> {
        if self.to == "host" {
            return Err(inside.refused("interfaces can be moved between nodes in here only"));
        }
        inside.interface(&mut self.interface)?;
        inside.node(&mut self.to, true)
    }
}

impl Named for NewLink {
    fn enter(&mut self, inside: &dyn Inside) -> Result<()> {
        inside.end(&mut self.a)?;
        inside.end(&mut self.b)?;
        let mut ends = self.addresses.iter_mut().chain(&mut self.macs);
        ends.try_for_each(|(end, _)| inside.end(end))?;
        enter_settings(&mut self.settings, inside)
    }
}

impl Named for LinkSettings {
    fn enter(&mut self, inside: &dyn Inside) -> Result<()> {
        enter_settings(&mut self.settings, inside)
    }
}

impl Named for Changed {
    fn leave(&mut self, inside: &dyn Inside) -> bool {
        self.name = inside.text(&self.name);
        leave_texts(&mut self.notes, inside);
        true
    }
}

impl Named for NodeStatus {
    fn leave(&mut self, inside: &dyn Inside) -> bool {
        let Some(name) = inside.name_of(&self.name) else { return false };
        self.name = name;
        self.parent = self.parent.take().and_then(|parent| inside.name_of(&parent));
        self.interfaces.leave(inside);
        for sender in self.protect.iter_mut().flat_map(|p| &mut p.senders) {
            let seen = inside.name_of(&sender.sender);
            sender.sender = seen.unwrap_or_else(|| OUTSIDE.to_owned());
        }
        true
    }
}

impl Named for InterfaceStatus {
    fn leave(&mut self, inside: &dyn Inside) -> bool {
        // A link that leads out has no name here.
        self.link = inside.link_of(&self.link).unwrap_or_default();
        true
    }
}

impl Named for LinkStatus {
    fn leave(&mut self, inside: &dyn Inside) -> bool {
        let Some(name) = inside.link_of(&self.name) else { return false };
        self.name = name;
        leave_texts(&mut self.ends, inside);
        for direction in self.wire.iter_mut().flat_map(|w| &mut w.directions).flatten() {
            direction.from = inside.text(&direction.from);
            if let Some(expression) = direction.impairments.get_mut("drop") {
                *expression = inside.expression_of(expression);
            }
        }
        for loss in &mut self.lost {
            loss.from = inside.text(&loss.from);
        }
        true
    }
}

impl Named for LabStatus {
    fn leave(&mut self, inside: &dyn Inside) -> bool {
        self.links.leave(inside);
        self.nodes.leave(inside);
        // What is known of switches and the machine tells of other nodes.
        self.switches.clear();
        self.drift.clear();
        self.machine_drops.clear();
        self.behind.clear();
        self.across = None;
        let whole = self.nodes.iter().all(|n| n.alive && n.state == NodeState::Up);
        // A view of a starting lab, or of one kept after a failure, has the same state.
        if matches!(self.state, LabState::Up | LabState::Degraded) {
            self.state = if whole { LabState::Up } else { LabState::Degraded };
        }
        self.name = inside.lab();
        true
    }
}

impl Named for LabCounts {
    fn leave(&mut self, inside: &dyn Inside) -> bool {
        for node in &mut self.troubled {
            node.name = inside.name_of(&node.name).unwrap_or_else(|| OUTSIDE.to_owned());
        }
        // As of the whole status: what is outside does not count.
        self.switches = 0;
        if matches!(self.state, LabState::Up | LabState::Degraded) {
            let whole = self.nodes.up == self.nodes.all;
            self.state = if whole { LabState::Up } else { LabState::Degraded };
        }
        self.name = inside.lab();
        true
    }
}

impl Named for SwitchStatus {
    fn leave(&mut self, _: &dyn Inside) -> bool {
        false
    }
}

impl Named for Repaired {
    fn leave(&mut self, inside: &dyn Inside) -> bool {
        self.drift.clear();
        leave_names(&mut self.nodes, inside);
        true
    }
}

impl Named for Reachability {
    fn leave(&mut self, inside: &dyn Inside) -> bool {
        leave_names(&mut self.nodes, inside);
        true
    }
}

impl Named for PairReachability {
    fn leave(&mut self, inside: &dyn Inside) -> bool {
        for name in [&mut self.from, &mut self.to] {
            *name = inside.name_of(name).unwrap_or_else(|| ".".to_owned());
        }
        true
    }
}

impl Named for Noting {
    fn leave(&mut self, inside: &dyn Inside) -> bool {
        self.link = inside.link_of(&self.link).unwrap_or_else(|| inside.text(&self.link));
        true
    }
}

// Without names, or refused in here.
macro_rules! without_names {
    ($($kind:ty),*) => { $(impl Named for $kind {})* };
}
without_names!(
    Applied,
    Apply,
    AskPackets,
    AskWhy,
    Ended,
    Fates,
    FidelityView,
    FlowShown,
    FoundPackets,
    LabEvent,
    LogLine,
    NewSwitch,
    Plan,
    Positions,
    Report,
    Request,
    Answer,
    Sliced,
    SliceShown,
    TraceWhat,
    Traced
);

impl<C: Call> Answers<C> for Scoped
where
    Running: Answers<C>,
{
    fn answer(&self, mut call: C) -> Result<C::Answer> {
        let view = self.view()?;
        if let Some(reason) = C::OPERATION.outside {
            return Err(view.refused(reason));
        }
        call.enter(&view)?;
        let answer = self.running.answer(call.clone()).map_err(|error| view.seen(error));
        // What was made or removed meanwhile is seen as it is now.
        let view = self.view()?;
        let mut answer = answer?;
        match answer.leave(&view) {
            true => Ok(answer),
            false => Err(view.refused("it is not seen in here")),
        }
    }
}

impl Service for Scoped {
    fn plan_limit(&self) -> usize {
        0
    }

    fn log_mark(&self, node: &str) -> Result<LogMark> {
        self.with(node, |node| self.running.log_mark(node))
    }

    fn entry(&self, node: &str) -> Result<Entry> {
        let mut entry = self.with(node, |node| self.running.entry(node))?;
        // The caller is in the lab's user namespace already.
        entry.user = false;
        entry.by_init = !self.is_privileged();
        // A directory's descriptor would lead up to the groups of others.
        entry
            .groups
            .without_directory()
            .map_err(Error::of(format!("node {node:?}"), "open its cgroups"))?;
        node.clone_into(&mut entry.node);
        Ok(entry)
    }

    fn run_in(&self, node: &str, fds: &[OwnedFd]) -> Result<()> {
        self.with(node, |node| self.running.run_in(node, fds))
    }

    fn core(&self) -> Result<Entry> {
        Err(self.refused("what is between nodes is seen outside of them"))
    }

    fn metrics(&self) -> Result<String> {
        Err(self.refused("metrics are told outside of nodes"))
    }

    fn probe(&self) -> Result<Arc<Probe>> {
        Err(self.refused("a lab is measured from outside of its nodes"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use netloom_model::lookup::LookupError;

    use super::{OUTSIDE, View, Word, rendered};
    use crate::{Error, Subject};
    use netloom_sys::cgroup::Groups;

    /// As seen from the node `l/t` of a lab with the nodes `web`, `l`, `l/t`, `l/t/a`, `l/t/l` and `l/u`, and a switch `lan`.
    fn seen(text: &str) -> String {
        rendered(text, |word| match word {
            "l/t" => Some(Word::Here("t".to_owned())),
            "web" | "l" | "l/u" | "lan" => Some(Word::Outside),
            word => word.strip_prefix("l/t/").map(|name| Word::Here(name.to_owned())),
        })
    }

    #[test]
    fn names_are_told_as_they_are_called_here_and_those_from_outside_are_not() {
        for (text, told) in [
            ("l/t/a", "a"),
            ("l/t/l/t/a", "l/t/a"),
            ("l/t/a:eth0--l/t/b:eth1", "a:eth0--b:eth1"),
            ("al/t/a", "al/t/a"),
            ("node \"l/t/a\": has 3", "node \"a\": has 3"),
            ("node \"l/t\": may not have more", "node \"t\": may not have more"),
            ("l/t/a--x, l/t/b.", "a--x, b."),
            ("node \"web\": has it", "node \"(outside)\": has it"),
            ("10.0.0.1 is that of web:eth0", "10.0.0.1 is that of (outside):eth0"),
            ("web:eth0--l/t/a:eth1", "(outside):eth0--a:eth1"),
            ("lan--l/t/a", "(outside)--a"),
            ("nothing on the web: no", "nothing on the web: no"),
            ("l/u is full", "(outside) is full"),
            ("", ""),
        ] {
            assert_eq!(seen(text), told, "{text}");
        }
    }

    /// The view from `l/t`.
    fn view() -> View {
        let yaml = b"name: lab\nswitches: {lan: {}}\nnodes:\n  web: {}\n  l: {children: {limit: 9, nodes: {u: {}, \
            t: {children: {limit: 5, nodes: {a: {}, b: {}}}}}}}\n\
            links: [[l/t/a, l/t/b], [l/t/a, web], [web, lan]]\n";
        let lab = netloom_model::parse("lab", yaml, "lab").unwrap();
        let plan = netloom_model::plan::plan(&lab).unwrap();
        let root = plan.nodes.iter().find(|node| node.name == "l/t").unwrap().id;
        let groups = Groups::new(vec![], "lab", BTreeSet::new());
        let state = serde_json::json!({"plan": plan, "groups": groups, "user": false, "since": 0});
        View::of(Arc::new(serde_json::from_value(state).unwrap()), root).unwrap()
    }

    #[test]
    fn failures_name_their_object_as_it_is_called_here() {
        let view = view();
        for (kind, name, called) in [
            ("node", "l/t/a", "a"),
            ("node", "l/t", "t"),
            ("node", "l/t/gone", "gone"),
            ("node", "l", OUTSIDE),
            ("node", "web", OUTSIDE),
            ("switch", "lan", OUTSIDE),
            ("link", "l/t/a:eth0--l/t/b:eth0", "a:eth0--b:eth0"),
            ("link", "l/t/a:eth1--web:eth0", "a:eth1--(outside):eth0"),
            ("link", "l/t/a--l/t/new", "a--new"),
            ("interface", "l/t/a:eth0", "a:eth0"),
            ("end", "l/t/a:eth9", "a:eth9"),
        ] {
            for part in ["", "binds"] {
                let object = Subject::of(kind, name);
                let object = if part.is_empty() { object } else { object.part(part) };
                let (expected, reason) = (Subject::of(kind, called), "no".to_owned());
                let told = view.seen(Error::Busy { object, reason });
                let Error::Busy { object, .. } = told else { panic!("{told}") };
                assert_eq!(object.named(), expected.named());
                assert!(object.starts_with(&*expected) && object.ends_with(part), "{object}");
            }
        }
        let of_the_lab = Error::DeadNode("web".into());
        assert!(view.seen(of_the_lab).to_string().starts_with("node \"(outside)\": its init"));
    }

    #[test]
    fn failed_lookups_tell_no_name_from_outside() {
        let view = view();
        let hint = || "; did you mean \"web\"".to_owned();
        let of = |error: LookupError| view.seen(error.into()).to_string();
        let lab = || "lab".to_owned();
        let node = LookupError::NoNode { lab: lab(), node: "l/t/x".into(), hint: hint() };
        assert_eq!(of(node), r#"node "x": not in lab "t""#);
        let link = LookupError::NoLink { lab: lab(), link: "l/t/a:eth7".into(), hint: hint() };
        assert_eq!(of(link), r#"link "a:eth7": not in lab "t""#);
        let switch = LookupError::NoSwitch { lab: lab(), switch: "l/t/s".into(), hint: hint() };
        assert_eq!(of(switch), r#"switch "s": not in lab "t""#);
        let part = LookupError::NoPart { lab: lab(), kind: "slice", name: "l/t/x".into() };
        assert_eq!(of(part), r#"slice "x": not in lab "t""#);
        let object = "node \"l/t/a\"".into();
        let invalid = LookupError::Invalid { object, reason: "l/t/b has links to \"web\"".into() };
        assert_eq!(of(invalid), r#"node "a": b has links to "(outside)""#);
    }
}
