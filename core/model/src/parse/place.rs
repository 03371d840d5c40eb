//! `place` of a lab file: which hosts make what. That these hosts exist is checked where they are given.

use std::collections::HashSet;

use netloom_config::{Entry, Kind, Node as Yaml, Path, Report, quote, read};

use crate::file::Fields;
use crate::file::values::each_or_only;
use crate::keys::hosts::PIN;
use crate::kinds::SwitchKind;
use crate::lab::{Lab, Pin};
use crate::naming::machine_name_problem;

/// The most entries; each pattern is compared with every name.
const MOST: usize = 1024;

/// Reads `place` for a lab of these nodes and switches.
pub(super) fn place(node: Option<&Yaml>, lab: &Lab, report: &mut Report) -> Vec<Pin> {
    let path = Path::Root.key("place");
    let entries = match node.map(|node| (node, &node.kind)) {
        None | Some((_, Kind::Null)) => return vec![],
        Some((_, Kind::Map(entries))) => entries,
        Some((node, _)) => {
            read::expected(node, &path, "a map from names to hosts", report);
            return vec![];
        }
    };
    let patterns = entries.iter().filter(|entry| entry.key.contains(['*', '?']));
    if let Some(entry) = patterns.clone().nth(MOST) {
        report.error(entry.place, format!("place: more than {MOST} patterns"));
        return vec![];
    }
    let mut pins = Vec::with_capacity(entries.len());
    let known: HashSet<&str> = names(lab).collect();
    for entry in entries {
        let pin = pin(entry, &path, report);
        check(&pin, entry, lab, &known, report);
        pins.push(pin);
    }
    pins
}

fn names(lab: &Lab) -> impl Iterator<Item = &str> {
    let nodes = lab.nodes.iter().map(|node| node.name.as_str());
    nodes.chain(lab.switches.iter().map(|switch| switch.name.as_str()))
}

fn pin(entry: &Entry, path: &Path<'_>, report: &mut Report) -> Pin {
    let mut pin = Pin { of: entry.key.clone(), ..Pin::default() };
    let (path, value) = (path.key(&entry.key), &entry.value);
    if !matches!(value.kind, Kind::Map(_)) {
        pin.hosts = hosts(value, &path, report);
        return pin;
    }
    let Some(fields) = Fields::open(value, &path, &PIN, report) else { return pin };
    if let Some(value) = fields.get("hosts") {
        pin.hosts = hosts(value, &path.key("hosts"), report);
    }
    if let Some(value) = fields.get("split") {
        pin.split = read::boolean(value, &path.key("split"), report).unwrap_or_default();
    }
    pin
}

fn hosts(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    each_or_only(value, path, report, |item, path, report| {
        let Some(name) = read::text(item, path, report) else { return };
        if let Some(problem) = machine_name_problem(&name) {
            report.error(item.place, format!("{path}: {problem}"));
        } else if found.contains(&name) {
            report.error(item.place, format!("{path}: host {} is there twice", quote(&name)));
        } else {
            found.push(name);
        }
    });
    found
}

/// Checks that a pin is for something, and that what it splits can be split.
fn check(pin: &Pin, entry: &Entry, lab: &Lab, known: &HashSet<&str>, report: &mut Report) {
    let place = entry.place;
    if pin.is_pattern() {
        let inner = |node: &&crate::lab::Node| node.parent.is_none();
        let mut nodes = lab.nodes.iter().filter(inner).filter(|node| pin.fits(&node.name));
        let mut switches = lab.switches.iter().filter(|switch| pin.fits(&switch.name));
        let (node, any) = (nodes.next(), switches.clone().next());
        if node.is_none() && any.is_none() {
            return report
                .error(place, format!("place: no node or switch fits {}", quote(&pin.of)));
        }
        if pin.split {
            let problem = node.map(|node| unsplit_node(&node.name)).or_else(|| {
                switches.find_map(|switch| split_problem(&switch.name, &switch.kind, switch.stp))
            });
            if let Some(problem) = problem {
                report.error(place, format!("place: {}: {problem}", quote(&pin.of)));
            }
        }
        return;
    }
    if !known.contains(pin.of.as_str()) {
        let help = report.suggest(&pin.of, names(lab));
        return report.error_with(
            place,
            format!("place: no node or switch {}", quote(&pin.of)),
            help,
        );
    }
    // No other name has a slash.
    if let Some((outer, _)) = pin.of.split_once('/') {
        let message =
            format!("place: node {} is in {}, and is where that is", quote(&pin.of), quote(outer));
        return report.error_with(place, message, Some(format!("place {} instead", quote(outer))));
    }
    if pin.split {
        let switch = lab.switches.iter().find(|switch| switch.name == pin.of);
        let problem = match switch {
            Some(switch) => split_problem(&switch.name, &switch.kind, switch.stp),
            None => Some(unsplit_node(&pin.of)),
        };
        if let Some(problem) = problem {
            report.error(place, format!("place: {problem}"));
        }
    }
}

fn unsplit_node(name: &str) -> String {
    format!("{} is a node; only a switch can be split", quote(name))
}

/// Why a switch is on one host.
fn split_problem(name: &str, kind: &SwitchKind, stp: bool) -> Option<String> {
    match kind {
        SwitchKind::Bridge if !stp => None,
        SwitchKind::Bridge => Some(format!(
            "switch {} has `stp`, for which its pieces would be several bridges; it cannot be split",
            quote(name)
        )),
        SwitchKind::Shm(_) | SwitchKind::Openflow(_) => Some(format!(
            "switch {} is of kind {}; only one of kind kernel can be split",
            quote(name),
            kind.word()
        )),
    }
}

#[cfg(test)]
mod tests {
    use crate::lab::Pin;
    use crate::parse::parse;

    const LAB: &str = "nodes: {h1: {}, h2: {}, r1: {children: {nodes: {c: {}}}}}
switches: {s1: {}, s2: {kind: shm}, s3: {stp: true}}
links: [[h1, s1], [h2, s2], [r1, s3]]
";

    fn pins(place: &str) -> Result<Vec<Pin>, String> {
        let text = format!("{LAB}place: {place}\n");
        parse("f", text.as_bytes(), "f").map(|lab| lab.place).map_err(|e| e.to_string())
    }

    #[test]
    fn names_patterns_lists_and_maps_are_read_and_written() {
        let text = "{h1: east, \"*2\": [east, west], s1: {hosts: [east, 7], split: true}}";
        let found = pins(text).unwrap();
        let pin = |of: &str, hosts: &[&str], split| {
            let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
            Pin { of: of.into(), hosts, split }
        };
        let expected = [
            pin("h1", &["east"], false),
            pin("*2", &["east", "west"], false),
            pin("s1", &["east", "7"], true),
        ];
        assert_eq!(found, expected);
        let lab = parse("f", format!("{LAB}place: {text}").as_bytes(), "f").unwrap();
        let written = crate::write(&lab, "");
        assert_eq!(parse("w", written.as_bytes(), "f").unwrap(), lab, "{written}");
        assert_eq!(pins("").unwrap(), []);
        assert_eq!(pins("{s1: {split: true}}").unwrap(), [pin("s1", &[], true)]);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (place, words) in [
            ("[h1]", "place: expected a map from names to hosts, found a list"),
            ("{h9: a}", "place: no node or switch \"h9\""),
            ("{\"x*\": a}", "place: no node or switch fits \"x*\""),
            ("{h1: []}", "place.h1: the list is empty"),
            ("{h1: [a, a]}", "place.h1[1]: host \"a\" is there twice"),
            ("{h1: \"a b\"}", "host name \"a b\" holds"),
            ("{h1: {host: a}}", "place.h1: unknown key \"host\""),
            ("{r1/c: a}", "node \"r1/c\" is in \"r1\", and is where that is"),
            ("{h1: {split: true}}", "place: \"h1\" is a node; only a switch can be split"),
            ("{\"*1\": {split: true}}", "place: \"*1\": \"h1\" is a node"),
            ("{s2: {split: true}}", "switch \"s2\" is of kind shm; only one of kind kernel"),
            ("{s3: {split: true}}", "switch \"s3\" has `stp`"),
            ("{s1: {split: 2}}", "place.s1.split: expected true or false"),
        ] {
            let error = pins(place).unwrap_err();
            assert!(error.contains(words), "{place}: {error}");
        }
    }
}
