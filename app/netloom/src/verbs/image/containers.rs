//! `image pull`, `load`, `list`, `show`, `remove`, `prune`: the images of containers that nodes are made of.

use anyhow::Result;
use netloom_container::keeping::{self, Kept, Removed};
use netloom_container::{Options, Progress, Pull, Record, Store, provide, usual_owners};
use netloom_oci::Source;
use serde_json::json;

use crate::Usage;
use crate::flags::{ImageList, ImageLoad, ImagePrune, ImagePull, ImageRemove, ImageShow};
use crate::output::{self, ProgressLine};

/// Characters of a progress bar.
const BAR: usize = 24;

/// What names of images on this machine begin with, as lab files have them.
const PREFIXES: [&str; 4] = ["oci:", "docker-archive:", "oci-archive:", "docker-daemon:"];

fn store() -> Result<Store> {
    Ok(Store::open(&Store::folder()?)?)
}

/// A source as a user names it; paths are relative to this directory.
fn source(text: &str) -> Result<Source> {
    let source: Source = text.parse().map_err(netloom_container::Error::from)?;
    Ok(source.at(&std::env::current_dir()?))
}

/// `netloom image pull`
pub(super) fn pull(args: &ImagePull) -> Result<i32> {
    // All names are checked before the first image is downloaded.
    let sources = args.images.iter().map(|text| source(text)).collect::<Result<Vec<_>>>()?;
    let store = store()?;
    let options = Options::with(usual_owners(), Pull::Always);
    let mut all = Vec::new();
    for source in &sources {
        let mut line = ProgressLine::new();
        let record = provide(&store, source, &options, &mut |progress| line.show(&bar(progress)));
        line.clear();
        all.push(record?);
        if let (false, Some(record)) = (args.json, all.last()) {
            output::print(&told(record))?;
        }
    }
    if args.json {
        output::print_json(&all)?;
    }
    Ok(0)
}

fn told(record: &Record) -> String {
    let size = output::bytes(record.bytes());
    let layers = output::count(record.layers.len(), "layer");
    format!("{}  {}  {layers}, {size}\n", record.name, record.digest)
}

/// `alpine:latest  [########          ] 12.0 MiB of 30.1 MiB, 1 of 3 layers`
fn bar(progress: &Progress) -> String {
    let (come, whole) = progress.fetched;
    let (there, layers) = progress.layers;
    if layers == 0 {
        return format!("{}  asking", progress.image);
    }
    let unpacked = format!("{there} of {layers} layers");
    if whole == 0 {
        return format!("{}  unpacking, {unpacked}", progress.image);
    }
    let share = u64::try_from(BAR).unwrap_or(0).saturating_mul(come.min(whole)) / whole;
    let filled = "#".repeat(usize::try_from(share).unwrap_or(BAR));
    let (come, whole) = (output::bytes(come), output::bytes(whole));
    format!("{}  [{filled:<BAR$}] {come} of {whole}, {unpacked}", progress.image)
}

/// Where the image is that is to be loaded: a folder, a file or Docker.
fn place(args: &ImageLoad) -> Result<Source> {
    let select = args.select.clone();
    let text = args.path.to_string_lossy();
    let is_prefixed = PREFIXES.iter().any(|prefix| text.starts_with(prefix));
    if is_prefixed && !args.path.exists() {
        return match (source(&text)?, select) {
            (source, None) => Ok(source),
            (Source::Layout(path, None), select) => Ok(Source::Layout(path, select)),
            (Source::Archive(path, None), select) => Ok(Source::Archive(path, select)),
            (Source::Layout(..) | Source::Archive(..), _) => {
                Err(Usage(format!("{text}: names an image already; leave --select out")).into())
            }
            _ => Err(Usage("--select is for folders and archives".to_owned()).into()),
        };
    }
    let path = std::path::absolute(&args.path)?.to_string_lossy().into_owned();
    Ok(match args.path.is_dir() {
        true => Source::Layout(path, select),
        false => Source::Archive(path, select),
    })
}

/// `netloom image load`
pub(super) fn load(args: &ImageLoad) -> Result<i32> {
    let source = place(args)?;
    let name = args.name.as_deref().map(|name| name.parse::<Source>()).transpose();
    let name = name.map_err(netloom_container::Error::from)?;
    if let Some(Source::Layout(..) | Source::Archive(..)) = name {
        return Err(Usage("--name is a name like lab/mine:1.0".to_owned()).into());
    }
    let store = store()?;
    let options = Options::with(usual_owners(), Pull::Always);
    let mut line = ProgressLine::new();
    let loaded = provide::load(&store, &source, name.as_ref(), &options, &mut |progress| {
        line.show(&bar(progress));
    });
    line.clear();
    let loaded = loaded?;
    match args.json {
        true => output::print_json(&loaded)?,
        false => output::print(&loaded.iter().map(told).collect::<String>())?,
    }
    Ok(0)
}

/// `netloom image list`
pub(super) fn list(args: &ImageList) -> Result<i32> {
    let all = keeping::list(&store()?);
    if args.json {
        output::print_json(&all)?;
        return Ok(0);
    }
    let row = |kept: &Kept| {
        vec![
            kept.record.name.clone(),
            kept.record.digest.short().to_owned(),
            kept.record.layers.len().to_string(),
            output::bytes(kept.bytes),
            output::moment(kept.record.fetched),
            if kept.labs.is_empty() { "-".to_owned() } else { kept.labs.join(" ") },
        ]
    };
    let head = ["image", "digest", "layers", "size", "fetched", "labs"];
    output::print(&output::table(&head, all.iter().map(row).collect()))?;
    Ok(0)
}

/// `netloom image show`
pub(super) fn show(args: &ImageShow) -> Result<i32> {
    let kept = keeping::find(&store()?, &args.image)?;
    if args.json {
        output::print_json(&kept)?;
        return Ok(0);
    }
    let record = &kept.record;
    let settings = &record.settings;
    let words = |all: &[String]| if all.is_empty() { "-".to_owned() } else { format!("{all:?}") };
    let text = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let mut facts = vec![
        ("image", record.name.clone()),
        ("digest", record.digest.to_string()),
        ("platform", record.platform.to_string()),
        ("created", output::or_dash(record.created.clone(), |at| at)),
        ("fetched", output::moment(record.fetched)),
        ("size", output::bytes(kept.bytes)),
        ("entrypoint", words(&settings.entrypoint)),
        ("cmd", words(&settings.cmd)),
        ("user", text(&settings.user)),
        ("workdir", text(&settings.working_dir)),
        ("labs", text(&kept.labs.join(" "))),
    ];
    facts.extend(settings.env.iter().map(|pair| ("env", pair.clone())));
    let layer = |layer: &netloom_container::Layer| {
        ("layer", format!("{}  {}", layer.blob, output::bytes(layer.bytes)))
    };
    facts.extend(record.layers.iter().map(layer));
    output::print(&output::facts(&facts))?;
    Ok(0)
}

/// `netloom image remove`
pub(super) fn remove(args: &ImageRemove) -> Result<i32> {
    let removed = keeping::remove(&store()?, &args.images)?;
    tell_removed(&removed, args.json)
}

/// `netloom image prune`
pub(super) fn prune(args: &ImagePrune) -> Result<i32> {
    let removed = keeping::prune(&store()?, args.all)?;
    tell_removed(&removed, args.json)
}

fn tell_removed(removed: &Removed, as_json: bool) -> Result<i32> {
    if as_json {
        output::print_json(&json!(removed))?;
        return Ok(0);
    }
    let (images, layers) = (removed.images.len(), removed.layers);
    let size = output::bytes(removed.bytes);
    output::print(&format!(
        "removed {}, {}, {size} packed\n",
        output::count(images, "image"),
        output::count(layers, "layer")
    ))?;
    Ok(0)
}
