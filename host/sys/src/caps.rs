//! Capabilities: which ones a node's programs may have.
//!
//! Capabilities not granted to a node leave the bounding set, so no program of the node gains them
//! by exec. An init keeps more than its programs, so they may neither trace it nor read its root,
//! memory or descriptors (ptrace(2), "Ptrace access mode checking"). See capabilities(7).

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::{Error, Failure, Result};

/// Granted to no node: kernel modules, clock, reboot, device nodes, raw I/O, file handles of
/// foreign file systems, security policy, the kernel log.
const DROPPED: CapabilitySet = CapabilitySet::SYS_MODULE
    .union(CapabilitySet::SYS_TIME)
    .union(CapabilitySet::SYS_BOOT)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::SYS_RAWIO)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::LINUX_IMMUTABLE)
    .union(CapabilitySet::MAC_ADMIN)
    .union(CapabilitySet::MAC_OVERRIDE)
    .union(CapabilitySet::SYSLOG)
    .union(CapabilitySet::AUDIT_CONTROL)
    .union(CapabilitySet::WAKE_ALARM)
    .union(CapabilitySet::BLOCK_SUSPEND);

/// For programs that set up a node's network, serve on low ports, and change user and root: a
/// container's default set, plus the network's.
const ORDINARY: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::NET_BROADCAST)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::AUDIT_WRITE);

/// Capabilities are bits of a 64-bit word.
const BITS: u32 = 64;

/// The grant of a node's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The capabilities of ordinary networked programs.
    Ordinary,
    /// Everything that does not by itself reach beyond the node: mounts, tracing, BPF, and more.
    Privileged,
}

impl Grant {
    /// The grant for the lab file's key.
    pub fn of(privileged: bool) -> Grant {
        if privileged { Grant::Privileged } else { Grant::Ordinary }
    }

    fn capabilities(self) -> CapabilitySet {
        match self {
            Grant::Ordinary => ORDINARY,
            Grant::Privileged => CapabilitySet::all().difference(DROPPED),
        }
    }

    /// Removes all other capabilities from this process and its future children.
    ///
    /// # Errors
    /// EPERM when the process may not change its bounding set.
    pub fn limit(self) -> Result<()> {
        limit(self.capabilities(), self.capabilities())
    }

    /// Removes all other capabilities from the programs that this process starts. It keeps
    /// `CAP_SYS_PTRACE`: with more capabilities than they have, they cannot trace it.
    ///
    /// # Errors
    /// EPERM when the process may not change its bounding set.
    pub fn limit_programs(self) -> Result<()> {
        limit(self.capabilities(), self.capabilities().union(CapabilitySet::SYS_PTRACE))
    }
}

/// What it takes to change owners, users and groups.
const OF_USERS: CapabilitySet =
    CapabilitySet::CHOWN.union(CapabilitySet::SETUID).union(CapabilitySet::SETGID);

/// Removes the capabilities that change owners, users and groups from this process and its future children, which so
/// stay root whatever users there are.
///
/// # Errors
/// EPERM when the process may not change its bounding set.
pub fn stay_root() -> Result<()> {
    let kept = CapabilitySet::all().difference(OF_USERS);
    limit(kept, kept)
}

/// Leaves `programs` to started programs, and `own` to this process.
fn limit(programs: CapabilitySet, own: CapabilitySet) -> Result<()> {
    let fail = |operation| move |e: Errno| Error::from(Failure::new("capabilities", operation, e));
    // The bounding set comes first, because leaving it takes CAP_SETPCAP.
    for one in (0..BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        if programs.contains(one) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // The kernel does not know this one, so no process has it.
            Err(Errno::INVAL) => {}
            Err(e) => return Err(fail("leave the bounding set")(e)),
        }
    }
    let now = rustix::thread::capabilities(None).map_err(fail("read"))?;
    let sets = CapabilitySets {
        effective: now.effective.intersection(own),
        permitted: now.permitted.intersection(own),
        // To leave the bounding set takes nothing out of this one (capabilities(7)).
        inheritable: now.inheritable.intersection(programs),
    };
    rustix::thread::set_capabilities(None, sets).map_err(fail("drop"))
}

/// Gives up every capability of this process for good. Its user id stays.
///
/// # Errors
/// The kernel's error.
pub fn drop_all() -> Result<()> {
    set(CapabilitySet::empty(), "drop all")
}

/// What a process needs to use a socket that belongs to one user, whichever that is, and to make one of its own
/// that user's.
pub const FOR_OTHERS_SOCKETS: CapabilitySet =
    CapabilitySet::CHOWN.union(CapabilitySet::DAC_OVERRIDE);

/// Gives up every capability of this thread, and of threads that it starts, except those of `kept` that it has.
///
/// # Errors
/// The kernel's error.
pub fn drop_all_but(kept: CapabilitySet) -> Result<()> {
    let fail = |e: Errno| Error::from(Failure::new("capabilities", "read", e));
    let now = rustix::thread::capabilities(None).map_err(fail)?;
    set(now.effective.intersection(now.permitted).intersection(kept), "drop others")
}

fn set(kept: CapabilitySet, operation: &'static str) -> Result<()> {
    let fail = |operation| move |e: Errno| Error::from(Failure::new("capabilities", operation, e));
    // Else root's next exec would give all of them back (capabilities(7)).
    rustix::thread::set_no_new_privs(true).map_err(fail("forbid new ones"))?;
    let inheritable = CapabilitySet::empty();
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable };
    rustix::thread::set_capabilities(None, sets).map_err(fail(operation))
}

/// Whether this process may administer its user namespace.
pub fn is_privileged() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|c| c.effective.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_node_has_less_than_a_privileged_one() {
        let (less, more) = (Grant::Ordinary.capabilities(), Grant::Privileged.capabilities());
        assert!(more.contains(less));
        for one in [
            CapabilitySet::SYS_ADMIN,
            CapabilitySet::SYS_PTRACE,
            CapabilitySet::BPF,
            CapabilitySet::PERFMON,
            CapabilitySet::SETFCAP,
            CapabilitySet::SYS_RESOURCE,
            CapabilitySet::SYS_NICE,
        ] {
            assert!(!less.intersects(one) && more.contains(one), "{one:?}");
        }
        assert!(!more.intersects(DROPPED));
    }
}
