//! A store that is killed at any moment leaves a recording that can be read, with all that it knew to be written.
//!
//! `NETLOOM_ROUNDS` multiplies the number of kills.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use netloom_kit::{done, rounds};
use netloom_pcap::read::Reader;
use netloom_record::{Error, LEAST_KEEP};
use netloom_sighting::Index;

use super::made::{blocks, everything, folder, found, number, store};

/// Where the process that is killed writes.
const MARK: &str = "NETLOOM_RECORD_TO_BE_KILLED";

/// Runs of [`records`] after which the ring has removed segments: each run stores 40 packets of about 470 bytes, with two sightings
/// of about 120 bytes each.
const FULL: u32 = 200;

#[test]
#[ignore = "helper: started by other tests"]
fn records() {
    let root = PathBuf::from(std::env::var_os(MARK).unwrap());
    let (mut store, links) = store(&root, LEAST_KEEP);
    for part in 0.. {
        store.append(&blocks(part * 40..(part + 1) * 40, 3, 300), &links);
        println!("written {}", (part + 1) * 40);
    }
}

/// A process that is killed with this value, also where a test fails: it would write for ever.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills a store after this many of its reports that it has written; returns how many packets it knew to be written.
fn kill_one(root: &Path, times: u32) -> u32 {
    let mut command = netloom_kit::again(&records);
    let mut child = Killed(command.env(MARK, root).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let number = |line: String| line.strip_prefix("written ").and_then(|n| n.parse().ok());
    let mut written = 0;
    for _ in 0..times {
        // The harness says something, too.
        written = lines.by_ref().find_map(|line| number(line.unwrap())).unwrap();
    }
    drop(child);
    // What it said until then is in the pipe.
    lines.map_while(Result::ok).filter_map(number).last().unwrap_or(written)
}

/// The next number below a bound (SplitMix64).
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % below
}

/// Every program reads a file up to its last whole block.
fn readable(content: &[u8], what: &str) {
    let mut reader = Reader::new(content).unwrap_or_else(|e| panic!("{what}: {e}"));
    loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) => return,
            // Its last block was cut.
            Err(netloom_pcap::Error::Cut { .. }) => return,
            Err(e) => panic!("{what}: {e}"),
        }
    }
}

#[test]
fn a_killed_store_leaves_a_recording_that_can_be_read() {
    let root = tempfile::tempdir().unwrap();
    let kills = rounds(6);
    let (mut cut, mut removed, mut seed) = (0, 0, 1);
    for kill in 0..kills {
        let root = root.path().join(kill.to_string());
        // In every second round the ring has been full, so that segments end, begin and are removed.
        let first = if kill % 2 == 0 { 1 } else { FULL };
        let times = first + u32::try_from(random(&mut seed, FULL.into())).unwrap();
        let written = kill_one(&root, times);
        removed += usize::from(!folder(&root).segments().unwrap().contains(&1));
        let (before, _) = found(&root, &everything());
        let numbers: Vec<u32> = before.iter().map(|frame| number(&frame.data)).collect();
        assert!(numbers.is_sorted(), "kill {kill}");
        for segment in folder(&root).segments().unwrap() {
            let content = std::fs::read(root.join(format!("lab/{segment:010}.pcapng"))).unwrap();
            readable(&content, &format!("kill {kill}: segment {segment}"));
            assert!(Index::of(&content).is_some(), "kill {kill}: segment {segment} has no head");
        }
        let last = numbers.last().map_or(0, |last| last + 1);
        assert!(last >= written, "kill {kill}: {last} of {written}");
        if let (Some(first), Some(last)) = (numbers.first(), numbers.last()) {
            // Nothing is missing between the oldest and the newest; these may lack sightings.
            let packets = (last - first + 1) as usize;
            assert!(
                (packets.saturating_mul(3).saturating_sub(4)..=packets * 3)
                    .contains(&numbers.len()),
                "kill {kill}"
            );
        }
        cut += usize::from(!numbers.len().is_multiple_of(3));
        // The next one goes on, and its indexes are those of the segments.
        let (mut next, links) = store(&root, LEAST_KEEP);
        next.append(&blocks(last..last + 1, 3, 300), &links);
        next.finish();
        drop(next);
        let folder = folder(&root);
        let segments = folder.segments().unwrap();
        let names = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
        let lone = |name: &std::ffi::OsString| {
            let number = name.to_str().unwrap().strip_suffix(".index");
            number.is_some_and(|number| !segments.contains(&number.parse().unwrap()))
        };
        assert_eq!(
            names.filter(lone).collect::<Vec<_>>(),
            Vec::<std::ffi::OsString>::new(),
            "kill {kill}"
        );
        for segment in segments {
            let name = |ending: &str| folder.path().join(format!("{segment:010}.{ending}"));
            let content = std::fs::read(name("pcapng")).unwrap();
            let index =
                std::fs::read(name("index")).ok().and_then(|bytes| Index::decode(&bytes).ok());
            assert_eq!(index, Index::of(&content), "kill {kill}, segment {segment}");
        }
        let (after, _) = found(&root, &everything());
        assert_eq!(number(&after.last().unwrap().data), last, "kill {kill}");
        std::fs::remove_dir_all(&root).unwrap();
    }
    done("kills of a recorder's store", kills);
    eprintln!(
        "{kills} kills, {cut} of them within the sightings of a packet, {removed} with a ring that had removed segments"
    );
    assert!(removed >= usize::try_from(kills / 2).unwrap(), "{removed} of {kills}");
}

#[test]
#[ignore = "helper: started by the test below"]
fn is_refused() {
    let root = PathBuf::from(std::env::var_os(MARK).unwrap());
    let second = netloom_record::Store::open(folder(&root), netloom_record::About::default(), 0);
    match second {
        Err(Error::Busy { pid, .. }) => println!("busy {}", pid.unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_second_store_is_refused_with_the_first_ones_process() {
    let root = tempfile::tempdir().unwrap();
    let (first, _) = store(root.path(), LEAST_KEEP);
    let out = netloom_kit::again(&is_refused).env(MARK, root.path()).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains(&format!("busy {}\n", std::process::id())), "{text}");
    drop(first);
}
