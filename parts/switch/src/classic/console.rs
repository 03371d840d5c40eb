//! The thread that serves consoles: one line in, one answer out.
//!
//! Only the switch's user and root are served. A console that does not read its answers is dropped.

use std::os::fd::{AsFd, OwnedFd};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use netloom_shm::protocol::Peer;
use netloom_sys::{Failure, caps, process::timespec};
use netloom_vde::console::{self, Command, Line};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use super::desk::Desk;
use crate::Result;

/// Most consoles at a time; beyond it the oldest is dropped.
const MOST: usize = 16;
/// How long a console may take to read.
const READS_WITHIN: Duration = Duration::from_secs(1);

/// How long to wait for a free descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// Starts the thread. It ends only by a failure, or with the process.
pub(super) fn start(listener: OwnedFd, desk: Desk) -> Result<JoinHandle<()>> {
    let mut consoles = Consoles { listener, desk, all: Vec::new() };
    let thread = Builder::new().name("vde-console".into()).spawn(move || consoles.run());
    Ok(thread.map_err(Failure::of("vde", "start a thread"))?)
}

struct Consoles {
    listener: OwnedFd,
    desk: Desk,
    all: Vec<OwnedFd>,
}

impl Consoles {
    fn run(&mut self) {
        // What it reads comes from outside, and nothing of it needs a capability.
        if caps::drop_all().is_err() {
            return;
        }
        loop {
            let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
            fds.extend(self.all.iter().map(|console| PollFd::new(console, PollFlags::IN)));
            match rustix::event::poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let told: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            let consoles = std::mem::take(&mut self.all);
            for (console, told) in consoles.into_iter().zip(&told[1..]) {
                if !told || self.serve(&console) {
                    self.all.push(console);
                }
            }
            if told.first() == Some(&true) {
                self.accept();
            }
        }
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let console = match rustix::net::accept_with(&self.listener, flags) {
            Ok(console) => console,
            // Without descriptors left, none is free before somebody else closes one.
            Err(Errno::MFILE | Errno::NFILE) if self.all.is_empty() => {
                return std::thread::sleep(PAUSE);
            }
            // Those of the consoles are given up.
            Err(Errno::MFILE | Errno::NFILE) => return self.all.clear(),
            // One that has left before does not matter to the others.
            Err(_) => return,
        };
        let owner = rustix::process::geteuid().as_raw();
        let allowed = |peer: Peer| peer.uid == 0 || peer.uid == owner;
        if !Peer::of(console.as_fd()).is_ok_and(allowed) {
            return;
        }
        let greeting = console::greeting(env!("CARGO_PKG_VERSION")) + console::PROMPT;
        if write(&console, &greeting) {
            if self.all.len() >= MOST {
                self.all.remove(0);
            }
            self.all.push(console);
        }
    }

    /// Serves what a console has said; false at its end.
    fn serve(&mut self, console: &OwnedFd) -> bool {
        let mut bytes = [0; console::MOST_LINE];
        let read = match rustix::net::recv(console, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return false,
            Ok((length, _)) => bytes.get(..length).unwrap_or_default(),
            Err(e) => return matches!(e, Errno::AGAIN | Errno::INTR),
        };
        // Behind the last line there would be an empty one, with a prompt of its own.
        let read = read.strip_suffix(b"\n").unwrap_or(read);
        read.split(|byte| *byte == b'\n').all(|line| {
            let said = match console::read(line) {
                Line::Nothing => String::new(),
                Line::Wrong(answer) => answer.to_string(),
                Line::Command(Command::Logout) => {
                    let _ = write(console, console::FAREWELL);
                    return false;
                }
                Line::Command(command) => self.desk.obey(command).to_string(),
            };
            write(console, &(said + console::PROMPT))
        })
    }
}

/// Writes all of a text; false if the console does not read it.
fn write(console: &OwnedFd, text: &str) -> bool {
    let mut left = text.as_bytes();
    while !left.is_empty() {
        match rustix::net::send(console, left, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(length) => left = left.get(length..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut fds = [PollFd::new(console, PollFlags::OUT)];
                if rustix::event::poll(&mut fds, Some(&timespec(READS_WITHIN))) != Ok(1) {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::Arc;
    use std::time::Instant;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::super::Options;
    use super::super::register::Register;
    use super::*;

    /// The lowest descriptor that is free, below which none is.
    fn lowest_free() -> u64 {
        let free = std::fs::File::open("/dev/null").unwrap();
        u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&free)).unwrap()
    }

    #[test]
    fn without_descriptors_it_gives_up_its_clients_and_else_waits() {
        // The limit is not this test's.
        let done = netloom_kit::again(&without_descriptors).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    }

    #[test]
    #[ignore = "helper: started by other tests"]
    fn without_descriptors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mgmt");
        let listener = OwnedFd::from(UnixListener::bind(&path).unwrap());
        let options = Options {
            switch: folder.path().join("switch"),
            mode: 0o700,
            group: None,
            ageing: 300,
            home: folder.path().to_owned(),
        };
        let desk = Desk::new(&options, folder.path(), Arc::new(Register::default()));
        let mut consoles = Consoles { listener, desk, all: vec![] };
        let _first = UnixStream::connect(&path).unwrap();
        consoles.accept();
        assert_eq!(consoles.all.len(), 1);
        let _second = UnixStream::connect(&path).unwrap();
        let before = getrlimit(Resource::Nofile);
        let none = Rlimit { current: Some(lowest_free()), ..before };
        setrlimit(Resource::Nofile, none).unwrap();
        consoles.accept();
        assert!(consoles.all.is_empty(), "those that are served are given up");
        let taken = std::fs::File::open("/dev/null").expect("the descriptor of the first");
        let begun = Instant::now();
        consoles.accept();
        assert!(begun.elapsed() >= PAUSE, "a turn without a pause: it spins");
        assert!(consoles.all.is_empty());
        drop(taken);
        consoles.accept();
        assert_eq!(consoles.all.len(), 1, "the second waited");
        setrlimit(Resource::Nofile, before).unwrap();
    }
}
