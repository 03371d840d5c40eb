//! A guest's memory, as far as its front end shares it.
//!
//! Addresses of descriptors are the guest's, those of rings the front end's. Every access is checked against the
//! regions and goes through `vm-memory`, which copies: no reference to memory that the guest can write leaves this
//! module. Invariant: a region lies within its file when it is mapped. A front end that shortens the file afterwards
//! ends this process, and so its own port only.

use std::cell::Cell;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use vm_memory::{MmapRegion, VolatileMemory, VolatileSlice};

/// Most regions: as many as a message has descriptors, or QEMU slots.
pub(crate) const MOST_REGIONS: usize = 64;

/// Where a region lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Its address in the guest.
    pub(crate) guest: u64,
    /// Its address in the front end.
    pub(crate) user: u64,
    /// Its bytes.
    pub(crate) size: u64,
    /// Where it begins in its file.
    pub(crate) offset: u64,
}

#[derive(Debug)]
struct Region {
    at: Extent,
    map: Arc<MmapRegion>,
}

/// All regions.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    regions: Vec<Region>,
    /// The region of the last address: the next is mostly in it, too.
    last: Cell<usize>,
}

/// Some bytes of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    region: usize,
    offset: usize,
    pub(crate) length: usize,
}

impl Memory {
    /// Maps a region; `None` if it cannot be mapped, is not all in its file, overlaps another, or is one too many.
    pub(crate) fn add(&mut self, at: Extent, file: File) -> Option<()> {
        let end = at.guest.checked_add(at.size)?;
        at.user.checked_add(at.size)?;
        // Sums of regions that were taken do not wrap.
        let overlaps = |r: &Region| at.guest < r.at.guest + r.at.size && r.at.guest < end;
        let in_file = at.offset.checked_add(at.size)? <= file.metadata().ok()?.len();
        if at.size == 0 || !in_file || self.regions.len() >= MOST_REGIONS {
            return None;
        }
        if self.regions.iter().any(overlaps) {
            return None;
        }
        let size = usize::try_from(at.size).ok()?;
        let map = MmapRegion::from_file(vm_memory::FileOffset::new(file, at.offset), size).ok()?;
        self.regions.push(Region { at, map: Arc::new(map) });
        Some(())
    }

    /// Removes a region; `None` if there is none at these addresses.
    pub(crate) fn remove(&mut self, guest: u64, user: u64, size: u64) -> Option<()> {
        let found = |r: &Region| (r.at.guest, r.at.user, r.at.size) == (guest, user, size);
        let index = self.regions.iter().position(found)?;
        self.regions.swap_remove(index);
        self.last.set(0);
        Some(())
    }

    /// Whether there is any.
    pub(crate) fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// The bytes at a guest's address, if all are in one region.
    #[inline]
    pub(crate) fn span(&self, address: u64, length: u32) -> Option<Span> {
        let last = self.last.get();
        if let Some(span) = self.within(last, address, length) {
            return Some(span);
        }
        let index = (0..self.regions.len()).find(|i| self.within(*i, address, length).is_some())?;
        self.last.set(index);
        self.within(index, address, length)
    }

    #[inline]
    fn within(&self, index: usize, address: u64, length: u32) -> Option<Span> {
        let at = &self.regions.get(index)?.at;
        let offset = address.checked_sub(at.guest)?;
        if offset.checked_add(u64::from(length))? > at.size {
            return None;
        }
        let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
        Some(Span { region: index, offset, length })
    }

    #[inline]
    fn slice(&self, span: Span) -> Option<VolatileSlice<'_>> {
        self.regions.get(span.region)?.map.get_slice(span.offset, span.length).ok()
    }

    /// Copies a span from the guest, as far as `to` goes; returns the number of bytes.
    #[inline]
    pub(crate) fn read(&self, span: Span, to: &mut [u8]) -> usize {
        self.slice(span).map_or(0, |slice| slice.copy_to(to))
    }

    /// Copies into a span of the guest; returns how many bytes fitted.
    #[inline]
    pub(crate) fn write(&self, span: Span, from: &[u8]) -> usize {
        let length = span.length.min(from.len());
        self.slice(span).map_or(0, |slice| {
            slice.copy_from(&from[..length]);
            length
        })
    }

    /// A part of a ring, `length` bytes at the front end's address.
    pub(crate) fn part(&self, address: u64, length: usize, align: u64) -> Option<Part> {
        let wanted = u64::try_from(length).ok()?;
        self.regions.iter().find_map(|region| {
            let offset = address.checked_sub(region.at.user)?;
            let fits = offset.checked_add(wanted)? <= region.at.size;
            let guest = region.at.guest.checked_add(offset)?;
            let offset = usize::try_from(offset).ok()?;
            // The mapping begins with a page, the region at an offset of its file.
            let aligned = guest.is_multiple_of(align)
                && (region.map.as_ptr() as u64 + offset as u64).is_multiple_of(align);
            (fits && aligned).then(|| Part { map: Arc::clone(&region.map), offset, length })
        })
    }
}

impl Span {
    /// The span without its first bytes.
    pub(crate) fn skip(self, bytes: usize) -> Span {
        let bytes = bytes.min(self.length);
        Span { offset: self.offset + bytes, length: self.length - bytes, ..self }
    }
}

/// Part of a ring. Accesses beyond it read zero and write nothing.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    map: Arc<MmapRegion>,
    offset: usize,
    length: usize,
}

impl Part {
    #[inline]
    fn is_within(&self, at: usize, length: usize) -> bool {
        at.checked_add(length).is_some_and(|end| end <= self.length)
    }

    /// Sixteen bytes: a descriptor.
    #[inline]
    pub(crate) fn read_16(&self, at: usize) -> [u8; 16] {
        let mut bytes = [0; 16];
        if self.is_within(at, 16)
            && let Ok(slice) = self.map.get_slice(self.offset + at, 16)
        {
            slice.copy_to(&mut bytes[..]);
        }
        bytes
    }

    #[inline]
    fn word(&self, at: usize) -> Option<&AtomicU16> {
        let within = self.is_within(at, 2);
        within.then(|| self.map.get_atomic_ref(self.offset + at).ok()).flatten()
    }

    /// A word, in the byte order of the virtio standard.
    #[inline]
    pub(crate) fn load(&self, at: usize, order: Ordering) -> u16 {
        self.word(at).map_or(0, |word| u16::from_le(word.load(order)))
    }

    /// Stores a word.
    #[inline]
    pub(crate) fn store(&self, at: usize, value: u16, order: Ordering) {
        if let Some(word) = self.word(at) {
            word.store(value.to_le(), order);
        }
    }

    /// Stores two words of 32 bits: an entry of a used ring.
    #[inline]
    pub(crate) fn store_pair(&self, at: usize, pair: [u32; 2]) {
        if !self.is_within(at, 8) {
            return;
        }
        for (index, value) in pair.into_iter().enumerate() {
            let word = self.map.get_atomic_ref::<AtomicU32>(self.offset + at + 4 * index);
            if let Ok(word) = word {
                word.store(value.to_le(), Ordering::Relaxed);
            }
        }
    }
}
