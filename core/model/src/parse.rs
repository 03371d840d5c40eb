//! From the text of a lab file to a [`Lab`], or to every error it has.
//!
//! In order: parses the YAML tree (`netloom-config`), unrolls `for` ([`unroll`]), reads bodies key by key
//! ([`node`], [`switch`], [`link`], [`children`], against the tables of [`keys`]), resolves names
//! ([`resolve`]), checks addresses by hand ([`segments`]). Each step reports all errors it finds and
//! continues with the rest. A resulting lab keeps all promises of [`crate::lab`]. Time and memory are
//! bounded for any input.

mod children;
mod common;
pub(crate) mod expect;
mod expr;
mod hosts;
mod image;
mod impair;
mod layout;
mod link;
mod machine;
mod node;
mod node_bounds;
mod place;
mod raw;
mod resolve;
mod running;
mod segments;
mod sets;
mod surroundings;
mod switch;
mod template;
mod unroll;
mod upkeep;
mod words;
mod work;

use std::collections::{HashMap, HashSet};

use ipnet::IpNet;
use netloom_config::{Diagnostics, Kind, Node as Yaml, Path, Place, Report, load, quote, read};

pub use self::running::{
    link_addresses, link_mac, link_mtu, node_keys, port_lock, port_vlan, set_node, switch_keys,
    switch_kind,
};

pub use self::hosts::hosts;
pub(crate) use self::layout::positions;
pub use self::link::link_ends;
use self::raw::{NodeBody, Origin, Parts, RawSteps, SwitchBody};
use self::unroll::{Context, Scope, Stop, unroll};
use self::work::Work;
use crate::bounds::{MAX_LINKS, MAX_NODES};
use crate::file::values::At;
use crate::file::{Fields, choice, elsewhere, values};
use crate::keys::{LAB, POOL, ROUTING};
use crate::kinds::openflow::DatapathId;
use crate::kinds::{Around, RawSwitchKind};
use crate::lab::{Lab, Node, Pool};
use crate::naming::{lab_name_problem, node_name_problem};
use crate::plan::ends_of_switches;
use crate::slices::{self, MOST_SLICES, RawSlices};
use crate::users::Ids;

/// Reads a lab file. `file` is its name for messages; `default_name` (the file's name without its
/// extension) becomes the lab's name when the file gives none.
///
/// # Errors
/// Every error of the file, in order of place; their `Display` is the full text for the user.
pub fn parse(file: &str, text: &[u8], default_name: &str) -> Result<Lab, Diagnostics> {
    let mut context = Context {
        report: Report::new(file),
        work: Work::new(Work::WHOLE_FILE),
        entries: 0,
        rounds: 0,
    };
    // Looked at before YAML is read, whose errors would name a symptom.
    if let Some(what) = elsewhere::whole_file(text) {
        let help = "a lab file of netloom is YAML and starts like this: nodes: {h1: {}}".into();
        context.report.error_with(Place::START, format!("this is {what}, no lab file"), Some(help));
        return Err(context.report.finish());
    }
    let lab =
        load(text, &mut context.report).and_then(|tree| lab(&tree, default_name, &mut context));
    match lab {
        Some(lab) if context.report.is_empty() => Ok(lab),
        _ => Err(context.report.finish()),
    }
}

/// The name of a lab from its file, whatever else is wrong in it; parameters as for [`parse`].
///
/// # Errors
/// The file cannot be read at all, or its name is invalid.
pub fn lab_name(file: &str, text: &[u8], default_name: &str) -> Result<String, Diagnostics> {
    let mut report = Report::new(file);
    let Some(tree) = load(text, &mut report) else { return Err(report.finish()) };
    let mut report = Report::new(file);
    let name = name(tree.get("name"), default_name, &mut report);
    if report.is_empty() { Ok(name) } else { Err(report.finish()) }
}

fn lab(tree: &Yaml, default_name: &str, context: &mut Context) -> Option<Lab> {
    if tree.is_null() {
        let help = "a lab file starts like this: nodes: {h1: {}}".into();
        context.report.error_with(tree.place, "the file is empty", Some(help));
        return None;
    }
    let fields = Fields::open(tree, &Path::Root, &LAB, &mut context.report)?;
    let name = name(fields.get("name"), default_name, &mut context.report);
    let (routing, ecmp) = routing(fields.get("routing"), &mut context.report);
    let pool = pool(fields.get("pool"), &mut context.report);
    let path = Path::Root.key("loops");
    let loops = fields.get("loops").is_some_and(|value| {
        let of = (&LAB, "loops");
        choice(value, &path, of, &crate::keys::LOOPS, &mut context.report) == Some("allowed")
    });
    let path = Path::Root.key("ids");
    let ids = fields.get("ids").and_then(|v| node_bounds::ids(v, &path, &mut context.report));
    let layout = layout::layout(fields.get("x-layout"), &mut context.report);
    let path = Path::Root.key("record");
    let record =
        fields.get("record").and_then(|v| node_bounds::record(v, &path, &mut context.report));
    let parts = match parts(&fields, context) {
        Ok(parts) => parts,
        Err(Stop) => return None,
    };
    let mut lab = finish(parts, &pool, loops, &mut context.report);
    // After all nodes: parents come before their children, and each has its own by then.
    hand_down(&mut lab.nodes, ids);
    lab.place = place::place(fields.get("place"), &lab, &mut context.report);
    Some(Lab { name, pool, routing, ecmp, record, layout, ..lab })
}

/// Gives users and groups to nodes that do not say which: their parents', else the lab's. A virtual machine's guest has
/// its own.
fn hand_down(nodes: &mut [Node], of_lab: Option<Ids>) {
    for index in 0..nodes.len() {
        let node = &nodes[index];
        let around = node.parent.map_or(of_lab, |parent| nodes[parent.get()].ids);
        if node.kind.as_vm().is_none() {
            nodes[index].ids = node.ids.or(around);
        }
    }
}

fn name(node: Option<&Yaml>, default_name: &str, report: &mut Report) -> String {
    let path = Path::Root.key("name");
    let (name, place, help) = match node {
        Some(node) => match read::text(node, &path, report) {
            Some(name) => (name, node.place, None),
            None => return String::new(),
        },
        None => (
            default_name.to_owned(),
            Place::START,
            Some("give the lab a name: name: my-lab".into()),
        ),
    };
    if let Some(problem) = lab_name_problem(&name) {
        report.error_with(place, problem, help);
    }
    name
}

/// Whether routes are computed, and whether they use all paths of equal cost.
fn routing(node: Option<&Yaml>, report: &mut Report) -> (bool, bool) {
    let path = Path::Root.key("routing");
    let auto = |value: &Yaml, path: &Path<'_>, report: &mut Report| {
        let of = (&LAB, "routing");
        choice(value, path, of, &["auto", "none"], report) != Some("none")
    };
    match node {
        None => (true, true),
        Some(map) if matches!(map.kind, Kind::Map(_)) => {
            let Some(fields) = Fields::open(map, &path, &ROUTING, report) else {
                return (true, true);
            };
            let mode = fields.get("mode").is_none_or(|v| auto(v, &path.key("mode"), report));
            let ecmp = fields.get("ecmp").and_then(|v| read::boolean(v, &path.key("ecmp"), report));
            (mode, ecmp.unwrap_or(true))
        }
        Some(word) => (auto(word, &path, report), true),
    }
}

fn pool(node: Option<&Yaml>, report: &mut Report) -> Pool {
    let mut pool = Pool::usual();
    let Some(node) = node else { return pool };
    let path = Path::Root.key("pool");
    let Some(fields) = Fields::open(node, &path, &POOL, report) else { return pool };
    if let Some(value) = fields.get("ipv4") {
        pool.ipv4 = match pool_prefix(value, &path.key("ipv4"), 16, report) {
            Some(IpNet::V4(net)) => Some(net),
            Some(IpNet::V6(_)) => {
                read::expected(value, &path.key("ipv4"), "an IPv4 prefix or none", report);
                None
            }
            None => None,
        };
    }
    if let Some(value) = fields.get("ipv6") {
        pool.ipv6 = match pool_prefix(value, &path.key("ipv6"), 32, report) {
            Some(IpNet::V6(net)) => Some(net),
            Some(IpNet::V4(_)) => {
                read::expected(value, &path.key("ipv6"), "an IPv6 prefix or none", report);
                None
            }
            None => None,
        };
    }
    pool
}

/// A prefix that is large enough, or `None` for `none` and for errors.
fn pool_prefix(value: &Yaml, path: &Path<'_>, longest: u8, report: &mut Report) -> Option<IpNet> {
    if value.text == "none" {
        return None;
    }
    let net = read::prefix(value, path, report)?;
    if net.prefix_len() == 0 || net.prefix_len() > longest {
        report.error(
            value.place,
            format!("{path}: {net}: the prefix length must be from 1 to {longest}"),
        );
    }
    if let Some(reason) = values::unusable(&net) {
        report.error(value.place, format!("{path}: {net} {reason}"));
    }
    Some(net)
}

/// Reads all nodes, switches and links, `for` unrolled.
fn parts(fields: &Fields<'_>, context: &mut Context) -> Result<Parts, Stop> {
    let mut parts = Parts::default();
    let Parts { nodes, switches, links, slices, expect } = &mut parts;
    let top = Scope::default();
    children::nodes(fields.get("nodes"), &Path::Root.key("nodes"), &top, None, nodes, context)?;
    let path = Path::Root.key("switches");
    named(fields.get("switches"), &path, &top, context, &mut |round, context| {
        let report = &mut context.report;
        check_count(switches.len(), MAX_NODES, "switches", round.place, report)?;
        let value = switch::switch(round.name, round.body, &path.key(round.name), report);
        let repetition = round.scope.repetition;
        switches.push(Origin { value, place: round.place, repetition });
        Ok(())
    })?;
    let path = Path::Root.key("links");
    // Nodes and switches first: a text like `a-b` is divided by their names.
    let known = names_of(nodes, switches);
    for (index, item) in items(fields.get("links"), &path, &mut context.report).iter().enumerate() {
        let path = path.index(index);
        unroll("", item.place, item, &top, context, &mut |round, context| {
            let report = &mut context.report;
            check_count(links.len(), MAX_LINKS, "links", round.place, report)?;
            if let Some(value) = link::link(round.body, &known, &path, report) {
                let repetition = round.scope.repetition;
                links.push(Origin { value, place: round.place, repetition });
            }
            Ok(())
        })?;
    }
    if let Some(value) = fields.get("expect") {
        *expect = expect::expect(value, &Path::Root.key("expect"), &mut context.report);
    }
    let path = Path::Root.key("slices");
    named(fields.get("slices"), &path, &top, context, &mut |round, context| {
        if slices.is_full() {
            let place = round.place;
            return check_count(MOST_SLICES, MOST_SLICES, "slices", place, &mut context.report);
        }
        slices.push(round.name, round.place, round.body, &path, &mut context.report);
        Ok(())
    })?;
    Ok(parts)
}

/// The names of nodes and switches: what a link's text is divided by.
fn names_of(nodes: &[Origin<NodeBody>], switches: &[Origin<SwitchBody>]) -> HashSet<String> {
    let nodes = nodes.iter().map(|node| &node.value.node.name);
    nodes.chain(switches.iter().map(|switch| &switch.value.switch.name)).cloned().collect()
}

/// Calls `each` for every entry of a map of nodes, switches or slices; reports bad names.
fn named(
    node: Option<&Yaml>,
    path: &Path<'_>,
    scope: &Scope<'_>,
    context: &mut Context,
    each: &mut dyn FnMut(unroll::Round<'_>, &mut Context) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let Some(node) = node.filter(|n| !n.is_null()) else { return Ok(()) };
    let Some(entries) = node.entries() else {
        read::expected(node, path, "a map from names to bodies", &mut context.report);
        return Ok(());
    };
    for entry in entries {
        unroll(&entry.key, entry.place, &entry.value, scope, context, &mut |round, context| {
            if let Some(problem) = node_name_problem(round.name) {
                context.report.error(round.place, problem);
            }
            each(round, context)
        })?;
    }
    Ok(())
}

fn items<'y>(node: Option<&'y Yaml>, path: &Path<'_>, report: &mut Report) -> &'y [Yaml] {
    match node.map(|n| (n, &n.kind)) {
        None | Some((_, Kind::Null)) => &[],
        Some((_, Kind::Seq(items))) => items,
        Some((node, _)) => {
            read::expected(node, path, "a list of links", report);
            &[]
        }
    }
}

fn check_count(
    count: usize,
    most: usize,
    what: &str,
    place: Place,
    report: &mut Report,
) -> Result<(), Stop> {
    if count < most {
        return Ok(());
    }
    // The count is the file's, not one repetition's.
    report.set_repetition(None);
    report.error(place, format!("more than {most} {what}"));
    Err(Stop)
}

/// Resolves names and performs the checks that need the whole file.
fn finish(mut parts: Parts, pool: &Pool, loops: bool, report: &mut Report) -> Lab {
    children::check(&mut parts.nodes, report);
    // First names, then ends, then addresses: each check relies on the one before.
    let names = resolve::names(&parts, report);
    let links = resolve::links(&parts, &names, loops, report);
    let segment_of = segments::segment_of(&parts, &links);
    let addresses = segments::check(&parts, &links, &segment_of, report);
    segments::check_mtus(&parts, pool.ipv6.is_some(), report);
    resolve::check_routes(&parts, &names, &links, &segment_of, report);
    let links = raw::into_links(links.into_iter().zip(addresses).collect());
    let mut lab = Lab {
        name: String::new(),
        pool: *pool,
        routing: true,
        ecmp: true,
        nodes: parts.nodes.into_iter().map(|o| o.value.node).collect(),
        switches: parts.switches.iter().map(|o| o.value.switch.clone()).collect(),
        links,
        slices: vec![],
        record: None,
        expect: vec![],
        place: vec![],
        layout: std::collections::BTreeMap::new(),
        numbered_as: std::collections::BTreeMap::new(),
    };
    finish_expect(parts.expect, &mut lab, report);
    finish_kinds(&parts.switches, &mut lab, report);
    finish_slices(parts.slices, &parts.switches, &mut lab, report);
    lab
}

/// Checks that the nodes that steps name are there.
fn finish_expect(raw: RawSteps, lab: &mut Lab, report: &mut Report) {
    // A file may have as many steps as nodes, and many of each.
    let known: HashSet<&str> = lab.nodes.iter().map(|node| node.name.as_str()).collect();
    for At { value, place } in &raw.nodes {
        if !known.contains(value.as_str()) {
            let help = report.suggest(value, lab.nodes.iter().map(|node| node.name.as_str()));
            report.error_with(*place, format!("expect: no node {}", quote(value)), help);
        }
    }
    lab.expect = raw.steps;
}

/// Gives switches their kinds. Only for a lab without other errors: links with errors are not in it.
fn finish_kinds(raws: &[Origin<SwitchBody>], lab: &mut Lab, report: &mut Report) {
    // Their messages would follow from errors that were told already.
    if !report.is_empty() {
        return;
    }
    let ends = ends_of_switches(lab);
    let nodes: HashSet<&str> = lab.nodes.iter().map(|node| node.name.as_str()).collect();
    let switches: HashSet<&str> = lab.switches.iter().map(|switch| switch.name.as_str()).collect();
    let is_taken = |name: &str| nodes.contains(name) || switches.contains(name);
    let is_node = |name: &str| nodes.contains(name);
    let mut kinds = Vec::with_capacity(raws.len());
    let mut datapaths = HashMap::new();
    for (origin, ends) in raws.iter().zip(&ends) {
        report.set_repetition(origin.repetition.clone());
        let (name, place) = (&origin.value.switch.name, origin.place);
        let around = Around { name, place, ends, is_taken: &is_taken, is_node: &is_node };
        check_datapath(&origin.value.kind, &mut datapaths, report);
        kinds.push(origin.value.kind.finish(&around, report));
    }
    report.set_repetition(None);
    for (switch, kind) in lab.switches.iter_mut().zip(kinds) {
        switch.kind = kind;
    }
}

/// Checks slices against switches and links. Only for a lab without other errors, as for kinds.
fn finish_slices(
    raw: RawSlices,
    switches: &[Origin<SwitchBody>],
    lab: &mut Lab,
    report: &mut Report,
) {
    if raw.is_empty() || !report.is_empty() {
        return;
    }
    let ends = ends_of_switches(lab);
    let places: HashMap<&str, usize> =
        lab.switches.iter().enumerate().map(|(at, switch)| (switch.name.as_str(), at)).collect();
    let kind = |name: &str| places.get(name).map(|at| &lab.switches[*at].kind);
    let sliced = lab.switches.iter().filter(|switch| switch.kind.as_openflow().is_some());
    let around = slices::Switches {
        known: sliced.map(|switch| switch.name.as_str()).collect(),
        problem: &|name| {
            let kind = kind(name)?;
            Some(format!(
                "{name:?} is of kind {}; only one of kind openflow has slices",
                kind.word()
            ))
        },
        port: &|switch, port| {
            let ends = places.get(switch).and_then(|at| ends.get(*at));
            slices::port(ends.map_or(&[][..], Vec::as_slice), port)
        },
    };
    let nodes: HashSet<&str> = lab.nodes.iter().map(|node| node.name.as_str()).collect();
    let is_node = |name: &str| nodes.contains(name);
    let slices = raw.finish(&around, &is_node, report);
    for (switch, origin) in lab.switches.iter_mut().zip(switches) {
        let Some(slice) = slices.iter().find(|slice| slice.switches.contains_key(&switch.name))
        else {
            continue;
        };
        let options = switch.kind.as_openflow();
        if options.is_some_and(|options| !options.controllers.is_empty()) {
            let message = format!(
                "controllers: the switch is sliced (slice {:?}); its controllers are those of its slices",
                slice.name
            );
            report.error(origin.place, message);
        }
        if let Some(place) = origin.value.kind.standalone() {
            let message = format!(
                "fail: the switch is sliced (slice {:?}); by itself it would forward across slices",
                slice.name
            );
            report.error_with(place, message, Some("leave `fail` out".to_owned()));
        }
        // By itself it would forward between slices, whatever the file leaves out.
        switch.kind.secure();
    }
    lab.slices = slices;
}

/// Controllers could not tell two switches with one datapath id apart.
fn check_datapath(kind: &RawSwitchKind, taken: &mut HashMap<DatapathId, u32>, report: &mut Report) {
    let Some((id, place)) = kind.datapath() else { return };
    match taken.get(&id) {
        Some(line) => report.error(place, format!("datapath: {id} is taken on line {line}")),
        None => _ = taken.insert(id, place.line),
    }
}

#[cfg(test)]
mod tests;
