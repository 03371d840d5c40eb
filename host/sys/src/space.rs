//! Room in file systems.

use std::os::fd::AsFd;

/// Bytes that may still be written into the file system of a file or folder; `None` if that has no bound, or none that it tells:
/// it has no blocks.
///
/// # Errors
/// Those of fstatvfs(3).
pub fn free(at: impl AsFd) -> rustix::io::Result<Option<u64>> {
    let found = rustix::fs::fstatvfs(at)?;
    Ok((found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize)))
}
