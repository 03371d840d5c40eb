//! Room in the kernel's tables of learnt neighbours, which all network namespaces of a machine share: 1,024 entries a family
//! by default (`gc_thresh3`, arp(7)). Thirty-three nodes on one switch that all talk to each other overflow it, and then
//! no lab learns new neighbours: what they send fails with "Invalid argument".
//!
//! Labs of root raise the limits by what they need, and lower them again at their end. For ordinary users, and where the
//! kernel does not let root, [`lacking`] says so.

use netloom_model::plan::Neighbours as Wanted;
use netloom_sys::sysctl;

use crate::Result;
use crate::build::keeper::{Ground, Keeper};
use crate::keep::ledger::Ledger;
use crate::store::host_change::{HostChange, settings};
use crate::store::state::Folder;

/// What labs need without raising a limit: a quarter of the kernel's default.
const FEW: u32 = 256;

/// A limit is raised by at most this: the entries take 2 GiB of the kernel's memory when all are used.
const MOST: u32 = 4 << 20;

/// Keeps room for a lab's neighbours.
#[derive(Default)]
pub(crate) struct Neighbours;

impl Keeper for Neighbours {
    fn lay(&self, ground: &Ground<'_>) -> Result<()> {
        if ground.state.user {
            Ok(())
        } else {
            make_room(ground.folder, ground.state.plan.neighbours())
        }
    }
}

/// What nodes need of the kernel's tables, with their limits.
fn needs(wanted: Wanted) -> [(u32, [&'static str; 2]); 2] {
    let [ipv4, ipv6] = settings::NEIGHBOURS;
    [(wanted.ipv4, ipv4), (wanted.ipv6, ipv6)]
}

/// Raises the limits for the lab in `folder`. Those of a growing lab follow it; those of a smaller one stay.
fn make_room(folder: &Folder, wanted: Wanted) -> Result<()> {
    // The kernel's default is enough for many such labs.
    for (need, limits) in needs(wanted).into_iter().filter(|(need, _)| *need > FEW) {
        for path in limits {
            raise(folder, path, need.min(MOST))?;
        }
    }
    Ok(())
}

fn raise(folder: &Folder, path: &str, more: u32) -> Result<()> {
    // A network namespace other than the machine's first has none, and a container may not write them.
    if rustix::fs::access(sysctl::full(path), rustix::fs::Access::WRITE_OK).is_err() {
        return Ok(());
    }
    let mut changes = folder.read_host_changes()?;
    let raised = changes.iter_mut().find_map(|change| match change {
        HostChange::Sysctl { path: known, more, .. } if known == path => Some(more),
        _ => None,
    });
    let ledger = Ledger::open()?;
    match raised {
        Some(known) if known.is_some_and(|known| known >= more) => return Ok(()),
        Some(known) => *known = Some(more),
        None => {
            let Some(now) = ledger.read(path) else { return Ok(()) };
            let old = ledger.before(path, &folder.path())?.unwrap_or(now);
            changes.push(HostChange::Sysctl { path: path.to_owned(), old, more: Some(more) });
        }
    }
    folder.write_host_changes(&changes)?;
    ledger.raise(path, &folder.path())
}

/// Why nodes may not reach each other, where the kernel's tables have no room for all their neighbours. Other labs and the
/// machine's own neighbours take their part besides.
pub fn lacking(wanted: Wanted) -> Option<String> {
    let lacks = |(need, [_, most]): (u32, [&'static str; 2])| {
        let limit = limit(most).filter(|limit| need > *limit)?;
        let family = if most.contains("ipv4") { "IPv4" } else { "IPv6" };
        let (setting, enough) = (most.replace('/', "."), need.saturating_add(limit));
        Some((format!("{need} {family}"), limit.to_string(), format!("{setting}={enough}")))
    };
    let lacking: Vec<_> = needs(wanted).into_iter().filter_map(lacks).collect();
    let [mut wants, mut limits, mut settings] = [vec![], vec![], vec![]];
    for (need, limit, setting) in lacking {
        wants.push(need);
        limits.push(limit);
        settings.push(setting);
    }
    // Both families mostly have the same limit.
    limits.dedup();
    (!wants.is_empty()).then(|| {
        format!(
            "if all its nodes talk to each other they have {} neighbours, and the kernel keeps {} for all labs together: \
             some will not reach each other; as root: sysctl -w {}",
            wants.join(" and "),
            limits.join(" and "),
            settings.join(" ")
        )
    })
}

/// The limits of the kernel's tables, as `doctor` tells them; `None` in a network namespace that has no say in them.
pub(crate) fn told() -> Option<String> {
    let [ipv4, ipv6] = settings::NEIGHBOURS.map(|[_, most]| limit(most));
    Some(format!("{} for IPv4 and {} for IPv6, shared by all namespaces", ipv4?, ipv6?))
}

fn limit(path: &str) -> Option<u32> {
    sysctl::get(path)?.parse().ok()
}
