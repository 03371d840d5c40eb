//! Reads `expect`: the steps that `netloom test` takes.

use std::time::Duration;

use netloom_config::{Entry, Kind, Node as Yaml, Path, Report, quote, read, units};

use super::common::{command, dev, via};
use super::raw::RawSteps;
use crate::file::Fields;
use crate::file::values::{At, each_or_only, non_empty};
use crate::impairment;
use crate::keys::expect::{ACTION, ARRIVES, EXPECT, HAS_ROUTE, LOST, OUTPUT, REACHES};
use crate::lab::Via;
use crate::lab::expect::{
    Action, Between, LASTING, Loss, Output, PACKETS, Pairs, Rate, Route, RouteTarget, Step, What,
};

/// The keys of a step of which it has one.
const KINDS: [&str; 9] =
    ["reaches", "cannot-reach", "route", "no-route", "loss", "rate", "output", "fidelity", "do"];

/// The most steps of a lab.
const MOST_STEPS: usize = 10_000;

/// How long packets are sent at most.
const LONGEST: Duration = Duration::from_secs(3600);

/// Reads the steps.
pub(crate) fn expect(value: &Yaml, path: &Path<'_>, report: &mut Report) -> RawSteps {
    let mut raw = RawSteps::default();
    let items = match &value.kind {
        Kind::Null => &[],
        _ => match value.items() {
            Some(items) if items.len() <= MOST_STEPS => items,
            Some(_) => {
                report.error(value.place, format!("{path}: more than {MOST_STEPS} steps"));
                return raw;
            }
            None => {
                read::expected(value, path, "a list of steps", report);
                return raw;
            }
        },
    };
    for (index, item) in items.iter().enumerate() {
        let mut reader = Reader { raw: &mut raw, report };
        if let Some(step) = reader.step(item, &path.index(index)) {
            raw.steps.push(step);
        }
    }
    raw
}

struct Reader<'r> {
    raw: &'r mut RawSteps,
    report: &'r mut Report,
}

impl Reader<'_> {
    fn step(&mut self, value: &Yaml, path: &Path<'_>) -> Option<Step> {
        let fields = Fields::open(value, path, &EXPECT, self.report)?;
        let given: Vec<&str> = KINDS.into_iter().filter(|key| fields.get(key).is_some()).collect();
        let [kind] = given[..] else {
            let words = if given.is_empty() { "a step needs" } else { "a step has only" };
            let message = format!("{path}: {words} one of {}", KINDS.join(", "));
            self.report.error(value.place, message);
            return None;
        };
        let name = fields.get("name").and_then(|v| non_empty(v, &path.key("name"), self.report));
        let within = fields.get("within").map(|v| (v, path.key("within")));
        let once = match kind {
            "do" => Some("an action is done once"),
            "fidelity" => Some("what was late stays late"),
            _ => None,
        };
        if let (Some((value, path)), Some(once)) = (&within, once) {
            self.report.error(value.place, format!("{path}: {once}; leave `within` out"));
        }
        let within = within.and_then(|(v, path)| read::duration(v, &path, self.report));
        let (value, path) = (fields.get(kind)?, path.key(kind));
        let what = match kind {
            "reaches" => What::Reaches(self.pairs(value, &path)?),
            "cannot-reach" => What::CannotReach(self.pairs(value, &path)?),
            "route" => What::Route(self.route(value, &path)?),
            "no-route" => What::NoRoute(self.route(value, &path)?),
            "loss" => What::Loss(self.loss(value, &path)?),
            "rate" => What::Rate(self.rate(value, &path)?),
            "output" => What::Output(self.output(value, &path)?),
            "fidelity" => What::Fidelity(self.fidelity(value, &path)?),
            _ => What::Do(self.action(value, &path)?),
        };
        Some(Step { name, within: within.unwrap_or_default(), what })
    }

    /// The name of a node.
    fn node(&mut self, value: &Yaml, path: &Path<'_>) -> Option<String> {
        let name = non_empty(value, path, self.report)?;
        self.raw.nodes.push(At { value: name.clone(), place: value.place });
        Some(name)
    }

    fn node_at(&mut self, fields: &Fields<'_>, path: &Path<'_>, key: &str) -> Option<String> {
        self.node(fields.get(key)?, &path.key(key))
    }

    /// A node or an address, or several.
    fn names(&mut self, value: &Yaml, path: &Path<'_>, addresses: bool) -> Vec<String> {
        let mut texts = Vec::new();
        each_or_only(value, path, self.report, |item, path, report| {
            texts.extend(non_empty(item, path, report).map(|text| (text, item.place)));
        });
        let is_address = |text: &str| addresses && text.parse::<std::net::IpAddr>().is_ok();
        let nodes = texts.iter().filter(|(text, _)| !is_address(text));
        self.raw.nodes.extend(nodes.map(|(text, place)| At { value: text.clone(), place: *place }));
        texts.into_iter().map(|(text, _)| text).collect()
    }

    /// `[FROM, TO]`, or a map.
    fn pairs(&mut self, value: &Yaml, path: &Path<'_>) -> Option<Pairs> {
        if let Some([from, to]) = value.items() {
            let from = self.names(from, &path.index(0), false);
            let to = self.names(to, &path.index(1), true);
            return Some(self.asking(value, path, Pairs { from, to, only: None }));
        }
        if value.items().is_some() {
            read::expected(value, path, "[FROM, TO], or a map of reaches keys", self.report);
            return None;
        }
        let fields = Fields::open(value, path, &REACHES, self.report)?;
        let from = self.names(fields.get("from")?, &path.key("from"), false);
        let to = self.names(fields.get("to")?, &path.key("to"), true);
        let only = self.family(&fields, path);
        Some(self.asking(value, path, Pairs { from, to, only }))
    }

    /// Pairs of which one at least asks another node: without any, the step would hold whatever happens.
    fn asking(&mut self, value: &Yaml, path: &Path<'_>, pairs: Pairs) -> Pairs {
        let asks = |from: &String| pairs.to.iter().any(|to| to != from);
        if let Some(from) = pairs.from.first().filter(|_| !pairs.to.is_empty())
            && !pairs.from.iter().any(asks)
        {
            let message = format!("{path}: {} asks itself, and nobody else", quote(from));
            self.report.error(value.place, message);
        }
        pairs
    }

    fn family(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Option<u8> {
        let value = fields.get("family")?;
        match read::choice(value, &path.key("family"), &["ipv4", "ipv6"], self.report)? {
            "ipv4" => Some(4),
            _ => Some(6),
        }
    }

    fn route(&mut self, value: &Yaml, path: &Path<'_>) -> Option<Route> {
        let fields = Fields::open(value, path, &HAS_ROUTE, self.report)?;
        let node = self.node_at(&fields, path, "node");
        let via = fields.get("via").and_then(|v| {
            let via = via(v, &path.key("via"), self.report)?;
            if let Via::Node(node) = &via {
                self.raw.nodes.push(At { value: node.clone(), place: v.place });
            }
            Some(via)
        });
        let dev = fields.get("dev").and_then(|v| dev(v, &path.key("dev"), self.report));
        let target = fields.get("to")?;
        let text = target.text.as_str();
        let to = if let Ok(address) = text.parse() {
            RouteTarget::Address(address)
        } else if text.contains('/') && text.parse::<ipnet::IpNet>().is_ok() {
            // Read again by the reader of prefixes, which refuses bits behind the length.
            RouteTarget::Prefix(read::prefix(target, &path.key("to"), self.report)?)
        } else {
            RouteTarget::Node(self.node(target, &path.key("to"))?)
        };
        Some(Route { node: node?, to, via, dev })
    }

    fn between(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Option<Between> {
        let from = self.node_at(fields, path, "from");
        let to = self.node_at(fields, path, "to");
        let only = self.family(fields, path);
        let lasting = fields.get("lasting").and_then(|v| {
            let path = path.key("lasting");
            let time = read::duration(v, &path, self.report)?;
            if time < Duration::from_millis(100) || time > LONGEST {
                self.report.error(v.place, format!("{path}: 100ms to 1h"));
            }
            Some(time)
        });
        // Nothing would cross the network.
        if let (Some(from), true) = (&from, from == to) {
            let message = format!("{path}: {} sends to itself", quote(from));
            self.report.error(fields.get("to")?.place, message);
        }
        Some(Between { from: from?, to: to?, lasting: lasting.unwrap_or(LASTING), only })
    }

    fn loss(&mut self, value: &Yaml, path: &Path<'_>) -> Option<Loss> {
        let fields = Fields::open(value, path, &LOST, self.report)?;
        let between = self.between(&fields, path);
        let mut share = |key| {
            let value = fields.get(key)?;
            read::share(value, &path.key(key), self.report)
        };
        let (above, below) = (share("above"), share("below"));
        // A measurement without a bound can never fail.
        self.needs_bound(&fields, value, path);
        let packets = fields.get("packets").and_then(|v| {
            let packets = read::integer(v, &path.key("packets"), 1..=100_000, self.report)?;
            u32::try_from(packets).ok()
        });
        Some(Loss { between: between?, above, below, packets: packets.unwrap_or(PACKETS) })
    }

    fn rate(&mut self, value: &Yaml, path: &Path<'_>) -> Option<Rate> {
        let fields = Fields::open(value, path, &ARRIVES, self.report)?;
        let between = self.between(&fields, path);
        let mut rate = |key| {
            let (value, path) = (fields.get(key)?, path.key(key));
            let rate = read::scalar(value).and_then(units::rate).filter(|rate| *rate > 0);
            if rate.is_none() {
                read::expected(value, &path, "a rate like 90mbit", self.report);
            }
            rate
        };
        let (above, below) = (rate("above"), rate("below"));
        self.needs_bound(&fields, value, path);
        Some(Rate { between: between?, above, below })
    }

    fn needs_bound(&mut self, fields: &Fields<'_>, value: &Yaml, path: &Path<'_>) {
        if fields.get("above").is_none() && fields.get("below").is_none() {
            self.report.error(value.place, format!("{path}: needs `below` or `above`"));
        }
    }

    fn output(&mut self, value: &Yaml, path: &Path<'_>) -> Option<Output> {
        let fields = Fields::open(value, path, &OUTPUT, self.report)?;
        let node = self.node_at(&fields, path, "node");
        let mut texts = |key| {
            let mut all = Vec::new();
            if let Some(value) = fields.get(key) {
                each_or_only(value, &path.key(key), self.report, |item, path, report| {
                    all.extend(non_empty(item, path, report));
                });
            }
            all
        };
        let (contains, lacks) = (texts("contains"), texts("lacks"));
        let equals =
            fields.get("equals").and_then(|v| read::content(v, &path.key("equals"), self.report));
        let code = fields.get("code").and_then(|v| {
            let code = read::integer(v, &path.key("code"), 0..=255, self.report)?;
            i32::try_from(code).ok()
        });
        let command = command(fields.get("command")?, &path.key("command"), self.report)?;
        // Commands end their output with a line break, which files seldom have.
        let equals = equals.map(|text| text.trim().to_owned());
        Some(Output { node: node?, command, contains, lacks, equals, code: code.unwrap_or(0) })
    }

    /// A bound on lateness.
    fn fidelity(&mut self, value: &Yaml, path: &Path<'_>) -> Option<Duration> {
        let limit = read::duration(value, path, self.report)?;
        // Everything is a little late.
        if limit.is_zero() || limit > LONGEST {
            self.report.error(value.place, format!("{path}: more than 0 and at most 1h, like 1ms"));
        }
        Some(limit)
    }

    fn action(&mut self, value: &Yaml, path: &Path<'_>) -> Option<Action> {
        let fields = Fields::open(value, path, &ACTION, self.report)?;
        let kinds = ["down", "up", "set", "exec", "wait"];
        let given: Vec<&str> = kinds.into_iter().filter(|key| fields.get(key).is_some()).collect();
        let [kind] = given[..] else {
            let message = format!("{path}: one thing is done: one of {}", kinds.join(", "));
            self.report.error(value.place, message);
            return None;
        };
        let (value, inner) = (fields.get(kind)?, path.key(kind));
        Some(match kind {
            "down" => Action::Down(non_empty(value, &inner, self.report)?),
            "up" => Action::Up(non_empty(value, &inner, self.report)?),
            "wait" => Action::Wait(read::duration(value, &inner, self.report)?),
            "set" => self.set(value, &inner)?,
            _ => self.exec(value, &inner)?,
        })
    }

    /// `{NODE: [PROGRAM, ARGUMENT]}`.
    fn exec(&mut self, value: &Yaml, path: &Path<'_>) -> Option<Action> {
        let Some([Entry { key, place, value: argv, .. }]) = value.entries() else {
            read::expected(value, path, "one node and its command: {NODE: [PROGRAM]}", self.report);
            return None;
        };
        self.raw.nodes.push(At { value: key.clone(), place: *place });
        Some(Action::Exec(key.clone(), command(argv, &path.key(key), self.report)?))
    }

    /// `{LINK: {delay: 10ms}}`.
    fn set(&mut self, value: &Yaml, path: &Path<'_>) -> Option<Action> {
        let wrong = "one link and its impairments: {LINK: {delay: 10ms}}";
        let Some([Entry { key, value: settings, .. }]) = value.entries() else {
            read::expected(value, path, wrong, self.report);
            return None;
        };
        let path = path.key(key);
        let Some(entries) = settings.entries().filter(|entries| !entries.is_empty()) else {
            read::expected(settings, &path, "impairments like {delay: 10ms}", self.report);
            return None;
        };
        let mut all = Vec::new();
        // Tried on values that are thrown away: the link is known only when the step is done.
        let mut tried = netloom_impair::Impairments::default();
        for entry in entries {
            let Some(text) = read::text(&entry.value, &path.key(&entry.key), self.report) else {
                continue;
            };
            if let Err(problem) = impairment::set(&mut tried, &entry.key, &text) {
                self.report.error(entry.place, format!("{path}: {problem}"));
            }
            all.push((entry.key.clone(), text));
        }
        Some(Action::Set(key.clone(), all))
    }
}

#[cfg(test)]
mod tests {
    fn problems(step: &str) -> Vec<String> {
        let lab =
            format!("name: x\nnodes: {{a: {{}}, b: {{}}}}\nlinks: [[a, b]]\nexpect: [{step}]\n");
        match crate::parse("x", lab.as_bytes(), "x") {
            Ok(_) => vec![],
            Err(found) => found.list.iter().map(|problem| problem.message.clone()).collect(),
        }
    }

    #[test]
    fn a_step_that_asks_nobody_is_refused() {
        for step in
            ["{cannot-reach: [a, a]}", "{reaches: [[a], [a, a]]}", "{reaches: {from: a, to: a}}"]
        {
            let found = problems(step);
            assert!(
                matches!(&found[..], [one] if one.contains("asks itself, and nobody else")),
                "{found:?}"
            );
        }
        for step in
            ["{cannot-reach: [a, b]}", "{reaches: [[a, b], [a, b]]}", "{reaches: [a, [a, b]]}"]
        {
            assert_eq!(problems(step), Vec::<String>::new());
        }
    }
}
