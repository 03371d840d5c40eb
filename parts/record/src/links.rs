//! Links that a question names: those that are in the recording, and those that a plan has by other words.

use std::collections::BTreeSet;

use netloom_sighting::{Block, blocks};

use crate::folder::{Folder, Segments, segment_name};
use crate::{Error, Result};

/// How many links a message names.
const MOST_NAMED: usize = 8;

/// The names of links that are asked for. A link that was recorded goes by its name; for other words `in_plan` says which
/// link they mean, and `None` if it does not know either.
///
/// # Errors
/// [`Error::Question`] for an unknown link names those that are known; the folder cannot be read; those of `in_plan`.
pub fn find_links(
    folder: &Folder,
    asked: &[String],
    in_plan: impl Fn(&str) -> Result<Option<String>>,
) -> Result<Vec<String>> {
    if asked.is_empty() {
        return Ok(vec![]);
    }
    let names = folder.told().status.links.into_iter().collect();
    let mut known = Known { folder, names, rest: folder.segments()? };
    let find = |word: &String| {
        if known.has(word) {
            return Ok(word.clone());
        }
        in_plan(word)?.ok_or_else(|| known.lacks(word))
    };
    asked.iter().map(find).collect()
}

/// Names of links, read from the newest segment on as far as needed.
struct Known<'a> {
    folder: &'a Folder,
    names: BTreeSet<String>,
    /// Segments that were not read yet.
    rest: Segments,
}

impl Known<'_> {
    fn has(&mut self, name: &str) -> bool {
        while !self.names.contains(name) {
            let Some(number) = self.rest.pop() else { return false };
            self.names.extend(links(self.folder, number));
        }
        true
    }

    /// Says what is there instead, similar names first.
    fn lacks(&self, word: &str) -> Error {
        let parts: Vec<&str> =
            word.split([',', ' ', '-']).filter(|part| !part.is_empty()).collect();
        let is_near =
            |name: &&String| !parts.is_empty() && parts.iter().all(|part| name.contains(part));
        let (near, others): (Vec<&String>, Vec<&String>) = self.names.iter().partition(is_near);
        let all = near.iter().chain(&others).map(|name| format!("{name:?}"));
        let named: Vec<String> = all.take(MOST_NAMED).collect();
        let more = match self.names.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let has = match named.as_slice() {
            [] => "no links yet".to_owned(),
            named => format!("{}{more}", named.join(", ")),
        };
        Error::Question(format!(
            "link {word:?}: not in the recording of lab {:?}, which has {has}",
            self.folder.lab()
        ))
    }
}

/// The links of a segment; none of one that is gone or cannot be read, which the search tells.
fn links(folder: &Folder, number: u64) -> Vec<String> {
    if let Some(stored) = folder.index(number) {
        return stored.brief.index.links;
    }
    let segment = folder.dir().read(segment_name(number)).ok().flatten().unwrap_or_default();
    let name = |block: Block<'_>| match block {
        Block::Link(name) => Some(name.to_owned()),
        _ => None,
    };
    blocks(&segment, 0).filter_map(name).collect()
}
