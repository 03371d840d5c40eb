//! Probes the features of a machine that netloom needs, one by one.
//!
//! The first [`VITAL`] features are needed by every lab. For each of the others the list says what works without it.
//! Probes run in child processes, in namespaces of their own, and leave nothing. The process that asks must have one
//! thread.

mod asking;
mod surroundings;
mod traffic;

use netloom_ebpf::feature as ebpf;
use netloom_netlink::{Batch, BridgeSpec, Change, EndSpec, Socket, VethSpec, charge, nat};
use netloom_sys::feature::{self, Feature};
use netloom_sys::{Unsupported, caps, fake_chown, subordinate};

use crate::stage::users;
use asking::{as_root, by, needs_root, probe};

/// The number of leading features that every lab needs.
pub const VITAL: usize = 4;

/// All features with their results.
pub fn features() -> Vec<Feature> {
    let root = caps::is_privileged();
    let mut all = of_every_lab(root);
    all.extend(of_nodes(root));
    all.extend(of_links(root));
    all.extend(traffic::features(root));
    all.extend(surroundings::features(root));
    all
}

/// The [`VITAL`] ones.
fn of_every_lab(root: bool) -> Vec<Feature> {
    let found = |state: Result<(), Unsupported>, detail: &str| state.map(|()| detail.to_owned());
    let spaces_name = if root { "namespaces" } else { "user namespaces" };
    let spaces_detail = if root { "as root" } else { "as an ordinary user" };
    vec![
        Feature {
            name: spaces_name,
            purpose: "nodes",
            instead: "",
            state: found(feature::namespaces(), spaces_detail),
        },
        Feature {
            name: "overlay file system",
            purpose: "the host's files in nodes, private",
            instead: "",
            state: found(feature::overlay(), ""),
        },
        Feature {
            name: "veth",
            purpose: "links",
            instead: "",
            state: probe("veth", "load it with: sudo modprobe veth", try_veth),
        },
        Feature {
            name: "bridge",
            purpose: "switches of kind `kernel`",
            instead: "",
            state: probe("bridge", "load it with: sudo modprobe bridge", try_bridge),
        },
    ]
}

/// What nodes use, beside that.
fn of_nodes(root: bool) -> Vec<Feature> {
    // What a lab falls back to depends on this: what is said must be what would happen.
    let pretended = fake_chown::supported().is_ok();
    vec![
        Feature {
            name: "user namespaces of nodes",
            purpose: "capabilities of ordinary nodes end at the node",
            instead: "nodes live in the host's user namespace",
            state: if root {
                feature::own_user_namespaces().map(|()| String::new())
            } else {
                Ok("by that of the lab".to_owned())
            },
        },
        Feature {
            name: subordinate::FEATURE,
            purpose: "`ids: real`: programs change to users of their own, as sshd must to let anybody in",
            instead: if pretended {
                "`ids: fake`: a change of user or of a file's owner only appears to succeed; sshd refuses logins"
            } else {
                "`ids: one`: programs stay root, and those that change their user end"
            },
            state: users::found(root),
        },
        Feature {
            name: feature::OWN_FIGURES,
            purpose: "`uptime`, `free`, `top` in a node show the node's own age, loads and memory",
            instead: "they show the machine's; `node show` says which",
            state: feature::own_figures().map(|()| String::new()),
        },
        Feature {
            name: "limits",
            purpose: "limits: cpu, memory, processes",
            instead: "`up --ignore-limits` leaves them out, and `status` shows no use",
            state: feature::limits(),
        },
        Feature {
            name: "NAT",
            purpose: "link ends `internet`",
            instead: "a door to an interface of the host (`host:IFACE`) that leads outside, as root",
            state: if root {
                probe("NAT", "load it with: sudo modprobe nf_tables nft_masq", try_nat)
            } else {
                ways_out()
            },
        },
        Feature {
            name: "socket limits",
            purpose: "limits: sockets",
            instead: "a limit of processes, each of which has its own limit of open files",
            state: as_root(root, "socket limits", || {
                ebpf::sockets_supported().map(|()| String::new())
            }),
        },
    ]
}

/// What links and switches use, beside that.
fn of_links(root: bool) -> Vec<Feature> {
    vec![
        Feature {
            name: "flood protection",
            purpose: "protect",
            instead: "a rate on the links of flooding nodes (`rate: 100Mb/s`)",
            state: as_root(root, "flood protection", || ebpf::protect_supported().map(by)),
        },
        Feature {
            name: "receive charging",
            purpose: "receiving counts as the node's CPU time",
            instead: "receiving counts as the sender's CPU time, or as nobody's",
            state: if root {
                probe("receive charging", "Linux 6.8 or later", try_charge)
            } else {
                Err(needs_root("receive charging"))
            },
        },
        Feature {
            name: "wires of programs",
            purpose: "impairments at full speed, and no process in a direction without any",
            instead: "a process carries both directions of an impaired link",
            state: as_root(root, "wires of programs", || {
                let hook = ebpf::wire_supported()?;
                taps().map(|()| by(hook))
            }),
        },
        Feature {
            name: "OpenFlow switches in the kernel",
            purpose: "switches of kind `openflow` at full speed",
            instead: "packet sockets: every frame goes through the tables, more slowly",
            state: as_root(root, "OpenFlow switches in the kernel", || {
                ebpf::flow_supported().map(by)
            }),
        },
        Feature {
            name: "doors to interfaces of the host",
            purpose: "link ends `host:IFACE`",
            instead: "labs without doors; programs of the host join a switch of kind `shm`",
            state: if root { Ok(String::new()) } else { Err(crate::stage::host::unsupported()) },
        },
    ]
}

/// Whether taps can be made.
fn taps() -> Result<(), Unsupported> {
    // Read and write: to make a tap it must be opened for both.
    let opened = std::fs::File::options().read(true).write(true).open("/dev/net/tun");
    opened.map(drop).map_err(|e| Unsupported {
        feature: "taps",
        reason: format!("/dev/net/tun: {e}"),
        needs: "load it with: sudo modprobe tun".into(),
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

/// How packets leave an ordinary user's lab: by NAT in a namespace of its own, and a program.
fn ways_out() -> Result<String, Unsupported> {
    let found = crate::stage::host::ways_out()?;
    probe("NAT", "ask root to load it: sudo modprobe nf_tables nft_masq", try_nat)?;
    let names = found.iter().map(|tool| tool.kind.name());
    let told = format!("by {}", names.collect::<Vec<_>>().join(", else "));
    Ok(match probe("NAT", "", try_marks) {
        Ok(_) => told,
        Err(lacks) => format!(
            "{told}; {}: retransmitted SYNs are not held back, and an old pasta may end the connection",
            lacks.reason
        ),
    })
}

fn try_nat() -> Result<(), netloom_netlink::Error> {
    try_table(false)
}

/// NAT with marks of connections.
fn try_marks() -> Result<(), netloom_netlink::Error> {
    try_table(true)
}

fn try_table(hold_repeated: bool) -> Result<(), netloom_netlink::Error> {
    let prefix = "10.0.0.0/8".parse().ok();
    nat::install(&nat::NatSpec {
        table: "netloom-probe",
        inside: &["probe0"],
        uplink: None,
        prefixes: prefix.as_slice(),
        block_other_forwarding: false,
        bridges: "",
        siblings: "",
        hold_repeated,
    })
}
