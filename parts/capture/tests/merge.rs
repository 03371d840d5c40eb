//! Several interfaces in one output: frames stand in the order in which they passed, whichever thread took them.

use super::world;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use netloom_capture::{
    Counts, Description, Engine, FileOptions, Filler, Frame, Options, Pipeline, Report, Result,
    Rotation, Round, Source, Target,
};
use netloom_sys::clock;
use world::{Seen, closed, read, read_from};

const INTERFACES: usize = 5;
const FRAMES: u64 = 6000;

/// Times and numbers of frames that passed an interface.
type Passed = VecDeque<(u64, u64)>;

/// Interfaces by which frames pass one after the other, each with its time.
#[derive(Clone, Default)]
struct Path(Arc<Mutex<[Passed; INTERFACES]>>);

impl Path {
    /// A frame passes: its time is read and it is there, and nothing else passes meanwhile.
    fn pass(&self, interface: usize, number: u64) {
        let mut rings = self.0.lock().unwrap();
        rings[interface].push_back((clock::realtime(), number));
    }

    fn sources(&self) -> Vec<Source> {
        let source = |interface| {
            let engine = OnPath { path: self.clone(), interface, taken: 0 };
            Source::new(Description::new(&format!("fake{interface}")), Box::new(engine))
        };
        (0..INTERFACES).map(source).collect()
    }
}

struct OnPath {
    path: Path,
    interface: usize,
    taken: u64,
}

impl Engine for OnPath {
    fn round(&mut self, into: &mut Filler, wait: Duration) -> Result<Round> {
        let until = Instant::now() + wait;
        loop {
            let found = std::mem::take(&mut self.path.0.lock().unwrap()[self.interface]);
            self.taken += found.len() as u64;
            for (time_ns, number) in &found {
                let data = world::frame(*number);
                let original = u32::try_from(data.len()).unwrap();
                let (time_ns, data) = (*time_ns, &data[..]);
                into.frame(&Frame { time_ns, original, data, tag: None, flags: 0 });
            }
            if !found.is_empty() {
                return Ok(Round::Some);
            }
            if Instant::now() >= until {
                return Ok(Round::Nothing);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn finish(&mut self, into: &mut Filler) -> Result<()> {
        self.round(into, Duration::ZERO).map(drop)
    }

    fn counts(&mut self) -> Result<Counts> {
        Ok(Counts { offered: self.taken, ..Counts::default() })
    }
}

/// Frames run along the path, by two threads; the last interface is seldom passed.
fn captured(options: Options, target: Target) -> Report {
    let path = Path::default();
    let capture = Pipeline::start(options, path.sources(), target).unwrap();
    std::thread::scope(|scope| {
        for half in 0..2 {
            let path = &path;
            scope.spawn(move || {
                for number in (half..FRAMES).step_by(2) {
                    let hops =
                        if number.is_multiple_of(1000) { INTERFACES } else { INTERFACES - 1 };
                    (0..hops).for_each(|interface| path.pass(interface, number));
                    if number.is_multiple_of(20) {
                        // As long as a ring is looked at less often.
                        std::thread::sleep(Duration::from_millis(2));
                    }
                }
            });
        }
    });
    capture.stopper().stop();
    let report = closed(capture.wait());
    let total = FRAMES * (INTERFACES as u64 - 1) + FRAMES / 1000;
    assert_eq!((report.last.total.written, report.last.total.lost.total()), (total, 0));
    report
}

/// How many frames stand behind later ones.
fn behind(times: impl IntoIterator<Item = u64>) -> u64 {
    let mut last = 0;
    let late = |time| {
        let late = time < last;
        last = last.max(time);
        u64::from(late)
    };
    times.into_iter().map(late).sum()
}

/// The numbers of the frames of each interface, in the order in which they stand.
fn numbers(seen: &Seen, interface: u32) -> Vec<u64> {
    let own = seen.packets.iter().filter(|packet| packet.interface == interface);
    own.map(|packet| u64::from_le_bytes(*packet.data.first_chunk().unwrap())).collect()
}

fn all_are_there(seen: &Seen) {
    for interface in 0..INTERFACES - 1 {
        let mut found = numbers(seen, u32::try_from(interface).unwrap());
        found.sort_unstable();
        assert!(found == (0..FRAMES).collect::<Vec<_>>(), "interface {interface}");
    }
}

#[test]
fn times_never_run_back_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let report = captured(Options::default(), Target::Files(FileOptions::new(&path)));
    let seen = read(&path);
    assert_eq!((behind(seen.packets.iter().map(|p| p.time)), report.last.late), (0, 0));
    all_are_there(&seen);
}

#[test]
fn times_never_run_back_from_file_to_file() {
    let folder = tempfile::tempdir().unwrap();
    for rotation in [
        Rotation { bytes: Some(2 << 20), ..Rotation::default() },
        Rotation { time: Some(Duration::from_millis(100)), ..Rotation::default() },
    ] {
        let base = folder.path().join(if rotation.bytes.is_some() { "size" } else { "time" });
        let options = Options { chunk: Some(256 << 10), ..Options::default() };
        let files = FileOptions { rotation, ..FileOptions::new(&base) };
        let report = captured(options, Target::Files(files));
        assert!(report.files.len() > 2, "{:?}", report.files);
        let mut all = Seen::default();
        for file in &report.files {
            all.packets.extend(read(file).packets);
        }
        assert_eq!((behind(all.packets.iter().map(|p| p.time)), report.last.late), (0, 0));
        all_are_there(&all);
    }
}

/// An engine that gives its only frame, which passed when it was made, after it was told to.
struct Stuck {
    told: std::sync::mpsc::Receiver<()>,
    time: u64,
    taken: u64,
}

impl Engine for Stuck {
    fn round(&mut self, into: &mut Filler, _: Duration) -> Result<Round> {
        // The process that announced it is gone at the end.
        if self.told.recv().is_err() {
            return Ok(Round::Nothing);
        }
        self.taken += 1;
        let data = &[7; 60][..];
        into.frame(&Frame { time_ns: self.time, original: 60, data, tag: None, flags: 0 });
        Ok(Round::Some)
    }

    fn finish(&mut self, _: &mut Filler) -> Result<()> {
        Ok(())
    }

    fn counts(&mut self) -> Result<Counts> {
        Ok(Counts { offered: self.taken, ..Counts::default() })
    }
}

#[test]
fn who_hangs_holds_nobody_up_and_comes_late() {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let stuck = Stuck { told, time: clock::realtime(), taken: 0 };
    let path = Path::default();
    let mut sources = path.sources();
    sources.push(Source::new(Description::new("stuck"), Box::new(stuck)));
    let capture = Pipeline::start(Options::default(), sources, Target::Pipe(writer)).unwrap();
    (0..10).for_each(|number| path.pass(0, number));
    world::wait_for(&capture, "the others are written", |s| s.total.written == 10);
    tell.send(()).unwrap();
    world::wait_for(&capture, "the late one is written", |s| s.total.written == 11);
    capture.stopper().stop();
    drop(tell);
    let report = closed(capture.wait());
    let seen = read_from(std::fs::File::from(reader));
    assert_eq!((report.last.late, behind(seen.packets.iter().map(|p| p.time))), (1, 1));
}

#[test]
fn times_run_back_in_a_pipe_only_where_it_is_told() {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let reading = std::thread::spawn(move || read_from(std::fs::File::from(reader)));
    let report = captured(Options::default(), Target::Pipe(writer));
    let seen = reading.join().unwrap();
    // None, unless this machine stands still for longer than one who looks on is let wait.
    assert_eq!(behind(seen.packets.iter().map(|p| p.time)), report.last.late);
    assert!(report.last.late < FRAMES / 2, "{}", report.last.late);
    all_are_there(&seen);
}
