//! Capture files made by hand, played over a pair of links.

use super::world;

use std::io::{Cursor, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use netloom_generate::{Engine, Error, ReplayOptions, ReplayReport, Replayer, Skipped};
use netloom_kit::isolated;
use netloom_pcap::ng;
use netloom_traffic::{Flows, Frame, Rate, Tempo};
use world::{A, addresses, interface, only, pair};

const MS: u64 = 1_000_000;

/// A file of Ethernet and, as interface 1, of something else.
fn file() -> Vec<u8> {
    let mut file = Vec::new();
    ng::section(&mut file, &ng::Section::default());
    ng::interface(&mut file, &ng::Interface::default());
    ng::interface(&mut file, &ng::Interface { linktype: 101, ..ng::Interface::default() });
    file
}

fn put(file: &mut Vec<u8>, interface: u32, time_ns: u64, original: usize, data: &[u8]) {
    let original = u32::try_from(original).unwrap();
    let packet = ng::Packet {
        interface,
        time_ns,
        original,
        data,
        flags: 0,
        drops: None,
        id: None,
        comment: None,
    };
    ng::packet(file, &packet);
}

/// Stamped frames of these numbers, this many nanoseconds apart.
fn numbered(numbers: &[u64], gap: u64) -> Vec<u8> {
    let mut frame = Frame::new(&addresses(false), 60, 3).unwrap();
    let mut bytes = file();
    for (n, number) in (0..).zip(numbers) {
        let made = frame.make(60, Flows::ONE.at(0), *number, 0);
        put(&mut bytes, 0, 1_000_000 * MS + n * gap, made.len(), made);
    }
    bytes
}

fn play(file: &[u8], options: ReplayOptions) -> Result<ReplayReport, Error> {
    let mut replayer = Replayer::open(interface(A), Engine::Auto, options).unwrap();
    replayer.run(|| Ok(Cursor::new(file.to_vec())), &AtomicBool::new(false))
}

fn at(tempo: Tempo) -> ReplayOptions {
    ReplayOptions { tempo, ..ReplayOptions::default() }
}

#[test]
fn what_was_recorded_out_of_order_is_found_so() {
    isolated!({
        pair();
        // 4 is lost, 2 and 1 come late, 5 twice; 8 is the last of 10.
        let file = numbered(&[0, 3, 2, 1, 5, 6, 5, 7, 8], 1000);
        let (report, receive) =
            world::receive(9, || play(&file, at(Tempo::Rate(Rate::Max))).unwrap());
        assert_eq!((report.frames_sent, report.frames_refused, report.rounds), (9, 0, 1));
        let found = receive.report(&[(3, 10), (4, 7)]);
        let [stream, other] = &found.streams[..] else { panic!("{found:?}") };
        assert_eq!((stream.stream, stream.frames_received, stream.frames_lost), (3, 8, 2));
        assert_eq!((stream.frames_duplicated, stream.frames_reordered), (1, 2));
        assert_eq!(stream.reordered_farthest_frames, 3);
        assert_eq!((other.stream, other.frames_lost), (4, 7));
    });
}

#[test]
fn gaps_are_kept_at_the_speed_asked_for() {
    isolated!({
        pair();
        let file = numbered(&[0, 1, 2, 3], 4 * MS);
        for (tempo, rounds, least) in [
            (Tempo::Recorded("1".parse().unwrap()), 1, 12 * MS),
            // The second round begins after the mean gap.
            (Tempo::Recorded("2".parse().unwrap()), 2, 14 * MS),
            (Tempo::Rate(Rate::Packets(1000.0)), 2, 7 * MS),
        ] {
            let options = ReplayOptions { rounds, ..at(tempo) };
            let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let (report, receive) = world::receive(4 * rounds, || play(&file, options).unwrap());
            assert!(report.elapsed_ns >= least, "{report:?}");
            assert_eq!(report.pacing.unwrap().departures, 4 * rounds);
            assert_eq!((report.frames_sent, report.rounds), (4 * rounds, rounds));
            assert_eq!(report.bytes_offered, 4 * 64 * rounds);
            let found = receive.report(&[]);
            assert_eq!(only(&found).frames_duplicated, 4 * (rounds - 1));
            // No frame was early. Their stamps are zero, so the greatest latency is when the last came; the first may
            // have waited for its receiver as long as that had no processor.
            let last = Duration::from_nanos(only(&found).latency.max_ns);
            assert!(last >= begun + Duration::from_nanos(least), "{begun:?}: {found:?}");
        }
    });
}

#[test]
fn it_is_played_until_enough_is_sent() {
    isolated!({
        pair();
        let file = numbered(&[0, 1, 2], 1000);
        let options = ReplayOptions { rounds: 0, frames: Some(10), ..ReplayOptions::default() };
        let report = play(&file, options).unwrap();
        assert_eq!((report.frames_sent, report.rounds), (10, 3));
    });
}

/// Says that it was called, by a file's times.
static TOLD: std::sync::Mutex<Vec<(Duration, u64)>> = std::sync::Mutex::new(Vec::new());

/// Stops what a thread does when it is dropped, also by a test that fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn long_gaps_are_told_of_or_cut() {
    isolated!({
        pair();
        let file = numbered(&[0, 1], 1_000_000_000 * 86_400);
        let tell = |gap, frame| TOLD.lock().unwrap().push((gap, frame));
        let options = ReplayOptions { before_long_gap: Some(tell), ..ReplayOptions::default() };
        let bounded = ReplayOptions { most_gap: Some(Duration::from_millis(1)), ..options };
        let report = play(&file, bounded).unwrap();
        assert_eq!((report.frames_sent, report.gaps_cut), (2, 1));
        assert!(report.elapsed_ns >= MS && TOLD.lock().unwrap().is_empty());
        // It waits for the second one, and can be stopped.
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let played = scope.spawn(|| {
                let mut replayer = Replayer::open(interface(A), Engine::Auto, options).unwrap();
                replayer.run(|| Ok(Cursor::new(file.clone())), &stop).unwrap()
            });
            let stops = Stops(&stop);
            let told = || TOLD.lock().unwrap().first().copied();
            let told = netloom_kit::wait_until("it tells", world::BOUND, told);
            drop(stops);
            assert_eq!(told, (Duration::from_secs(86_400), 2));
            assert_eq!((played.join().unwrap().frames_sent, report.frames_refused), (1, 0));
        });
    });
}

#[test]
fn what_cannot_be_sent_is_left_out_by_name() {
    isolated!({
        pair();
        let mut bytes = numbered(&[0], 0);
        let long = vec![0xff; 1515];
        let mut tagged = vec![0xff; 1518];
        tagged[12..14].copy_from_slice(&[0x81, 0]);
        for (interface, original, data) in [
            (0, 1515, &long[..]),
            (0, 1518, &tagged[..]),
            (0, 13, &long[..13]),
            (0, 100, &long[..99]),
            (1, 60, &long[..60]),
            (1, 60, &long[..60]),
        ] {
            put(&mut bytes, interface, 999_999 * MS, original, data);
        }
        let report = play(&bytes, ReplayOptions::default()).unwrap();
        assert_eq!(report.frames_sent, 2, "a tag comes on top of what the interface takes");
        // The first two, of which one is too long, were recorded before the one that stands first.
        assert_eq!((report.frames_put_in_order, report.frames_back_in_time), (2, 0));
        let skipped = Skipped {
            frames_too_long: 1,
            frames_too_short: 1,
            frames_truncated: 1,
            frames_not_ethernet: 2,
        };
        assert_eq!(report.skipped, skipped);
    });
}

#[test]
fn a_file_that_is_cut_short_is_played_up_to_there() {
    isolated!({
        pair();
        let file = numbered(&[0, 1, 2], 1000);
        let cut = &file[..file.len() - 1];
        let (error, receive) =
            world::receive(2, || play(cut, ReplayOptions::default()).unwrap_err());
        assert!(matches!(error, Error::Pcap(netloom_pcap::Error::Cut { .. })), "{error}");
        assert_eq!(only(&receive.report(&[])).frames_received, 2);
        let error = play(b"no such file", ReplayOptions::default()).unwrap_err();
        assert!(matches!(error, Error::Pcap(netloom_pcap::Error::Format { .. })), "{error}");
        let engine = Replayer::open(interface(A), Engine::LiveFrames, ReplayOptions::default());
        assert!(engine.unwrap_err().to_string().starts_with("engine live-frames: "));
    });
}

/// A file without end, of which nothing can be sent. Once a megabyte of it was read, replaying is to stop.
struct Unsendable<'s> {
    packet: Vec<u8>,
    waits: Cursor<Vec<u8>>,
    read: usize,
    stop: &'s AtomicBool,
}

impl Read for Unsendable<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let mut count = self.waits.read(to)?;
        if count == 0 {
            self.waits = Cursor::new(self.packet.clone());
            count = self.waits.read(to)?;
        }
        self.read += count;
        self.stop.fetch_or(self.read > 1 << 20, Ordering::Relaxed);
        assert!(self.read < 1 << 28, "it is read on and on");
        Ok(count)
    }
}

#[test]
fn a_file_of_which_nothing_can_be_sent_does_not_keep_it_from_ending() {
    isolated!({
        pair();
        let stop = AtomicBool::new(false);
        let mut packet = vec![];
        put(&mut packet, 1, 0, 9, &[0; 9]);
        let mut replayer = Replayer::open(interface(A), Engine::Auto, at(Tempo::Rate(Rate::Max)));
        let replayer = replayer.as_mut().unwrap();
        let open = || {
            let (packet, waits) = (packet.clone(), Cursor::new(file()));
            Ok(Unsendable { packet, waits, read: 0, stop: &stop })
        };
        assert_eq!(replayer.run(open, &stop).unwrap().frames_sent, 0);
    });
}

#[test]
fn interfaces_written_one_behind_the_other_keep_their_gaps() {
    isolated!({
        pair();
        // Blocks of 8 ms of one interface, then of the other, whose frames lie between.
        let mut frame = Frame::new(&addresses(false), 60, 3).unwrap();
        let mut bytes = file();
        ng::interface(&mut bytes, &ng::Interface::default());
        for block in 0..4 {
            for (interface, odd) in [(0, 0), (2, 1)] {
                for n in (0..16).map(|n| block * 16 + n).filter(|n| n % 2 == odd) {
                    let made = frame.make(60, Flows::ONE.at(0), n, 0);
                    put(&mut bytes, interface, 1_000_000 * MS + n * MS, made.len(), made);
                }
            }
        }
        let (report, receive) =
            world::receive(64, || play(&bytes, ReplayOptions::default()).unwrap());
        assert_eq!((report.frames_sent, report.frames_back_in_time), (64, 0));
        // Of each block the second interface's but its last, which is newer than all before.
        assert_eq!(report.frames_put_in_order, 4 * 7);
        let found = receive.report(&[]);
        assert_eq!((only(&found).frames_received, only(&found).frames_reordered), (64, 0));
        // At a rate they go as they stand.
        let options = at(Tempo::Rate(Rate::Max));
        let (report, receive) = world::receive(64, || play(&bytes, options).unwrap());
        assert_eq!(report.frames_put_in_order, 0);
        assert!(only(&receive.report(&[])).frames_reordered > 0);
    });
}
