//! Reads the body of a switch: the keys common to all kinds; the kind reads the rest.

use netloom_config::{Entry, Kind, Node as Yaml, Path, Place, Report, quote, resolve};

use super::keys::SWITCH;
use super::raw::SwitchBody;
use crate::file::{Fields, choice, values};
use crate::kinds::{Around, RawSwitchKind, SwitchKind};
use crate::lab::Switch;

/// Reads a switch's body; invalid values keep their default.
pub(crate) fn switch(name: &str, yaml: &Yaml, path: &Path<'_>, report: &mut Report) -> SwitchBody {
    let mut switch = Switch { name: name.to_owned(), ..Switch::default() };
    let Some(fields) = Fields::open(yaml, path, &SWITCH, report) else {
        return SwitchBody {
            switch,
            subnets: Vec::new(),
            mtu: None,
            kind: RawSwitchKind::default(),
        };
    };
    let default = SWITCH.kinds.first().map(|of| of.kind);
    let word = fields.get("kind").map_or(default, |v| kind(v, &path.key("kind"), report));
    let kind = word.map_or_else(Default::default, |word| {
        refuse_keys_of_others(word, &fields, path, report);
        RawSwitchKind::read(word, &fields, path, report)
    });
    let subnets = fields
        .get("subnet")
        .map_or_else(Vec::new, |v| values::subnet(v, &path.key("subnet"), report));
    let mtu = fields.get("mtu");
    switch.mtu = mtu.and_then(|v| values::mtu(v, &path.key("mtu"), report));
    switch.subnets = subnets.iter().map(|s| s.value).collect();
    SwitchBody { switch, subnets, mtu: mtu.map(|v| v.place), kind }
}

/// Distinguishes keys of another kind from unknown ones.
fn refuse_keys_of_others(word: &str, fields: &Fields<'_>, path: &Path<'_>, report: &mut Report) {
    for other in SWITCH.kinds.iter().filter(|other| other.kind != word) {
        for key in other.keys {
            let Some(value) = fields.get(key.name) else { continue };
            let kind = other.kind;
            let message = format!("{}: only a switch of kind {kind} has this", path.key(key.name));
            report.error_with(value.place, message, Some(format!("write kind: {kind}")));
        }
    }
}

/// The refusal names a kind known from other programs.
fn kind(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<&'static str> {
    let kinds: Vec<&str> = SWITCH.kinds.iter().map(|of| of.kind).collect();
    if value.text == "openflow" && value.kind == Kind::Str {
        let message = format!(
            "{path}: switch kind {} is not part of this version; kinds: {}",
            quote(&value.text),
            kinds.join(", ")
        );
        report.error(value.place, message);
        return None;
    }
    choice(value, path, (&SWITCH, "kind"), &kinds, report)
}

/// The kind of a switch made in a running lab, from settings by key and value as in the file. It must be a
/// kind that can be joined (`shm` by default). Keys with maps or lists as values, and those of the segment,
/// cannot be given here.
///
/// # Errors
/// The first invalid setting, and its valid values.
pub fn switch_kind(name: &str, settings: &[(String, String)]) -> Result<SwitchKind, String> {
    let mut entries: Vec<Entry> = Vec::with_capacity(settings.len() + 1);
    let entry = |key: &str, text: &str| {
        let value = Yaml { place: Place::START, kind: resolve(text), text: text.to_owned() };
        Entry { key: key.to_owned(), place: Place::START, value }
    };
    for (key, text) in settings {
        if ["subnet", "mtu", "for", "if"].contains(&key.as_str()) {
            return Err(format!("{key}: cannot be given to a switch of a running lab"));
        }
        if entries.iter().any(|known| known.key == *key) {
            return Err(format!("{key}: given twice"));
        }
        entries.push(entry(key, text));
    }
    if !settings.iter().any(|(key, _)| key == "kind") {
        entries.push(entry("kind", crate::kinds::shm::WORD));
    }
    let map = Yaml { place: Place::START, kind: Kind::Map(entries), text: String::new() };
    let mut report = Report::new("");
    let body = switch(name, &map, &Path::Root, &mut report);
    let around = Around { name, place: Place::START, ends: &[], is_taken: &|_| false };
    let kind = body.kind.finish(&around, &mut report);
    match report.finish().list.into_iter().next() {
        None if kind.can_be_joined() => Ok(kind),
        None => Err(format!("kind: {} cannot be made in a running lab", kind.word())),
        Some(wrong) => Err(match wrong.help {
            Some(help) => format!("{}; {help}", wrong.message),
            None => wrong.message,
        }),
    }
}
