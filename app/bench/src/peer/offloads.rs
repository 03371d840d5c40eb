//! `offloads-off INTERFACE`: turns off, on an interface of this network namespace, all features that make
//! frames larger than the MTU or leave checksums incomplete; prints `{"left"}`, those still on.
//! `merging-on INTERFACE`: makes it merge received frames into larger ones (GRO), as a card does.

use anyhow::{Context, Result};
use netloom_netlink::offload::Offloads;
use serde::Serialize;

/// Features by their kernel names.
const NAMES: [&str; 9] = [
    "rx-gro",
    "rx-lro",
    "tx-checksum-ip-generic",
    "tx-checksum-ipv4",
    "tx-checksum-ipv6",
    "tx-generic-segmentation",
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-udp-segmentation",
];

/// Features that could not be turned off.
#[derive(Debug, Serialize)]
pub(super) struct Left {
    left: Vec<String>,
}

pub(super) fn off(interface: &str) -> Result<Left> {
    let mut offloads = Offloads::open()?;
    let mut active = || {
        let all = offloads.active(interface);
        all.with_context(|| format!("read the offloads of {interface}"))
    };
    let is_meant = |name: &&String| NAMES.contains(&name.as_str());
    let before: Vec<String> = active()?.iter().filter(is_meant).cloned().collect();
    let wanted: Vec<(&str, bool)> = before.iter().map(|name| (name.as_str(), false)).collect();
    // Features that cannot be turned off are in the result.
    let _ = Offloads::open()?.set(interface, &wanted);
    let left = active()?.iter().filter(is_meant).cloned().collect();
    Ok(Left { left })
}

pub(super) fn merge(interface: &str) -> Result<Left> {
    let set = Offloads::open()?.set(interface, &[("rx-gro", true)]);
    set.with_context(|| format!("have what {interface} receives merged"))?;
    Ok(Left { left: vec![] })
}
