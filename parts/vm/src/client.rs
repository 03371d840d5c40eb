//! Clients of a machine's process, run in its node: the console, programs in the guest, and control.

use std::io::{IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use netloom_sys::terminal::Raw;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use crate::error::failed;
use crate::frames::{Exec, Frame, HEADER, Kind, MOST, Stream};
use crate::queue::Queue;
use crate::spec::SOCKET;
use crate::{Error, Result};

/// The key that leaves a console: Ctrl-].
const LEAVE: u8 = 0x1d;

/// Connects this process's terminal with the machine's console, until Ctrl-] or the machine's end.
///
/// # Errors
/// There is no machine, or the connection breaks.
pub fn console() -> Result<i32> {
    let socket = connect()?;
    send(&socket, &Frame::new(Kind::Console, 0, &[]))?;
    let stdin = std::io::stdin();
    let raw = Raw::set(stdin.as_fd());
    if raw.is_some() {
        let _ = writeln!(std::io::stderr(), "[console: Ctrl-] leaves it]\r");
    }
    // A pipe may carry this byte as data.
    let leave = stdin.is_terminal().then_some(LEAVE);
    talk(&socket, leave, u64::MAX).map(|code| code.unwrap_or(0))
}

/// Runs a program in the guest, with this process's input and at most this many bytes of output; returns its exit status.
///
/// # Errors
/// There is no machine, its guest has no agent, more bytes come, or the connection breaks.
pub fn exec(argv: Vec<String>, most: u64) -> Result<i32> {
    let socket = connect()?;
    // The guest has an environment of its own; only this variable is about the caller's terminal.
    let env = std::env::vars().filter(|(name, _)| name == "TERM").collect();
    let no_input = std::io::stdin().is_terminal();
    let request =
        serde_json::to_vec(&Exec { argv, env, no_input }).map_err(failed("program", "describe"))?;
    if request.len() > MOST {
        return Err(Error::Refused("the command is too long".to_owned()));
    }
    send(&socket, &Frame::new(Kind::Exec, 0, &request))?;
    talk(&socket, None, most)?
        .ok_or_else(|| Error::Refused("it ended before the program".to_owned()))
}

/// Asks for something to be done with the machine: `pause`, `resume`, `save` or `restore`.
///
/// # Errors
/// There is no machine, or it refuses.
pub fn control(word: &str) -> Result<i32> {
    let socket = connect()?;
    send(&socket, &Frame::new(Kind::Control, 0, word.as_bytes()))?;
    let code = talk(&socket, None, u64::MAX)?;
    code.ok_or_else(|| Error::Refused("it ended meanwhile".to_owned()))
}

fn connect() -> Result<OwnedFd> {
    let object = "machine";
    let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = rustix::net::socket_with(unix, kind, SocketFlags::CLOEXEC, None)
        .map_err(failed(object, "make a socket for"))?;
    let address = SocketAddrUnix::new_abstract_name(SOCKET.as_bytes())
        .map_err(failed(object, "name the socket of"))?;
    rustix::net::connect(&socket, &address)
        .map_err(|_| Error::Refused("it does not run".to_owned()))?;
    Ok(socket)
}

fn send(socket: &OwnedFd, frame: &Frame) -> Result<()> {
    // A machine that ends must not end this process by SIGPIPE.
    let sent = rustix::net::send(socket, &frame.encode(), SendFlags::NOSIGNAL);
    sent.map(drop).map_err(failed("machine", "ask"))
}

/// Carries input, and output up to this many bytes, until the machine's process has said how it ends; `None` if the
/// connection ended first, or `leave` was typed.
fn talk(socket: &OwnedFd, leave: Option<u8>, most: u64) -> Result<Option<i32>> {
    let mut left = most;
    // A program may write before it reads on: input that is not taken must not keep its output from being heard.
    rustix::io::ioctl_fionbio(socket, true).map_err(failed("machine", "talk to"))?;
    let stdin = std::io::stdin();
    let mut input_open = true;
    let mut typed_before = Queue::default();
    loop {
        let waits = !typed_before.is_empty();
        let mut wanted = PollFlags::IN;
        wanted.set(PollFlags::OUT, waits);
        let mut fds = vec![PollFd::new(socket, wanted)];
        // What was typed before goes first; without room nothing more is read.
        if input_open && !waits {
            fds.push(PollFd::new(&stdin, PollFlags::IN));
        }
        // Interrupted, it looks at both again.
        let _ = rustix::event::poll(&mut fds, None);
        let typed = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        if fds[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
            && let Some(end) = hear(socket, &mut left)?
        {
            return Ok(end);
        }
        if typed {
            let mut buffer = [0; 4096];
            let count = stdin.lock().read(&mut buffer).unwrap_or(0);
            let data = buffer.get(..count).unwrap_or(&[]);
            if leave.is_some_and(|key| data.contains(&key)) {
                return Ok(None);
            }
            input_open = count > 0;
            typed_before.push(Frame::new(Kind::Input, 0, data).encode());
        }
        typed_before.flush(socket);
    }
}

/// Handles one message: `Some` if the conversation has ended, with the exit status if there is one. `left` is what may
/// still be written.
fn hear(socket: &OwnedFd, left: &mut u64) -> Result<Option<Option<i32>>> {
    let mut buffer = vec![0; HEADER + MOST];
    let count = match rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()) {
        Ok((count, _)) => count,
        Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return Ok(None),
        Err(_) => 0,
    };
    if count == 0 {
        return Ok(Some(None));
    }
    let mut stream = Stream::default();
    stream.push(buffer.get(..count).unwrap_or(&[]));
    let frame = stream.next().map_err(|why| Error::Refused(format!("it sent {why}")))?;
    let Some(frame) = frame else { return Ok(None) };
    match frame.kind {
        Kind::Output => {
            *left = left.checked_sub(frame.data.len() as u64).ok_or_else(|| {
                Error::Refused("its program writes more bytes than there is room for".to_owned())
            })?;
            show(std::io::stdout().lock(), &frame.data)?;
        }
        Kind::Errors => show(std::io::stderr().lock(), &frame.data)?,
        Kind::Exit => {
            let code = frame.data.first_chunk::<4>().map(|bytes| i32::from_le_bytes(*bytes));
            return Ok(Some(Some(code.unwrap_or(1))));
        }
        Kind::Done => return Ok(Some(Some(0))),
        Kind::Refused => {
            return Err(Error::Refused(String::from_utf8_lossy(&frame.data).into_owned()));
        }
        _ => {}
    }
    Ok(None)
}

fn show(mut to: impl Write, data: &[u8]) -> Result<()> {
    to.write_all(data).and_then(|()| to.flush()).map_err(failed("output", "write"))
}
