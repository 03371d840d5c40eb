//! Converts the settings of a shared-memory switch into options and requests for its process.

mod drifted;

use std::collections::{BTreeMap, BTreeSet};

use netloom_model::kinds::shm::{MirrorDirection, PortVlan, ShmSwitch};
use netloom_model::plan::port_names::shortened_port_name;
use netloom_switch::control::Connection;
use netloom_switch::control::requests::{PortChange, PortKey, Request, Shown};
use netloom_switch::rules::{Direction, MOST_PORTS, Mirror, Source, Vlan};
use serde::{Deserialize, Serialize};

pub(super) use self::drifted::drifted;
use super::process;
use crate::store::state::Folder;
use crate::{Error, Result};

/// Start options of the process of a switch, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SwitchOptions {
    /// The mode of its socket.
    pub mode: u32,
    /// The group of its socket.
    pub group: Option<u32>,
    /// Bytes of the ring from the switch to each port.
    pub arena: u32,
    /// Seconds after which the switch forgets an address.
    pub ageing: u32,
    /// The kernel forwards among its ports, in the network namespace that is its standard input: where programs of an earlier
    /// process may be, as pairs of a port's interface and the tap beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plane: Option<Vec<(u32, u32)>>,
}

/// In an ordinary user's lab (`user`) groups of the machine are not those of the same numbers.
pub(super) fn options_text(
    switch: &str,
    options: &ShmSwitch,
    user: bool,
    plane: Option<Vec<(u32, u32)>>,
) -> Result<String> {
    let object = format!("switch {switch:?}");
    let group = options.group.as_deref().map(|g| number_in("/etc/group", "group", g, &object));
    let group = group.transpose()?;
    if let (true, Some(group @ 1..)) = (user, group) {
        let reason = format!(
            "group {group}: an ordinary user's lab has no groups of this machine; admit others by `mode`"
        );
        return Err(Error::Invalid { object: object.into(), reason });
    }
    let ShmSwitch { mode, arena, ageing, .. } = *options;
    let options = SwitchOptions { mode, group, arena, ageing, plane };
    serde_json::to_string(&options).map_err(Error::at(object, "encode its options"))
}

/// The id of a user or group given by name or number.
fn number_in(file: &str, what: &str, name: &str, object: &str) -> Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = std::fs::read_to_string(file).map_err(Error::at(file, "read"))?;
    let fields = |line: &str| -> Option<u32> {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    };
    let none = || Error::Invalid {
        object: object.into(),
        reason: format!("there is no {what} {name:?} on this machine"),
    };
    text.lines().find_map(fields).ok_or_else(none)
}

/// Numbers of all ports with settings, by name: given numbers, then the lowest free ones.
fn numbers(options: &ShmSwitch) -> BTreeMap<&str, u16> {
    // Given numbers first: a free one must not take another's.
    let given = options.ports.iter().filter_map(|(name, p)| Some((name.as_str(), p.number?)));
    let mut numbers: BTreeMap<&str, u16> = given.collect();
    let mut taken: BTreeSet<u16> = numbers.values().copied().collect();
    let mirrored =
        options.mirrors.iter().flat_map(|m| m.from.iter().chain([&m.to])).map(String::as_str);
    for name in options.ports.keys().map(String::as_str).chain(mirrored) {
        if numbers.contains_key(name) {
            continue;
        }
        let Some(free) = (1..=MOST_PORTS).find(|n| !taken.contains(n)) else { break };
        taken.insert(free);
        numbers.insert(name, free);
    }
    numbers
}

/// Sends a new switch its rules.
pub(super) fn set_rules(folder: &Folder, switch: &str, options: &ShmSwitch) -> Result<()> {
    let object = format!("switch {switch:?}");
    let socket = process::socket(folder, switch);
    let connection = Connection::open(&socket).map_err(Error::of(&object, "connect"))?;
    let Some(connection) = connection else { return Ok(()) };
    for request in requests(options, &object)? {
        connection.ask(&request).map_err(Error::of(&object, "set its rules"))?;
    }
    Ok(())
}

/// The requests that make the rules of a running switch those of `new`, for what differs from one of the `old` ones.
/// Ports that are there keep their numbers.
pub(super) fn changes(
    shown: &Shown,
    old: &[&ShmSwitch],
    new: &ShmSwitch,
    object: &str,
) -> Result<Vec<Request>> {
    let numbers = numbers_beside(shown, new, old, object)?;
    let invalid = |reason: String| Error::Invalid { object: object.into(), reason };
    let names: BTreeSet<&String> =
        old.iter().flat_map(|old| old.ports.keys()).chain(new.ports.keys()).collect();
    let mut requests = Vec::new();
    for name in names {
        if old.iter().all(|old| old.ports.get(name) == new.ports.get(name)) {
            continue;
        }
        let Some(number) = numbers.get(&shortened_port_name(name)) else { continue };
        let rules = new.ports.get(name).cloned().unwrap_or_default();
        let owner = rules.owner.as_deref().map(|o| number_in("/etc/passwd", "user", o, object));
        let macs = rules.lock.iter().map(|m| m.parse().map_err(|e| invalid(format!("{m}: {e}"))));
        let change = PortChange {
            name: new.ports.contains_key(name).then(|| Some(shortened_port_name(name))),
            uid: Some(owner.transpose()?),
            macs: Some(macs.collect::<Result<Vec<_>>>()?),
            ..PortChange::default()
        };
        let port = PortKey::Number(*number);
        requests.push(Request::SetPort { port: port.clone(), change });
        let vlan = rules.vlan.as_ref().map(vlan_of).transpose().map_err(&invalid)?;
        requests.push(Request::SetVlan { port, vlan });
    }
    if old.iter().any(|old| old.mirrors != new.mirrors) {
        // Temporary ones belong to captures, which end them themselves.
        let own = shown.mirrors.iter().filter(|(_, mirror)| !mirror.temporary);
        requests.extend(own.map(|(number, _)| Request::DeleteMirror { mirror: *number }));
        let number = |name: &str| numbers.get(&shortened_port_name(name)).copied();
        requests.extend(mirrors(new, &number, object)?);
    }
    Ok(requests)
}

/// Numbers of ports by their names on the switch: those that are there, then given ones, then the lowest free ones.
fn numbers_beside(
    shown: &Shown,
    new: &ShmSwitch,
    old: &[&ShmSwitch],
    object: &str,
) -> Result<BTreeMap<String, u16>> {
    let named = shown.ports.iter().filter(|port| !port.name.is_empty());
    let mut numbers: BTreeMap<String, u16> =
        named.map(|port| (port.name.clone(), port.number)).collect();
    let mut taken: BTreeSet<u16> = shown.ports.iter().map(|port| port.number).collect();
    // Before the free ones, which must not take another's.
    for (name, number) in new.ports.iter().filter_map(|(name, port)| Some((name, port.number?))) {
        let on_switch = shortened_port_name(name);
        if let Some(has) = numbers.get(&on_switch) {
            let gave = |old: &&ShmSwitch| old.ports.get(name).and_then(|port| port.number);
            if *has != number && old.iter().any(|old| gave(old) != Some(number)) {
                let reason = format!(
                    "port {name:?}: it has the number {has} on the running switch, and ports keep theirs; write {has}, or \
                     `netloom down` and `netloom up` give it {number}"
                );
                return Err(Error::Invalid { object: object.into(), reason });
            }
            continue;
        }
        if !taken.insert(number) {
            let reason = format!(
                "port {name:?}: another port of the running switch has the number {number}, and ports keep theirs; \
                 give another number"
            );
            return Err(Error::Invalid { object: object.into(), reason });
        }
        numbers.insert(on_switch, number);
    }
    let mirrored = new.mirrors.iter().flat_map(|m| m.from.iter().chain([&m.to]));
    let wanted = new.ports.keys().chain(mirrored).chain(old.iter().flat_map(|o| o.ports.keys()));
    for name in wanted.map(|name| shortened_port_name(name)) {
        if numbers.contains_key(&name) {
            continue;
        }
        let Some(free) = (1..=MOST_PORTS).find(|n| !taken.contains(n)) else { break };
        taken.insert(free);
        numbers.insert(name, free);
    }
    Ok(numbers)
}

fn requests(options: &ShmSwitch, object: &str) -> Result<Vec<Request>> {
    let invalid = |reason: String| Error::Invalid { object: object.into(), reason };
    let numbers = numbers(options);
    let mut requests = Vec::new();
    for (name, number) in &numbers {
        let rules = options.ports.get(*name).cloned().unwrap_or_default();
        let owner = rules.owner.as_deref().map(|o| number_in("/etc/passwd", "user", o, object));
        let macs = rules.lock.iter().map(|m| m.parse().map_err(|e| invalid(format!("{m}: {e}"))));
        let change = PortChange {
            name: Some(Some(shortened_port_name(name))),
            uid: owner.transpose()?.map(Some),
            macs: Some(macs.collect::<Result<Vec<_>>>()?).filter(|m| !m.is_empty()),
            ..PortChange::default()
        };
        let port = PortKey::Number(*number);
        requests.push(Request::SetPort { port: port.clone(), change });
        if let Some(vlan) = &rules.vlan {
            let vlan = Some(vlan_of(vlan).map_err(&invalid)?);
            requests.push(Request::SetVlan { port, vlan });
        }
    }
    let number = |name: &str| numbers.get(name).copied();
    requests.extend(mirrors(options, &number, object)?);
    Ok(requests)
}

/// The requests for the mirror sessions of a switch whose ports have these numbers.
fn mirrors(
    options: &ShmSwitch,
    number_of: &dyn Fn(&str) -> Option<u16>,
    object: &str,
) -> Result<Vec<Request>> {
    let invalid = |reason: String| Error::Invalid { object: object.into(), reason };
    let mut requests = Vec::new();
    for mirror in &options.mirrors {
        let number = |name: &String| {
            let none = || invalid(format!("port {name:?}: a switch has {MOST_PORTS} ports"));
            number_of(name).ok_or_else(none)
        };
        let direction = match mirror.direction {
            MirrorDirection::In => Direction::In,
            MirrorDirection::Out => Direction::Out,
            MirrorDirection::Both => Direction::Both,
        };
        let source = |name: &String| Ok(Source { port: number(name)?, direction });
        requests.push(Request::AddMirror(Mirror {
            to: number(&mirror.to)?,
            sources: mirror.from.iter().map(source).collect::<Result<_>>()?,
            filter: mirror.filter.parse().map_err(|e| invalid(format!("filter: {e}")))?,
            temporary: false,
        }));
    }
    Ok(requests)
}

/// A VLAN of the lab file as the switch has it.
pub(crate) fn vlan_of(vlan: &PortVlan) -> std::result::Result<Vlan, String> {
    let vid = |number: u16| {
        netloom_switch::rules::Vid::new(number).ok_or_else(|| format!("VLAN {number}: no such"))
    };
    Ok(match vlan {
        PortVlan::Access(number) => Vlan::Access(vid(*number)?),
        PortVlan::Trunk { native, allowed } => Vlan::Trunk {
            native: native.map(vid).transpose()?,
            allowed: allowed.parse().map_err(|e| format!("trunk {allowed}: {e}"))?,
        },
        PortVlan::Qinq { vlan, cvlans, tpid } => Vlan::Qinq {
            vlan: vid(*vlan)?,
            cvlans: match cvlans {
                Some(cvlans) => Some(cvlans.parse().map_err(|e| format!("cvlans {cvlans}: {e}"))?),
                None => None,
            },
            tpid: tpid.parse().map_err(|e| format!("tpid {tpid}: {e}"))?,
        },
    })
}

#[cfg(test)]
mod tests {
    use netloom_model::kinds::shm::{ShmMirror, ShmPort};
    use netloom_switch::control::requests::PortShown;
    use netloom_switch::rules::PortRules;

    use super::*;

    fn options() -> ShmSwitch {
        let port = |number, vlan| ShmPort { number, vlan, ..ShmPort::default() };
        let ports =
            [("a:eth0", port(None, Some(PortVlan::Access(7)))), ("b:eth0", port(Some(1), None))];
        let mirror = ShmMirror {
            from: vec!["a:eth0".into(), "c:eth0".into()],
            direction: MirrorDirection::In,
            to: "watch".into(),
            filter: "tcp".into(),
        };
        ShmSwitch {
            ports: ports.map(|(name, port)| (name.to_owned(), port)).into(),
            mirrors: vec![mirror],
            ..ShmSwitch::default()
        }
    }

    #[test]
    fn numbers_given_stay_and_others_get_the_lowest_free() {
        let options = options();
        let expected = [("a:eth0", 2), ("b:eth0", 1), ("c:eth0", 3), ("watch", 4)];
        assert_eq!(numbers(&options), expected.into());
    }

    #[test]
    fn all_that_is_said_is_asked_for() {
        let asked = requests(&options(), "switch").unwrap();
        let names = asked.iter().filter(|r| matches!(r, Request::SetPort { .. })).count();
        assert_eq!(names, 4);
        let vlan = Request::SetVlan {
            port: 2.into(),
            vlan: Some(Vlan::Access(netloom_switch::rules::Vid::new(7).unwrap())),
        };
        assert!(asked.contains(&vlan), "{asked:?}");
        let Some(Request::AddMirror(mirror)) = asked.last() else { panic!("{asked:?}") };
        assert_eq!((mirror.to, mirror.sources.len()), (4, 2));
    }

    #[test]
    fn a_port_that_comes_to_a_running_switch_has_the_number_that_it_is_given() {
        let port =
            |number, name: &str| PortShown { number, name: name.into(), ..PortShown::default() };
        let shown = Shown { ports: vec![port(1, "a:eth0"), port(2, "c:eth0")], ..Shown::default() };
        let (old, mut new) = (ShmSwitch::default(), options());
        let given = |number| ShmPort { number: Some(number), ..ShmPort::default() };
        new.ports.insert("b:eth0".into(), given(3));
        // One without a number comes first, and must not take another's.
        new.ports.insert("aa:eth0".into(), ShmPort::default());
        let numbers = numbers_beside(&shown, &new, &[&old], "switch \"s\"").unwrap();
        let expected = [("a:eth0", 1), ("aa:eth0", 4), ("b:eth0", 3), ("c:eth0", 2), ("watch", 5)];
        assert_eq!(numbers, expected.map(|(name, number)| (name.to_owned(), number)).into());
        new.ports.insert("b:eth0".into(), given(2));
        let taken = numbers_beside(&shown, &new, &[&old], "switch \"s\"").unwrap_err().to_string();
        assert!(taken.contains("port \"b:eth0\"") && taken.contains("number 2"), "{taken}");
    }

    #[test]
    fn a_port_of_a_running_switch_that_is_given_another_number_is_refused() {
        let port =
            |number, name: &str| PortShown { number, name: name.into(), ..PortShown::default() };
        let shown = Shown { ports: vec![port(1, "a:eth0"), port(2, "c:eth0")], ..Shown::default() };
        let with = |number| {
            let given = ShmPort { number, ..ShmPort::default() };
            ShmSwitch { ports: [("c:eth0".to_owned(), given)].into(), ..ShmSwitch::default() }
        };
        let of = |old, new| {
            changes(&shown, &[&with(old)], &with(new), "switch \"s\"").map_err(|e| e.to_string())
        };
        for old in [None, Some(2)] {
            let refused = of(old, Some(5)).unwrap_err();
            assert!(refused.contains("port \"c:eth0\": it has the number 2"), "{refused}");
            assert!(refused.contains("`netloom up` give it 5"), "{refused}");
        }
        // It has that number already; and it may have any where the file gives none.
        assert!(of(None, Some(2)).is_ok() && of(Some(2), None).is_ok());
        // A number that was kept before does not stop other changes.
        assert!(of(Some(5), Some(5)).is_ok());
    }

    #[test]
    fn rules_that_were_changed_by_hand_are_found_and_taken_back() {
        // As the file has it.
        let wanted = options();
        let mut shown = Shown::default();
        for request in requests(&wanted, "switch").unwrap() {
            let number_of = |port: &PortKey| match port {
                PortKey::Number(number) => *number,
                PortKey::Name(name) => panic!("{name}"),
            };
            match request {
                Request::SetPort { port, change } => {
                    let name = change.name.flatten();
                    let rules = PortRules {
                        name: name.clone(),
                        macs: change.macs.unwrap_or_default(),
                        ..PortRules::NONE
                    };
                    let (number, name) = (number_of(&port), name.unwrap_or_default());
                    shown.ports.push(PortShown { number, name, rules, ..PortShown::default() });
                }
                Request::SetVlan { port, vlan } => {
                    let number = number_of(&port);
                    let port = shown.ports.iter_mut().find(|p| p.number == number).unwrap();
                    port.rules.vlan = vlan;
                }
                Request::AddMirror(mirror) => drop(shown.mirrors.insert(1, mirror)),
                other => panic!("{other:?}"),
            }
        }
        let words = |shown: &Shown| -> Vec<String> {
            let found = drifted(shown, &wanted, "switch").unwrap();
            assert_eq!(found.changes.is_empty(), found.requests.is_empty(), "{found:?}");
            found.changes.into_iter().map(|change| change.words).collect()
        };
        assert_eq!(words(&shown), [""; 0]);
        // A port, one that nobody has, and a mirror session.
        let vid = |number| netloom_switch::rules::Vid::new(number).unwrap();
        let mut other = shown.clone();
        let port = other.ports.iter_mut().find(|port| port.name == "a:eth0").unwrap();
        port.rules.vlan =
            Some(Vlan::Trunk { native: Some(vid(10)), allowed: "10,20".parse().unwrap() });
        let rules = PortRules { vlan: Some(Vlan::Access(vid(10))), ..PortRules::NONE };
        other.ports.push(PortShown { number: 9, rules, ..PortShown::default() });
        let mirror = other.mirrors.remove(&1).unwrap();
        assert_eq!(
            words(&other),
            [
                "port a:eth0 vlan access 7, was trunk 10,20 native 10",
                "port 9 vlan none, was access 10",
                "mirrors of a:eth0 in c:eth0 in to watch filter tcp, was none"
            ]
        );
        let back = drifted(&other, &wanted, "switch").unwrap().requests;
        let vlan = Request::SetVlan { port: 2.into(), vlan: Some(Vlan::Access(vid(7))) };
        assert!(
            back.contains(&vlan) && back.contains(&Request::AddMirror(mirror.clone())),
            "{back:?}"
        );
        // What a capture made for itself is none.
        let mut captured = shown;
        captured.mirrors.insert(2, Mirror { temporary: true, ..mirror });
        assert_eq!(words(&captured), [""; 0]);
    }

    #[test]
    fn people_go_by_name_or_number() {
        let find = |name| number_in("/etc/passwd", "user", name, "switch \"s\"");
        assert_eq!((find("12").unwrap(), find("root").unwrap()), (12, 0));
        let none = find("nobody-of-this-name").unwrap_err().to_string();
        assert!(none.contains("nobody-of-this-name"), "{none}");
    }
}
