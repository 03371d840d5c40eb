//! Nodes of one image beside bare ones, and an image that is fetched and unpacked beside `tar -x` of the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use netloom_digest::splitmix::SplitMix64;

use super::registry::{Images, Layer};
use crate::capture::version;
use crate::driver::{Driver, output, timed};
use crate::report::side;
use crate::rounds::rounds;
use crate::{Options, Programs, Report};

const LAB: &str = "bench-people";
/// Nodes of an image, and layers of it.
const NODES: u32 = 50;
const LAYERS: u32 = 10;
/// Bytes of the image that is unpacked, and of a file of it.
const WHOLE: usize = 100 << 20;
const FILE: usize = 25 << 10;

pub(super) fn measure(options: Options, programs: &Programs, report: &mut Report) -> Result<()> {
    let driver = Driver::new(programs)?;
    nodes(options, &driver, report)?;
    unpacking(options, &driver, report)
}

/// What nodes of an image cost over bare ones.
fn nodes(options: Options, driver: &Driver, report: &mut Report) -> Result<()> {
    let folder = driver.folder().join("layers");
    let mut layers = Vec::new();
    for number in 0..LAYERS {
        let root = folder.join(number.to_string());
        fs::create_dir_all(root.join("etc")).context("make a layer")?;
        fs::write(root.join(format!("etc/{number}")), "text\n").context("make a layer")?;
        layers.push(pack(&root)?);
    }
    let mut images = Images::default();
    images.add("small", &layers);
    let registry = images.serve()?;
    driver.time(&["image", "pull", &format!("{registry}/small:1")])?;
    let bare = driver.lab_file("bare", &lab(""))?;
    let of_image =
        driver.lab_file("image", &lab(&format!("image: \"{registry}/small:1\", run: []")))?;
    // Bare ones, of an image, and what a node more of it costs.
    let mut all: [Vec<f64>; 3] = Default::default();
    let up = |file: &Path| -> Result<f64> {
        let seconds = driver.up(file)?;
        driver.down(LAB)?;
        Ok(1000.0 * seconds)
    };
    let one_round = |round: usize, all: &mut [Vec<f64>; 3]| {
        progress!("bench people: {NODES} nodes, round {}", round + 1);
        let (bare, image) = match round % 2 {
            0 => (up(&bare)?, up(&of_image)?),
            _ => {
                let image = up(&of_image)?;
                (up(&bare)?, image)
            }
        };
        all[0].push(bare);
        all[1].push(image);
        all[2].push((image - bare) / f64::from(NODES));
        Ok(())
    };
    let time = Duration::from_secs(if options.quick { 25 } else { 60 });
    rounds(time, &mut all, one_round, |all, report| report.median("image_node_ms", &all[2]))?;
    let what = format!("up, {NODES} nodes without links");
    report.measured(&what, "netloom", "ms", &all[0], "the host's files");
    let note = format!("one image of {LAYERS} layers, unpacked before");
    report.measured(&what, "netloom, image", "ms", &all[1], &note);
    report.median("image_node_ms", &all[2]);
    Ok(())
}

fn lab(body: &str) -> String {
    let nodes: String = (0..NODES).map(|n| format!("  n{n}: {{{body}}}\n")).collect();
    format!("name: {LAB}\nnodes:\n{nodes}")
}

/// An image from loopback, fetched, checked and unpacked, beside `tar -x` of its layer.
fn unpacking(options: Options, driver: &Driver, report: &mut Report) -> Result<()> {
    let tar = version("tar");
    report.peers.insert("tar".to_owned(), tar.clone());
    let root = driver.folder().join("large");
    fill(&root)?;
    let layer = pack(&root)?;
    let (megabytes, packed) = (layer.plain.len() >> 20, layer.packed.len() >> 20);
    let archive = driver.folder().join("large.tar.gz");
    fs::write(&archive, &layer.packed).context("write the archive")?;
    let mut images = Images::default();
    images.add("large", &[layer]);
    let name = format!("{}/large:1", images.serve()?);
    let mut all: [Vec<f64>; 2] = Default::default();
    let one_round = |round: usize, all: &mut [Vec<f64>; 2]| {
        progress!("bench people: {megabytes} MiB, round {}", round + 1);
        for turn in [round % 2, 1 - round % 2] {
            all[turn].push(match turn {
                0 => pull(driver, &name)?,
                _ => extract(driver, &archive)?,
            });
        }
        Ok(())
    };
    let time = Duration::from_secs(if options.quick { 30 } else { 60 });
    let ratio = |all: &[Vec<f64>; 2], report: &mut Report| {
        let ours = side("image pull from loopback, 1 layer by gzip, digests checked", &all[0]);
        report.ratio("unpack_vs_tar", ours, side("tar -xzf of the layer's file", &all[1]));
    };
    rounds(time, &mut all, one_round, ratio)?;
    let what = format!("an image of {megabytes} MiB, {packed} MiB by gzip");
    let note = "fetched from loopback, checked, unpacked; whole command";
    report.measured(&what, "netloom", "s", &all[0], note);
    report.measured(&what, "tar", "s", &all[1], "tar -xzf of the file");
    ratio(&all, report);
    if tar.is_none() {
        report.not_shown("unpack_vs_tar", "tar is not installed");
    }
    Ok(())
}

/// Seconds of a pull into an empty store.
fn pull(driver: &Driver, name: &str) -> Result<f64> {
    let seconds = driver.time(&["image", "pull", name])?;
    driver.time(&["image", "prune", "--all"])?;
    Ok(seconds)
}

/// Seconds of `tar -x` into an empty folder.
fn extract(driver: &Driver, archive: &Path) -> Result<f64> {
    let folder = driver.folder().join("extracted");
    fs::create_dir(&folder).context("make a folder")?;
    let seconds = timed(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&folder));
    fs::remove_dir_all(&folder).context("remove the folder")?;
    seconds
}

/// Fills a folder with files that pack to about a third, like programs and texts.
fn fill(root: &Path) -> Result<()> {
    let mut random = SplitMix64::new(1);
    for number in 0..WHOLE / FILE {
        let folder = root.join(format!("{}/{}", number % 40, number % 7));
        fs::create_dir_all(&folder).context("make files")?;
        let mut text = Vec::with_capacity(FILE);
        while text.len() < FILE {
            text.extend_from_slice(&random.bytes(8));
            // Something that was there before.
            let from = random.index(text.len());
            let to = (from + 16).min(text.len());
            text.extend_from_within(from..to);
        }
        text.truncate(FILE);
        fs::write(folder.join(number.to_string()), text).context("make files")?;
    }
    Ok(())
}

/// Packs a folder by the machine's programs.
fn pack(root: &Path) -> Result<Layer> {
    let at = |end: &str| -> PathBuf { root.with_extension(end) };
    let (plain, packed) = (at("tar"), at("tar.gz"));
    output(Command::new("tar").arg("-cf").arg(&plain).arg("-C").arg(root).arg("."))?;
    output(Command::new("gzip").args(["-k", "-f"]).arg(&plain))?;
    let read = |path: &Path| fs::read(path).with_context(|| format!("read {}", path.display()));
    let layer = Layer { plain: read(&plain)?, packed: read(&packed)? };
    fs::remove_file(&plain).context("remove the archive")?;
    fs::remove_file(&packed).context("remove the archive")?;
    Ok(layer)
}
