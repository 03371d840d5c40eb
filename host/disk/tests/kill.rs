//! A writer killed at random moments leaves a prefix, in each of the three ways.
//!
//! The test starts this executable again as the writer, watches the file grow to a random length,
//! lets a random time pass that is shorter than a write, and kills.

use super::ways;
use netloom_kit::{lacks, needs};

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use netloom_digest::splitmix::SplitMix64;
use netloom_disk::{BLOCK, File, Options, Pool};
use ways::{WAYS, Way, check, chunk, fill, folder};

const KILLS: u64 = 20;
const CHUNK: usize = 256 << 10;
/// Writers are killed within as many bytes: 64 chunks.
const ROUND: u64 = 16 << 20;
/// Bytes after which a writer gives up: much more than a busy machine lets it write before it is killed.
const MOST: u64 = 256 << 20;

/// The process that is killed.
#[test]
#[ignore = "helper: started by other tests"]
fn writer() {
    let way = std::env::var("NETLOOM_TEST_WAY").unwrap();
    let way = WAYS[way.parse::<usize>().unwrap()];
    let path = std::env::var_os("NETLOOM_TEST_FILE").unwrap();
    let preallocate = std::env::var_os("NETLOOM_TEST_AHEAD").map_or(0, |_| ROUND);
    let pool = Pool::new(CHUNK, 64 << 20);
    let options = Options { preallocate, ..way.options(CHUNK) };
    let mut file = File::create(path, &options).unwrap();
    assert!(way.is_taken(&file));
    for number in 0.. {
        let Some(mut buffer) = pool.take() else { panic!("memory is short") };
        let len = BLOCK * (1 + usize::try_from(number * 31 % 64).unwrap());
        fill(&mut buffer, number, len);
        file.write(buffer, len).unwrap();
        if file.written() > MOST {
            panic!("nobody killed the writer");
        }
    }
}

/// Kills one writer somewhere in its first `ROUND` bytes.
fn kill_one(way: usize, path: &Path, ahead: bool, random: &mut SplitMix64) {
    let mut command = netloom_kit::again(&writer);
    command.env("NETLOOM_TEST_WAY", way.to_string()).env("NETLOOM_TEST_FILE", path);
    if ahead {
        command.env("NETLOOM_TEST_AHEAD", "1");
    }
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let (from, more) = (random.below(ROUND), random.below(2_000_000));
    let end = Instant::now() + Duration::from_secs(60);
    while path.metadata().map_or(0, |found| found.len()) <= from {
        if child.try_wait().unwrap().is_some() || Instant::now() > end {
            drop(child.kill());
            panic!("the writer came to {from} bytes neither dead nor alive");
        }
        std::thread::yield_now();
    }
    let until = Instant::now() + Duration::from_nanos(more);
    while Instant::now() < until {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status}");
}

fn kill_many(way: Way) -> Option<String> {
    let folder = folder();
    let path = folder.path().join("file");
    let file = File::create(&path, &way.options(CHUNK)).unwrap();
    if !way.is_taken(&file) {
        return Some(format!("{way:?}: {:?}", file.how()));
    }
    drop(file);
    let index = WAYS.iter().position(|other| *other == way).unwrap();
    let mut random = SplitMix64::new(index as u64);
    let (mut chunks, mut cuts) = (Vec::new(), 0);
    for kill in 0..KILLS {
        drop(std::fs::remove_file(&path));
        kill_one(index, &path, kill % 2 == 1, &mut random);
        // Each word is checked; no hole and no zeros are in what is there.
        let (whole, cut) = check(&path);
        assert!(cut == 0 || way == Way::Buffered, "kill {kill}: {cut} bytes of chunk {whole}");
        chunks.push(whole);
        cuts += u64::from(cut > 0);
    }
    eprintln!("{way:?}: {KILLS} kills, {chunks:?} chunks, {cuts} files with a chunk cut");
    None
}

#[test]
fn killed_with_io_uring_it_leaves_whole_chunks() {
    if let Some(why) = kill_many(Way::Uring) {
        needs!("uring");
        lacks!("direct-io", "{why}");
    }
}

#[test]
fn killed_with_pwrite_it_leaves_whole_chunks() {
    if let Some(why) = kill_many(Way::Direct) {
        lacks!("direct-io", "{why}");
    }
}

/// Here a chunk may be cut: the kernel leaves a buffered write in the middle.
#[test]
fn killed_through_the_page_cache_it_leaves_a_prefix() {
    assert_eq!(kill_many(Way::Buffered), None);
}

/// The check itself sees zeros, and chunks that are missing or changed.
#[test]
fn a_hole_would_be_seen() {
    let pool = Pool::new(BLOCK, 1 << 20);
    let bytes: Vec<u8> = (0..3).flat_map(|number| chunk(&pool, number, BLOCK).to_vec()).collect();
    assert_eq!(ways::whole_chunks(&bytes), (3, 0));
    assert_eq!(ways::whole_chunks(&bytes[..9000]), (2, 808));
    let mut zeros = bytes.clone();
    zeros[BLOCK..2 * BLOCK].fill(0);
    let mut late = bytes.clone();
    late[2 * BLOCK - 512..2 * BLOCK].fill(0);
    let swapped = [&bytes[..BLOCK], &bytes[2 * BLOCK..]].concat();
    for wrong in [zeros, late, swapped] {
        std::panic::catch_unwind(|| ways::whole_chunks(&wrong)).unwrap_err();
    }
}
