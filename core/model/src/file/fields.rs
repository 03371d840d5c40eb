//! A map of the file with the keys of one [`Object`]; refuses all other keys, with suggestions.

use netloom_config::{Entry, Kind, Node, Path, Report, quote, read};

use super::elsewhere;
use super::table::Object;

/// The entries of a map, checked against the keys it may have.
pub(crate) struct Fields<'n> {
    object: &'static Object,
    node: &'n Node,
}

impl<'n> Fields<'n> {
    /// Accepts a map, or no value as an empty one; reports other values, unknown keys and
    /// missing required ones.
    pub(crate) fn open(
        node: &'n Node,
        path: &Path<'_>,
        object: &'static Object,
        report: &mut Report,
    ) -> Option<Fields<'n>> {
        let entries = match &node.kind {
            Kind::Map(entries) => entries.as_slice(),
            Kind::Null => &[],
            _ => {
                read::expected(node, path, &format!("a map of {} keys", object.name), report);
                return None;
            }
        };
        for entry in entries {
            // All keys are looked at: one run shows every error.
            check_key(entry, path, object, report);
        }
        for key in object.all_keys().filter(|k| k.required) {
            let stands = |e: &Entry| {
                // Otherwise one mistake would bring two messages.
                e.key == key.name || elsewhere::stands_for(object.name, &e.key, key.name)
            };
            if !entries.iter().any(stands) {
                report.error(node.place, format!("{path}: {} is missing", quote(key.name)));
            }
        }
        Some(Fields { object, node })
    }

    /// The value of a key, when the map has it.
    pub(crate) fn get(&self, key: &str) -> Option<&'n Node> {
        // Only a mistake in this program can ask for a key that its table lacks.
        debug_assert!(
            self.object.names().any(|n| n == key),
            "{key} is not in the table of {}",
            self.object.name
        );
        self.node.get(key)
    }
}

fn check_key(entry: &Entry, path: &Path<'_>, object: &'static Object, report: &mut Report) {
    let key = entry.key.as_str();
    if object.names().any(|n| n == key) || (object.extensions && key.starts_with("x-")) {
        return;
    }
    if let Some((_, reason)) = object.refused.iter().find(|(n, _)| *n == key) {
        return report.error(entry.place, format!("{}: {reason}", path.key(key)));
    }
    let all = || format!("keys here: {}", object.names().collect::<Vec<_>>().join(", "));
    // The surest help first: another program's word is not a slip of the pen.
    let help = elsewhere::help(object.name, key, &entry.value)
        .or_else(|| report.suggest(key, object.names()))
        .or_else(|| Some(all()));
    let message = match path {
        Path::Root => format!("unknown key {}", quote(key)),
        _ => format!("{path}: unknown key {}", quote(key)),
    };
    report.error_with(entry.place, message, help);
}

/// A choice among words as the value of an object's key; for other programs' words it suggests netloom's.
pub(crate) fn choice<'c>(
    node: &Node,
    path: &Path<'_>,
    (object, key): (&Object, &str),
    choices: &[&'c str],
    report: &mut Report,
) -> Option<&'c str> {
    let word = read::scalar(node).unwrap_or_default();
    if choices.contains(&word) {
        return read::choice(node, path, choices, report);
    }
    let Some(help) = elsewhere::choice(object.name, key, word) else {
        return read::choice(node, path, choices, report);
    };
    let message =
        format!("{path}: expected one of {}, found {}", choices.join(", "), node.describe());
    report.error_with(node.place, message, Some(help));
    None
}
