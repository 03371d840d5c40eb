//! What tests of files share: the three ways of writing, and chunks that tell whether they are whole.

use std::path::Path;

use netloom_digest::splitmix::{STEP, mix};
use netloom_disk::{Buffer, Direct, File, Options, Pool};

/// A way of writing, as options ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// io_uring and O_DIRECT.
    Uring,
    /// pwrite and O_DIRECT.
    Direct,
    /// pwrite through the page cache.
    Buffered,
}

pub(crate) const WAYS: [Way; 3] = [Way::Uring, Way::Direct, Way::Buffered];

impl Way {
    pub(crate) fn options(self, chunk: usize) -> Options {
        Options {
            direct: if self == Way::Buffered { Direct::Never } else { Direct::Auto },
            uring: self == Way::Uring,
            chunk,
            gather: 4 * chunk,
            ..Options::default()
        }
    }

    /// Whether the file is written so.
    pub(crate) fn is_taken(self, file: &File) -> bool {
        let how = file.how();
        (how.direct, how.uring) == (self != Way::Buffered, self == Way::Uring)
    }
}

/// A folder on a real file system where this user may make one, gone when dropped.
pub(crate) fn folder() -> tempfile::TempDir {
    let built = tempfile::tempdir_in(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target"));
    built.or_else(|_| tempfile::tempdir()).unwrap()
}

/// Where a chunk's own length and number stand, and how many words that takes.
const HEAD: usize = 2;

fn word(number: u64, at: usize) -> u64 {
    // No two words of a file are alike, and none is zero by chance.
    mix((number << 32 | at as u64).wrapping_add(STEP)) | 1
}

fn content(number: u64, len: usize, at: usize) -> u64 {
    [len as u64, number + 1].get(at).copied().unwrap_or_else(|| word(number, at))
}

/// Fills a buffer's first `len` bytes, a multiple of 8, with chunk `number`.
pub(crate) fn fill(buffer: &mut Buffer, number: u64, len: usize) {
    for (at, bytes) in buffer[..len].chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&content(number, len, at).to_le_bytes());
    }
}

pub(crate) fn chunk(pool: &Pool, number: u64, len: usize) -> Buffer {
    let mut buffer = pool.take().expect("memory for a chunk");
    fill(&mut buffer, number, len);
    buffer
}

/// Reads what is there as chunks from number 0 on: how many are whole, and the bytes of one that is
/// cut behind them, all of which must be right.
pub(crate) fn whole_chunks(bytes: &[u8]) -> (u64, usize) {
    let (mut rest, mut number) = (bytes, 0);
    while rest.len() >= 8 * HEAD {
        let len = usize::try_from(u64::from_le_bytes(rest[..8].try_into().unwrap())).unwrap();
        assert!(len >= 8 * HEAD, "chunk {number} begins with zeros");
        let here = &rest[..len.min(rest.len())];
        for (at, bytes) in here.chunks_exact(8).enumerate() {
            let found = u64::from_le_bytes(bytes.try_into().unwrap());
            assert_eq!(found, content(number, len, at), "chunk {number}, word {at}");
        }
        if here.len() < len {
            return (number, here.len());
        }
        (rest, number) = (&rest[len..], number + 1);
    }
    (number, rest.len())
}

pub(crate) fn check(path: &Path) -> (u64, usize) {
    whole_chunks(&std::fs::read(path).unwrap())
}
