//! Images on this machine: OCI layout folders, archives of `docker save` and OCI, those that Docker gives, and a root as a tar file.
//!
//! An archive is looked through once; after that its files are read where they lie. What is taken into the store is
//! checked as if it came from afar.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use netloom_oci::archive::{INDEX, LAYOUT, SAVED, pick, pick_of_layout, saved};
use netloom_oci::entry;
use netloom_oci::manifest::{Config, Descriptor, Document, LARGEST_LAYER, MOST_BYTES, choose};
use netloom_oci::media::Packing;
use netloom_oci::tape::{BLOCK, Kind, Step, Tape, padding};
use netloom_oci::{Digest, Hasher, Reference, Source};
use netloom_sys::Failure;
use netloom_sys::setup::open_of_lab;
use netloom_sys::space;

use crate::error::wrong_digest;
use crate::options::{Patience, platform};
use crate::unpacking::Plain;
use crate::{Error, Layer, Record, Result, Store, docker, record};

/// As many files as an archive of images may have, and the longest name of one that is looked for.
const MOST_FILES: usize = 100_000;
const LONGEST: usize = 255;

/// An image's record, and the names that its archive or folder gives it.
type Taken = (Record, Vec<String>);

/// Takes an image into the store; returns its record, whose layers are there as blobs.
pub(crate) fn take(store: &Store, source: &Source, patience: Patience) -> Result<Taken> {
    let image = source.to_string();
    let (path, name) = match source {
        Source::Registry(_) => return Err(Error::image(&image, "is in a registry")),
        Source::Layout(path, name) | Source::Archive(path, name) => {
            (PathBuf::from(path), name.clone())
        }
        Source::Daemon(reference) => {
            let (folder, _held) = store.stage("docker")?;
            let path = folder.join("image.tar");
            // Docker sends the one that it was asked for, which has no name there if that was an ID or a digest.
            let done = docker::fetch(reference, &path, &image, patience)
                .and_then(|()| take_from(store, &image, &path, None));
            crate::store::remove_tree(&folder);
            return done;
        }
    };
    take_from(store, &image, &path, name.as_deref())
}

fn take_from(store: &Store, image: &str, path: &Path, name: Option<&str>) -> Result<Taken> {
    let found = fs::metadata(path).map_err(|e| Failure::path(path, "open", e))?;
    if found.is_dir() {
        let bundle = Bundle::Folder(path.to_owned());
        return Taking { store, image, bundle: &bundle }.layout(name);
    }
    let file = open_of_lab(path).map_err(|e| Failure::path(path, "open", e))?;
    let (folder, _held) = store.stage("archive")?;
    let done = open_plain(&file, &folder).and_then(|plain| {
        let bundle = Bundle::look_through(plain, image)?;
        let taking = Taking { store, image, bundle: &bundle };
        if bundle.has(SAVED) {
            taking.saved(name)
        } else if bundle.has(INDEX) {
            taking.layout(name)
        } else {
            Ok((taking.root(&file)?, vec![]))
        }
    });
    crate::store::remove_tree(&folder);
    done
}

/// The archive itself, or what it unpacks to.
fn open_plain(file: &File, folder: &Path) -> Result<File> {
    let mut first = [0; 4];
    let count = file.read_at(&mut first, 0).map_err(|e| Failure::new("archive", "read", e))?;
    let packing = Packing::seen(&first[..count]);
    let again = file.try_clone().map_err(|e| Failure::new("archive", "open", e))?;
    if packing == Packing::Plain {
        return Ok(again);
    }
    let path = folder.join("plain.tar");
    let fail = |e: io::Error| Failure::path(&path, "unpack the archive", e);
    let mut plain = Plain::of(again, packing, crate::Limits::default().bytes);
    let options = File::options().create(true).truncate(true).read(true).write(true).open(&path);
    let mut to = options.map_err(fail)?;
    loop {
        // A small archive may unpack to far more than the disk has.
        let data = plain.peek().map_err(fail)?;
        if data.is_empty() {
            return Ok(to);
        }
        to.write_all(data).map_err(fail)?;
        let count = data.len();
        plain.take(count);
    }
}

/// Named files.
enum Bundle {
    Folder(PathBuf),
    Archive { file: File, files: HashMap<String, (u64, u64)>, links: HashMap<String, String> },
}

impl Bundle {
    fn look_through(mut file: File, image: &str) -> Result<Bundle> {
        let wrong = |why: String| Error::image(image, format!("it is not a tar archive: {why}"));
        let io_wrong = |e: io::Error| wrong(e.to_string());
        let (mut files, mut links) = (HashMap::new(), HashMap::new());
        let mut tape = Tape::default();
        let mut is_more = false;
        let length = file.seek(SeekFrom::End(0)).map_err(io_wrong)?;
        file.seek(SeekFrom::Start(0)).map_err(io_wrong)?;
        let mut at = 0_u64;
        // Some writers leave out the blocks of zeros that end an archive.
        while length.saturating_sub(at) >= BLOCK as u64 {
            let mut block = [0; BLOCK];
            file.read_exact_at(&mut block, at).map_err(io_wrong)?;
            at += BLOCK as u64;
            let step = if is_more { tape.more(&block) } else { tape.block(&block) };
            let step = step.map_err(|e| wrong(e.to_string()))?;
            is_more = step == Step::More;
            match step {
                Step::End => break,
                Step::Nothing | Step::More => {}
                Step::Text(size) => {
                    let mut text = vec![0; usize::try_from(size).unwrap_or(0)];
                    file.read_exact_at(&mut text, at).map_err(io_wrong)?;
                    tape.text(&text).map_err(|e| wrong(e.to_string()))?;
                    at += size + padding(size);
                }
                Step::Entry(found) => {
                    // A root has any names; those of images' archives are plain.
                    if let Some(name) = name_of(&found.path).filter(|name| name.len() <= LONGEST) {
                        match found.kind {
                            Kind::File => drop(files.insert(name, (at, found.size))),
                            Kind::Symbolic | Kind::Hard => {
                                if let Some(to) =
                                    link_of(&name, &found.link, found.kind == Kind::Hard)
                                {
                                    links.insert(name, to);
                                }
                            }
                            _ => {}
                        }
                    }
                    let is_named = files.contains_key(SAVED) || files.contains_key(INDEX);
                    if files.len() + links.len() > MOST_FILES {
                        if is_named {
                            return Err(wrong(format!("more than {MOST_FILES} files")));
                        }
                        // A root, not an archive of images.
                        files.clear();
                        links.clear();
                    }
                    at = at
                        .checked_add(found.size)
                        .and_then(|at| at.checked_add(padding(found.size)))
                        .ok_or_else(|| wrong("a file has no end".to_owned()))?;
                }
            }
        }
        Ok(Bundle::Archive { file, files, links })
    }

    fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// A file of the archive; links of old archives are followed once.
    fn find(&self, name: &str) -> Option<(u64, u64)> {
        match self {
            Bundle::Folder(_) => None,
            Bundle::Archive { files, links, .. } => {
                let name = links.get(name).map_or(name, String::as_str);
                files.get(name).copied()
            }
        }
    }

    /// Opens a file, and says how long it is.
    fn open(&self, name: &str) -> io::Result<(Box<dyn Read + '_>, u64)> {
        match self {
            Bundle::Folder(folder) => {
                let file = open_of_lab(&folder.join(name))?;
                let length = file.metadata()?.len();
                Ok((Box::new(file), length))
            }
            Bundle::Archive { file, .. } => {
                let none =
                    || io::Error::new(io::ErrorKind::NotFound, "the archive has no such file");
                let (at, left) = self.find(name).ok_or_else(none)?;
                Ok((Box::new(Part { file, at, left }), left))
            }
        }
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        // One byte more tells a file at the limit from a longer one.
        self.open(name)?.0.take(MOST_BYTES + 1).read_to_end(&mut text)?;
        match text.len() as u64 > MOST_BYTES {
            true => Err(io::Error::other("it is larger than 4 MiB")),
            false => Ok(text),
        }
    }
}

/// A part of a file.
struct Part<'a> {
    file: &'a File,
    at: u64,
    left: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        match self.file.read_at(&mut buffer[..most], self.at)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.at += count as u64;
                self.left -= count as u64;
                Ok(count)
            }
        }
    }
}

fn name_of(path: &[u8]) -> Option<String> {
    String::from_utf8(entry::parts(path).ok()?.join(&b'/')).ok()
}

/// What a link in an archive leads to: in old archives `../ID/layer.tar`.
fn link_of(name: &str, link: &[u8], is_whole: bool) -> Option<String> {
    let link = std::str::from_utf8(link).ok()?;
    let mut parts: Vec<&str> = if is_whole { vec![] } else { name.split('/').collect() };
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            // Above the archive's root there is nothing.
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Takes one image.
struct Taking<'a> {
    store: &'a Store,
    image: &'a str,
    bundle: &'a Bundle,
}

impl Taking<'_> {
    fn wrong(&self, name: &str) -> impl Fn(io::Error) -> Error {
        let (image, name) = (self.image.to_owned(), name.to_owned());
        move |e| Error::image(&image, format!("{name}: read: {e}"))
    }

    fn refused(&self, e: netloom_oci::Error) -> Error {
        Error::image(self.image, e)
    }

    fn document(&self, descriptor: &Descriptor) -> Result<Vec<u8>> {
        let name = blob_name(&descriptor.digest);
        let text = self.bundle.read(&name).map_err(self.wrong(&name))?;
        let found = Digest::of(&text);
        match found == descriptor.digest {
            true => Ok(text),
            false => Err(wrong_digest(self.image, &name, &descriptor.digest, &found)),
        }
    }

    /// An OCI layout.
    fn layout(&self, name: Option<&str>) -> Result<Taken> {
        let mark = self.bundle.read(LAYOUT).and_then(|_| self.bundle.read(INDEX));
        let text = mark.map_err(|e| {
            Error::image(self.image, format!("it is not an OCI layout: {INDEX}: {e}"))
        })?;
        let mut entry = pick_of_layout(&text, name).map_err(|e| self.refused(e))?;
        let names = familiar(entry.whole_name());
        // A chain of indexes may have no end.
        for _ in 0..netloom_oci::manifest::DEEPEST {
            let text = self.document(&entry)?;
            let media = Some(entry.media_type.as_str());
            match Document::read(&text, media).map_err(|e| self.refused(e))? {
                Document::Index(all) => {
                    entry = choose(&all, &platform()).map_err(|e| self.refused(e))?.clone();
                }
                Document::Manifest(manifest) => {
                    let config = self.document(&manifest.config)?;
                    let config = Config::read(&config).map_err(|e| self.refused(e))?;
                    let record = record::of(self.image, &entry.digest, &manifest, config)?;
                    for layer in &record.layers {
                        let name = blob_name(&layer.blob);
                        self.layer(&name, Some((&layer.blob, layer.bytes)))?;
                    }
                    return Ok((record, names));
                }
            }
        }
        Err(Error::image(self.image, "its indexes lie too deep in each other"))
    }

    /// An archive of `docker save`.
    fn saved(&self, name: Option<&str>) -> Result<Taken> {
        let text = self.bundle.read(SAVED).map_err(self.wrong(SAVED))?;
        let all = saved(&text).map_err(|e| self.refused(e))?;
        let chosen = pick(&all, name).map_err(|e| self.refused(e))?;
        let text = self.bundle.read(&chosen.config).map_err(self.wrong(&chosen.config))?;
        let digest = Digest::of(&text);
        let config = Config::read(&text).map_err(|e| self.refused(e))?;
        let diff_ids = &config.rootfs.diff_ids;
        if diff_ids.len() != chosen.layers.len() {
            let why =
                format!("{} layers, but {} in its config", chosen.layers.len(), diff_ids.len());
            return Err(Error::image(self.image, why));
        }
        let mut layers = Vec::new();
        for (name, diff_id) in chosen.layers.iter().zip(diff_ids) {
            let (blob, bytes, packing) = self.layer(name, None)?;
            layers.push(Layer {
                diff_id: diff_id.clone(),
                blob,
                bytes,
                packing,
                chain: diff_id.clone(),
            });
        }
        let names = familiar(chosen.repo_tags.iter().flatten().map(String::as_str));
        Ok((record::with(self.image, digest, config, layers), names))
    }

    /// A root as a tar archive: one layer.
    fn root(&self, file: &File) -> Result<Record> {
        let length = file.metadata().map_err(self.wrong("archive"))?.len();
        let whole = || Part { file, at: 0, left: length };
        let (blob, bytes, packing) = self.keep(&mut whole(), length, ("archive", None))?;
        let again = file.try_clone().map_err(self.wrong("archive"))?;
        (&again).seek(SeekFrom::Start(0)).map_err(self.wrong("archive"))?;
        let plain = Plain::of(again, packing, crate::Limits::default().bytes);
        let diff_id = plain.finish().map_err(self.wrong("archive"))?;
        let chain = diff_id.clone();
        let layer = Layer { diff_id: diff_id.clone(), blob, bytes, packing, chain };
        let config = Config {
            os: platform().os,
            architecture: platform().architecture,
            ..Config::default()
        };
        Ok(record::with(self.image, diff_id, config, vec![layer]))
    }

    /// Takes a layer's file, whose digest and size may be known.
    fn layer(&self, name: &str, known: Option<(&Digest, u64)>) -> Result<(Digest, u64, Packing)> {
        if let Some((digest, bytes)) = known
            && self.store.blob(digest).exists()
        {
            // The caller knows the packing from the manifest.
            return Ok((digest.clone(), bytes, Packing::Plain));
        }
        let (mut from, length) = self.bundle.open(name).map_err(self.wrong(name))?;
        self.keep(&mut from, length, (name, known))
    }

    /// Whether a file of this length may be taken: as it was said to be, and no longer than there is room.
    fn admit(&self, length: u64, (name, known): (&str, Option<u64>)) -> Result<()> {
        let refused = |why| Err(Error::image(self.image, format!("{name}: {why}")));
        match known {
            Some(said) if said != length => {
                return refused(format!(
                    "it has {length} bytes, and not {said}, as its manifest says"
                ));
            }
            None if length > LARGEST_LAYER => {
                return refused(format!("its {length} bytes are more than a layer may have"));
            }
            _ => {}
        }
        let root = self.store.root();
        let free = fs::File::open(root).and_then(|folder| Ok(space::free(folder)?));
        // Refused before it is copied: a full disk would harm other programs.
        match free.map_err(|e| Failure::path(root, "look at", e))?.filter(|free| length > *free) {
            Some(free) => {
                refused(format!("its {length} bytes do not fit: {free} are free in {root:?}"))
            }
            None => Ok(()),
        }
    }

    fn keep(
        &self,
        from: &mut dyn Read,
        length: u64,
        (name, known): (&str, Option<(&Digest, u64)>),
    ) -> Result<(Digest, u64, Packing)> {
        self.admit(length, (name, known.map(|(_, bytes)| bytes)))?;
        let (folder, _held) = self.store.stage("blob")?;
        let path = folder.join("blob");
        // It may grow meanwhile.
        let done =
            self.copy(&mut from.take(length), &path, name).and_then(|(digest, bytes, packing)| {
                if let Some((expected, _)) = known.filter(|(expected, _)| **expected != digest) {
                    return Err(wrong_digest(
                        self.image,
                        &format!("layer {name}"),
                        expected,
                        &digest,
                    ));
                }
                let place = self.store.blob(&digest);
                fs::rename(&path, &place).map_err(|e| Failure::path(&place, "put", e))?;
                Ok((digest, bytes, packing))
            });
        crate::store::remove_tree(&folder);
        done
    }

    fn copy(&self, from: &mut dyn Read, to: &Path, name: &str) -> Result<(Digest, u64, Packing)> {
        let mut file = File::create(to).map_err(|e| Failure::path(to, "write", e))?;
        let mut hasher = Hasher::default();
        let mut buffer = vec![0; 256 << 10];
        let (mut bytes, mut packing) = (0, Packing::Plain);
        loop {
            let count = from.read(&mut buffer).map_err(self.wrong(name))?;
            if count == 0 {
                return Ok((hasher.finish(), bytes, packing));
            }
            if bytes == 0 {
                packing = Packing::seen(&buffer[..count]);
            }
            hasher.add(&buffer[..count]);
            bytes += count as u64;
            file.write_all(&buffer[..count]).map_err(|e| Failure::path(to, "write", e))?;
        }
    }
}

/// Names of an archive as lab files have them; others than names of images are left out.
fn familiar<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let familiar = |name: &str| name.parse::<Reference>().ok().map(|name| name.familiar());
    names.into_iter().filter_map(familiar).collect()
}

fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}
