//! Features of this machine and this user: probed by trying, without disturbing others.
//!
//! Programs are loaded and unloaded; a hook is tried in a network namespace that ends with the
//! thread that made it. Nothing remains.

use std::sync::OnceLock;

use netloom_sys::{Failure, Unsupported, mountinfo, namespace};

use crate::attach::{self, Direction, Hook, Order};
use crate::capture::{self, Where};
use crate::{Error, protect, sockets, wire};

/// Whether sockets can be limited ([`crate::sockets`]).
///
/// # Errors
/// The missing feature, and what would provide it.
pub fn sockets_supported() -> Result<(), Unsupported> {
    let feature = "socket limits";
    let mounts = mountinfo::read().unwrap_or_default();
    if !mounts.iter().any(|mount| mount.fstype == "cgroup2") {
        return Err(Unsupported {
            feature,
            reason: "no cgroup of version 2 is mounted".to_owned(),
            needs: "mount it with: mount -t cgroup2 none /sys/fs/cgroup/unified".to_owned(),
        });
    }
    let needs = "a kernel with CONFIG_CGROUP_BPF, Linux 5.18 or later";
    sockets::probe().map_err(|e| unsupported(feature, e, needs))
}

/// Whether interfaces run programs by tcx.
///
/// # Errors
/// The missing feature; [`hook_supported`] may still find clsact.
pub fn tcx_supported() -> Result<(), Unsupported> {
    by("tcx", Hook::Tcx, "Linux 6.6 or later; clsact is used instead")
}

/// Whether interfaces run programs by clsact and cls_bpf.
///
/// # Errors
/// The missing feature, and what would provide it.
pub fn clsact_supported() -> Result<(), Unsupported> {
    by("clsact", Hook::Clsact, "load them with: sudo modprobe -a sch_ingress cls_bpf")
}

/// The hook by which interfaces run programs here.
///
/// # Errors
/// There is none.
pub fn hook_supported() -> Result<Hook, Unsupported> {
    let hook = Hook::probe();
    match hook {
        Hook::Tcx => tcx_supported(),
        Hook::Clsact => clsact_supported(),
    }
    .map(|()| hook)
}

/// Whether nodes can be protected from floods ([`crate::protect`]), and by which hook.
///
/// # Errors
/// The missing feature, and what would provide it.
pub fn protect_supported() -> Result<Hook, Unsupported> {
    let needs = "a kernel with CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_ACT, Linux 5.12 or later";
    protect::probe().map_err(|e| unsupported("flood protection", e, needs))?;
    hook_supported()
}

/// Whether frames can be led to wires by programs ([`crate::wire`]), and by which hook.
///
/// # Errors
/// The missing feature, and what would provide it.
pub fn wire_supported() -> Result<Hook, Unsupported> {
    let needs = "a kernel with CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_ACT, Linux 5.12 or later";
    wire::probe().map_err(|e| unsupported("wires of programs", e, needs))?;
    hook_supported()
}

/// Whether frames can be captured into mapped memory ([`crate::capture`]) at this place.
///
/// # Errors
/// The missing feature, and what would provide it.
pub fn capture_supported(at: Where) -> Result<(), Unsupported> {
    let (feature, needs) = match at {
        Where::Xdp => ("capture by XDP", "Linux 5.18 or later, CONFIG_DEBUG_INFO_BTF"),
        Where::Tc => ("capture by traffic control", "Linux 5.12 or later, CONFIG_DEBUG_INFO_BTF"),
    };
    capture::probe(at).map_err(|e| unsupported(feature, e, needs))?;
    if at == Where::Tc { hook_supported().map(drop) } else { Ok(()) }
}

/// Whether frames can be generated in the kernel ([`crate::generate`]).
///
/// # Errors
/// The missing feature, and what would provide it.
pub fn generate_supported() -> Result<(), Unsupported> {
    let needs = "a kernel with CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_EVENTS, Linux 5.18 or later";
    crate::generate::probe().map_err(|e| unsupported("frames made in the kernel", e, needs))
}

/// Whether flows can be measured at interfaces ([`crate::measure`]) with this clock, and by which hook.
///
/// # Errors
/// The missing feature, and what would provide it.
pub fn measure_supported(clock: crate::measure::Clock) -> Result<Hook, Unsupported> {
    // Verifying the programs takes a while; what a kernel can, it can for good.
    static FOUND: [OnceLock<Hook>; 2] = [OnceLock::new(), OnceLock::new()];
    let found = &FOUND[usize::from(clock == crate::measure::Clock::Tai)];
    if let Some(hook) = found.get() {
        return Ok(*hook);
    }
    let needs =
        "a kernel with CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_ACT, Linux 5.17 or later; 6.1 for TAI";
    crate::measure::probe(clock).map_err(|e| unsupported("measuring", e, needs))?;
    let hook = hook_supported()?;
    Ok(*found.get_or_init(|| hook))
}

/// Whether switches can forward in the kernel ([`crate::flow`]), and by which hook.
///
/// # Errors
/// The missing feature, and what would provide it.
pub fn flow_supported() -> Result<Hook, Unsupported> {
    // Verifying the programs takes a while; what a kernel can, it can for good.
    static FOUND: OnceLock<Hook> = OnceLock::new();
    if let Some(hook) = FOUND.get() {
        return Ok(*hook);
    }
    let needs = "a kernel with CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_ACT, Linux 5.17 or later";
    crate::flow::probe().map_err(|e| unsupported("OpenFlow switches in the kernel", e, needs))?;
    let hook = hook_supported()?;
    Ok(*FOUND.get_or_init(|| hook))
}

/// Attaches a program to the loopback interface of a namespace of its own.
fn by(feature: &'static str, hook: Hook, needs: &str) -> Result<(), Unsupported> {
    let tried = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            namespace::new_network().map_err(|e| Failure::new("probe", "namespace", io(e)))?;
            let program = protect::any_program()?;
            attach::attach(hook, &program, attach::LOOPBACK, Direction::Ingress, Order::First)
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    tried.map_err(|e| unsupported(feature, e, needs))
}

fn io(error: netloom_sys::Error) -> std::io::Error {
    std::io::Error::other(error)
}

fn unsupported(feature: &'static str, error: Error, needs: &str) -> Unsupported {
    match error {
        Error::Unsupported(missing) => missing,
        other => {
            Unsupported { feature, reason: netloom_sys::describe(&other), needs: needs.to_owned() }
        }
    }
}
