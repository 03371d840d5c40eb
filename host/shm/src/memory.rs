//! Memory that one process writes and others read.
//!
//! [`Sealed`] memory is created and written by its owner; once it is mapped nobody, not even the
//! owner, can map it writable or change its size. [`Foreign`] memory is a peer's: accepted only
//! with these seals and its required length, so reading it never faults. Foreign memory may change
//! at any moment, to anything: nothing here makes a reference to it except to atomics, and data is
//! checked after it was copied. Specification: `docs/abi/switch-memory.md`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use netloom_sys::Failure;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::error::{Error, Result};
use crate::layout::{HEAD_PAGE, LENGTH_AT, MAGIC_AT, VERSION, VERSION_AT};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Seals on every memory before its descriptor is passed on.
const SEALS: SealFlags =
    SealFlags::FUTURE_WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::SEAL);

/// The file system of memfds (`TMPFS_MAGIC` in linux/magic.h); huge pages have another and may be
/// unavailable when touched.
const TMPFS: u64 = 0x0102_1994;

/// A mapping, unmapped on drop.
#[derive(Debug)]
struct Map {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to no thread; it is accessed by atomics, or through `&mut` of its
// only writer.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    fn new(fd: BorrowedFd<'_>, length: usize, access: ProtFlags) -> rustix::io::Result<Map> {
        // SAFETY: a new mapping at an address chosen by the kernel replaces nothing.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, fd, 0)
        }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Map { base, length })
    }

    fn at<T>(&self, offset: usize) -> NonNull<T> {
        assert!(offset.is_multiple_of(align_of::<T>()) && offset + size_of::<T>() <= self.length);
        // SAFETY: the offset is inside the mapping.
        unsafe { self.base.add(offset) }.cast()
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: mapped as long as `self`, aligned, and accessed only by atomics.
        unsafe { self.at::<AtomicU64>(offset).as_ref() }
    }

    fn half(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: mapped as long as `self`, aligned, and accessed only by atomics.
        unsafe { self.at::<AtomicU32>(offset).as_ref() }
    }

    /// Like `word`, in the first page, which every mapping has.
    #[inline(always)]
    fn fast_word<const OFFSET: usize>(&self) -> &AtomicU64 {
        const { assert!(OFFSET.is_multiple_of(8) && OFFSET + 8 <= HEAD_PAGE) };
        // SAFETY: no mapping is shorter than a page.
        let word = unsafe { self.base.add(OFFSET) };
        // SAFETY: mapped as long as `self`, aligned, and accessed only by atomics.
        unsafe { word.cast::<AtomicU64>().as_ref() }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new`, and every holder of pointers into it keeps it.
        let done = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.length) };
        debug_assert!(done.is_ok());
    }
}

/// Our own memory, read-only for others.
#[derive(Debug)]
pub struct Sealed {
    fd: OwnedFd,
    map: Map,
}

impl Sealed {
    /// Creates `length` zero bytes, beginning with magic, version and `declared` length; the kernel
    /// shows `name` for it.
    ///
    /// # Errors
    /// The kernel's error: descriptors or memory are exhausted, or it cannot seal (before 5.1).
    pub fn create(name: &'static str, magic: u32, length: usize, declared: u64) -> Result<Sealed> {
        let failed =
            |operation| move |source: Errno| Error::from(Failure::new(name, operation, source));
        assert!(length >= HEAD_PAGE, "every memory has a first page");
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Kernels before 6.3 do not know the flag; later ones may require it.
        let fd = rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| rustix::fs::memfd_create(name, flags))
            .map_err(failed("make memory"))?;
        rustix::fs::ftruncate(&fd, length as u64).map_err(failed("size memory"))?;
        let map = Map::new(fd.as_fd(), length, ProtFlags::READ | ProtFlags::WRITE)
            .map_err(failed("map memory"))?;
        // After mapping: F_SEAL_FUTURE_WRITE keeps an existing writable mapping and forbids later
        // ones (fcntl(2)).
        rustix::fs::fcntl_add_seals(&fd, SEALS).map_err(failed("seal memory"))?;
        map.half(MAGIC_AT).store(magic, Ordering::Relaxed);
        map.half(VERSION_AT).store(VERSION, Ordering::Relaxed);
        map.word(LENGTH_AT).store(declared, Ordering::Relaxed);
        Ok(Sealed { fd, map })
    }

    /// The descriptor to pass to others.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The word at an offset.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        self.map.word(offset)
    }

    /// The half word at an offset.
    pub(crate) fn half(&self, offset: usize) -> &AtomicU32 {
        self.map.half(offset)
    }

    /// A word of the first page.
    #[inline(always)]
    pub(crate) fn fast_word<const OFFSET: usize>(&self) -> &AtomicU64 {
        self.map.fast_word::<OFFSET>()
    }

    /// The start address. Its only owner writes plain bytes, only where peers do not read yet.
    #[inline(always)]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.map.base
    }
}

/// A peer's memory, for reading.
#[derive(Debug)]
pub struct Foreign {
    map: Map,
}

impl Foreign {
    /// Maps a descriptor from a peer; errors name it `object`. The descriptor is not needed
    /// afterwards.
    ///
    /// # Errors
    /// [`Error::Memory`] if it is not sealed, no memfd of ordinary pages, not between `least` and
    /// `most` bytes long, or begins with another magic or version.
    pub fn open(
        object: &'static str,
        fd: BorrowedFd<'_>,
        magic: u32,
        least: usize,
        most: usize,
    ) -> Result<Foreign> {
        let refuse = |reason| Error::Memory { object, reason };
        let seals = rustix::fs::fcntl_get_seals(fd).map_err(|_| refuse("not a memfd"))?;
        if !seals.contains(SEALS) {
            return Err(refuse("not sealed"));
        }
        let call = |source: Errno| Error::from(Failure::new(object, "inspect memory", source));
        let system = rustix::fs::fstatfs(fd).map_err(call)?;
        if u64::try_from(system.f_type) != Ok(TMPFS) {
            return Err(refuse("not of ordinary pages"));
        }
        // Queried after sealing was checked: the size can no longer change.
        let size = rustix::fs::fstat(fd).map_err(call)?.st_size;
        let length = usize::try_from(size).unwrap_or(0);
        if !(least.max(HEAD_PAGE)..=most).contains(&length) {
            return Err(refuse("of a wrong length"));
        }
        let map = Map::new(fd, length, ProtFlags::READ)
            .map_err(|source| Failure::new(object, "map memory", source))?;
        let memory = Foreign { map };
        if memory.half(MAGIC_AT).load(Ordering::Relaxed) != magic {
            return Err(refuse("of another kind"));
        }
        if memory.half(VERSION_AT).load(Ordering::Relaxed) != VERSION {
            return Err(refuse("of another version"));
        }
        Ok(memory)
    }

    /// Bytes mapped.
    pub(crate) fn length(&self) -> usize {
        self.map.length
    }

    /// The word at an offset, for relaxed loads only.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        self.map.word(offset)
    }

    /// The half word at an offset, for relaxed loads only.
    pub(crate) fn half(&self, offset: usize) -> &AtomicU32 {
        self.map.half(offset)
    }

    /// A word of the first page, for relaxed loads only.
    #[inline(always)]
    pub(crate) fn fast_word<const OFFSET: usize>(&self) -> &AtomicU64 {
        self.map.fast_word::<OFFSET>()
    }

    /// The start address. Never written, and read as bytes of any value.
    #[inline(always)]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.map.base
    }
}
