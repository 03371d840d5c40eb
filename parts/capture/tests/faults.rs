//! What a capture does when its output stalls, fills up or goes, and when its interface does.

use super::world;

use std::path::Path;

use netloom_capture::{Description, End, FileOptions, Options, Pipeline, Source, Target};
use netloom_kit::isolated;
use world::{Feed, all, closed, end, frame, into_pipe, read, read_from, sources, wait_for};

#[test]
fn a_stall_of_the_output_is_survived_in_memory() {
    let feed = Feed::default();
    let (capture, reader) = into_pipe(Options::default(), &feed);
    // Far more than a pipe holds; nobody reads.
    feed.give(0..20_000);
    let stalled = wait_for(&capture, "all in memory", |s| s.total.captured == 20_000);
    assert_eq!((stalled.total.written, stalled.total.lost.total()), (0, 0));
    assert!(stalled.memory >= 8 << 20);
    let reading = std::thread::spawn(move || read_from(std::fs::File::from(reader)));
    wait_for(&capture, "all written", |s| s.total.written == 20_000);
    feed.give(20_000..20_100);
    let report = end(capture);
    assert_eq!((report.end, report.last.total.written), (End::Stopped, 20_100));
    let seen = reading.join().unwrap();
    assert_eq!(seen.numbers(), all(0..20_100));
    assert!(seen.packets.iter().all(|packet| packet.drops.is_none()));
}

#[test]
fn what_finds_no_memory_is_counted_and_told_by_the_next_block() {
    let feed = Feed::default();
    let options = Options { memory: 2 << 20, chunk: Some(256 << 10), ..Options::default() };
    let (capture, reader) = into_pipe(options, &feed);
    feed.give(0..10_000);
    let full = |s: &netloom_capture::Snapshot| s.total.captured + s.total.lost.memory == 10_000;
    let stalled = wait_for(&capture, "all taken or lost", full);
    let lost = stalled.total.lost;
    assert!(lost.memory > 1000 && lost.memory == lost.total(), "{lost:?}");
    let reading = std::thread::spawn(move || read_from(std::fs::File::from(reader)));
    let taken = stalled.total.captured;
    wait_for(&capture, "memory is free again", |s| s.total.written == taken && s.memory == 0);
    feed.give(10_000..10_010);
    let report = end(capture);
    assert_eq!(report.last.total.lost, lost);
    let seen = reading.join().unwrap();
    assert_eq!(seen.packets.iter().filter_map(|packet| packet.drops).sum::<u64>(), lost.memory);
    assert_eq!(seen.packets.iter().filter(|packet| packet.drops.is_some()).count(), 1);
    let numbers = seen.numbers();
    assert_eq!(numbers[numbers.len() - 10..], all(10_000..10_010));
    assert_eq!(numbers[..numbers.len() - 10], all(0..taken));
    let last = seen.statistics.last().unwrap();
    assert_eq!((last.received, last.dropped), (Some(10_010), Some(lost.memory)));
    assert_eq!((last.os_dropped, last.delivered), (Some(0), Some(taken + 10)));
}

#[test]
fn a_reader_that_goes_ends_the_capture() {
    let feed = Feed::default();
    let (capture, reader) = into_pipe(Options::default(), &feed);
    feed.give(0..10_000);
    wait_for(&capture, "all in memory", |s| s.total.captured == 10_000);
    drop(reader);
    let report = closed(capture.wait());
    assert_eq!((report.end, report.failure.is_none()), (End::ReaderGone, true));
    let total = report.last.total;
    assert_eq!((total.offered, total.written + total.lost.disk), (10_000, 10_000));
    assert!(feed.is_finished());
}

#[test]
fn a_reader_that_goes_is_noticed_without_a_frame() {
    let (capture, reader) = into_pipe(Options::default(), &Feed::default());
    drop(reader);
    assert_eq!(closed(capture.wait()).end, End::ReaderGone);
}

#[test]
fn a_reader_that_does_not_read_does_not_keep_a_capture_from_ending() {
    let feed = Feed::default();
    let (capture, _reader) = into_pipe(Options::default(), &feed);
    feed.give(0..10_000);
    wait_for(&capture, "all in memory", |s| s.total.captured == 10_000);
    let report = end(capture);
    let total = report.last.total;
    assert_eq!((report.end, total.written + total.lost.disk), (End::Failed, 10_000));
    assert!(report.failure.unwrap().to_string().contains("wait for its reader"));
}

#[test]
fn an_engine_that_fails_ends_the_capture_and_leaves_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let feeds = [Feed::default(), Feed::default()];
    let target = Target::Files(FileOptions::new(&path));
    let capture = Pipeline::start(Options::default(), sources(&feeds), target).unwrap();
    feeds[0].give(0..100);
    feeds[1].give(0..50);
    wait_for(&capture, "all taken", |s| s.total.captured == 150);
    feeds[0].fail();
    let report = closed(capture.wait());
    assert_eq!(report.end, End::Failed);
    assert!(report.failure.unwrap().to_string().contains("told to fail"));
    let seen = read(&path);
    assert_eq!((seen.of(0), seen.of(1), seen.cut), (all(0..100), all(0..50), false));
}

#[test]
fn an_interface_that_returns_goes_on_under_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let (before, after, other) = (Feed::default(), Feed::default(), Feed::default());
    before.count(3, 4);
    after.count(5, 6);
    let mut all_sources = sources(&[other.clone(), before.clone()]);
    let (next, mut asked) = (after.clone(), 0);
    all_sources[1].reopen = Some(Box::new(move |thread| {
        assert_eq!(thread, 0);
        asked += 1;
        (asked == 3).then(|| next.engine())
    }));
    let target = Target::Files(FileOptions::new(&path));
    let capture = Pipeline::start(Options::default(), all_sources, target).unwrap();
    before.give(0..10);
    before.vanish();
    after.give(10..20);
    other.give(0..5);
    wait_for(&capture, "frames of both", |s| s.total.captured == 25 && s.total.lost.ring == 10);
    after.give(20..21);
    let report = end(capture);
    let ledger = report.last.interfaces[1].ledger;
    assert_eq!((ledger.offered, ledger.filtered, ledger.lost.ring), (39, 8, 10));
    let seen = read(&path);
    assert_eq!((seen.of(1), seen.of(0)), (all(0..21), all(0..5)));
    let told: Vec<_> = seen.packets.iter().filter(|p| p.comment.is_some()).collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].time, world::time(10));
    assert!(told[0].comment.as_ref().unwrap().starts_with("fake1 was gone from 20"), "{told:?}");
    assert_eq!(seen.packets.iter().filter_map(|p| p.drops).sum::<u64>(), 10);
}

#[test]
fn when_all_interfaces_are_gone_it_ends() {
    let feeds = [Feed::default(), Feed::default()];
    let (_reader, writer) = rustix::pipe::pipe().unwrap();
    let target = Target::Pipe(writer);
    let capture = Pipeline::start(Options::default(), sources(&feeds), target).unwrap();
    for feed in &feeds {
        feed.give(0..7);
        feed.vanish();
    }
    let report = closed(capture.wait());
    assert_eq!((report.end, report.last.total.written), (End::InterfacesGone, 14));
}

/// A file system of this many bytes, in namespaces of one's own.
fn small_disk(at: &Path, bytes: u64) {
    let flags = rustix::mount::MountFlags::empty();
    let size = std::ffi::CString::new(format!("size={bytes}")).unwrap();
    rustix::mount::mount("tmpfs", at, "tmpfs", flags, size.as_c_str()).unwrap();
}

fn on_small_disk(memory: u64, wait_for_space: bool, feed: &Feed, folder: &Path) -> Pipeline {
    let options = Options { memory, chunk: Some(256 << 10), ..Options::default() };
    let files = FileOptions { wait_for_space, ..FileOptions::new(folder.join("a.pcapng")) };
    let source = Source::new(Description::new("fake"), feed.engine());
    Pipeline::start(options, vec![source], Target::Files(files)).unwrap()
}

#[test]
fn a_full_disk_ends_the_capture_with_a_whole_file() {
    isolated!({
        let folder = tempfile::tempdir().unwrap();
        small_disk(folder.path(), 2 << 20);
        let feed = Feed::default();
        let capture = on_small_disk(1 << 30, false, &feed, folder.path());
        feed.give(0..10_000);
        let report = closed(capture.wait());
        assert_eq!((report.end, report.failure.is_none()), (End::DiskFull, true));
        let total = report.last.total;
        assert_eq!(total.lost.total(), total.lost.disk);
        assert!(total.lost.disk > 5000 && total.written > 1000, "{total:?}");
        let seen = read(&report.files[0]);
        assert_eq!((seen.numbers(), seen.cut), (all(0..total.written), false));
        assert_eq!(report.files[0].metadata().unwrap().len(), report.bytes);
    });
}

#[test]
fn a_full_disk_is_waited_for_and_nothing_is_lost_while_memory_lasts() {
    isolated!({
        let folder = tempfile::tempdir().unwrap();
        small_disk(folder.path(), 16 << 20);
        let ballast = folder.path().join("ballast");
        std::fs::write(&ballast, vec![1; 14 << 20]).unwrap();
        let feed = Feed::default();
        let capture = on_small_disk(1 << 30, true, &feed, folder.path());
        feed.give(0..10_000);
        let full =
            wait_for(&capture, "a full disk", |s| s.waits_for_space && s.total.captured == 10_000);
        assert!(full.total.written < 3000 && full.total.lost.total() == 0, "{full:?}");
        std::fs::remove_file(&ballast).unwrap();
        wait_for(&capture, "all written", |s| s.total.written == 10_000 && !s.waits_for_space);
        let report = end(capture);
        assert_eq!((report.end, report.last.total.lost.total()), (End::Stopped, 0));
        assert_eq!(read(&report.files[0]).numbers(), all(0..10_000));
    });
}

#[test]
fn a_disk_that_is_full_from_the_start_is_waited_for() {
    isolated!({
        let folder = tempfile::tempdir().unwrap();
        small_disk(folder.path(), 4 << 20);
        let ballast = folder.path().join("ballast");
        // As much as goes.
        drop(std::fs::write(&ballast, vec![1; 5 << 20]));
        let feed = Feed::default();
        let capture = on_small_disk(1 << 30, true, &feed, folder.path());
        feed.give(0..1000);
        let full = |s: &netloom_capture::Snapshot| s.waits_for_space && s.total.captured == 1000;
        let full = wait_for(&capture, "all in memory", full);
        assert_eq!((full.total.written, full.total.lost.total()), (0, 0));
        std::fs::remove_file(&ballast).unwrap();
        wait_for(&capture, "all written", |s| s.total.written == 1000 && !s.waits_for_space);
        assert_eq!(read(&end(capture).files[0]).numbers(), all(0..1000));
    });
}

/// Without a frame, too, the file is made when there is space; without space it ends all the same.
#[test]
fn a_capture_without_a_file_yet_makes_it_or_ends() {
    isolated!({
        let folder = tempfile::tempdir().unwrap();
        small_disk(folder.path(), 4 << 20);
        let (path, ballast) = (folder.path().join("a.pcapng"), folder.path().join("ballast"));
        drop(std::fs::write(&ballast, vec![1; 5 << 20]));
        let capture = on_small_disk(1 << 30, true, &Feed::default(), folder.path());
        let report = end(capture);
        assert_eq!((report.end, report.files.len(), path.exists()), (End::Stopped, 0, false));
        let capture = on_small_disk(1 << 30, true, &Feed::default(), folder.path());
        std::fs::remove_file(&ballast).unwrap();
        wait_for(&capture, "the file", |s| path.exists() && !s.waits_for_space);
        assert_eq!(read(&end(capture).files[0]).interfaces.len(), 1);
    });
}

#[test]
fn a_full_disk_is_what_lost_frames_when_memory_is_full_too() {
    isolated!({
        let folder = tempfile::tempdir().unwrap();
        small_disk(folder.path(), 16 << 20);
        let ballast = folder.path().join("ballast");
        std::fs::write(&ballast, vec![1; 15 << 20]).unwrap();
        let feed = Feed::default();
        let capture = on_small_disk(4 << 20, true, &feed, folder.path());
        feed.give(0..3000);
        wait_for(&capture, "a full disk", |s| s.waits_for_space && s.total.captured == 3000);
        feed.give(3000..20_000);
        let full = |s: &netloom_capture::Snapshot| s.total.captured + s.total.lost.disk == 20_000;
        let taken = wait_for(&capture, "all taken or lost", full).total.captured;
        std::fs::remove_file(&ballast).unwrap();
        wait_for(&capture, "space", |s| s.total.written == taken && !s.waits_for_space);
        feed.give(20_000..20_100);
        let report = end(capture);
        let lost = report.last.total.lost;
        assert_eq!((lost.total(), lost.disk), (20_000 - taken, 20_000 - taken));
        let numbers = read(&report.files[0]).numbers();
        assert_eq!(numbers, [all(0..taken), all(20_000..20_100)].concat());
    });
}

#[test]
fn a_full_disk_does_not_keep_a_capture_from_ending() {
    isolated!({
        let folder = tempfile::tempdir().unwrap();
        small_disk(folder.path(), 1 << 20);
        let feed = Feed::default();
        let capture = on_small_disk(1 << 30, true, &feed, folder.path());
        feed.give(0..5000);
        wait_for(&capture, "a full disk", |s| s.waits_for_space && s.total.captured == 5000);
        let report = end(capture);
        let total = report.last.total;
        assert_eq!((report.end, total.written + total.lost.disk), (End::Stopped, 5000));
        assert_eq!(read(&report.files[0]).numbers(), all(0..total.written));
        assert_eq!(frame(0).len(), 60);
    });
}

/// The space of a file that goes comes back while the next is written; that is waited for.
#[test]
fn a_ring_of_files_needs_no_room_but_for_its_files() {
    isolated!({
        let folder = tempfile::tempdir().unwrap();
        small_disk(folder.path(), (2 << 20) + (128 << 10));
        let feed = Feed::default();
        let options = Options { chunk: Some(256 << 10), ..Options::default() };
        let mut files = FileOptions::new(folder.path().join("a.pcapng"));
        files.rotation.bytes = Some(1 << 20);
        files.rotation.files = Some(2);
        files.disk.preallocate = 1 << 20;
        let source = Source::new(Description::new("fake"), feed.engine());
        let capture = Pipeline::start(options, vec![source], Target::Files(files)).unwrap();
        feed.give(0..50_000);
        wait_for(&capture, "all taken", |s| s.total.captured == 50_000);
        let report = end(capture);
        let total = report.last.total;
        assert_eq!((report.end, total.written, report.files.len()), (End::Stopped, 50_000, 2));
        let numbers = report.files.iter().flat_map(|file| read(file).numbers());
        let numbers: Vec<u64> = numbers.collect();
        assert_eq!(numbers, all(numbers[0]..50_000));
    });
}
