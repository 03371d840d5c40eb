//! Admits clients: reads their requests, joins the switch for them, and hands them on.
//!
//! Who a client is, the kernel says; it may have a port if it may have one of the switch itself. The socket that it
//! names must be its own, so that this process, which may be root's, sends frames nowhere where the client could
//! not. Joining waits for the switch, and then only other joiners.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netloom_shm::protocol::{Peer, Reason, Token};
use netloom_shm::{JoinOptions, SwitchPort, name};
use netloom_sys::{Failure, describe, process::timespec};
use netloom_vde::request::{self, Request};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use super::carry::Handed;
use super::client::{Client, Identity};
use super::folder::Folder;
use super::register::{Entry, Lost, Register};
use super::{Options, VDE};
use crate::Result;
use crate::access::{Gate, Person};
use crate::control::Connection;
use crate::control::requests::{Presence, Shown};
use crate::rules::Rules;
use crate::seats::{Seat, Wish, seat};
use crate::state::{Known, State};

/// Most connections without a request; beyond it the oldest is dropped.
const MOST_WAITING: usize = 64;
/// How long one may take for its request.
const REQUEST: Duration = Duration::from_secs(5);
/// Longest pause between looks at the folder whose removal ends the process.
const LOOK: Duration = Duration::from_millis(500);
/// How long the switch may take to tell of its ports.
const ANSWER: Duration = Duration::from_secs(2);
/// Attempts to get a number that nobody else has got meanwhile.
const ATTEMPTS: u32 = 8;

/// A connection that has not sent its request.
struct Waiting {
    stream: OwnedFd,
    since: Instant,
}

/// Admits clients.
pub(super) struct Door<'a> {
    folder: &'a Folder,
    options: &'a Options,
    gate: Gate,
    register: Arc<Register>,
    handed: Handed,
    waiting: Vec<Waiting>,
    /// The number of the last connection.
    last: u32,
}

impl<'a> Door<'a> {
    pub(super) fn new(
        folder: &'a Folder,
        options: &'a Options,
        gate: Gate,
        register: Arc<Register>,
        handed: Handed,
    ) -> Door<'a> {
        Door { folder, options, gate, register, handed, waiting: Vec::new(), last: 0 }
    }

    /// Serves until `stop` is readable, the folder of the options is removed, or `ended` says so.
    pub(super) fn serve(
        &mut self,
        stop: BorrowedFd<'_>,
        ended: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let home = netloom_control::Folder::of(&self.options.home);
        while !ended() && !home.is_gone() {
            let listener = self.folder.control();
            let mut fds = vec![
                PollFd::from_borrowed_fd(stop, PollFlags::IN),
                PollFd::from_borrowed_fd(listener, PollFlags::IN),
            ];
            fds.extend(self.waiting.iter().map(|w| PollFd::new(&w.stream, PollFlags::IN)));
            match rustix::event::poll(&mut fds, Some(&timespec(LOOK))) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(Failure::new(VDE, "wait", e).into()),
            }
            let told: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            if told.first() == Some(&true) {
                return Ok(());
            }
            self.hear(&told[2..]);
            if told.get(1) == Some(&true) {
                self.accept();
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::accept_with(self.folder.control(), flags) {
            Ok(stream) => {
                if self.waiting.len() >= MOST_WAITING {
                    self.waiting.remove(0);
                }
                self.waiting.push(Waiting { stream, since: Instant::now() });
            }
            // Without descriptors left, nobody else can be admitted before somebody has left.
            Err(Errno::MFILE | Errno::NFILE) if !self.waiting.is_empty() => {
                self.waiting.clear();
            }
            Err(Errno::MFILE | Errno::NFILE) => std::thread::sleep(LOOK),
            Err(_) => {}
        }
    }

    /// Serves those that have said something, and drops those that have not for long.
    fn hear(&mut self, told: &[bool]) {
        let now = Instant::now();
        let waiting = std::mem::take(&mut self.waiting);
        for (waiting, told) in waiting.into_iter().zip(told) {
            if *told {
                self.admit_or_refuse(waiting.stream);
            } else if now.duration_since(waiting.since) < REQUEST {
                self.waiting.push(waiting);
            }
        }
    }

    fn admit_or_refuse(&mut self, stream: OwnedFd) {
        let mut bytes = [0; request::MOST];
        let length = match rustix::net::recv(&stream, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((length, _)) if length > 0 => length,
            // Gone without a request, like a probe for a listener.
            _ => return,
        };
        let request = Request::read(bytes.get(..length).unwrap_or_default());
        let peer = Peer::of(stream.as_fd()).map_err(|e| describe(&e));
        let admitted = request
            .map_err(|refused| refused.to_string())
            .and_then(|request| self.admit(stream, &request, peer?));
        // A refused client gets no answer; the connection is closed by now.
        match admitted {
            Ok(client) => self.handed.hand(client),
            Err(reason) => self.register.refuse(reason),
        }
    }

    fn admit(
        &mut self,
        stream: OwnedFd,
        request: &Request,
        peer: Peer,
    ) -> std::result::Result<Client, String> {
        let who = Person { uid: peer.uid, gid: Some(peer.gid) };
        let about = |e: String| format!("user {}: {e}", peer.uid);
        if !self.gate.admits(who) {
            return Err(about("may not join".into()));
        }
        // Before joining: a client whose socket is refused must not have taken a port.
        let data = connect(&request.path, peer.uid).map_err(about)?;
        let port = self.join(request, who).map_err(about)?;
        let number = u8::try_from(port.number()).map_err(|e| e.to_string())?;
        // 0 stands for ports without a client of VDE (`desk`).
        self.last = self.last.wrapping_add(1).max(1);
        let id = self.last;
        let name = request::data_name(number, id);
        let path =
            self.folder.name_data(&data, &name, peer.uid).map_err(|e| about(e.to_string()))?;
        let lost = Arc::new(Lost::default());
        let control = Arc::new(stream);
        let register = self.register.clone();
        let entry = Entry {
            id,
            uid: peer.uid,
            description: request.description.clone(),
            lost: lost.clone(),
            control: control.clone(),
        };
        self.register.enter(number, entry);
        let identity = Identity { id, path: path.clone(), lost, register };
        // Dropping it removes it from the folder and the register.
        let client = Client::new(control.clone(), data, port, identity);
        let answer = request::answer(path.as_os_str().as_bytes()).ok_or("its path is too long")?;
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::send(&*control, &answer, flags) {
            Ok(length) if length == answer.len() => Ok(client),
            _ => Err(about("does not take the answer".into())),
        }
    }

    /// Joins the switch for somebody else: the number is one that they may have.
    fn join(&self, request: &Request, who: Person) -> std::result::Result<SwitchPort, String> {
        let mut wanted = name::port_name(&request.description);
        for _ in 0..ATTEMPTS {
            let state = state_of(&self.shown()?);
            if state.ports.iter().any(|port| port.name == wanted) {
                wanted = name::unlike_others(&wanted).map_err(|e| e.to_string())?;
            }
            let wish = Wish { number: request.port, name: &wanted, token: Token::default(), who };
            let (Seat::New(number) | Seat::Old(number)) =
                seat(&wish, &self.gate, &state, |_| true).map_err(|(_, text)| text)?;
            let mut options = JoinOptions::new(&self.options.switch, &wanted);
            options.number = number.into();
            // Frames of VDE have no header that could say what is left to do.
            options.super_frames = false;
            options.checksums = false;
            match SwitchPort::join(&options) {
                Err(netloom_shm::Error::Refused { reason: Reason::Taken, .. }) => {}
                other => return other.map_err(|e| describe(&e)),
            }
        }
        Err("others take every port first".into())
    }

    fn shown(&self) -> std::result::Result<Shown, String> {
        let open = Connection::open(&self.options.switch).map_err(|e| describe(&e))?;
        let connection = open.ok_or("the switch is not there at the moment")?;
        connection.within(ANSWER).show().map_err(|e| describe(&e))
    }
}

/// Rules and numbers as the switch has them.
fn state_of(shown: &Shown) -> State {
    let taken = shown.ports.iter().filter(|port| port.presence != Presence::Free);
    // The switch keeps tokens and generations to itself; any but zero stands for one that is taken.
    let known = taken.filter_map(|port| {
        let number = u8::try_from(port.number).ok()?;
        let (name, uid) = (port.name.clone(), port.uid.unwrap_or(u32::MAX));
        Some(Known { number, name, token: [1; 16], generation: 1, uid, pid: 0 })
    });
    let rules = shown.ports.iter().map(|port| (port.number, port.rules.clone()));
    let rules = rules.filter(|(_, rules)| *rules != crate::rules::PortRules::NONE);
    let rules = Rules { ports: rules.collect(), ..Rules::default() };
    State { ports: known.collect(), rules, ..State::default() }
}

/// A data socket connected to a client's. Only that one can send to it then.
fn connect(path: &[u8], uid: u32) -> std::result::Result<OwnedFd, String> {
    let path = PathBuf::from(OsStr::from_bytes(path));
    let failed = |e: Errno| format!("{}: {}", path.display(), describe(&io::Error::from(e)));
    // The checked socket is the connected one, whatever becomes of the path meanwhile.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = rustix::fs::open(&path, flags, Mode::empty()).map_err(failed)?;
    let found = rustix::fs::fstat(&held).map_err(failed)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(format!("{}: no socket", path.display()));
    }
    if uid != 0 && found.st_uid != uid {
        return Err(format!("{}: another user's", path.display()));
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
        .map_err(failed)?;
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", held.as_raw_fd()));
    rustix::net::connect(&socket, &address.map_err(failed)?).map_err(failed)?;
    Ok(socket)
}
