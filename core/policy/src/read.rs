//! Reads a policy from YAML: all errors at once, each with line and column.
//!
//! ```yaml
//! default: ask
//! unanswered: deny
//! rules:
//!   - {allow: out, program: /usr/bin/curl, to: [deb.debian.org, "*.debian.org"], port: [80, 443], protocol: tcp}
//!   - {deny: out, to: 10.0.0.0/8, errno: EHOSTUNREACH}
//!   - {allow: in, port: [8000-8100, free], protocol: tcp, from: [127.0.0.0/8, 10.1.0.0/16]}
//!   - {ask: open, protocol: [raw:icmp, packet], until: 2030-01-01T00:00:00Z, note: until the probe is gone}
//! ```

use jiff::Timestamp;
use netloom_config::{Diagnostics, Entry, Node, Path, Report, load, read as value};

use crate::action::{Action, Errno};
use crate::decide::Policy;
use crate::pattern::{Destination, Part, PathPattern, Peers, Ports, ProgramPattern, Sha256};
use crate::request::{Direction, Protocol};
use crate::rule::Rule;

const TOP: [&str; 3] = ["default", "unanswered", "rules"];
const RULE: [&str; 13] = [
    "allow", "log", "ask", "deny", "program", "sha256", "to", "port", "protocol", "from", "errno",
    "until", "note",
];

/// Reads a policy; `file` names the text in errors.
///
/// # Errors
/// All that is wrong with the text.
pub fn read(file: &str, bytes: &[u8]) -> Result<Policy, Diagnostics> {
    let mut report = Report::new(file);
    let mut policy = Policy::default();
    if let Some(tree) = load(bytes, &mut report) {
        top(&tree, &mut policy, &mut report);
    }
    if report.is_empty() { Ok(policy) } else { Err(report.finish()) }
}

fn top(tree: &Node, policy: &mut Policy, report: &mut Report) {
    for entry in entries(tree, &Path::Root, &TOP, report) {
        let path = Path::Root.key(&entry.key);
        match entry.key.as_str() {
            "default" => set(&mut policy.default, action(&entry.value, &path, report)),
            "unanswered" => {
                let action = action(&entry.value, &path, report);
                if action == Some(Action::Ask) {
                    let message =
                        format!("{path}: `unanswered` cannot be ask; write allow, deny or log");
                    report.error(entry.value.place, message);
                }
                set(&mut policy.unanswered, action);
            }
            _ => policy.rules = rules(&entry.value, &path, report),
        }
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// The entries of a map; others than `keys` are reported and left out.
fn entries<'n>(
    node: &'n Node,
    path: &Path<'_>,
    keys: &'static [&'static str],
    report: &mut Report,
) -> Vec<&'n Entry> {
    // An empty file is a policy of defaults.
    if node.is_null() && matches!(path, Path::Root) {
        return vec![];
    }
    let Some(entries) = node.entries() else {
        value::expected(node, path, "a map", report);
        return vec![];
    };
    let (known, unknown): (Vec<_>, Vec<_>) =
        entries.iter().partition(|entry| keys.contains(&entry.key.as_str()));
    for entry in unknown {
        let help = report.suggest(&entry.key, keys.iter().copied());
        let help = help.or_else(|| Some(format!("keys are {}", keys.join(", "))));
        report.error_with(entry.place, format!("{}: unknown key", path.key(&entry.key)), help);
    }
    known
}

fn action(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<Action> {
    value::choice(node, path, &Action::NAMES, report).and_then(Action::named)
}

fn rules(node: &Node, path: &Path<'_>, report: &mut Report) -> Vec<Rule> {
    if node.is_null() {
        return vec![];
    }
    let Some(items) = node.items() else {
        value::expected(node, path, "a list of rules", report);
        return vec![];
    };
    let rules = items.iter().enumerate();
    rules.filter_map(|(at, item)| rule(item, &path.index(at), report)).collect()
}

fn rule(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<Rule> {
    let entries = entries(node, path, &RULE, report);
    let (action, direction) = what(node, &entries, path, report)?;
    let mut rule = Rule::every(action, direction);
    for entry in &entries {
        detail(&mut rule, entry, &path.key(&entry.key), report);
    }
    agree(&rule, &entries, path, report);
    Some(rule)
}

/// The action and direction: exactly one key of `allow`, `log`, `ask`, `deny`.
fn what(
    node: &Node,
    entries: &[&Entry],
    path: &Path<'_>,
    report: &mut Report,
) -> Option<(Action, Direction)> {
    let mut actions = entries.iter().filter(|entry| Action::named(&entry.key).is_some());
    let Some(first) = actions.next() else {
        let message = format!("{path}: a rule needs an action");
        let help = "write allow, log, ask or deny: out, in or open".to_owned();
        report.error_with(node.place, message, Some(help));
        return None;
    };
    if let Some(second) = actions.next() {
        let message = format!("{path}: has both {} and {}", first.key, second.key);
        report.error(second.place, message);
    }
    let names = Direction::ALL.map(Direction::name);
    let name = value::choice(&first.value, &path.key(&first.key), &names, report)?;
    let direction = Direction::ALL.into_iter().find(|one| one.name() == name)?;
    Action::named(&first.key).map(|action| (action, direction))
}

fn detail(rule: &mut Rule, entry: &Entry, path: &Path<'_>, report: &mut Report) {
    let node = &entry.value;
    match entry.key.as_str() {
        "program" => rule.program.path = program(node, path, report),
        "sha256" => rule.program.sha256 = digest(node, path, report),
        "to" => set(&mut rule.to, several(node, path, report, destination)),
        "port" => rule.ports = several(node, path, report, port).and_then(Ports::of),
        "protocol" => set(&mut rule.protocols, several(node, path, report, protocol)),
        "from" => rule.from = peers(node, path, report),
        "errno" => errno(rule, node, path, report),
        "until" => rule.until = until(node, path, report),
        "note" => rule.note = value::text(node, path, report),
        _ => (),
    }
}

/// Keys that contradict each other.
fn agree(rule: &Rule, entries: &[&Entry], path: &Path<'_>, report: &mut Report) {
    for entry in entries {
        let reason = match entry.key.as_str() {
            "to" | "port" if rule.direction == Direction::Open => {
                "a socket that is opened has no destination; narrow the rule by protocol"
            }
            "to" if rule.direction != Direction::Out
                && rule.to.contains(&Destination::Resolver) =>
            {
                "only a program that goes out asks the resolver: write allow, log, ask or deny: out"
            }
            "to" if rule.protocols == [Protocol::Dns] && !rule.to.iter().all(may_be_looked_up) => {
                "only names are looked up: write a name, *.name or any"
            }
            "protocol" if rule.direction != Direction::Out && looks_up(rule) => {
                "names are looked up, which goes out: write allow, log, ask or deny: out"
            }
            "port" if portless(rule) => "these protocols have no ports",
            "port" if rule.direction == Direction::Out && named(rule, Ports::has_free) => {
                "only a program that listens gets a free port"
            }
            "port" if rule.direction == Direction::In && named(rule, |ports| starts(ports, 0)) => {
                "nobody listens on port 0; write free for a port that the kernel chooses"
            }
            "errno" if !matches!(rule.action, Action::Deny(_)) => "only a denied call has an error",
            "from" if rule.direction != Direction::In || !rule.action.passes() => {
                "only a listener has peers: write allow: in, or log: in"
            }
            "from" if !takes_peers(rule) => "only listeners of tcp and udp can be kept from others",
            _ => continue,
        };
        report.error(entry.place, format!("{}: {reason}", path.key(&entry.key)));
    }
}

/// Whether what the rule is about may have peers.
fn takes_peers(rule: &Rule) -> bool {
    let named = rule.protocols.iter().all(|one| matches!(one, Protocol::Tcp | Protocol::Udp));
    named && rule.to.iter().all(|to| matches!(to, Destination::Any | Destination::Net(_)))
}

fn looks_up(rule: &Rule) -> bool {
    rule.protocols.contains(&Protocol::Dns)
}

fn may_be_looked_up(to: &Destination) -> bool {
    *to == Destination::Any || to.says_name()
}

/// Whether the rule is about protocols without ports alone.
fn portless(rule: &Rule) -> bool {
    !rule.protocols.is_empty() && !rule.protocols.iter().any(|one| one.has_ports())
}

fn named(rule: &Rule, holds: impl Fn(&Ports) -> bool) -> bool {
    rule.ports.as_ref().is_some_and(holds)
}

/// Whether the lowest port of a set is this one alone.
fn starts(ports: &Ports, port: u32) -> bool {
    ports.ranges().first() == Some(&(port, port))
}

/// One value, or a list of at least one.
fn several<T>(
    node: &Node,
    path: &Path<'_>,
    report: &mut Report,
    read: impl Fn(&Node, &Path<'_>, &mut Report) -> Option<T>,
) -> Option<Vec<T>> {
    let Some(items) = node.items() else { return read(node, path, report).map(|one| vec![one]) };
    if items.is_empty() {
        value::expected(node, path, "at least one value", report);
    }
    let read = items.iter().enumerate().map(|(at, item)| read(item, &path.index(at), report));
    // All are read before one that is wrong counts, so that every error is told.
    let all: Vec<_> = read.collect();
    all.into_iter().collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
}

fn program(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<PathPattern> {
    let text = value::text(node, path, report)?;
    let pattern = PathPattern::parse(&text);
    pattern.map_err(|why| report.error(node.place, format!("{path}: {why}"))).ok()
}

fn digest(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<Sha256> {
    let text = value::text(node, path, report)?;
    // sha256sum(1) prints the digits alone.
    let digest = Sha256::parse(&text).or_else(|| Sha256::parse(&format!("sha256:{text}")));
    if digest.is_none() {
        value::expected(node, path, "64 hexadecimal digits", report);
    }
    digest
}

fn destination(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<Destination> {
    let text = value::text(node, path, report)?;
    let read = Destination::parse(&text);
    read.map_err(|why| report.error(node.place, format!("{path}: {}: {why}", node.describe()))).ok()
}

/// The peers that may reach a listener; all if one of the words says so.
fn peers(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<Peers> {
    let word = |node: &Node, path: &Path<'_>, report: &mut Report| {
        let read = Peers::parse(&value::text(node, path, report)?);
        read.map_err(|why| report.error(node.place, format!("{path}: {}: {why}", node.describe())))
            .ok()
    };
    let words: Option<Vec<_>> = several(node, path, report, word)?.into_iter().collect();
    let peers = Peers::of(words?);
    if peers.nets().len() > Peers::MOST {
        report.error(node.place, format!("{path}: more than {} prefixes", Peers::MOST));
    }
    Some(peers)
}

fn port(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<Part> {
    let part = value::scalar(node).and_then(Part::parse);
    if part.is_none() {
        let right = "a port like 443, a range like 8000-8100, or free";
        value::expected(node, path, right, report);
    }
    part
}

fn protocol(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<Protocol> {
    if let Some(raw) = value::scalar(node).filter(|text| text.starts_with("raw:")) {
        let protocol = Protocol::named(raw);
        if protocol.is_none() {
            value::expected(node, path, "a raw protocol like raw:icmp or raw:89", report);
        }
        return protocol;
    }
    let names = Protocol::ALL.map(Protocol::name);
    value::choice(node, path, &names, report).and_then(Protocol::named)
}

fn errno(rule: &mut Rule, node: &Node, path: &Path<'_>, report: &mut Report) {
    let names: Vec<_> = Errno::names().collect();
    let chosen = value::choice(node, path, &names, report).and_then(Errno::named);
    if let (Action::Deny(errno), Some(chosen)) = (&mut rule.action, chosen) {
        *errno = chosen;
    }
}

fn until(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<Timestamp> {
    let time = value::scalar(node).and_then(|text| text.parse().ok());
    if time.is_none() {
        value::expected(node, path, "a time like 2030-01-31T12:00:00Z", report);
    }
    time
}

/// A program pattern at a path of any content.
impl From<PathPattern> for ProgramPattern {
    fn from(path: PathPattern) -> Self {
        ProgramPattern { path: Some(path), sha256: None }
    }
}
