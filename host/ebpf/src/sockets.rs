//! How many IPv4 and IPv6 sockets a node may have open: counted and limited, per group of processes.
//!
//! One pair of programs is attached to the lab's cgroup2 folder. Every group below it, at any depth up
//! to eight, can have an entry; a socket counts in the group of the process that makes it and in each
//! group above that has an entry, until it is closed by the last who has it, whoever that is.
//!
//! * A socket above a limit is refused with `ENFILE` ("too many open files in system"): the node is
//!   the system that its programs see, and they know that error from `socket(2)`.
//! * The limit is exact: room is looked for and taken in one step in all groups at once, so that as many
//!   succeed as there is room for, however many try at the same moment.
//! * Not counted: UNIX, packet and netlink sockets, sockets that the kernel makes for itself, connections
//!   taken by `accept`, which the kernel makes without asking (see [`SocketCounts::uncounted`]), and
//!   sockets that were made before their group was set.
//! * A socket that is closed counts no more, though the kernel may still send what is left in it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use libbpf_rs::OpenObject;
use libbpf_sys::{BPF_CGROUP_INET_SOCK_CREATE, BPF_CGROUP_INET_SOCK_RELEASE};
use netloom_sys::Unsupported;
use rustix::fs::{Mode, OFlags};

use crate::load::{Loaded, Part};
use crate::map::Map;
use crate::program::Program;
use crate::{Error, Result, attach};

const PART: Part = Part {
    name: "socket limits",
    object: include_bytes!(concat!(env!("OUT_DIR"), "/sockets.bpf.o")),
};
const CREATE: &str = "nl_sock_create";
const RELEASE: &str = "nl_sock_release";
const LIMITS: &str = "nl_sock_limits";
const COUNTS: &str = "nl_sock_counts";
/// Bytes of a group's id.
const ID: usize = 8;
/// Bytes of a limit.
const LIMIT: usize = 8;
/// Words of `struct nl_sock_group`.
const COUNT_WORDS: usize = 5;
/// What stands for groups without an entry.
const NONE: GroupId = GroupId(0);
/// What the file system of version 2 groups says it is (`linux/magic.h`).
const CGROUP2_MAGIC: i64 = 0x6367_7270;

/// The limits of one lab. Dropping it changes nothing.
#[derive(Debug)]
pub struct SocketLimits {
    limits: Map,
    counts: Map,
}

/// A group as the kernel knows it; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(u64);

/// What was counted in a group and the groups below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketCounts {
    /// Sockets that are open.
    pub open: u64,
    /// The most that may be; `None`: counted only.
    pub limit: Option<u32>,
    /// Attempts refused because this group was full. An attempt for which several groups were full is
    /// counted in the innermost one.
    pub refused: u64,
    /// The most that were open at once.
    pub peak: u64,
    /// Sockets closed by processes of the group that had not been counted: accepted connections and
    /// those that were there before. Exact for closings by the node's own processes; what the kernel
    /// closes later on its own behalf is not seen here.
    pub uncounted: u64,
}

impl GroupId {
    /// The id of the group with this cgroup2 folder.
    ///
    /// # Errors
    /// The folder cannot be opened or is no group of version 2.
    pub fn of(dir: &Path) -> Result<Self> {
        open(dir).map(|(_, id)| id)
    }

    fn key(self) -> [u8; ID] {
        self.0.to_ne_bytes()
    }
}

impl SocketLimits {
    /// Attaches the programs to the lab's cgroup2 folder. They go with the folder.
    ///
    /// # Errors
    /// [`Error::Exists`] when they are attached there: then [`SocketLimits::reopen`] is right.
    /// [`Error::Unsupported`] where the kernel or the user lacks something.
    pub fn create(lab: &Path) -> Result<Self> {
        let (folder, id) = open(lab)?;
        if find(lab, &folder)?.is_some() {
            return Err(Error::Exists { object: format!("{}", lab.display()), program: CREATE });
        }
        let loaded = load(id)?;
        let (limits, counts) = (loaded.map(LIMITS)?, loaded.map(COUNTS)?);
        counts.put_new(&NONE.key(), &[0; COUNT_WORDS])?;
        // The release first: a socket must not be counted before its end can be.
        for (name, at) in
            [(RELEASE, BPF_CGROUP_INET_SOCK_RELEASE), (CREATE, BPF_CGROUP_INET_SOCK_CREATE)]
        {
            attach::attach_to_group(&loaded.program(name)?, folder.as_fd(), at)
                .map_err(|source| path(lab, "attach socket limits", source))?;
        }
        Ok(Self { limits, counts })
    }

    /// Finds what was attached to the lab's folder, by whichever process; `None` if nothing was.
    ///
    /// # Errors
    /// The folder cannot be opened; another version's programs are attached.
    pub fn reopen(lab: &Path) -> Result<Option<Self>> {
        let (folder, _) = open(lab)?;
        let Some(program) = find(lab, &folder)? else { return Ok(None) };
        let limits = program.map(LIMITS, ID, LIMIT)?;
        Ok(Some(Self { limits, counts: program.map(COUNTS, ID, size_of::<u64>() * COUNT_WORDS)? }))
    }

    /// Counts the sockets that processes of this group make from now on, and refuses those above the
    /// limit. Changes the limit where the group is counted already: what is open stays open.
    ///
    /// # Errors
    /// The folder cannot be opened; there are too many groups (65,536).
    pub fn set(&self, group: &Path, limit: Option<u32>) -> Result<GroupId> {
        let id = GroupId::of(group)?;
        self.limits.put(&id.key(), &[limit.map_or(u64::MAX, u64::from)])?;
        self.counts.put_new(&id.key(), &[epoch()?, 0, 0, 0, 0])?;
        Ok(id)
    }

    /// Stops counting and limiting a group, which need not exist any more. Whether it was counted.
    /// Sockets that are open are not counted if the group is set again.
    ///
    /// # Errors
    /// The maps cannot be written.
    pub fn forget(&self, group: GroupId) -> Result<bool> {
        let was = self.limits.remove(&group.key())?;
        self.counts.remove(&group.key())?;
        Ok(was)
    }

    /// What was counted in a group.
    ///
    /// # Errors
    /// [`Error::Unknown`] when the group was not set.
    pub fn read(&self, group: &Path) -> Result<SocketCounts> {
        self.read_by_id(GroupId::of(group)?)
    }

    /// The same for a group whose folder may be gone.
    ///
    /// # Errors
    /// [`Error::Unknown`] when the group was not set.
    pub fn read_by_id(&self, group: GroupId) -> Result<SocketCounts> {
        let unknown =
            || Error::Unknown { object: format!("group {}", group.0), reason: "not counted" };
        let [limit] = self.limits.get(&group.key())?.ok_or_else(unknown)?;
        let [_, open, peak, refused, uncounted] =
            self.counts.get(&group.key())?.ok_or_else(unknown)?;
        Ok(SocketCounts { open, limit: u32::try_from(limit).ok(), refused, peak, uncounted })
    }

    /// All groups that are counted.
    pub fn groups(&self) -> Vec<GroupId> {
        let ids = self.limits.keys().into_iter().filter_map(|key| key.try_into().ok());
        ids.map(|key| GroupId(u64::from_ne_bytes(key))).collect()
    }
}

/// Loads the programs and lets go of them: whether the kernel takes them.
pub(crate) fn probe() -> Result<()> {
    load(NONE).map(drop)
}

fn load(lab: GroupId) -> Result<Loaded> {
    PART.load(|open: &mut OpenObject| {
        let constants =
            open.maps_mut().find(|map| map.name().to_string_lossy().ends_with(".rodata"));
        constants.map_or(Ok(()), |mut map| map.set_initial_value(&lab.key()))
    })
}

fn find(lab: &Path, folder: &OwnedFd) -> Result<Option<Program>> {
    let ids = attach::attached_to_group(folder.as_fd(), BPF_CGROUP_INET_SOCK_CREATE)
        .map_err(|source| path(lab, "ask for programs", source))?;
    Program::find(&ids, CREATE)
}

fn open(dir: &Path) -> Result<(OwnedFd, GroupId)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder =
        rustix::fs::open(dir, flags, Mode::empty()).map_err(|e| path(dir, "open", e.into()))?;
    let system =
        rustix::fs::fstatfs(&folder).map_err(|e| path(dir, "ask for the kind of", e.into()))?;
    if system.f_type != CGROUP2_MAGIC {
        return Err(no_group(dir).into());
    }
    // The number of a group's folder is the group's id.
    let status =
        rustix::fs::fstat(&folder).map_err(|e| path(dir, "ask for the id of", e.into()))?;
    Ok((folder, GroupId(status.st_ino)))
}

fn path(path: &Path, operation: &'static str, source: std::io::Error) -> Error {
    Error::Path { path: path.to_owned(), operation, source }
}

fn no_group(dir: &Path) -> Unsupported {
    Unsupported {
        feature: PART.name,
        reason: format!("{} is no cgroup of version 2", dir.display()),
        needs: "mount it with: mount -t cgroup2 none /sys/fs/cgroup/unified".to_owned(),
    }
}

/// A number that no earlier counting of the same group had.
fn epoch() -> Result<u64> {
    let mut bytes = [0u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Error::call("random number", "get", e))?;
    Ok(u64::from_ne_bytes(bytes))
}
