//! Brings an image: uses layers that are there, fetches missing ones, and unpacks them.
//!
//! Layers are fetched several at a time by threads of this process, and unpacked in their order by another process
//! ([`crate::unpacker`]). The name is written last: a named image is complete.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use netloom_oci::manifest::{Config, DEEPEST, Document, Manifest, choose};
use netloom_oci::{Digest, Reference, Source};

use crate::download::Downloads;
use crate::error::wrong_digest;
use crate::options::{Options, Patience, Pull, platform};
use crate::registry::Registry;
use crate::unpack::{self, Job};
use crate::unpacker::{self, Report, Unpacker};
use crate::{Error, Record, Result, Store, local, record};

/// How often progress is told.
const LOOK: Duration = Duration::from_millis(100);

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The image.
    pub image: String,
    /// Bytes that have come, of all that are to come.
    pub fetched: (u64, u64),
    /// Layers that are there, of all.
    pub layers: (usize, usize),
}

/// Brings an image. This process must have one thread.
///
/// # Errors
/// Any fault, with image, layer, entry and step. Downloaded parts are kept for the next time.
pub fn provide(
    store: &Store,
    source: &Source,
    options: &Options,
    tell: &mut dyn FnMut(&Progress),
) -> Result<Record> {
    // Shared until the name is written: nobody removes layers that no name needs yet.
    let _held = store.share()?;
    let name = source.to_string();
    let known = store.record(&name).filter(|_| options.pull != Pull::Always);
    if let Some(record) = &known {
        let has = |layer: &crate::Layer| unpack::is_there(store, layer, options.owners);
        // The common case asks nobody.
        if record.layers.iter().all(has) {
            return Ok(record.clone());
        }
        let can = |layer: &crate::Layer| has(layer) || store.blob(&layer.blob).exists();
        if record.layers.iter().all(can) {
            bring(store, record, None, options, tell)?;
            return Ok(record.clone());
        }
    }
    if options.pull == Pull::Never {
        return Err(Error::Missing { image: name });
    }
    tell(&Progress { image: name.clone(), ..Progress::default() });
    let record = match source {
        Source::Registry(reference) => {
            let registry = Registry::open(reference, options.patience)?;
            let record = look_up(&registry, reference)?;
            bring(store, &record, Some(&registry), options, tell)?;
            record
        }
        _ => {
            let (record, _) = local::take(store, source, options.patience)?;
            bring(store, &record, None, options, tell)?;
            record
        }
    };
    let record = Record { name, ..record };
    store.keep(&record)?;
    Ok(record)
}

/// Takes an image that is on this machine, and keeps it under this name, else under those that its archive gives it, else
/// under that of its source. This process must have one thread.
///
/// # Errors
/// As for [`provide`].
pub fn load(
    store: &Store,
    source: &Source,
    as_name: Option<&Source>,
    options: &Options,
    tell: &mut dyn FnMut(&Progress),
) -> Result<Vec<Record>> {
    let _held = store.share()?;
    tell(&Progress { image: source.to_string(), ..Progress::default() });
    let (record, own) = local::take(store, source, options.patience)?;
    bring(store, &record, None, options, tell)?;
    let names = match as_name {
        Some(name) => vec![name.to_string()],
        None if own.is_empty() => vec![source.to_string()],
        None => own,
    };
    let keep = |name| {
        let record = Record { name, ..record.clone() };
        store.keep(&record).map(|()| record)
    };
    names.into_iter().map(keep).collect()
}

/// Fetches the layers of a registry's image that are not packed in the store, without unpacking them. Nothing is kept
/// under a name.
///
/// # Errors
/// As for [`provide`].
pub fn fetch(store: &Store, reference: &Reference, patience: Patience) -> Result<Record> {
    let _held = store.share()?;
    let registry = Registry::open(reference, patience)?;
    let record = look_up(&registry, reference)?;
    let (image, layers) = (record.name.as_str(), record.layers.as_slice());
    let come = AtomicU64::new(0);
    let wanted = (0..layers.len()).filter(|i| !store.blob(&layers[*i].blob).exists()).collect();
    let downloads = Downloads { store, registry: &registry, image, layers, wanted, come: &come };
    std::thread::scope(|scope| {
        let (to, fetched) = channel();
        let threads = downloads.run(scope, &to);
        // The loop below ends when the last thread has dropped its sender.
        drop(to);
        let done = fetched.into_iter().try_for_each(|one| one.map(drop));
        // The first failure ends the others, which would fetch for nothing.
        registry.stop.store(true, Ordering::Relaxed);
        join(threads);
        done
    })?;
    Ok(record)
}

/// Takes the layers of an image on this machine into the store, without unpacking them. Nothing is kept under a name.
///
/// # Errors
/// As for [`provide`].
pub fn take(store: &Store, source: &Source, patience: Patience) -> Result<Record> {
    let _held = store.share()?;
    local::take(store, source, patience).map(|(record, _)| record)
}

/// Keeps an image, whose layers are there, under its name.
///
/// # Errors
/// The store cannot be written.
pub fn keep(store: &Store, record: &Record) -> Result<()> {
    let _held = store.share()?;
    store.keep(record)
}

/// The image of this machine's platform in a registry.
fn look_up(registry: &Registry<'_>, reference: &Reference) -> Result<Record> {
    let image = reference.familiar();
    let mut version = reference.version();
    let mut expected = reference.digest.clone();
    for _ in 0..DEEPEST {
        let (text, media) = registry.manifest(&version)?;
        let digest = Digest::of(&text);
        if let Some(expected) = expected.as_ref().filter(|expected| **expected != digest) {
            return Err(wrong_digest(&image, "manifest", expected, &digest));
        }
        let refused = |e: netloom_oci::Error| Error::image(&image, e);
        match Document::read(&text, media.as_deref()).map_err(refused)? {
            Document::Index(all) => {
                let chosen = choose(&all, &platform()).map_err(refused)?;
                // From here on the digest is known, and what comes must match.
                version = chosen.digest.to_string();
                expected = Some(chosen.digest.clone());
            }
            Document::Manifest(manifest) => {
                let config = config(registry, &image, &manifest)?;
                return record::of(&image, &digest, &manifest, config);
            }
        }
    }
    Err(Error::image(&image, "its indexes lie too deep in each other"))
}

fn config(registry: &Registry<'_>, image: &str, manifest: &Manifest) -> Result<Config> {
    let text = registry.document(&manifest.config.digest)?;
    let found = Digest::of(&text);
    if found != manifest.config.digest {
        return Err(wrong_digest(image, "config", &manifest.config.digest, &found));
    }
    Config::read(&text).map_err(|e| Error::image(image, e))
}

/// What happens while an image comes.
enum Happening {
    Fetched(Result<usize>),
    Reported(Report),
    /// The process that unpacks has ended.
    Ended,
}

/// Fetches and unpacks the layers that are not there.
fn bring(
    store: &Store,
    record: &Record,
    registry: Option<&Registry<'_>>,
    options: &Options,
    tell: &mut dyn FnMut(&Progress),
) -> Result<()> {
    let layers = &record.layers;
    let there = |index: &usize| unpack::is_there(store, &layers[*index], options.owners);
    let missing: BTreeSet<usize> = (0..layers.len()).filter(|i| !there(i)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let image = record.name.as_str();
    let Options { owners, limits, .. } = *options;
    let job = Job { store, image, layers, owners, limits };
    // Before there are threads.
    let unpacker = Unpacker::start(&job)?;
    let come = AtomicU64::new(0);
    let wanted: Vec<usize> =
        missing.iter().copied().filter(|i| !store.blob(&layers[*i].blob).exists()).collect();
    let whole = wanted.iter().map(|i| layers[*i].bytes).sum();
    let downloads = registry.map(|registry| {
        let (wanted, come) = (wanted.clone(), &come);
        Downloads { store, registry, image, layers, wanted, come }
    });
    std::thread::scope(|scope| {
        let (sender, happenings) = channel();
        let mut threads = vec![];
        if let Some(downloads) = &downloads {
            let (to, fetched) = channel();
            threads = downloads.run(scope, &to);
            drop(to);
            let sender = sender.clone();
            threads.push(scope.spawn(move || {
                let pass_on = |fetched| sender.send(Happening::Fetched(fetched)).is_ok();
                let _ = fetched.into_iter().all(pass_on);
            }));
        }
        let reports = unpacker.reports()?;
        threads.push(scope.spawn(move || pass_on(reports, &sender)));
        let mut course = Course {
            ready: missing.iter().copied().filter(|i| !wanted.contains(i)).collect(),
            left: missing.clone(),
            to_order: missing,
        };
        let mut orders = unpacker.orders()?;
        let done = loop {
            while let Some(index) = course.next_order() {
                orders.unpack(index);
            }
            if course.left.is_empty() {
                break Ok(());
            }
            let there = layers.len() - course.left.len();
            tell(&Progress {
                image: image.to_owned(),
                fetched: (come.load(Ordering::Relaxed), whole),
                layers: (there, layers.len()),
            });
            match happenings.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Happening::Fetched(Ok(index))) => drop(course.ready.insert(index)),
                Ok(Happening::Fetched(Err(e))) => break Err(e),
                Ok(Happening::Reported(Report::Done(index))) => drop(course.left.remove(&index)),
                Ok(Happening::Reported(Report::Bytes(_))) => {}
                Ok(Happening::Reported(Report::Failed(words))) => {
                    break Err(unpacker::failure(words));
                }
                Ok(Happening::Ended) | Err(RecvTimeoutError::Disconnected) => {
                    break Err(Error::image(image, "unpack: its process was killed"));
                }
            }
        };
        if let Some(registry) = registry {
            registry.stop.store(true, Ordering::Relaxed);
        }
        orders.end();
        // They end when nobody listens.
        drop(happenings);
        join(threads);
        done
    })
}

/// Waits for the ends of threads. A scope waits for their work alone, and this process may fork next, for which it must have
/// one thread.
fn join(threads: Vec<ScopedJoinHandle<'_, ()>>) {
    for thread in threads {
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

fn pass_on(reports: impl Iterator<Item = Report>, to: &Sender<Happening>) {
    for report in reports {
        if to.send(Happening::Reported(report)).is_err() {
            return;
        }
    }
    let _ = to.send(Happening::Ended);
}

/// Which layers are there, and which come next.
struct Course {
    ready: BTreeSet<usize>,
    to_order: BTreeSet<usize>,
    left: BTreeSet<usize>,
}

impl Course {
    /// The next layer to unpack, if its file is there: layers are unpacked from the lowest.
    fn next_order(&mut self) -> Option<usize> {
        let next = *self.to_order.first()?;
        self.ready.contains(&next).then(|| self.to_order.pop_first()).flatten()
    }
}
