//! Limits of labs and their nodes.

use crate::misread::Misread;

/// Maximum nodes of a lab.
pub const MAX_NODES: usize = 65_536;

/// Maximum nesting of nodes: the parts of a name like `a/b/c`.
pub const MAX_DEPTH: usize = 8;

/// Maximum links of a lab.
pub const MAX_LINKS: usize = 262_144;

/// The shortest time between two checks of a node.
pub(crate) const SHORTEST_CHECK: std::time::Duration = std::time::Duration::from_millis(100);

/// The kernel's own bound on process numbers.
pub(crate) const MAX_PROCESSES: i64 = 4_194_304;

/// Maximum limit of sockets.
pub(crate) const MAX_SOCKETS: i64 = 1_000_000;

/// `cpu.weight` of cgroup version 2.
pub(crate) const MAX_WEIGHT: i64 = 10_000;

/// Minimum share of the CPU, in thousandths.
pub(crate) const LEAST_CPU: u32 = 10;

/// Minimum budget of bytes a second.
pub(crate) const LEAST_BYTES: u64 = 10_000;

/// Minimum memory, in bytes.
pub(crate) const LEAST_MEMORY: u64 = 1 << 20;

/// What IPv6 needs of every link (RFC 8200, section 5).
const MIN_MTU_IPV6: u32 = 1280;

/// Why a link cannot have an MTU that an interface could have.
pub(crate) fn mtu_problem(mtu: u32, has_ipv6: bool) -> Option<Misread> {
    (has_ipv6 && mtu < MIN_MTU_IPV6).then(|| {
        Misread::from(format!("MTU {mtu}: IPv6 needs at least {MIN_MTU_IPV6}"))
            .with(Some("for a lab without IPv6 write pool: {ipv6: none}".into()))
    })
}

/// The largest coordinate of a picture, in pixels.
pub(crate) const MAX_COORDINATE: i64 = 30_000;
