//! A capture that is killed leaves a file that can be read, with all that it knew to be written.

mod world;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use netloom_capture::{FileOptions, Options, Pipeline, Target};
use netloom_kit::wait_until;
use netloom_stats::SplitMix64;
use world::{BOUND, Feed, all, read, sources};

/// Says in a process that it is the one to be killed, and where it is to write.
const MARK: &str = "NETLOOM_CAPTURE_TO_BE_KILLED";
const KILLS: u64 = 50;

/// Captures as fast as it goes, and says what is written.
fn capture(path: &Path) {
    let options = Options { chunk: Some(256 << 10), memory: 64 << 20, ..Options::default() };
    let target = Target::Files(FileOptions::new(path));
    let feed = Feed::endless(u64::MAX);
    let capture = Pipeline::start(options, sources(&[feed]), target).unwrap();
    loop {
        println!("written {}", capture.snapshot().total.written);
        std::thread::yield_now();
    }
}

#[test]
fn a_killed_capture_leaves_a_file_that_can_be_read() {
    if let Some(path) = std::env::var_os(MARK) {
        return capture(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let direct = {
        let made = netloom_disk::File::create(folder.path().join("probe"), &Default::default());
        made.unwrap().how().direct
    };
    let mut random = SplitMix64::new(7);
    for kill in 0..KILLS {
        let path = folder.path().join(format!("{kill}.pcapng"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_killed_capture_leaves_a_file_that_can_be_read", "--nocapture"])
            .env(MARK, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = child.stdout.take().unwrap();
        let said = std::thread::spawn(move || {
            let mut text = String::new();
            output.read_to_string(&mut text).map(|_| text)
        });
        // A random moment from the first byte on.
        let most = random.next_u64() % (8 << 20);
        wait_until("the file to grow", BOUND, || {
            path.metadata().is_ok_and(|file| file.len() > most).then_some(())
        });
        std::thread::sleep(Duration::from_micros(random.next_u64() % 2000));
        child.kill().unwrap();
        child.wait().unwrap();
        let said = said.join().unwrap().unwrap();
        let last = said.rsplit_terminator('\n').find_map(|line| line.strip_prefix("written "));
        let written: u64 = last.and_then(|number| number.parse().ok()).unwrap_or(0);
        let seen = read(&path);
        let numbers = seen.numbers();
        assert_eq!(numbers, all(0..numbers.len() as u64));
        assert!(numbers.len() as u64 >= written, "{} of {written}", numbers.len());
        assert!(!seen.cut || !direct, "a write past the page cache is whole");
        std::fs::remove_file(&path).unwrap();
    }
}
