//! Reads the body of a switch: the keys common to all kinds; the kind reads the rest.

use netloom_config::{Node as Yaml, Path, Report, read};

use super::raw::SwitchBody;
use crate::file::{Fields, choice, values};
use crate::keys::SWITCH;
use crate::kinds::{RawSwitchKind, bridge, openflow};
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
    // In another kind it has been refused as a key of bridges.
    let stp = fields.get("stp").filter(|_| word == Some(bridge::WORD));
    let stp = stp.and_then(|v| read::boolean(v, &path.key("stp"), report));
    switch.stp = stp.unwrap_or_default();
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
            let help = match word {
                openflow::WORD => format!("flow entries do that on a switch of kind {word}"),
                _ => format!("write kind: {kind}"),
            };
            report.error_with(value.place, message, Some(help));
        }
    }
}

/// One of the kinds.
fn kind(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<&'static str> {
    let kinds: Vec<&str> = SWITCH.kinds.iter().map(|of| of.kind).collect();
    choice(value, path, (&SWITCH, "kind"), &kinds, report)
}
