//! What loads are made of, and the file by which a lab tells its nodes their averages, as it finds them.
//!
//! Slots of 32 bytes: the first has the time of the last look (monotonic, in nanoseconds), the one after a node's number
//! its three averages. What was never written is 0. Nodes read it, and nobody else writes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use netloom_procfs::Tasks;

const SLOT: usize = 32;

/// Adds a process, by its id in `/proc`. One that has ended meanwhile adds nothing.
pub fn add_process(found: &mut Tasks, pid: i32) {
    let process = format!("/proc/{pid}");
    let stat = |folder: &Path| fs::read_to_string(folder.join("stat")).unwrap_or_default();
    if found.add(&stat(process.as_ref())) {
        let threads = fs::read_dir(format!("{process}/task")).into_iter().flatten().flatten();
        threads.for_each(|thread| found.add_thread(&stat(&thread.path())));
    }
}

/// Load averages over one, five and fifteen minutes.
pub type Averages = [f64; 3];

/// Writes the averages of these nodes, which were found at this time.
///
/// # Errors
/// The file is not there any more, or full.
pub fn write(path: &Path, time: u64, nodes: &[(usize, Averages)]) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    for (index, averages) in nodes {
        let mut slot = [0; SLOT];
        for (place, average) in slot.chunks_exact_mut(8).zip(averages) {
            place.copy_from_slice(&average.to_le_bytes());
        }
        file.write_all_at(&slot, place(*index))?;
    }
    // Last: what is of a time is there before it.
    file.write_all_at(&time.to_le_bytes(), 0)
}

/// A node's averages, and when they were found; `None` before the first look.
pub(crate) fn read(file: &File, index: usize) -> Option<(u64, Averages)> {
    let mut time = [0; 8];
    file.read_exact_at(&mut time, 0).ok()?;
    let mut slot = [0; SLOT];
    // Beyond the end nothing was written yet.
    let _ = file.read_at(&mut slot, place(index));
    let mut averages = [0.0; 3];
    for (average, place) in averages.iter_mut().zip(slot.chunks_exact(8)) {
        *average = f64::from_le_bytes(place.try_into().ok()?);
    }
    Some((u64::from_le_bytes(time), averages))
}

fn place(index: usize) -> u64 {
    (index as u64).saturating_add(1).saturating_mul(SLOT as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_not_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("loads");
        std::fs::write(&path, b"").unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(read(&file, 3), None);
        write(&path, 77, &[(3, [0.25, 1.5, 8.0])]).unwrap();
        assert_eq!(read(&file, 3), Some((77, [0.25, 1.5, 8.0])));
        assert_eq!(read(&file, 2), Some((77, [0.0; 3])));
        assert_eq!(read(&file, 900), Some((77, [0.0; 3])));
    }
}
