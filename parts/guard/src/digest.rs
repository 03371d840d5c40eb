//! Digests of programs, read once for each version of a file.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// A version of a file: device, inode, size, and the time of its last change.
type Version = (u64, u64, u64, i64, i64);

/// Digests of programs that were asked about.
#[derive(Debug)]
pub(crate) struct Digests {
    wanted: bool,
    known: Mutex<HashMap<Version, [u8; 32]>>,
}

impl Digests {
    /// Reads digests if they are wanted: a policy without them costs nothing.
    pub(crate) fn new(wanted: bool) -> Digests {
        Digests { wanted, known: Mutex::default() }
    }

    /// Whether digests are read.
    pub(crate) fn wanted(&self) -> bool {
        self.wanted
    }

    /// The digest of a thread's program; `None` if it cannot be read, or is not wanted.
    ///
    /// A process whose first thread has ended has no program by its own id. The caller makes sure afterwards that the
    /// thread still lives: else its id may have been another's.
    pub(crate) fn of(&self, thread: i32) -> Option<[u8; 32]> {
        if !self.wanted {
            return None;
        }
        // The file of the running program, also if another one has its name by now.
        let mut file = File::open(format!("/proc/{thread}/exe")).ok()?;
        let data = file.metadata().ok()?;
        // The time of the last change, since a user can set that of the last modification
        // (utimensat(2)).
        let version = (data.dev(), data.ino(), data.size(), data.ctime(), data.ctime_nsec());
        let known = |digests: &Digests| {
            digests.known.lock().unwrap_or_else(PoisonError::into_inner).get(&version).copied()
        };
        if let Some(digest) = known(self) {
            return Some(digest);
        }
        // Read without the lock: a large program must not hold up the others. At worst it is read
        // twice.
        let digest = digest(&mut file).ok()?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(version, digest);
        Some(digest)
    }
}

/// The SHA-256 of a file; `None` if it cannot be read.
pub fn of_file(path: &std::path::Path) -> Option<[u8; 32]> {
    digest(&mut File::open(path).ok()?).ok()
}

fn digest(file: &mut impl Read) -> std::io::Result<[u8; 32]> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().into()),
            length => hash.update(&buffer[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_the_content() {
        // FIPS 180-4's example: "abc".
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let hex: String =
            digest(&mut &b"abc"[..]).unwrap().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, expected);
    }

    #[test]
    fn this_program_has_a_digest_where_one_is_wanted() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let digests = Digests::new(true);
        assert_eq!(digests.of(pid), Some(digest(&mut own.as_slice()).unwrap()));
        assert_eq!(digests.of(pid), digests.of(pid));
        assert_eq!((Digests::new(false).of(pid), digests.of(i32::MAX)), (None, None));
    }
}
