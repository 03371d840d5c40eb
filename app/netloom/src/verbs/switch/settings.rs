//! Parses settings of a switch's port, and resolves user and group names.

use std::path::Path;

use anyhow::{Context, Result};
use netloom_switch::control::requests::PortChange;
use netloom_switch::rules::Mac;

use crate::Usage;
use crate::flags::Setting;

/// The value that removes a setting.
const NONE: &str = "none";

/// Parses the settings of a port.
///
/// # Errors
/// [`Usage`] with the key, for an unknown setting or an invalid value.
pub(super) fn change(settings: &[Setting]) -> Result<PortChange> {
    let mut change = PortChange::default();
    for (key, value) in settings {
        let some = (value != NONE).then_some(value.as_str());
        match key.as_str() {
            "name" => change.name = Some(some.map(str::to_owned)),
            "user" => change.uid = Some(number(some, key, "/etc/passwd")?),
            "group" => change.gid = Some(number(some, key, "/etc/group")?),
            "lock" => change.macs = Some(some.map_or(Ok(vec![]), lock)?),
            "learn" => change.learn = Some(learn(value)?),
            _ => return Err(wrong(key, "there is none; name, user, group, lock, learn are")),
        }
    }
    Ok(change)
}

fn wrong(key: &str, why: &str) -> anyhow::Error {
    Usage(format!("setting {key:?}: {why}")).into()
}

fn lock(text: &str) -> Result<Vec<Mac>> {
    netloom_model::port_lock(text).map_err(|problem| Usage(problem).into())
}

fn learn(text: &str) -> Result<bool> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(wrong("learn", "takes on or off")),
    }
}

/// The number of a user or a group.
fn number(name: Option<&str>, key: &str, file: &str) -> Result<Option<u32>> {
    let Some(name) = name else { return Ok(None) };
    if let Ok(number) = name.parse() {
        return Ok(Some(number));
    }
    let text =
        std::fs::read_to_string(Path::new(file)).with_context(|| format!("{file:?}: read"))?;
    let none = || wrong(key, &format!("there is no {key} {name:?} on this machine"));
    entry(&text, name).map(Some).ok_or_else(none)
}

/// The third field of the line that starts with the name: see passwd(5) and group(5).
fn entry(text: &str, name: &str) -> Option<u32> {
    let mut lines = text.lines().map(|line| line.split(':'));
    let mut fields = lines.find_map(|mut f| (f.next() == Some(name)).then_some(f))?;
    fields.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: &[(&str, &str)]) -> Result<PortChange> {
        let pairs = settings.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        change(&pairs.collect::<Vec<_>>())
    }

    #[test]
    fn what_is_not_given_stays_and_none_takes_away() {
        let all = [("name", "a b"), ("user", "root"), ("group", "5"), ("learn", "off")];
        let expected = PortChange {
            name: Some(Some("a b".into())),
            uid: Some(Some(0)),
            gid: Some(Some(5)),
            macs: None,
            learn: Some(false),
        };
        assert_eq!(read(&all).unwrap(), expected);
        let gone = [("name", "none"), ("user", "none"), ("group", "none"), ("lock", "none")];
        let expected = PortChange {
            name: Some(None),
            uid: Some(None),
            gid: Some(None),
            macs: Some(vec![]),
            learn: None,
        };
        assert_eq!(read(&gone).unwrap(), expected);
        let macs = read(&[("lock", "02:00:00:00:00:01,2-0-0-0-0-ff")]).unwrap().macs.unwrap();
        assert_eq!(macs, [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 255])]);
    }

    #[test]
    fn wrong_settings_are_wrong_usage_with_their_key() {
        for (key, value, words) in [
            ("learn", "yes", "on or off"),
            ("user", "no such user", "no user \"no such user\""),
            ("vlan", "7", "there is none"),
        ] {
            let error = read(&[(key, value)]).unwrap_err();
            assert!(error.is::<Usage>(), "{error}");
            let text = error.to_string();
            assert!(text.contains(&format!("setting {key:?}: ")) && text.contains(words), "{text}");
        }
        let error = read(&[("lock", "02:00")]).unwrap_err();
        assert!(error.is::<Usage>() && error.to_string().starts_with("lock: expected a MAC"));
    }

    #[test]
    fn people_are_found_by_the_whole_of_their_names() {
        let text = "rooted:x:7:\nroot:x:0:0::/:/bin/sh\nbroken\n";
        assert_eq!(entry(text, "root"), Some(0));
        assert_eq!(entry(text, "broken"), None);
        assert_eq!(entry(text, "x"), None);
    }
}
