//! Disks that are full and files that may not grow: told by type, whole, and tried again.
//!
//! Small file systems are mounted in mount namespaces of the tests' own, and end with them.

use super::ways;

use std::path::Path;
use std::process::Command;

use netloom_disk::{Error, File, Options, Pool};
use netloom_kit::{isolated, lacks, needs, root_only};
use rustix::mount::{MountFlags, UnmountFlags};
use ways::{WAYS, Way, check, chunk, folder};

const CHUNK: usize = 256 << 10;

/// A file system of a few MiB, mounted until dropped.
struct Small<'a>(&'a Path);

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let done = rustix::mount::unmount(self.0, UnmountFlags::empty());
        if !std::thread::panicking() {
            done.unwrap();
        }
    }
}

/// Fills the file system at `dir`, makes room by removing another file, and goes on.
fn fill_and_go_on(dir: &Path, way: Way, options: &Options) {
    let (path, ballast) = (dir.join("file"), dir.join("ballast"));
    // More than io_uring may have queued when the disk is found full: nine chunks.
    std::fs::write(&ballast, vec![1; 3 << 20]).unwrap();
    std::fs::File::open(&ballast).unwrap().sync_all().unwrap();
    let pool = Pool::new(CHUNK, 32 << 20);
    let mut file = File::create(&path, options).unwrap();
    let mut given = 0;
    let full = loop {
        match file.write(chunk(&pool, given, CHUNK), CHUNK).and_then(|()| file.reap()) {
            Ok(_) => given += 1,
            Err(error) => break error,
        }
        assert!(given < 200, "a small disk takes no end");
    };
    let at = file.written();
    assert!(matches!(full, Error::Full { written, .. } if written == at), "{full:?}");
    assert_eq!(full.to_string(), format!("{path:?}: write: no space left after {at} bytes"));
    // Trying again without room changes nothing and loses nothing.
    let again = file.drain().unwrap_err();
    assert!(matches!(again, Error::Full { .. }), "{again:?}");
    assert_eq!(file.written() + file.queued(), (given + 1) * CHUNK as u64);
    assert_eq!((check(&path), pool.in_use_bytes()), ((at / CHUNK as u64, 0), file.queued()));
    assert!(at > 0 && path.metadata().unwrap().len() == at);
    std::fs::remove_file(&ballast).unwrap();
    file.drain().unwrap();
    assert_eq!((file.written(), file.queued()), ((given + 1) * CHUNK as u64, 0));
    assert_eq!(check(&path), (given + 1, 0), "{way:?}");
    // The disk has less than 3 MiB again: fill it, give up, and end the file whole.
    let mut error = None;
    for number in given + 1..given + 16 {
        error = file.write(chunk(&pool, number, CHUNK), CHUNK).err().or(error);
    }
    error = file.drain().err().or(error);
    assert!(matches!(error, Some(Error::Full { .. })), "{error:?}");
    let back = file.take_back().unwrap();
    assert_eq!(file.written() + (back.len() * CHUNK) as u64, (given + 16) * CHUNK as u64);
    drop(back);
    let length = file.finish(true).unwrap();
    assert_eq!((check(&path), pool.in_use_bytes()), ((length / CHUNK as u64, 0), 0));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_full_tmpfs_is_told_and_written_on_when_space_returns() {
    isolated!({
        let folder = folder();
        let size = c"size=6m";
        let flags = MountFlags::empty();
        rustix::mount::mount("disk", folder.path(), "tmpfs", flags, size).unwrap();
        let small = Small(folder.path());
        for way in WAYS {
            let file = File::create(small.0.join("how"), &way.options(CHUNK)).unwrap();
            assert!(Way::Buffered.is_taken(&file));
            let why = file.how().why_not.clone();
            let expected = (way != Way::Buffered).then_some("O_DIRECT: a tmpfs is the page cache");
            assert_eq!(why.as_deref(), expected);
            drop(file);
            fill_and_go_on(small.0, way, &way.options(CHUNK));
        }
        drop(small);
    });
}

#[test]
fn space_that_cannot_be_set_aside_is_no_error() {
    isolated!({
        let folder = folder();
        let flags = MountFlags::empty();
        rustix::mount::mount("disk", folder.path(), "tmpfs", flags, c"size=6m").unwrap();
        let small = Small(folder.path());
        let options = Options { preallocate: 1 << 30, ..Way::Buffered.options(CHUNK) };
        let file = File::create(small.0.join("file"), &options).unwrap();
        let why = file.how().why_not.clone().unwrap();
        assert!(why.starts_with("preallocation: No space left"), "{why}");
        assert!(!file.how().preallocated);
        drop(file);
        fill_and_go_on(small.0, Way::Buffered, &options);
        drop(small);
    });
}

/// The loop devices that have a file of this folder.
fn loops(folder: &Path) -> Vec<String> {
    let devices = std::fs::read_dir("/sys/block").unwrap().flatten();
    let file = |device: std::fs::DirEntry| {
        std::fs::read_to_string(device.path().join("loop/backing_file")).ok()
    };
    devices.filter_map(file).filter(|file| Path::new(file).starts_with(folder)).collect()
}

fn ran(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|out| out.status.success())
}

#[test]
fn a_full_ext4_is_told_and_written_on_when_space_returns() {
    root_only!("mounts a loop device");
    needs!("mkfs.ext4");
    isolated!({
        let folder = folder();
        let (image, at) = (folder.path().join("image"), folder.path().join("at"));
        std::fs::create_dir(&at).unwrap();
        std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let (image, mounted) = (image.to_str().unwrap(), at.to_str().unwrap());
        assert!(ran("mkfs.ext4", &["-q", "-F", "-O", "^has_journal", "-m", "0", image]));
        // The device lets go of the file when it is unmounted.
        if !ran("mount", &["-o", "loop", image, mounted]) {
            lacks!("loop", "no loop device can be mounted here");
        }
        let small = Small(&at);
        for way in WAYS {
            let file = File::create(small.0.join("how"), &way.options(CHUNK)).unwrap();
            assert!(way.is_taken(&file), "{:?}", file.how());
            drop(file);
            fill_and_go_on(small.0, way, &way.options(CHUNK));
            let ahead = Options { preallocate: 4 << 20, ..way.options(CHUNK) };
            fill_and_go_on(small.0, way, &ahead);
        }
        drop(small);
        netloom_kit::wait_until("the device is free", std::time::Duration::from_secs(30), || {
            loops(folder.path()).is_empty().then_some(())
        });
    });
}

/// Longer than the process may make a file: at a chunk's end, inside a chunk, and off a block's edge.
#[test]
fn a_file_that_may_not_grow_is_told_and_stays_whole() {
    isolated!({
        // SAFETY: ignoring a signal runs no code of ours; the process is this test's own.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let chunk_bytes = CHUNK as u64;
        for way in WAYS {
            for limit in [3 * chunk_bytes, 3 * chunk_bytes + 8192, 3 * chunk_bytes + 100] {
                let folder = folder();
                let path = folder.path().join("file");
                let pool = Pool::new(CHUNK, 32 << 20);
                let mut file = File::create(&path, &way.options(CHUNK)).unwrap();
                set_limit(Some(limit));
                let mut told = None;
                for number in 0..5 {
                    told = file.write(chunk(&pool, number, CHUNK), CHUNK).err().or(told);
                }
                told = file.drain().err().or(told);
                let written = 3 * chunk_bytes;
                let right = matches!(told, Some(Error::Limit { written: w, .. }) if w == written);
                assert!(right, "{way:?} {limit}: {told:?}");
                assert_eq!((check(&path), file.written()), ((3, 0), written), "{way:?} {limit}");
                set_limit(None);
                assert_eq!(file.finish(false).unwrap(), 5 * chunk_bytes);
                assert_eq!(check(&path), (5, 0), "{way:?} {limit}");
            }
        }
    });
}

fn set_limit(current: Option<u64>) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
}
