//! Ports where programs find them without a hash map: by the last bits of the index of their interface. A port whose place
//! another one has is only in the map of all ports.

use std::sync::atomic::Ordering;

use rustix::mm::ProtFlags;

use super::PROGRAM;
use crate::map::Map;
use crate::memory::Mapping;
use crate::{Error, Result};

const NEAR: &str = "nl_fl_near";
/// Places: `NL_FL_NEAR`.
const PLACES: u32 = 1024;

/// The places. This process writes them, programs only read.
#[derive(Debug)]
pub(super) struct Near(Mapping);

impl Near {
    pub(super) fn map(map: &dyn Fn(&'static str) -> Result<Map>) -> Result<Near> {
        let map = map(NEAR)?;
        if !map.is_of(4, 8) || map.entries() != PLACES {
            return Err(Error::Foreign { program: PROGRAM, map: NEAR });
        }
        let length = 8 * usize::try_from(PLACES).unwrap_or(0);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        Mapping::of(map.fd(), NEAR, length, access).map(Near)
    }

    /// Puts a port into its place, unless another interface has that.
    pub(super) fn put(&self, ifindex: u32, port: u32) {
        if self.is_free_for(ifindex) {
            self.write(ifindex, u64::from(port) << 32 | u64::from(ifindex));
        }
    }

    /// Takes a port out.
    pub(super) fn remove(&self, ifindex: u32) {
        if self.is_free_for(ifindex) {
            self.write(ifindex, 0);
        }
    }

    fn is_free_for(&self, ifindex: u32) -> bool {
        let found = self.0.word(place(ifindex)).load(Ordering::Relaxed) & u64::from(u32::MAX);
        found == 0 || found == u64::from(ifindex)
    }

    fn write(&self, ifindex: u32, word: u64) {
        self.0.word(place(ifindex)).store(word, Ordering::Release);
    }
}

fn place(ifindex: u32) -> usize {
    8 * usize::try_from(ifindex % PLACES).unwrap_or(0)
}
