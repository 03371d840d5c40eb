//! An index on disk, of which a question reads no more than it needs: the head, then a page for each key, then all keys.

use std::fs::File;
use std::os::unix::fs::FileExt;

use netloom_sighting::{Brief, Index, Key};

/// Bytes that are read first: the head of most indexes.
const FIRST: usize = 32 << 10;
/// No index has a longer head, nor more bytes of keys: segments have 64 MiB.
const MOST: u64 = 1 << 29;

/// An index whose head was read.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) brief: Brief,
    file: File,
}

impl Stored {
    /// `None` for anything else than an index of this version.
    pub(crate) fn read(file: File) -> Option<Stored> {
        let mut head = bytes(&file, 0, FIRST as u64)?;
        let length = Brief::length(&head)?;
        if length > head.len() {
            head = bytes(&file, 0, length as u64)?;
        }
        Some(Stored { brief: Brief::decode(&head).ok()?, file })
    }

    /// Whether it may have one of these keys, by a page for each.
    pub(crate) fn may_have(&self, any_of: &[Key]) -> bool {
        any_of.iter().any(|key| {
            let Some(at) = self.brief.page(*key) else { return true };
            // A page that cannot be read says nothing.
            let page = bytes(&self.file, at, Brief::PAGE as u64);
            page.and_then(|page| self.brief.may_have(&page, *key)).unwrap_or(true)
        })
    }

    /// With all keys; `None` if the segment has to be read instead.
    pub(crate) fn whole(self) -> Option<Index> {
        let (at, length) = self.brief.keys();
        let keys = bytes(&self.file, at, length)?;
        self.brief.with_keys(&keys).ok()
    }
}

/// At most a number of bytes of a file, from a place on.
fn bytes(file: &File, at: u64, length: u64) -> Option<Vec<u8>> {
    // An index that was made up may ask for more than there is.
    let there = file.metadata().ok()?.len().checked_sub(at)?;
    let mut bytes = vec![0; usize::try_from(length.min(there).min(MOST)).ok()?];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}
