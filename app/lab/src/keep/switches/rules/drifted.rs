//! Rules of a running switch that are not those of the file: what a person changed, and what takes it back.

use std::collections::BTreeMap;

use netloom_model::kinds::shm::{ShmPort, ShmSwitch};
use netloom_model::merging::KeyChange;
use netloom_model::plan::port_names::shortened_port_name;
use netloom_switch::control::requests::{PortChange, PortKey, PortShown, Request, Shown};
use netloom_switch::rules::{Direction, Mirror, PortRules, Source, Vlan};

use super::{mirrors, number_in, vlan_of};
use crate::{Error, Result};

/// What was changed by hand in the rules of a switch, and the requests that take it back.
#[derive(Debug, Default)]
pub(in super::super) struct Drifted {
    pub(in super::super) changes: Vec<KeyChange>,
    pub(in super::super) requests: Vec<Request>,
}

/// Compares the rules of a running switch with those of the file. Ports keep the names that they are reserved for.
pub(in super::super) fn drifted(
    shown: &Shown,
    wanted: &ShmSwitch,
    object: &str,
) -> Result<Drifted> {
    let mut found = Drifted::default();
    let on_switch: BTreeMap<String, &String> =
        wanted.ports.keys().map(|name| (shortened_port_name(name), name)).collect();
    for port in &shown.ports {
        let own = name_of(port);
        let of_file = own.and_then(|name| on_switch.get(name)).copied();
        let rules = of_file.and_then(|name| wanted.ports.get(name)).cloned().unwrap_or_default();
        let named = of_file.or(own).cloned().unwrap_or_else(|| port.number.to_string());
        found.of_port(port, &named, rules_of(&rules, object)?);
    }
    found.of_mirrors(shown, wanted, object)?;
    Ok(found)
}

impl Drifted {
    /// Compares the rules of a port, named as in the file, with those that it should have.
    fn of_port(&mut self, port: &PortShown, named: &str, rules: PortRules) {
        let words = differing(&rules, &port.rules);
        if words.is_empty() {
            return;
        }
        self.changes.push(KeyChange {
            key: format!("ports.{named}"),
            words: format!("port {named} {}", words.join(", ")),
        });
        let PortRules { uid, gid, vlan, macs, learn, .. } = rules;
        let change = PortChange {
            uid: Some(uid),
            gid: Some(gid),
            macs: Some(macs),
            learn: Some(learn),
            ..PortChange::default()
        };
        let port = PortKey::Number(port.number);
        self.requests.push(Request::SetPort { port: port.clone(), change });
        self.requests.push(Request::SetVlan { port, vlan });
    }

    /// Compares mirror sessions, all of which are replaced where one differs.
    fn of_mirrors(&mut self, shown: &Shown, wanted: &ShmSwitch, object: &str) -> Result<()> {
        let numbers: BTreeMap<&str, u16> = shown
            .ports
            .iter()
            .filter_map(|port| Some((name_of(port)?.as_str(), port.number)))
            .collect();
        let number = |name: &str| numbers.get(&*shortened_port_name(name)).copied();
        // Temporary ones belong to captures, which end them themselves.
        let own: Vec<(&u16, &Mirror)> =
            shown.mirrors.iter().filter(|(_, mirror)| !mirror.temporary).collect();
        let add = mirrors(wanted, &number, object)?;
        let mut are: Vec<String> = own.iter().map(|(_, mirror)| words_of(mirror, shown)).collect();
        let is_mirror = |request: &Request| match request {
            Request::AddMirror(mirror) => Some(words_of(mirror, shown)),
            _ => None,
        };
        let mut shall: Vec<String> = add.iter().filter_map(is_mirror).collect();
        are.sort();
        shall.sort();
        if are != shall {
            let all = |all: &[String]| match all {
                [] => "none".to_owned(),
                _ => all.join(" and "),
            };
            let words = format!("mirrors {}, was {}", all(&shall), all(&are));
            self.changes.push(KeyChange { key: "mirrors".to_owned(), words });
            let gone = own.iter().map(|(number, _)| Request::DeleteMirror { mirror: **number });
            self.requests.extend(gone);
            self.requests.extend(add);
        }
        Ok(())
    }
}

/// The name of a port, or else the one that it is reserved for.
fn name_of(port: &PortShown) -> Option<&String> {
    Some(&port.name).filter(|name| !name.is_empty()).or(port.rules.name.as_ref())
}

/// The rules of a port as a switch has them.
fn rules_of(rules: &ShmPort, object: &str) -> Result<PortRules> {
    let invalid = |reason: String| Error::Invalid { object: object.into(), reason };
    let owner = rules.owner.as_deref().map(|o| number_in("/etc/passwd", "user", o, object));
    let macs = rules.lock.iter().map(|m| m.parse().map_err(|e| invalid(format!("{m}: {e}"))));
    Ok(PortRules {
        uid: owner.transpose()?,
        vlan: rules.vlan.as_ref().map(vlan_of).transpose().map_err(&invalid)?,
        macs: macs.collect::<Result<Vec<_>>>()?,
        ..PortRules::NONE
    })
}

/// What differs between the rules of a port that should be and those that are, in words.
fn differing(shall: &PortRules, are: &PortRules) -> Vec<String> {
    let number = |id: Option<u32>| id.map_or_else(|| "none".to_owned(), |id| id.to_string());
    let locks = |of: &PortRules| {
        let mut all: Vec<String> = of.macs.iter().map(ToString::to_string).collect();
        all.sort();
        if all.is_empty() { "none".to_owned() } else { all.join(" ") }
    };
    let learns = |of: &PortRules| if of.learn { "on" } else { "off" }.to_owned();
    let all = [
        ("vlan", vlan_words(shall.vlan.as_ref()), vlan_words(are.vlan.as_ref())),
        ("lock", locks(shall), locks(are)),
        ("user", number(shall.uid), number(are.uid)),
        ("group", number(shall.gid), number(are.gid)),
        ("learn", learns(shall), learns(are)),
    ];
    let differs = all.iter().filter(|(_, shall, are)| shall != are);
    differs.map(|(what, shall, are)| format!("{what} {shall}, was {are}")).collect()
}

/// A VLAN rule as `switch vlan` takes it.
fn vlan_words(vlan: Option<&Vlan>) -> String {
    match vlan {
        None => "none".to_owned(),
        Some(Vlan::Access(vid)) => format!("access {vid}"),
        Some(Vlan::Trunk { native, allowed }) => {
            let native = native.map_or_else(String::new, |vid| format!(" native {vid}"));
            format!("trunk {allowed}{native}")
        }
        Some(Vlan::Qinq { vlan, cvlans, tpid }) => {
            let cvlans = cvlans.as_ref().map_or_else(String::new, |of| format!(" cvlans {of}"));
            format!("qinq {vlan}{cvlans} tpid {tpid}")
        }
    }
}

/// A mirror session in words, with the names of its ports.
fn words_of(mirror: &Mirror, shown: &Shown) -> String {
    let name = |number: u16| {
        let found = shown.ports.iter().find(|port| port.number == number);
        found.and_then(name_of).cloned().unwrap_or_else(|| number.to_string())
    };
    let source = |of: &Source| {
        let direction = match of.direction {
            Direction::In => " in",
            Direction::Out => " out",
            Direction::Both => "",
        };
        format!("{}{direction}", name(of.port))
    };
    let mut sources: Vec<String> = mirror.sources.iter().map(source).collect();
    sources.sort();
    let filter = mirror.filter.to_string();
    let filter = if filter == "all" { String::new() } else { format!(" filter {filter}") };
    format!("of {} to {}{filter}", sources.join(" "), name(mirror.to))
}
