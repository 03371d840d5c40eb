//! What stands in files: formats, order, limits, rotation, statistics.

use super::world;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use netloom_capture::{
    About, Description, End, Error, FileOptions, Format, Options, Pipeline, Rotation, Source,
    Target,
};
use netloom_kit::wait_until;
use world::{BOUND, Feed, all, closed, end, read, sources, wait_for};

fn capture(options: Options, feeds: &[Feed], files: FileOptions) -> Pipeline {
    Pipeline::start(options, sources(feeds), Target::Files(files)).unwrap()
}

#[test]
fn a_file_says_what_it_is_and_what_was_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    let about = About {
        application: "netloom test".to_owned(),
        names: vec![(address, vec!["anna".to_owned()])],
        ..About::default()
    };
    let feed = Feed::default();
    feed.count(7, 2);
    let described = Description {
        description: "a fake".to_owned(),
        filter: Some("tcp port 80".to_owned()),
        mac: Some([2, 0, 0, 0, 0, 1]),
        addresses: vec![(address, 24)],
        speed: Some(10_000_000_000),
        ..Description::new("fake")
    };
    let options = Options { about, ..Options::default() };
    let source = Source::new(described, feed.engine());
    let target = Target::Files(FileOptions::new(&path));
    let capture = Pipeline::start(options, vec![source], target).unwrap();
    feed.give(0..1000);
    let report = end(capture);
    assert_eq!(report.files, std::slice::from_ref(&path));
    let seen = read(&path);
    assert_eq!((seen.sections, seen.numbers()), (1, all(0..1000)));
    let interface = &seen.interfaces[0];
    assert_eq!((interface.name.as_deref(), interface.linktype), (Some("fake"), 1));
    assert_eq!((interface.resolution, interface.speed), (9, Some(10_000_000_000)));
    assert_eq!(interface.addresses, [(address, 24)]);
    assert_eq!(interface.filter.as_deref(), Some("tcp port 80"));
    assert_eq!(seen.names, [(address, vec!["anna".to_owned()])]);
    let last = seen.statistics.last().unwrap();
    assert_eq!((last.received, last.filter_accepted), (Some(1009), Some(1002)));
    assert_eq!((last.dropped, last.os_dropped, last.delivered), (Some(2), Some(2), Some(1000)));
    assert!(last.start_ns < last.end_ns);
    assert_eq!(path.metadata().unwrap().len(), report.bytes);
}

#[test]
fn a_file_is_live() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let feed = Feed::default();
    let capture = capture(Options::default(), std::slice::from_ref(&feed), FileOptions::new(&path));
    assert_eq!(read(&path).interfaces.len(), 1, "the head is there at once");
    for n in 0..3 {
        feed.give(n..n + 1);
        wait_until("the frame in the file", BOUND, || {
            (read(&path).numbers() == all(0..n + 1)).then_some(())
        });
    }
    // Statistics come by themselves.
    wait_until("statistics", BOUND, || (!read(&path).statistics.is_empty()).then_some(()));
    end(capture);
}

#[test]
fn several_interfaces_and_threads_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let feeds: Vec<Feed> = (0..4).map(|_| Feed::default()).collect();
    let mut all_sources = sources(&feeds[..3]);
    all_sources[1].engines.push(feeds[3].engine());
    let target = Target::Files(FileOptions::new(&path));
    let capture = Pipeline::start(Options::default(), all_sources, target).unwrap();
    for start in (0..20_000).step_by(1000) {
        feeds.iter().for_each(|feed| feed.give(start..start + 1000));
    }
    let report = end(capture);
    assert_eq!(report.last.interfaces[1].ledger.written, 40_000);
    assert_eq!(report.last.total.written, 80_000);
    let seen = read(&path);
    let names: Vec<_> = seen.interfaces.iter().map(|i| i.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["fake0", "fake1", "fake2"]);
    assert_eq!((seen.of(0), seen.of(2)), (all(0..20_000), all(0..20_000)));
    let mut two = seen.of(1);
    two.sort_unstable();
    assert_eq!(two, (0..20_000).flat_map(|n| [n, n]).collect::<Vec<_>>());
    assert_eq!(seen.statistics.iter().rev().take(3).map(|s| s.interface).sum::<u32>(), 3);
}

#[test]
fn runs_of_several_processors_are_put_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let feed = Feed::default();
    let capture = capture(Options::default(), std::slice::from_ref(&feed), FileOptions::new(&path));
    let some = |rest: u64, range: std::ops::Range<u64>| range.filter(|n| n % 3 == rest).collect();
    // All of them fit one chunk.
    for start in (0..4500).step_by(900) {
        feed.give_runs((0..3).map(|rest| some(rest, start..start + 900)).collect());
    }
    end(capture);
    assert!(read(&path).numbers() == all(0..4500), "all, in order");

    let feed = Feed::default();
    feed.give_runs((0..3).map(|rest| some(rest, 0..60)).collect());
    let (capture, reader) = world::into_pipe(Options::default(), &feed);
    wait_for(&capture, "all in the pipe", |s| s.total.written == 60);
    end(capture);
    let seen = world::read_from(std::fs::File::from(reader));
    assert!(seen.numbers() == all(0..60), "all, in order");
}

#[test]
fn classic_files_are_of_one_interface() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    for (format, unit) in [(Format::Pcap, 1000), (Format::PcapNs, 1)] {
        let feed = Feed::default();
        let options = Options { format, ..Options::default() };
        let capture = capture(options, std::slice::from_ref(&feed), FileOptions::new(&path));
        feed.give(0..5000);
        feed.give_runs(vec![(5000..6000).collect()]);
        let report = end(capture);
        let seen = read(&path);
        assert_eq!((seen.packets.len(), report.last.total.written), (6000, 6000));
        for (n, packet) in (0..).zip(&seen.packets) {
            assert_eq!(packet.data, world::frame(n));
            assert_eq!(packet.time, world::time(n) / unit * unit);
        }
        assert_eq!(path.metadata().unwrap().len(), report.bytes);
    }
    let options = Options { format: Format::Pcap, ..Options::default() };
    let feeds = [Feed::default(), Feed::default()];
    let target = Target::Files(FileOptions::new(&path));
    let refused = Pipeline::start(options, sources(&feeds), target).unwrap_err();
    assert!(matches!(refused, Error::OneInterface { interfaces: 2 }), "{refused}");
}

#[test]
fn frames_are_cut_to_the_snaplen_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let feed = Feed::default();
    let described = Description { snaplen: 100, ..Description::new("fake") };
    let source = Source::new(described, feed.engine());
    let target = Target::Files(FileOptions::new(&path));
    let capture = Pipeline::start(Options::default(), vec![source], target).unwrap();
    feed.give(0..1000);
    let report = end(capture);
    let seen = read(&path);
    assert_eq!((seen.packets.len(), seen.interfaces[0].snaplen), (1000, 100));
    let mut cut = 0;
    for (n, packet) in (0..).zip(&seen.packets) {
        let whole = world::frame(n);
        assert_eq!(packet.data, whole[..whole.len().min(100)]);
        assert_eq!(packet.original as usize, whole.len());
        cut += u64::from(whole.len() > 100);
    }
    assert_eq!(report.last.total.truncated, cut);
}

#[test]
fn a_number_of_packets_is_kept_to_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let feeds = [Feed::default(), Feed::default()];
    let options = Options { packets: Some(1234), ..Options::default() };
    let capture = capture(options, &feeds, FileOptions::new(&path));
    feeds[0].give_runs(vec![(0..1000).collect()]);
    feeds[1].give(0..1000);
    let report = closed(capture.wait());
    let total = report.last.total;
    assert_eq!((report.end, total.written, total.filtered), (End::Packets, 1234, 766));
    assert_eq!(read(&path).numbers().len(), 1234);
}

#[test]
fn it_ends_after_its_duration_and_when_a_descriptor_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let options = Options { duration: Some(Duration::from_millis(50)), ..Options::default() };
    let timed = capture(options, &[Feed::default()], FileOptions::new(&path));
    assert_eq!(closed(timed.wait()).end, End::Duration);
    let (stop, tell) = rustix::pipe::pipe().unwrap();
    let options = Options { stop: Some(stop), ..Options::default() };
    let told = capture(options, &[Feed::default()], FileOptions::new(&path));
    rustix::io::write(&tell, b"!").unwrap();
    assert_eq!(closed(told.wait()).end, End::Stopped);
}

/// Reads files that must be whole, each with its own head; the frames of all.
fn read_all(files: &[PathBuf]) -> Vec<u64> {
    let mut numbers = Vec::new();
    for file in files {
        let seen = read(file);
        assert_eq!((seen.sections, seen.interfaces.len(), seen.cut), (1, 1, false));
        assert_eq!(seen.statistics.last().unwrap().interface, 0, "it is ended whole");
        numbers.extend(seen.numbers());
    }
    numbers
}

#[test]
fn files_rotate_by_length() {
    let folder = tempfile::tempdir().unwrap();
    let rotation = Rotation { bytes: Some(1 << 20), ..Rotation::default() };
    let files = FileOptions { rotation, ..FileOptions::new(folder.path().join("a.pcapng")) };
    let feed = Feed::default();
    let options = Options { chunk: Some(256 << 10), ..Options::default() };
    let capture = capture(options, std::slice::from_ref(&feed), files);
    feed.give(0..10_000);
    let report = end(capture);
    assert!((8..=12).contains(&report.files.len()), "{:?}", report.files);
    assert!(read_all(&report.files) == all(0..10_000));
    for (number, file) in (1..).zip(&report.files) {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with(&format!("a_{number:05}_20")), "{name}");
        assert_eq!(name.len(), "a_00001_20261121160515.pcapng".len());
        assert!(file.metadata().unwrap().len() <= 1 << 20);
    }
}

#[test]
fn only_the_newest_files_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let rotation = Rotation { bytes: Some(1 << 20), files: Some(3), ..Rotation::default() };
    let files = FileOptions { rotation, ..FileOptions::new(folder.path().join("a.pcapng")) };
    let feed = Feed::default();
    let options = Options { chunk: Some(256 << 10), ..Options::default() };
    let capture = capture(options, std::slice::from_ref(&feed), files);
    feed.give(0..10_000);
    let report = end(capture);
    assert_eq!((report.files.len(), report.last.total.written), (3, 10_000));
    let mut there: Vec<PathBuf> =
        folder.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    there.sort();
    assert_eq!(there, report.files);
    let numbers = read_all(&report.files);
    assert_eq!(numbers, all(numbers[0]..10_000));
    assert!(report.bytes > 7 << 20);
}

#[test]
fn a_file_or_a_row_of_files_is_not_written_by_two_captures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let start = |feed: &Feed, files: FileOptions| {
        let target = Target::Files(files);
        Pipeline::start(Options::default(), sources(std::slice::from_ref(feed)), target)
    };
    let row = Rotation { bytes: Some(1 << 20), files: Some(1), ..Rotation::default() };
    for rotation in [Rotation::default(), row] {
        let files = FileOptions { rotation, ..FileOptions::new(&path) };
        let (feed, other) = (Feed::default(), Feed::default());
        let first = start(&feed, files.clone()).unwrap();
        for given in [0..10, 10..20] {
            feed.give(given);
            let refused = start(&other, files.clone()).unwrap_err();
            let busy = matches!(refused, Error::Disk(netloom_disk::Error::Busy { .. }));
            assert!(busy, "{refused}");
        }
        let report = end(first);
        assert_eq!((report.files.len(), read(&report.files[0]).numbers()), (1, all(0..20)));
        // Ended captures do not block others, and a row of files is extended.
        let again = end(start(&other, files).unwrap());
        let left = if rotation.is_any() { 20 } else { 0 };
        assert_eq!(read(&report.files[0]).numbers().len(), left);
        assert_eq!(again.files == report.files, !rotation.is_any());
        assert!(read(&again.files[0]).packets.is_empty());
    }
}

#[test]
fn a_statistics_file_is_not_written_by_two_captures() {
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("fake.txt");
    let start = |name: &str| {
        let mut source = Source::new(Description::new("fake"), Feed::default().engine());
        source.statistics = Some(lines.clone());
        let target = Target::Files(FileOptions::new(folder.path().join(name)));
        Pipeline::start(Options::default(), vec![source], target)
    };
    let first = start("a.pcapng").unwrap();
    let refused = start("b.pcapng").unwrap_err().to_string();
    assert!(refused.contains("fake.txt") && refused.contains("is writing to it"), "{refused}");
    end(first);
    end(start("b.pcapng").unwrap());
}

#[test]
fn files_rotate_by_time_also_when_nothing_comes() {
    let folder = tempfile::tempdir().unwrap();
    let time = Some(Duration::from_millis(300));
    let rotation = Rotation { time, ..Rotation::default() };
    let files = FileOptions { rotation, ..FileOptions::new(folder.path().join("a.pcapng")) };
    let feed = Feed::default();
    let capture = capture(Options::default(), std::slice::from_ref(&feed), files);
    let count = || folder.path().read_dir().unwrap().count();
    feed.give(0..10);
    wait_until("the fourth file", BOUND, || (count() >= 4).then_some(()));
    feed.give(10..20);
    wait_for(&capture, "all written", |s| s.total.written == 20);
    let report = end(capture);
    assert!(read_all(&report.files) == all(0..20));
    assert_eq!(read(&report.files[0]).numbers(), all(0..10));
}

#[test]
fn the_statistics_file_adds_up_to_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let (path, lines) = (folder.path().join("a.pcapng"), folder.path().join("fake.txt"));
    let feed = Feed::default();
    feed.count(1, 5);
    let mut source = Source::new(Description::new("fake"), feed.engine());
    source.statistics = Some(lines.clone());
    let target = Target::Files(FileOptions::new(&path));
    let capture = Pipeline::start(Options::default(), vec![source], target).unwrap();
    feed.give(0..1000);
    wait_until("a line", BOUND, || (lines.metadata().unwrap().len() > 0).then_some(()));
    feed.give(1000..1500);
    let report = end(capture);
    let text = std::fs::read_to_string(&lines).unwrap();
    let (mut received, mut lost) = (0, 0);
    for line in text.lines() {
        let columns: Vec<&str> = line.split(' ').collect();
        assert_eq!(columns.len(), 4, "{line}");
        assert!(columns[0].parse::<u64>().unwrap() > 1_700_000_000);
        assert!(columns[1].parse::<f64>().unwrap() >= 0.0);
        received += columns[2].parse::<u64>().unwrap();
        lost += columns[3].parse::<u64>().unwrap();
    }
    assert!(text.lines().count() >= 2);
    assert_eq!((received, lost), (1500, 5));
    assert_eq!(report.last.total.captured, 1500);
}
