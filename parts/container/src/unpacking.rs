//! A packed layer as plain bytes: gzip or zstd taken off in a thread of its own, the digest computed on the way.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use flate2::bufread::MultiGzDecoder;
use netloom_oci::media::Packing;
use netloom_oci::{Digest, Hasher};
use ruzstd::decoding::StreamingDecoder;

/// Bytes of a piece, and how many pieces wait.
const PIECE: usize = 256 << 10;
const WAITING: usize = 8;

/// What ends a stream that is longer than it may be.
pub(crate) const TOO_LONG: &str = "it unpacks to more bytes than are allowed";

/// A stream of plain bytes.
pub(crate) struct Plain {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    at: usize,
    hasher: Hasher,
    /// How many bytes have come, and may come.
    come: u64,
    most: u64,
}

impl Plain {
    /// Begins to unpack a file; at most this many bytes.
    pub(crate) fn of(file: File, packing: Packing, most: u64) -> Plain {
        let (sender, pieces) = sync_channel(WAITING);
        // Not joined: it ends when nobody takes its pieces.
        std::thread::spawn(move || unpack(file, packing, &sender));
        Plain { pieces, piece: Vec::new(), at: 0, hasher: Hasher::default(), come: 0, most }
    }

    /// Some bytes that are next; empty at the end.
    pub(crate) fn peek(&mut self) -> io::Result<&[u8]> {
        while self.at == self.piece.len() {
            let Ok(piece) = self.pieces.recv() else { return Ok(&[]) };
            self.piece = piece?;
            self.at = 0;
            self.come += self.piece.len() as u64;
            // Before anything is written of it.
            if self.come > self.most {
                return Err(io::Error::other(TOO_LONG));
            }
            self.hasher.add(&self.piece);
        }
        Ok(&self.piece[self.at..])
    }

    /// Passes over bytes that were peeked at.
    pub(crate) fn take(&mut self, count: usize) {
        self.at += count;
    }

    /// Fills a buffer; `false` if the stream ends before its first byte.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let mut have = 0;
        while have < buffer.len() {
            let next = self.peek()?;
            if next.is_empty() {
                return if have == 0 { Ok(false) } else { Err(ends_early()) };
            }
            let count = next.len().min(buffer.len() - have);
            buffer[have..have + count].copy_from_slice(&next[..count]);
            self.take(count);
            have += count;
        }
        Ok(true)
    }

    /// Hands `count` bytes to `to`, piece by piece.
    pub(crate) fn hand<E: From<io::Error>>(
        &mut self,
        mut count: u64,
        mut to: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while count > 0 {
            let next = self.peek()?;
            if next.is_empty() {
                return Err(ends_early().into());
            }
            let length = next.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            to(&next[..length])?;
            self.take(length);
            count -= length as u64;
        }
        Ok(())
    }

    /// Bytes that have come.
    pub(crate) fn come(&self) -> u64 {
        self.come
    }

    /// Reads to the end, and returns the digest of all.
    pub(crate) fn finish(mut self) -> io::Result<Digest> {
        loop {
            let count = self.peek()?.len();
            if count == 0 {
                return Ok(self.hasher.finish());
            }
            self.take(count);
        }
    }
}

fn ends_early() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the archive ends early")
}

/// A file that keeps its last error: decoders wrap errors of their own around it, or drop it.
struct Watched<R> {
    file: R,
    fault: Rc<Cell<Option<i32>>>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer);
        self.fault.set(read.as_ref().err().and_then(io::Error::raw_os_error));
        read
    }
}

/// Unpacks until the end, an error, or nobody listens.
fn unpack(file: impl Read, packing: Packing, to: &SyncSender<io::Result<Vec<u8>>>) {
    let fault = Rc::new(Cell::new(None));
    let file = Watched { file, fault: Rc::clone(&fault) };
    let mut file = BufReader::with_capacity(PIECE, file);
    let done = match packing {
        Packing::Plain => pass(&mut file, to),
        // A file of gzip may have several members (RFC 1952, 2.2); the plain decoder ends with the first.
        Packing::Gzip => pass(&mut MultiGzDecoder::new(file), to),
        Packing::Zstd => unpack_frames(&mut file, to),
    };
    if let Err(e) = done {
        // A disk that fails says nothing about the archive.
        let _ = to.send(Err(fault.get().map_or(e, io::Error::from_raw_os_error)));
    }
}

/// Sends what a reader gives; an error of kind `BrokenPipe` if nobody listens.
fn pass(from: &mut impl Read, to: &SyncSender<io::Result<Vec<u8>>>) -> io::Result<()> {
    loop {
        let mut piece = vec![0; PIECE];
        let mut have = 0;
        while have < PIECE {
            match from.read(&mut piece[have..]) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(io::Error::other(format!("it cannot be unpacked: {e}"))),
            }
        }
        piece.truncate(have);
        if have == 0 {
            return Ok(());
        }
        to.send(Ok(piece)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
    }
}

/// Frames of zstd one after the other; those that are to be skipped are (RFC 8878 section 3.1.2).
fn unpack_frames(
    file: &mut BufReader<impl Read>,
    to: &SyncSender<io::Result<Vec<u8>>>,
) -> io::Result<()> {
    let wrong = |e: &dyn std::fmt::Display| io::Error::other(format!("it is not zstd: {e}"));
    while !file.fill_buf()?.is_empty() {
        let mut magic = [0; 4];
        file.read_exact(&mut magic)?;
        if (0x184D_2A50..=0x184D_2A5F).contains(&u32::from_le_bytes(magic)) {
            let mut length = [0; 4];
            file.read_exact(&mut length)?;
            let length = u64::from(u32::from_le_bytes(length));
            if io::copy(&mut file.take(length), &mut io::sink())? < length {
                return Err(ends_early());
            }
            continue;
        }
        // The four bytes are part of the frame.
        let whole = io::Cursor::new(magic).chain(&mut *file);
        let mut frame = StreamingDecoder::new(whole).map_err(|e| wrong(&e))?;
        pass(&mut frame, to)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::io::Errno;

    use super::*;
    use crate::wrong::Wrong;

    /// A disk that gives some bytes, and then fails.
    struct Broken<'a>(&'a [u8], Option<Errno>);

    impl Read for Broken<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match (self.0.is_empty(), self.1) {
                (true, Some(e)) => Err(e.into()),
                _ => self.0.read(buffer),
            }
        }
    }

    #[test]
    fn a_disk_that_fails_is_no_fault_of_the_archive() {
        let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        gzip.write_all(&[7; 1000]).unwrap();
        let gzip = gzip.finish().unwrap();
        // The head of a frame of one segment and 1,000 bytes, and of its last block, which is raw (RFC 8878, 3.1.1).
        let zstd =
            [&[0x28, 0xB5, 0x2F, 0xFD, 0x60, 0xE8, 0x02, 0x41, 0x1F, 0x00][..], &[7; 500]].concat();
        for (packing, bytes) in [
            (Packing::Plain, &[7; 500][..]),
            (Packing::Gzip, &gzip[..gzip.len() / 2]),
            (Packing::Zstd, &zstd[..2]),
            (Packing::Zstd, &zstd),
        ] {
            for (error, is_machines) in [(Some(Errno::IO), true), (None, false)] {
                let (sender, pieces) = sync_channel(WAITING);
                unpack(Broken(bytes, error), packing, &sender);
                drop(sender);
                let Some(e) = pieces.into_iter().find_map(Result::err) else {
                    assert!(!is_machines && packing == Packing::Plain, "{packing:?}");
                    continue;
                };
                assert_eq!(Wrong::from(e).is_machines, is_machines, "{packing:?}");
            }
        }
    }
}
