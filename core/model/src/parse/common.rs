//! Readers of values that several keys of a node have: commands, paths in it, conditions.

use netloom_config::{Entry, Kind, Node as Yaml, Path, Place, Report, quote, read};

use crate::file::Fields;
use crate::file::values::{each_or_only, non_empty, owner};
use crate::lab::{Program, Ready, Via};
use crate::naming::{inner_path_problem, interface_name_problem, node_path_problem};

/// An argument list: a program and its arguments.
pub(crate) fn command(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Vec<String>> {
    if value.items().is_none() {
        let help = "a command is a list: [ping, -c, \"3\", h2]".into();
        let message = format!("{path}: expected an argument list, found {}", value.describe());
        report.error_with(value.place, message, Some(help));
        return None;
    }
    let arguments = read::texts(value, path, report)?;
    match arguments.first() {
        None => report.error(value.place, format!("{path}: the argument list is empty")),
        Some(program) if program.is_empty() => {
            report.error(value.place, format!("{path}: the program's name is empty"))
        }
        Some(_) => return Some(arguments),
    }
    None
}

/// The items of `run`, `setup` or `exec`, each read by `one`.
pub(crate) fn commands<T>(
    value: &Yaml,
    path: &Path<'_>,
    report: &mut Report,
    one: fn(&Yaml, &Path<'_>, &mut Report) -> Option<T>,
) -> Vec<T> {
    let is_scalar = |item: &Yaml| !matches!(item.kind, Kind::Seq(_) | Kind::Map(_));
    match value.items() {
        Some(items) if !items.is_empty() && items.iter().all(is_scalar) => {
            // Items may be words of one command, or commands with arguments.
            let words = items.iter().flat_map(|item| item.text.split_whitespace());
            let shown = words.collect::<Vec<_>>().join(", ");
            let help = if shown.len() <= 60 && !shown.contains(char::is_control) {
                format!("write [[{shown}]]")
            } else {
                "write [[...]]".to_owned()
            };
            report.error_with(
                value.place,
                format!("{path}: expected a list of argument lists"),
                Some(help),
            );
            Vec::new()
        }
        Some(items) => {
            let read = items.iter().enumerate().map(|(i, item)| one(item, &path.index(i), report));
            read.flatten().collect()
        }
        None => {
            let message =
                format!("{path}: expected a list of argument lists, found {}", value.describe());
            report.error_with(value.place, message, Some("write [[program, argument]]".into()));
            Vec::new()
        }
    }
}

/// A directory in the node.
pub(crate) fn workdir(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<String> {
    let text = non_empty(value, path, report)?;
    if text.starts_with('/') && !text.contains('\0') {
        return Some(text);
    }
    report.error(value.place, format!("{path}: the path {} must be absolute", quote(&text)));
    None
}

/// The entries of a map with keys of the user's choice.
pub(crate) fn map<'y>(
    value: &'y Yaml,
    path: &Path<'_>,
    what: &str,
    report: &mut Report,
) -> &'y [Entry] {
    match &value.kind {
        Kind::Map(entries) => entries,
        Kind::Null => &[],
        _ => {
            read::expected(value, path, what, report);
            &[]
        }
    }
}

/// Checks a path inside a node: absolute, without `..`, and naming a file below `/`.
pub(crate) fn check_inner_path(inner: &str, place: Place, path: &Path<'_>, report: &mut Report) {
    if let Some(problem) = inner_path_problem(inner) {
        report.error(place, format!("{path}: the path {} {problem}", quote(inner)));
    }
}

/// The conditions that every node can have: `tcp`, `exec`, `file`.
pub(crate) fn conditions(
    fields: &Fields<'_>,
    path: &Path<'_>,
    ready: &mut Ready,
    report: &mut Report,
) {
    if let Some(value) = fields.get("tcp") {
        each_or_only(value, &path.key("tcp"), report, |item, path, report| {
            ready.tcp.extend(read::port(item, path, report));
        });
    }
    if let Some(value) = fields.get("exec") {
        ready.exec = command(value, &path.key("exec"), report);
    }
    if let Some(value) = fields.get("file") {
        each_or_only(value, &path.key("file"), report, |item, path, report| {
            let Some(inner) = read::text(item, path, report) else { return };
            check_inner_path(&inner, item.place, path, report);
            ready.files.push(inner);
        });
    }
}

/// The next hop of a route.
pub(crate) fn via(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Via> {
    let text = read::text(value, path, report)?;
    if let Ok(address) = text.parse() {
        return Some(Via::Address(address));
    }
    match node_path_problem(&text) {
        None => Some(Via::Node(text)),
        Some(_) => {
            read::expected(value, path, "an address or the name of a node", report);
            None
        }
    }
}

/// The name of an interface.
pub(crate) fn dev(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<String> {
    let name = read::text(value, path, report)?;
    if let Some(problem) = interface_name_problem(&name) {
        report.error(value.place, format!("{path}: {problem}"));
        return None;
    }
    Some(name)
}

/// As whom and where a program of these fields runs; it has no command yet.
pub(crate) fn runs(fields: &Fields<'_>, path: &Path<'_>, report: &mut Report) -> Program {
    let who = |key, report: &mut Report| owner(fields.get(key)?, &path.key(key), key, report);
    let (user, group) = (who("user", report), who("group", report));
    let workdir = fields.get("workdir").and_then(|v| workdir(v, &path.key("workdir"), report));
    Program { user, group, workdir, ..Program::once(vec![]) }
}
