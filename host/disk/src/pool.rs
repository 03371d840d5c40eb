//! Bounded memory for chunks: mapped when first needed, reused last in, first out.
//!
//! The pool never exceeds its bound and never waits: no buffer means that memory is exhausted,
//! which the caller counts. One thread may take a buffer and another drop it. Chunks of 2 MiB and
//! more ask for huge pages (`madvise(2)`): storage then gets a few long pieces instead of thousands
//! of pages. A new buffer's content is zeros or its last user's data.

use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::BLOCK;

/// The huge page size of most machines, in bytes.
const HUGE: usize = 2 << 20;

/// The source of buffers, to which they return. A clone is the same pool.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    chunk: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: Vec<Map>,
    /// Bytes of all buffers, free and given out.
    mapped: u64,
    most: u64,
}

impl Pool {
    /// A pool of buffers of `chunk` bytes each, rounded up to a multiple of
    /// [`BLOCK`](crate::BLOCK), and at most `most_bytes` together. No memory is mapped yet.
    pub fn new(chunk: usize, most_bytes: u64) -> Pool {
        let chunk = chunk.clamp(BLOCK, isize::MAX as usize / 2).next_multiple_of(BLOCK);
        let state = State { free: Vec::new(), mapped: 0, most: most_bytes };
        Pool(Arc::new(Shared { chunk, state: Mutex::new(state) }))
    }

    /// A buffer, or `None` when the pool's bound or the machine's memory is reached.
    pub fn take(&self) -> Option<Buffer> {
        let map = match self.0.free_or_room()? {
            Some(free) => free,
            None => Map::new(self.0.chunk).map_err(|_| self.0.forget_one()).ok()?,
        };
        Some(Buffer { map: Some(map), home: Arc::clone(&self.0) })
    }

    /// Size of each buffer in bytes.
    pub fn chunk(&self) -> usize {
        self.0.chunk
    }

    /// Bytes of buffers in use.
    pub fn in_use_bytes(&self) -> u64 {
        let state = self.0.lock();
        state.mapped - (state.free.len() * self.0.chunk) as u64
    }

    /// Bytes of buffers still available.
    pub fn room_bytes(&self) -> u64 {
        let state = self.0.lock();
        let used = state.mapped - (state.free.len() * self.0.chunk) as u64;
        state.most.saturating_sub(used)
    }

    /// Bytes of all mapped buffers, in use or free.
    pub fn mapped_bytes(&self) -> u64 {
        self.0.lock().mapped
    }

    /// Changes the bound. Free buffers beyond it are unmapped now, others when they are returned.
    pub fn set_most(&self, most_bytes: u64) {
        let mut state = self.0.lock();
        state.most = most_bytes;
        let beyond = state.mapped.saturating_sub(most_bytes).div_ceil(self.0.chunk as u64);
        let going = usize::try_from(beyond).unwrap_or(usize::MAX).min(state.free.len());
        state.mapped -= (going * self.0.chunk) as u64;
        // The front of the list has been unused for longest.
        let gone: Vec<Map> = state.free.drain(..going).collect();
        drop(state);
        // Unmapped after the lock is released.
        drop(gone);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held, and the state is consistent after each line.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A free buffer, or room reserved for a new one; `None` when there is no room.
    fn free_or_room(&self) -> Option<Option<Map>> {
        let mut state = self.lock();
        if let Some(free) = state.free.pop() {
            return Some(Some(free));
        }
        let wanted = state.mapped.checked_add(self.chunk as u64)?;
        (wanted <= state.most).then(|| state.mapped = wanted).map(|()| None)
    }

    fn forget_one(&self) {
        self.lock().mapped -= self.chunk as u64;
    }

    fn give_back(&self, map: Map) {
        let mut state = self.lock();
        if state.mapped <= state.most {
            return state.free.push(map);
        }
        state.mapped -= self.chunk as u64;
        drop(state);
        // Unmapped here, after the lock is released.
        drop(map);
    }
}

/// Memory of a pool's chunk size, aligned to [`BLOCK`](crate::BLOCK). Returns to the pool when dropped.
#[derive(Debug)]
pub struct Buffer {
    /// Present until the buffer is dropped.
    map: Option<Map>,
    home: Arc<Shared>,
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let Some(map) = &self.map else { return &[] };
        // SAFETY: the mapping is `length` readable bytes, initialised (anonymous memory starts as
        // zeros), and only this buffer owns it; storage only reads it.
        unsafe { std::slice::from_raw_parts(map.base.as_ptr(), map.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let Some(map) = &mut self.map else { return &mut [] };
        // SAFETY: as above, and writable; `&mut self` is the only way to it. While a buffer's write
        // is in flight its file owns it and gives out no reference to it.
        unsafe { std::slice::from_raw_parts_mut(map.base.as_ptr(), map.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(map) = self.map.take() {
            self.home.give_back(map);
        }
    }
}

/// A private anonymous mapping, unmapped when dropped.
#[derive(Debug)]
struct Map {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to no thread; only its one `Buffer` accesses it.
unsafe impl Send for Map {}
// SAFETY: a shared reference allows only reading.
unsafe impl Sync for Map {}

impl Map {
    /// `length` bytes of zeros; `length` is a multiple of the page size.
    fn new(length: usize) -> rustix::io::Result<Map> {
        if length < HUGE {
            return Map::anywhere(length);
        }
        let wide = Map::anywhere(length + HUGE)?;
        let map = wide.narrowed(length);
        // SAFETY: the range is the mapping's; the advice changes no content. A kernel without huge
        // pages refuses it, which costs only speed.
        let _ = unsafe { rustix::mm::madvise(map.at(0), length, Advice::LinuxHugepage) };
        Ok(map)
    }

    fn anywhere(length: usize) -> rustix::io::Result<Map> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address chosen by the kernel replaces nothing.
        let base = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, access, MapFlags::PRIVATE)
        }?;
        Ok(Map { base: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?, length })
    }

    /// The part of `length` bytes that begins at a huge page boundary; the rest is unmapped.
    fn narrowed(self, length: usize) -> Map {
        let before = self.base.as_ptr().align_offset(HUGE);
        // `align_offset` may refuse by its contract; then the part begins at the start of the whole.
        let before = if before <= self.length - length { before } else { 0 };
        let behind = self.length - before - length;
        let wide = std::mem::ManuallyDrop::new(self);
        for (start, size) in [(0, before), (before + length, behind)] {
            if size > 0 {
                // SAFETY: this part of the mapping is outside the returned one; nobody uses it.
                let done = unsafe { rustix::mm::munmap(wide.at(start), size) };
                debug_assert!(done.is_ok());
            }
        }
        // SAFETY: `before` is inside the mapping.
        Map { base: unsafe { wide.base.add(before) }, length }
    }

    fn at(&self, offset: usize) -> *mut c_void {
        self.base.as_ptr().wrapping_add(offset).cast()
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new`, and its one buffer is gone.
        let done = unsafe { rustix::mm::munmap(self.at(0), self.length) };
        debug_assert!(done.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn buffers_are_bounded_counted_and_come_back() {
        let pool = Pool::new(1 << 20, 3 * MIB + 5);
        assert_eq!(pool.mapped_bytes(), 0);
        let mut held: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((held.len(), pool.in_use_bytes()), (3, 3 * MIB));
        held.pop();
        assert_eq!((pool.in_use_bytes(), pool.mapped_bytes()), (2 * MIB, 3 * MIB));
        assert!(pool.take().is_some());
        drop(held);
        assert_eq!((pool.in_use_bytes(), pool.mapped_bytes()), (0, 3 * MIB));
    }

    #[test]
    fn the_last_one_back_is_the_next_one_out() {
        let pool = Pool::new(8192, 1 << 20);
        let (mut first, mut second) = (pool.take().unwrap(), pool.take().unwrap());
        (first[0], second[0]) = (1, 2);
        drop(first);
        drop(second);
        assert_eq!((pool.take().unwrap()[0], pool.mapped_bytes()), (2, 16384));
    }

    #[test]
    fn every_buffer_is_aligned_zeroed_and_as_long_as_the_chunk() {
        let odd = (4 << 20) + 1;
        for (asked, got) in [(1, 4096), (4096, 4096), (HUGE, HUGE), (odd, odd + 4095)] {
            let pool = Pool::new(asked, 64 << 20);
            let held: Vec<Buffer> = (0..3).map(|_| pool.take().unwrap()).collect();
            for buffer in &held {
                let align = if got >= HUGE { HUGE } else { BLOCK };
                assert_eq!((buffer.len(), pool.chunk()), (got, got));
                assert_eq!(buffer.as_ptr().align_offset(align), 0);
                assert!(buffer.iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn a_lower_bound_takes_free_memory_now_and_the_rest_when_it_comes_back() {
        let pool = Pool::new(1 << 20, 4 * MIB);
        let mut held: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
        held.truncate(2);
        pool.set_most(MIB);
        assert_eq!(pool.mapped_bytes(), 2 * MIB);
        assert!(pool.take().is_none());
        held.pop();
        assert_eq!((pool.mapped_bytes(), pool.in_use_bytes()), (MIB, MIB));
        drop(held);
        assert_eq!((pool.mapped_bytes(), pool.in_use_bytes()), (MIB, 0));
        pool.set_most(2 * MIB);
        let two = (pool.take().unwrap(), pool.take().unwrap());
        assert!(pool.take().is_none());
        drop(two);
    }

    #[test]
    fn a_buffer_outlives_its_pool_and_crosses_threads() {
        let mut buffer = Pool::new(4096, 4096).take().unwrap();
        std::thread::spawn(move || buffer.fill(7)).join().unwrap();
    }

    #[test]
    fn memory_that_the_machine_does_not_have_is_none() {
        let pool = Pool::new(usize::MAX, u64::MAX);
        assert!(pool.take().is_none());
        assert_eq!(pool.mapped_bytes(), 0);
    }
}
