//! Filters at a packet socket: classic instructions, or a program of BPF (socket(7), bpf(2)).
//!
//! A filter says how many bytes of a frame are kept; 0: it is none of ours. It sees frames without
//! the VLAN tag that the kernel has taken out. The kernel checks instructions and refuses wrong ones.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::option;

/// `BPF_RET | BPF_K`: ends with a constant.
const RETURN: u16 = 0x06;

/// An instruction of classic BPF, as the kernel takes it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawInsn {
    /// What is done.
    pub code: u16,
    /// How many instructions are left out if a comparison holds.
    pub jt: u8,
    /// How many are left out if it does not.
    pub jf: u8,
    /// Its operand.
    pub k: u32,
}

const _: () = assert!(size_of::<RawInsn>() == size_of::<libc::sock_filter>());
const _: () = assert!(align_of::<RawInsn>() == align_of::<libc::sock_filter>());

/// What decides which frames are taken.
#[derive(Clone, Copy, Debug)]
pub(super) enum Filter<'a> {
    All,
    Classic(&'a [RawInsn]),
    Program(BorrowedFd<'a>),
}

/// Takes nothing from now on; what the kernel is busy with may still come.
pub(super) fn reject(fd: &OwnedFd) -> io::Result<()> {
    attach_classic(fd, &[RawInsn { code: RETURN, jt: 0, jf: 0, k: 0 }])
}

/// Attaches it in place of what was there, at once; frames are cut to `snaplen` bytes by the kernel
/// as far as that can be said beforehand.
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

/// The same, keeping no more than `most` bytes wherever it ends with a constant.
fn limited(program: &[RawInsn], most: u32) -> Vec<RawInsn> {
    let limit = |insn: &RawInsn| match insn.code {
        RETURN => RawInsn { k: insn.k.min(most), ..*insn },
        _ => *insn,
    };
    program.iter().map(limit).collect()
}

fn attach_classic(fd: &OwnedFd, program: &[RawInsn]) -> io::Result<()> {
    let request = libc::sock_fprog {
        len: libc::c_ushort::try_from(program.len())
            .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?,
        filter: program.as_ptr().cast_mut().cast(),
    };
    let length = option::length_of::<libc::sock_fprog>()?;
    let at = (&raw const request).cast();
    // SAFETY: `request` is live and names `len` live instructions of the kernel's layout; the kernel
    // only reads both, and keeps a copy.
    let ret = unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, at, length)
    };
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
