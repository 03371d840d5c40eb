//! Loads a switch's programs, with maps of the sizes that it needs.

use std::os::fd::AsFd;

use super::beside::{CARRIED, carried_places};
use super::chunks::Form;
use super::shared::{self, CHUNK};
use super::{PORTS, index};
use crate::Result;
use crate::load::{Loaded, Part, set_entries};

const PART: Part = Part {
    name: "switches in the kernel",
    object: include_bytes!(concat!(env!("OUT_DIR"), "/flow.bpf.o")),
};

/// Sizes of a switch's maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Ports.
    pub ports: u32,
    /// Results at a time. Memory is taken for 4,096, and for more when there are more.
    pub results: u32,
    /// Operations of all their lists; equal lists are kept once.
    pub operations: u32,
    /// Bytes of the ring for upcalls: a power of two, at least 262,144.
    pub ring: u32,
    /// Frames without a result leave by a tap beside their port ([`Attacher`](super::Attacher)), and upcalls
    /// are only their beginnings.
    pub beside: bool,
}

impl Default for Options {
    fn default() -> Options {
        // About 3 MiB of kernel memory, most of it the ring and what the first results take. Each CPU counts each
        // result, so a machine with many keeps fewer.
        let cpus = libbpf_rs::num_possible_cpus().ok().and_then(|cpus| u32::try_from(cpus).ok());
        let results = ((1 << 20) / cpus.unwrap_or(1).max(1)).clamp(4096, 1 << 18);
        Options { ports: 1024, results, operations: 8192, ring: 1 << 20, beside: false }
    }
}

/// Loads and unloads the programs: whether the kernel accepts them.
pub(crate) fn probe() -> Result<()> {
    let small = Options { ports: 1, results: 1, operations: 1, ring: 1 << 18, beside: true };
    load(&small).map(drop)
}

pub(super) fn load(options: &Options) -> Result<Loaded> {
    let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
    let forms = [shared::RESULTS, shared::counts(cpus), index::FORM];
    let chunks = forms.iter().map(Form::make).collect::<Result<Vec<_>>>()?;
    PART.load(|open| {
        let cpus = u32::try_from(cpus).unwrap_or(1);
        for (map, entries) in [
            (PORTS, options.ports.max(1)),
            ("nl_fl_ops", options.operations.max(1)),
            ("nl_fl_cpus", cpus),
            ("nl_fl_works", cpus),
            ("nl_fl_hints", cpus * HINTS),
            ("nl_fl_up", options.ring),
            (CARRIED, if options.beside { carried_places(cpus) } else { 1 }),
        ] {
            set_entries(open, map, entries)?;
        }
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name.contains("options") {
                map.set_initial_value(&crate::map::pair(WEAK, u32::from(options.beside)))?;
            }
            for (form, chunk) in forms.iter().zip(&chunks) {
                if name == form.name {
                    map.reuse_fd(chunk.fd().as_fd())?;
                } else if name == form.more {
                    // An array of maps takes its inner form from a map that exists when it is made.
                    map.set_inner_map_fd(chunk.fd())?;
                }
            }
        }
        Ok(())
    })
}

/// How many results there can be: whole chunks.
pub(super) fn room(options: &Options) -> u32 {
    options.results.clamp(1, CHUNK * shared::CHUNKS)
}

/// Hints of each CPU: `HINTS`.
const HINTS: u32 = 4096;
/// Whether a processor of this kind may show a program's accesses in another order: `nl_fl_options`.
const WEAK: u32 = if cfg!(target_arch = "x86_64") { 0 } else { 1 };
