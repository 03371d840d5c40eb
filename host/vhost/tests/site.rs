//! A port with a machine at it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_port::{HEADER, MOST_FRAME, Port, Received, Sent};
use netloom_vhost::front::{Link, Machine, Setup};
use netloom_vhost::{Options, VhostPort};

pub const WAIT: Duration = Duration::from_secs(30);
/// The queues of the first pair.
pub const RX: usize = 0;
pub const TX: usize = 1;

pub struct Site {
    pub folder: tempfile::TempDir,
    pub port: VhostPort,
    pub machine: Machine,
    pub link: Option<Link>,
    pub buffer: Vec<u8>,
}

impl Site {
    pub fn new(setup: Setup) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let port = VhostPort::open(Options::new(folder.path().join("card"))).unwrap();
        let machine = Machine::new(setup).unwrap();
        let mut site = Site { folder, port, machine, link: None, buffer: vec![0; MOST_FRAME] };
        site.connect();
        site
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("card")
    }

    pub fn connect(&mut self) {
        let path = self.path();
        let machine = &self.machine;
        let link = serving(&mut self.port, || machine.connect(&path).unwrap());
        self.link = Some(link);
        assert!(self.port.is_up());
    }

    /// Drops the connection, and waits until the port has noticed.
    pub fn disconnect(&mut self) {
        self.link = None;
        serve_until(&mut self.port, |port| !port.is_connected());
    }

    /// The next frame from the guest, without its header, or why there is none.
    pub fn take(&mut self) -> Result<Vec<u8>, Received> {
        self.take_whole().map(|frame| frame[HEADER..].to_vec())
    }

    pub fn take_whole(&mut self) -> Result<Vec<u8>, Received> {
        if let Some(early) = EARLY.with_borrow_mut(VecDeque::pop_front) {
            return Ok(early);
        }
        match self.port.receive(&mut self.buffer).unwrap() {
            Received::Frame { start, length } => Ok(self.buffer[start..start + length].to_vec()),
            other => Err(other),
        }
    }

    /// Sends a frame with an empty header to the guest.
    pub fn give(&mut self, frame: &[u8]) -> Sent {
        let whole = [&[0; HEADER][..], frame].concat();
        self.port.send(&whole).unwrap()
    }

    /// Whether its descriptor shows something.
    pub fn shows(&self) -> bool {
        let fd = self.port.as_fd();
        let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).unwrap() == 1
    }

    /// Transmits a frame with an empty header from descriptor `at`.
    pub fn transmit(&mut self, at: u16, frame: &[u8]) {
        let header = vec![0; self.machine.header()];
        self.machine.transmit(TX, at, &[&header[..], frame].concat());
    }
}

thread_local! {
    /// Frames that came while the port was served for another reason.
    static EARLY: RefCell<VecDeque<Vec<u8>>> = const { RefCell::new(VecDeque::new()) };
}

/// Does something that needs the port's answers.
pub fn serving<T: Send>(port: &mut VhostPort, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        serve_until(port, |_| worker.is_finished());
        worker.join().unwrap()
    })
}

pub fn serve_until(port: &mut VhostPort, mut over: impl FnMut(&mut VhostPort) -> bool) {
    let mut buffer = vec![0; MOST_FRAME];
    netloom_kit::wait_until("the port", WAIT, || {
        port.rest();
        if let Received::Frame { start, length } = port.receive(&mut buffer).unwrap() {
            let early = buffer[start..start + length].to_vec();
            EARLY.with_borrow_mut(|frames| frames.push_back(early));
        }
        over(port).then_some(())
    });
}

/// A frame of IEEE 802's number for experiments.
pub fn frame(length: usize, text: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.resize(length, text);
    frame
}

pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// A TCP packet over IPv4 with a payload of this many bytes, and zero where the TCP checksum is.
pub fn tcp4(payload: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let length = u16::try_from(40 + payload).unwrap();
    frame.extend([0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = netloom_packet::checksum::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend([0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 255, 255, 0, 0, 0, 0]);
    frame.extend((0..payload).map(|i| i as u8));
    frame
}
