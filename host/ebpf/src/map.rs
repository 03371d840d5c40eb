//! Maps of fixed words: keys and values are byte arrays in the machine's order, with the layout of
//! the headers in `bpf/include/netloom`.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, MapType};
use libbpf_sys::bpf_map_create_opts;
use netloom_sys::Failure;

use crate::error::not_permitted;
use crate::{Error, Result};

/// A map and its name in errors.
#[derive(Debug)]
pub(crate) struct Map {
    name: &'static str,
    handle: MapHandle,
}

/// For `map_err` on operations on the map of that name.
pub(crate) fn refused(
    name: &'static str,
    operation: &'static str,
) -> impl FnOnce(libbpf_rs::Error) -> Error {
    move |source| Failure::new(format!("map {name}"), operation, source).into()
}

impl Map {
    pub(crate) fn new(name: &'static str, handle: MapHandle) -> Self {
        Self { name, handle }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Whether keys and values have these sizes in bytes.
    pub(crate) fn is_of(&self, key: usize, value: usize) -> bool {
        usize::try_from(self.handle.key_size()) == Ok(key)
            && usize::try_from(self.handle.value_size()) == Ok(value)
    }

    /// An array that can be mapped, zero.
    pub(crate) fn array(name: &'static str, value: u32, entries: u32) -> Result<Self> {
        let opts = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as u64,
            map_flags: libbpf_sys::BPF_F_MMAPABLE,
            ..Default::default()
        };
        let made = MapHandle::create(MapType::Array, Some(name), 4, value, entries, &opts);
        made.map(|handle| Self { name, handle }).map_err(|e| match e.kind() {
            ErrorKind::PermissionDenied => not_permitted("memory of BPF programs").into(),
            _ => refused(name, "create")(e),
        })
    }

    /// The map at a place of this one, which is an array of maps.
    pub(crate) fn inner(&self, place: u32) -> Result<Option<Map>> {
        let key = place.to_ne_bytes();
        let found = self.handle.lookup(&key, MapFlags::ANY).map_err(self.error("look up"))?;
        // Written as a descriptor, read as the inner map's id.
        let Some(id) = found.and_then(|id| id.try_into().ok()).map(u32::from_ne_bytes) else {
            return Ok(None);
        };
        let handle = MapHandle::from_map_id(id).map_err(self.error("open a map of"))?;
        Ok(Some(Map { name: self.name, handle }))
    }

    /// Puts maps into this one, which is an array of maps, from a place on.
    pub(crate) fn put_inner(&self, first: u32, maps: &[BorrowedFd<'_>]) -> Result<()> {
        let keys: Vec<u8> = (first..).take(maps.len()).flat_map(u32::to_ne_bytes).collect();
        let fds: Vec<u8> = maps.iter().flat_map(|map| map.as_raw_fd().to_ne_bytes()).collect();
        let count = u32::try_from(maps.len()).unwrap_or(0);
        let (any, none) = (MapFlags::ANY, MapFlags::ANY);
        // One grace period for all of them; older kernels take them one by one.
        if self.handle.update_batch(&keys, &fds, count, any, none).is_ok() {
            return Ok(());
        }
        for (key, fd) in keys.chunks(4).zip(fds.chunks(4)) {
            self.handle.update(key, fd, any).map_err(self.error("update"))?;
        }
        Ok(())
    }

    /// How many entries it has, or can have.
    pub(crate) fn entries(&self) -> u32 {
        self.handle.max_entries()
    }

    fn error(&self, operation: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Error {
        refused(self.name, operation)
    }

    /// The value of a key as words.
    pub(crate) fn get<const N: usize>(&self, key: &[u8]) -> Result<Option<[u64; N]>> {
        let found = self.handle.lookup(key, MapFlags::ANY).map_err(self.error("look up"))?;
        found.map(|value| self.words(&value)).transpose()
    }

    /// Writes a value, new or not.
    pub(crate) fn put(&self, key: &[u8], value: &[u64]) -> Result<()> {
        self.handle.update(key, &bytes(value), MapFlags::ANY).map_err(self.error("update"))
    }

    /// Writes a value if the key is new; returns whether it was.
    pub(crate) fn put_new(&self, key: &[u8], value: &[u64]) -> Result<bool> {
        match self.handle.update(key, &bytes(value), MapFlags::NO_EXIST) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == libbpf_rs::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(self.error("add")(e)),
        }
    }

    /// Removes a key; returns whether it existed.
    pub(crate) fn remove(&self, key: &[u8]) -> Result<bool> {
        match self.handle.delete(key) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == libbpf_rs::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(self.error("delete")(e)),
        }
    }

    /// All keys; those added or removed meanwhile may be included or not.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.handle.keys().collect()
    }

    fn words<const N: usize>(&self, value: &[u8]) -> Result<[u64; N]> {
        let (words, rest) = value.as_chunks::<8>();
        if words.len() != N || !rest.is_empty() {
            return Err(Error::Foreign { program: "map", map: self.name });
        }
        Ok(std::array::from_fn(|i| u64::from_ne_bytes(words[i])))
    }
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Two half words as one key or one word of a value, the first at the lower address.
pub(crate) fn pair(first: u32, second: u32) -> [u8; 8] {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    [a, b, c, d, e, f, g, h]
}

/// The half words of a [`pair`].
pub(crate) fn unpair(bytes: [u8; 8]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = bytes;
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pairs_come_back(first: u32, second: u32) {
            prop_assert_eq!(unpair(pair(first, second)), (first, second));
        }

        #[test]
        fn words_are_bytes_in_order(words: [u64; 3]) {
            let all = bytes(&words);
            let (chunks, rest) = all.as_chunks::<8>();
            prop_assert!(rest.is_empty());
            prop_assert_eq!(chunks.iter().map(|c| u64::from_ne_bytes(*c)).collect::<Vec<_>>(), words);
        }
    }
}
