//! Features that capture, generate and measure.

use netloom_ebpf::capture::Where;
use netloom_ebpf::feature as ebpf;
use netloom_ebpf::measure::Clock;
use netloom_sys::feature::{self, Feature};
use netloom_sys::{Failure, Unsupported, caps, namespace};

use super::asking::{as_root, by};

/// Features that capture, generate and measure.
pub(super) fn features(root: bool) -> Vec<Feature> {
    vec![
        Feature {
            name: "packet sockets",
            purpose: "capture; generate and replay, each frame at its time",
            instead: "",
            state: packet_sockets(),
        },
        Feature {
            name: "capture by traffic control",
            purpose: "capture --engine tc-ring",
            instead: "packet sockets (--engine tpacket)",
            state: as_root(root, "capture by traffic control", || {
                ebpf::capture_supported(Where::Tc)?;
                ebpf::hook_supported().map(by)
            }),
        },
        Feature {
            name: "capture by XDP",
            purpose: "capture --fast",
            instead: "packet sockets (--engine tpacket), at a lower rate",
            state: as_root(root, "capture by XDP", || {
                ebpf::capture_supported(Where::Xdp).map(|()| String::new())
            }),
        },
        Feature {
            name: "io_uring",
            purpose: "capture: writing files",
            instead: "pwrite(2), at the same rate where storage is fast",
            state: io_uring(),
        },
        Feature {
            name: "libpcap",
            purpose: "capture: filter expressions, --engine pcap",
            instead: "capture without a filter, and filter the file where libpcap is",
            state: netloom_libpcap::version(),
        },
        Feature {
            name: "frames made in the kernel",
            purpose: "generate above 400,000 frames a second",
            instead: "packet sockets (--engine ring), at less than half the rate",
            state: as_root(root, "frames made in the kernel", || {
                ebpf::generate_supported().map(|()| String::new())
            }),
        },
        Feature {
            name: "measuring",
            purpose: "measure, serve",
            instead: "generate, and generate --receive: loss and delay of frames of its own",
            state: as_root(root, "measuring", measuring),
        },
    ]
}

/// Opens a packet socket, in namespaces of its own for an ordinary user.
fn packet_sockets() -> Result<String, Unsupported> {
    let privileged = caps::is_privileged();
    let tried = feature::in_child(move || {
        if !privileged {
            feature::enter_own_user_namespace()?;
        }
        namespace::new_network()?;
        let kind = rustix::net::SocketType::RAW;
        rustix::net::socket(rustix::net::AddressFamily::PACKET, kind, None)
            .map(drop)
            .map_err(|e| Failure::new("packet socket", "open", e).into())
    });
    tried.map(|()| String::new()).map_err(|reason| Unsupported {
        feature: "packet sockets",
        reason,
        needs: "load them with: sudo modprobe af_packet".to_owned(),
    })
}

fn io_uring() -> Result<String, Unsupported> {
    let needs = match std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled") {
        // Sandboxes and distributions switch it off by this sysctl (Linux 6.6).
        Ok(text) if text.trim() != "0" => {
            "allow it with: sudo sysctl -w kernel.io_uring_disabled=0"
        }
        _ => "a kernel with CONFIG_IO_URING, outside sandboxes that forbid it",
    };
    netloom_disk::io_uring_supported().map(|()| String::new()).map_err(|e| Unsupported {
        feature: "io_uring",
        reason: format!("io_uring_setup: {e}"),
        needs: needs.to_owned(),
    })
}

/// The hook of measuring, and whether points on several machines can be compared.
fn measuring() -> Result<String, Unsupported> {
    // One machine's clock is enough for most; TAI is needed to compare machines.
    let hook = by(ebpf::measure_supported(Clock::Monotonic)?);
    match ebpf::measure_supported(Clock::Tai) {
        Ok(_) => Ok(hook),
        Err(missing) => Ok(format!("{hook}; on one machine only: {}", missing.reason)),
    }
}
