//! The kernel's keyrings (keyrings(7)): denied to programs that must not see others' keys.
//!
//! Keys belong to users, and a node's root is the machine's root; so a node's programs get none of the calls
//! that find keys, as in containers: see seccomp(2). Children inherit the filter, and no process can remove
//! it.

use std::io;

use crate::{Failure, Result};

/// Machines as seccomp(2) names them (linux/audit.h), each with its numbers of `add_key`, `request_key`
/// and `keyctl`: this program's own, and the compatible one whose programs also run here.
#[cfg(target_arch = "x86_64")]
const MACHINES: [(u32, [u32; 3]); 2] =
    [(0xC000_003E, [248, 249, 250]), (0x4000_0003, [286, 287, 288])];
#[cfg(target_arch = "aarch64")]
const MACHINES: [(u32, [u32; 3]); 2] =
    [(0xC000_00B7, [217, 218, 219]), (0x4000_0028, [309, 310, 311])];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINES: [(u32, [u32; 3]); 0] = [];

/// Clears the bit that marks the x32 ABI's call numbers.
const NOT_X32: u32 = !0x4000_0000;

/// Offsets of the call's number and the machine in `struct seccomp_data`.
const NUMBER: u32 = 0;
const MACHINE: u32 = 4;

/// Denies the keyring calls to this process and its future children: they fail with ENOSYS, as on a
/// kernel without keyrings. On a kernel without filters nothing changes.
///
/// # Errors
/// EACCES without `CAP_SYS_ADMIN`.
pub fn forbid() -> Result<()> {
    let mut filter = filter();
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).unwrap_or_default(),
        filter: filter.as_mut_ptr(),
    };
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW);
    // SAFETY: the kernel copies `len` instructions, all present, and keeps no pointer to them. The flag
    // leaves speculation unchanged, which programs of this process's user may have in any case.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    let error = io::Error::last_os_error();
    match done {
        0 => Ok(()),
        _ if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        _ => Err(Failure::new("keyrings", "forbid", error).into()),
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

/// For each machine: refuses its keyring calls, allows all others. Uses only instructions that let
/// the kernel determine in advance which calls are allowed whatever their arguments.
fn filter() -> Vec<libc::sock_filter> {
    let mut all = vec![load(MACHINE)];
    for (machine, calls) in MACHINES {
        // The three numbers, the mask, as many comparisons, and the two returns.
        all.push(unless_equal(machine, 7));
        all.push(load(NUMBER));
        all.push(code(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, NOT_X32));
        all.extend((0..3).map(|i| if_equal(calls[usize::from(i)], 3 - i)));
        all.push(code(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
        all.push(code(libc::BPF_RET | libc::BPF_K, refusal()));
    }
    all.push(code(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    all
}

fn refusal() -> u32 {
    libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()
}

fn load(offset: u32) -> libc::sock_filter {
    code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn if_equal(value: u32, skip: u8) -> libc::sock_filter {
    libc::sock_filter { jt: skip, ..code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value) }
}

fn unless_equal(value: u32, skip: u8) -> libc::sock_filter {
    libc::sock_filter { jf: skip, ..code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value) }
}

fn code(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: u16::try_from(code).unwrap_or_default(), jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The filter's verdict on a call, by the rules of bpf(4).
    fn verdict(machine: u32, number: u32) -> u32 {
        let (filter, mut at, mut value) = (filter(), 0, 0);
        loop {
            let now = &filter[at];
            at += 1;
            match u32::from(now.code) & 7 {
                libc::BPF_LD => value = if now.k == MACHINE { machine } else { number },
                libc::BPF_ALU => value &= now.k,
                libc::BPF_JMP => at += usize::from(if value == now.k { now.jt } else { now.jf }),
                _ => return now.k,
            }
        }
    }

    #[test]
    fn the_calls_of_keyrings_are_refused_and_no_others() {
        for (machine, calls) in MACHINES {
            for number in 0..1000 {
                let refused = verdict(machine, number) != libc::SECCOMP_RET_ALLOW;
                assert_eq!(refused, calls.contains(&number), "{machine:x} {number}");
                if calls.contains(&number) {
                    assert_eq!(verdict(machine, number | 0x4000_0000), refusal());
                }
            }
        }
        assert_eq!(verdict(0x1234, 250), libc::SECCOMP_RET_ALLOW);
    }

    #[test]
    fn the_own_machines_numbers_are_the_kernels() {
        if let Some((_, calls)) = MACHINES.first() {
            let known = [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl];
            assert_eq!(calls.map(libc::c_long::from), known);
        }
    }
}
