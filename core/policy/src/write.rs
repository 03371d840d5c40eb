//! Writes a policy as YAML that [`crate::read()`] reads back as the same policy.
//!
//! A rule is a line, so that a version control system shows which rules changed.

use std::fmt::Write as _;

use netloom_config::{Kind, resolve};

use crate::action::{Action, Errno};
use crate::decide::Policy;
use crate::pattern::Destination;
use crate::rule::Rule;

/// The policy as YAML, in the order of its rules.
pub fn write(policy: &Policy) -> String {
    let mut text = format!("default: {}\nunanswered: {}\n", policy.default, policy.unanswered);
    if policy.rules.is_empty() {
        text.push_str("rules: []\n");
        return text;
    }
    text.push_str("rules:\n");
    for rule in &policy.rules {
        let _ = writeln!(text, "  - {}", line(rule));
    }
    text
}

/// A rule as a map on one line.
pub(crate) fn line(rule: &Rule) -> String {
    let mut fields = vec![format!("{}: {}", rule.action, rule.direction.name())];
    if let Some(path) = &rule.program.path {
        fields.push(format!("program: {}", scalar(&path.to_string())));
    }
    if let Some(digest) = rule.program.sha256 {
        fields.push(format!("sha256: \"{digest}\""));
    }
    if rule.to != [Destination::Any] {
        fields.push(format!("to: {}", list(rule.to.iter().map(|to| scalar(&to.to_string())))));
    }
    if let Some(ports) = &rule.ports {
        let parts = ports.to_string();
        fields.push(format!("port: {}", list(parts.split(',').map(str::to_owned))));
    }
    if !rule.protocols.is_empty() {
        let names = rule.protocols.iter().map(ToString::to_string);
        fields.push(format!("protocol: {}", list(names)));
    }
    fields.extend(
        rule.from
            .iter()
            .map(|from| format!("from: {}", list(from.words().map(|word| scalar(&word))))),
    );
    if let Action::Deny(errno) = rule.action
        && errno != Errno::default()
    {
        fields.push(format!("errno: {}", errno.name()));
    }
    fields.extend(rule.until.map(|end| format!("until: {end}")));
    fields.extend(rule.note.iter().map(|note| format!("note: {}", scalar(note))));
    format!("{{{}}}", fields.join(", "))
}

impl std::fmt::Display for Rule {
    /// The rule as a line of a policy.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&line(self))
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<_> = items.collect();
    match items.as_slice() {
        [one] => one.clone(),
        _ => format!("[{}]", items.join(", ")),
    }
}

/// Text as a YAML scalar inside a flow map: plain where that is text, else with quotes.
fn scalar(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_./-".contains(&b);
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    // Words such as `true`, `null` or `1e3` would be read as something else than text.
    if begins && text.bytes().all(plain) && resolve(text) == Kind::Str {
        return text.to_owned();
    }
    quoted(text)
}

/// Text in double quotes with the escapes of YAML 1.2, section 5.7.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            c => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
        }
    }
    quoted.push('"');
    quoted
}
