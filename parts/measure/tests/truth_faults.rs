//! What goes wrong during a measurement: counts stay exact where nothing stands against them, and where
//! they are not, something does.

use super::truth_support;

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Config, Measure};
use netloom_kit::root_only;
use netloom_marking::session::Program;
use netloom_marking::{Completeness, Record, hops};
use netloom_netlink::{DeleteLink, LinkRef};
use netloom_sys::clock;

use truth_support::kinds::{block_of, until};
use truth_support::net::{A, B, Line, V4};
use truth_support::points::{Block, Points, config, filter, short, wait_for};
use truth_support::send::at;
use truth_support::tap::Tap;
use truth_support::{FROM, TO, send};

fn udp() -> Config {
    let filters = [filter(1, ["10.9.0.1/32", "10.9.0.2/32", "17", "*", "5000"])];
    config(Program::All, &filters, short())
}

/// Packets by block that a tap saw.
fn by_block(tap: &Tap, out: bool, start: u64) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for noted in tap.all(out).iter().filter(|noted| noted.sequence(TO).is_some()) {
        *counts.entry(block_of(noted, start)).or_default() += 1;
    }
    counts
}

fn records(points: &Block) -> Vec<Record> {
    points.iter().map(|flows| flows[0].record).collect()
}

#[test]
fn more_flows_than_are_remembered_are_counted_exactly() {
    root_only!("attaches BPF programs");
    let line = Line::bridged();
    let _receiver = send::receiver(&line);
    let tap = Tap::open(&line.a, A);
    // Before the blocks begin: a hundred of them take their time on a busy machine.
    let bind = |n: u16| UdpSocket::bind(at(V4[0], 6000 + n)).unwrap();
    let sockets: Vec<UdpSocket> = line.a.run(|| (0..100).map(bind).collect());
    let mut points = Points::attach(&line, &Config { cache: 2, ..udp() });
    let first = points.begun();
    let start = points.schedule.start();
    let turns = until(start + first * short() + short() * 9 / 8, |turn| {
        for socket in &sockets {
            socket.send_to(&send::datagram(turn), at(V4[1], TO)).unwrap();
        }
    });
    let truth = by_block(&tap, true, start);
    let mut total = 0;
    for (number, flows) in points.blocks(first) {
        let expected = truth.get(&number).copied().unwrap_or_default();
        for (point, record) in records(&flows).iter().enumerate() {
            assert_eq!(record.all.packets, expected, "block {number} point {point}");
            assert!(record.completeness.is_complete());
        }
        total += expected;
    }
    assert_eq!(total, turns * 100);
    for point in &points.all {
        let counts = point.counts().unwrap();
        // What the kernel sends of its own, as router solicitations, is unmatched.
        assert_eq!((counts.unmarked, counts.outside), (0, 0));
        // All but two of a hundred have no room, at least when they come first.
        assert!((98..=total).contains(&counts.overflow), "{counts:?}");
        assert!(counts.searched >= counts.overflow, "{counts:?}");
    }
}

#[test]
fn a_point_that_begins_again_says_so_of_its_block_alone() {
    root_only!("attaches BPF programs");
    let line = Line::bridged();
    let _receiver = send::receiver(&line);
    let taps = [Tap::open(&line.a, A), Tap::open(&line.b, B)];
    let config = udp();
    let mut points = Points::attach(&line, &config);
    let first = points.begun();
    let start = points.schedule.start();
    let stop = AtomicBool::new(false);
    let (early, began, rest) = std::thread::scope(|scope| {
        let _stop = Stops(&stop);
        let sending = scope.spawn(|| {
            line.a.run(|| {
                let socket = UdpSocket::bind(at(V4[0], FROM)).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    socket.send_to(&send::datagram(7), at(V4[1], TO)).unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        });
        // The first block is read as soon as it is final; another has begun by then.
        wait_for(points.all[3].readable_at(first));
        let early = record(&mut points.all[3], first);
        points.all[3].detach();
        let attach = || Measure::attach(B, Direction::Ingress, &config).unwrap();
        let mut again = line.b.run(attach);
        let began = (clock::monotonic() - start) / short();
        let rest: Vec<[Record; 2]> = (began..began + 3)
            .map(|block| {
                wait_for(again.readable_at(block));
                [&mut again, &mut points.all[0]].map(|point| record(point, block))
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        sending.join().unwrap();
        (early, began, rest)
    });
    let (sent, came) = (by_block(&taps[0], true, start), by_block(&taps[1], false, start));
    assert_eq!(sent, came);
    assert!(early.completeness.is_complete());
    assert_eq!(early.all.packets, sent[&first]);
    for [new, sender] in &rest {
        let truth = sent[&new.block];
        assert!(sender.completeness.is_complete());
        assert_eq!(sender.all.packets, truth);
        if new.completeness.is_complete() {
            assert_eq!(new.all.packets, truth, "{}", new.block);
        } else {
            // The next block is counted already a guard before it begins.
            assert!(new.block <= began + 1, "{:?}", new.completeness.reasons());
            assert!(new.completeness.started_within && new.all.packets <= truth);
        }
    }
    assert!(!rest[0][0].completeness.is_complete() && rest[2][0].completeness.is_complete());
    // What the old point has of the block in which it ended is not said to be all.
    for block in first + 1..=began {
        let old = record(&mut points.all[3], block);
        assert!(old.all.packets <= sent[&block] && !old.completeness.is_complete());
    }
}

fn record(point: &mut Measure, block: u64) -> Record {
    point.read_bank(block).unwrap()[0].record
}

/// Sets a flag when it goes, so that no thread runs on.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn an_interface_that_goes_makes_what_it_counted_incomplete() {
    root_only!("attaches BPF programs");
    let line = Line::bridged();
    let _receiver = send::receiver(&line);
    let tap = Tap::open(&line.a, A);
    let mut points = Points::attach(&line, &udp());
    let first = points.begun();
    let start = points.schedule.start();
    let send = |count: u64| {
        line.a.run(|| {
            let socket = UdpSocket::bind(at(V4[0], FROM)).unwrap();
            for sequence in 0..count {
                socket.send_to(&send::datagram(sequence), at(V4[1], TO)).unwrap();
            }
        });
    };
    let [before, after] = [200, 300];
    send(before);
    line.b.change(|batch| batch.push("link", &DeleteLink(LinkRef::Index(B))));
    netloom_kit::wait_until("it is gone", truth_support::BOUND, || {
        (!points.all[3].is_attached() && !points.all[2].is_attached()).then_some(())
    });
    send(after);
    let truth = by_block(&tap, true, start);
    assert_eq!(truth.values().sum::<u64>(), before + after);
    // The block in which the last one was sent.
    let end = *truth.last_key_value().unwrap().0;
    let mut counted = [0; 4];
    for (block, all) in points.blocks(first).into_iter().filter(|(block, _)| *block <= end) {
        let records = records(&all);
        for (point, record) in records.iter().enumerate() {
            counted[point] += record.all.packets;
            let Completeness { interface_gone, .. } = record.completeness;
            assert_eq!(record.completeness.is_complete(), !interface_gone);
            assert!(!interface_gone || point > 1);
            // No block that lacks a packet seems whole.
            if !interface_gone {
                assert_eq!(record.all.packets, truth.get(&block).copied().unwrap_or(0));
            }
            assert!(block < end || interface_gone == (point > 1), "the last block");
        }
        let hops = hops(&records).unwrap();
        assert!(hops[0].comparison.is_complete() && hops[0].comparison.lost == 0);
        if block == end {
            assert!(hops[1..].iter().all(|hop| !hop.comparison.is_complete()));
        }
    }
    assert_eq!(counted, [before + after, before + after, before, before], "what came until then");
}
