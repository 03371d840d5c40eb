//! Copies a file's bytes, permission bits and times. Holes stay holes.

use std::io;
use std::os::fd::OwnedFd;

use netloom_sys::space;
use rustix::fs::{
    Mode, SeekFrom, Stat, Timespec, Timestamps, copy_file_range, ftruncate, ioctl_ficlone, seek,
};
use rustix::io::{Errno, read, retry_on_intr, write};

use super::Bounds;

/// Bytes requested per copy_file_range call. Between two the copy may be ended.
const RANGE: u64 = 64 << 20;

/// Bytes per read when the kernel does not copy.
const BLOCK: usize = 256 * 1024;

/// A failed copy: the operation and its error.
type Failed = (&'static str, io::Error);

/// What a copy may write, and has written.
#[derive(Debug)]
pub(super) struct Meter<'a> {
    bounds: Bounds<'a>,
    written: u64,
}

impl<'a> Meter<'a> {
    pub(super) fn new(bounds: Bounds<'a>) -> Meter<'a> {
        Meter { bounds, written: 0 }
    }

    /// Ends a copy whose caller is told to end.
    pub(super) fn go_on(&self) -> Result<(), Failed> {
        match self.bounds.is_told_to_end.is_some_and(|is_told| is_told()) {
            true => Err(("copy", io::Error::other("interrupted"))),
            false => Ok(()),
        }
    }

    /// Whether this many bytes more may be written into the file system of `to`; `size` is that of the file.
    pub(super) fn admit(&self, to: &OwnedFd, more: u64, size: u64) -> Result<(), Failed> {
        self.go_on()?;
        let size = size.max(more);
        if let Some(max) = self.bounds.max.filter(|max| self.written.saturating_add(more) > *max) {
            let left = max - self.written.min(max);
            let why = format!("its {size} bytes are more than --max leaves, which are {left}");
            return Err(("copy", io::Error::other(why)));
        }
        match space::free(to).ok().flatten().filter(|free| *free < more) {
            Some(free) => {
                let why = format!("its {size} bytes do not fit: {free} are free there");
                Err(("copy", io::Error::other(why)))
            }
            None => Ok(()),
        }
    }
}

/// Copies a whole file and returns the number of bytes.
pub(super) fn copy_bytes(
    from: &OwnedFd,
    to: &OwnedFd,
    stat: &Stat,
    meter: &mut Meter<'_>,
) -> Result<u64, Failed> {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    // `st_blocks` counts 512 bytes each, whatever `st_blksize` says (stat(2)). Holes are not in it.
    let on_disk = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    // A copy that shares its blocks takes no room.
    meter.go_on()?;
    if meter.bounds.max.is_none() && size > 0 && ioctl_ficlone(to, from).is_ok() {
        return Ok(size);
    }
    meter.admit(to, size.min(on_disk), size)?;
    let mut copy = Copying { from, to, meter, size };
    let mut at = 0;
    loop {
        let begin = match seek(from, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            // From here on there are only holes.
            Err(Errno::NXIO) if at > 0 || size > 0 => {
                let end = seek(from, SeekFrom::End(0)).map_err(|e| ("read", e.into()))?;
                ftruncate(to, end).map_err(|e| ("write", e.into()))?;
                return Ok(end);
            }
            // A file that knows no holes, or has no size, as those of /proc.
            Err(_) => return copy.part(at, u64::MAX).map(|end| end.max(at)),
        };
        let end = seek(from, SeekFrom::Hole(begin)).map_err(|e| ("read", e.into()))?;
        at = copy.part(begin, end)?;
        if at < end {
            // It has become shorter, or never was as long as it said.
            return Ok(at);
        }
    }
}

/// A file being copied.
struct Copying<'c, 'a> {
    from: &'c OwnedFd,
    to: &'c OwnedFd,
    meter: &'c mut Meter<'a>,
    size: u64,
}

impl Copying<'_, '_> {
    /// Copies what is between two places, or up to the file's end; returns how far it came.
    fn part(&mut self, mut at: u64, end: u64) -> Result<u64, Failed> {
        let (from, to) = (self.from, self.to);
        // A file that cannot be moved in is read from its beginning.
        if at > 0 || end < u64::MAX {
            seek(from, SeekFrom::Start(at)).map_err(|e| ("read", e.into()))?;
            seek(to, SeekFrom::Start(at)).map_err(|e| ("write", e.into()))?;
        }
        // On a refusal (other file system, special file) or an early end, plain reading takes over where this stopped and
        // yields the exact error.
        while end < u64::MAX && at < end {
            let most = RANGE.min(end - at);
            self.meter.admit(to, most, self.size)?;
            let most = usize::try_from(most).unwrap_or(BLOCK);
            let Ok(n @ 1..) = retry_on_intr(|| copy_file_range(from, None, to, None, most)) else {
                break;
            };
            self.count(&mut at, n);
        }
        let mut buffer = vec![0; if at < end { BLOCK } else { 0 }];
        while at < end {
            let most = buffer.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
            let n = retry_on_intr(|| read(from, &mut buffer[..most]));
            let n = n.map_err(|e| ("read", e.into()))?;
            if n == 0 {
                break;
            }
            self.meter.admit(to, n as u64, self.size)?;
            write_all(to, &buffer[..n]).map_err(|e| ("write", e.into()))?;
            self.count(&mut at, n);
        }
        Ok(at)
    }

    fn count(&mut self, at: &mut u64, n: usize) {
        *at += n as u64;
        self.meter.written += n as u64;
    }
}

fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let n = retry_on_intr(|| write(to, bytes))?;
        bytes = &bytes[n..];
    }
    Ok(())
}

/// Permission bits of a copy. Set-id bits are dropped because the owner is not copied.
pub(super) fn mode(stat: &Stat, directory: bool) -> Mode {
    Mode::from_raw_mode(stat.st_mode & if directory { 0o1777 } else { 0o777 })
}

/// Times of a copy.
pub(super) fn times(stat: &Stat) -> Timestamps {
    let time = |seconds, nanoseconds| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or(0),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}
