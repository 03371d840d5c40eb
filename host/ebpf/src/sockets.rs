//! Counts and limits the IPv4 and IPv6 sockets that a node has open, by group of processes.
//!
//! One pair of programs is attached to the lab's cgroup2 directory. Every group below it, up to
//! eight levels deep, can have an entry. A socket counts in the group of the process that makes it
//! and in each group above with an entry, until its last holder, in whatever group, closes it.
//!
//! * A socket above a limit is refused with `ENFILE` ("too many open files in system"): to its
//!   programs the node is the system, and they know that error from `socket(2)`.
//! * The limit is exact: room is checked and taken in all groups in one step, so as many attempts
//!   succeed as there is room for, however many run at once.
//! * Not counted: UNIX, packet and netlink sockets, the kernel's own sockets, connections taken by
//!   `accept`, which the kernel makes without asking (see [`SocketCounts::uncounted`]), and sockets
//!   older than their group's entry.
//! * A closed socket no longer counts, though the kernel may still send its remaining data.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use libbpf_rs::OpenObject;
use libbpf_sys::{BPF_CGROUP_INET_SOCK_CREATE, BPF_CGROUP_INET_SOCK_RELEASE};
use netloom_sys::{Failure, Unsupported};
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
/// Stands for groups without an entry.
const NONE: GroupId = GroupId(0);
/// The file system type of version 2 groups (`linux/magic.h`).
const CGROUP2_MAGIC: i64 = 0x6367_7270;

/// The limits of one lab. Dropping it changes nothing.
#[derive(Debug)]
pub struct SocketLimits {
    limits: Map,
    counts: Map,
}

/// A group's id in the kernel, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(u64);

/// Counters of a group and the groups below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketCounts {
    /// Sockets that are open.
    pub open: u64,
    /// The limit; `None`: counted only.
    pub limit: Option<u32>,
    /// Attempts refused because this group was full. If several groups were full, the innermost one
    /// counts the attempt.
    pub refused: u64,
    /// The most sockets open at once.
    pub peak: u64,
    /// Uncounted sockets closed by processes of the group: accepted connections and older sockets.
    /// Exact for closings by the node's own processes; sockets that the kernel closes later on its
    /// own are not included.
    pub uncounted: u64,
}

impl GroupId {
    /// The id of the group with this cgroup2 directory.
    ///
    /// # Errors
    /// The directory cannot be opened or is not a version 2 group.
    pub fn of(dir: &Path) -> Result<Self> {
        open(dir).map(|(_, id)| id)
    }

    fn key(self) -> [u8; ID] {
        self.0.to_ne_bytes()
    }
}

impl SocketLimits {
    /// Attaches the programs to the lab's cgroup2 directory. They go with the directory.
    ///
    /// # Errors
    /// [`Error::Exists`] if they are attached already: call [`SocketLimits::reopen`] instead.
    /// [`Error::Unsupported`] if the kernel or the user lacks something.
    pub fn create(lab: &Path) -> Result<Self> {
        let (folder, id) = open(lab)?;
        if find(lab, &folder)?.is_some() {
            return Err(Error::Exists { object: format!("{}", lab.display()), program: CREATE });
        }
        let loaded = load(id)?;
        let (limits, counts) = (loaded.map(LIMITS)?, loaded.map(COUNTS)?);
        // Before the programs run: without this entry they count nothing.
        counts.put_new(&NONE.key(), &[0; COUNT_WORDS])?;
        // The release program first: a socket must not be counted before its end can be.
        let (group, end) = (folder.as_fd(), BPF_CGROUP_INET_SOCK_RELEASE);
        let (release, create) = (loaded.program(RELEASE)?, loaded.program(CREATE)?);
        let failed = |source| Failure::path(lab, "attach socket limits", source);
        attach::attach_to_group(&release, group, end).map_err(failed)?;
        if let Err(source) = attach::attach_to_group(&create, group, BPF_CGROUP_INET_SOCK_CREATE) {
            // Alone it counts what nobody reads, and nothing finds it later: the other one is looked for.
            let _ = attach::detach_from_group(&release, group, end);
            return Err(failed(source).into());
        }
        Ok(Self { limits, counts })
    }

    /// Finds the programs attached to the lab's directory, by whichever process; `None` if there are none.
    ///
    /// # Errors
    /// The directory cannot be opened, or another version's programs are attached.
    pub fn reopen(lab: &Path) -> Result<Option<Self>> {
        let (folder, _) = open(lab)?;
        let Some(program) = find(lab, &folder)? else { return Ok(None) };
        let limits = program.map(LIMITS, ID, LIMIT)?;
        Ok(Some(Self { limits, counts: program.map(COUNTS, ID, size_of::<u64>() * COUNT_WORDS)? }))
    }

    /// Counts the sockets that processes of this group make from now on, and refuses those above
    /// the limit. If the group is counted already, only the limit changes: open sockets stay open.
    ///
    /// # Errors
    /// The directory cannot be opened, or there are too many groups (65,536).
    pub fn set(&self, group: &Path, limit: Option<u32>) -> Result<GroupId> {
        let id = GroupId::of(group)?;
        self.limits.put(&id.key(), &[limit.map_or(u64::MAX, u64::from)])?;
        // An entry that is there keeps its number, by which open sockets are counted down.
        self.counts.put_new(&id.key(), &[epoch()?, 0, 0, 0, 0])?;
        Ok(id)
    }

    /// Stops counting and limiting a group, which may be gone. Returns whether it was counted. If
    /// the group is set again, sockets open now are not counted.
    ///
    /// # Errors
    /// The maps cannot be written.
    pub fn forget(&self, group: GroupId) -> Result<bool> {
        let was = self.limits.remove(&group.key())?;
        self.counts.remove(&group.key())?;
        Ok(was)
    }

    /// A group's counters.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the group was not set.
    pub fn read(&self, group: &Path) -> Result<SocketCounts> {
        self.read_by_id(GroupId::of(group)?)
    }

    /// The same for a group whose directory may be gone.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the group was not set.
    pub fn read_by_id(&self, group: GroupId) -> Result<SocketCounts> {
        let unknown =
            || Error::Unknown { object: format!("group {}", group.0), reason: "not counted" };
        let [limit] = self.limits.get(&group.key())?.ok_or_else(unknown)?;
        let [_, open, peak, refused, uncounted] =
            self.counts.get(&group.key())?.ok_or_else(unknown)?;
        // The value without a limit does not fit 32 bits.
        Ok(SocketCounts { open, limit: u32::try_from(limit).ok(), refused, peak, uncounted })
    }

    /// All counted groups.
    pub fn groups(&self) -> Vec<GroupId> {
        let ids = self.limits.keys().into_iter().filter_map(|key| key.try_into().ok());
        ids.map(|key| GroupId(u64::from_ne_bytes(key))).collect()
    }
}

/// Loads and unloads the programs: whether the kernel accepts them.
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
        .map_err(|source| Failure::path(lab, "ask for programs", source))?;
    Program::find(&ids, CREATE)
}

fn open(dir: &Path) -> Result<(OwnedFd, GroupId)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder =
        rustix::fs::open(dir, flags, Mode::empty()).map_err(|e| Failure::path(dir, "open", e))?;
    let system =
        rustix::fs::fstatfs(&folder).map_err(|e| Failure::path(dir, "ask for the kind of", e))?;
    if system.f_type != CGROUP2_MAGIC {
        return Err(no_group(dir).into());
    }
    // The inode number of a group's directory is the group's id.
    let status =
        rustix::fs::fstat(&folder).map_err(|e| Failure::path(dir, "ask for the id of", e))?;
    Ok((folder, GroupId(status.st_ino)))
}

fn no_group(dir: &Path) -> Unsupported {
    Unsupported {
        feature: PART.name,
        reason: format!("{} is not a cgroup of version 2", dir.display()),
        needs: "mount it with: mount -t cgroup2 none /sys/fs/cgroup/unified".to_owned(),
    }
}

/// A number that no earlier count of the same group had.
fn epoch() -> Result<u64> {
    netloom_sys::random::number().map_err(|e| Failure::new("random number", "get", e).into())
}
