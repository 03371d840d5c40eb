//! The kernel's keyrings (keyrings(7)): denied to programs that must not see others' keys.
//!
//! Keys belong to users, and a node's root is the machine's root; so a node's programs get none of the calls
//! that find keys, as in containers: see seccomp(2). Children inherit the filter, and no process can remove
//! it.

use crate::answered::{self, Calls};
use crate::{Failure, Result};

/// The numbers of `add_key`, `request_key` and `keyctl`: this program's own machine first, then the compatible one
/// whose programs also run here.
#[cfg(target_arch = "x86_64")]
const CALLS: &[Calls] = &[
    Calls { machine: answered::X86_64, numbers: &[248, 249, 250] },
    Calls { machine: answered::I386, numbers: &[286, 287, 288] },
];
#[cfg(target_arch = "aarch64")]
const CALLS: &[Calls] = &[
    Calls { machine: answered::ARM64, numbers: &[217, 218, 219] },
    Calls { machine: answered::ARM, numbers: &[309, 310, 311] },
];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CALLS: &[Calls] = &[];

/// Denies the keyring calls to this process and its future children: they fail with ENOSYS, as on a
/// kernel without keyrings. On a kernel without filters nothing changes.
///
/// # Errors
/// EACCES without `CAP_SYS_ADMIN`.
pub fn forbid() -> Result<()> {
    match answered::answer(CALLS, libc::ENOSYS) {
        Ok(_) => Ok(()),
        Err(e) => Err(Failure::new("keyrings", "forbid", e).into()),
    }
}

/// Gives this process its own session keyring in place of its creator's. Without keyrings, or room
/// for another, it keeps that one.
pub fn leave_session() {
    const JOIN_SESSION: libc::c_long = 1;
    let unnamed = std::ptr::null::<libc::c_char>();
    // SAFETY: creates an anonymous keyring; touches no memory.
    unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION, unnamed) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_keyrings_are_refused_and_no_others() {
        answered::tests::assert_answers(CALLS, libc::ENOSYS);
    }

    #[test]
    fn the_own_machines_numbers_are_the_kernels() {
        if let Some(own) = CALLS.first() {
            let known = [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl];
            let listed: Vec<libc::c_long> = own.numbers.iter().map(|n| (*n).into()).collect();
            assert_eq!(listed, known);
        }
    }
}
