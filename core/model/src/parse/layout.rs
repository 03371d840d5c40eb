//! `x-layout`: where nodes and switches stand in pictures.
//!
//! Names that the lab lacks are ignored: a position outlives its node when a file is edited by hand.

use std::collections::BTreeMap;

use netloom_config::{Kind, Node as Yaml, Path, Report, load, quote, read};

use crate::bounds::MAX_COORDINATE;

/// The key's name.
const KEY: &str = "x-layout";

pub(super) fn layout(node: Option<&Yaml>, report: &mut Report) -> BTreeMap<String, [i32; 2]> {
    let path = Path::Root.key(KEY);
    let entries = match node.map(|node| (node, &node.kind)) {
        None | Some((_, Kind::Null)) => return BTreeMap::new(),
        Some((_, Kind::Map(entries))) => entries,
        Some((node, _)) => {
            read::expected(node, &path, "a map of names to [x, y]", report);
            return BTreeMap::new();
        }
    };
    let place = |(name, value): (&str, &Yaml), report: &mut Report| {
        let path = path.key(name);
        let Kind::Seq(items) = &value.kind else {
            read::expected(value, &path, "[x, y], in pixels", report);
            return None;
        };
        let [x, y] = items.as_slice() else {
            let (found, name) = (items.len(), quote(name));
            report.error(
                value.place,
                format!("{KEY}: {name} needs two numbers, [x, y], and has {found}"),
            );
            return None;
        };
        let mut at = [0, 0];
        for (index, (to, item)) in at.iter_mut().zip([x, y]).enumerate() {
            let number = read::integer(item, &path.index(index), 0..=MAX_COORDINATE, report)?;
            *to = i32::try_from(number).ok()?;
        }
        Some((name.to_owned(), at))
    };
    entries.iter().filter_map(|entry| place((&entry.key, &entry.value), report)).collect()
}

/// The positions that the text of a lab file fixes; none if it cannot be read.
pub(crate) fn positions(text: &str) -> BTreeMap<String, [i32; 2]> {
    if !text.contains(KEY) {
        return BTreeMap::new();
    }
    let mut report = Report::new("lab");
    let tree = load(text.as_bytes(), &mut report);
    tree.map_or_else(BTreeMap::new, |tree| layout(tree.get(KEY), &mut report))
}
