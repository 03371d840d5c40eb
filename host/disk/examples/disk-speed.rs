//! How fast a folder's storage is written, by hand and by a [`File`], in turns.
//!
//! `disk-speed DIR MIB [ROUNDS [CHUNK_KIB [GATHER_KIB [preallocate]]]]`: writes a file of MIB MiB in
//! DIR, removes it, and goes on with the next way: plain O_DIRECT writes of 16 MiB from huge pages
//! (`raw`) or small ones (`raw4k`), then the writer in each of its ways. It tells each rate in GB/s, and
//! the medians of all rounds as parts of the median of `raw`.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use netloom_disk::{Buffer, Direct, File, Options, Pool};
use rustix::fs::{Mode, OFlags};

const MIB: u64 = 1 << 20;
const RAW: usize = 16 << 20;
const WAYS: [&str; 5] = ["raw", "raw4k", "uring", "pwrite", "cache"];

struct Asked {
    total: u64,
    pool: Pool,
    options: Options,
}

/// Writes of one size from one buffer that is filled once: what the storage can do.
fn raw(path: &Path, total: u64, huge: bool) -> Result<f64, Box<dyn Error>> {
    // Buffers below 2 MiB are never huge pages; many of them, side by side, are one write.
    let pool = Pool::new(if huge { RAW } else { 1 << 20 }, RAW as u64);
    let mut buffers: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
    buffers.iter_mut().for_each(|buffer| buffer.fill(7));
    let pieces: Vec<_> = buffers.iter().map(|buffer| std::io::IoSlice::new(buffer)).collect();
    let start = Instant::now();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::DIRECT;
    let fd = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?;
    let mut at = 0;
    while at < total {
        at += rustix::io::pwritev(&fd, &pieces, at)? as u64;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Chunks from a pool, each touched as if it had just been filled.
fn written(path: &Path, asked: &Asked, way: &str) -> Result<f64, Box<dyn Error>> {
    let options = Options {
        direct: if way == "cache" { Direct::Never } else { Direct::Auto },
        uring: way == "uring",
        ..asked.options.clone()
    };
    let start = Instant::now();
    let mut file = File::create(path, &options)?;
    let mut given = 0;
    while given < asked.total {
        let mut buffer = asked.pool.take().ok_or("no memory")?;
        buffer.iter_mut().step_by(4096).for_each(|byte| *byte = 7);
        given += buffer.len() as u64;
        let len = buffer.len();
        file.write(buffer, len)?;
    }
    let how = file.how().clone();
    if how.why_not.is_some() {
        println!("{way}: {how:?}");
    }
    file.finish(way == "cache")?;
    Ok(start.elapsed().as_secs_f64())
}

fn rate(dir: &Path, asked: &Asked, way: &str) -> Result<f64, Box<dyn Error>> {
    let path = dir.join(format!("disk-speed.{}", std::process::id()));
    let done = match way {
        "raw" => raw(&path, asked.total, true),
        "raw4k" => raw(&path, asked.total, false),
        _ => written(&path, asked, way),
    };
    std::fs::remove_file(&path)?;
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52 bytes")]
    Ok(asked.total as f64 / done? / 1e9)
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| args.get(at).map_or(Ok(default), |arg| arg.parse());
    let dir =
        Path::new(args.first().ok_or("disk-speed DIR MIB [ROUNDS [CHUNK_KIB [GATHER_KIB]]]")?);
    let total = number(1, 1024)? * MIB;
    let options = Options {
        chunk: usize::try_from(number(3, 4096)? << 10)?,
        gather: usize::try_from(number(4, 16384)? << 10)?,
        preallocate: if args.len() > 5 { total } else { 0 },
        ..Options::default()
    };
    let pool = Pool::new(options.chunk, 64 * MIB);
    // Memory is there and touched before the clock runs, here as for `raw`.
    let mut all: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
    all.iter_mut().for_each(|buffer| buffer.fill(7));
    drop(all);
    let asked = Asked { total, pool, options };
    let mut rates: [Vec<f64>; 5] = Default::default();
    for _ in 0..number(2, 5)? {
        for (way, rates) in WAYS.iter().zip(&mut rates) {
            rates.push(rate(dir, &asked, way)?);
        }
    }
    let raw = median(&mut rates[0]);
    for (way, rates) in WAYS.iter().zip(&mut rates) {
        let middle = median(rates);
        println!("{way:>6} {middle:.2} GB/s, {:.2} of raw; {rates:.2?}", middle / raw);
    }
    Ok(())
}
