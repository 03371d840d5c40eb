//! Controllers that flood, never read, or speak nonsense cost their own slice alone.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use netloom_openflow::multipart::{MultipartRequest, Request};
use netloom_openflow::{Hello, Message, Version, encode};

use super::world::{BOUND, Slicer, Switch, two};

const V13: Version = Version::V13;

fn bytes(message: &Message) -> Vec<u8> {
    encode(V13, 7, message).expect("a message")
}

/// Sends the same bytes for ever, and says how many times it did; what comes back is read if `reads`.
struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    socket: UnixStream,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Flood {
    fn start(slicer: &Slicer, slice: &str, message: &Message, reads: bool) -> Flood {
        let path = slicer.folder.path().join(format!("{slice}.s"));
        let socket = super::world::wait("a socket", || UnixStream::connect(&path).ok());
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut writer = socket.try_clone().expect("a descriptor");
        writer.write_all(&bytes(&Message::Hello(Hello::offering(&[V13])))).expect("hello");
        let (ended, count, many) =
            (Arc::clone(&stop), Arc::clone(&sent), bytes(message).repeat(16));
        let mut threads = vec![std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) && writer.write_all(&many).is_ok() {
                count.fetch_add(16, Ordering::Relaxed);
            }
        })];
        if reads {
            let mut reader = socket.try_clone().expect("a descriptor");
            threads.push(std::thread::spawn(move || {
                drop(std::io::copy(&mut reader, &mut std::io::sink()));
            }));
        }
        Flood { stop, sent, socket, threads }
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Another slice is answered, so many times in turn.
fn is_served(slicer: &Slicer, times: usize) {
    let mut blue = slicer.peer("blue");
    let begun = Instant::now();
    for _ in 0..times {
        blue.barrier();
    }
    blue.add("in_port=1,actions=output:2").expect("within blue");
    assert!(begun.elapsed() < BOUND);
}

#[test]
fn a_flood_delays_its_own_slice_alone() {
    let slicer = Slicer::start(&two(""));
    let switch = Switch::start(slicer.openflow());
    slicer.ready();
    let flood = Flood::start(&slicer, "red", &Message::EchoRequest(vec![0; 64]), true);
    super::world::wait("red floods", || (flood.sent() > 10_000).then_some(()));
    is_served(&slicer, 50);
    assert_eq!(switch.entries(), 1);
    let shown = slicer.show();
    let [red, blue] = ["red", "blue"]
        .map(|name| shown.slices.iter().find(|slice| slice.name == name).expect("a slice").clone());
    assert!(red.messages > 10_000 && blue.messages >= 51, "{red:?} {blue:?}");
}

#[test]
fn a_quota_of_messages_makes_the_rest_wait() {
    let slicer = Slicer::start(&two(", messages: 100/s"));
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    let begun = Instant::now();
    let flood = Flood::start(&slicer, "red", &Message::EchoRequest(vec![0; 64]), true);
    is_served(&slicer, 50);
    super::world::wait("some have passed", || (slicer.slice("red").messages > 150).then_some(()));
    let (red, passed) = (slicer.slice("red"), begun.elapsed());
    // The rate, what was saved, and the hello.
    let most = 100.0 * passed.as_secs_f64() + 30.0;
    #[expect(clippy::cast_precision_loss, reason = "few")]
    let read = red.messages as f64;
    assert!(read <= most, "{read} in {passed:?}");
    assert!(red.held > 0 && flood.sent() > red.messages, "what is sent waits in the connection");
}

#[test]
fn a_share_of_the_processor_is_kept() {
    let slicer = Slicer::start(&two(", cpu: 5%"));
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    let begun = Instant::now();
    let flood = Flood::start(&slicer, "red", &Message::EchoRequest(vec![0; 64]), true);
    super::world::wait("red was held", || (slicer.slice("red").held > 20).then_some(()));
    is_served(&slicer, 10);
    let (red, passed) = (slicer.slice("red"), begun.elapsed());
    let most = passed.mul_f64(0.05) + Duration::from_millis(50);
    assert!(Duration::from_micros(red.cpu_us) <= most, "{red:?} in {passed:?}");
    assert!(flood.sent() > 0);
}

#[test]
fn one_that_never_reads_is_closed_and_others_are_served() {
    let slicer = Slicer::with(&two(""), |application| application.probe = 1);
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    let body = Request::PortDesc;
    let ask = Message::MultipartRequest(MultipartRequest { flags: 0, body });
    let flood = Flood::start(&slicer, "red", &ask, false);
    is_served(&slicer, 50);
    super::world::wait("the one that does not read is closed", || {
        (slicer.show().dropped > 0).then_some(())
    });
    is_served(&slicer, 10);
    assert!(flood.sent() > 0);
    // Its slice serves who reads.
    slicer.peer("red").barrier();
}

#[test]
fn nonsense_costs_its_own_connection() {
    let slicer = Slicer::start(&two(""));
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    let hello = bytes(&Message::Hello(Hello::offering(&[V13])));
    let path = slicer.folder.path().join("red.s");
    super::world::wait("a socket", || path.exists().then_some(()));
    for wrong in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[4, 0, 0, 3, 0, 0, 0, 1],
        &[1, 0, 0, 8, 0, 0, 0, 1],
        &[&hello[..], &[4, 0, 0, 7, 0, 0, 0, 1]].concat(),
    ] {
        let mut socket = UnixStream::connect(&path).expect("connect");
        socket.write_all(wrong).expect("sent");
        let _ = socket.shutdown(std::net::Shutdown::Write);
        socket.set_read_timeout(Some(BOUND)).expect("a time limit");
        let ended = std::io::copy(&mut socket, &mut std::io::sink());
        assert!(ended.is_ok(), "{wrong:?}: {ended:?}");
    }
    // What cannot be read is answered, and the connection goes on.
    let mut red = slicer.peer("red");
    red.socket.write_all(&[4, 14, 0, 12, 0, 0, 0, 9, 1, 2, 3, 4]).expect("sent");
    assert!(matches!(red.answer(9), Message::Error(_)));
    red.barrier();
    // Whoever is no switch is no switch.
    let mut socket = UnixStream::connect(slicer.openflow()).expect("connect");
    socket.write_all(b"nonsense that is long enough").expect("sent");
    let _ = socket.shutdown(std::net::Shutdown::Write);
    drop(std::io::copy(&mut socket, &mut std::io::sink()));
    is_served(&slicer, 5);
}
