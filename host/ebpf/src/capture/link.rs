//! Attaches taps by links, which end with the process that owns them.
//!
//! Kernels without tcx have no links for traffic control: there a [`Filter`] is used.

use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_sys::{bpf_attach_type, bpf_link_create_opts, bpf_link_info};
use netloom_sys::Failure;

use crate::attach::Hook;
use crate::filter::{Filter, Place};
use crate::presence::Presence;
use crate::{Direction, Error, Result};

/// Priorities of our filters; lower ones run first.
const FIRST: std::ops::Range<u32> = 1..10;
const LAST: std::ops::Range<u32> = 30..40;

/// An attached program, detached on drop.
#[derive(Debug)]
pub(super) enum Attached {
    /// By a link.
    Link(OwnedFd),
    /// By a clsact filter.
    Filter(Filter),
}

/// The interface's name in errors.
pub(super) fn object(ifindex: u32) -> String {
    let mut object = format!("interface {ifindex}");
    if let Ok(name) = Presence::of(ifindex).and_then(|there| there.name()) {
        let _ = write!(object, " ({name})");
    }
    object
}

fn number(ifindex: u32) -> Result<i32> {
    i32::try_from(ifindex)
        .map_err(|_| Error::Unknown { object: object(ifindex), reason: "no index of an interface" })
}

/// Attaches by XDP: in the driver if it can, else right behind it. Fails if a program is attached.
pub(super) fn xdp(program: BorrowedFd<'_>, ifindex: u32) -> Result<Attached> {
    create(program, number(ifindex)?, libbpf_sys::BPF_XDP, 0).map(Attached::Link).map_err(|e| {
        let mut object = object(ifindex);
        if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
            && let Some(there) = at_xdp(ifindex)
        {
            let _ = write!(object, ", which runs XDP program {there} already");
        }
        Failure::new(object, "attach capture by XDP", e).into()
    })
}

/// An interface's XDP program.
fn at_xdp(ifindex: u32) -> Option<String> {
    let (index, mut id) = (i32::try_from(ifindex).ok()?, 0);
    // SAFETY: the call writes the number to our word, which outlives it.
    let refused = unsafe { libbpf_sys::bpf_xdp_query_id(index, 0, &raw mut id) };
    if refused < 0 || id == 0 {
        return None;
    }
    let known = libbpf_rs::query::ProgInfoIter::default().find(|program| program.id == id);
    Some(known.map_or_else(|| id.to_string(), |p| format!("{id} {:?}", p.name.to_string_lossy())))
}

/// Attaches by tcx or clsact: before all others at ingress, after them at egress.
pub(super) fn tc(
    hook: Hook,
    program: BorrowedFd<'_>,
    ifindex: u32,
    direction: Direction,
) -> Result<Attached> {
    let (at, order) = match direction {
        Direction::Ingress => (libbpf_sys::BPF_TCX_INGRESS, libbpf_sys::BPF_F_BEFORE),
        Direction::Egress => (libbpf_sys::BPF_TCX_EGRESS, libbpf_sys::BPF_F_AFTER),
    };
    match hook {
        Hook::Tcx => create(program, number(ifindex)?, at, order)
            .map(Attached::Link)
            .map_err(|e| Failure::new(object(ifindex), "attach capture by tcx", e).into()),
        Hook::Clsact => {
            let priorities = match direction {
                Direction::Ingress => FIRST,
                Direction::Egress => LAST,
            };
            let places = priorities.map(|priority| Place { priority, handle: 1 });
            Filter::attach(program, ifindex, direction, places)
                .map(Attached::Filter)
                .map_err(|e| Failure::new(object(ifindex), "attach capture by clsact", e).into())
        }
    }
}

fn create(
    program: BorrowedFd<'_>,
    ifindex: i32,
    at: bpf_attach_type,
    flags: u32,
) -> io::Result<OwnedFd> {
    let opts = bpf_link_create_opts {
        sz: size_of::<bpf_link_create_opts>() as u64,
        flags,
        ..Default::default()
    };
    // SAFETY: `opts` is a complete structure of its stated size and outlives the call.
    let fd =
        unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), ifindex, at, &raw const opts) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor is new and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Attached {
    /// Whether its interface still exists.
    pub(super) fn alive(&self) -> bool {
        match self {
            Attached::Link(link) => linked(link.as_fd()),
            // The filter goes with its interface.
            Attached::Filter(filter) => filter.alive(),
        }
    }
}

/// Whether a link's interface exists: the kernel gives 0 for one that is gone.
fn linked(link: BorrowedFd<'_>) -> bool {
    let mut info = bpf_link_info::default();
    let mut length = u32::try_from(size_of::<bpf_link_info>()).unwrap_or(u32::MAX);
    // SAFETY: `info` is ours, writable, of the stated length, and outlives the call.
    let refused = unsafe {
        libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &raw mut info, &raw mut length)
    };
    // SAFETY: in the link kinds made here the first word is the interface's index.
    refused >= 0 && unsafe { info.__bindgen_anon_1.xdp.ifindex } != 0
}
