//! Possible and online CPUs.

use std::fs;

use netloom_sys::Failure;

use crate::Result;

const ONLINE: &str = "/sys/devices/system/cpu/online";

/// CPUs on which programs may run, and those online now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cpus {
    /// One more than the highest possible CPU number.
    pub(super) possible: u32,
    /// Online CPUs, ascending, each below `possible`.
    pub(super) online: Vec<u32>,
}

/// Asks the kernel. If it does not list online CPUs, all possible ones count as online.
pub(super) fn online() -> Result<Cpus> {
    let possible = libbpf_rs::num_possible_cpus().map_err(std::io::Error::other);
    let possible = possible.map_err(|e| Failure::new("CPUs", "count", e))?;
    let possible = u32::try_from(possible).unwrap_or(u32::MAX);
    let online = fs::read_to_string(ONLINE).ok().and_then(|text| list(&text));
    let mut online = online.unwrap_or_else(|| (0..possible).collect());
    online.retain(|cpu| *cpu < possible);
    Ok(Cpus { possible, online })
}

/// Parses a list of ranges: `0-3,8`.
fn list(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let [first, last]: [u32; 2] = [first.parse().ok()?, last.parse().ok()?];
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ranges() {
        assert_eq!(list("0\n"), Some(vec![0]));
        assert_eq!(list("0-2,5,7-8\n"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(list(""), None);
        assert_eq!(list("0-x"), None);
    }
}
