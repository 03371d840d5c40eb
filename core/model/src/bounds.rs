//! The most and the least that a lab and its nodes may have.

/// The most nodes of a lab.
pub const MAX_NODES: usize = 65_536;

/// The most nodes in one another: the most parts of a name like `a/b/c`.
pub const MAX_DEPTH: usize = 8;

/// The most links of a lab.
pub const MAX_LINKS: usize = 262_144;

/// The kernel's own bound on process numbers.
pub(crate) const MAX_PROCESSES: i64 = 4_194_304;

/// More sockets than these are no limit.
pub(crate) const MAX_SOCKETS: i64 = 1_000_000;

/// `cpu.weight` of cgroup version 2.
pub(crate) const MAX_WEIGHT: i64 = 10_000;

/// The least share of the CPU, in thousandths.
pub(crate) const LEAST_CPU: u32 = 10;

/// The least budget of bytes a second.
pub(crate) const LEAST_BYTES: u64 = 10_000;

/// The least memory, in bytes.
pub(crate) const LEAST_MEMORY: u64 = 1 << 20;
