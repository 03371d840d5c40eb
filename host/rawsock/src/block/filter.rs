//! Filters of a packet socket: classic instructions, or a BPF program (socket(7), bpf(2)).
//!
//! A filter returns how many bytes of a frame to keep; 0 rejects it. It sees frames without a VLAN
//! tag stripped by the kernel. The kernel checks instructions and refuses invalid ones.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use netloom_sys::socket_filter;

use crate::option;

/// `BPF_RET | BPF_K`: returns a constant.
const RETURN: u16 = 0x06;

/// A classic BPF instruction (linux/filter.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawInsn {
    /// The operation.
    pub code: u16,
    /// Instructions to skip if a comparison holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// Its operand.
    pub k: u32,
}

/// The filter of a ring.
#[derive(Clone, Copy, Debug)]
pub(super) enum Filter<'a> {
    All,
    Classic(&'a [RawInsn]),
    Program(BorrowedFd<'a>),
}

/// Rejects everything from now on; frames that the kernel is processing may still arrive.
pub(super) fn reject(fd: &OwnedFd) -> io::Result<()> {
    attach_classic(fd, &[RawInsn { code: RETURN, jt: 0, jf: 0, k: 0 }])
}

/// Attaches it in place of the previous one, atomically; the kernel cuts frames to `snaplen` bytes
/// if the filter's result is a constant.
pub(super) fn attach(fd: &OwnedFd, filter: Filter<'_>, snaplen: Option<u32>) -> io::Result<()> {
    match (filter, snaplen) {
        (Filter::All, None) => option::set(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0),
        (Filter::All, Some(k)) => attach_classic(fd, &[RawInsn { code: RETURN, jt: 0, jf: 0, k }]),
        (Filter::Classic(program), None) => attach_classic(fd, program),
        (Filter::Classic(program), Some(most)) => attach_classic(fd, &limited(program, most)),
        (Filter::Program(program), _) => {
            option::set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, program.as_raw_fd())
        }
    }
}

/// The same program, keeping at most `most` bytes wherever it returns a constant.
fn limited(program: &[RawInsn], most: u32) -> Vec<RawInsn> {
    let limit = |insn: &RawInsn| match insn.code {
        RETURN => RawInsn { k: insn.k.min(most), ..*insn },
        _ => *insn,
    };
    program.iter().map(limit).collect()
}

fn attach_classic(fd: &OwnedFd, program: &[RawInsn]) -> io::Result<()> {
    let code =
        |insn: &RawInsn| libc::sock_filter { code: insn.code, jt: insn.jt, jf: insn.jf, k: insn.k };
    let program: Vec<_> = program.iter().map(code).collect();
    socket_filter::attach(fd.as_fd(), &program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_constants_at_an_end_are_limited() {
        let insn = |code, k| RawInsn { code, jt: 1, jf: 2, k };
        let program = [insn(0x15, 500), insn(RETURN, 500), insn(RETURN, 0), insn(0x16, 500)];
        let kept: Vec<u32> = limited(&program, 96).iter().map(|insn| insn.k).collect();
        assert_eq!(kept, [500, 96, 0, 500]);
    }
}
