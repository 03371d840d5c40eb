//! Reports of an import, for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use netloom_foreign::{Import, Item, Verdict};

use super::Lab;
use crate::output;

/// From how many items on those with one reason share a line.
const SHARED: usize = 3;

/// A line for everything that is not carried as it was; many items with one reason share a line.
pub(crate) fn briefly(lab: &Lab, import: &Import) -> String {
    let mut groups: BTreeMap<(&str, &Verdict), Vec<&Item>> = BTreeMap::new();
    for item in &import.items {
        if item.verdict != Verdict::Carried {
            groups.entry((&item.file, &item.verdict)).or_default().push(item);
        }
    }
    let mut lines: Vec<(&str, u32, String)> = vec![];
    for items in groups.into_values() {
        let Some(first) = items.first() else { continue };
        if items.len() < SHARED {
            lines
                .extend(items.iter().map(|item| (item.file.as_str(), item.line, item.to_string())));
            continue;
        }
        let more = format!("{} and {} more", first.item, items.len() - 1);
        let shared = Item { item: more, ..(*first).clone() };
        lines.push((&first.file, first.line, shared.to_string()));
    }
    lines.sort();
    let mut text = String::new();
    for (_, _, line) in lines {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "{}", summary(lab, import));
    text
}

/// A line for every item.
pub(crate) fn fully(lab: &Lab, import: &Import) -> String {
    let mut text: String = import.items.iter().map(|item| format!("{item}\n")).collect();
    let _ = writeln!(text, "{}", summary(lab, import));
    text
}

fn summary(lab: &Lab, import: &Import) -> String {
    let (changed, left_out) = (import.changed().count(), import.left_out().count());
    let carried = import.items.len() - changed - left_out;
    format!(
        "{}: {}: {} carried, {changed} changed, {left_out} left out",
        lab.shown(),
        import.format.name(),
        output::count(carried, "item")
    )
}
