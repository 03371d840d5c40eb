//! What netloom needs of a machine, probed one by one.
//!
//! The first [`VITAL`] features are needed by every lab. Probes run in child processes, in
//! namespaces of their own, and leave nothing. The process that asks must have one thread.

use netloom_ebpf::feature as ebpf;
use netloom_netlink::{Batch, BridgeSpec, Change, EndSpec, Socket, VethSpec, charge, nat};
use netloom_sys::feature::{self, Feature};
use netloom_sys::{Failure, Unsupported, caps, namespace};

/// How many of the first features every lab needs.
pub const VITAL: usize = 4;

/// All features with what was found.
pub fn features() -> Vec<Feature> {
    let root = caps::is_privileged();
    let found = |state: Result<(), Unsupported>, detail: &str| state.map(|()| detail.to_owned());
    let spaces_name = if root { "namespaces" } else { "user namespaces" };
    let spaces_detail = if root { "as root" } else { "as an ordinary user" };
    vec![
        Feature {
            name: spaces_name,
            purpose: "nodes",
            state: found(feature::namespaces(), spaces_detail),
        },
        Feature {
            name: "overlay file system",
            purpose: "the host's files in nodes, private",
            state: found(feature::overlay(), ""),
        },
        Feature {
            name: "veth",
            purpose: "links",
            state: probe("veth", "load it with: sudo modprobe veth", try_veth),
        },
        Feature {
            name: "bridge",
            purpose: "switches of kind `kernel`",
            state: probe("bridge", "load it with: sudo modprobe bridge", try_bridge),
        },
        Feature {
            name: "user namespaces of nodes",
            purpose: "capabilities of ordinary nodes end at the node",
            state: if root {
                feature::own_user_namespaces().map(|()| String::new())
            } else {
                Ok("by that of the lab".to_owned())
            },
        },
        Feature {
            name: "limits",
            purpose: "limits: cpu, memory, processes",
            state: feature::limits(),
        },
        Feature {
            name: "NAT",
            purpose: "link ends `internet`",
            state: if root {
                probe("NAT", "load it with: sudo modprobe nf_tables nft_masq", try_nat)
            } else {
                Err(crate::stage::host::unsupported())
            },
        },
        Feature {
            name: "socket limits",
            purpose: "limits: sockets",
            state: as_root(root, "socket limits", || {
                ebpf::sockets_supported().map(|()| String::new())
            }),
        },
        Feature {
            name: "flood protection",
            purpose: "protect",
            state: as_root(root, "flood protection", || ebpf::protect_supported().map(by)),
        },
        Feature {
            name: "receive charging",
            purpose: "receiving counts as the node's CPU time",
            state: if root {
                probe("receive charging", "Linux 6.8 or later", try_charge)
            } else {
                Err(needs_root("receive charging"))
            },
        },
        Feature {
            name: "wires in running links",
            purpose: "impairments that are not in the lab file",
            state: as_root(root, "wires in running links", || {
                let hook = ebpf::wire_supported()?;
                taps().map(|()| by(hook))
            }),
        },
        Feature {
            name: "doors to the host",
            purpose: "link ends `host:IFACE` and `internet`",
            state: if root { Ok(String::new()) } else { Err(crate::stage::host::unsupported()) },
        },
    ]
}

fn by(hook: netloom_ebpf::Hook) -> String {
    match hook {
        netloom_ebpf::Hook::Tcx => "by tcx".into(),
        netloom_ebpf::Hook::Clsact => "by clsact".into(),
    }
}

/// Probes what only root can have.
fn as_root(
    root: bool,
    feature: &'static str,
    probe: impl FnOnce() -> Result<String, Unsupported>,
) -> Result<String, Unsupported> {
    if root { probe() } else { Err(needs_root(feature)) }
}

fn needs_root(feature: &'static str) -> Unsupported {
    Unsupported {
        feature,
        reason: "only root may load BPF programs and set up interfaces of the kernel's".into(),
        needs: "run it as root: sudo netloom up …".into(),
    }
}

/// Whether taps can be made.
fn taps() -> Result<(), Unsupported> {
    let opened = std::fs::File::options().read(true).write(true).open("/dev/net/tun");
    opened.map(drop).map_err(|e| Unsupported {
        feature: "taps",
        reason: format!("/dev/net/tun: {e}"),
        needs: "load it with: sudo modprobe tun".into(),
    })
}

/// Tries something in a network namespace of its own.
fn probe(
    name: &'static str,
    needs: &str,
    attempt: fn() -> Result<(), netloom_netlink::Error>,
) -> Result<String, Unsupported> {
    let privileged = caps::is_privileged();
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

fn try_veth() -> Result<(), netloom_netlink::Error> {
    let mut batch = Batch::new();
    batch.push("veth", &VethSpec::new(EndSpec::new("probe0"), EndSpec::new("probe1")));
    Socket::open()?.run(&mut batch)
}

fn try_charge() -> Result<(), netloom_netlink::Error> {
    let mut batch = Batch::new();
    batch.push("veth", &VethSpec::new(EndSpec::new("probe0"), EndSpec::new("probe1")));
    batch.push("veth", &Change::of("probe0").up());
    batch.push("veth", &Change::of("probe1").up());
    Socket::open()?.run(&mut batch)?;
    charge::enable("probe0").map(drop)
}

fn try_bridge() -> Result<(), netloom_netlink::Error> {
    let mut batch = Batch::new();
    batch.push("bridge", &BridgeSpec::new("probe0"));
    Socket::open()?.run(&mut batch)
}

fn try_nat() -> Result<(), netloom_netlink::Error> {
    let prefix = "10.0.0.0/8".parse().ok();
    nat::install(&nat::NatSpec {
        table: "netloom-probe",
        inside: &["probe0"],
        uplink: None,
        prefixes: prefix.as_slice(),
        block_other_forwarding: false,
        siblings: "",
    })
}
