//! Writes one file in one of the compared ways.

use std::fmt;
use std::fs::File as Plain;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use netloom_disk::{Buffer, Direct, File, Options, Pool};
use rustix::fs::{Mode, OFlags};

/// How a file is written. Numbers are bytes per write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Writing {
    /// pwrite(2) with O_DIRECT.
    Raw(usize),
    /// pwrite(2) through the page cache, and fsync(2).
    Buffered(usize),
    /// The writer of `capture`, with its defaults.
    Writer,
    /// The same writer without io_uring.
    Pwrite,
    /// `Writer` with writes of this size.
    Gathered(usize),
}

impl Writing {
    pub(super) fn who(self) -> &'static str {
        match self {
            Writing::Raw(_) | Writing::Buffered(_) => "by hand",
            Writing::Writer | Writing::Pwrite | Writing::Gathered(_) => "netloom",
        }
    }

    pub(super) fn title(self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Writing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Writing::Raw(bytes) => write!(f, "O_DIRECT, writes of {}", size(*bytes)),
            Writing::Buffered(bytes) => {
                write!(f, "page cache and fsync, writes of {}", size(*bytes))
            }
            Writing::Writer => f.write_str("writer"),
            Writing::Pwrite => f.write_str("writer without io_uring"),
            Writing::Gathered(bytes) => write!(f, "writer, writes of {}", size(*bytes)),
        }
    }
}

fn size(bytes: usize) -> String {
    if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}

/// Result of writing a file.
pub(super) struct Written {
    pub(super) gbytes_per_s: f64,
    /// Details of the write.
    pub(super) note: String,
}

/// The target folder, and the memory to write.
pub(super) struct Folder {
    path: PathBuf,
    itself: OwnedFd,
    total: u64,
    /// One filled buffer of the largest write size.
    block: Buffer,
}

impl Folder {
    /// Prepares files of `total` bytes, in writes of at most `most` bytes.
    pub(super) fn open(path: &Path, total: u64, most: usize) -> Result<Folder> {
        let shown = path.display();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let itself = rustix::fs::open(path, flags, Mode::empty());
        let itself = itself.with_context(|| format!("open folder {shown}"))?;
        let space = rustix::fs::fstatvfs(&itself).with_context(|| format!("look at {shown}"))?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < total + (total >> 2) {
            bail!("{shown}: {} MiB are free, {} MiB are to be written", free >> 20, total >> 20);
        }
        let mut block = Pool::new(most, most as u64).take().context("no memory for a write")?;
        block.fill(7);
        Ok(Folder { path: path.to_owned(), itself, total, block })
    }

    /// The folder and its file system, for the report.
    pub(super) fn described(&self) -> String {
        let kind = rustix::fs::fstatfs(&self.itself).map_or(0, |found| found.f_type);
        format!("{}, file system 0x{kind:x}", self.path.display())
    }

    /// Writes and closes a file. The clock runs from before the file is created until it is on the storage;
    /// deleting it is not counted.
    pub(super) fn write(&self, way: Writing) -> Result<Written> {
        // This file must not wait for writeback of earlier ones.
        rustix::fs::syncfs(&self.itself).context("write what waits")?;
        let (seconds, note) = match way {
            Writing::Raw(bytes) => (self.by_hand(bytes, true)?, String::new()),
            Writing::Buffered(bytes) => (self.by_hand(bytes, false)?, String::new()),
            Writing::Writer => self.written(&Options::default())?,
            Writing::Pwrite => self.written(&Options { uring: false, ..Options::default() })?,
            Writing::Gathered(bytes) => {
                let chunk = bytes.min(Options::default().chunk);
                self.written(&Options { chunk, gather: bytes, ..Options::default() })?
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "sizes are below 2^53 bytes")]
        let gbytes_per_s = self.total as f64 / seconds.max(1e-9) / 1e9;
        Ok(Written { gbytes_per_s, note })
    }

    /// Seconds for consecutive writes of `bytes`.
    fn by_hand(&self, bytes: usize, direct: bool) -> Result<f64> {
        let block = self.block.get(..bytes).context("a write larger than its buffer")?;
        let start = Instant::now();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let flags = if direct { flags | OFlags::DIRECT } else { flags };
        let path = self.name();
        let fd = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600));
        let fd = fd.context(if direct { "create, with O_DIRECT" } else { "create" })?;
        let _kept = nameless(&path)?;
        let (file, mut at) = (Plain::from(fd), 0);
        while at < self.total {
            file.write_all_at(block, at).context("write")?;
            at += bytes as u64;
        }
        file.sync_all().context("wait until it is stored")?;
        drop(file);
        Ok(start.elapsed().as_secs_f64())
    }

    /// Seconds for chunks from a pool, and details of the write.
    fn written(&self, options: &Options) -> Result<(f64, String)> {
        // As much as can be in flight, and a chunk to fill.
        let pool = Pool::new(options.chunk, 4 * options.gather.max(options.chunk) as u64);
        let mut all: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
        all.iter_mut().for_each(|buffer| buffer.fill(7));
        drop(all);
        let path = self.name();
        let start = Instant::now();
        let mut file = File::create(&path, options).context("create")?;
        let _kept = nameless(&path)?;
        let mut given = 0;
        while given < self.total {
            let buffer = pool.take().context("the writer holds all memory")?;
            let length = buffer.len();
            file.write(buffer, length).context("write")?;
            given += length as u64;
        }
        let how = file.how().clone();
        file.finish(true).context("finish")?;
        let seconds = start.elapsed().as_secs_f64();
        let way = match (how.direct, how.uring, options.direct) {
            (true, true, _) => "io_uring, O_DIRECT",
            (true, false, _) => "pwrite, O_DIRECT",
            (false, _, Direct::Auto | Direct::Never) => "through the page cache, fsync",
        };
        let why = how.why_not.map(|why| format!(" ({why})")).unwrap_or_default();
        Ok((seconds, format!("{way}{why}")))
    }

    fn name(&self) -> PathBuf {
        self.path.join(format!(".netloom-bench-disk.{}", std::process::id()))
    }
}

/// Unlinks a file and keeps it open: the last process to close it waits until the file system has freed its blocks
/// and told the storage.
fn nameless(path: &Path) -> Result<Plain> {
    let kept = Plain::open(path).context("open what is written")?;
    std::fs::remove_file(path).context("take the name away")?;
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_writes_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path(), 4 << 20, 1 << 20).unwrap();
        // A file system without O_DIRECT has no `Raw`.
        let raw = folder.write(Writing::Raw(64 << 10));
        if let Err(error) = raw {
            assert!(format!("{error:#}").contains("O_DIRECT"), "{error:#}");
        }
        for way in [
            Writing::Buffered(1 << 20),
            Writing::Writer,
            Writing::Pwrite,
            Writing::Gathered(256 << 10),
        ] {
            let written = folder.write(way).unwrap();
            assert!(written.gbytes_per_s > 0.0, "{way}");
            assert_eq!(written.note.is_empty(), way.who() != "netloom", "{way}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(Folder::open(dir.path(), 1 << 60, 4096).is_err());
    }

    #[test]
    fn ways_are_told_apart_by_their_words() {
        assert_eq!(Writing::Raw(64 << 10).title(), "O_DIRECT, writes of 64 KiB");
        assert_eq!(Writing::Gathered(4 << 20).title(), "writer, writes of 4 MiB");
    }
}
