//! A thread of root's that acts as another user for a moment: user, group and groups of the process that made a call.
//!
//! Only for threads of a process whose real user is root. Capabilities go with the effective user, and come back with it.

use std::io;

use crate::process::Status;

/// A user's ids and further groups (proc_pid_status(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Real, effective and saved user.
    users: [u32; 3],
    /// Likewise the group.
    own_groups: [u32; 3],
    groups: Vec<u32>,
}

/// Which of three ids is the effective one.
const EFFECTIVE: usize = 1;

impl Rights {
    /// Those of a thread; `None` if they cannot be read.
    pub fn of(tid: i32) -> Option<Rights> {
        Rights::read(&Status::of(tid)?)
    }

    fn read(status: &Status) -> Option<Rights> {
        let three = |key: &str| {
            let words = status.field(key)?.split_whitespace().take(3).map(str::parse);
            words.collect::<Result<Vec<u32>, _>>().ok()?.try_into().ok()
        };
        let groups = status.field("Groups")?.split_whitespace().map(|word| word.parse().ok());
        Some(Rights {
            users: three("Uid")?,
            own_groups: three("Gid")?,
            groups: groups.collect::<Option<_>>()?,
        })
    }

    /// The effective user.
    pub fn user(&self) -> u32 {
        self.users[EFFECTIVE]
    }

    /// The effective group.
    pub fn group(&self) -> u32 {
        self.own_groups[EFFECTIVE]
    }

    /// Whether a thread with these rights may call itself this user and group to others (unix(7), `SCM_CREDENTIALS`).
    pub fn may_sign_as(&self, user: u32, group: u32) -> bool {
        self.user() == 0 || (self.users.contains(&user) && self.own_groups.contains(&group))
    }

    /// Runs `act` with these rights. Root's need no change.
    ///
    /// # Errors
    /// The kernel refuses to change this thread's user; `act` has not run then.
    pub fn lend<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        if self.user() == 0 {
            return Ok(act());
        }
        let own = Rights::of(rustix::thread::gettid().as_raw_nonzero().get());
        let own = own.ok_or_else(|| io::Error::from_raw_os_error(libc::EPERM))?;
        // First: it also takes back what the next two do in part.
        let _back = Back(own);
        // Another user may not set them.
        self.groups_and_group()?;
        self.lend_user()?;
        Ok(act())
    }

    // The C library would change all threads; the kernel's own calls change this one.
    fn groups_and_group(&self) -> io::Result<()> {
        let (count, groups) = (self.groups.len(), self.groups.as_ptr());
        // SAFETY: the kernel reads `count` numbers, which `groups` holds.
        done(unsafe { libc::syscall(libc::SYS_setgroups, count, groups) })?;
        // SAFETY: takes numbers, and touches no memory.
        done(unsafe { libc::syscall(libc::SYS_setresgid, -1, self.group(), -1) })
    }

    fn lend_user(&self) -> io::Result<()> {
        // The real and the saved user stay root's, so that the thread can come back.
        // SAFETY: takes numbers, and touches no memory.
        done(unsafe { libc::syscall(libc::SYS_setresuid, -1, self.user(), -1) })
    }
}

/// Gives a thread its rights back, also when it panics.
struct Back(Rights);

impl Drop for Back {
    fn drop(&mut self) {
        // The user first: it brings back the capability that the groups need.
        if self.0.lend_user().and_then(|()| self.0.groups_and_group()).is_err() {
            // Nobody may go on with rights that are not known.
            std::process::abort();
        }
    }
}

fn done(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_ids_are_read() {
        let status = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \n";
        let expected = Rights { users: [1, 2, 3], own_groups: [5, 6, 7], groups: vec![9, 10] };
        let read = Rights::read(&Status::from(status.to_owned())).unwrap();
        assert_eq!((read.user(), read.group()), (2, 6));
        assert!(read.may_sign_as(1, 7) && !read.may_sign_as(4, 6) && !read.may_sign_as(2, 0));
        assert_eq!(read, expected);
        assert_eq!(Rights::read(&Status::from("Uid:\t1\n".to_owned())), None);
    }

    #[test]
    fn root_acts_as_another_and_is_root_again() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        use std::os::unix::fs::OpenOptionsExt;
        let path = std::env::temp_dir().join(format!("netloom-rights-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).open(&path).unwrap();
        let file = path.clone();
        let (users, own_groups) = ([65534; 3], [65534; 3]);
        let nobody = Rights { users, own_groups, groups: vec![] };
        let thread = std::thread::spawn(move || {
            let seen = nobody.lend(|| std::fs::read(&file).is_err());
            (seen.unwrap(), std::fs::read(&file).is_ok())
        });
        let seen = thread.join();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(seen.unwrap(), (true, true));
    }
}
