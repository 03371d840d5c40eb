//! File systems whose content is not the kernel's word.
//!
//! A FUSE file system says what its server wants, owners and modes too: a user who may serve one to others (`allow_other`) can
//! mount it on a folder of their own and show one of root's. `user_id` among its options is the user that mounted it: the
//! table of mounts is the kernel's. Links of /proc lead elsewhere than their text says.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags};

use super::{shown, untrusted};
use crate::{Failure, Result};

/// The numbers of file systems, statfs(2).
const FUSE: i64 = 0x6573_5546;
const PROC: i64 = 0x9fa0;

/// The table of mounts of this thread, which may have others than its process.
const TABLE: &str = "/proc/thread-self/mountinfo";

/// Whether a file system that a path comes to says the truth about its owners.
pub(crate) fn judge(at: &OwnedFd, path: &Path) -> Result<()> {
    // Its server may answer with an error, which counts as no answer.
    if kind(at, path)? != FUSE {
        return Ok(());
    }
    let found = rustix::fs::statx(at, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID);
    let found = found.map_err(Failure::of(shown(path), "find the mount of"))?;
    let table = std::fs::read(TABLE).map_err(|e| Failure::path(TABLE, "read", e))?;
    match server(&String::from_utf8_lossy(&table), found.stx_mnt_id) {
        Server::Kernel => Ok(()),
        Server::User(uid) if uid == 0 || uid == rustix::process::geteuid().as_raw() => Ok(()),
        Server::User(uid) => Err(untrusted(
            path,
            format!("it is on a file system that user {uid} serves, who can put anything there"),
        )),
        Server::Unknown => {
            Err(untrusted(path, "it is on a file system that somebody unknown serves".into()))
        }
    }
}

/// Whether a link leads where its text says.
pub(super) fn judge_link(link: &OwnedFd, path: &Path) -> Result<()> {
    match kind(link, path)? {
        PROC => Err(untrusted(
            path,
            "it is a link of /proc, which leads elsewhere than it says; name the folder".into(),
        )),
        _ => Ok(()),
    }
}

fn kind(at: &OwnedFd, path: &Path) -> Result<i64> {
    let found = rustix::fs::fstatfs(at).map_err(Failure::of(shown(path), "look at"))?;
    Ok(found.f_type)
}

/// Who says what is in a file system.
#[derive(Debug, PartialEq, Eq)]
enum Server {
    /// The kernel, or what root has given it.
    Kernel,
    User(u32),
    Unknown,
}

/// The user that serves the mount of this number, by the table of mounts.
fn server(table: &str, mount: u64) -> Server {
    let mount = mount.to_string();
    let line = table.lines().find(|line| line.split(' ').next() == Some(mount.as_str()));
    // Spaces in names are escaped there.
    let Some((_, about)) = line.and_then(|line| line.split_once(" - ")) else {
        return Server::Unknown;
    };
    let mut words = about.split(' ');
    let (kind, options) = (words.next().unwrap_or_default(), words.nth(1).unwrap_or_default());
    if !kind.starts_with("fuse") {
        return Server::Kernel;
    }
    let user = options.split(',').find_map(|option| option.strip_prefix("user_id="));
    user.and_then(|user| user.parse().ok()).map_or(Server::Unknown, Server::User)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_serves_a_mount_is_in_the_table() {
        let table = "\
            24 1 0:22 / /proc rw shared:5 - proc proc rw\n\
            40 24 0:51 / /tmp/a\\040-\\040b rw - fuse.sshfs h:/user_id=0 rw,user_id=7,group_id=7,allow_other\n\
            41 24 0:52 / /shared rw - virtiofs tag rw\n\
            42 24 0:53 / /x rw - fuse x rw\n";
        assert_eq!(server(table, 40), Server::User(7));
        assert_eq!([server(table, 24), server(table, 41)], [Server::Kernel, Server::Kernel]);
        assert_eq!([server(table, 42), server(table, 4)], [Server::Unknown, Server::Unknown]);
    }
}
