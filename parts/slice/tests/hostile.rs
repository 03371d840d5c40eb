//! Controllers that flood, never read, or speak nonsense cost their own slice alone.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::GroupCommand;
use netloom_openflow::multipart::{MultipartRequest, Request};
use netloom_openflow::{Action, Hello, Message, PacketOut, PortNumber, Version, encode, text};

use netloom_kit::worked_exactly;

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

/// Another slice is answered, this many times in turn.
fn is_served(slicer: &Slicer, times: usize) {
    let mut blue = slicer.peer("blue");
    let begun = Instant::now();
    for _ in 0..times {
        blue.barrier();
    }
    blue.add("in_port=1,actions=output:2").expect("within blue");
    assert!(begun.elapsed() < BOUND);
}

/// How long the slicer works, in the median and at most, during this many round trips of a barrier of another slice. It is
/// processor time, since the machine has other work.
fn round_trips(slicer: &Slicer, times: usize) -> (Duration, Duration) {
    let (mut blue, pid) = (slicer.peer("blue"), slicer.show().pid);
    let one = |_| {
        let before = worked_exactly(pid);
        blue.barrier();
        worked_exactly(pid).saturating_sub(before)
    };
    let mut all: Vec<Duration> = (0..times).map(one).collect();
    all.sort_unstable();
    (all[times / 2], all[times - 1])
}

fn flow(said: &str) -> Message {
    Message::FlowMod(text::flow(FlowCommand::Add, said, V13).expect("an entry"))
}

/// A frame of a VLAN.
pub fn tagged(vlan: u8) -> Vec<u8> {
    let mut data = vec![2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 1, 0x81, 0, 0, vlan, 0x88, 0xb5];
    data.resize(60, 0);
    data
}

fn packet_out(in_port: u32, to: u32) -> Message {
    let mut data = vec![2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 1, 0x88, 0xb5];
    data.resize(60, 0);
    let actions = vec![Action::output(PortNumber(to))];
    Message::PacketOut(PacketOut { buffer: u32::MAX, in_port: PortNumber(in_port), actions, data })
}

/// How long the slicer may work beside any flood before another's barrier is answered: some turns.
const MEDIAN: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(200);

#[test]
fn whatever_a_controller_floods_with_the_others_round_trips_stay_short() {
    let slicer = Slicer::start(&two(""));
    let switch = Switch::start(slicer.openflow());
    slicer.ready();
    let alone = round_trips(&slicer, 50);
    println!("alone: median {:?}, longest {:?}", alone.0, alone.1);
    let floods = [
        ("echo requests", Message::EchoRequest(vec![0; 64]), true),
        ("its own rule, again and again", flow("in_port=1,actions=output:2"), true),
        ("rules outside its slice", flow("in_port=1,actions=output:3"), true),
        ("rules outside, and it reads no error", flow("in_port=1,actions=output:3"), false),
        ("packets", packet_out(1, 2), true),
        ("packets from outside its slice", packet_out(3, 2), true),
        ("barriers", Message::BarrierRequest, true),
    ];
    let rounds = netloom_kit::rounds(1);
    for (what, message, reads) in (0..rounds).flat_map(|_| floods.clone()) {
        let flood = Flood::start(&slicer, "red", &message, reads);
        super::world::wait("red floods", || (flood.sent() > 2_000).then_some(()));
        let (median, longest) = round_trips(&slicer, 50);
        println!("beside {what}: median {median:?}, longest {longest:?}");
        assert!(median < MEDIAN && longest < LONGEST, "{what}: {median:?} {longest:?}");
    }
    netloom_kit::done("rounds of floods of one slice beside another", rounds);
    // Refused requests have left nothing behind.
    assert_eq!(switch.entries(), 1);
    assert!(slicer.of("red").refused > 2_000);
}

#[test]
fn what_is_outside_of_a_slice_has_the_error_that_fits() {
    let slicer = Slicer::start(&two(""));
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    let mut red = slicer.peer("red");
    let ask = |body| Message::MultipartRequest(MultipartRequest { flags: 0, body });
    let group = text::group(GroupCommand::Add, "group_id=1,type=all,bucket=actions=output:3");
    for (message, name) in [
        (flow("in_port=3,actions=drop"), "OFPBMC_BAD_VALUE"),
        (flow("actions=output:3"), "OFPBAC_BAD_OUT_PORT"),
        (flow("actions=group:9"), "OFPBAC_BAD_OUT_GROUP"),
        (flow("metadata=0xff00000000000000,actions=drop"), "OFPBMC_BAD_MASK"),
        (packet_out(3, 2), "OFPBRC_BAD_PORT"),
        (packet_out(1, 3), "OFPBAC_BAD_OUT_PORT"),
        (Message::GroupMod(group.expect("a group")), "OFPBAC_BAD_OUT_PORT"),
        (ask(Request::PortStats(PortNumber(3))), "OFPBRC_BAD_PORT"),
        (ask(Request::TableFeatures(vec![])), ""),
    ] {
        match red.ask(&message) {
            Message::Error(error) => {
                let reason = error.reason(V13).expect("a known reason");
                assert_eq!(reason.name(), name, "{message:?}");
            }
            other => assert!(name.is_empty(), "{message:?}: {other:?}"),
        }
    }
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
    // Its slice serves the client that reads.
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
    // A client that is not a switch is refused as one.
    let mut socket = UnixStream::connect(slicer.openflow()).expect("connect");
    socket.write_all(b"nonsense that is long enough").expect("sent");
    let _ = socket.shutdown(std::net::Shutdown::Write);
    drop(std::io::copy(&mut socket, &mut std::io::sink()));
    is_served(&slicer, 5);
}
