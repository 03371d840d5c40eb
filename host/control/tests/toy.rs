//! A process that does little: what the tests ask.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_control::{Client, Desk, Fault, Form, Incoming, Protocol, Trust, listen};
use netloom_sys::process::wait_readable;
use serde::{Deserialize, Serialize};

/// Longest that anything is waited for.
pub(super) const BOUND: Duration = Duration::from_secs(30);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Request {
    /// Say it again, with the number of descriptors.
    Echo(String),
    /// An answer of this many bytes.
    Long(usize),
    /// No answer now.
    Wait,
    /// An answer to all who wait.
    Wake,
    Stop,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    Done,
    Failed(String),
    Echo(String, usize),
}

/// As the wires' process and OpenFlow switches speak.
#[derive(Debug)]
pub(super) enum Toy {}

impl Protocol for Toy {
    const OBJECT: &'static str = "toy";
    const MOST_CLIENTS: usize = 4;
    const PATIENCE: Option<Duration> = Some(BOUND);
    type Request = Request;
    type Answer = Answer;
    type Error = Fault;

    fn refuse(reason: String) -> Option<Answer> {
        Some(Answer::Failed(reason))
    }

    fn judge(answer: Answer) -> Result<Answer, String> {
        match answer {
            Answer::Failed(reason) => Err(reason),
            answer => Ok(answer),
        }
    }

    fn is_done(answer: &Answer) -> bool {
        matches!(answer, Answer::Done)
    }
}

/// As inits speak.
#[derive(Debug)]
pub(super) enum BareToy {}

impl Protocol for BareToy {
    const OBJECT: &'static str = "bare toy";
    const FORM: Form = Form::Bare { most: 100 };
    const TRUST: Trust = Trust::User;
    type Request = Request;
    type Answer = Answer;
    type Error = Fault;

    fn refuse(_: String) -> Option<Answer> {
        None
    }

    fn judge(answer: Answer) -> Result<Answer, String> {
        Ok(answer)
    }
}

/// A toy that serves on a thread, and its folder.
#[derive(Debug)]
pub(super) struct Served {
    folder: tempfile::TempDir,
    thread: Option<std::thread::JoinHandle<usize>>,
}

impl Served {
    pub(super) fn start<P: Protocol<Request = Request, Answer = Answer>>() -> Served {
        // Not in the folder of this run, which other users cannot enter.
        let folder = tempfile::tempdir_in("/tmp").expect("a folder");
        let listener = listen(&folder.path().join("control")).expect("listen");
        let mut desk = Desk::<P>::new(listener).expect("a desk");
        let thread = Some(std::thread::spawn(move || serve(&mut desk)));
        Served { folder, thread }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    pub(super) fn client<P: Protocol<Error = Fault>>(&self) -> Client<P> {
        Client::open(&self.path()).expect("connect").expect("it listens")
    }

    /// Stops it; how many clients waited for their answer at its end.
    pub(super) fn stopped(mut self, by: &Client<Toy>) -> usize {
        by.order(&Request::Stop, &[]).expect("stop");
        self.thread.take().expect("a thread").join().expect("no panic")
    }
}

/// Serves until it is told to stop.
pub(super) fn serve<P: Protocol<Request = Request, Answer = Answer>>(desk: &mut Desk<P>) -> usize {
    let mut waiting = BTreeMap::new();
    loop {
        assert!(wait_readable(desk.as_fd(), BOUND), "nobody stops it");
        for Incoming { by, request, with } in desk.turn() {
            match request {
                Request::Echo(text) => desk.answer(by, &Answer::Echo(text, with.len())),
                Request::Long(length) => desk.answer(by, &Answer::Echo("x".repeat(length), 0)),
                Request::Wait => {
                    desk.defer(by);
                    waiting.insert(by, ());
                }
                Request::Wake => {
                    desk.answer(by, &Answer::Done);
                    waiting.keys().for_each(|one| desk.answer(*one, &Answer::Done));
                    waiting.clear();
                }
                Request::Stop => {
                    desk.answer(by, &Answer::Done);
                    return waiting.keys().filter(|one| desk.has(**one)).count();
                }
            }
        }
    }
}

/// Connects without a word.
pub(super) fn silent(path: &Path) -> std::os::fd::OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).expect("socket");
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).expect("address")).expect("connect");
    socket
}
