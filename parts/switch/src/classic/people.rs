//! Names of users and groups, in the files of the machine.

use std::fs;

/// The number of a user (`/etc/passwd`) or a group (`/etc/group`), by name or number.
pub(super) fn number(file: &str, name: &str) -> Option<u32> {
    name.parse().ok().or_else(|| {
        let text = fs::read_to_string(file).ok()?;
        let found = text.lines().filter_map(entry).find(|(found, _)| *found == name);
        found.map(|(_, number)| number)
    })
}

/// The name for a number; the number itself where it has none.
pub(super) fn name(file: &str, number: u32) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let found = text.lines().filter_map(entry).find(|(_, found)| *found == number);
    found.map_or_else(|| number.to_string(), |(name, _)| name.to_owned())
}

/// The file of users.
pub(super) const USERS: &str = "/etc/passwd";
/// The file of groups.
pub(super) const GROUPS: &str = "/etc/group";

fn entry(line: &str) -> Option<(&str, u32)> {
    let mut fields = line.split(':');
    Some((fields.next()?, fields.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_have_names_and_numbers() {
        assert_eq!((number(USERS, "root"), number(GROUPS, "root")), (Some(0), Some(0)));
        assert_eq!((number(USERS, "12"), number(USERS, "nobody-of-this-name")), (Some(12), None));
        assert_eq!((name(USERS, 0).as_str(), name(USERS, 4_000_000).as_str()), ("root", "4000000"));
    }
}
