//! Groups of version 2 with names of their own, and processes in them that open sockets when told.
//!
//! A process is this test binary again, running only [`helper_process`], and takes commands from a
//! socket pair in place of its standard input.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use netloom_ebpf::sockets::SocketLimits;
use netloom_sys::process::{self, Forked, Namespaces};
use netloom_sys::{mountinfo, scm};
use rustix::net::{AddressFamily, SocketType};

/// The test that a helper runs.
const MARK: &str = "NETLOOM_EBPF_TEST_GROUP";

/// A group that is removed, with those below it, when this goes.
#[derive(Debug)]
pub(crate) struct Group(PathBuf);

impl Group {
    /// A fresh group at the top, or `None` where no cgroup2 is mounted.
    pub(crate) fn create() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mounts = mountinfo::read().unwrap();
        let top = mounts.into_iter().find(|mount| mount.fstype == "cgroup2")?.path;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = top.join(format!("netloom-ebpf-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        Some(Self(dir))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A group below, and those on the way to it.
    pub(crate) fn below(&self, path: &str) -> PathBuf {
        let dir = self.0.join(path);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove(&entry.path());
        }
    }
    let gone = || std::fs::remove_dir(dir).ok();
    netloom_kit::wait_until("group is empty", std::time::Duration::from_secs(30), gone);
}

/// A process in a group.
#[derive(Debug)]
pub(crate) struct Helper {
    child: Child,
    replies: BufReader<UnixStream>,
}

impl Helper {
    /// Starts one and waits until it is in the group.
    pub(crate) fn start(group: &Path) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let child = netloom_kit::again(&helper_process)
            .env(MARK, group)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut helper = Self { child, replies: BufReader::new(ours) };
        assert_eq!(helper.reply(), "ready");
        helper
    }

    pub(crate) fn tell(&mut self, command: &str) {
        writeln!(self.replies.get_mut(), "{command}").unwrap();
    }

    pub(crate) fn reply(&mut self) -> String {
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// A command and its answer.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.reply()
    }

    /// Gives its first socket to another one, that keeps it.
    ///
    /// It does not pass through the test's own process: whatever is started there at this moment by
    /// another test would have a copy of it until it is replaced by its program.
    pub(crate) fn give_socket(&mut self, other: &mut Self) {
        let name = format!("netloom-ebpf-test-{}", other.child.id());
        other.tell(&format!("take {name}"));
        assert_eq!(other.reply(), "listening");
        assert_eq!(self.ask(&format!("give {name}")), "given");
        assert_eq!(other.reply(), "taken");
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a helper does.
#[test]
#[ignore = "helper: started by other tests"]
fn helper_process() {
    let group = std::env::var_os(MARK).expect("started for a group");
    std::fs::write(Path::new(&group).join("cgroup.procs"), "0").unwrap();
    let wire = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let mut commands = BufReader::new(wire.try_clone().unwrap());
    let mut hands = Hands { group: PathBuf::from(group), wire, open: Vec::new(), forked: None };
    hands.say("ready");
    let mut line = String::new();
    while commands.read_line(&mut line).is_ok_and(|n| n > 0) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["take", name] => hands.take(name),
            ["give", name] => hands.give(name),
            _ => hands.obey(words[0], words.get(1).map_or(0, |n| n.parse().unwrap())),
        }
        line.clear();
    }
}

struct Hands {
    group: PathBuf,
    wire: UnixStream,
    open: Vec<OwnedFd>,
    forked: Option<(OwnedFd, rustix::process::Pid)>,
}

impl Hands {
    fn say(&mut self, text: &str) {
        writeln!(self.wire, "{text}").unwrap();
    }

    fn obey(&mut self, verb: &str, n: usize) {
        match verb {
            "open" => self.open(n, AddressFamily::INET, SocketType::DGRAM),
            "open6" => self.open(n, AddressFamily::INET6, SocketType::STREAM),
            "unix" => self.open(n, AddressFamily::UNIX, SocketType::STREAM),
            "close" => {
                self.open.truncate(self.open.len() - n.min(self.open.len()));
                self.say("closed");
            }
            "churn" => self.churn(n),
            "dup" => {
                let copy = self.open[0].try_clone().unwrap();
                self.open.push(copy);
                self.say("done");
            }
            "accept" => {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (accepted, _) = listener.accept().unwrap();
                self.open.extend([listener.into(), client.into(), accepted.into()]);
                self.say("done");
            }
            "limit" => {
                // In the lab's own group: as another lab process would, for the node n1.
                let limits = SocketLimits::reopen(&self.group).unwrap().unwrap();
                limits.set(&self.group.join("n1"), u32::try_from(n).ok()).unwrap();
                self.say("done");
            }
            "fork" => self.fork(),
            "reap" => {
                let (hold, pid) = self.forked.take().unwrap();
                drop(hold);
                process::wait_or_stop(pid).unwrap();
                self.say("done");
            }
            other => panic!("{other}?"),
        }
    }

    /// Takes a socket from another helper, over an abstract socket of this name.
    fn take(&mut self, name: &str) {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        self.say("listening");
        let (other, _) = listener.accept().unwrap();
        let (_, fds) = scm::receive(&other, &mut [0u8; 1]).unwrap();
        assert_eq!(fds.len(), 1);
        self.open.extend(fds);
        self.say("taken");
    }

    fn give(&mut self, name: &str) {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let other = UnixStream::connect_addr(&address).unwrap();
        scm::send(&other, b"x", &[self.open[0].as_fd()]).unwrap();
        self.say("given");
    }

    /// Opens `n`; says how many and the error number of the first refusal.
    fn open(&mut self, n: usize, family: AddressFamily, kind: SocketType) {
        let (mut opened, mut errno) = (0, 0);
        for _ in 0..n {
            match rustix::net::socket(family, kind, None) {
                Ok(socket) => {
                    self.open.push(socket);
                    opened += 1;
                }
                Err(e) if errno == 0 => errno = e.raw_os_error(),
                Err(_) => {}
            }
        }
        self.say(&format!("{opened} {errno}"));
    }

    /// Opens and closes one socket `n` times; says how often it was refused.
    fn churn(&mut self, n: usize) {
        let one = || rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None);
        let refused = (0..n).filter(|_| one().is_err()).count();
        self.say(&format!("{refused}"));
    }

    /// A child that holds all sockets until it is reaped.
    fn fork(&mut self) {
        let (read, write) = rustix::pipe::pipe().unwrap();
        // SAFETY: the child makes only system calls that need no lock, and leaves by exit_now.
        match unsafe { process::fork(Namespaces::NONE, None) }.unwrap() {
            Forked::Child => {
                drop(write);
                let _ = rustix::io::read(&read, &mut [0u8; 1]);
                process::exit_now(0)
            }
            Forked::Parent(pid) => self.forked = Some((write, pid)),
        }
        self.say("done");
    }
}
