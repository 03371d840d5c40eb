//! Two nodes joined by pumps and a member in memory: namespaces, interfaces, TCP streams.
//!
//! Namespaces live by their descriptors. The memory between two pumps looks at every frame if told to.

#![allow(dead_code, unreachable_pub, reason = "each user uses a part")]

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netloom_digest::splitmix::SplitMix64;
use netloom_netlink::{Address, Batch, Change, EndSpec, Neighbour, Socket, VethSpec};
use netloom_packet::{Segmenter, VnetHeader, checksum, headers};
use netloom_plug::{End, Given, Member, Pump, Reading, Taken};
use netloom_port::{HEADER, Port, RingOptions, RingPort, Tap, TapOptions};
use netloom_sys::namespace;
use rustix::event::{EventfdFlags, eventfd};

/// Addresses of the two nodes.
pub const ADDRESS: [&str; 2] = ["10.9.0.1", "10.9.0.2"];

/// A network namespace.
#[derive(Debug)]
pub struct Net(OwnedFd);

impl Net {
    pub fn new() -> Net {
        let made = std::thread::spawn(|| {
            namespace::new_network()?;
            namespace::current_network()
        });
        Net(made.join().expect("thread").expect("network namespace"))
    }

    /// Runs `f` on a thread in it.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            namespace::enter_network(&self.0).expect("enter the namespace");
            f()
        };
        std::thread::scope(|s| s.spawn(inside).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// What went through a memory, as its frames were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub frames: u64,
    pub longest: usize,
    /// TCP packets with data, super-frames cut.
    pub segments: u64,
    /// Those among them whose checksum is wrong.
    pub wrong: u64,
}

/// Frames, in their order.
#[derive(Default)]
struct Queue {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    /// Whether the reader has found nothing and wants to be told.
    asleep: bool,
}

/// Frames on their way in one direction.
struct Pipe {
    queue: Mutex<Queue>,
    room: usize,
    bell: OwnedFd,
    seen: Option<Mutex<Seen>>,
}

impl Pipe {
    fn new(room: usize, look: bool) -> Arc<Pipe> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("eventfd");
        let seen = look.then(Mutex::default);
        Arc::new(Pipe { queue: Mutex::default(), room, bell, seen })
    }

    fn ring(&self) {
        rustix::io::write(&self.bell, &1_u64.to_ne_bytes()).expect("ring");
    }
}

/// One end of a pair of pipes.
pub struct Memory {
    input: Arc<Pipe>,
    output: Arc<Pipe>,
    lost: Arc<AtomicU64>,
}

impl Memory {
    /// Two ends, each with room for this many bytes; whether it looks at frames.
    pub fn pair(room: usize, look: bool) -> [Memory; 2] {
        let (a, b) = (Pipe::new(room, look), Pipe::new(room, look));
        let end = |input: &Arc<Pipe>, output: &Arc<Pipe>| Memory {
            input: input.clone(),
            output: output.clone(),
            lost: Arc::default(),
        };
        [end(&a, &b), end(&b, &a)]
    }

    /// Where what this end has sent is told of.
    pub fn watch(&self) -> impl Fn() -> Seen + use<> {
        let output = self.output.clone();
        move || *output.seen.as_ref().expect("looks").lock().expect("no panic")
    }

    /// What it was told of frames lost at the interface.
    pub fn lost(&self) -> Arc<AtomicU64> {
        self.lost.clone()
    }

    /// The next frame without its header.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; netloom_port::MOST_FRAME];
        match self.receive(&mut buffer).expect("receive") {
            Taken::Frame { start, length } => Some(buffer[start + HEADER..start + length].to_vec()),
            _ => None,
        }
    }

    /// Gives a frame without a header.
    pub fn give(&mut self, frame: &[u8]) {
        let given = self.queue(&[&[0; HEADER][..], frame].concat()).expect("queue");
        assert_eq!(given, Given::Done);
        self.flush();
    }
}

impl Member for Memory {
    fn receive(&mut self, buffer: &mut [u8]) -> netloom_plug::Result<Taken> {
        let mut queue = self.input.queue.lock().expect("no panic");
        let Some(frame) = queue.frames.pop_front() else {
            if !queue.asleep {
                queue.asleep = true;
                let _ = rustix::io::read(&self.input.bell, &mut [0; 8]);
            }
            return Ok(Taken::Empty);
        };
        queue.bytes -= frame.len();
        drop(queue);
        buffer[..frame.len()].copy_from_slice(&frame);
        let length = frame.len();
        self.input.queue.lock().expect("no panic").spare.push(frame);
        Ok(Taken::Frame { start: 0, length })
    }

    fn queue(&mut self, frame: &[u8]) -> netloom_plug::Result<Given> {
        let mut queue = self.output.queue.lock().expect("no panic");
        if queue.bytes + frame.len() > self.output.room {
            return Ok(Given::Full);
        }
        let mut kept = queue.spare.pop().unwrap_or_default();
        drop(queue);
        kept.clear();
        kept.extend_from_slice(frame);
        let mut queue = self.output.queue.lock().expect("no panic");
        queue.bytes += kept.len();
        queue.frames.push_back(kept);
        let wake = std::mem::take(&mut queue.asleep);
        drop(queue);
        if let Some(seen) = &self.output.seen {
            look(frame, &mut seen.lock().expect("no panic"));
        }
        if wake {
            self.output.ring();
        }
        Ok(Given::Done)
    }

    fn flush(&mut self) {}

    fn note_lost(&mut self, frames: u64) {
        self.lost.fetch_add(frames, Ordering::Relaxed);
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.input.bell.as_fd()
    }
}

/// Cuts a frame, finishes the checksums of its packets, and looks whether they are right.
fn look(frame: &[u8], seen: &mut Seen) {
    let (header, body) = frame.split_at(HEADER);
    seen.frames += 1;
    seen.longest = seen.longest.max(body.len());
    let header = VnetHeader::parse(header).expect("a header");
    let cut = Segmenter::new().segment(&header, body, &mut |header, packet| {
        let mut packet = packet.to_vec();
        let finished = checksum::finish(header, &mut packet).is_ok();
        let Ok(parsed) = headers::Headers::parse(&packet) else { return };
        let Some(ip) = parsed.ip.filter(|ip| ip.protocol == headers::TCP) else { return };
        let data = ip.transport + usize::from(packet[ip.transport + 12] >> 4) * 4;
        if data < ip.end {
            seen.segments += 1;
            seen.wrong += u64::from(!finished || !checksum::verifies(&packet, parsed.network, &ip));
        }
    });
    assert!(cut.is_ok(), "{header:?}");
}

/// A pump in a thread of its own.
pub struct Running {
    pub reading: Reading,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<(End, Box<dyn Member>)>>,
}

impl Running {
    pub fn start(port: Box<dyn Port>, member: Box<dyn Member>) -> Running {
        Running::run(Pump::new(port, member))
    }

    /// One that merges what comes from its port.
    pub fn merging(port: Box<dyn Port>, member: Box<dyn Member>) -> Running {
        Running::run(Pump::new(port, member).merging())
    }

    fn run(mut pump: Pump) -> Running {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("eventfd");
        let stop = Arc::new(stop);
        let reading = pump.reading();
        let until = stop.clone();
        let carry = move || {
            let end = pump.run(until.as_fd(), &mut || true).expect("carry");
            (end, pump.into_member())
        };
        let thread = std::thread::Builder::new().name("pump".into()).spawn(carry).expect("thread");
        Running { reading, stop, thread: Some(thread) }
    }

    /// Waits for its end, which somebody else brings about.
    pub fn ended(mut self) -> (End, Box<dyn Member>) {
        self.thread.take().expect("a thread").join().expect("no panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            rustix::io::write(&*self.stop, &1_u64.to_ne_bytes()).expect("stop");
            let (end, _) = thread.join().expect("no panic");
            assert_eq!(end, End::Stopped);
        }
    }
}

/// A node, and the namespace in which the other end of its interface is, with index 100.
pub struct Site {
    pub node: Net,
    pub core: Net,
}

impl Site {
    /// Number 0 or 1.
    pub fn new(number: usize) -> Site {
        let site = Site { node: Net::new(), core: Net::new() };
        site.connect(number);
        site
    }

    /// Makes the interface.
    pub fn connect(&self, number: usize) {
        self.core.run(|| {
            quiet();
            let a = EndSpec { index: Some(100), ..EndSpec::new("p0") };
            let inner = Some(self.node.0.as_fd());
            let b = EndSpec { netns: inner, index: Some(10), ..EndSpec::new("eth0") };
            change("veth", &VethSpec { a_up: true, ..VethSpec::new(a, b) });
        });
        self.node.run(|| raise(number));
        self.core.run(|| netloom_kit::wait_for_carrier(100));
    }

    /// A port at the other end.
    pub fn port(&self, options: RingOptions) -> RingPort {
        self.core.run(|| RingPort::open(100, options).expect("a port"))
    }
}

/// Two nodes joined by a veth.
pub fn direct() -> [Net; 2] {
    let nodes = [Net::new(), Net::new()];
    nodes[0].run(|| {
        quiet();
        let a = EndSpec { index: Some(10), ..EndSpec::new("eth0") };
        let b = EndSpec { netns: Some(nodes[1].0.as_fd()), ..a };
        change("veth", &VethSpec::new(a, b));
    });
    for (number, node) in nodes.iter().enumerate() {
        node.run(|| raise(number));
    }
    nodes[0].run(|| netloom_kit::wait_for_carrier(10));
    nodes
}

/// A node whose interface is a tap.
pub fn tap_node(number: usize) -> (Net, Tap) {
    let node = Net::new();
    let tap = node.run(|| {
        quiet();
        let options = TapOptions { index: Some(10), ..TapOptions::default() };
        let tap = Tap::create("eth0", options).expect("tap");
        raise(number);
        tap
    });
    (node, tap)
}

fn quiet() {
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
}

pub fn change(object: &str, request: &impl netloom_netlink::Request) {
    let mut batch = Batch::new();
    batch.push(object, request);
    Socket::open().expect("netlink").run(&mut batch).expect(object);
}

/// Gives the interface with index 10 its address and a name for the other node's.
fn raise(node: usize) {
    let off = std::fs::write("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "1");
    assert!(off.is_ok() || !Path::new("/proc/sys/net/ipv6").exists(), "{off:?}");
    let number = u8::try_from(node).expect("small");
    change("eth0", &Change::of(10).mac([2, 0, 0, 0, 0, number + 1]));
    change("eth0", &Change::of(10).up());
    change("eth0", &Address::new(10, format!("{}/24", ADDRESS[node]).parse().expect("address")));
    let address = ADDRESS[1 - node].parse().expect("address");
    change("eth0", &Neighbour { link: 10, address, mac: [2, 0, 0, 0, 0, 2 - number] });
}

/// Sends `bytes` from one node to the other (`to`), looks whether they are what was sent, and gives Gb/s.
pub fn stream(nodes: [&Net; 2], to: usize, bytes: usize) -> f64 {
    // Of a length that no number of segments divides, so that every byte has its place.
    let block = &SplitMix64::new(1).bytes((1 << 20) - 13);
    let listener = nodes[to].run(|| TcpListener::bind((ADDRESS[to], 0)).expect("listen"));
    let place = listener.local_addr().expect("address");
    let start = Instant::now();
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut socket = nodes[1 - to].run(|| TcpStream::connect(place).expect("connect"));
            socket.set_write_timeout(Some(Duration::from_secs(30))).expect("timeout");
            let mut left = bytes;
            while left > 0 {
                let part = left.min(block.len());
                socket.write_all(&block[..part]).expect("send");
                left -= part;
            }
        });
        let (mut socket, _) = listener.accept().expect("accept");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout");
        let mut buffer = vec![0; 1 << 18];
        let mut got = 0;
        loop {
            let place = got % block.len();
            let most = buffer.len().min(block.len() - place);
            let count = socket.read(&mut buffer[..most]).expect("receive");
            if count == 0 {
                break;
            }
            assert!(buffer[..count] == block[place..place + count], "damaged behind byte {got}");
            got += count;
        }
        assert_eq!(got, bytes);
    });
    bytes as f64 * 8.0 / start.elapsed().as_secs_f64() / 1e9
}

/// TCP segments that a node has dropped for a wrong checksum, and those it has sent again.
pub fn tcp_counts(node: &Net) -> (u64, u64) {
    let text = node.run(|| std::fs::read_to_string("/proc/thread-self/net/snmp").expect("snmp"));
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let names: Vec<&str> = lines.next().expect("names").split(' ').collect();
    let values: Vec<&str> = lines.next().expect("values").split(' ').collect();
    let value = |name: &str| {
        let place = names.iter().position(|n| *n == name).expect("a name");
        values[place].parse().expect("a number")
    };
    (value("InCsumErrors"), value("RetransSegs"))
}
