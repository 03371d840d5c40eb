//! How fast a capture stores frames that cost nothing to take: `store-rate DIR [BYTES] [SECONDS] [sort]`.
//!
//! Frames come as runs of blocks, as a BPF ring gives them, so what is measured is one copy, the
//! accounting and the disk; with `sort` every chunk has to be sorted from many runs, too, which is more
//! than several processors can ask for.

use std::time::{Duration, Instant};

use netloom_capture::{
    Counts, Description, Engine, FileOptions, Filler, Options, Pipeline, Result, Round, Source,
    Target,
};
use netloom_pcap::ng;

/// Gives the same run again and again.
struct Endless {
    run: Vec<u8>,
    frames: u64,
    given: u64,
}

impl Engine for Endless {
    fn round(&mut self, into: &mut Filler, _: Duration) -> Result<Round> {
        into.run(&self.run);
        self.given += self.frames;
        Ok(Round::Some)
    }

    fn finish(&mut self, _: &mut Filler) -> Result<()> {
        Ok(())
    }

    fn counts(&mut self) -> Result<Counts> {
        Ok(Counts { offered: self.given, ..Counts::default() })
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder");
    let mut number = |or: u64| arguments.next().map_or(or, |text| text.parse().expect("a number"));
    let (bytes, seconds) = (number(60), number(3));
    let sort = arguments.next().is_some_and(|word| word == "sort");
    let data = vec![7; usize::try_from(bytes).expect("small")];
    let (mut run, frames) = (Vec::new(), 512);
    for number in 0..frames {
        let original = u32::try_from(bytes).expect("small");
        let time_ns = if sort { number } else { 0 };
        ng::packet(&mut run, &ng::Packet { time_ns, original, data: &data, ..Default::default() });
    }
    let path = std::path::Path::new(&folder).join("store-rate.pcapng");
    let engine = Box::new(Endless { run, frames, given: 0 });
    let options = Options { duration: Some(Duration::from_secs(seconds)), ..Options::default() };
    let sources = vec![Source::new(Description::new("endless"), engine)];
    let start = Instant::now();
    let target = Target::Files(FileOptions::new(&path));
    let report = Pipeline::start(options, sources, target).expect("start").wait();
    let (elapsed, total) = (start.elapsed().as_secs_f64(), report.last.total);
    println!("{:?}, books differ by {}", report.how, total.difference());
    println!(
        "taken {:.2} M/s, written {:.2} M/s, {:.2} GB/s, lost {:.1} %",
        total.offered as f64 / elapsed / 1e6,
        total.written as f64 / elapsed / 1e6,
        report.bytes as f64 / elapsed / 1e9,
        total.lost.total() as f64 / total.offered as f64 * 100.0,
    );
    std::fs::remove_file(path).expect("remove");
}
