//! Files on a real file system, in each of the three ways: content, order, lengths, refusals.

use super::ways;

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use netloom_disk::{BLOCK, Error, File, Options, Pool};
use netloom_kit::{lacks, needs};
use proptest::prelude::*;
use ways::{WAYS, Way, check, chunk, folder};

const CHUNK: usize = 64 << 10;

#[test]
fn every_way_writes_the_same_in_order() {
    for way in WAYS {
        let folder = folder();
        let path = folder.path().join("file");
        let pool = Pool::new(CHUNK, 8 << 20);
        let mut file = File::create(&path, &way.options(CHUNK)).unwrap();
        if !way.is_taken(&file) {
            needs!("uring");
            lacks!("direct-io", "{way:?}: {:?}", file.how());
        }
        for number in 0..100 {
            let len = BLOCK * (1 + usize::try_from(number * 7 % 16).unwrap());
            file.write(chunk(&pool, number, len), len).unwrap();
            assert!(file.queued() <= 8 * CHUNK as u64);
            // What the size covers is right at any moment.
            let (whole, _) = check(&path);
            assert!(whole >= number.saturating_sub(128) && whole <= number + 1);
        }
        assert!(way.is_taken(&file) && file.how().why_not.is_none(), "{:?}", file.how());
        let length = file.finish(true).unwrap();
        assert_eq!((check(&path), path.metadata().unwrap().len()), ((100, 0), length));
        assert_eq!(pool.in_use_bytes(), 0);
    }
}

#[test]
fn a_file_whose_name_comes_late_is_never_seen_empty() {
    for way in WAYS {
        let folder = folder();
        let path = folder.path().join("file");
        let pool = Pool::new(CHUNK, 8 << 20);
        let options = Options { late: true, ..way.options(CHUNK) };
        drop(File::create(&path, &options).unwrap());
        let mut file = File::create(&path, &options).unwrap();
        if file.is_named() {
            lacks!("tmpfile", "files have a name from the start here");
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        file.write(chunk(&pool, 0, CHUNK), CHUNK).unwrap();
        file.drain().unwrap();
        assert!(file.is_named());
        assert_eq!(check(&path), (1, 0));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        file.finish(false).unwrap();
        // An existing file is emptied, and stays the same file.
        let before = path.metadata().unwrap().ino();
        let file = File::create(&path, &options).unwrap();
        assert!(file.is_named());
        drop(file);
        let now = path.metadata().unwrap();
        assert_eq!((now.ino(), now.len()), (before, 0));
        std::fs::remove_file(&path).unwrap();
        // One that nothing was written to is there when it is finished.
        assert_eq!(File::create(&path, &options).unwrap().finish(false).unwrap(), 0);
        assert_eq!(path.metadata().unwrap().len(), 0);
    }
}

#[test]
fn a_name_that_somebody_took_meanwhile_is_not_taken_from_him() {
    let folder = folder();
    let path = folder.path().join("file");
    let pool = Pool::new(CHUNK, 8 << 20);
    let mut file = File::create(&path, &Options { late: true, ..Options::default() }).unwrap();
    if file.is_named() {
        lacks!("tmpfile", "files have a name from the start here");
    }
    std::fs::write(&path, "somebody's").unwrap();
    let written = file.write(chunk(&pool, 0, CHUNK), CHUNK).and_then(|()| file.drain());
    let told = written.unwrap_err().to_string();
    assert!(told.contains("name"), "{told}");
    drop(file);
    assert_eq!(std::fs::read(&path).unwrap(), b"somebody's");
}

#[test]
fn lengths_that_are_no_blocks_go_through_the_page_cache_from_there() {
    for way in WAYS {
        let folder = folder();
        let path = folder.path().join("file");
        let pool = Pool::new(CHUNK, 8 << 20);
        let mut file = File::create(&path, &way.options(CHUNK)).unwrap();
        for (number, len) in [CHUNK, 8192 + 24, CHUNK, 16, 4096].into_iter().enumerate() {
            file.write(chunk(&pool, number as u64, len), len).unwrap();
        }
        file.drain().unwrap();
        assert!(Way::Buffered.is_taken(&file));
        assert_eq!(file.how().why_not.is_some(), way != Way::Buffered, "{:?}", file.how());
        let length = file.finish(false).unwrap();
        assert_eq!((check(&path), length), ((5, 0), 2 * CHUNK as u64 + 8192 + 24 + 16 + 4096));
    }
}

#[test]
fn what_was_set_aside_is_given_back_by_finish_and_by_drop() {
    for way in WAYS {
        for finish in [true, false] {
            let folder = folder();
            let path = folder.path().join("file");
            let pool = Pool::new(CHUNK, 8 << 20);
            let options = Options { preallocate: 32 << 20, ..way.options(CHUNK) };
            let mut file = File::create(&path, &options).unwrap();
            if !file.how().preallocated {
                lacks!("direct-io", "no preallocation: {:?}", file.how());
            }
            let found = path.metadata().unwrap();
            assert!(found.len() == 0 && found.blocks() * 512 >= 32 << 20, "{found:?}");
            for number in 0..3 {
                file.write(chunk(&pool, number, CHUNK), CHUNK).unwrap();
            }
            file.drain().unwrap();
            if finish {
                assert_eq!(file.finish(false).unwrap(), 3 * CHUNK as u64);
            } else {
                drop(file);
            }
            assert_eq!(check(&path), (3, 0));
            // Blocks of a file still in the page cache may be counted later, never too many.
            let blocks = path.metadata().unwrap().blocks();
            assert!(blocks * 512 <= 4 * CHUNK as u64, "{way:?} {finish}: {blocks}");
        }
    }
}

#[test]
fn a_file_dropped_without_finish_has_whole_chunks_and_frees_its_memory() {
    for way in WAYS {
        let folder = folder();
        let path = folder.path().join("file");
        let pool = Pool::new(CHUNK, 8 << 20);
        let mut file = File::create(&path, &way.options(CHUNK)).unwrap();
        for number in 0..20 {
            file.write(chunk(&pool, number, CHUNK), CHUNK).unwrap();
        }
        let least = file.written() / CHUNK as u64;
        drop(file);
        let (whole, cut) = check(&path);
        assert!(whole >= least && whole <= 20 && cut == 0, "{way:?}: {whole} of {least}, {cut}");
        assert_eq!(pool.in_use_bytes(), 0);
    }
}

#[test]
fn the_caller_goes_on_while_io_uring_writes_and_finds_out_by_reap() {
    let folder = folder();
    let path = folder.path().join("file");
    let pool = Pool::new(CHUNK, 8 << 20);
    let mut file = File::create(&path, &Way::Uring.options(CHUNK)).unwrap();
    if !Way::Uring.is_taken(&file) {
        needs!("uring");
        lacks!("direct-io", "{:?}", file.how());
    }
    for number in 0..4 {
        file.write(chunk(&pool, number, CHUNK), CHUNK).unwrap();
        assert_eq!(file.written() + file.queued(), (number + 1) * CHUNK as u64);
    }
    netloom_kit::wait_until("all is written", std::time::Duration::from_secs(30), || {
        (file.reap().unwrap() == 4 * CHUNK as u64).then_some(())
    });
    assert_eq!((file.queued(), pool.in_use_bytes()), (0, 0));
}

#[test]
fn what_is_taken_back_is_what_the_file_does_not_have() {
    for way in WAYS {
        let folder = folder();
        let path = folder.path().join("file");
        let pool = Pool::new(CHUNK, 8 << 20);
        let mut file = File::create(&path, &way.options(CHUNK)).unwrap();
        for number in 0..8 {
            file.write(chunk(&pool, number, CHUNK), CHUNK).unwrap();
        }
        let back = file.take_back().unwrap();
        assert_eq!(file.written() + (back.len() * CHUNK) as u64, 8 * CHUNK as u64);
        assert_eq!((file.queued(), pool.in_use_bytes()), (0, (back.len() * CHUNK) as u64));
        for chunk in back {
            file.write(chunk.buffer, chunk.len).unwrap();
        }
        file.finish(false).unwrap();
        assert_eq!(check(&path), (8, 0));
    }
}

#[test]
fn a_new_file_is_its_owners_and_an_old_one_is_emptied() {
    let folder = folder();
    let path = folder.path().join("file");
    drop(File::create(&path, &Options::default()).unwrap());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(&path, [1; 9999]).unwrap();
    let pool = Pool::new(CHUNK, 8 << 20);
    let mut file = File::create(&path, &Options::default()).unwrap();
    assert_eq!(path.metadata().unwrap().len(), 0);
    file.write(chunk(&pool, 0, BLOCK), BLOCK).unwrap();
    assert_eq!(file.finish(false).unwrap(), BLOCK as u64);
    assert_eq!(check(&path), (1, 0));
}

#[test]
fn what_is_no_regular_file_is_refused_and_left_as_it_is() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("target"), "kept").unwrap();
    std::os::unix::fs::symlink(at("target"), at("link")).unwrap();
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), kind, 0o600.into(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let cases = [
        (at("link"), "it is a symbolic link, which is not followed"),
        (at("fifo"), "it is a FIFO, which has no positions to write at"),
        (at("socket"), "it is a socket"),
        ("/dev/stdout".into(), "it is a symbolic link, which is not followed"),
        ("/dev/null".into(), "it is a character device, which has no positions to write at"),
        (folder.path().to_owned(), "it is a directory"),
    ];
    for (path, expected) in cases {
        let error = File::create(&path, &Options::default()).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        assert_eq!(error.to_string(), format!("{path:?}: create: {expected}"));
    }
    assert_eq!(std::fs::read(at("target")).unwrap(), b"kept");
    let missing = File::create(at("no/such"), &Options::default()).unwrap_err();
    assert_eq!(missing.raw_os_error(), Some(2), "{missing:?}");
}

#[test]
fn more_than_the_buffer_has_is_refused_and_nothing_is_queued() {
    let folder = folder();
    let pool = Pool::new(BLOCK, 1 << 20);
    let mut file = File::create(folder.path().join("file"), &Options::default()).unwrap();
    let refused = file.write(pool.take().unwrap(), BLOCK + 1).unwrap_err();
    assert!(matches!(refused, Error::Length { len: 4097, holds: 4096, .. }), "{refused:?}");
    file.write(pool.take().unwrap(), 0).unwrap();
    assert_eq!((file.queued(), pool.in_use_bytes(), file.finish(false).unwrap()), (0, 0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    /// Any lengths, off block edges too, with any gathering, and files given to other threads.
    #[test]
    fn any_lengths_are_written_in_order(
        way in prop::sample::select(WAYS.to_vec()),
        gather in 1_usize..300_000,
        pieces in prop::collection::vec((1_usize..5, prop::bool::weighted(0.05), any::<bool>()), 0..40),
    ) {
        let folder = folder();
        let path = folder.path().join("file");
        let pool = Pool::new(4 * BLOCK, 8 << 20);
        let options = Options { gather, ..way.options(4 * BLOCK) };
        let mut file = File::create(&path, &options).unwrap();
        let mut total = 0;
        for (number, (blocks, odd, moved)) in pieces.iter().enumerate() {
            let len = blocks * BLOCK - usize::from(*odd) * 1000;
            total += len as u64;
            let buffer = chunk(&pool, number as u64, len);
            if *moved {
                let write = move || {
                    file.write(buffer, len).unwrap();
                    file
                };
                file = std::thread::spawn(write).join().unwrap();
            } else {
                file.write(buffer, len).unwrap();
            }
        }
        prop_assert_eq!(file.finish(false).unwrap(), total);
        prop_assert_eq!(check(&path), (pieces.len() as u64, 0));
    }
}
