//! A capture that is killed leaves files that can be read, with all that it knew to be written.
//!
//! `NETLOOM_CAPTURE_KILLS` is how many there are, `NETLOOM_CAPTURE_SEED` what their moments come from.

use super::world;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use netloom_capture::{FileOptions, Options, Pipeline, Target};
use netloom_digest::splitmix::SplitMix64;
use netloom_kit::wait_until;
use world::{BOUND, Feed, all, read, sources};

/// Says in a process that it is the one to be killed, and where it is to write.
const MARK: &str = "NETLOOM_CAPTURE_TO_BE_KILLED";
/// Says in it, too, of how many bytes its files are; one file for ever where it is not there.
const BYTES: &str = "NETLOOM_CAPTURE_FILES_OF";
const KILLS: u64 = 50;
/// The file grows to less than this before the kill.
const MOST: u64 = 8 << 20;

/// Captures as fast as it goes, and says what is written.
fn capture(path: &Path) {
    let options = Options { chunk: Some(256 << 10), memory: 64 << 20, ..Options::default() };
    let mut files = FileOptions::new(path);
    files.rotation.bytes = std::env::var(BYTES).ok().map(|bytes| bytes.parse().unwrap());
    let feed = Feed::endless(u64::MAX);
    let capture = Pipeline::start(options, sources(&[feed]), Target::Files(files)).unwrap();
    loop {
        println!("written {}", capture.snapshot().total.written);
        std::thread::yield_now();
    }
}

/// A number from the environment.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// What a killed capture left.
struct Left {
    /// Oldest first.
    files: Vec<PathBuf>,
    /// Frames that it knew to be written.
    written: u64,
}

/// The files of a folder and what they hold, in the order in which they were made.
fn files(folder: &Path) -> (Vec<PathBuf>, u64) {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let bytes = files.iter().map(|file| file.metadata().map_or(0, |file| file.len()));
    let bytes = bytes.sum();
    (files, bytes)
}

/// Starts a capture into this empty folder, and kills it when its files have
/// grown to a random length and a random time is over.
fn kill_one(folder: &Path, bytes: Option<u64>, random: &mut SplitMix64) -> Left {
    let mut command = netloom_kit::again(&captures);
    command.env(MARK, folder.join("killed.pcapng"));
    if let Some(bytes) = bytes {
        command.env(BYTES, bytes.to_string());
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    // A random moment from the first byte on.
    let most = random.next_u64() % MOST;
    wait_until("the files to grow", BOUND, || (files(folder).1 > most).then_some(()));
    std::thread::sleep(Duration::from_micros(random.next_u64() % 2000));
    child.kill().unwrap();
    child.wait().unwrap();
    let said = said.join().unwrap().unwrap();
    let last = said.rsplit_terminator('\n').find_map(|line| line.strip_prefix("written "));
    let written = last.and_then(|number| number.parse().ok()).unwrap_or(0);
    Left { files: files(folder).0, written }
}

/// The capture that is killed.
#[test]
#[ignore = "helper: started by other tests"]
fn captures() {
    capture(Path::new(&std::env::var_os(MARK).unwrap()));
}

/// Kills captures, and looks at what each has left.
fn kill_many(bytes: Option<u64>) {
    let folder = tempfile::tempdir().unwrap();
    let direct = {
        let made = netloom_disk::File::create(folder.path().join("probe"), &Default::default());
        made.unwrap().how().direct
    };
    let kills = number("NETLOOM_CAPTURE_KILLS", KILLS);
    let mut random = SplitMix64::new(number("NETLOOM_CAPTURE_SEED", 7));
    let (mut made, mut frames) = (0, 0);
    for kill in 0..kills {
        let folder = folder.path().join(kill.to_string());
        std::fs::create_dir(&folder).unwrap();
        let left = kill_one(&folder, bytes, &mut random);
        let mut numbers = Vec::new();
        for file in &left.files {
            let seen = read(file);
            assert!(!seen.cut || !direct, "kill {kill}: a write past the page cache is whole");
            numbers.extend(seen.numbers());
        }
        assert_eq!(numbers, all(0..numbers.len() as u64), "kill {kill}");
        let written = left.written;
        assert!(numbers.len() as u64 >= written, "kill {kill}: {} of {written}", numbers.len());
        std::fs::remove_dir_all(&folder).unwrap();
        (made, frames) = (made + left.files.len(), frames + numbers.len());
    }
    eprintln!("{kills} kills: {made} files with {frames} frames, all of them readable");
}

#[test]
fn a_killed_capture_leaves_a_file_that_can_be_read() {
    kill_many(None);
}

/// The moments are those of files that end and begin, too: one for every second chunk.
#[test]
fn a_capture_killed_while_files_change_leaves_files_that_can_be_read() {
    kill_many(Some(600 << 10));
}
