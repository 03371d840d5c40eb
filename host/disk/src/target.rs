//! Opening a file: what may exist at its path, and which ways of writing it allows.
//!
//! Nothing is followed, opened or truncated unless it is a regular file that no other process writes. Writing
//! past the page cache is tried only where the file system reports support (`STATX_DIOALIGN`, Linux 6.1) or,
//! if it reports nothing, accepts `O_DIRECT`; [`File`](crate::File) handles a failure at the first write.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use netloom_sys::Failure;
use rustix::fs::{Access, AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::ring::Ring;
use crate::{BLOCK, Error, Result, lock};

/// Whether to bypass the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direct {
    /// Where the file system allows it.
    #[default]
    Auto,
    /// Never.
    Never,
}

/// How a file is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Past the page cache or not.
    pub direct: Direct,
    /// Whether io_uring may be used: the caller continues while a chunk is written. Only used past
    /// the page cache.
    pub uring: bool,
    /// Bytes of a full chunk: the size of the pool's buffers.
    pub chunk: usize,
    /// Most bytes handed to the kernel in one write, but at least one chunk. Twice as many may be
    /// queued before [`File::write`](crate::File::write) waits.
    pub gather: usize,
    /// Bytes of space reserved at the start, beyond the file's size; 0 for none.
    /// [`File::finish`](crate::File::finish) releases what was not needed; it stays reserved if the
    /// process is killed.
    pub preallocate: u64,
    /// Permissions of a new file, before the umask.
    pub mode: u32,
    /// Whether the file gets its name only when its first chunk is in it, so that a killed process
    /// leaves no empty file. An existing file is emptied at once; a file system without unnamed
    /// files (`O_TMPFILE`) names every file at once.
    pub late: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            direct: Direct::Auto,
            uring: true,
            chunk: 4 << 20,
            gather: 16 << 20,
            preallocate: 0,
            mode: 0o600,
            late: false,
        }
    }
}

/// How a file is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct How {
    /// Past the page cache.
    pub direct: bool,
    /// By io_uring.
    pub uring: bool,
    /// Space was reserved as requested.
    pub preallocated: bool,
    /// Why it is less than the options allow, in words.
    pub why_not: Option<String>,
}

impl How {
    pub(crate) fn lacks(&mut self, what: &str, reason: impl std::fmt::Display) {
        let why = self.why_not.get_or_insert_default();
        let separator = if why.is_empty() { "" } else { "; " };
        why.push_str(&format!("{separator}{what}: {reason}"));
    }
}

/// An open, empty file and the way to write it.
pub(crate) struct Target {
    pub(crate) fd: OwnedFd,
    pub(crate) ring: Option<Ring>,
    pub(crate) how: How,
    /// Whether it has its name.
    pub(crate) named: bool,
}

impl Target {
    pub(crate) fn create(path: &Path, options: &Options) -> Result<Target> {
        let nameless = if options.late { nameless(path, options.mode) } else { None };
        let (fd, named) = match nameless {
            Some(fd) => {
                // No other process knows it.
                lock::take(&fd, path)?;
                (fd, false)
            }
            None => (open(path, options.mode)?, true),
        };
        let mut how = How { direct: false, uring: false, preallocated: false, why_not: None };
        if options.direct == Direct::Auto {
            match go_direct(&fd) {
                Ok(()) => how.direct = true,
                Err(reason) => how.lacks("O_DIRECT", reason),
            }
        }
        let ring = (how.direct && options.uring).then(Ring::open).transpose();
        let ring = ring.unwrap_or_else(|source| {
            how.lacks("io_uring", source);
            None
        });
        how.uring = ring.is_some();
        if options.preallocate > 0 {
            match rustix::fs::fallocate(&fd, FallocateFlags::KEEP_SIZE, 0, options.preallocate) {
                Ok(()) => how.preallocated = true,
                Err(source) => how.lacks("preallocation", source),
            }
        }
        Ok(Target { fd, ring, how, named })
    }

    /// Links it to its path, where nothing may exist.
    pub(crate) fn name(&mut self, path: &Path) -> Result<(), Errno> {
        let itself = format!("{DESCRIPTORS}/{}", self.fd.as_raw_fd());
        rustix::fs::linkat(CWD, itself, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
        self.named = true;
        Ok(())
    }
}

/// The directory with a link to each open file (proc_pid_fd(5)).
const DESCRIPTORS: &str = "/proc/self/fd";

/// An unnamed file for this path, if the file system can make one and nothing is at the path.
fn nameless(path: &Path, mode: u32) -> Option<OwnedFd> {
    let absent = rustix::fs::lstat(path).is_err_and(|error| error == Errno::NOENT);
    // A file that could not be named later would be lost.
    if !absent || rustix::fs::access(DESCRIPTORS, Access::EXISTS).is_err() {
        return None;
    }
    let folder = path.parent().filter(|folder| *folder != "").unwrap_or(Path::new("."));
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::from_raw_mode(mode)).ok()
}

/// Opens a regular file, created or emptied.
fn open(path: &Path, mode: u32) -> Result<OwnedFd> {
    let failed = |operation| move |source: Errno| Failure::path(path, operation, source);
    // Checked before opening, because opening alone has an effect on some devices, and again
    // afterwards, because the path may lead to another file by then.
    if let Ok(found) = rustix::fs::lstat(path) {
        regular(path, found.st_mode)?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Do not wait for the reader of a FIFO that appeared in between.
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = rustix::fs::open(path, flags, Mode::from_raw_mode(mode)).map_err(failed("create"))?;
    regular(path, rustix::fs::fstat(&fd).map_err(failed("look at"))?.st_mode)?;
    rustix::fs::fcntl_setfl(&fd, OFlags::empty()).map_err(failed("set flags"))?;
    lock::take(&fd, path)?;
    rustix::fs::ftruncate(&fd, 0).map_err(failed("empty"))?;
    Ok(fd)
}

fn regular(path: &Path, mode: rustix::fs::RawMode) -> Result<()> {
    let kind = match FileType::from_raw_mode(mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Symlink => "a symbolic link, which is not followed",
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO, which has no positions to write at",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device, which has no positions to write at",
        FileType::BlockDevice => "a block device, which has no length to set",
        _ => "not a regular file",
    };
    Err(Error::Refused { path: path.to_owned(), reason: format!("it is {kind}") })
}

/// Sets `O_DIRECT`, or says why not.
fn go_direct(fd: &OwnedFd) -> Result<(), String> {
    /// `TMPFS_MAGIC` of linux/magic.h.
    const TMPFS: u64 = 0x0102_1994;
    let kind = rustix::fs::fstatfs(fd).map_err(|source| source.to_string())?;
    // tmpfs accepts the flag since Linux 6.6, and still writes to the page cache.
    if u64::try_from(kind.f_type).is_ok_and(|kind| kind == TMPFS) {
        return Err("a tmpfs is the page cache".to_owned());
    }
    if let Some(align) = alignment(fd) {
        match align {
            0 => return Err("the file system does not allow it for this file".to_owned()),
            align if BLOCK.is_multiple_of(align) => (),
            align => return Err(format!("the file system wants pieces of {align} bytes")),
        }
    }
    let set = rustix::fs::fcntl_setfl(fd, OFlags::DIRECT);
    set.map_err(|source| io::Error::from(source).to_string())
}

/// The required alignment of memory and offsets: 0 if unsupported, `None` if the kernel does not tell.
fn alignment(fd: &OwnedFd) -> Option<usize> {
    let found = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let told = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::DIOALIGN);
    if !told {
        return None;
    }
    let (memory, offset) = (found.stx_dio_mem_align, found.stx_dio_offset_align);
    usize::try_from(if memory == 0 || offset == 0 { 0 } else { memory.max(offset) }).ok()
}

/// Switches back to the page cache.
pub(crate) fn go_buffered(fd: &OwnedFd) -> io::Result<()> {
    Ok(rustix::fs::fcntl_setfl(fd, OFlags::empty())?)
}
