//! Many connections of one slice: the others are answered, find room, and memory stays within bounds.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netloom_kit::worked_exactly;
use netloom_openflow::{Hello, Message, Version, encode};

use super::work::{SOON, resident};
use super::world::{Slicer, Switch, two, wait};

/// Connections that a slicer has at most.
const SEATS: usize = 2048;

fn hello() -> Vec<u8> {
    encode(Version::V13, 1, &Message::Hello(Hello::offering(&[Version::V13]))).expect("a hello")
}

/// This many connections of a slice, which say hello and something more.
fn crowd(slicer: &Slicer, slice: &str, count: usize, more: &[u8]) -> Vec<UnixStream> {
    crate::system::raise_limit();
    let path = slicer.folder.path().join(format!("{slice}.s"));
    let said = [&hello()[..], more].concat();
    let one = |_| {
        let mut socket = wait("a connection", || UnixStream::connect(&path).ok());
        socket.set_nonblocking(true).expect("a socket");
        let mut rest = &said[..];
        wait("it is taken", || {
            match socket.write(rest) {
                Ok(length) => rest = &rest[length..],
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                // It made room for another.
                Err(_) => rest = &[],
            }
            rest.is_empty().then_some(())
        });
        socket
    };
    (0..count).map(one).collect()
}

/// Each of them has something to say at the same time, again and again.
#[test]
fn a_crowd_that_speaks_holds_up_no_other_slice() {
    let slicer = Slicer::start(&two(""));
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    let mut red = crowd(&slicer, "red", 1500, &[]);
    let stop = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&stop);
    let speaking = std::thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while !ended.load(Ordering::Relaxed) {
            for socket in &mut red {
                let _ = socket.write_all(&[4, 2, 0, 8, 0, 0, 0, 7].repeat(4));
            }
            for socket in &mut red {
                while socket.read(&mut buffer).is_ok_and(|length| length > 0) {}
            }
        }
    });
    let pid = slicer.show().pid;
    let mut blue = slicer.peer("blue");
    let (mut times, mut most) = (vec![], Duration::ZERO);
    for _ in 0..300 {
        let (begun, before) = (std::time::Instant::now(), worked_exactly(pid));
        blue.ask(&Message::EchoRequest(vec![1]));
        times.push(begun.elapsed());
        most = most.max(worked_exactly(pid) - before);
    }
    stop.store(true, Ordering::Relaxed);
    speaking.join().expect("a thread");
    times.sort_unstable();
    println!("median {:?}, p99 {:?}, {most:?} of work at most", times[150], times[297]);
    assert!(most < SOON, "{most:?}");
}

#[test]
fn a_crowd_keeps_nobody_out() {
    let slicer = Slicer::start(&two(""));
    let switch = Switch::start(slicer.openflow());
    slicer.ready();
    let mut blue = slicer.peer("blue");
    let _red = crowd(&slicer, "red", SEATS + 50, &[]);
    // Existing connections stay, and new ones find room: another slice's, a switch's, and its own.
    blue.barrier();
    slicer.peer("blue").barrier();
    slicer.peer("red").barrier();
    switch.reconnect();
    wait("the switch has come back", || slicer.show().switches[0].resumed.clone());
    slicer.peer("blue").barrier();
}

#[test]
fn a_crowd_that_says_halves_holds_bounded_memory() {
    let slicer = Slicer::start(&two(""));
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    let first = resident(&slicer);
    let mut half = vec![4, 2, 0xff, 0xff, 0, 0, 0, 7];
    half.resize(65_000, 0);
    let _red = crowd(&slicer, "red", SEATS - 48, &half);
    let mut blue = slicer.peer("blue");
    blue.barrier();
    let full = resident(&slicer);
    println!("first {first} KiB, with {SEATS} halves {full} KiB");
    assert!(full < first + 64 * 1024, "{first} {full}");
}
