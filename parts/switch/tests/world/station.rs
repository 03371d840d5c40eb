//! A port with a thread that waits on its descriptor, as a program does that has other things to
//! wait for: what it receives is queued, what it is to send comes by a channel.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use netloom_shm::layout::HEADER;
use netloom_shm::{Counters, JoinOptions, MOST_FRAME, Received, Sent, SwitchPort};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use super::{BOUND, Switch, whole};

enum Order {
    Send(Vec<u8>, Sender<Sent>),
    Count(Sender<Counters>),
    Stop,
}

pub struct Station {
    pub number: u8,
    orders: Sender<Order>,
    bell: Arc<OwnedFd>,
    frames: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<()>>,
}

impl Station {
    pub fn join(switch: &Switch, name: &str) -> Station {
        Station::with(&JoinOptions::new(switch.path(), name))
    }

    pub fn with(options: &JoinOptions) -> Station {
        let port = SwitchPort::join(options).expect("join");
        let number = u8::try_from(port.number()).expect("a number");
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("eventfd");
        let bell = Arc::new(bell);
        let (orders, wanted) = mpsc::channel();
        let (seen, frames) = mpsc::channel();
        let rung = bell.clone();
        let thread = std::thread::spawn(move || run(port, &rung, &wanted, &seen));
        Station { number, orders, bell, frames, thread: Some(thread) }
    }

    fn order(&self, order: Order) {
        self.orders.send(order).expect("its thread");
        rustix::io::write(&*self.bell, &1u64.to_ne_bytes()).expect("ring");
    }

    /// Sends; what became of it.
    pub fn try_send(&self, frame: &[u8]) -> Sent {
        let (done, wait) = mpsc::channel();
        self.order(Order::Send(whole(frame), done));
        wait.recv_timeout(BOUND).expect("its thread")
    }

    pub fn send(&self, frame: &[u8]) {
        assert_eq!(self.try_send(frame), Sent::Done);
    }

    pub fn counters(&self) -> Counters {
        let (done, wait) = mpsc::channel();
        self.order(Order::Count(done));
        wait.recv_timeout(BOUND).expect("its thread")
    }

    /// The next frame; none if nothing comes within the time.
    pub fn try_next(&self, patience: Duration) -> Option<Vec<u8>> {
        match self.frames.recv_timeout(patience) {
            Ok(frame) => Some(frame),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("station {} has ended", self.number),
        }
    }

    pub fn next(&self) -> Vec<u8> {
        self.try_next(BOUND).expect("a frame")
    }

    /// Reads until this frame comes.
    pub fn until(&self, frame: &[u8]) {
        while self.next() != frame {}
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Stop);
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(mut port: SwitchPort, bell: &OwnedFd, orders: &Receiver<Order>, seen: &Sender<Vec<u8>>) {
    let mut buffer = vec![0; MOST_FRAME];
    loop {
        while let Ok(order) = orders.try_recv() {
            match order {
                Order::Send(frame, done) => {
                    let _ = done.send(port.send(&frame).expect("send"));
                }
                Order::Count(done) => {
                    let _ = done.send(port.counters());
                }
                Order::Stop => return,
            }
        }
        loop {
            match port.receive(&mut buffer).expect("receive") {
                Received::Frame { start, length } => {
                    let _ = seen.send(buffer[start + HEADER..start + length].to_vec());
                }
                Received::Empty => break,
                Received::Truncated => panic!("truncated"),
                Received::Gone => return,
            }
        }
        let port = port.as_fd();
        let mut fds = [PollFd::new(&port, PollFlags::IN), PollFd::new(bell, PollFlags::IN)];
        rustix::event::poll(&mut fds, None).expect("poll");
        let _ = rustix::io::read(bell, &mut [0; 8]);
    }
}
