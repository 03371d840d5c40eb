//! What netloom needs of a machine, probed one by one.
//!
//! The first [`VITAL`] features are needed by every lab. Probes run in child processes, in
//! namespaces of their own, and leave nothing. The process that asks must have one thread.

use netloom_netlink::{Batch, BridgeSpec, EndSpec, Socket, VethSpec, nat};
use netloom_sys::feature::{self, Feature};
use netloom_sys::{Error as SysError, Unsupported, caps, namespace};

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
            state: probe("veth", "sudo modprobe veth", try_veth),
        },
        Feature {
            name: "bridge",
            purpose: "switches of kind `kernel`",
            state: probe("bridge", "sudo modprobe bridge", try_bridge),
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
                probe("NAT", "sudo modprobe nf_tables nft_masq", try_nat)
            } else {
                Err(crate::door::unsupported())
            },
        },
        Feature {
            name: "doors to the host",
            purpose: "link ends `host:IFACE` and `internet`",
            state: if root { Ok(String::new()) } else { Err(crate::door::unsupported()) },
        },
    ]
}

/// Tries something in a network namespace of its own.
fn probe(
    name: &'static str,
    module: &str,
    attempt: fn() -> Result<(), netloom_netlink::Error>,
) -> Result<String, Unsupported> {
    let privileged = caps::is_privileged();
    let tried = feature::in_child(move || {
        if !privileged {
            feature::enter_own_user_namespace()?;
        }
        namespace::new_network()?;
        attempt().map_err(|e| SysError::call(name, "try", std::io::Error::other(e.to_string())))
    });
    tried.map(|()| String::new()).map_err(|reason| Unsupported {
        feature: name,
        reason,
        needs: format!("load it with: {module}"),
    })
}

fn try_veth() -> Result<(), netloom_netlink::Error> {
    let mut batch = Batch::new();
    batch.push("veth", &VethSpec::new(EndSpec::new("probe0"), EndSpec::new("probe1")));
    Socket::open()?.run(&mut batch)
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
