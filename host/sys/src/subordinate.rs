//! Many users in an ordinary user's user namespace, from the ranges that the machine gives this user.
//!
//! subuid(5) and subgid(5) give a user ranges of ids, and newuidmap(1) and newgidmap(1), which have the right to, map
//! them: root inside is the user outside, and 1 and more inside are the ranges, one after the other. The programs must
//! run outside of the new namespace, so a helper runs them, forked before.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::process::{self, Forked, Namespaces};
use crate::{Failure, Result, Unsupported, describe, feature, namespace, scm};

/// The feature's name, as `doctor` lists it.
pub const FEATURE: &str = "users in nodes";

/// As many ids as it takes for `nobody`, 65534, to be one.
const LEAST: u64 = 65_534;

/// More ranges are left out: kernels take 340 lines, and arguments have bounds.
const MOST_RANGES: usize = 64;

/// The programs, users' first.
const PROGRAMS: [&str; 2] = ["newuidmap", "newgidmap"];

/// Where they may be besides `PATH`.
const FOLDERS: &str = "/usr/bin:/usr/local/bin:/bin";

/// A range of ids outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u32,
    count: u32,
}

/// What this user is given, and the programs that map it.
#[derive(Debug)]
pub struct Given {
    users: Vec<Range>,
    groups: Vec<Range>,
    map_users: PathBuf,
    map_groups: PathBuf,
}

impl Given {
    /// Looks up what this user is given. Whether it works shows when it is used.
    ///
    /// # Errors
    /// The missing part, and the command that provides it.
    pub fn find() -> std::result::Result<Given, Unsupported> {
        let uid = rustix::process::getuid().as_raw();
        let names = own_names(&read("/etc/passwd"), uid);
        let ranges = |path: &str| ranges(&read(path), &names);
        let (users, groups) = (ranges("/etc/subuid"), ranges("/etc/subgid"));
        for (path, found) in [("/etc/subuid", &users), ("/etc/subgid", &groups)] {
            let count = total(found);
            if count < LEAST {
                let name = names.first().map_or("", String::as_str);
                return Err(unsupported(
                    format!("{path} gives user {name} {count} ids, and {LEAST} are needed"),
                    format!(
                        "give them with: sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {name} \
                         (a range that no other user has)"
                    ),
                ));
            }
        }
        let [map_users, map_groups] = PROGRAMS.map(program);
        match (map_users, map_groups) {
            (Some(map_users), Some(map_groups)) => {
                Ok(Given { users, groups, map_users, map_groups })
            }
            _ => Err(unsupported(
                "newuidmap and newgidmap are not installed".to_owned(),
                "install them with: sudo apt install uidmap (elsewhere: shadow-utils)".to_owned(),
            )),
        }
    }

    /// How many users there are besides root.
    pub fn users(&self) -> u64 {
        total(&self.users)
    }
}

/// The refusal of newuidmap or newgidmap.
pub fn refused(words: &str) -> Unsupported {
    let needs = "newuidmap and newgidmap need their setuid bit or file capabilities, and this user's group must be that \
                 of /etc/passwd: sudo apt install --reinstall uidmap";
    unsupported(words.to_owned(), needs.to_owned())
}

fn unsupported(reason: String, needs: String) -> Unsupported {
    Unsupported { feature: FEATURE, reason, needs }
}

/// Whether an ordinary user's labs have many users here: tried.
///
/// # Errors
/// The missing part, and the command that provides it.
pub fn probe() -> std::result::Result<u64, Unsupported> {
    let given = Given::find()?;
    let tried = feature::in_child(|| match enter(&given)? {
        None => Ok(()),
        Some(words) => Err(Failure::new("users", "map", words).into()),
    });
    tried.map(|()| given.users()).map_err(|words| refused(&words))
}

/// Creates a user namespace in which this user is root, with the ids given. The process must have one thread. Returns
/// the words of a refusal: then the namespace has one user.
///
/// # Errors
/// The kernel refuses the namespace.
pub fn enter(given: &Given) -> Result<Option<String>> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (unix, packets) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (ours, theirs) = socketpair(unix, packets, SocketFlags::CLOEXEC, None)
        .map_err(|e| Failure::new("user namespace", "make a socket for", e))?;
    let target = rustix::process::getpid().as_raw_nonzero().get();
    let helper = match process::fork_alone(Namespaces::NONE, None)? {
        Forked::Child => {
            drop(ours);
            map_when_told(given, (uid, gid), target, &theirs)
        }
        Forked::Parent(helper) => helper,
    };
    drop(theirs);
    namespace::new_user()?;
    scm::send(&ours, b"made", &[])?;
    let mut text = [0; 1024];
    let (n, _) = scm::receive(&ours, &mut text)?;
    // Where the kernel reaps children there is none to wait for.
    let _ = process::wait_or_stop(helper);
    if &text[..n] == DONE {
        return Ok(None);
    }
    namespace::map_what_is_left_to_root(uid, gid)?;
    Ok(Some(String::from_utf8_lossy(&text[..n]).into_owned()))
}

/// What the helper says when all is mapped.
const DONE: &[u8] = b"done";

/// The helper's work: maps, groups first, when the namespace is there.
fn map_when_told(given: &Given, own: (u32, u32), target: i32, socket: &OwnedFd) -> ! {
    let _ = process::die_with_parent(true);
    // With SIGCHLD ignored the kernel would reap a program before its status is read.
    process::set_ignored(Signal::CHILD.as_raw(), false);
    process::unblock_signals();
    if !matches!(scm::receive(socket, &mut [0; 8]), Ok((n, _)) if n > 0) {
        process::exit_now(1);
    }
    let (uid, gid) = own;
    let done = map(&given.map_groups, target, gid, &given.groups)
        .and_then(|()| map(&given.map_users, target, uid, &given.users));
    let words = match &done {
        Ok(()) => DONE.to_vec(),
        Err(e) => describe(e).into_bytes(),
    };
    let _ = scm::send(socket, &words[..words.len().min(1000)], &[]);
    process::exit_now(0)
}

/// Runs one of the programs.
fn map(program: &Path, target: i32, own: u32, ranges: &[Range]) -> Result<()> {
    let fail = |words: io::Error| crate::Error::from(Failure::path(program, "run", words));
    let done = Command::new(program).args(arguments(target, own, ranges)).output().map_err(fail)?;
    if done.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&done.stderr);
    let first = words.lines().next().unwrap_or("it says nothing").to_owned();
    Err(fail(io::Error::other(first)))
}

/// The arguments of newuidmap(1): this user as root, then the ranges.
fn arguments(target: i32, own: u32, ranges: &[Range]) -> Vec<String> {
    let mut numbers = vec![0, u64::from(own), 1];
    let mut inside = 1;
    for range in ranges {
        numbers.extend([inside, range.start.into(), range.count.into()]);
        inside += u64::from(range.count);
    }
    std::iter::once(target.to_string()).chain(numbers.iter().map(u64::to_string)).collect()
}

/// A file of the machine; an absent one gives nothing.
fn read(path: &str) -> String {
    std::fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// What a user is called in subuid(5): names, then the number.
fn own_names(passwd: &str, uid: u32) -> Vec<String> {
    let number = uid.to_string();
    let named = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_owned())
    };
    passwd.lines().filter_map(named).chain([number.clone()]).collect()
}

/// The valid ranges of the users with these names.
fn ranges(text: &str, names: &[String]) -> Vec<Range> {
    let one = |line: &str| {
        let fields: Vec<&str> = line.trim().split(':').collect();
        let [name, start, count] = fields.as_slice() else { return None };
        let (start, count): (u32, u32) = (start.parse().ok()?, count.parse().ok()?);
        let fits = start > 0 && count > 0 && start.checked_add(count).is_some();
        (fits && names.iter().any(|of| of == name)).then_some(Range { start, count })
    };
    text.lines().filter_map(one).take(MOST_RANGES).collect()
}

fn total(ranges: &[Range]) -> u64 {
    ranges.iter().map(|range| u64::from(range.count)).sum()
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(std::env::split_paths(FOLDERS));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_user_by_name_or_number() {
        let names = own_names("root:x:0:0::/:\nann:x:1000:1000::/:\nanna:x:1001:1::/:\n", 1000);
        assert_eq!(names, ["ann", "1000"]);
        let text = "root:1:1\nann:100000:65536\nanna:5:5\n1000:300000:10\nann:0:5\nann:4294967295:9\nann:x:1\nann:7\n";
        let found = ranges(text, &names);
        let expected = [(100_000, 65_536), (300_000, 10)];
        assert_eq!(found, expected.map(|(start, count)| Range { start, count }));
        assert_eq!(total(&found), 65_546);
    }

    #[test]
    fn the_ranges_follow_each_other_behind_root() {
        let ranges =
            [(100_000, 65_536), (300_000, 10)].map(|(start, count)| Range { start, count });
        let expected = "7 0 1000 1 1 100000 65536 65537 300000 10";
        assert_eq!(arguments(7, 1000, &ranges).join(" "), expected);
    }
}
