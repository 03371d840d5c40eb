//! Maps of fixed words: keys and values are byte arrays in the machine's order, with the layout of
//! the headers in `bpf/include/netloom`.

use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use netloom_sys::Failure;

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
