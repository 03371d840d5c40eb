//! Calls that change owners and users, answered with "done" and not done.
//!
//! Where a user namespace has one user, chown(2), setuid(2) and their kin fail, and programs that give up root's rights
//! at their start end. Under this filter they go on as root. It is not a security boundary: a program that could do nothing before can do
//! nothing more. getuid(2) and stat(2) return the truth after such a call, so a program that
//! checks (sshd) ends all the same.

use std::io;

use crate::answered::{self, Calls};
use crate::{Failure, Result, Unsupported};

/// chown, fchown, lchown, fchownat, setuid, setgid, setreuid, setregid, setresuid, setresgid, setgroups, setfsuid and
/// setfsgid, as far as a machine has them; those of 32 bits once more with wider numbers. The own machine comes first.
#[cfg(target_arch = "x86_64")]
const CALLS: &[Calls] = &[
    Calls {
        machine: answered::X86_64,
        numbers: &[92, 93, 94, 260, 105, 106, 113, 114, 117, 119, 116, 122, 123],
    },
    Calls { machine: answered::I386, numbers: &of_32_bits(298) },
];
#[cfg(target_arch = "aarch64")]
const CALLS: &[Calls] = &[
    Calls {
        machine: answered::ARM64,
        numbers: &[55, 54, 146, 144, 145, 143, 147, 149, 159, 151, 152],
    },
    Calls { machine: answered::ARM, numbers: &of_32_bits(325) },
];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CALLS: &[Calls] = &[];

/// The numbers of machines of 32 bits, which differ in fchownat's alone.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const fn of_32_bits(fchownat: u32) -> [u32; 25] {
    [
        182, 95, 16, fchownat, 23, 46, 70, 71, 164, 170, 81, 138, 139, // with ids of 16 bits
        212, 207, 198, 213, 214, 203, 204, 208, 210, 206, 215, 216, // with ids of 32 bits
    ]
}

/// The feature's name, as `doctor` lists it.
const FEATURE: &str = "pretended users";

/// Answers these calls of this process and its future children with success.
///
/// # Errors
/// EACCES without `CAP_SYS_ADMIN`; [`supported`] says why there is none.
pub fn begin() -> Result<()> {
    let fail = |e: io::Error| Failure::new("changes of owners and users", "answer", e);
    supported()?;
    answered::answer(CALLS, 0).map_err(fail)?;
    Ok(())
}

/// Whether calls can be answered here.
///
/// # Errors
/// The kernel has no filters, or the machine's calls are not known.
pub fn supported() -> std::result::Result<(), Unsupported> {
    if !CALLS.is_empty() && answered::is_available() {
        return Ok(());
    }
    Err(Unsupported {
        feature: FEATURE,
        reason: "system calls cannot be filtered".to_owned(),
        needs: "run on x86-64 or arm64, on a kernel with CONFIG_SECCOMP_FILTER".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_are_answered_and_no_others() {
        answered::tests::assert_answers(CALLS, 0);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_own_machines_numbers_are_the_kernels() {
        let known = [
            libc::SYS_chown,
            libc::SYS_fchown,
            libc::SYS_lchown,
            libc::SYS_fchownat,
            libc::SYS_setuid,
            libc::SYS_setgid,
            libc::SYS_setreuid,
            libc::SYS_setregid,
            libc::SYS_setresuid,
            libc::SYS_setresgid,
            libc::SYS_setgroups,
            libc::SYS_setfsuid,
            libc::SYS_setfsgid,
        ];
        let listed: Vec<libc::c_long> = CALLS[0].numbers.iter().map(|n| (*n).into()).collect();
        assert_eq!(listed, known);
    }

    #[test]
    #[cfg(target_arch = "aarch64")]
    fn the_own_machines_numbers_are_the_kernels() {
        let known = [
            libc::SYS_fchown,
            libc::SYS_fchownat,
            libc::SYS_setuid,
            libc::SYS_setgid,
            libc::SYS_setreuid,
            libc::SYS_setregid,
            libc::SYS_setresuid,
            libc::SYS_setresgid,
            libc::SYS_setgroups,
            libc::SYS_setfsuid,
            libc::SYS_setfsgid,
        ];
        let listed: Vec<libc::c_long> = CALLS[0].numbers.iter().map(|n| (*n).into()).collect();
        assert_eq!(listed, known);
    }
}
