//! Reads the body of a node, with every check that does not need the rest of the file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use netloom_config::{Entry, Kind, Node as Yaml, Path, Place, Report, quote, read};

use super::common::{
    check_inner_path, command, commands, conditions, dev, map, runs, short_conditions, via,
};
use super::node_bounds::read_bounds;
use super::raw::NodeBody;
use super::surroundings::{forwarding, read_surroundings};
use super::upkeep::read_upkeep;
use super::{image, machine};
use crate::file::values::{At, is_ipv4, non_empty, owner};
use crate::file::{Fields, choice, elsewhere};
use crate::forwarding::Forwarding;
use crate::keys::{FILE, NODE, PROGRAM, READY, ROUTE};
use crate::kinds::{NodeKind, router, vm};
use crate::lab::{FileContent, FileSpec, Node, NodeSpec, Program, Ready, Restart, RouteSpec, Via};
use crate::signal::{self, StopSignal};

/// Reads a node's body; invalid values keep their default.
pub(crate) fn node(name: &str, yaml: &Yaml, path: &Path<'_>, report: &mut Report) -> NodeBody {
    let node = Node::from(NodeSpec { name: name.to_owned(), ..NodeSpec::default() });
    let mut body =
        NodeBody { node, routes: Vec::new(), limits: Vec::new(), children: None, privileged: None };
    let Some(fields) = Fields::open(yaml, path, &NODE, report) else { return body };
    read_bounds(&fields, path, &mut body, report);
    read_programs(&fields, path, &mut body.node, report);
    read_surroundings(&fields, path, &mut body.node, report);
    read_upkeep(&fields, path, &mut body.node, report);
    read_kind(yaml, &fields, path, &mut body.node, report);
    let router = body.node.kind.as_router();
    if let Some((frr, learns)) = router.map(|router| (router.frr, router.learns_routes())) {
        // FRR's daemons start only where they get the capability SYS_ADMIN.
        if frr {
            if let Some(value) = fields.get("privileged").filter(|_| !body.node.privileged) {
                let message =
                    format!("{}: FRR starts only in a privileged node", path.key("privileged"));
                report.error_with(value.place, message, Some("write daemon: none".into()));
            }
            body.node.privileged = true;
            body.privileged = body.privileged.or(fields.get("kind").map(|value| value.place));
        }
        body.node.forwarding = Forwarding::Both(true);
        // The plan decides no routes where a protocol does.
        body.node.routes = learns.then(Vec::new);
    }
    let node = &mut body.node;
    if let Some(value) = fields.get("forwarding") {
        node.forwarding = forwarding(value, &path.key("forwarding"), report);
        node.forwarding_given = true;
        if !node.forwarding.any() && node.kind.as_router().is_some() {
            let message = format!("{}: a router cannot disable forwarding", path.key("forwarding"));
            report.error(value.place, message);
        }
    }
    if let Some(value) = fields.get("sysctls") {
        node.sysctls = sysctls(value, &path.key("sysctls"), report);
    }
    if let Some(value) = fields.get("routes") {
        let read = routes(value, &path.key("routes"), report);
        node.routes = Some(read.iter().map(|r| r.value.clone()).collect());
        body.routes = read.iter().map(|r| r.place).collect();
    }
    body
}

/// Reads the kind of a node, and the keys that only nodes of that kind have.
fn read_kind(
    yaml: &Yaml,
    fields: &Fields<'_>,
    path: &Path<'_>,
    node: &mut Node,
    report: &mut Report,
) {
    let word = fields.get("kind").and_then(|v| kind(v, &path.key("kind"), report));
    refuse_keys_of_others(word, yaml, path, report);
    match word {
        Some(vm::WORD) => {
            let machine = vm::read(fields, path, report);
            machine::check((&machine, node), (yaml, fields), path, report);
            node.kind = NodeKind::Vm(Box::new(machine));
            return;
        }
        Some(router::WORD) => {
            node.kind = NodeKind::Router(Box::new(router::read(fields, path, report)));
        }
        _ => {}
    }
    let machines = [("console", node.ready.console.is_some()), ("agent", node.ready.agent)];
    for (key, _) in machines.into_iter().filter(|(_, given)| *given) {
        let Some(value) = fields.get("ready") else { continue };
        only_of(vm::WORD, value.place, &path.key("ready").key(key), report);
    }
}

/// One of the kinds; other programs' kinds are told what netloom has instead.
fn kind(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<&'static str> {
    let words: Vec<&'static str> = NODE.kinds.iter().map(|of| of.kind).collect();
    let known = read::scalar(value).is_some_and(|word| words.contains(&word));
    match elsewhere::help(NODE.name, "kind", value) {
        Some(help) if !known => {
            let message =
                format!("{path}: expected one of {}, found {}", words.join(", "), value.describe());
            report.error_with(value.place, message, Some(help));
            None
        }
        _ => read::choice(value, path, &words, report),
    }
}

/// Refuses keys of other kinds; a key that other programs know otherwise is shown in netloom's form.
fn refuse_keys_of_others(word: Option<&str>, yaml: &Yaml, path: &Path<'_>, report: &mut Report) {
    let Kind::Map(entries) = &yaml.kind else { return };
    for of in NODE.kinds.iter().filter(|of| Some(of.kind) != word) {
        for entry in entries.iter().filter(|e| of.keys.iter().any(|key| key.name == e.key)) {
            match elsewhere::help(NODE.name, &entry.key, &entry.value) {
                Some(help) => {
                    let message = format!("{path}: unknown key {}", quote(&entry.key));
                    report.error_with(entry.place, message, Some(help));
                }
                None => only_of(of.kind, entry.value.place, &path.key(&entry.key), report),
            }
        }
    }
}

fn only_of(kind: &str, place: Place, path: &Path<'_>, report: &mut Report) {
    let what = if kind == vm::WORD { "virtual machine" } else { kind };
    let help = Some(format!("write kind: {kind}"));
    report.error_with(place, format!("{path}: only a {what} has this"), help);
}

/// Reads the keys of a node about its programs and files.
fn read_programs(fields: &Fields<'_>, path: &Path<'_>, node: &mut Node, report: &mut Report) {
    if let Some(value) = fields.get("root") {
        node.root = non_empty(value, &path.key("root"), report).map(PathBuf::from);
    }
    node.image = image::image(fields, path, report);
    if let Some(value) = fields.get("setup") {
        node.setup = commands(value, &path.key("setup"), report, command);
    }
    if let Some(value) = fields.get("run") {
        node.run = commands(value, &path.key("run"), report, program);
    }
    if let Some(value) = fields.get("env") {
        node.env = env(value, &path.key("env"), report);
    }
    if let Some(value) = fields.get("files") {
        node.files = files(value, &path.key("files"), report);
    }
    if let Some(value) = fields.get("ready") {
        node.ready = ready(value, &path.key("ready"), report);
    }
}

fn program(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Program> {
    if !matches!(value.kind, Kind::Map(_)) {
        return command(value, path, report).map(Program::once);
    }
    let fields = Fields::open(value, path, &PROGRAM, report)?;
    let restart = fields.get("restart").and_then(|v| restart(v, &path.key("restart"), report));
    let program = runs(&fields, path, report);
    let signal = fields.get("stop-signal").and_then(|v| {
        let (path, of) = (path.key("stop-signal"), (&PROGRAM, "stop-signal"));
        StopSignal::of_word(choice(v, &path, of, &signal::WORDS, report)?)
    });
    let command = command(fields.get("command")?, &path.key("command"), report)?;
    let (restart, stop_signal) = (restart.unwrap_or_default(), signal.unwrap_or_default());
    Some(Program { command, restart, stop_signal, ..program })
}

fn restart(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Restart> {
    const WORDS: [&str; 3] = ["never", "on-failure", "always"];
    Some(match choice(value, path, (&PROGRAM, "restart"), &WORDS, report)? {
        "always" => Restart::Always,
        "on-failure" => Restart::OnFailure,
        _ => Restart::Never,
    })
}

fn env(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Vec<(String, String)> {
    let mut env = BTreeMap::new();
    for entry in map(value, path, "a map of variables", report) {
        let path = path.key(&entry.key);
        if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
            report.error(
                entry.place,
                format!("{path}: {} cannot name a variable", quote(&entry.key)),
            );
        }
        if let Some(text) = read::text(&entry.value, &path, report) {
            // Sorted by name: the order in the file has no meaning, and equal nodes compare equal.
            env.insert(entry.key.clone(), text);
        }
    }
    env.into_iter().collect()
}

fn sysctls(value: &Yaml, path: &Path<'_>, report: &mut Report) -> BTreeMap<String, String> {
    let mut sysctls = BTreeMap::new();
    for entry in map(value, path, "a map of sysctls", report) {
        let key = entry.key.as_str();
        let path = path.key(key);
        if !is_net_sysctl(key) {
            let help =
                "names are like net.ipv4.tcp_ecn; only those below net. belong to a node".into();
            report.error_with(
                entry.place,
                format!("{path}: {} is not a sysctl of a node", quote(key)),
                Some(help),
            );
        }
        if let Some(text) = read::text(&entry.value, &path, report) {
            sysctls.insert(entry.key.clone(), text);
        }
    }
    sysctls
}

/// A name below `net.`, or a path below `net/` for an interface's name with a dot (sysctl(8)).
/// It must not lead out of `/proc/sys/net`.
fn is_net_sysctl(key: &str) -> bool {
    let separator = if key.contains('/') { '/' } else { '.' };
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let part = |p: &str| !p.is_empty() && p != "." && p != ".." && p.chars().all(letters);
    let mut parts = key.split(separator);
    parts.next() == Some("net") && key.len() > 4 && parts.all(part)
}

fn files(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Vec<FileSpec> {
    let mut files = Vec::new();
    for entry in map(value, path, "a map from paths to texts", report) {
        check_inner_path(&entry.key, entry.place, path, report);
        files.extend(file(entry, &path.key(&entry.key), report));
    }
    files
}

fn file(entry: &Entry, path: &Path<'_>, report: &mut Report) -> Option<FileSpec> {
    let value = &entry.value;
    if !matches!(value.kind, Kind::Map(_)) {
        let text = read::content(value, path, report)?;
        return Some(FileSpec::new(&entry.key, FileContent::Text(text)));
    }
    let fields = Fields::open(value, path, &FILE, report)?;
    let mode = fields.get("mode").and_then(|v| read::octal_mode(v, &path.key("mode"), report));
    let mut name = |key: &str, what: &str| {
        fields.get(key).and_then(|v| owner(v, &path.key(key), what, report))
    };
    let (user, group) = (name("owner", "user"), name("group", "group"));
    let content = match (fields.get("text"), fields.get("from")) {
        (Some(text), None) => FileContent::Text(read::content(text, &path.key("text"), report)?),
        (None, Some(from)) => FileContent::From(non_empty(from, &path.key("from"), report)?.into()),
        (Some(_), Some(from)) => {
            report.error(from.place, format!("{path}: `from` and `text` exclude each other"));
            return None;
        }
        (None, None) => {
            report.error(value.place, format!("{path}: needs `text` or `from`"));
            return None;
        }
    };
    let spec = FileSpec::new(&entry.key, content);
    Some(FileSpec { mode: mode.unwrap_or(spec.mode), owner: user, group, ..spec })
}

fn ready(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Ready {
    let mut ready = Ready::default();
    if !matches!(value.kind, Kind::Map(_) | Kind::Null) {
        short_conditions(value, path, &mut ready, report);
        return ready;
    }
    let Some(fields) = Fields::open(value, path, &READY, report) else { return ready };
    conditions(&fields, path, &mut ready, report);
    if let Some(value) = fields.get("console") {
        ready.console = non_empty(value, &path.key("console"), report);
    }
    if let Some(value) = fields.get("agent") {
        ready.agent = read::boolean(value, &path.key("agent"), report).unwrap_or(false);
    }
    if let Some(value) = fields.get("timeout") {
        ready.timeout =
            read::duration(value, &path.key("timeout"), report).unwrap_or(ready.timeout);
    }
    ready
}

fn routes(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Vec<At<RouteSpec>> {
    let Some(items) = value.items() else {
        read::expected(value, path, "a list of routes", report);
        return Vec::new();
    };
    let routes = items.iter().enumerate().map(|(i, item)| route(item, &path.index(i), report));
    routes.flatten().collect()
}

fn route(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<At<RouteSpec>> {
    let fields = Fields::open(value, path, &ROUTE, report)?;
    let via = fields.get("via").and_then(|v| via(v, &path.key("via"), report));
    let dev = fields.get("dev").and_then(|v| dev(v, &path.key("dev"), report));
    if fields.get("via").is_none() && fields.get("dev").is_none() {
        report.error(value.place, format!("{path}: a route needs `via` or `dev`"));
    }
    let target = fields.get("to")?;
    let to = match target.text.as_str() {
        "default" => None,
        _ => Some(read::prefix(target, &path.key("to"), report)?),
    };
    if let (Some(to), Some(Via::Address(via))) = (&to, &via)
        && is_ipv4(to) != via.is_ipv4()
    {
        report.error(value.place, format!("{path}: {to} and {via} are of different families"));
    }
    Some(At { value: RouteSpec { to, via, dev }, place: fields.get("via").unwrap_or(value).place })
}
