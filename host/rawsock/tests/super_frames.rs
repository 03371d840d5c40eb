//! TCP over a veth pair between two network namespaces: what one side's kernel gives the other in one
//! piece is reported as a super-frame, and nothing else is.

use super::pair;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use netloom_kit::{isolated, wait_for_carrier};
use netloom_netlink::{Address, Batch, Change, EndSpec, Socket, VethSpec};
use netloom_rawsock::block::Status;
use netloom_rawsock::{BlockOptions, BlockRing, option};
use pair::{A, B, change};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

const SENT: usize = 4 << 20;
/// Ethernet, IPv4 without options, TCP with time stamps.
const HEADERS: usize = 14 + 20 + 32;

/// A namespace made by a thread that then ends.
fn space() -> File {
    let make = || {
        // SAFETY: only this thread's network namespace changes; descriptors stay shared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
        File::open("/proc/thread-self/ns/net").unwrap()
    };
    thread::spawn(make).join().unwrap()
}

fn inside<T: Send>(space: &File, body: impl FnOnce() -> T + Send) -> T {
    let enter = || {
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        body()
    };
    thread::scope(|scope| scope.spawn(enter).join().unwrap())
}

/// A connection to `other`, which takes segments of at most `most` bytes.
fn connected(other: &File, most: Option<i32>) -> (TcpStream, TcpStream) {
    let a = EndSpec { index: Some(A), ..EndSpec::new("a") };
    let b = EndSpec { index: Some(B), netns: Some(other.as_fd()), ..EndSpec::new("b") };
    change(&VethSpec::new(a, b));
    let raise = |index: u32, address: &str| {
        let mut batch = Batch::new();
        batch.push("end", &Address::new(index, address.parse().unwrap()));
        batch.push("end", &Change::of(index).up());
        Socket::open().unwrap().run(&mut batch).unwrap();
    };
    raise(A, "10.0.0.1/24");
    inside(other, || raise(B, "10.0.0.2/24"));
    wait_for_carrier(A);
    let listener = inside(other, || TcpListener::bind("10.0.0.2:7").unwrap());
    if let Some(most) = most {
        option::set(&listener, libc::IPPROTO_TCP, libc::TCP_MAXSEG, most).unwrap();
    }
    let from = TcpStream::connect("10.0.0.2:7").unwrap();
    (from, listener.accept().unwrap().0)
}

/// What a ring has seen of one direction, in frames and bytes behind the headers.
#[derive(Debug, Default)]
struct Seen {
    supers: usize,
    short_supers: usize,
    long: usize,
    long_not_super: usize,
    unfinished: usize,
    bytes: usize,
}

fn all(mut ring: BlockRing, outgoing: bool) -> Seen {
    ring.stop().unwrap();
    let mut seen = Seen::default();
    while let Some(block) = ring.block(Duration::ZERO).unwrap() {
        for frame in block.frames().filter(|frame| frame.outgoing == outgoing) {
            assert_eq!(frame.original as usize, frame.data.len());
            if frame.data[12..14] != [8, 0] {
                continue;
            }
            let (length, long) = (frame.data.len(), frame.data.len() > 1514);
            seen.supers += usize::from(frame.gso);
            seen.short_supers += usize::from(frame.gso && !long);
            seen.long += usize::from(long);
            seen.long_not_super += usize::from(long && !frame.gso);
            seen.unfinished += usize::from(frame.status == Status::CsumNotReady);
            seen.bytes += length.saturating_sub(HEADERS);
        }
    }
    assert_eq!(ring.statistics().unwrap().drops, 0);
    seen
}

#[test]
fn super_frames_are_told_on_both_sides() {
    isolated!({
        let other = space();
        let (mut from, mut to) = connected(&other, None);
        let leaving = BlockRing::open(A, BlockOptions::default(), None).unwrap();
        let entering =
            inside(&other, || BlockRing::open(B, BlockOptions::default(), None).unwrap());
        let writer = thread::spawn(move || {
            from.write_all(&vec![7; SENT]).unwrap();
            from
        });
        to.read_exact(&mut vec![0; SENT]).unwrap();
        let _open = writer.join().unwrap();
        for seen in [all(leaving, true), all(entering, false)] {
            eprintln!("{seen:?}");
            assert!(seen.long > 0 && seen.long_not_super == 0, "{seen:?}");
            assert!(seen.unfinished > 0, "{seen:?}");
            assert!(seen.bytes >= SENT, "{seen:?}");
        }
    });
}

#[test]
fn super_frames_shorter_than_the_mtu_are_told_where_the_kernel_does() {
    isolated!({
        let other = space();
        let (mut from, mut to) = connected(&other, Some(300));
        from.set_nodelay(true).unwrap();
        let ring = BlockRing::open(A, BlockOptions::default(), None).unwrap();
        for _ in 0..20 {
            from.write_all(&[7; 1200]).unwrap();
            to.read_exact(&mut [0; 1200]).unwrap();
        }
        let seen = all(ring, true);
        eprintln!("{seen:?}");
        if seen.short_supers == 0 {
            netloom_kit::lacks!("linux-6.3", "tells no super-frames: {seen:?}");
        }
        assert!(seen.short_supers >= 20 && seen.long == 0, "{seen:?}");
    });
}
