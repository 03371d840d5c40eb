//! The place of a point: last among an interface's programs, so that it counts frames that continue.
//!
//! By tcx a link holds the program and ends with the process, by clsact a [`Filter`] does. A point that stays
//! is attached without either.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libbpf_sys::{bpf_link_create_opts, bpf_link_info};
use netloom_sys::{Failure, Unsupported};

use crate::attach::{self, Hook, Order};
use crate::filter::{self, Filter, Place};
use crate::presence::Presence;
use crate::program::Program;
use crate::{Direction, Error, Result};

/// The side of the kernel on which a point's program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Traffic control, by tcx or clsact.
    Tc(Direction),
    /// A card's receive path.
    Xdp,
}

/// The header before a packet in an interface's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkHeader {
    Ethernet,
    /// None: tunnels.
    None,
}

/// Interface types (`ARPHRD_…`) whose frames begin with an Ethernet header: Ethernet, loopback.
const ETHERNET: [u16; 2] = [1, 772];
/// Types whose frames begin with the IP header: PPP, raw IP, IP in IP, SIT, GRE, TUN, GRE over IPv6.
const BARE: [u16; 8] = [512, 519, 768, 769, 776, 778, 823, 65534];

/// An attached program, detached on drop unless it stays.
#[derive(Debug)]
pub(super) enum Attached {
    Link(OwnedFd),
    /// An XDP link.
    Xdp(OwnedFd),
    /// A clsact filter.
    Filter(Filter),
    /// A program that stays.
    Staying(Presence),
}

/// Places of filters: behind those that lead frames elsewhere, and as many as a probe has sessions.
const PRIORITY: u32 = 40;
const HANDLES: std::ops::RangeInclusive<u32> = 1..=64;

fn object(ifindex: u32) -> String {
    format!("interface {ifindex}")
}

fn failed(ifindex: u32, operation: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |e| Error::from(Failure::new(object(ifindex), operation, e))
}

/// The first header of an interface's frames.
pub(super) fn header(ifindex: u32) -> Result<LinkHeader> {
    let kind = kind(ifindex).map_err(failed(ifindex, "ask for its kind"))?;
    match kind {
        kind if ETHERNET.contains(&kind) => Ok(LinkHeader::Ethernet),
        kind if BARE.contains(&kind) => Ok(LinkHeader::None),
        kind => Err(Error::Unsupported(Unsupported {
            feature: "measuring",
            reason: format!("interface {ifindex} is of kind {kind}, whose frames are not known"),
            needs: "an interface with Ethernet frames or bare IP packets".to_owned(),
        })),
    }
}

fn kind(ifindex: u32) -> io::Result<u16> {
    let there = Presence::of(ifindex)?;
    let name = there.name()?;
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero: the kernel takes the name as a string.
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    // SAFETY: the request takes a pointer to an ifreq, which is ours and outlives the call.
    let refused =
        unsafe { libc::ioctl(there.socket().as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) };
    if refused < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled in this member.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr }.sa_family)
}

/// Attaches a program behind all existing ones.
pub(super) fn attach(
    hook: Hook,
    program: &Program,
    ifindex: u32,
    direction: Direction,
    stay: bool,
) -> Result<Attached> {
    if stay {
        attach::attach(hook, program, ifindex, direction, Order::Behind)?;
        let presence = Presence::of(ifindex).map_err(failed(ifindex, "keep its namespace"))?;
        return Ok(Attached::Staying(presence));
    }
    match hook {
        Hook::Tcx => create(program, ifindex, direction)
            .map(Attached::Link)
            .map_err(failed(ifindex, "attach measurement by tcx")),
        Hook::Clsact => Filter::attach(program.fd(), ifindex, direction, places())
            .map(Attached::Filter)
            .map_err(failed(ifindex, "attach measurement by clsact")),
    }
}

fn places() -> impl Iterator<Item = Place> {
    HANDLES.map(|handle| Place { priority: PRIORITY, handle })
}

/// How many points are at an interface by traffic control.
pub(super) fn count(ifindex: u32) -> Result<usize> {
    let mut points = 0;
    for direction in [Direction::Ingress, Direction::Egress] {
        // Points of sessions have places at clsact that `attached` does not ask for.
        let filters = filter::programs_at(ifindex, direction, places())
            .map_err(failed(ifindex, "ask for its filters"))?;
        let others = attach::attached(ifindex, direction)?.into_iter().flat_map(|(_, ids)| ids);
        for id in filters.into_iter().chain(others) {
            points += usize::from(Program::begins(id, "nl_me_")?);
        }
    }
    Ok(points)
}

fn create(program: &Program, ifindex: u32, direction: Direction) -> io::Result<OwnedFd> {
    let at = match direction {
        Direction::Ingress => libbpf_sys::BPF_TCX_INGRESS,
        Direction::Egress => libbpf_sys::BPF_TCX_EGRESS,
    };
    // What ends a frame's way there stays last.
    let end = attach::end_of(Order::Last, ifindex, direction).map_err(io::Error::other)?;
    let mut opts = options(libbpf_sys::BPF_F_AFTER);
    if let Some(end) = &end {
        opts.flags = libbpf_sys::BPF_F_BEFORE;
        opts.__bindgen_anon_1.tcx.relative_fd = end.fd().as_raw_fd().unsigned_abs();
    }
    link(program, ifindex, at, &opts)
}

fn options(flags: u32) -> bpf_link_create_opts {
    let sz = size_of::<bpf_link_create_opts>() as u64;
    bpf_link_create_opts { sz, flags, ..Default::default() }
}

/// Attaches a program to a card's receive path: in its driver if it can, else right behind it.
pub(super) fn attach_xdp(program: &Program, ifindex: u32) -> Result<Attached> {
    match link(program, ifindex, libbpf_sys::BPF_XDP, &options(0)) {
        Ok(link) => Ok(Attached::Xdp(link)),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
            Err(Error::Exists { object: object(ifindex), program: "an XDP program" })
        }
        Err(e) => Err(failed(ifindex, "attach measurement by XDP")(e)),
    }
}

fn link(
    program: &Program,
    ifindex: u32,
    at: libbpf_sys::bpf_attach_type,
    opts: &bpf_link_create_opts,
) -> io::Result<OwnedFd> {
    let target = i32::try_from(ifindex).map_err(io::Error::other)?;
    let fd = program.fd().as_raw_fd();
    // SAFETY: `opts` is a complete structure of its stated size and outlives the call.
    let link = unsafe { libbpf_sys::bpf_link_create(fd, target, at, opts) };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: the descriptor is new and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

impl Attached {
    /// Whether its interface still exists.
    pub(super) fn alive(&self) -> bool {
        let (link, xdp) = match self {
            Attached::Link(link) => (link, false),
            Attached::Xdp(link) => (link, true),
            Attached::Filter(filter) => return filter.alive(),
            Attached::Staying(presence) => return presence.there(),
        };
        let mut info = bpf_link_info::default();
        let mut length = u32::try_from(size_of::<bpf_link_info>()).unwrap_or(u32::MAX);
        // SAFETY: `info` is ours, writable, of the stated length, and outlives the call.
        let refused = unsafe {
            libbpf_sys::bpf_link_get_info_by_fd(
                link.as_fd().as_raw_fd(),
                &raw mut info,
                &raw mut length,
            )
        };
        let ifindex = if xdp {
            // SAFETY: it is an XDP link, for which the kernel has filled in this member.
            unsafe { info.__bindgen_anon_1.xdp.ifindex }
        } else {
            // SAFETY: it is a tcx link, for which the kernel has filled in this member.
            unsafe { info.__bindgen_anon_1.tcx.ifindex }
        };
        // The kernel gives 0 for an interface that is gone.
        refused >= 0 && ifindex != 0
    }
}
