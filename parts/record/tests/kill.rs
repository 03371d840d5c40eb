//! A store that is killed at any moment leaves a recording that can be read, with all that it knew to be written.
//!
//! `NETLOOM_ROUNDS` multiplies the number of kills.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use netloom_kit::{done, rounds, wait_until};
use netloom_record::{Error, LEAST_KEEP};
use netloom_sighting::Index;

use super::made::{blocks, everything, folder, found, number, store};

/// Where the process that is killed writes.
const MARK: &str = "NETLOOM_RECORD_TO_BE_KILLED";

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

/// Kills a store after it has written about this many bytes; returns how many packets it knew to be written.
fn kill_one(root: &Path, after: u64, pause: Duration) -> u32 {
    let mut command = netloom_kit::again(&records);
    let mut child = Killed(command.env(MARK, root).stdout(Stdio::piped()).spawn().unwrap());
    let mut output = child.0.stdout.take().unwrap();
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let grown = || {
        let files = std::fs::read_dir(root.join("lab")).into_iter().flatten().flatten();
        let bytes: u64 = files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum();
        (bytes > after).then_some(())
    };
    wait_until("the recording to grow", Duration::from_secs(120), grown);
    std::thread::sleep(pause);
    drop(child);
    let said = said.join().unwrap().unwrap();
    let last = said.rsplit_terminator('\n').find_map(|line| line.strip_prefix("written "));
    last.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[test]
fn a_killed_store_leaves_a_recording_that_can_be_read() {
    let root = tempfile::tempdir().unwrap();
    let kills = rounds(6);
    let mut cut = 0;
    for kill in 0..kills {
        let root = root.path().join(kill.to_string());
        // From the first block to segments that end, begin and are removed.
        let after = u64::from(kill.wrapping_mul(2_654_435_761) % 3_600_000);
        let pause = Duration::from_micros(u64::from(kill.wrapping_mul(40_503) % 2000));
        let written = kill_one(&root, after, pause);
        let (before, _) = found(&root, &everything());
        let numbers: Vec<u32> = before.iter().map(|frame| number(&frame.data)).collect();
        assert!(numbers.is_sorted(), "kill {kill}");
        for segment in folder(&root).segments().unwrap() {
            let content = std::fs::read(root.join(format!("lab/{segment:010}.pcapng"))).unwrap();
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
    eprintln!("{kills} kills, {cut} of them within the sightings of a packet");
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
