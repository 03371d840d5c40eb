//! A hostile front end and its guest, driven by bytes: requests with descriptors, memory, and frames to carry meanwhile.
//! Used by tests and by the fuzz target `vhost`.
//!
//! Whatever the bytes say, each call ends, nothing beyond the shared memory is written, no descriptor stays open, and
//! the next front end is served.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use netloom_port::{HEADER, MOST_FRAME, Port, Received, Sent};
use netloom_sys::scm;
use netloom_vhost::front::{BASE, Machine, Setup};
use netloom_vhost::{Options, VhostPort};
use rustix::event::{EventfdFlags, eventfd};

const SIZE: u16 = 16;
const BUFFER: usize = 512;
/// Bytes at the memory's end that are in the last shared page, but not shared.
const KEPT: u64 = 256;
const MARK: [u8; KEPT as usize] = [0x5a; KEPT as usize];
/// Steps of one script.
const MOST_STEPS: usize = 200;

const SET_FEATURES: u32 = 2;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_VRING_BASE: u32 = 10;
const SET_VRING_KICK: u32 = 12;
const SET_VRING_CALL: u32 = 13;
const SET_VRING_ENABLE: u32 = 18;
const ADD_MEM_REG: u32 = 37;
const REM_MEM_REG: u32 = 38;

/// A port and the other side of its socket.
struct Scene<'a> {
    port: VhostPort,
    path: &'a std::path::Path,
    stream: Option<UnixStream>,
    machine: Machine,
    event: OwnedFd,
    buffer: Vec<u8>,
}

/// The script's bytes; zero behind their end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    fn long(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    fn some(&mut self, most: u8) -> Vec<u8> {
        let count = self.byte().min(most);
        (0..count).map(|_| self.byte()).collect()
    }
}

/// Plays a script.
pub(crate) fn run(bytes: &[u8]) {
    let folder = FOLDER.with(|folder| folder.path().join("card"));
    let lowest = lowest();
    let mut scene = Scene::new(&folder);
    let mut script = Bytes(bytes);
    for _ in 0..MOST_STEPS {
        if script.0.is_empty() {
            break;
        }
        scene.step(&mut script);
    }
    scene.ends_well();
    drop(scene);
    assert_eq!(self::lowest(), lowest, "a descriptor stayed open");
}

thread_local! {
    static FOLDER: tempfile::TempDir = tempfile::tempdir().expect("a folder");
}

/// The lowest number that is free for a descriptor.
fn lowest() -> i32 {
    rustix::io::dup(rustix::stdio::stderr()).expect("a descriptor").as_raw_fd()
}

impl<'a> Scene<'a> {
    fn new(path: &'a std::path::Path) -> Scene<'a> {
        let machine = machine();
        let end = BASE + machine.region().memory_size;
        machine.write(end - KEPT, &MARK);
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let port = VhostPort::open(Options::new(path)).expect("a port");
        let event = eventfd(0, flags).expect("an eventfd");
        Scene { port, path, stream: None, machine, event, buffer: vec![0; MOST_FRAME] }
    }

    fn step(&mut self, script: &mut Bytes<'_>) {
        match script.byte() % 12 {
            0 => self.raw(script),
            1 => self.request(SET_FEATURES, &script.long().to_ne_bytes(), &[]),
            2 => self.share(script.byte(), script.long()),
            3 => self.set_up_queue(script.byte(), script.byte(), script.long()),
            4 => {
                // The table of descriptors and the rings of either queue lie at its area's beginning.
                let at =
                    BASE + u64::from(script.byte() & 1) * area() + u64::from(script.word() % 1024);
                self.machine.write(at, &script.some(64));
            }
            5 => {
                let (queue, at) = (usize::from(script.byte() & 1), script.word() % SIZE);
                let own = self.machine.buffer(queue, at);
                let address = own.wrapping_add(u64::from(script.byte()));
                let parts = (address, script.word().into(), script.byte().into(), script.word());
                self.machine.describe(queue, at, parts);
                self.machine.offer(queue, at);
            }
            6 => self.take(),
            7 => self.give(script),
            8 => {
                self.port.rest();
                self.take();
            }
            9 => self.come(script.long()),
            10 => {
                self.stream = None;
                self.serve();
            }
            _ => self.machine.claim(usize::from(script.byte() & 1), script.word()),
        }
    }

    /// Any request, with any descriptors.
    fn raw(&mut self, script: &mut Bytes<'_>) {
        let (request, flags, kinds) = (script.byte(), script.byte(), script.byte());
        let claimed = script.byte();
        let body = script.some(80);
        let length =
            if claimed == 0 { u32::try_from(body.len()).unwrap_or(0) } else { claimed.into() };
        let head = [u32::from(request), u32::from(flags), length].map(u32::to_ne_bytes);
        self.say(&[head.as_flattened(), &body].concat(), kinds);
    }

    /// A right request.
    fn request(&mut self, request: u32, body: &[u8], kinds: &[u8]) {
        let length = u32::try_from(body.len()).unwrap_or(0);
        let head = [request, 1, length].map(u32::to_ne_bytes);
        self.say(&[head.as_flattened(), body].concat(), kinds.first().copied().unwrap_or(0));
    }

    /// Writes to the port, with as many descriptors as the first bits say: of memory, or of events.
    fn say(&mut self, bytes: &[u8], kinds: u8) {
        if self.stream.is_none() {
            self.stream = UnixStream::connect(self.path).ok();
            self.serve();
        }
        let Some(stream) = &self.stream else { return };
        let memory = self.machine.memory();
        let fds: Vec<BorrowedFd<'_>> = (0..kinds & 3)
            .map(|at| if kinds >> (2 + at) & 1 == 0 { memory } else { self.event.as_fd() })
            .collect();
        let _ = stream.set_nonblocking(true);
        let _ = scm::send(stream, bytes, &fds);
        self.serve();
    }

    /// Lets the port do what it has to, and drops its answers.
    fn serve(&mut self) {
        for _ in 0..3 {
            self.port.rest();
            self.take();
        }
        if let Some(mut stream) = self.stream.as_ref() {
            let _ = stream.set_nonblocking(true);
            while stream.read(&mut [0; 512]).is_ok_and(|read| read > 0) {}
        }
    }

    /// Tells of the memory, one word of which may be another.
    fn share(&mut self, which: u8, other: u64) {
        let mut words = self.region();
        if let Some(word) = words.get_mut(usize::from(which & 7)) {
            *word = other;
        }
        let region = words.map(u64::to_ne_bytes);
        match which >> 3 & 3 {
            0 => self.request(ADD_MEM_REG, &[&[0; 8], region.as_flattened()].concat(), &[1]),
            1 => self.request(REM_MEM_REG, &[&[0; 8], region.as_flattened()].concat(), &[]),
            _ => self.request(SET_MEM_TABLE, &table(region.as_flattened()), &[1]),
        }
    }

    fn region(&self) -> [u64; 4] {
        let region = self.machine.region();
        [region.guest_phys_addr, region.memory_size - KEPT, region.userspace_addr, 0]
    }

    /// Sets a queue up, one word of which may be another.
    fn set_up_queue(&mut self, queue: u8, which: u8, other: u64) {
        let queue = u32::from(queue & 1);
        let at = self.machine.addresses(usize::from(queue == 1));
        let flags = u64::from(queue);
        let mut words = [flags, at.desc_table_addr, at.used_ring_addr, at.avail_ring_addr, 0];
        if let Some(word) = words.get_mut(usize::from(which & 7)) {
            *word = other;
        }
        let size = if which & 7 == 5 { other as u32 } else { SIZE.into() };
        self.pair(SET_VRING_NUM, queue, size);
        self.pair(SET_VRING_BASE, queue, if which & 7 == 6 { other as u32 } else { 0 });
        self.request(SET_VRING_ADDR, words.map(u64::to_ne_bytes).as_flattened(), &[]);
        let event = &[1 | 1 << 2][..];
        self.request(SET_VRING_CALL, &u64::from(queue).to_ne_bytes(), event);
        self.request(SET_VRING_KICK, &u64::from(queue).to_ne_bytes(), event);
        self.pair(SET_VRING_ENABLE, queue, u32::from(which >> 3 & 3 != 3));
    }

    fn pair(&mut self, request: u32, one: u32, two: u32) {
        self.request(request, [one, two].map(u32::to_ne_bytes).as_flattened(), &[]);
    }

    /// A front end comes that is right: features, memory, both queues.
    fn come(&mut self, features: u64) {
        self.request(SET_FEATURES, &features.to_ne_bytes(), &[]);
        self.share(0x1f, 0);
        self.set_up_queue(0, 7, 0);
        self.set_up_queue(1, 7, 0);
    }

    fn take(&mut self) {
        let taken = self.port.receive(&mut self.buffer).expect("no failure");
        if let Received::Frame { start, length } = taken {
            assert!(length >= HEADER && start + length <= self.buffer.len());
        }
    }

    fn give(&mut self, script: &mut Bytes<'_>) {
        let header = script.some(10);
        let mut frame = vec![0; HEADER];
        frame[..header.len()].copy_from_slice(&header);
        frame.extend(script.some(64));
        frame.resize(frame.len() + usize::from(script.word() & 0x3fff), 7);
        let _ = self.port.send(&frame).expect("no failure");
    }

    /// Nothing beyond was written, and the next front end's frames pass both ways.
    fn ends_well(&mut self) {
        let region = self.machine.region();
        let mut kept = [0; KEPT as usize];
        self.machine.read(BASE + region.memory_size - KEPT, &mut kept);
        assert!(kept == MARK, "memory beyond the shared was written");
        self.stream = None;
        // Requests that wait are answered one at a time.
        for _ in 0..MOST_STEPS {
            self.serve();
        }
        assert!(!self.port.is_connected(), "a front end that is gone holds the port");
        self.machine = machine();
        self.come(Setup::default().features);
        assert!(self.port.is_connected() && self.port.is_up(), "the next one was not served");
        let frame = [2; 60];
        self.machine.post(0, 0);
        assert_eq!(self.port.send(&[&[0; HEADER][..], &frame].concat()).ok(), Some(Sent::Done));
        assert!(self.machine.received(0).is_some_and(|(got, _)| got[12..] == frame));
        self.machine.transmit(1, 0, &[&[0; 12][..], &frame].concat());
        let taken = self.port.receive(&mut self.buffer).expect("no failure");
        let Received::Frame { start, length } = taken else { panic!("{taken:?}") };
        assert_eq!(self.buffer[start + HEADER..start + length], frame);
    }
}

fn machine() -> Machine {
    let setup = Setup { size: SIZE, buffer: BUFFER, ..Setup::default() };
    Machine::new(setup).expect("memory")
}

/// Bytes from one queue's area to the next.
fn area() -> u64 {
    (64 << 10) + u64::from(SIZE) * BUFFER as u64
}

/// The body that tells of one region.
fn table(region: &[u8]) -> Vec<u8> {
    let head = [1, 0_u32].map(u32::to_ne_bytes);
    [head.as_flattened(), region].concat()
}
