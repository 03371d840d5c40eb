//! Programs in the kernel: their descriptors, names and maps.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::{MapCore, MapHandle};
use libbpf_sys::bpf_prog_info;
use netloom_sys::Failure;

use crate::map::Map;
use crate::{Error, Result};

/// Room for the ids of a program's maps; ours have fewer.
const MAPS: usize = 32;

/// A program of ours in the kernel.
#[derive(Debug)]
pub(crate) struct Program {
    name: &'static str,
    fd: OwnedFd,
}

/// The kernel's information on a program.
struct Info {
    id: u32,
    name: Vec<u8>,
    maps: Vec<u32>,
}

impl Program {
    pub(crate) fn new(name: &'static str, fd: OwnedFd) -> Self {
        Self { name, fd }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.fd.as_fd()
    }

    /// The kernel's number of it, by which another process can find it.
    pub(crate) fn id(&self) -> Result<u32> {
        Ok(self.info()?.id)
    }

    /// Whether the other program uses the very same maps.
    pub(crate) fn same_maps(&self, other: &Self) -> Result<bool> {
        let [mut ours, mut theirs] = [self.info()?.maps, other.info()?.maps];
        ours.sort_unstable();
        theirs.sort_unstable();
        Ok(ours == theirs)
    }

    /// The first of these programs with this name.
    pub(crate) fn find(ids: &[u32], name: &'static str) -> Result<Option<Self>> {
        for id in ids {
            let Some(program) = Self::open(*id, name)? else { continue };
            // The kernel cuts names at 15 bytes; ours are no longer.
            if program.info()?.name == name.as_bytes() {
                return Ok(Some(program));
            }
        }
        Ok(None)
    }

    /// Whether a program's name begins like this.
    pub(crate) fn begins(id: u32, name: &'static str) -> Result<bool> {
        let Some(program) = Self::open(id, name)? else { return Ok(false) };
        Ok(program.info()?.name.starts_with(name.as_bytes()))
    }

    /// A program by its id, if it is still loaded.
    pub(crate) fn open(id: u32, name: &'static str) -> Result<Option<Self>> {
        // SAFETY: takes a number and returns a descriptor or an error.
        let fd = unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) };
        if fd < 0 {
            return match io::Error::from_raw_os_error(-fd) {
                // It has gone since the ids were listed.
                e if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
                e => Err(Failure::new(format!("program {id}"), "open", e).into()),
            };
        }
        // SAFETY: the descriptor is new and nobody else owns it.
        Ok(Some(Self::new(name, unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    fn info(&self) -> Result<Info> {
        let mut maps = [0u32; MAPS];
        let room = u32::try_from(MAPS).unwrap_or(u32::MAX);
        let mut info = bpf_prog_info {
            nr_map_ids: room,
            map_ids: maps.as_mut_ptr().expose_provenance() as u64,
            ..Default::default()
        };
        let mut length = u32::try_from(size_of::<bpf_prog_info>()).unwrap_or(u32::MAX);
        // SAFETY: `info` and the id buffer that it names are ours, writable, and outlive the call;
        // `length` is the size of `info`.
        let refused = unsafe {
            libbpf_sys::bpf_prog_get_info_by_fd(self.fd.as_raw_fd(), &raw mut info, &raw mut length)
        };
        if refused < 0 {
            let error = io::Error::from_raw_os_error(-refused);
            return Err(Failure::new(self.name, "ask about", error).into());
        }
        // SAFETY: the kernel's names end within their 16 bytes; c_char and u8 have the same layout.
        let name = unsafe { CStr::from_ptr(info.name.as_ptr()) };
        // The kernel tells the true number, and fills in as many as there is room for.
        let count = usize::try_from(info.nr_map_ids).unwrap_or(0).min(MAPS);
        Ok(Info { id: info.id, name: name.to_bytes().to_vec(), maps: maps[..count].to_vec() })
    }

    /// The map of this name, whatever its form.
    pub(crate) fn map_named(&self, name: &'static str) -> Result<Map> {
        let handles =
            self.info()?.maps.into_iter().filter_map(|id| MapHandle::from_map_id(id).ok());
        let found = handles.into_iter().find(|handle| handle.name() == name);
        let none = Error::Foreign { program: self.name, map: name };
        found.map(|handle| Map::new(name, handle)).ok_or(none)
    }

    /// The map of this name, whose keys and values must have these sizes in bytes.
    pub(crate) fn map(&self, name: &'static str, key: usize, value: usize) -> Result<Map> {
        for id in self.info()?.maps {
            let Ok(handle) = MapHandle::from_map_id(id) else { continue };
            if handle.name() == name {
                let map = Map::new(name, handle);
                if map.is_of(key, value) {
                    return Ok(map);
                }
            }
        }
        Err(Error::Foreign { program: self.name, map: name })
    }
}
