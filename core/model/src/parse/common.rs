//! Readers of values that several keys of a node have: commands, paths in it, conditions.

use netloom_config::{Entry, Kind, Node as Yaml, Path, Place, Report, quote, read};

use super::words::{self, Refused};
use crate::file::values::{each_or_only, non_empty, owner};
use crate::file::{Fields, elsewhere};
use crate::lab::{Program, Ready, Via};
use crate::naming::{inner_path_problem, interface_name_problem, node_path_problem};

/// A command: a list of a program and its arguments, or a line of text that is split into them.
pub(crate) fn command(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Vec<String>> {
    match value.kind {
        Kind::Seq(_) => {}
        Kind::Str => return line(value, path, report),
        _ => {
            let help =
                "a command is a list or a line: [ping, -c, \"3\", h2] or ping -c 3 h2".into();
            let message = format!("{path}: expected a command, found {}", value.describe());
            report.error_with(value.place, message, Some(help));
            return None;
        }
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

/// A line of text as a program and its arguments.
pub(super) fn line(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Vec<String>> {
    let (problem, help) = match words::split(&value.text) {
        Ok(words) => return Some(words),
        Err(Refused::NeedsShell(problem)) => {
            (problem, Some(format!("write {}", elsewhere::by_shell(&value.text))))
        }
        Err(Refused::Malformed(problem)) => (problem.to_owned(), None),
    };
    report.error_with(value.place, format!("{path}: {problem}"), help);
    None
}

/// The items of `run`, `setup` or `exec`, each read by `one`: a list of commands, or the only one.
pub(crate) fn commands<T>(
    value: &Yaml,
    path: &Path<'_>,
    report: &mut Report,
    one: fn(&Yaml, &Path<'_>, &mut Report) -> Option<T>,
) -> Vec<T> {
    let Some(items) = value.items() else { return one(value, path, report).into_iter().collect() };
    match list_of(items) {
        ListOf::Commands => {
            let read = items.iter().enumerate().map(|(i, item)| one(item, &path.index(i), report));
            read.flatten().collect()
        }
        ListOf::Words => one(value, path, report).into_iter().collect(),
        ListOf::Either => {
            let message = format!("{path}: one command, or one in each item?");
            report.error_with(value.place, message, Some(both_readings(items)));
            Vec::new()
        }
    }
}

/// What the items of a list of `run`, `setup` or `exec` are.
enum ListOf {
    Commands,
    Words,
    Either,
}

/// A list of texts is of commands if its first text cannot name a program, and of words if a later one cannot. The only
/// word is a command either way.
fn list_of(items: &[Yaml]) -> ListOf {
    // Lists among the items say by themselves that each is a command.
    if items.len() < 2 || items.iter().any(|i| matches!(i.kind, Kind::Seq(_) | Kind::Map(_))) {
        return ListOf::Commands;
    }
    let is_line = items[0].text.contains(char::is_whitespace);
    let has_option = items[1..].iter().any(|item| item.text.starts_with('-'));
    match (is_line, has_option) {
        (true, false) => ListOf::Commands,
        (false, true) => ListOf::Words,
        _ => ListOf::Either,
    }
}

fn both_readings(items: &[Yaml]) -> String {
    let words: Vec<_> = items.iter().map(|item| elsewhere::shown(&item.text)).collect();
    let (one, each) = (words.join(", "), words.join("], ["));
    if one.len() <= 40 && !one.contains(char::is_control) {
        format!("write [[{one}]] for one command, [[{each}]] for {}", words.len())
    } else {
        "write [[PROGRAM, ARGUMENT]] for one command, [[PROGRAM], [PROGRAM]] for several".to_owned()
    }
}

/// The short form of conditions: a port, a file's absolute path, or a list of these.
pub(crate) fn short_conditions(
    value: &Yaml,
    path: &Path<'_>,
    ready: &mut Ready,
    report: &mut Report,
) {
    each_or_only(value, path, report, |item, path, report| {
        if item.text.starts_with('/') {
            check_inner_path(&item.text, item.place, path, report);
            ready.files.push(item.text.clone());
        } else if matches!(item.kind, Kind::Int(_)) {
            ready.tcp.extend(read::port(item, path, report));
        } else {
            read::expected(item, path, "a port, a path of a file, or a map like {tcp: 80}", report);
        }
    });
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

#[cfg(test)]
mod tests;
