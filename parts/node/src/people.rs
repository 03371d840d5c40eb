//! Users and groups by the node's own lists (passwd(5), group(5)), never by the host's name services.

use netloom_sys::process::Identity;
use netloom_sys::setup::bounded_text;
use rustix::fs::{Mode, OFlags};

/// The lists.
pub(crate) const USERS: &str = "/etc/passwd";
pub(crate) const GROUPS: &str = "/etc/group";

/// Where root is at home, whatever the lists say.
pub(crate) const HOME: &str = "/root";

/// Who a program is, and where its user is at home.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) identity: Identity,
    pub(crate) home: Option<String>,
}

/// Looks a user up in the lists of the calling process's root; the group is the user's unless it is given. A number
/// needs no line: its group is 0 then, as in containers. With a group given it is in no other.
///
/// # Errors
/// The user that is in no list.
pub(crate) fn find(user: &str, group: Option<&str>) -> Result<Person, String> {
    let read = |path: &str| {
        let open = |flags| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
        bounded_text(open).unwrap_or_default()
    };
    find_in(&read(USERS), &read(GROUPS), user, group)
}

fn find_in(users: &str, groups: &str, user: &str, group: Option<&str>) -> Result<Person, String> {
    let number = user.parse::<u32>().ok();
    let line = users.lines().map(fields).find(|line| match number {
        Some(number) => line.get(2).and_then(|id| id.parse().ok()) == Some(number),
        None => line.first() == Some(&user),
    });
    let field = |at: usize| line.as_ref().and_then(|line| line.get(at).copied());
    let id = number.or_else(|| field(2)?.parse().ok());
    let id = id.ok_or_else(|| format!("no user {user:?} in the node's {USERS}"))?;
    let own = field(3).and_then(|id| id.parse().ok()).unwrap_or(0);
    let alone = group.is_some();
    let group = match group {
        None => own,
        Some(group) => match group.parse().ok().or_else(|| number_in(groups, group)) {
            Some(number) => number,
            None => return Err(format!("no group {group:?} in the node's {GROUPS}")),
        },
    };
    let name = field(0).unwrap_or_default();
    let has = |line: &Vec<&str>| {
        !alone
            && !name.is_empty()
            && line.get(3).is_some_and(|all| all.split(',').any(|one| one == name))
    };
    let further =
        groups.lines().map(fields).filter(has).filter_map(|line| line.get(2)?.parse().ok());
    let identity = Identity { user: id, group, groups: further.collect() };
    let home = field(5).filter(|home| !home.is_empty()).map(str::to_owned);
    Ok(Person { identity, home })
}

fn fields(line: &str) -> Vec<&str> {
    line.split(':').collect()
}

/// The third field of the passwd(5) or group(5) line whose first field is `name`.
pub(crate) fn number_in(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME_USERS: &str = "root:x:0:0::/root:/bin/sh\nweb:x:33:34::/srv:/bin/false\nbad\n";
    const SOME_GROUPS: &str = "root:x:0:\nweb:x:34:\nlog:x:4:sys,web\nssl:x:5:web\n:x:6:\n";

    fn found(
        user: &str,
        group: Option<&str>,
    ) -> Result<(u32, u32, Vec<u32>, Option<String>), String> {
        let person = find_in(SOME_USERS, SOME_GROUPS, user, group)?;
        let Identity { user, group, groups } = person.identity;
        Ok((user, group, groups, person.home))
    }

    #[test]
    fn users_go_by_name_or_number_with_all_their_groups() {
        let web = (33, 34, vec![4, 5], Some("/srv".to_owned()));
        assert_eq!(found("web", None).unwrap(), web);
        assert_eq!(found("33", None).unwrap(), web);
        let log = (33, 4, vec![], Some("/srv".to_owned()));
        assert_eq!(found("web", Some("log")).unwrap(), log);
        assert_eq!(found("70", Some("9")).unwrap(), (70, 9, vec![], None));
        assert_eq!(found("4242", None).unwrap(), (4242, 0, vec![], None));
    }

    #[test]
    fn who_is_in_no_list_is_named() {
        assert!(found("nobody-such", None).unwrap_err().contains("no user \"nobody-such\""));
        assert!(found("web", Some("such")).unwrap_err().contains("no group \"such\""));
    }
}
