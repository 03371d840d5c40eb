//! Memory that one process writes and others read.
//!
//! [`Sealed`] is made and written by its owner; after it is mapped nobody can map it for writing
//! or change its size, not even the owner. [`Foreign`] is a peer's: taken only if it is sealed so
//! and has the length it must have, hence reading it never faults. Foreign memory may change at any
//! moment, to anything: nothing here makes a reference to it but to atomics, and what is read is
//! judged after it was copied. Specification: `docs/abi/switch-memory.md`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::error::{Error, Result};
use crate::layout::{HEAD_PAGE, LENGTH_AT, MAGIC_AT, VERSION, VERSION_AT};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// What every memory is sealed with before its descriptor is given away.
const SEALS: SealFlags =
    SealFlags::FUTURE_WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::SEAL);

/// The file system that memfds live in (`TMPFS_MAGIC` in linux/magic.h): not that of huge pages,
/// which may be missing when they are touched.
const TMPFS: u64 = 0x0102_1994;

/// A mapping that is unmapped when dropped.
#[derive(Debug)]
struct Map {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to no thread; it is accessed by atomics, or through `&mut` of its
// one writer.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    fn new(fd: BorrowedFd<'_>, length: usize, access: ProtFlags) -> rustix::io::Result<Map> {
        // SAFETY: a new mapping at an address that the kernel chooses replaces nothing.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, fd, 0)
        }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Map { base, length })
    }

    fn at<T>(&self, offset: usize) -> NonNull<T> {
        assert!(offset.is_multiple_of(align_of::<T>()) && offset + size_of::<T>() <= self.length);
        // SAFETY: it is inside the mapping.
        unsafe { self.base.add(offset) }.cast()
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: mapped as long as `self` is, aligned, and accessed by atomics only.
        unsafe { self.at::<AtomicU64>(offset).as_ref() }
    }

    fn half(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: mapped as long as `self` is, aligned, and accessed by atomics only.
        unsafe { self.at::<AtomicU32>(offset).as_ref() }
    }

    /// As `word`, in the first page, which every mapping has.
    #[inline(always)]
    fn fast_word<const OFFSET: usize>(&self) -> &AtomicU64 {
        const { assert!(OFFSET.is_multiple_of(8) && OFFSET + 8 <= HEAD_PAGE) };
        // SAFETY: no mapping is shorter than a page.
        let word = unsafe { self.base.add(OFFSET) };
        // SAFETY: mapped as long as `self` is, aligned, and accessed by atomics only.
        unsafe { word.cast::<AtomicU64>().as_ref() }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new`, and whoever has pointers into it keeps it.
        let done = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.length) };
        debug_assert!(done.is_ok());
    }
}

/// Memory of our own, that others can only read.
#[derive(Debug)]
pub struct Sealed {
    fd: OwnedFd,
    map: Map,
}

impl Sealed {
    /// Makes `length` bytes of zeros, with magic, version and `declared` length in front; `name` is
    /// what the kernel shows of it.
    ///
    /// # Errors
    /// What the kernel refuses: descriptors or memory are short, or it cannot seal (before 5.1).
    pub fn create(name: &'static str, magic: u32, length: usize, declared: u64) -> Result<Sealed> {
        let failed = |operation| move |source: Errno| Error::call(name, operation, source);
        assert!(length >= HEAD_PAGE, "every memory has a first page");
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Kernels before 6.3 do not know the flag, and later ones may insist on it.
        let fd = rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| rustix::fs::memfd_create(name, flags))
            .map_err(failed("make memory"))?;
        rustix::fs::ftruncate(&fd, length as u64).map_err(failed("size memory"))?;
        let map = Map::new(fd.as_fd(), length, ProtFlags::READ | ProtFlags::WRITE)
            .map_err(failed("map memory"))?;
        rustix::fs::fcntl_add_seals(&fd, SEALS).map_err(failed("seal memory"))?;
        map.half(MAGIC_AT).store(magic, Ordering::Relaxed);
        map.half(VERSION_AT).store(VERSION, Ordering::Relaxed);
        map.word(LENGTH_AT).store(declared, Ordering::Relaxed);
        Ok(Sealed { fd, map })
    }

    /// The descriptor to give to others.
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

    /// Where it begins. Plain bytes are written by its one owner only, where peers do not read yet.
    #[inline(always)]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.map.base
    }
}

/// Memory of a peer's, for reading.
#[derive(Debug)]
pub struct Foreign {
    map: Map,
}

impl Foreign {
    /// Maps what a peer has given; `object` is what errors call it. The descriptor is not needed
    /// afterwards.
    ///
    /// # Errors
    /// [`Error::Memory`] if it is not sealed, not a memfd of ordinary pages, not between `least` and
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
        let call = |source: Errno| Error::call(object, "inspect memory", source);
        let system = rustix::fs::fstatfs(fd).map_err(call)?;
        if u64::try_from(system.f_type) != Ok(TMPFS) {
            return Err(refuse("not of ordinary pages"));
        }
        // Sealed first, asked afterwards: the size cannot change any more.
        let size = rustix::fs::fstat(fd).map_err(call)?.st_size;
        let length = usize::try_from(size).unwrap_or(0);
        if !(least.max(HEAD_PAGE)..=most).contains(&length) {
            return Err(refuse("of a wrong length"));
        }
        let map = Map::new(fd, length, ProtFlags::READ)
            .map_err(|source| Error::call(object, "map memory", source))?;
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

    /// Where it begins. Never written, and read as bytes of any value.
    #[inline(always)]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.map.base
    }
}
