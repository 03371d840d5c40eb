//! Packed layers from a registry into the store: several at a time, continued where an earlier process was killed,
//! and kept only with the right digest.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::thread::ScopedJoinHandle;

use netloom_oci::Hasher;
use netloom_sys::Failure;

use crate::error::wrong_digest;
use crate::registry::Registry;
use crate::{Error, Layer, Result, Store};

/// How many are fetched at a time.
const AT_ONCE: usize = 3;

/// Downloads of one image's layers.
pub(crate) struct Downloads<'a> {
    pub(crate) store: &'a Store,
    pub(crate) registry: &'a Registry<'a>,
    pub(crate) image: &'a str,
    pub(crate) layers: &'a [Layer],
    /// Which of them are wanted.
    pub(crate) wanted: Vec<usize>,
    /// Bytes that have come.
    pub(crate) come: &'a AtomicU64,
}

impl Downloads<'_> {
    /// Fetches all that are wanted, and sends each layer's number, or what failed. Returns the threads that do it.
    pub(crate) fn run<'s>(
        &'s self,
        scope: &'s std::thread::Scope<'s, '_>,
        tell: &Sender<Result<usize>>,
    ) -> Vec<ScopedJoinHandle<'s, ()>> {
        let next = std::sync::Arc::new(AtomicUsize::new(0));
        let one = |_| {
            let (next, tell) = (next.clone(), tell.clone());
            scope.spawn(move || {
                while let Some(index) = self.wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let done = self.fetch(*index).map(|()| *index);
                    let failed = done.is_err();
                    if tell.send(done).is_err() || failed {
                        break;
                    }
                }
            })
        };
        (0..AT_ONCE.min(self.wanted.len())).map(one).collect()
    }

    /// Fetches a layer. What an earlier process left may be wrong: then it is fetched once more from its beginning.
    fn fetch(&self, index: usize) -> Result<()> {
        let mut begin = 0;
        match self.fetch_on(index, &mut begin) {
            // Only what was there before may be wrong by an earlier fault; new bytes with a wrong
            // digest are the registry's.
            Err(Error::Digest { .. }) if begin > 0 => {
                self.come.fetch_sub(self.layers[index].bytes, Ordering::Relaxed);
                self.fetch_on(index, &mut begin)
            }
            done => done,
        }
    }

    /// Fetches a layer from where an earlier process has got to: `begin`.
    fn fetch_on(&self, index: usize, begin: &mut u64) -> Result<()> {
        let layer = &self.layers[index];
        let _held = self.store.hold("blob-", &layer.blob)?;
        let place = self.store.blob(&layer.blob);
        // Looked at under the lock: another process may have fetched it meanwhile.
        if place.exists() {
            self.come.fetch_add(layer.bytes, Ordering::Relaxed);
            return Ok(());
        }
        let path = self.store.partial(&layer.blob);
        let mut partial = Partial::open(&path, layer.bytes)?;
        self.come.fetch_add(partial.length, Ordering::Relaxed);
        *begin = partial.length;
        let step = format!("layer {} of {}, {}", index + 1, self.layers.len(), layer.blob);
        if partial.length < layer.bytes {
            let fetched = self.registry.blob(
                (&layer.blob, &step),
                layer.bytes,
                partial.length,
                // A closure that refuses ends the transfer at once, not after the layer.
                &mut |at, data| {
                    if self.registry.stop.load(Ordering::Relaxed) {
                        return Err(Error::image(self.image, "another layer failed"));
                    }
                    let before = partial.length;
                    partial.add(at, data)?;
                    // A server may begin again: what had come before is gone.
                    if partial.length >= before {
                        self.come.fetch_add(partial.length - before, Ordering::Relaxed);
                    } else {
                        self.come.fetch_sub(before - partial.length, Ordering::Relaxed);
                    }
                    if partial.length > layer.bytes {
                        let why = format!("{step}: more than its {} bytes come", layer.bytes);
                        return Err(Error::image(self.image, why));
                    }
                    Ok(())
                },
            );
            if let Err(e) = fetched {
                // Too long, or nothing at all: there is nothing to continue.
                if partial.length == 0 || partial.length > layer.bytes {
                    let _ = fs::remove_file(&path);
                }
                return Err(e);
            }
        }
        self.check(partial, layer, &step)?;
        // Only a whole layer with the right digest gets the name that others trust.
        Ok(fs::rename(&path, &place).map_err(|e| Failure::path(&place, "put", e))?)
    }

    fn check(&self, partial: Partial, layer: &Layer, step: &str) -> Result<()> {
        let (length, path) = (partial.length, partial.path.clone());
        let found = partial.hasher.finish();
        if length == layer.bytes && found == layer.blob {
            return Ok(());
        }
        // It would never become right.
        let _ = fs::remove_file(path);
        if length != layer.bytes {
            let why = format!("{step}: {length} bytes came of {}", layer.bytes);
            return Err(Error::image(self.image, why));
        }
        Err(wrong_digest(self.image, step, &layer.blob, &found))
    }
}

/// The part of a layer that has come.
struct Partial {
    path: std::path::PathBuf,
    file: File,
    length: u64,
    hasher: Hasher,
}

impl Partial {
    /// Opens what an earlier process has left, which is not more than `most` bytes.
    fn open(path: &std::path::Path, most: u64) -> Result<Partial> {
        let fail = |e| Failure::path(path, "open", e);
        // Not truncated: it is what can be continued.
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(path);
        let mut partial = Partial {
            path: path.to_owned(),
            file: file.map_err(fail)?,
            length: 0,
            hasher: Hasher::default(),
        };
        // Read again for the digest, which is of the whole.
        let mut buffer = vec![0; 256 << 10];
        loop {
            match partial.file.read(&mut buffer).map_err(fail)? {
                0 => break,
                // Longer than the layer: it cannot be its beginning.
                n if partial.length + n as u64 > most => {
                    partial.restart()?;
                    break;
                }
                n => {
                    partial.hasher.add(&buffer[..n]);
                    partial.length += n as u64;
                }
            }
        }
        Ok(partial)
    }

    /// Adds data that belong at `at`: behind what is there, or at the beginning.
    fn add(&mut self, at: u64, data: &[u8]) -> Result<()> {
        // The server sends from another place: only data from the beginning can follow here.
        if at != self.length {
            self.restart()?;
        }
        self.file.write_all(data).map_err(|e| Failure::path(&self.path, "write", e))?;
        self.hasher.add(data);
        self.length += data.len() as u64;
        Ok(())
    }

    fn restart(&mut self) -> Result<()> {
        let fail = |e| Failure::path(&self.path, "empty", e);
        self.file.set_len(0).map_err(fail)?;
        self.file.seek(SeekFrom::Start(0)).map_err(fail)?;
        (self.length, self.hasher) = (0, Hasher::default());
        Ok(())
    }
}
