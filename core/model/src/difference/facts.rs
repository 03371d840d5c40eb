//! The facts of a plan's object, key by key, in the words of the lab file: the one table of compared keys, and of
//! what a living object can change ([`How::InPlace`]); for the rest it is recreated.
//!
//! Two objects are equal when their facts are. Values computed from other facts are left out:
//! settings of the kernel that follow from `forwarding`, hardware addresses that no file gives, indexes.

use std::any::Any;

use super::How;
use crate::image::ImageUse;
use crate::impairment::text;
use crate::kinds::openflow::OpenflowSwitch;
use crate::kinds::shm::{ShmSwitch, VdeFolder};
use crate::kinds::{NodeKind, SwitchKind};
use crate::lab::{Limits, NodeSpec, Protect, Record};
use crate::plan::{Interface, Plan, PlannedEnd, PlannedLink, PlannedNode, PlannedSwitch};
use crate::setting::{cpu_text, memory_text};
use crate::slices::Slice;

/// A key and its value.
pub(super) struct Fact<'a> {
    pub(super) key: String,
    pub(super) value: Value<'a>,
    /// What a change of it takes.
    pub(super) how: How,
}

/// A value.
pub(super) enum Value<'a> {
    /// As it is shown.
    Shown(String),
    /// One that is too long or unsuitable to be shown.
    Unseen(&'a dyn Unseen),
}

impl Value<'_> {
    pub(super) fn is_shown(&self) -> bool {
        matches!(self, Value::Shown(_))
    }

    /// As it is shown; empty if it is not.
    pub(super) fn text(&self) -> String {
        match self {
            Value::Shown(text) => text.clone(),
            Value::Unseen(_) => String::new(),
        }
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Value::Shown(one), Value::Shown(other)) => one == other,
            (Value::Unseen(one), Value::Unseen(other)) => one.equals(*other),
            _ => false,
        }
    }
}

/// A part of a plan that is compared with another one of the same type.
pub(super) trait Unseen {
    fn as_any(&self) -> &dyn Any;
    fn equals(&self, other: &dyn Unseen) -> bool;
}

impl<T: PartialEq + 'static> Unseen for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn equals(&self, other: &dyn Unseen) -> bool {
        other.as_any().downcast_ref().is_some_and(|other| self == other)
    }
}

/// Facts under construction.
#[derive(Default)]
struct Facts<'a>(Vec<Fact<'a>>);

impl<'a> Facts<'a> {
    /// Adds an optional value; the object is recreated when it changes.
    fn put(&mut self, key: impl Into<String>, value: Option<String>) {
        let how = How::Recreate;
        self.add(key, value.map(Value::Shown), how);
    }

    fn add(&mut self, key: impl Into<String>, value: Option<Value<'a>>, how: How) {
        self.0.extend(value.map(|value| Fact { key: key.into(), value, how }));
    }

    /// Adds an optional value that a living object can change.
    fn put_live(&mut self, key: impl Into<String>, value: Option<String>) {
        let how = How::InPlace;
        self.add(key, value.map(Value::Shown), how);
    }

    /// As [`Facts::put`], for a value that is too long or unsuitable to be shown.
    fn put_unseen(&mut self, key: impl Into<String>, value: &'a impl Unseen) {
        self.add(key, Some(Value::Unseen(value)), How::Recreate);
    }

    /// A value that is too long to be shown, unless it is the default.
    fn put_unseen_unless<T: Unseen + Default + PartialEq>(
        &mut self,
        key: &str,
        value: &'a T,
        how: How,
    ) {
        let given = *value != T::default();
        self.add(key, given.then_some(Value::Unseen(value)), how);
    }

    /// Things that are there or not, each by its text.
    fn put_each(&mut self, key: &str, all: &[impl ToString]) {
        for one in all {
            self.put_live(format!("{key}.{}", one.to_string()), yes(true));
        }
    }

    /// Values by name, or all as one.
    fn put_many<T: PartialEq, V: Unseen + 'a>(
        &mut self,
        key: &str,
        all: &'a Vec<T>,
        part: impl Fn(&'a T) -> (&'a String, &'a V),
    ) where
        Vec<T>: Unseen,
    {
        if all.len() > MANY {
            return self.put_live_unseen(key, all);
        }
        for (name, value) in all.iter().map(part) {
            self.put_live_unseen(format!("{key}.{name}"), value);
        }
    }

    /// As [`Facts::put_live`], for a value that is too long or unsuitable to be shown.
    fn put_live_unseen(&mut self, key: impl Into<String>, value: &'a impl Unseen) {
        self.add(key, Some(Value::Unseen(value)), How::InPlace);
    }
}

fn yes(holds: bool) -> Option<String> {
    holds.then(|| "true".to_owned())
}

/// A node with more entries of a kind than this has them as one fact: to compare them one by one takes longer than all at
/// once, and a list of more changes helps no reader.
const MANY: usize = 1000;

/// Everything about a node except its links and computed routes.
pub(super) fn of_node(node: &PlannedNode) -> Vec<Fact<'_>> {
    let mut facts = Facts::default();
    // A key that is added to nodes does not compile until it has its row.
    let NodeSpec {
        // Who it is and where it lives.
        name: _,
        parent: _,
        kind,
        children,
        forwarding,
        hostname,
        loopback,
        limits,
        protect,
        charge_receive,
        privileged,
        ids,
        root,
        image,
        storage,
        setup,
        run,
        env,
        files,
        binds,
        ports,
        ready,
        exec,
        health,
    } = &*node.spec;
    facts.put_live("forwarding", forwarding.word().map(str::to_owned));
    facts.put_live("hostname", hostname.clone());
    facts.put_each("loopback", loopback);
    put_kind(&mut facts, kind);
    put_bounds(&mut facts, limits, protect);
    facts.put_live("charge-receive", yes(*charge_receive));
    facts.put_live("children", children.map(|limit| limit.to_string()));
    facts.put("privileged", yes(*privileged));
    facts.put("ids", ids.map(|ids| ids.word().to_owned()));
    facts.put("root", root.as_ref().map(|root| root.display().to_string()));
    put_image(&mut facts, image.as_ref());
    facts.put("storage", storage.map(memory_text));
    facts.put_unseen_unless("setup", setup, How::Recreate);
    facts.put_unseen_unless("run", run, How::InPlace);
    facts.put_unseen_unless("ready", ready, How::InPlace);
    facts.put_many("env", env, |(name, value)| (name, value));
    for file in files {
        facts.put_live_unseen(format!("files.{}", file.path), file);
    }
    facts.put_each("ports", ports);
    facts.put_many("binds", binds, |bind| (&bind.to, bind));
    facts.put_unseen_unless("exec", exec, How::InPlace);
    if let Some(health) = health {
        facts.put_live_unseen("health", health);
    }
    if node.sysctls.len() > MANY {
        facts.put_live_unseen("sysctls", &node.sysctls);
    } else {
        for (path, value) in settings(node) {
            facts.put_live(format!("sysctls.{path}"), Some(value));
        }
    }
    facts.0
}

fn put_bounds(facts: &mut Facts<'_>, limits: &Limits, protect: &Protect) {
    let number = |value: Option<u32>| value.map(|n| n.to_string());
    facts.put_live("limits.cpu", limits.cpu_milli.map(cpu_text));
    facts.put_live("limits.memory", limits.memory.map(memory_text));
    facts.put_live("limits.weight", number(limits.weight));
    facts.put_live("limits.processes", number(limits.processes));
    facts.put_live("limits.sockets", number(limits.sockets));
    facts.put_live("protect.packets", protect.packets.map(|rate| format!("{rate}/s")));
    facts.put_live("protect.bytes", protect.bytes.map(|rate| format!("{rate}/s")));
    facts.put_live("protect.auto", protect.auto.map(|auto| auto.to_string()));
}

fn put_kind<'a>(facts: &mut Facts<'a>, kind: &'a NodeKind) {
    if let Some(router) = kind.as_router() {
        facts.put("plane", Some(router.plane_word().to_owned()));
        facts.put_unseen("daemon", router);
    }
    if let Some(machine) = kind.as_vm() {
        facts.put("kind", Some("vm".to_owned()));
        facts.put_unseen("machine", machine);
    }
}

fn put_image<'a>(facts: &mut Facts<'a>, image: Option<&'a ImageUse>) {
    let Some(image) = image else { return };
    facts.put("image", Some(image.name.clone()));
    facts.put_live("pull", Some(image.pull.word().to_owned()));
    facts.put_unseen("entrypoint", &image.entrypoint);
    facts.put_unseen("run.image", &image.starts);
    facts.put_unseen("cmd", &image.cmd);
}

/// The kernel's settings with their final values, without those that make a router.
fn settings(node: &PlannedNode) -> std::collections::BTreeMap<&str, String> {
    // These are one fact already: `forwarding`.
    let of_routers = |path: &str| path.ends_with("forwarding") || path.ends_with("ip_forward");
    let of_routes = node.settings_of_routes();
    let computed = |setting: &(String, String)| of_routes.contains(setting);
    let own = node.sysctls.iter().filter(|s| !of_routers(&s.0) && !computed(s));
    own.map(|(path, value)| (path.as_str(), value.clone())).collect()
}

/// Everything about a switch except its links.
pub(super) fn of_switch(switch: &PlannedSwitch) -> Vec<Fact<'_>> {
    let mut facts = Facts::default();
    facts.put("kind", Some(switch.kind.word().to_owned()));
    facts.put_live("mtu", Some(switch.mtu.to_string()));
    match &switch.kind {
        SwitchKind::Bridge => facts.put("stp", switch.stp.then(|| "true".to_owned())),
        SwitchKind::Shm(options) => put_shm(&mut facts, options),
        SwitchKind::Openflow(options) => put_openflow(&mut facts, options),
    }
    facts.0
}

fn put_openflow<'a>(facts: &mut Facts<'a>, switch: &'a OpenflowSwitch) {
    let words = |all: &mut dyn Iterator<Item = String>| all.collect::<Vec<_>>().join(" ");
    let controllers = words(&mut switch.controllers.iter().map(ToString::to_string));
    facts.put_live("controllers", Some(controllers).filter(|all| !all.is_empty()));
    facts.put_live("fail", Some(switch.fail.word().to_owned()));
    facts.put("versions", Some(words(&mut switch.versions.iter().map(|v| v.word().to_owned()))));
    facts.put("datapath", switch.datapath.map(|id| id.to_string()));
    facts.put("tables", Some(switch.tables.to_string()));
    facts.put("max-entries", Some(switch.max_entries.to_string()));
    facts.put_live("auxiliary", Some(switch.auxiliary.to_string()).filter(|count| count != "0"));
    if let Some(tls) = &switch.tls {
        facts.put_unseen("tls", tls);
    }
}

fn put_shm<'a>(facts: &mut Facts<'a>, shm: &'a ShmSwitch) {
    facts.put("mode", Some(format!("{:04o}", shm.mode)));
    facts.put("group", shm.group.clone());
    facts.put("arena", Some(memory_text(shm.arena.into())));
    facts.put("ageing", Some(shm.ageing.to_string()));
    facts.put(
        "vde",
        match &shm.vde {
            VdeFolder::None => None,
            VdeFolder::Beside => Some("true".to_owned()),
            VdeFolder::At(path) => Some(path.clone()),
        },
    );
    for (name, port) in &shm.ports {
        facts.put_live_unseen(format!("ports.{name}"), port);
    }
    if !shm.mirrors.is_empty() {
        facts.put_live_unseen("mirrors", &shm.mirrors);
    }
}

/// Everything about a slice.
pub(super) fn of_slice(slice: &Slice) -> Vec<Fact<'_>> {
    let mut facts = Facts::default();
    let quota = &slice.quota;
    let number = |value: Option<u32>| value.map(|n| n.to_string());
    let controllers: Vec<String> = slice.controllers.iter().map(ToString::to_string).collect();
    facts.put_live("controllers", Some(controllers.join(" ")).filter(|all| !all.is_empty()));
    facts.put_live("rules", number(quota.rules));
    facts.put_live("groups", number(quota.groups));
    facts.put_live("buckets", number(quota.buckets));
    facts.put_live("meters", number(quota.meters));
    facts.put_live("memory", quota.memory.map(|bytes| format!("{bytes} bytes")));
    facts.put_live("packet-ins", quota.packet_ins.map(|rate| format!("{rate}/s")));
    facts.put_live("messages", quota.messages.map(|rate| format!("{rate}/s")));
    facts.put_live("rate", quota.rate.map(|rate| format!("{rate}bit")));
    facts.put_live("cpu", quota.cpu_milli.map(cpu_text));
    for (switch, id) in &slice.datapaths {
        facts.put_live(format!("datapaths.{switch}"), Some(id.to_string()));
    }
    for (switch, spaces) in &slice.switches {
        facts.put_live_unseen(format!("switches.{switch}"), spaces);
    }
    if let Some(tls) = &slice.tls {
        facts.put_live_unseen("tls", tls);
    }
    facts.0
}

/// Everything about a recording.
pub(super) fn of_recording(record: &Record) -> Vec<Fact<'_>> {
    let mut facts = Facts::default();
    facts.put_live("keep", Some(memory_text(record.keep)));
    facts.0
}

/// Everything about a link: its ends with their addresses, and its impairments.
pub(super) fn of_link<'a>(plan: &Plan, link: &'a PlannedLink) -> Vec<Fact<'a>> {
    let mut facts = Facts::default();
    let ends = [0, 1].map(|side| plan.end_text(&link.ends[side]));
    facts.put("ends", Some(ends.join(" ")));
    facts.put_live("mtu", Some(link.mtu.to_string()));
    for (side, end) in ends.iter().enumerate() {
        let addresses = match &link.ends[side] {
            PlannedEnd::Node { .. } => interface(plan, &link.ends[side]).map(|i| &i.addresses),
            PlannedEnd::Internet { addresses } => Some(addresses),
            _ => None,
        };
        let text = addresses.filter(|all| !all.is_empty()).map(|all| {
            let words: Vec<String> = all.iter().map(ToString::to_string).collect();
            words.join(" ")
        });
        facts.put_live(format!("addresses.{end}"), text);
        // Recreated: the link-local address and what others have learnt follow from it.
        let mac = interface(plan, &link.ends[side]).map(|own| netloom_bridge::Mac(own.mac));
        facts.put(key_of_mac(end), mac.map(|mac| mac.to_string()));
        let number = link.ends[side].given_number();
        facts.put_live(format!("port.{end}"), number.map(|number| number.to_string()));
    }
    put_impairments(&mut facts, link);
    facts.0
}

fn key_of_mac(end: &str) -> String {
    format!("mac.{end}")
}

/// Whether a key of a link's end is one of a hardware address that no file gives: a living interface keeps it.
pub(super) fn is_mac_of_names(
    key: &str,
    (in_a, a): (&Plan, &PlannedLink),
    (in_b, b): (&Plan, &PlannedLink),
) -> bool {
    let given = |ends: (&PlannedEnd, &PlannedEnd)| {
        let (Some(x), Some(y)) = (interface(in_a, ends.0), interface(in_b, ends.1)) else {
            return false;
        };
        key_of_mac(&in_b.end_text(ends.1)) == key && x.is_given_other_mac(y)
    };
    key.starts_with("mac.") && !a.ends.iter().zip(&b.ends).any(given)
}

/// Once if both directions are equal; else by the letter of the sending end, as in the file.
fn put_impairments(facts: &mut Facts<'_>, link: &PlannedLink) {
    let [a, b] = [0, 1].map(|side| text::impairments(&link.impairments[side]));
    for (key, value) in &a {
        if b.get(key) == Some(value) {
            // A value both ways is written once in a file.
            facts.put_live(key.clone(), Some(value.clone()));
        } else {
            facts.put_live(format!("a.{key}"), Some(value.clone()));
        }
    }
    for (key, value) in b.iter().filter(|(key, value)| a.get(*key) != Some(value)) {
        facts.put_live(format!("b.{key}"), Some(value.clone()));
    }
}

fn interface<'a>(plan: &'a Plan, end: &PlannedEnd) -> Option<&'a Interface> {
    let PlannedEnd::Node { node, interface } = end else { return None };
    plan.node_at(*node)?.interfaces.get(*interface)
}

/// Whether two nodes have equal facts because what these are made of is equal.
pub(super) fn is_same_node(a: &PlannedNode, b: &PlannedNode) -> bool {
    // Some settings follow from routes.
    (&a.spec, &a.sysctls, &a.routes) == (&b.spec, &b.sysctls, &b.routes)
}

/// The same for links, each with its plan.
pub(super) fn is_same_link(
    (in_a, a): (&Plan, &PlannedLink),
    (in_b, b): (&Plan, &PlannedLink),
) -> bool {
    let PlannedLink { id: _, name: _, ends, mtu, impairments } = a;
    (mtu, impairments) == (&b.mtu, &b.impairments)
        && ends.iter().zip(&b.ends).all(|ends| match ends {
            (PlannedEnd::Node { node: x, .. }, PlannedEnd::Node { node: y, .. }) => {
                let names = (in_a.node_at(*x).map(|n| &n.name), in_b.node_at(*y).map(|n| &n.name));
                let owns = (interface(in_a, ends.0), interface(in_b, ends.1));
                let (Some(x), Some(y)) = owns else { return false };
                let same = (&x.name, &x.addresses) == (&y.name, &y.addresses);
                names.0 == names.1 && same && !x.is_given_other_mac(y)
            }
            (PlannedEnd::Port { switch: x, .. }, PlannedEnd::Port { switch: y, .. }) => {
                in_a.switch_at(*x).map(|s| &s.name) == in_b.switch_at(*y).map(|s| &s.name)
                    && ends.0.given_number() == ends.1.given_number()
            }
            // Seldom, and cheap enough by their facts.
            _ => false,
        })
}

/// Whether two nodes have the same routes, whatever the order of their interfaces.
pub(crate) fn same_routes(old: &PlannedNode, new: &PlannedNode) -> bool {
    if old.routes.len() != new.routes.len() {
        return false;
    }
    // The common cases: none, and equal in the same positions.
    if old.routes.is_empty()
        || (old.routes == new.routes
            && old.interfaces.len() == new.interfaces.len()
            && old.interfaces.iter().zip(&new.interfaces).all(|(a, b)| a.name == b.name))
    {
        return true;
    }
    by_interface(old) == by_interface(new)
}

type Hop<'a> = (Option<std::net::IpAddr>, &'a str);

/// Routes in an order of their own, by the names of interfaces.
fn by_interface(node: &PlannedNode) -> Vec<(ipnet::IpNet, Vec<Hop<'_>>)> {
    // Places of interfaces differ between plans; names do not.
    let name = |at: usize| node.interfaces.get(at).map_or("", |i| i.name.as_str());
    let hops = |route: &crate::plan::Route| -> Vec<Hop<'_>> {
        let also = route.also.iter().map(|hop| (Some(hop.via), name(hop.interface)));
        std::iter::once((route.via, name(route.interface))).chain(also).collect()
    };
    let mut all: Vec<_> = node.routes.iter().map(|route| (route.to, hops(route))).collect();
    all.sort();
    all
}
