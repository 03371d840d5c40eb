//! Memory of maps, shared with programs: words that are only accessed atomically, and bytes that are final.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use netloom_sys::Failure;
use rustix::mm::{MapFlags, ProtFlags};

use crate::{Error, Result};

/// Mapped memory, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    at: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory belongs to no thread; all access is atomic or to bytes that nobody writes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first bytes.
    pub(crate) fn of(
        map: BorrowedFd<'_>,
        name: &'static str,
        length: usize,
        access: ProtFlags,
    ) -> Result<Self> {
        Self::from(map, name, length, access, 0)
    }

    /// Maps from an offset on, a multiple of the page size.
    pub(crate) fn from(
        map: BorrowedFd<'_>,
        name: &'static str,
        length: usize,
        access: ProtFlags,
        offset: u64,
    ) -> Result<Self> {
        let null = std::ptr::null_mut();
        // SAFETY: the kernel chooses an unused address.
        let at = unsafe { rustix::mm::mmap(null, length, access, MapFlags::SHARED, map, offset) };
        let at = at.map_err(|e| Failure::new(format!("map {name}"), "mmap", e))?;
        let none =
            || Error::from(Failure::new(format!("map {name}"), "mmap", rustix::io::Errno::NOMEM));
        Ok(Self { at: NonNull::new(at.cast()).ok_or_else(none)?, length })
    }

    fn place<T>(&self, at: usize) -> *mut T {
        assert!(at + size_of::<T>() <= self.length && at.is_multiple_of(align_of::<T>()));
        // SAFETY: the offset is inside the mapping, as just checked.
        unsafe { self.at.byte_add(at) }.cast().as_ptr()
    }

    /// A word that programs and others may access.
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the place is inside the mapping and aligned, and lives as long as `self`;
        // programs access it only by whole words.
        unsafe { AtomicU64::from_ptr(self.place(at)) }
    }

    /// Half a word.
    pub(crate) fn half(&self, at: usize) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.place(at)) }
    }

    /// Bytes that are final.
    ///
    /// # Safety
    /// Nobody may write to these bytes while the slice is in use.
    pub(crate) unsafe fn bytes(&self, at: usize, length: usize) -> &[u8] {
        assert!(at <= self.length && length <= self.length - at);
        // SAFETY: the offset is inside the mapping, as just checked.
        let first = unsafe { self.at.byte_add(at) };
        // SAFETY: the bytes are inside the mapping, and nobody writes to them, as the caller guarantees.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, and references to it borrow `self`.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.length) };
    }
}
