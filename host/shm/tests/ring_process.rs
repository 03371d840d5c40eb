//! Rings between processes, one of which is killed in the middle of it.
//!
//! The other process is this test's executable again, with one of the `child_` tests, which do
//! nothing without their environment.

use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use netloom_shm::inbox::{Inbox, PeerInbox};
use netloom_shm::layout::{HEADER, ring};
use netloom_shm::ring::{Outgoing, Pushed, Reader, Taken, Writer};
use netloom_shm::wake::{Bell, Watch};

const LONG: Duration = Duration::from_secs(60);
const FDS: &str = "NETLOOM_TEST_RING_FDS";

/// Starts a function of this executable, with copies of descriptors that it inherits.
fn child<T>(helper: &T, fds: &[OwnedFd]) -> Child {
    let numbers: Vec<String> = fds.iter().map(|fd| fd.as_raw_fd().to_string()).collect();
    netloom_kit::again(helper)
        .env(FDS, numbers.join(","))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child")
}

/// A copy of a descriptor that children inherit.
fn inherited(fd: impl std::os::fd::AsFd) -> OwnedFd {
    rustix::io::dup(fd).expect("a copy")
}

/// The descriptors that this process was started with.
fn given() -> Vec<OwnedFd> {
    let numbers = std::env::var(FDS).expect("numbers of descriptors");
    let fds = numbers.split(',').map(|number| number.parse().expect("a number"));
    // SAFETY: the parent opened them for us, and nobody else here knows of them.
    fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect()
}

/// A frame that tells its number in every byte, and has a length of its own.
fn frame(number: u64, whole: &mut Vec<u8>) {
    let length = HEADER + 14 + usize::try_from(number * 7919 % 3000).expect("small");
    whole.clear();
    whole.extend_from_slice(&number.to_le_bytes());
    whole.resize(length, u8::try_from(number % 251).expect("small"));
}

/// Takes until there is nothing; checks that frames are whole and in order.
fn drain(reader: &mut Reader, inbox: &Inbox, next: &mut u64) {
    let (mut buffer, mut wanted) = (vec![0; 70_000], vec![]);
    loop {
        match reader.take(inbox, &mut buffer) {
            Taken::Frame { start, length, .. } => {
                frame(*next, &mut wanted);
                assert!(buffer[start..start + length] == wanted, "frame {next}");
                *next += 1;
            }
            Taken::Empty => return,
            other => panic!("{other:?}"),
        }
    }
}

/// Drains, and sleeps whenever there is nothing, until `stop`.
fn read_until(
    reader: &mut Reader,
    inbox: &Inbox,
    watch: &Watch,
    next: &mut u64,
    mut stop: impl FnMut(u64) -> bool,
) {
    loop {
        drain(reader, inbox, next);
        if stop(*next) {
            return;
        }
        inbox.fall_asleep();
        if !reader.has_more() {
            assert!(watch.wait(Some(LONG), |_| ()).expect("a sleep"), "nobody woke us");
        }
        inbox.wake_up();
    }
}

fn outgoing(writer: Writer, inbox: &OwnedFd, bell: OwnedFd) -> Outgoing {
    use std::os::fd::AsFd;
    let peer = Arc::new(PeerInbox::open(inbox.as_fd()).expect("an inbox"));
    writer.connect(peer, 1, Bell::from_fd(bell)).expect("an edge")
}

/// Sends for ever.
#[test]
#[ignore = "helper: started by other tests"]
fn child_writer() {
    let mut fds = given();
    let (bell, inbox) = (fds.pop().expect("a bell"), fds.pop().expect("an inbox"));
    let writer = Writer::create(ring::LEAST_ARENA, 1).expect("a ring");
    println!("\nring {}", writer.fd().as_raw_fd());
    let mut out = outgoing(writer, &inbox, bell);
    let mut whole = vec![];
    for number in 0.. {
        frame(number, &mut whole);
        assert_eq!(out.queue_wait(0, &whole, LONG), Pushed::Done);
        if number % 3 != 0 {
            out.flush();
        }
    }
}

#[test]
fn a_writer_that_is_killed_leaves_whole_frames() {
    for round in 1..=8_u64 {
        let (inbox, bell) = (Inbox::create().expect("an inbox"), Bell::create().expect("a bell"));
        let fds = [inherited(inbox.fd()), inherited(bell.fd())];
        let mut child = child(&child_writer, &fds);
        let out = child.stdout.take().expect("its output");
        let line = BufReader::new(out).lines().map_while(Result::ok);
        let ring = line.filter_map(|line| line.strip_prefix("ring ").map(str::to_owned)).next();
        let path = format!("/proc/{}/fd/{}", child.id(), ring.expect("its ring"));
        let ring = std::fs::File::open(path).expect("its memory");
        let mut reader = Reader::open(std::os::fd::AsFd::as_fd(&ring), 1, &inbox).expect("a ring");
        let watch = Watch::create().expect("an epoll");
        watch.add_bell(&bell, 1).expect("watched");
        let mut next = 0;
        read_until(&mut reader, &inbox, &watch, &mut next, |next| next > round * 1000);
        child.kill().expect("killed");
        child.wait().expect("its end");
        // What it had published can be read to the end, and the end stays.
        drain(&mut reader, &inbox, &mut next);
        assert!(!reader.has_more());
        drain(&mut reader, &inbox, &mut next);
    }
}

/// Takes for ever.
#[test]
#[ignore = "helper: started by other tests"]
fn child_reader() {
    let mut fds = given();
    let bell = Bell::from_fd(fds.pop().expect("a bell"));
    let ring = fds.pop().expect("a ring");
    let inbox = Inbox::create().expect("an inbox");
    let watch = Watch::create().expect("an epoll");
    watch.add_bell(&bell, 1).expect("watched");
    let mut reader = Reader::open(std::os::fd::AsFd::as_fd(&ring), 1, &inbox).expect("a ring");
    println!("\ninbox {}", inbox.fd().as_raw_fd());
    read_until(&mut reader, &inbox, &watch, &mut 0, |_| false);
}

#[test]
fn a_reader_that_is_killed_costs_the_bound_once() {
    let bell = Bell::create().expect("a bell");
    let writer = Writer::create(ring::LEAST_ARENA, 1).expect("a ring");
    let fds = [inherited(writer.fd()), inherited(bell.fd())];
    let mut child = child(&child_reader, &fds);
    let output = child.stdout.take().expect("its output");
    let line = BufReader::new(output).lines().map_while(Result::ok);
    let inbox = line.filter_map(|line| line.strip_prefix("inbox ").map(str::to_owned)).next();
    let path = format!("/proc/{}/fd/{}", child.id(), inbox.expect("its inbox"));
    let inbox = std::fs::File::open(path).expect("its memory");
    let mut out = outgoing(writer, &OwnedFd::from(inbox), inherited(bell.fd()));
    let mut whole = vec![];
    for number in 0..20_000 {
        frame(number, &mut whole);
        assert_eq!(out.queue_wait(0, &whole, LONG), Pushed::Done);
        out.flush();
    }
    child.kill().expect("killed");
    child.wait().expect("its end");
    let mut last = Pushed::Done;
    for number in 20_000..30_000 {
        frame(number, &mut whole);
        last = out.queue_wait(0, &whole, Duration::from_millis(50));
        if last == Pushed::Full {
            break;
        }
    }
    assert_eq!(last, Pushed::Full);
    for _ in 0..1000 {
        assert_eq!(out.queue_wait(0, &whole, LONG), Pushed::Full, "at once");
    }
}
