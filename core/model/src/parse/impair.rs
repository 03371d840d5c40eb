//! Reads impairments: the keys of a link for both directions, those of `a` and `b` for one.
//!
//! [`crate::impairment`] reads single values, so that they mean the same on a command line;
//! maps are read here. The values of each direction are finally checked together.

use std::collections::HashMap;

use netloom_config::{Kind, Node as Yaml, Path, Place, Report, read};
use netloom_impair::{Bursts, Impairments, Jitter, Loss, RandomLoss, Share};

use crate::file::Fields;
use crate::impairment::{
    DELAY, DISTRIBUTIONS, KEYS, PATTERN, SHARE, clear, parse_delay, parse_distribution,
    parse_pattern, parse_share, put, what,
};
use crate::keys::{BURSTS, DIRECTION, JITTER, LOSS};
use crate::misread::Misread;

/// The impairments of both directions, with their places.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawImpairments {
    /// Index 0: for frames that the first end sends.
    pub values: [Impairments; 2],
    /// By direction and key: the place of the value and how the key reads, `delay` or `a.delay`.
    places: [HashMap<&'static str, (Place, String)>; 2],
    /// Whether each value could be read.
    complete: bool,
}

/// Reads the impairments of a link in its long form.
pub(crate) fn impairments(
    fields: &Fields<'_>,
    path: &Path<'_>,
    report: &mut Report,
) -> RawImpairments {
    let mut raw = RawImpairments { complete: true, ..RawImpairments::default() };
    // A link's own `mtu` is that of the interfaces.
    for key in KEYS.iter().copied().filter(|key| *key != "mtu") {
        let Some(value) = fields.get(key) else { continue };
        raw.complete &= one(key, value, &path.key(key), &mut raw.values[0], report);
        raw.places[0].insert(key, (value.place, key.to_owned()));
    }
    // Both directions begin with the link's own values, which `a` and `b` then replace.
    raw.values[1] = raw.values[0].clone();
    raw.places[1] = raw.places[0].clone();
    for (side, name) in ["a", "b"].into_iter().enumerate() {
        let Some(value) = fields.get(name) else { continue };
        let path = path.key(name);
        let Some(fields) = Fields::open(value, &path, &DIRECTION, report) else { continue };
        for key in KEYS.iter().copied() {
            let Some(value) = fields.get(key) else { continue };
            raw.complete &= one(key, value, &path.key(key), &mut raw.values[side], report);
            raw.places[side].insert(key, (value.place, format!("{name}.{key}")));
        }
    }
    raw
}

impl RawImpairments {
    /// Refuses incompatible values; `link` is the link's name in messages.
    pub(crate) fn check(&self, link: &str, place: Place, report: &mut Report) {
        if !self.complete {
            // A value that could not be read was told already; beside a default it could seem to
            // clash.
            return;
        }
        for (values, places) in self.values.iter().zip(&self.places) {
            let Err(problem) = values.check() else { continue };
            let own = (place, problem.key.to_owned());
            let (place, key) = places.get(problem.key).unwrap_or(&own);
            report.error(*place, format!("link {link}: {key}: {}", problem.reason));
        }
    }
}

/// Reads one key; false when its value cannot be read.
fn one(
    key: &'static str,
    value: &Yaml,
    path: &Path<'_>,
    into: &mut Impairments,
    report: &mut Report,
) -> bool {
    match (key, &value.kind) {
        ("jitter", Kind::Map(_)) => {
            into.jitter = jitter(value, path, report);
            return into.jitter.is_some();
        }
        ("loss", Kind::Map(_)) => {
            into.loss = loss(value, path, report);
            return into.loss.is_some();
        }
        _ => {}
    }
    let problem = match read::scalar(value) {
        // Needed to take back, for one direction, what the link gives both.
        Some("none") => {
            clear(into, key);
            return true;
        }
        Some(text) => put(into, key, text).err(),
        None => Some(format!("expected {}, found {}", what(key), value.describe()).into()),
    };
    let good = problem.is_none();
    if let Some(Misread { problem, help }) = problem {
        report.error_with(value.place, format!("{path}: {problem}"), help);
    }
    good
}

/// The value of a key of a map; reports errors.
fn value<T>(
    fields: &Fields<'_>,
    key: &'static str,
    what: &str,
    path: &Path<'_>,
    report: &mut Report,
    parse: impl FnOnce(&str) -> Result<T, Misread>,
) -> Option<T> {
    let (value, path) = (fields.get(key)?, path.key(key));
    let Some(text) = read::scalar(value) else {
        read::expected(value, &path, what, report);
        return None;
    };
    match parse(text) {
        Ok(value) => Some(value),
        Err(Misread { problem, help }) => {
            report.error_with(value.place, format!("{path}: {problem}"), help);
            None
        }
    }
}

fn jitter(yaml: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Jitter> {
    let fields = Fields::open(yaml, path, &JITTER, report)?;
    let forms = format!("one of {}", DISTRIBUTIONS.join(", "));
    let distribution = value(&fields, "distribution", &forms, path, report, parse_distribution)
        .unwrap_or_default();
    let correlation =
        value(&fields, "correlation", SHARE, path, report, parse_share).unwrap_or_default();
    let spread = value(&fields, "spread", DELAY, path, report, parse_delay)?;
    Some(Jitter { spread, distribution, correlation })
}

fn loss(yaml: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Loss> {
    let fields = Fields::open(yaml, path, &LOSS, report)?;
    let given = ["random", "bursts", "pattern"].map(|key| fields.get(key));
    if given.iter().flatten().count() != 1 {
        let problem = "needs one of `random`, `bursts` and `pattern`";
        report.error(yaml.place, format!("{path}: {problem}"));
        return None;
    }
    if let (Some(correlation), None) = (fields.get("correlation"), given[0]) {
        let problem = "`correlation` works only beside `random`";
        report.error(correlation.place, format!("{path}: {problem}"));
    }
    let [_, in_bursts, pattern] = given;
    if let Some(yaml) = in_bursts {
        return bursts(yaml, &path.key("bursts"), report).map(Loss::Bursts);
    }
    if pattern.is_some() {
        return value(&fields, "pattern", PATTERN, path, report, parse_pattern).map(Loss::Pattern);
    }
    let correlation =
        value(&fields, "correlation", SHARE, path, report, parse_share).unwrap_or_default();
    let share = value(&fields, "random", SHARE, path, report, parse_share)?;
    Some(Loss::Random(RandomLoss { share, correlation }))
}

fn bursts(yaml: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<Bursts> {
    let fields = Fields::open(yaml, path, &BURSTS, report)?;
    let mut share = |key| value(&fields, key, SHARE, path, report, parse_share);
    let [enter, leave, bad, good] = ["enter", "leave", "bad", "good"].map(&mut share);
    Some(Bursts {
        enter: enter?,
        leave: leave?,
        bad: bad.unwrap_or(Share::ALL),
        good: good.unwrap_or(Share::NONE),
    })
}
