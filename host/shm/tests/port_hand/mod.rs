//! A switch by hand: the test says when it reads a message and what it answers, so that every moment
//! between two messages can be looked at, and things can be said that no switch says.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use netloom_shm::inbox::{Inbox, PeerInbox};
use netloom_shm::layout;
use netloom_shm::page::Page;
use netloom_shm::protocol::{
    Channel, Direction, EdgeName, Incoming, Joined, Listener, Message, Posted, Token, VERSION,
};
use netloom_shm::ring::{Outgoing, Reader, Writer};
use netloom_shm::wake::Bell;
use netloom_shm::{HEADER, JoinOptions, MOST_FRAME, Received, Result, SwitchPort};

/// Longest that anything is waited for.
pub const BOUND: Duration = Duration::from_secs(20);

/// To all.
pub const ALL: [u8; 6] = [0xff; 6];

/// The address of a station.
pub fn mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, number]
}

/// A frame with an empty header, of at least 60 bytes.
pub fn frame(to: [u8; 6], from: [u8; 6], payload: &[u8]) -> Vec<u8> {
    let mut frame = [&[0; HEADER], &to[..], &from, &[0x88, 0xb5], payload].concat();
    frame.resize(frame.len().max(HEADER + 60), 0);
    frame
}

/// The next frame, if there is one at the moment.
pub fn take(port: &mut SwitchPort) -> Option<Vec<u8>> {
    let mut buffer = vec![0; MOST_FRAME];
    let mut found = port.receive(&mut buffer).expect("receive");
    if found == Received::Empty && readable(port.as_fd()) {
        // The call that empties the rings need not look at what else there is; who polls calls again.
        found = port.receive(&mut buffer).expect("receive");
    }
    match found {
        Received::Frame { start, length } => Some(buffer[start..start + length].to_vec()),
        Received::Empty | Received::Gone => None,
        other => panic!("{other:?}"),
    }
}

/// Whether a descriptor is readable now.
pub fn readable(fd: impl AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut polled = [PollFd::new(&fd, PollFlags::IN)];
    let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&zero)).expect("poll") == 1
}

/// A port as the switch sees it.
pub struct Member {
    pub number: u8,
    pub generation: u32,
    pub token: Token,
    pub edges: Vec<EdgeName>,
    pub channel: Channel,
    pub inbox: OwnedFd,
    pub up: Reader,
    pub down: Outgoing,
}

pub struct Hand {
    folder: PathBuf,
    listener: Option<Listener>,
    pub page: Page,
    pub inbox: Inbox,
}

impl Hand {
    pub fn new(test: &str) -> Hand {
        let name = format!("netloom-port-{}-{test}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        let listener = Some(Listener::bind(&folder.join("socket")).expect("listen"));
        let (page, inbox) = (Page::create().expect("page"), Inbox::create().expect("inbox"));
        Hand { folder, listener, page, inbox }
    }

    pub fn options(&self, name: &str) -> JoinOptions {
        JoinOptions::new(self.folder.join("socket"), name)
    }

    /// As after its process was killed: its memories are others'.
    pub fn start_again(&mut self) {
        let path = self.folder.join("socket");
        self.listener = None;
        std::fs::remove_file(&path).expect("remove");
        self.listener = Some(Listener::bind(&path).expect("listen"));
        self.page = Page::create().expect("page");
        self.inbox = Inbox::create().expect("inbox");
    }

    /// Lets a port in by a number.
    pub fn admit(&self, options: &JoinOptions, number: u8) -> (SwitchPort, Member) {
        std::thread::scope(|scope| {
            let port = scope.spawn(|| SwitchPort::join(options));
            let member = self.welcome(number, u32::from(number));
            (port.join().expect("no panic").expect("join"), member.expect("welcome"))
        })
    }

    pub fn port(&self, number: u8) -> (SwitchPort, Member) {
        self.admit(&self.options(&format!("p{number}")), number)
    }

    /// Somebody who came.
    pub fn accept(&self) -> Channel {
        let listener = self.listener.as_ref().expect("a listener");
        wait(listener);
        listener.accept().expect("accept").expect("somebody")
    }

    /// Welcomes the next port.
    pub fn welcome(&self, number: u8, generation: u32) -> Result<Member> {
        let mut channel = self.accept();
        wait(&channel);
        let Incoming::Message { message: Message::Join(join), descriptors } = channel.receive()?
        else {
            panic!("no join");
        };
        let (token, edges) = (join.token, join.edges.into_iter().collect());
        let [inbox, ring] = <[OwnedFd; 2]>::try_from(descriptors).expect("two");
        let up = Reader::open(ring.as_fd(), number.into(), &self.inbox)?;
        let down = Writer::create(layout::ring::LEAST_ARENA, 1)?;
        let (up_bell, down_bell) = (Bell::create()?, Bell::create()?);
        let joined = Joined { version: VERSION, number, generation, token: [number; 16] };
        let with = [self.page.fd(), self.inbox.fd(), down.fd(), up_bell.fd(), down_bell.fd()];
        assert_eq!(channel.send(&Message::Joined(joined), &with)?, Posted::Done);
        let down = down.connect(Arc::new(PeerInbox::open(inbox.as_fd())?), 0, down_bell)?;
        Ok(Member { number, generation, token, edges, channel, inbox, up, down })
    }

    /// Frames that a port has sent up since the last look.
    pub fn risen(&self, from: &mut Member) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; MOST_FRAME];
        let mut all = vec![];
        while let netloom_shm::ring::Taken::Frame { start, length, .. } =
            from.up.take(&self.inbox, &mut buffer)
        {
            all.push(buffer[start..start + length].to_vec());
        }
        all
    }

    /// Gives all that a port has sent up to another.
    pub fn relay(&self, from: &mut Member, to: &mut Member) {
        for frame in self.risen(from) {
            let pushed = to.down.queue(from.number.into(), &frame);
            assert_eq!(pushed, netloom_shm::ring::Pushed::Done);
        }
        to.down.flush();
    }

    /// Reads the Open of a port and does what it asks for.
    pub fn open(&self, from: &mut Member, to: &mut Member) {
        let ring = from.open_to(to.number);
        self.relay(from, to);
        self.connect(from, to, &ring);
    }

    pub fn connect(&self, from: &mut Member, to: &mut Member, ring: &OwnedFd) {
        let bell = Bell::create().expect("bell");
        let edge = Message::Edge { from: from.number, generation: from.generation };
        to.tell(&edge, &[ring.as_fd(), bell.fd()]);
        let opened = Message::Opened { to: to.number, generation: to.generation };
        from.tell(&opened, &[to.inbox.as_fd(), bell.fd()]);
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn wait(fd: impl AsFd) {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut polled = [PollFd::new(&fd, PollFlags::IN)];
    let bound = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
    assert_eq!(poll(&mut polled, Some(&bound)).expect("poll"), 1, "nothing came");
}

impl Member {
    pub fn tell(&mut self, message: &Message<'_>, with: &[std::os::fd::BorrowedFd<'_>]) {
        assert_eq!(self.channel.send(message, with).expect("send"), Posted::Done);
    }

    /// The next message as text, with its descriptors; none if there is none.
    pub fn message(&mut self) -> Option<(String, Vec<OwnedFd>)> {
        match self.channel.receive().expect("receive") {
            Incoming::Message { message, descriptors } => {
                Some((format!("{message:?}"), descriptors))
            }
            Incoming::Nothing | Incoming::Closed => None,
        }
    }

    /// The ring of the Open that must be there.
    pub fn open_to(&mut self, number: u8) -> OwnedFd {
        let (text, mut fds) = self.message().expect("a message");
        assert_eq!(text, format!("Open {{ to: {number} }}"));
        fds.pop().expect("a ring")
    }

    pub fn close(&mut self, number: u8, direction: Direction) {
        self.tell(&Message::Close { number, direction }, &[]);
    }
}

/// Two ports that know of each other's station, 1 and 2.
pub fn acquainted(hand: &Hand) -> [(SwitchPort, Member); 2] {
    let [mut one, mut two] = [hand.port(1), hand.port(2)];
    acquaint(hand, &mut one, &mut two);
    [one, two]
}

/// Both send to all, and receive what the other has sent.
pub fn acquaint(hand: &Hand, one: &mut (SwitchPort, Member), two: &mut (SwitchPort, Member)) {
    for _ in 0..2 {
        let hello = frame(ALL, mac(one.1.number), b"hello");
        one.0.send(&hello).expect("send");
        hand.relay(&mut one.1, &mut two.1);
        assert_eq!(take(&mut two.0), Some(hello));
        std::mem::swap(one, two);
    }
}
