//! Which places of a lab lose packets, and since when, by readings of what they have lost all together.

use std::collections::{BTreeMap, BTreeSet};

use crate::stream::Picture;
use crate::view::{LosingKind, LosingView};

/// A place that lost nothing for so long does not lose any more, in ns.
const QUIET: u64 = 10_000_000_000;

/// Causes at a node that its links tell, too.
const OF_LINKS: [&str; 3] = ["queue", "rx", "tx"];

type Place = (LosingKind, String, Option<String>);

/// What is known of places.
#[derive(Debug, Default)]
pub(super) struct Losing {
    /// What each had lost at the last reading.
    lost: BTreeMap<Place, u64>,
    /// Those that lose: what was lost before, since when, and when it was seen last.
    open: BTreeMap<Place, (u64, u64, u64)>,
}

impl Losing {
    /// Takes a reading; returns all places that lose now, if some began or ceased to.
    pub(super) fn read(&mut self, picture: &Picture, now: u64) -> Option<Vec<LosingView>> {
        let before: BTreeSet<Place> = self.open.keys().cloned().collect();
        let found = totals(picture);
        for (place, total) in &found {
            // What was lost before the first reading may be of any time.
            let Some(known) = self.lost.get(place) else { continue };
            if total > known {
                let (_, _, last) = self.open.entry(place.clone()).or_insert((*known, now, now));
                *last = now;
            }
        }
        self.open.retain(|place, (_, _, last)| {
            found.contains_key(place) && now.saturating_sub(*last) < QUIET
        });
        let view = |((kind, name, from), (known, since_ns, _)): (&Place, &(u64, u64, u64))| {
            let total = found.get(&(*kind, name.clone(), from.clone())).copied().unwrap_or(0);
            let packets = total.checked_sub(*known).unwrap_or(total);
            let (kind, name, from) = (*kind, name.clone(), from.clone());
            LosingView { kind, name, from, packets, since_ns: *since_ns }
        };
        let changed = !before.iter().eq(self.open.keys());
        let views = changed.then(|| self.open.iter().map(view).collect());
        self.lost = found;
        views
    }
}

/// What each place has lost all together.
fn totals(picture: &Picture) -> BTreeMap<Place, u64> {
    let mut all = BTreeMap::new();
    for (link, counters) in picture.links.values() {
        for (end, lost) in link.ends.iter().zip(counters.lost) {
            all.insert((LosingKind::Link, link.name.clone(), Some(end.clone())), lost);
        }
    }
    for (node, _) in picture.nodes.values() {
        let own = node.drops.iter().filter(|drop| !OF_LINKS.contains(&drop.cause.as_str()));
        all.insert((LosingKind::Node, node.name.clone(), None), own.map(|drop| drop.packets).sum());
    }
    all
}
