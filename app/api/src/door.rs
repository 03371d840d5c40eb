//! The caller's side of the descriptors' socket.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_node::entry::Door;
use netloom_sys::cgroup::Join;
use netloom_sys::scm;
use rustix::net::SocketType;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::handles::{Ask, MAX_ASK, MAX_REPLY, Reply};
use crate::{Error, HANDLES_SOCKET, Result, socket};

/// How long the lab process may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks the lab in `folder` for what is needed to enter a node, or its core namespace.
pub(crate) fn open(folder: &Path, node: Option<&str>) -> Result<Door> {
    match exchange(folder, &Ask { node: node.map(str::to_owned), run: false }, &[])? {
        (path, Reply::Door { node, user, env, tasks, v2, nested, privileged, by_init }, fds) => {
            let (init, groups) = sort(fds, tasks, v2)
                .ok_or_else(|| answer(&path, &node, "the descriptors are not those it tells of"))?;
            Ok(Door { node, init, groups, user, env, nested, privileged, by_init })
        }
        (path, ..) => Err(answer(&path, node.unwrap_or("(core)"), "it is none for this question")),
    }
}

/// Passes descriptors on to a node's init, which starts a program with them.
pub(crate) fn run_in(folder: &Path, node: &str, fds: &[BorrowedFd<'_>]) -> Result<()> {
    match exchange(folder, &Ask { node: Some(node.to_owned()), run: true }, fds)? {
        (_, Reply::Passed, _) => Ok(()),
        (path, ..) => Err(answer(&path, node, "it is none for this question")),
    }
}

/// Asks and gives the answer with its descriptors, if it is no refusal.
fn exchange(
    folder: &Path,
    question: &Ask,
    given: &[BorrowedFd<'_>],
) -> Result<(PathBuf, Reply, Vec<OwnedFd>)> {
    let path = folder.join(HANDLES_SOCKET);
    let connection = socket::connect(&path, SocketType::SEQPACKET)?
        .ok_or_else(|| Error::NotRunning(folder.to_owned()))?;
    for direction in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&connection, direction, Some(PATIENCE))
            .map_err(Error::socket(&path, "set a timeout"))?;
    }
    match ask(&path, &connection, question, given)? {
        (Reply::Refused { status, error }, _) => Err(Error::Refused { status, error }),
        (reply, fds) => Ok((path, reply, fds)),
    }
}

fn ask(
    path: &Path,
    connection: &OwnedFd,
    question: &Ask,
    given: &[BorrowedFd<'_>],
) -> Result<(Reply, Vec<OwnedFd>)> {
    let named = question.node.as_deref().unwrap_or("(core)");
    let request = || format!("the question for node {named:?}");
    let bytes = serde_json::to_vec(question)
        .map_err(|e| Error::socket::<io::Error>(path, "ask")(e.into()))?;
    if bytes.len() > MAX_ASK {
        let error = format!("node: a name of {} bytes is not in any lab", named.len());
        return Err(Error::Refused { status: 404, error });
    }
    let mut buffer = vec![0; MAX_REPLY + 1];
    let exchanged =
        scm::send(connection, &bytes, given).and_then(|_| scm::receive(connection, &mut buffer));
    let (received, fds) = match exchanged {
        Ok((0, _)) => return Err(Error::Closed { path: path.to_owned(), request: request() }),
        Ok(received) => received,
        Err(e) => return Err(failed(path, request(), e)),
    };
    serde_json::from_slice(&buffer[..received])
        .map(|reply| (reply, fds))
        .map_err(|e| answer(path, named, &e.to_string()))
}

fn failed(path: &Path, request: String, error: netloom_sys::Error) -> Error {
    let kind = error.raw_os_error().map(|n| io::Error::from_raw_os_error(n).kind());
    let path = path.to_owned();
    match kind {
        Some(io::ErrorKind::WouldBlock) => {
            Error::Late { path, request, seconds: PATIENCE.as_secs() }
        }
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
            Error::Closed { path, request }
        }
        _ => Error::system(path, "ask")(error),
    }
}

/// Descriptors by their meaning; `None` when their number is not the one told.
fn sort(fds: Vec<OwnedFd>, tasks: usize, v2: bool) -> Option<(OwnedFd, Join)> {
    let told = tasks.checked_add(1)?.checked_add(usize::from(v2))?;
    if fds.len() != told {
        return None;
    }
    let mut fds = fds.into_iter();
    let init = fds.next()?;
    let tasks = fds.by_ref().take(tasks).collect();
    Some((init, Join { tasks, v2: fds.next() }))
}

fn answer(path: &Path, node: &str, what: &str) -> Error {
    Error::Answer {
        path: path.to_owned(),
        request: format!("the question for node {node:?}"),
        what: what.to_owned(),
    }
}
