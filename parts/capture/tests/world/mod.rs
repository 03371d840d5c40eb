//! An engine that takes what a test gives it, and files read back.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use netloom_capture::{
    Counts, Engine, Error, Filler, Frame, Options, Pipeline, Report, Result, Round, Snapshot,
    Source, Target,
};
use netloom_kit::wait_until;
use netloom_pcap::ng;
use netloom_pcap::read::{Item, Reader};

/// Longest that anything is waited for.
pub const BOUND: Duration = Duration::from_secs(30);

/// The time of the first frame.
pub const START: u64 = 1_795_277_115_000_000_000;

/// The bytes of the n-th frame: all of them depend on n.
pub fn frame(n: u64) -> Vec<u8> {
    let length = 60 + usize::try_from(n * 37 % 1400).unwrap();
    let mut frame = n.to_le_bytes().repeat(length / 8 + 1);
    frame.truncate(length);
    frame
}

/// The time of the n-th frame.
pub fn time(n: u64) -> u64 {
    START + n * 1000
}

/// The input of an engine.
enum Given {
    Frames(std::ops::Range<u64>),
    /// Each is a run of blocks of some processor.
    Runs(Vec<Vec<u64>>),
}

#[derive(Default)]
struct State {
    given: VecDeque<Given>,
    counts: Counts,
    gone: bool,
    failed: bool,
    finished: bool,
    most: Option<u64>,
}

/// Gives frames to an engine.
#[derive(Clone, Default)]
pub struct Feed(Arc<(Mutex<State>, Condvar)>);

impl Feed {
    /// One that gives frames for as long as they are asked for, up to so many.
    pub fn endless(most: u64) -> Feed {
        let feed = Feed::default();
        feed.state(|state| state.most = Some(most));
        feed
    }

    pub fn engine(&self) -> Box<dyn Engine> {
        Box::new(Fake { feed: self.clone(), next: 0 })
    }

    fn state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
        changed
    }

    /// Gives frames of these numbers.
    pub fn give(&self, numbers: std::ops::Range<u64>) {
        self.state(|state| {
            state.counts.offered += numbers.end - numbers.start;
            state.given.push_back(Given::Frames(numbers));
        });
    }

    /// Gives frames of these numbers as runs that are taken in one round.
    pub fn give_runs(&self, runs: Vec<Vec<u64>>) {
        self.state(|state| {
            state.counts.offered +=
                u64::try_from(runs.iter().map(Vec::len).sum::<usize>()).unwrap();
            state.given.push_back(Given::Runs(runs));
        });
    }

    /// Frames that the engine counts, and does not give.
    pub fn count(&self, filtered: u64, lost: u64) {
        self.state(|state| {
            state.counts.offered += filtered + lost;
            state.counts.filtered += filtered;
            state.counts.lost += lost;
        });
    }

    /// The interface disappears when all given frames are taken.
    pub fn vanish(&self) {
        self.state(|state| state.gone = true);
    }

    pub fn fail(&self) {
        self.state(|state| state.failed = true);
    }

    pub fn is_finished(&self) -> bool {
        self.state(|state| state.finished)
    }
}

/// An engine that takes what a feed gives.
struct Fake {
    feed: Feed,
    next: u64,
}

impl Fake {
    fn take(&mut self, given: Given, into: &mut Filler) {
        match given {
            Given::Frames(numbers) => numbers.for_each(|n| put(n, into)),
            Given::Runs(runs) => {
                for run in runs {
                    let mut bytes = Vec::new();
                    run.into_iter().for_each(|n| block(&mut bytes, n));
                    assert!(into.run(&bytes));
                }
            }
        }
    }

    fn endless(&mut self, most: u64, into: &mut Filler) -> Round {
        let end = (self.next + 256).min(most);
        self.feed.state(|state| state.counts.offered += end - self.next);
        (self.next..end).for_each(|n| put(n, into));
        let moved = end > self.next;
        self.next = end;
        if moved { Round::Some } else { Round::Gone }
    }
}

fn put(n: u64, into: &mut Filler) {
    let data = frame(n);
    let original = u32::try_from(data.len()).unwrap();
    into.frame(&Frame { time_ns: time(n), original, data: &data, tag: None, flags: flags(n) });
}

/// Every third frame has flags.
pub fn flags(n: u64) -> u32 {
    if n.is_multiple_of(3) { ng::INBOUND | ng::CHECKSUM_UNFINISHED } else { 0 }
}

fn block(out: &mut Vec<u8>, n: u64) {
    let data = &frame(n)[..];
    let original = u32::try_from(data.len()).unwrap();
    let (time_ns, flags) = (time(n), flags(n));
    ng::packet(out, &ng::Packet { time_ns, original, data, flags, ..ng::Packet::default() });
}

impl Engine for Fake {
    fn round(&mut self, into: &mut Filler, wait: Duration) -> Result<Round> {
        if let Some(most) = self.feed.state(|state| state.most) {
            return Ok(self.endless(most, into));
        }
        let (mutex, changed) = &*self.feed.0;
        let nothing = |s: &mut State| s.given.is_empty() && !s.gone && !s.failed;
        let mut state = changed.wait_timeout_while(mutex.lock().unwrap(), wait, nothing).unwrap().0;
        if state.failed {
            return Err(Error::Options { what: "told to fail" });
        }
        let (given, gone) = (state.given.pop_front(), state.gone);
        drop(state);
        Ok(match given {
            Some(given) => {
                self.take(given, into);
                Round::Some
            }
            None if gone => Round::Gone,
            None => Round::Nothing,
        })
    }

    fn finish(&mut self, into: &mut Filler) -> Result<()> {
        while let Some(given) = self.feed.state(|state| state.given.pop_front()) {
            self.take(given, into);
        }
        self.feed.state(|state| state.finished = true);
        Ok(())
    }

    fn counts(&mut self) -> Result<Counts> {
        Ok(self.feed.state(|state| state.counts))
    }
}

/// Waits until a capture looks so.
pub fn wait_for(
    capture: &Pipeline,
    what: &str,
    mut looks: impl FnMut(&Snapshot) -> bool,
) -> Snapshot {
    wait_until(what, BOUND, || Some(capture.snapshot()).filter(&mut looks))
}

/// Ends a capture; its books must close.
pub fn end(capture: Pipeline) -> Report {
    capture.stopper().stop();
    closed(capture.wait())
}

/// A report whose books close, in all that they say.
pub fn closed(report: Report) -> Report {
    let mut sum = netloom_capture::Ledger::default();
    for interface in &report.last.interfaces {
        let ledger = interface.ledger;
        assert_eq!(ledger.difference(), 0, "{interface:?}");
        let before = ledger.filtered + ledger.lost.ring + ledger.lost.memory;
        assert!(ledger.offered >= before + ledger.written, "{interface:?}");
        assert!(ledger.captured >= ledger.written, "{interface:?}");
        sum += ledger;
    }
    assert_eq!(sum, report.last.total);
    assert_eq!(report.last.memory, 0, "no memory is left in use");
    report
}

/// A packet as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub interface: u32,
    pub time: u64,
    pub original: u32,
    pub data: Vec<u8>,
    pub flags: u32,
    pub drops: Option<u64>,
    pub comment: Option<String>,
}

/// What stands in a file.
#[derive(Debug, Default)]
pub struct Seen {
    pub sections: usize,
    pub interfaces: Vec<netloom_pcap::read::InterfaceInfo>,
    pub packets: Vec<Packet>,
    pub statistics: Vec<netloom_pcap::read::Statistics>,
    pub names: Vec<(std::net::IpAddr, Vec<String>)>,
    /// Whether it ends inside a block.
    pub cut: bool,
}

impl Seen {
    /// The numbers of its frames, all of which are whole.
    pub fn numbers(&self) -> Vec<u64> {
        self.packets.iter().map(number).collect()
    }

    /// The frames of one interface.
    pub fn of(&self, interface: u32) -> Vec<u64> {
        self.packets.iter().filter(|p| p.interface == interface).map(number).collect()
    }
}

/// The number of a frame that is whole.
fn number(packet: &Packet) -> u64 {
    let n = u64::from_le_bytes(*packet.data.first_chunk().unwrap());
    assert_eq!((packet.data.as_slice(), packet.flags), (&frame(n)[..], flags(n)), "{n}");
    assert_eq!((packet.time, packet.original as usize), (time(n), packet.data.len()), "{n}");
    n
}

pub fn read(path: &Path) -> Seen {
    read_from(std::fs::File::open(path).unwrap())
}

pub fn read_from(bytes: impl Read) -> Seen {
    let mut reader = Reader::new(bytes).unwrap();
    let mut seen = Seen::default();
    loop {
        match reader.next() {
            Ok(Some(Item::Section(_))) => seen.sections += 1,
            Ok(Some(Item::Interface(info))) => seen.interfaces.push(info.clone()),
            Ok(Some(Item::Packet(packet))) => seen.packets.push(Packet {
                interface: packet.interface,
                time: packet.time_ns.unwrap(),
                original: packet.original,
                data: packet.data.to_vec(),
                flags: packet.flags,
                drops: packet.drops,
                comment: packet.comment.map(str::to_owned),
            }),
            Ok(Some(Item::Statistics(statistics))) => seen.statistics.push(statistics),
            Ok(Some(Item::Names(names))) => seen.names.extend(names),
            Ok(Some(Item::Other { kind })) => assert_eq!(kind, ng::PADDING),
            Ok(Some(other)) => panic!("{other:?}"),
            Ok(None) => return seen,
            Err(netloom_pcap::Error::Cut { .. }) => seen.cut = true,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The numbers of a range.
pub fn all(numbers: std::ops::Range<u64>) -> Vec<u64> {
    numbers.collect()
}

/// A capture of one feed into a pipe, and its other end.
pub fn into_pipe(options: Options, feed: &Feed) -> (Pipeline, OwnedFd) {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let source = Source::new(netloom_capture::Description::new("fake"), feed.engine());
    (Pipeline::start(options, vec![source], Target::Pipe(writer)).unwrap(), reader)
}

/// Sources of these feeds, named by their numbers.
pub fn sources(feeds: &[Feed]) -> Vec<Source> {
    let source = |(number, feed): (usize, &Feed)| {
        let description = netloom_capture::Description::new(&format!("fake{number}"));
        Source::new(description, feed.engine())
    };
    feeds.iter().enumerate().map(source).collect()
}
