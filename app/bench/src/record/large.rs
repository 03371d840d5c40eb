//! A large recording, and how long a question about one of its flows takes.
//!
//! It is made by the store that recorders write with: frames of a million flows, each of another flow than the one before, of
//! three sizes, at three links. So every part of it has many flows, as behind a busy server; a recording of few connections has
//! smaller indexes.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use netloom_pcap::ng;
use netloom_record::{About, Folder, Link, Store};

use crate::driver::{Driver, output};

/// The lab that it is of, which does not run.
const LAB: &str = "bench-large";
/// Its flows: those of connections to port 80 of one server, a client each.
const FLOWS: u32 = 1_000_000;
/// Bytes of frames, by their number modulo this.
const SIZES: [usize; 3] = [90, 590, 1514];
/// Links on the way of each.
const LINKS: [&str; 3] = ["clients--r1", "r1--r2", "r2--server"];
/// Frames of a run.
const RUN: u32 = 512;
/// The most that it has, and what is left on the disk.
const MOST: u64 = 10 << 30;
const LEFT: u64 = 4 << 30;
/// Questions that are asked.
const QUESTIONS: u32 = 5;
/// The time of the first frame: some day of the past.
const BEGIN: u64 = 1_700_000_000_000_000_000;
/// From one frame to the next.
const STEP_NS: u64 = 10_000;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Large {
    /// Bytes on disk, and those of them that are indexes.
    pub(super) bytes: f64,
    pub(super) indexes: f64,
    /// Seconds of each question, with the start of the program.
    pub(super) seconds: Vec<f64>,
    /// Flows that are in it.
    pub(super) flows: f64,
}

/// Makes it, asks, and removes it.
pub(super) fn measure(driver: &Driver) -> Result<Large> {
    let root = driver.folder().join("data/records");
    let made = make(&root, room(driver.folder())?).and_then(|mut large| {
        for question in 0..QUESTIONS {
            let client = client(question * (FLOWS / QUESTIONS) + 17);
            let begun = Instant::now();
            let found = ask(driver, client)?;
            large.seconds.push(begun.elapsed().as_secs_f64());
            ensure!(
                found.contains(&dotted(client)),
                "bench record: a flow is not in the recording"
            );
        }
        Ok(large)
    });
    drop(std::fs::remove_dir_all(root.join(LAB)));
    made
}

/// How much it may have: what the disk has room for.
fn room(folder: &Path) -> Result<u64> {
    let disk = rustix::fs::statvfs(folder).context("look at the disk")?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    Ok(MOST.min(free.saturating_sub(LEFT) / 2))
}

fn make(root: &Path, keep: u64) -> Result<Large> {
    let folder = Folder::make(root, LAB)?;
    let path = folder.path().to_owned();
    let mut store = Store::open(folder, About::default(), keep)?;
    let link = |name: &&str| Link { name: (*name).to_owned(), description: String::new() };
    let links: Vec<u32> = LINKS.iter().map(|name| store.link(link(name))).collect();
    let mut run = Vec::with_capacity(1 << 21);
    let mut number = 0;
    // A segment and its index less than the bound, so that nothing gives way.
    while store.size().0 + (96 << 20) < keep {
        run.clear();
        (0..RUN).for_each(|at| frames(&mut run, number + at));
        store.append(&run, &links);
        number += RUN;
    }
    store.finish();
    let bytes = store.size().0;
    ensure!(store.books().dropped.disk == 0, "bench record: the disk is full");
    let mut indexes = 0;
    for file in std::fs::read_dir(&path).context("list the recording")?.flatten() {
        if file.path().extension().is_some_and(|ending| ending == "index") {
            indexes += file.metadata().map_or(0, |found| found.len());
        }
    }
    let flows = number.min(FLOWS).into();
    Ok(Large { bytes: bytes as f64, indexes: indexes as f64, flows, seconds: vec![] })
}

/// The address of a client, by the number of its flow.
fn client(flow: u32) -> [u8; 4] {
    let [_, a, b, c] = flow.to_be_bytes();
    [10, a, b, c]
}

fn dotted(address: [u8; 4]) -> String {
    std::net::Ipv4Addr::from(address).to_string()
}

/// A frame with this number, at each link.
fn frames(run: &mut Vec<u8>, number: u32) {
    // A step through all flows that comes to each once.
    let flow = u32::try_from(u64::from(number) * 618_033 % u64::from(FLOWS)).unwrap_or(0);
    let mut frame = tcp(client(flow), number);
    for (hop, interface) in (0..).zip(0..LINKS.len()) {
        // A router takes one from the time to live, and sends it as its own.
        frame[22] = 64 - hop;
        frame[5] = hop;
        let time_ns = BEGIN + u64::from(number) * STEP_NS + u64::from(hop);
        let (interface, original) =
            (u32::try_from(interface).unwrap_or(0), u32::try_from(frame.len()).unwrap_or(0));
        ng::packet(
            run,
            &ng::Packet { interface, time_ns, original, data: &frame, ..ng::Packet::default() },
        );
    }
}

/// A segment of a connection from a client to the server.
fn tcp(client: [u8; 4], number: u32) -> Vec<u8> {
    let size = SIZES[number as usize % SIZES.len()];
    let mut frame = vec![2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 8, 0];
    let [high, low] = u16::try_from(size - 14).unwrap_or(u16::MAX).to_be_bytes();
    let [.., id_high, id_low] = number.to_be_bytes();
    frame.extend([0x45, 0, high, low, id_high, id_low, 0, 0, 64, 6, 0, 0]);
    frame.extend(client);
    frame.extend([10, 200, 0, 1]);
    frame.extend([0xc0, 0, 0, 80]);
    frame.extend(number.to_be_bytes());
    frame.extend([0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    frame.resize(size, 0x5a);
    frame
}

/// What a question about a client's connection finds.
fn ask(driver: &Driver, client: [u8; 4]) -> Result<String> {
    let mut command = driver.command();
    command.args(["-l", LAB, "packets", &dotted(client), "10.200.0.1", "80/tcp"]);
    output(command.args(["--since", "1970-01-01T00:00:01Z"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_one_has_its_flows_and_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let made = make(root.path(), 160 << 20).unwrap();
        assert!(made.bytes > 64e6 && made.bytes < 160e6, "{made:?}");
        assert!(made.indexes > 0.0 && made.indexes < 0.2 * made.bytes, "{made:?}");
        assert!(made.flows > 50_000.0, "{made:?}");
        assert_eq!(tcp([10, 0, 0, 1], 7).len(), SIZES[1]);
    }
}
