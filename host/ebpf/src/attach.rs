//! Attachment without links: a program stays attached as long as its target exists.
//!
//! Interfaces run programs by tcx (Linux 6.6) or, before it, by the clsact queueing discipline with
//! cls_bpf. The available one is found by trying. Groups run several programs side by side
//! (`BPF_F_ALLOW_MULTI`), so ours disturbs no other.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::{ErrorKind, TC_EGRESS, TC_INGRESS, TcAttachPoint, TcHook, TcHookBuilder};
use libbpf_sys::{
    bpf_attach_type, bpf_prog_attach_opts, bpf_prog_detach_opts, bpf_prog_query_opts,
};
use netloom_sys::Failure;

use crate::program::Program;
use crate::{Error, Result};

/// Most programs listed at one attachment point: the kernel takes no more (`BPF_MPROG_MAX`,
/// `BPF_CGROUP_MAX_PROGS`).
const MOST: usize = 64;
/// The loopback interface, which every namespace has.
pub(crate) const LOOPBACK: u32 = 1;

/// The direction of frames, as seen by the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// From the interface to this host.
    Ingress,
    /// From this host out of the interface.
    Egress,
}

impl Direction {
    /// `ingress` or `egress`.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        }
    }

    /// The value in the programs' maps.
    pub(crate) fn word(self) -> u32 {
        match self {
            Direction::Ingress => 0,
            Direction::Egress => 1,
        }
    }

    fn tcx(self) -> bpf_attach_type {
        match self {
            Direction::Ingress => libbpf_sys::BPF_TCX_INGRESS,
            Direction::Egress => libbpf_sys::BPF_TCX_EGRESS,
        }
    }

    pub(crate) fn clsact(self) -> TcAttachPoint {
        match self {
            Direction::Ingress => TC_INGRESS,
            Direction::Egress => TC_EGRESS,
        }
    }
}

/// The kernel hook by which interfaces run programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// tcx: a chain of programs, without a queueing discipline.
    Tcx,
    /// clsact with cls_bpf, for kernels without tcx.
    Clsact,
}

impl Hook {
    /// tcx if the kernel has it, else clsact.
    pub fn probe() -> Hook {
        // The query changes nothing, and fails where the kernel does not know the hook.
        match tcx_query(LOOPBACK, Direction::Ingress) {
            Ok(_) => Hook::Tcx,
            Err(_) => Hook::Clsact,
        }
    }
}

/// A program's order among our others at the same place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    First,
    Last,
    /// After those, and after filters of sessions: for a measurement that stays.
    Behind,
    /// After all others, now and later: for what lets no frame continue.
    End,
}

impl Order {
    fn tcx_flag(self) -> u32 {
        match self {
            Order::First => libbpf_sys::BPF_F_BEFORE,
            Order::Last | Order::Behind | Order::End => libbpf_sys::BPF_F_AFTER,
        }
    }

    /// Priorities of filters; lower ones run first. Those of taps and points, which end with their process,
    /// are 1 to 9 and 30 to 40.
    fn priority(self) -> u32 {
        match self {
            Order::First => 10,
            Order::Last => 20,
            Order::Behind => 45,
            Order::End => 50,
        }
    }
}

/// The program that is attached with [`Order::End`].
pub(crate) const END: &str = "nl_flow";

/// The handle of our filter at its priority.
const FILTER: u32 = 1;

fn object(ifindex: u32) -> String {
    format!("interface {ifindex}")
}

fn sized<T>() -> u64 {
    size_of::<T>() as u64
}

fn index(ifindex: u32) -> Result<i32> {
    i32::try_from(ifindex)
        .map_err(|_| Error::Unknown { object: object(ifindex), reason: "no index of an interface" })
}

/// Attaches a program to an interface. Does nothing if it, or another load of it with the same maps,
/// is attached already; a load with other maps is an error.
pub(crate) fn attach(
    hook: Hook,
    program: &Program,
    ifindex: u32,
    direction: Direction,
    order: Order,
) -> Result<()> {
    // A process that was killed may have attached it already.
    if let Some((_, there)) = find(ifindex, direction, program.name())? {
        return if there.same_maps(program)? {
            Ok(())
        } else {
            Err(Error::Exists { object: object(ifindex), program: program.name() })
        };
    }
    match hook {
        Hook::Tcx => {
            let end = end_of(order, ifindex, direction)?;
            let (target, at) = (index(ifindex)?, direction.tcx());
            prog_attach(program, target, at, order.tcx_flag(), end.as_ref())
                .map_err(|e| Failure::new(object(ifindex), "attach program", e).into())
        }
        Hook::Clsact => clsact_attach(program, ifindex, direction, order),
    }
}

/// The same by clsact, for an interface that hardly has the program already: what is there is listed only if the place is
/// taken. Nothing waits for the kernel's readers, as an attachment by tcx does.
pub(crate) fn attach_first(
    program: &Program,
    ifindex: u32,
    direction: Direction,
    order: Order,
) -> Result<()> {
    let by_tcx = tcx_query(ifindex, direction).unwrap_or_default();
    if Program::find(&by_tcx, program.name())?.is_none()
        && clsact_attach(program, ifindex, direction, order).is_ok()
    {
        return Ok(());
    }
    match attach(Hook::Clsact, program, ifindex, direction, order) {
        // The kernel may have tcx alone.
        Err(Error::Failed(_)) if Hook::probe() == Hook::Tcx => {
            attach(Hook::Tcx, program, ifindex, direction, order)
        }
        other => other,
    }
}

/// The program with [`Order::End`], before which others are attached.
pub(crate) fn end_of(order: Order, ifindex: u32, direction: Direction) -> Result<Option<Program>> {
    match (order, tcx_query(ifindex, direction)) {
        (Order::Last | Order::Behind, Ok(ids)) => Program::find(&ids, END),
        _ => Ok(None),
    }
}

/// Detaches a program; does nothing if the program or the interface is missing.
pub(crate) fn detach(
    hook: Hook,
    program: &Program,
    ifindex: u32,
    direction: Direction,
    order: Order,
) -> Result<()> {
    match hook {
        Hook::Tcx => tcx_detach(program, ifindex, direction),
        Hook::Clsact => {
            let mut filter = filter(program.fd(), index(ifindex)?, direction, order);
            // Another's program may have our place; it stays.
            let there: Vec<u32> = filter.query().into_iter().filter(|id| *id != 0).collect();
            if Program::find(&there, program.name())?.is_none() {
                return Ok(());
            }
            match filter.detach() {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    Err(Failure::new(object(ifindex), "remove filter", io::Error::other(e)).into())
                }
                _ => Ok(()),
            }
        }
    }
}

/// The programs attached to an interface in a direction, by hook.
pub(crate) fn attached(ifindex: u32, direction: Direction) -> Result<Vec<(Hook, Vec<u32>)>> {
    let mut found = Vec::new();
    // Kernels before 6.6 refuse this query.
    if let Ok(ids) = tcx_query(ifindex, direction) {
        found.push((Hook::Tcx, ids));
    }
    found.push((Hook::Clsact, clsact_query(ifindex, direction)?));
    Ok(found)
}

/// The program of this name on an interface, and its hook.
pub(crate) fn find(
    ifindex: u32,
    direction: Direction,
    name: &'static str,
) -> Result<Option<(Hook, Program)>> {
    for (hook, ids) in attached(ifindex, direction)? {
        if let Some(program) = Program::find(&ids, name)? {
            return Ok(Some((hook, program)));
        }
    }
    Ok(None)
}

/// Attaches a program to a group, beside other ones.
pub(crate) fn attach_to_group(
    program: &Program,
    group: BorrowedFd<'_>,
    at: bpf_attach_type,
) -> io::Result<()> {
    prog_attach(program, group.as_raw_fd(), at, libbpf_sys::BPF_F_ALLOW_MULTI, None)
}

/// Detaches a program from a group.
pub(crate) fn detach_from_group(
    program: &Program,
    group: BorrowedFd<'_>,
    at: bpf_attach_type,
) -> io::Result<()> {
    let fd = program.fd().as_raw_fd();
    // SAFETY: takes numbers only.
    result(unsafe { libbpf_sys::bpf_prog_detach2(fd, group.as_raw_fd(), at) })
}

/// The programs attached to the group itself.
pub(crate) fn attached_to_group(
    group: BorrowedFd<'_>,
    at: bpf_attach_type,
) -> io::Result<Vec<u32>> {
    query(group.as_raw_fd(), at)
}

/// Attaches a program; with `end`, right before that one.
fn prog_attach(
    program: &Program,
    target: i32,
    at: bpf_attach_type,
    flags: u32,
    end: Option<&Program>,
) -> io::Result<()> {
    let mut opts =
        bpf_prog_attach_opts { sz: sized::<bpf_prog_attach_opts>(), flags, ..Default::default() };
    if let Some(end) = end {
        opts.flags = libbpf_sys::BPF_F_BEFORE;
        opts.relative_fd = end.fd().as_raw_fd();
    }
    let fd = program.fd().as_raw_fd();
    // SAFETY: `opts` is a complete structure of its stated size and outlives the call.
    let refused = unsafe { libbpf_sys::bpf_prog_attach_opts(fd, target, at, &raw const opts) };
    result(refused)
}

fn tcx_detach(program: &Program, ifindex: u32, direction: Direction) -> Result<()> {
    let opts = bpf_prog_detach_opts { sz: sized::<bpf_prog_detach_opts>(), ..Default::default() };
    let fd = program.fd().as_raw_fd();
    let target = index(ifindex)?;
    // SAFETY: `opts` is a complete structure of its stated size and outlives the call.
    let refused =
        unsafe { libbpf_sys::bpf_prog_detach_opts(fd, target, direction.tcx(), &raw const opts) };
    match result(refused) {
        // ENOENT: it is not attached. ENODEV: there is no such interface.
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => Ok(()),
        other => other.map_err(|e| Failure::new(object(ifindex), "detach", e).into()),
    }
}

fn tcx_query(ifindex: u32, direction: Direction) -> io::Result<Vec<u32>> {
    query(i32::try_from(ifindex).map_err(io::Error::other)?, direction.tcx())
}

fn query(target: i32, at: bpf_attach_type) -> io::Result<Vec<u32>> {
    let mut ids = [0u32; MOST];
    let mut opts = bpf_prog_query_opts {
        sz: sized::<bpf_prog_query_opts>(),
        prog_ids: ids.as_mut_ptr(),
        ..Default::default()
    };
    opts.__bindgen_anon_1.count = u32::try_from(MOST).unwrap_or(0);
    // SAFETY: `opts` is a complete structure of its stated size; the id buffer has the size it
    // states; both are writable and outlive the call.
    let refused = unsafe { libbpf_sys::bpf_prog_query_opts(target, at, &raw mut opts) };
    result(refused)?;
    // SAFETY: both members of the union are the same u32.
    let count = unsafe { opts.__bindgen_anon_1.count };
    Ok(ids[..usize::try_from(count).unwrap_or(0).min(MOST)].to_vec())
}

fn result(refused: i32) -> io::Result<()> {
    if refused < 0 { Err(io::Error::from_raw_os_error(-refused)) } else { Ok(()) }
}

fn filter(program: BorrowedFd<'_>, ifindex: i32, direction: Direction, order: Order) -> TcHook {
    TcHookBuilder::new(program)
        .ifindex(ifindex)
        .replace(false)
        .handle(FILTER)
        .priority(order.priority())
        .hook(direction.clsact())
}

fn clsact_attach(
    program: &Program,
    ifindex: u32,
    direction: Direction,
    order: Order,
) -> Result<()> {
    // libbpf prints the kernel's messages by itself, such as the one that the discipline exists.
    crate::load::quiet();
    let failed = |e: libbpf_rs::Error| {
        Failure::new(object(ifindex), "attach filter", io::Error::other(e)).into()
    };
    let mut filter = filter(program.fd(), index(ifindex)?, direction, order);
    // The discipline may exist already, ours or another's; that is not an error.
    filter.create().map_err(failed)?;
    match filter.attach() {
        // Ours would have been found before this.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            let place = format!("priority {} and handle {FILTER}", order.priority());
            let why = format!("a filter of another program has {place}; give it another priority");
            Err(Failure::new(object(ifindex), "attach filter", io::Error::other(why)).into())
        }
        other => other.map(drop).map_err(failed),
    }
}

fn clsact_query(ifindex: u32, direction: Direction) -> Result<Vec<u32>> {
    crate::load::quiet();
    let ifindex = index(ifindex)?;
    // A query needs no program; standard input's number stands in for a descriptor.
    let none = rustix::stdio::stdin();
    // An interface without the discipline and a place without a filter refuse the query: none is there.
    let asked = [Order::First, Order::Last, Order::Behind, Order::End]
        .map(|order| filter(none, ifindex, direction, order).query());
    Ok(asked.into_iter().flatten().filter(|id| *id != 0).collect())
}
