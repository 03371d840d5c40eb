//! Who steps the machine's clock of atomic time (TAI), and who needs it to go on: tests share it.
//!
//! Both hold a lock until the value goes: on the kernel's file of the clocks' namespace, which tests of all users see, else on
//! one in the folder that tests of one user share.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};

use crate::made::folder;

/// Nobody steps TAI while this is held.
///
/// # Panics
/// The lock cannot be made.
pub fn tai_kept() -> File {
    held(FlockOperation::LockShared)
}

/// Nobody else needs or steps TAI while this is held.
///
/// # Panics
/// The lock cannot be made.
pub fn tai_alone() -> File {
    held(FlockOperation::LockExclusive)
}

fn held(how: FlockOperation) -> File {
    let file = File::open("/proc/self/ns/time").or_else(|_| {
        let path = folder().join("tai.lock");
        File::options().create(true).truncate(false).write(true).open(path)
    });
    let file = file.expect("a file to lock");
    rustix::io::retry_on_intr(|| flock(&file, how)).expect("the lock");
    file
}
