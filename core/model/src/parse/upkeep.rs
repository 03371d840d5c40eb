//! Reads a node's work once the lab is ready: `exec` and `health`.

use netloom_config::{Kind, Node as Yaml, Path, Report, read};

use super::common::{command, commands, conditions, runs, short_conditions};
use crate::bounds::SHORTEST_CHECK;
use crate::file::Fields;
use crate::keys::{EXEC, HEALTH};
use crate::lab::{Exec, Health, Node, Program, Ready};

/// Reads these keys of a node.
pub(crate) fn read_upkeep(
    fields: &Fields<'_>,
    path: &Path<'_>,
    node: &mut Node,
    report: &mut Report,
) {
    if let Some(value) = fields.get("exec") {
        node.exec = commands(value, &path.key("exec"), report, exec);
    }
    if let Some(value) = fields.get("health") {
        node.health = health(value, &path.key("health"), report);
    }
}

fn exec(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Exec> {
    let plain = |program| Exec { program, fatal: true, timeout: Exec::DEFAULT_TIMEOUT };
    if !matches!(value.kind, Kind::Map(_)) {
        return command(value, path, report).map(|argv| plain(Program::once(argv)));
    }
    let fields = Fields::open(value, path, &EXEC, report)?;
    let program = runs(&fields, path, report);
    let fatal = fields.get("fatal").and_then(|v| read::boolean(v, &path.key("fatal"), report));
    let timeout =
        fields.get("timeout").and_then(|v| read::duration(v, &path.key("timeout"), report));
    let command = command(fields.get("command")?, &path.key("command"), report)?;
    let exec = plain(Program { command, ..program });
    let timeout = timeout.unwrap_or(exec.timeout);
    Some(Exec { fatal: fatal.unwrap_or(true), timeout, ..exec })
}

fn health(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Health> {
    let mut health = Health::default();
    if !matches!(value.kind, Kind::Map(_) | Kind::Null) {
        short_conditions(value, path, &mut health.check, report);
        return Some(health);
    }
    let fields = Fields::open(value, path, &HEALTH, report)?;
    conditions(&fields, path, &mut health.check, report);
    let mut time = |key: &str, of: &mut std::time::Duration| {
        let Some(value) = fields.get(key) else { return };
        let path = path.key(key);
        match read::duration(value, &path, report) {
            Some(time) if time < SHORTEST_CHECK => {
                report.error(value.place, format!("{path}: at least 100ms is needed"));
            }
            found => *of = found.unwrap_or(*of),
        }
    };
    time("interval", &mut health.interval);
    time("timeout", &mut health.check.timeout);
    if let Some(value) = fields.get("retries") {
        let retries = read::integer(value, &path.key("retries"), 1..=1000, report);
        health.retries = retries.and_then(|n| u32::try_from(n).ok()).unwrap_or(health.retries);
    }
    let nothing = Ready { timeout: health.check.timeout, ..Ready::default() };
    let given = ["tcp", "exec", "file"].iter().any(|key| fields.get(key).is_some());
    // An empty list of conditions was told where it was read.
    if health.check == nothing && !given {
        let help = Some("write health: {exec: [PROGRAM]}, or health: {tcp: 80}".to_owned());
        report.error_with(value.place, format!("{path}: there is nothing to check"), help);
    }
    Some(health)
}
