//! How features are asked for: as root, or in a namespace of their own.

use netloom_netlink::Error;
use netloom_sys::feature;
use netloom_sys::{Failure, Unsupported, caps, namespace};

/// Which hook it is.
pub(super) fn by(hook: netloom_ebpf::Hook) -> String {
    match hook {
        netloom_ebpf::Hook::Tcx => "by tcx".into(),
        netloom_ebpf::Hook::Clsact => "by clsact".into(),
    }
}

/// Probes what only root can have.
pub(super) fn as_root(
    root: bool,
    feature: &'static str,
    probe: impl FnOnce() -> Result<String, Unsupported>,
) -> Result<String, Unsupported> {
    if root { probe() } else { Err(needs_root(feature)) }
}

/// The answer to an ordinary user.
pub(super) fn needs_root(feature: &'static str) -> Unsupported {
    Unsupported {
        feature,
        reason: "only root may load BPF programs and set up interfaces of the kernel's".into(),
        needs: "run it as root: sudo netloom …".into(),
    }
}

/// Tries something in a network namespace of its own.
pub(super) fn probe(
    name: &'static str,
    needs: &str,
    attempt: fn() -> Result<(), Error>,
) -> Result<String, Unsupported> {
    let privileged = caps::is_privileged();
    // In a child: a namespace entered by this thread could not be left as an ordinary user.
    let tried = feature::in_child(move || {
        if !privileged {
            feature::enter_own_user_namespace()?;
        }
        namespace::new_network()?;
        attempt().map_err(|e| Failure::new(name, "try", e.to_string()).into())
    });
    tried.map(|()| String::new()).map_err(|reason| Unsupported {
        feature: name,
        reason,
        needs: needs.to_owned(),
    })
}
