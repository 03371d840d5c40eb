//! A switch in a process of its own, and ports made by hand: for tests that look at what a switch
//! says, or say to it what no port should.

#![allow(dead_code, unreachable_pub, reason = "each user uses a part")]

pub mod classic;
mod station;

use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use netloom_shm::inbox::{Inbox, PeerInbox};
use netloom_shm::layout::{self, HEADER};
use netloom_shm::protocol::{
    Capabilities, Channel, EdgeName, Edges, Incoming, Join, Joined, Message, Posted, Reason, Token,
    VERSION,
};
use netloom_shm::ring::{Outgoing, Pushed, Reader, Taken, Writer};
use netloom_shm::wake::Bell;
use netloom_shm::{JoinOptions, MOST_FRAME, Received, Sent, SwitchPort};
use netloom_switch::control::Connection;

#[allow(unused_imports, reason = "as above")]
pub use station::Station;

/// Longest that anything is waited for.
pub const BOUND: Duration = Duration::from_secs(20);

/// A child that is killed, if need be, when this goes.
pub struct Process(pub Child);

impl Process {
    /// Starts a station and waits until it says that it is ready.
    pub fn start(arguments: &[&str], uid: Option<u32>) -> Process {
        let mut command = super::process::command(arguments);
        command.stdout(Stdio::piped()).stdin(Stdio::piped());
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        // libtest has more threads than the one that serves: none may take the signals of a switch.
        let start = move || {
            netloom_sys::process::block_signals();
            command.spawn().expect("start a station")
        };
        let mut process = Process(std::thread::spawn(start).join().expect("a started station"));
        // What libtest says comes first.
        let ready = std::iter::from_fn(|| process.next()).any(|line| line.trim_end() == "ready");
        assert!(ready, "{arguments:?}");
        process
    }

    /// The next line it writes; empty at its end.
    pub fn line(&mut self) -> String {
        self.next().unwrap_or_default().trim_end().to_owned()
    }

    fn next(&mut self) -> Option<String> {
        let mut line = String::new();
        let output = self.0.stdout.as_mut().expect("its output");
        // One byte at a time: what is behind the line is for the next call.
        BufReader::with_capacity(1, output).read_line(&mut line).expect("read");
        (!line.is_empty()).then_some(line)
    }

    pub fn kill(&mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("wait");
    }

    /// CPU time used, in nanoseconds.
    pub fn cpu(&self) -> u64 {
        let pid = i32::try_from(self.0.id()).expect("a pid");
        netloom_sys::process::cpu_time(pid).expect("it runs")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A switch with a folder of its own.
pub struct Switch {
    /// Ended before its folder goes, since it may write there until then.
    pub process: Process,
    pub folder: tempfile::TempDir,
    mode: &'static str,
}

impl Switch {
    pub fn start() -> Switch {
        Switch::with_mode("600")
    }

    pub fn with_mode(mode: &'static str) -> Switch {
        Switch::inside(&std::env::temp_dir(), mode)
    }

    /// One that other users can reach, too.
    #[allow(dead_code, reason = "as above")]
    pub fn reachable(mode: &'static str) -> Switch {
        Switch::inside(Path::new("/tmp"), mode)
    }

    fn inside(outer: &Path, mode: &'static str) -> Switch {
        let folder = tempfile::tempdir_in(outer).expect("a folder");
        let process = run(folder.path(), mode);
        Switch { process, folder, mode }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// After it was killed.
    pub fn start_again(&mut self) {
        self.process = run(self.folder.path(), self.mode);
    }

    pub fn ask(&self) -> Connection {
        Connection::open(&self.path()).expect("connect").expect("a switch")
    }
}

fn run(folder: &Path, mode: &str) -> Process {
    let name = |name: &str| folder.join(name).to_str().expect("a name").to_owned();
    Process::start(&["serve", &name("socket"), &name("state"), mode], None)
}

/// A valid join message, to be changed into a wrong one.
pub struct Ticket {
    pub version: u16,
    pub number: u8,
    pub name: String,
    pub token: Token,
    pub edges: Vec<EdgeName>,
}

impl Ticket {
    pub fn new(name: &str) -> Ticket {
        Ticket { version: VERSION, number: 0, name: name.into(), token: [0; 16], edges: vec![] }
    }

    pub fn join<'a>(&'a self) -> Message<'a> {
        Message::Join(Join {
            version: self.version,
            number: self.number,
            capabilities: Capabilities { super_frames: true, checksums: true },
            token: self.token,
            name: &self.name,
            edges: Edges::Given(&self.edges),
        })
    }
}

/// A port made by hand.
pub struct Raw {
    pub channel: Channel,
    pub inbox: Inbox,
    pub joined: Joined,
    pub up: Outgoing,
    pub down: Reader,
    /// The switch's ring to it and its bell, held as a port does.
    bell: Bell,
}

pub fn connect(path: &Path) -> Channel {
    Channel::connect(path, BOUND).expect("connect")
}

/// Sends, and panics if it is not taken.
pub fn tell(channel: &mut Channel, message: &Message<'_>, with: &[BorrowedFd<'_>]) {
    let posted = channel.send_wait(message, with, BOUND).expect("send");
    assert_eq!(posted, Posted::Done, "{message:?}");
}

impl Raw {
    pub fn join(path: &Path, name: &str) -> Raw {
        Raw::with(path, &Ticket::new(name), Inbox::create().expect("inbox")).expect("join")
    }

    pub fn with(path: &Path, ticket: &Ticket, inbox: Inbox) -> Result<Raw, (Reason, String)> {
        let mut channel = connect(path);
        let uplink = Writer::create(256 * 1024, 1).expect("uplink");
        tell(&mut channel, &ticket.join(), &[inbox.fd(), uplink.fd()]);
        channel.wait(BOUND).expect("wait");
        let (joined, fds) = match channel.receive().expect("receive") {
            Incoming::Message { message: Message::Joined(joined), descriptors } => {
                (joined, descriptors)
            }
            Incoming::Message { message: Message::Refused(refused), .. } => {
                return Err((refused.reason, refused.text.to_owned()));
            }
            other => panic!("{other:?}"),
        };
        let [_page, theirs, ring, up, down] = <[_; 5]>::try_from(fds).expect("five descriptors");
        let theirs = Arc::new(PeerInbox::open(theirs.as_fd()).expect("the switch's inbox"));
        let up = uplink.connect(theirs, joined.number.into(), Bell::from_fd(up)).expect("uplink");
        let down_ring = Reader::open(ring.as_fd(), 0, &inbox).expect("downlink");
        Ok(Raw { channel, inbox, joined, up, down: down_ring, bell: Bell::from_fd(down) })
    }

    /// Sends a frame up.
    pub fn send(&mut self, frame: &[u8]) {
        let whole = [&[0; HEADER], frame].concat();
        assert_eq!(self.up.queue_wait(0, &whole, BOUND), Pushed::Done);
        self.up.flush();
    }

    /// The next frame from the switch, with its origin; none if nothing comes within the time.
    pub fn receive(&mut self, patience: Duration) -> Option<(u16, Vec<u8>)> {
        let until = std::time::Instant::now() + patience;
        let mut buffer = vec![0; 70_000];
        loop {
            match self.down.take(&self.inbox, &mut buffer) {
                Taken::Frame { start, length, origin } => {
                    return Some((origin, buffer[start + HEADER..start + length].to_vec()));
                }
                Taken::Empty if std::time::Instant::now() < until => {
                    self.inbox.fall_asleep();
                    if !self.down.has_more() {
                        let left = until.saturating_duration_since(std::time::Instant::now());
                        netloom_sys::process::wait_readable(self.bell.fd(), left);
                        self.bell.silence();
                    }
                    self.inbox.wake_up();
                }
                Taken::Empty => return None,
                other => panic!("{other:?}"),
            }
        }
    }

    /// Reads until this frame comes from the switch.
    pub fn down_until(&mut self, frame: &[u8]) {
        while self.receive(BOUND).expect("a frame").1 != frame {}
    }

    /// The next message of the switch as text; none at its end.
    pub fn message(&mut self) -> Option<String> {
        assert!(self.channel.wait(BOUND).expect("wait"), "no message came");
        match self.channel.receive().expect("receive") {
            Incoming::Message { message, .. } => Some(format!("{message:?}")),
            Incoming::Closed => None,
            Incoming::Nothing => panic!("nothing"),
        }
    }
}

/// A frame of 60 bytes.
pub fn frame(to: [u8; 6], from: [u8; 6], payload: &[u8]) -> Vec<u8> {
    let mut frame = [&to[..], &from, &[0x88, 0xb5], payload].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// The address of a station.
pub fn mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, number]
}

/// To all.
pub const ALL: [u8; 6] = [0xff; 6];

/// A ring that says `head` and begins with `slots`, of 256 KiB: what only a forger makes.
pub fn forged_ring(head: u64, slots: &[u8]) -> OwnedFd {
    use rustix::fs::{MemfdFlags, SealFlags};
    let arena: u64 = 256 * 1024;
    let fd = rustix::fs::memfd_create("forged", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .expect("memory");
    rustix::fs::ftruncate(&fd, layout::ring::ARENA_AT as u64 + arena).expect("size");
    let write = |at: usize, bytes: &[u8]| {
        rustix::io::pwrite(&fd, bytes, at as u64).expect("write");
    };
    write(layout::MAGIC_AT, &layout::ring::MAGIC.to_ne_bytes());
    write(layout::VERSION_AT, &layout::VERSION.to_ne_bytes());
    write(layout::LENGTH_AT, &arena.to_ne_bytes());
    write(layout::ring::GENERATION_AT, &1u32.to_ne_bytes());
    write(layout::ring::HEAD_AT, &head.to_ne_bytes());
    write(layout::ring::ARENA_AT, slots);
    let seals = SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&fd, seals).expect("seal");
    fd
}

/// A port of the library.
pub fn join(switch: &Switch, name: &str) -> SwitchPort {
    SwitchPort::join(&JoinOptions::new(switch.path(), name)).expect("join")
}

/// A frame with its header.
pub fn whole(frame: &[u8]) -> Vec<u8> {
    [&[0; HEADER], frame].concat()
}

pub fn send(port: &mut SwitchPort, frame: &[u8]) {
    assert_eq!(port.send(&whole(frame)).expect("send"), Sent::Done);
}

/// The next frame; none if nothing comes within the time.
pub fn try_next(port: &mut SwitchPort, patience: Duration) -> Option<Vec<u8>> {
    let mut buffer = vec![0; MOST_FRAME];
    match port.receive_wait(&mut buffer, Some(patience)).expect("receive") {
        Received::Frame { start, length } => Some(buffer[start + HEADER..start + length].to_vec()),
        Received::Empty => None,
        other => panic!("{other:?}"),
    }
}

/// The next frame.
pub fn next(port: &mut SwitchPort) -> Vec<u8> {
    try_next(port, BOUND).expect("a frame")
}

/// Reads until this frame comes.
pub fn until(port: &mut SwitchPort, frame: &[u8]) {
    while next(port) != frame {}
}

/// A frame with a number and a pattern that shows when a part of it is another's.
pub fn numbered(to: [u8; 6], from: [u8; 6], number: u64) -> Vec<u8> {
    let length = 8 + usize::try_from(number * 7919 % 9000).expect("small");
    let mut payload = number.to_le_bytes().to_vec();
    payload.resize(length, number.to_le_bytes()[0] ^ 0x5a);
    frame(to, from, &payload)
}

/// The number of such a frame, if it is whole.
pub fn number_of(frame: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(frame.get(14..22)?.try_into().ok()?);
    let (to, from) = (frame.get(..6)?.try_into().ok()?, frame.get(6..12)?.try_into().ok()?);
    (frame == numbered(to, from, number)).then_some(number)
}
