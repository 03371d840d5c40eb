//! Filters that answer some system calls in the kernel's place, with one error number for all.
//!
//! Such a filter (seccomp(2)) is for this process and all that descend from it, and no process can remove it. It is
//! no guard's: nobody is asked. The number 0 means "done". Programs of another machine than those listed are left
//! alone.

use std::io;

/// The calls of programs of one machine, as seccomp(2) names machines (linux/audit.h).
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) machine: u32,
    /// Numbers, fewer than [`MOST`].
    pub(crate) numbers: &'static [u32],
}

/// Machines (linux/audit.h).
#[cfg(target_arch = "x86_64")]
pub(crate) const X86_64: u32 = 0xC000_003E;
#[cfg(target_arch = "x86_64")]
pub(crate) const I386: u32 = 0x4000_0003;
#[cfg(target_arch = "aarch64")]
pub(crate) const ARM64: u32 = 0xC000_00B7;
#[cfg(target_arch = "aarch64")]
pub(crate) const ARM: u32 = 0x4000_0028;

/// A jump of classic BPF reaches this far; the mask and the two returns are to be jumped over, too.
const MOST: usize = 250;

/// Clears the bit that marks the x32 ABI's call numbers.
const NOT_X32: u32 = !0x4000_0000;

/// Offsets of the call's number and the machine in `struct seccomp_data`.
const NUMBER: u32 = 0;
const MACHINE: u32 = 4;

/// Whether the kernel has such filters.
pub(crate) fn is_available() -> bool {
    let errno = libc::SECCOMP_RET_ERRNO;
    let (ask, flags) = (libc::SECCOMP_GET_ACTION_AVAIL, 0);
    // SAFETY: the kernel reads one word, which outlives the call.
    unsafe { libc::syscall(libc::SYS_seccomp, ask, flags, &raw const errno) == 0 }
}

/// Answers these calls of this process and its future children with `error`. Returns whether the kernel has such
/// filters; without them nothing changes.
///
/// # Errors
/// EACCES without `CAP_SYS_ADMIN`, or the kernel's other reasons.
pub(crate) fn answer(calls: &[Calls], error: i32) -> io::Result<bool> {
    let mut filter = filter(calls, error);
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).unwrap_or_default(),
        filter: filter.as_mut_ptr(),
    };
    // SPEC_ALLOW: this filter keeps no secret, so programs need no slower speculation.
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW);
    // SAFETY: the kernel copies `len` instructions, all present, and keeps no pointer to them. The flag
    // leaves speculation unchanged, which programs of this process's user may have in any case.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    let refusal = io::Error::last_os_error();
    match done {
        0 => Ok(true),
        _ if refusal.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        _ => Err(refusal),
    }
}

/// For each machine: answers its calls, allows all others. Uses only instructions that let the kernel determine in
/// advance which calls are allowed whatever their arguments.
fn filter(calls: &[Calls], error: i32) -> Vec<libc::sock_filter> {
    let mut all = vec![load(MACHINE)];
    for Calls { machine, numbers } in calls {
        let numbers = &numbers[..numbers.len().min(MOST)];
        let count = u8::try_from(numbers.len()).unwrap_or(u8::MAX);
        // The number, the mask, a comparison for each call, and the two returns.
        all.push(jump(*machine, 0, count + 4));
        all.push(load(NUMBER));
        all.push(code(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, NOT_X32));
        all.extend(
            numbers.iter().zip((1..=count).rev()).map(|(number, skip)| jump(*number, skip, 0)),
        );
        all.push(code(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
        all.push(code(libc::BPF_RET | libc::BPF_K, verdict(error)));
    }
    all.push(code(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    all
}

fn verdict(error: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | error.unsigned_abs()
}

fn load(offset: u32) -> libc::sock_filter {
    code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

/// Skips `equal` instructions where the loaded word is `value`, else `other`.
fn jump(value: u32, equal: u8, other: u8) -> libc::sock_filter {
    let compare = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    libc::sock_filter { jt: equal, jf: other, ..code(compare, value) }
}

fn code(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: u16::try_from(code).unwrap_or_default(), jt: 0, jf: 0, k }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The answer to a call, by the rules of bpf(4); `None` where the kernel does it.
    pub(crate) fn answered(calls: &[Calls], error: i32, machine: u32, number: u32) -> Option<u32> {
        let (filter, mut at, mut value) = (filter(calls, error), 0, 0);
        loop {
            let now = &filter[at];
            at += 1;
            match u32::from(now.code) & 7 {
                libc::BPF_LD => value = if now.k == MACHINE { machine } else { number },
                libc::BPF_ALU => value &= now.k,
                libc::BPF_JMP => at += usize::from(if value == now.k { now.jt } else { now.jf }),
                _ if now.k == libc::SECCOMP_RET_ALLOW => return None,
                _ => return Some(now.k & libc::SECCOMP_RET_DATA),
            }
        }
    }

    /// Asserts that these calls are answered with `error`, of x32 too, and no others.
    pub(crate) fn assert_answers(calls: &[Calls], error: i32) {
        let expected = Some(error.unsigned_abs());
        for Calls { machine, numbers } in calls {
            for number in 0..1000 {
                let found = answered(calls, error, *machine, number);
                let listed = numbers.contains(&number);
                assert_eq!(found, expected.filter(|_| listed), "{machine:x} {number}");
                let x32 = answered(calls, error, *machine, number | 0x4000_0000);
                assert_eq!(x32, found, "{machine:x} {number}");
            }
        }
        let first = calls.first().map_or(0, |of| of.numbers[0]);
        assert_eq!(answered(calls, error, 0x1234, first), None);
    }
}
