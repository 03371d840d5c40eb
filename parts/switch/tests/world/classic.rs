//! A switch that offers classic VDE, and clients made by hand.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_vde::console::PROMPT;
use netloom_vde::request::{ANSWER, Request};

use super::{BOUND, Process, Switch};

/// What offers a switch.
pub struct Vde {
    pub process: Process,
    pub folder: PathBuf,
    switch: PathBuf,
    home: PathBuf,
    mode: &'static str,
}

impl Vde {
    /// Offers a switch in its folder.
    pub fn start(switch: &Switch) -> Vde {
        Vde::with_mode(switch, "600")
    }

    pub fn with_mode(switch: &Switch, mode: &'static str) -> Vde {
        let home = switch.folder.path().to_owned();
        let (folder, socket) = (home.join("vde"), switch.path());
        let process = run(&socket, &folder, &home, mode);
        Vde { process, folder, switch: socket, home, mode }
    }

    /// After it was killed.
    pub fn start_again(&mut self) {
        self.process = run(&self.switch, &self.folder, &self.home, self.mode);
    }

    pub fn control(&self) -> PathBuf {
        self.folder.join("ctl")
    }

    /// A stream to the control socket.
    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.control()).expect("connect");
        stream.set_read_timeout(Some(BOUND)).expect("bound the wait");
        stream
    }

    pub fn console(&self) -> Console {
        let stream = UnixStream::connect(self.folder.join("mgmt")).expect("connect");
        stream.set_read_timeout(Some(BOUND)).expect("bound the wait");
        let mut console = Console(stream);
        assert!(console.heard().starts_with("VDE switch V."));
        console
    }
}

fn run(switch: &Path, folder: &Path, home: &Path, mode: &str) -> Process {
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let (switch, folder, home) = (text(switch), text(folder), text(home));
    Process::start(&["vde", &switch, &folder, &home, mode], None)
}

/// A console.
pub struct Console(UnixStream);

impl Console {
    /// Types a line; the answer without the prompt.
    pub fn says(&mut self, line: &str) -> String {
        self.0.write_all(format!("{line}\n").as_bytes()).expect("type");
        self.heard()
    }

    fn heard(&mut self) -> String {
        let mut text = Vec::new();
        let mut byte = [0; 4096];
        while !text.ends_with(PROMPT.as_bytes()) {
            let count = self.0.read(&mut byte).expect("read");
            assert!(count > 0, "the console ended");
            text.extend(&byte[..count]);
        }
        text.truncate(text.len() - PROMPT.len());
        String::from_utf8(text).expect("text")
    }
}

/// A client.
pub struct Client {
    /// Its membership.
    pub control: UnixStream,
    pub data: UnixDatagram,
    /// The switch's socket for it.
    pub at: PathBuf,
}

impl Client {
    /// Joins; `None` when refused.
    pub fn try_join(control: &Path, own: &Path, port: u8, name: &str) -> Option<Client> {
        let _ = std::fs::remove_file(own);
        let data = UnixDatagram::bind(own).expect("bind");
        data.set_read_timeout(Some(BOUND)).expect("bound the wait");
        let mut stream = UnixStream::connect(control).expect("connect");
        stream.set_read_timeout(Some(BOUND)).expect("bound the wait");
        let path = own.as_os_str().as_bytes().to_vec();
        let request = Request { port, path, description: name.to_owned() };
        stream.write_all(&request.write()).expect("ask");
        let mut answer = [0; ANSWER];
        stream.read_exact(&mut answer).ok()?;
        let end = answer[2..].iter().position(|byte| *byte == 0).expect("an end");
        let at = PathBuf::from(std::ffi::OsStr::from_bytes(&answer[2..2 + end]));
        data.connect(&at).expect("connect");
        // As vdeplug does: both are connected.
        std::fs::remove_file(own).expect("forget the name");
        Some(Client { control: stream, data, at })
    }

    /// Joins with a data socket that is another's; `None` when refused.
    pub fn with_others(control: &Path, others: &Path) -> Option<Client> {
        let mut stream = UnixStream::connect(control).expect("connect");
        stream.set_read_timeout(Some(BOUND)).expect("bound the wait");
        let path = others.as_os_str().as_bytes().to_vec();
        let request = Request { port: 0, path, description: "thief".into() };
        stream.write_all(&request.write()).expect("ask");
        stream.read_exact(&mut [0; ANSWER]).ok()?;
        let data = UnixDatagram::unbound().expect("a socket");
        Some(Client { control: stream, data, at: PathBuf::new() })
    }

    pub fn join(vde: &Vde, name: &str) -> Client {
        Client::try_join(&vde.control(), &vde.folder.join(format!(".{name}")), 0, name)
            .expect("an answer")
    }

    pub fn send(&self, frame: &[u8]) {
        assert_eq!(self.data.send(frame).expect("send"), frame.len());
    }

    pub fn receive(&self) -> Vec<u8> {
        let mut buffer = vec![0; 1 << 17];
        let length = self.data.recv(&mut buffer).expect("a frame");
        buffer.truncate(length);
        buffer
    }

    /// Receives until this frame comes.
    pub fn until(&self, frame: &[u8]) {
        while self.receive() != frame {}
    }

    /// The next frame, if one comes within the time.
    pub fn try_next(&self, patience: Duration) -> Option<Vec<u8>> {
        self.data.set_read_timeout(Some(patience)).expect("bound the wait");
        let mut buffer = vec![0; 1 << 17];
        let found = self.data.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec());
        self.data.set_read_timeout(Some(BOUND)).expect("bound the wait");
        found
    }

    /// Whether the switch ends the membership.
    pub fn ends(mut self) -> bool {
        matches!(self.control.read(&mut [0]), Ok(0) | Err(_)) && is_hung_up(self.control)
    }
}

fn is_hung_up(stream: UnixStream) -> bool {
    let stream: OwnedFd = stream.into();
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(
        stream.as_fd(),
        rustix::event::PollFlags::empty(),
    )];
    rustix::event::poll(&mut fds, Some(&rustix::event::Timespec::default())) == Ok(1)
}
