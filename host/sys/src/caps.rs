//! Capabilities: which ones a node's programs never have.
//!
//! They are taken out of the bounding set, so that no program of the node gets them back by exec.
//! See capabilities(7).

use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::{Error, Result};

/// What would let a node reach beyond itself: kernel modules, clock, reboot, device nodes, raw
/// I/O, file handles of foreign file systems, security policy, the kernel log.
pub const DROPPED: CapabilitySet = CapabilitySet::SYS_MODULE
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

/// Takes [`DROPPED`] out of the bounding set and the process's own sets.
///
/// # Errors
/// EPERM when the process may not change its bounding set.
pub fn drop_dangerous() -> Result<()> {
    let fail = |operation| move |e: rustix::io::Errno| Error::call("capabilities", operation, e);
    for one in DROPPED.iter() {
        match rustix::thread::remove_capability_from_bounding_set(one) {
            // EINVAL: an older kernel does not know this one, so nobody has it.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(e) => return Err(fail("leave the bounding set")(e)),
        }
    }
    let now = rustix::thread::capabilities(None).map_err(fail("read"))?;
    let kept = |set: CapabilitySet| set.difference(DROPPED);
    rustix::thread::set_capabilities(
        None,
        CapabilitySets {
            effective: kept(now.effective),
            permitted: kept(now.permitted),
            inheritable: kept(now.inheritable),
        },
    )
    .map_err(fail("drop"))
}

/// Gives up every capability for good, as far as this process has any. Its user stays.
///
/// # Errors
/// The kernel's refusal.
pub fn drop_all() -> Result<()> {
    let fail = |operation| move |e: rustix::io::Errno| Error::call("capabilities", operation, e);
    rustix::thread::set_no_new_privs(true).map_err(fail("forbid new ones"))?;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )
    .map_err(fail("drop all"))
}

/// Whether this process may administer its user namespace.
pub fn is_privileged() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|c| c.effective.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN))
}
