//! Loads a switch's programs, with maps of the sizes that it needs.

use super::{FLOWS, PORTS};
use crate::Result;
use crate::load::{Loaded, Part, set_entries};

const PART: Part = Part {
    name: "OpenFlow switches",
    object: include_bytes!(concat!(env!("OUT_DIR"), "/flow.bpf.o")),
};
/// The same programs for a card's receive path.
const XDP_PART: Part = Part {
    name: "OpenFlow switches by XDP",
    object: include_bytes!(concat!(env!("OUT_DIR"), "/flow_xdp.bpf.o")),
};

/// Sizes of a switch's maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Ports.
    pub ports: u32,
    /// Results at a time.
    pub results: u32,
    /// Operations of all their lists; equal lists are kept once.
    pub operations: u32,
    /// Bytes of the ring for upcalls: a power of two, at least 262,144.
    pub ring: u32,
}

impl Default for Options {
    fn default() -> Options {
        // About 4 MiB of kernel memory, most of it the ring and the counters, which each CPU has.
        let cpus = libbpf_rs::num_possible_cpus().ok().and_then(|cpus| u32::try_from(cpus).ok());
        let results = (131_072 / cpus.unwrap_or(1).max(1)).clamp(4096, 16_384);
        Options { ports: 1024, results, operations: 8192, ring: 1 << 20 }
    }
}

/// Loads and unloads the programs: whether the kernel accepts them.
pub(crate) fn probe() -> Result<()> {
    let small = Options { ports: 1, results: 1, operations: 1, ring: 1 << 18 };
    load(&small).map(drop)
}

pub(super) fn load(options: &Options) -> Result<Loaded> {
    load_part(&PART, options)
}

pub(super) fn load_xdp(options: &Options) -> Result<Loaded> {
    load_part(&XDP_PART, options)
}

fn load_part(part: &Part, options: &Options) -> Result<Loaded> {
    part.load(|open| {
        let cpus = u32::try_from(libbpf_rs::num_possible_cpus()?).unwrap_or(1);
        let results = options.results.max(1);
        for (map, entries) in [
            (PORTS, options.ports.max(1)),
            (FLOWS, results),
            ("nl_fl_slots", results),
            ("nl_fl_ops", options.operations.max(1)),
            ("nl_fl_counts", results.saturating_mul(cpus)),
            ("nl_fl_cpus", cpus),
            ("nl_fl_works", cpus),
            ("nl_fl_exact", cpus * EXACT),
            ("nl_fl_up", options.ring),
        ] {
            set_entries(open, map, entries)?;
        }
        let constants = u64::from_ne_bytes(crate::map::pair(results, WEAK));
        for mut map in open.maps_mut() {
            if map.name().to_string_lossy().contains("options") {
                map.set_initial_value(&constants.to_ne_bytes())?;
            }
        }
        Ok(())
    })
}

/// Whole keys that each CPU knows: `EXACT`.
const EXACT: u32 = 1024;
/// Whether a processor of this kind may show a program's last stores before its earlier ones: `nl_fl_weak`.
const WEAK: u32 = if cfg!(target_arch = "x86_64") { 0 } else { 1 };
