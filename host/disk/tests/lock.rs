//! A file has one writer at a time.

use super::ways;

use netloom_disk::{Error, File, Options, Pool, check_free, lock};
use netloom_kit::{lacks, needs, wait_until};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use ways::{chunk, folder};

const CHUNK: usize = 64 << 10;

#[test]
fn a_file_that_is_written_is_refused_to_a_second_writer_and_keeps_what_it_has() {
    for late in [false, true] {
        let folder = folder();
        let path = folder.path().join("file");
        let pool = Pool::new(CHUNK, 1 << 20);
        let options = Options { late, ..Options::default() };
        check_free(&path).unwrap();
        let mut file = File::create(&path, &options).unwrap();
        file.write(chunk(&pool, 0, CHUNK), CHUNK).unwrap();
        file.drain().unwrap();
        let refused = File::create(&path, &options).unwrap_err();
        assert!(matches!(refused, Error::Busy { .. }), "{refused}");
        assert!(matches!(check_free(&path).unwrap_err(), Error::Busy { .. }));
        let plain = std::fs::File::open(&path).unwrap();
        let told = lock(&plain, &path).unwrap_err().to_string();
        assert!(told.starts_with(&format!("{path:?}: ")), "{told}");
        assert_eq!(path.metadata().unwrap().len(), CHUNK as u64);
        let held = file.hold().unwrap();
        file.finish(false).unwrap();
        assert!(check_free(&path).is_err(), "it is held beyond its end");
        drop(held);
        check_free(&path).unwrap();
        drop(File::create(&path, &options).unwrap());
        assert_eq!(path.metadata().unwrap().len(), 0);
    }
}

#[test]
fn who_comes_second_to_a_name_is_told_so() {
    let folder = folder();
    let path = folder.path().join("file");
    let pool = Pool::new(CHUNK, 1 << 20);
    let options = Options { late: true, ..Options::default() };
    let mut files = [(); 2].map(|()| File::create(&path, &options).unwrap());
    if files[0].is_named() {
        lacks!("tmpfile", "files have a name from the start here");
    }
    let mut write = |n: usize| {
        files[n].write(chunk(&pool, n as u64, CHUNK), CHUNK)?;
        files[n].drain()
    };
    write(0).unwrap();
    let refused = write(1).unwrap_err();
    assert!(matches!(refused, Error::Busy { .. }), "{refused}");
    assert_eq!(ways::check(&path), (1, 0));
}

/// A process that is killed when it is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn the_lock_of_a_process_that_is_killed_is_gone_and_its_number_was_told() {
    needs!("flock");
    let folder = folder();
    let path = folder.path().join("file");
    let mut holder = Command::new("flock");
    holder.args(["--no-fork".as_ref(), path.as_os_str()]).args(["sleep", "1000"]);
    let holder = holder.stdin(Stdio::null()).spawn().map(Killed).unwrap();
    let bound = Duration::from_secs(30);
    let told = wait_until("it is locked", bound, || check_free(&path).err()).to_string();
    let named = told.contains(&format!("process {} (", holder.0.id()));
    // Where the file's device goes by another number in /proc/locks, nobody is named.
    assert!(named || told.contains("another process"), "{told}");
    drop(holder);
    drop(File::create(&path, &Options::default()).unwrap());
}
