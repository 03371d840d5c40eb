//! Arrays that grow: the first chunk is a map of its own, further ones are maps within a map, mapped here.
//!
//! To put maps into a map takes the kernel some ten milliseconds, a grace period of RCU; it is done for many at once, and
//! never for a switch that keeps few results.

use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU64;

use rustix::mm::ProtFlags;

use super::PROGRAM;
use crate::map::Map;
use crate::memory::Mapping;
use crate::{Error, Result};

/// What all chunks of an array are like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// The name of the first one, and of the map of the others.
    pub(super) name: &'static str,
    pub(super) more: &'static str,
    /// Bytes of an element, and elements of a chunk.
    pub(super) size: usize,
    pub(super) elements: usize,
}

impl Form {
    /// A chunk, zero.
    pub(super) fn make(&self) -> Result<Map> {
        let number = |of: usize| u32::try_from(of).unwrap_or(u32::MAX);
        Map::array(self.name, number(self.size), number(self.elements))
    }

    fn mapped(&self, map: &Map) -> Result<Mapping> {
        if !map.is_of(4, self.size) || usize::try_from(map.entries()) != Ok(self.elements) {
            return Err(Error::Foreign { program: PROGRAM, map: self.name });
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        Mapping::of(map.fd(), self.name, self.size * self.elements, access)
    }
}

/// An array.
#[derive(Debug)]
pub(super) struct Chunks {
    form: Form,
    mapped: Vec<Mapping>,
}

impl Chunks {
    /// The first chunk alone.
    pub(super) fn first(form: Form, map: &Map) -> Result<Chunks> {
        Ok(Chunks { form, mapped: vec![form.mapped(map)?] })
    }

    /// Those that are in a map, from a place on: at most so many.
    pub(super) fn within(form: Form, outer: &Map, first: u32, most: u32) -> Result<Chunks> {
        let mut chunks = Chunks { form, mapped: vec![] };
        chunks.take(outer, first, most)?;
        Ok(chunks)
    }

    /// Adds those that are in a map, from a place on: at most so many.
    pub(super) fn take(&mut self, outer: &Map, first: u32, most: u32) -> Result<()> {
        for place in first..first + most {
            // Places are filled in order: the first empty one is the end.
            let Some(map) = outer.inner(place)? else { break };
            self.mapped.push(self.form.mapped(&map)?);
        }
        Ok(())
    }

    /// Makes more, which programs find in a map from a place on.
    pub(super) fn add(&mut self, outer: &Map, first: u32, count: usize) -> Result<()> {
        let maps: Vec<Map> = (0..count).map(|_| self.form.make()).collect::<Result<_>>()?;
        // Mapped before a program can find them, so that a failure leaves nothing half done.
        let mapped: Vec<Mapping> =
            maps.iter().map(|map| self.form.mapped(map)).collect::<Result<_>>()?;
        let fds: Vec<BorrowedFd<'_>> = maps.iter().map(Map::fd).collect();
        outer.put_inner(first, &fds)?;
        self.mapped.extend(mapped);
        Ok(())
    }

    /// None yet.
    pub(super) fn empty(form: Form) -> Chunks {
        Chunks { form, mapped: vec![] }
    }

    /// Chunks that no program sees.
    #[cfg(test)]
    pub(super) fn in_memory(form: Form, count: usize) -> Chunks {
        let length = form.size * form.elements;
        let one = |_| {
            let fd = rustix::fs::memfd_create(form.name, rustix::fs::MemfdFlags::CLOEXEC).unwrap();
            rustix::fs::ftruncate(&fd, u64::try_from(length).unwrap()).unwrap();
            let access = ProtFlags::READ | ProtFlags::WRITE;
            Mapping::of(std::os::fd::AsFd::as_fd(&fd), form.name, length, access).unwrap()
        };
        Chunks { form, mapped: (0..count).map(one).collect() }
    }

    /// Forgets all but the first.
    pub(super) fn keep(&mut self, count: usize) {
        self.mapped.truncate(count);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.mapped.len()
    }

    /// A word of an element of a chunk.
    pub(super) fn word(&self, chunk: usize, element: usize, word: usize) -> &AtomicU64 {
        self.mapped[chunk].word(element * self.form.size + word * 8)
    }
}
