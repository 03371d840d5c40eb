//! Client side of the socket for descriptors.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use netloom_node::entry::Entry;
use netloom_sys::scm;
use netloom_sys::{Failure, cgroup::Join};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::SocketType;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::handles::{Ask, MAX_ASK, MAX_REPLY, Reply};
use crate::{Error, HANDLES_SOCKET, Result, socket};

/// Limit on a step of the exchange, and on an answer of a lab process, which may be watched meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);
const MOST: Duration = Duration::from_secs(60);

/// Interval between checks for a slow answer.
const LOOK: Duration = Duration::from_millis(20);

/// A pending question to the lab process.
pub(crate) struct Asked {
    path: PathBuf,
    connection: OwnedFd,
    /// The requested object.
    named: String,
}

/// Asks the lab in `folder` for a node or its core namespace, and passes descriptors.
pub(crate) fn ask(folder: &Path, question: &Ask, given: &[BorrowedFd<'_>]) -> Result<Asked> {
    let path = folder.join(HANDLES_SOCKET);
    let connection = socket::connect(&path, SocketType::SEQPACKET)?
        .ok_or_else(|| Error::NotRunning(folder.to_owned()))?;
    for direction in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&connection, direction, Some(PATIENCE))
            .map_err(|e| Failure::path(&path, "set a timeout", e))?;
    }
    let named = question.node.clone().unwrap_or_else(|| "(core)".to_owned());
    let asked = Asked { path, connection, named };
    let bytes = serde_json::to_vec(question).map_err(|e| Failure::path(&asked.path, "ask", e))?;
    if bytes.len() > MAX_ASK {
        let error = format!("node: a name of {} bytes is not in any lab", asked.named.len());
        return Err(Error::Refused { status: 404, error });
    }
    scm::send(&asked.connection, &bytes, given).map_err(|e| asked.failed(e))?;
    Ok(asked)
}

impl Asked {
    /// Whether an answer, or the end of the connection, arrives within this time.
    pub(crate) fn is_answered(&self, within: Duration) -> bool {
        let within = Timespec::try_from(within).ok();
        let mut watched = [PollFd::new(&self.connection, PollFlags::IN)];
        rustix::event::poll(&mut watched, within.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// It does not arrive in time.
    pub(crate) async fn answered(&self) -> Result<()> {
        let until = Instant::now() + MOST;
        while !self.is_answered(Duration::ZERO) {
            if Instant::now() >= until {
                return Err(self.late(MOST));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// The entry, if the question asked for one.
    pub(crate) fn entry(self) -> Result<Entry> {
        match self.read()? {
            (
                Reply::Entry {
                    node,
                    user,
                    own_user,
                    env,
                    tasks,
                    v2,
                    nested,
                    privileged,
                    users,
                    by_init,
                    machine,
                },
                fds,
            ) => {
                let (init, groups) = sort(fds, tasks, v2)
                    .ok_or_else(|| self.wrong("the descriptors are not those it tells of"))?;
                Ok(Entry {
                    node,
                    init,
                    groups,
                    user,
                    own_user,
                    env,
                    nested,
                    privileged,
                    users,
                    by_init,
                    machine,
                })
            }
            _ => Err(self.wrong("it is none for this question")),
        }
    }

    /// Whether the lab passed the descriptors on, if the question asked for that.
    pub(crate) fn passed(self) -> Result<()> {
        match self.read()? {
            (Reply::Passed, _) => Ok(()),
            _ => Err(self.wrong("it is none for this question")),
        }
    }

    /// The answer with its descriptors, unless it is a refusal.
    fn read(&self) -> Result<(Reply, Vec<OwnedFd>)> {
        // One byte above the limit reveals a message that was cut.
        let mut buffer = vec![0; MAX_REPLY + 1];
        let (received, fds) = match scm::receive(&self.connection, &mut buffer) {
            Ok((0, _)) => {
                return Err(Error::Closed { request: self.request(), path: self.path.clone() });
            }
            Ok(received) => received,
            Err(e) => return Err(self.failed(e)),
        };
        match serde_json::from_slice(&buffer[..received]) {
            Ok(Reply::Refused { status, error }) => Err(Error::Refused { status, error }),
            Ok(reply) => Ok((reply, fds)),
            Err(e) => Err(self.wrong(&e.to_string())),
        }
    }

    fn request(&self) -> String {
        format!("the question for node {:?}", self.named)
    }

    fn late(&self, after: Duration) -> Error {
        let (path, request) = (self.path.clone(), self.request());
        Error::Late { path, request, seconds: after.as_secs() }
    }

    fn failed(&self, error: netloom_sys::Error) -> Error {
        let kind = error.raw_os_error().map(|n| io::Error::from_raw_os_error(n).kind());
        let (path, request) = (self.path.clone(), self.request());
        match kind {
            // A timeout of the socket comes as EAGAIN (socket(7)).
            Some(io::ErrorKind::WouldBlock) => self.late(PATIENCE),
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
                Error::Closed { path, request }
            }
            _ => Error::system(path, "ask")(error).into(),
        }
    }

    fn wrong(&self, what: &str) -> Error {
        Error::Answer { path: self.path.clone(), request: self.request(), what: what.to_owned() }
    }
}

/// Assigns descriptors to their purposes; `None` if their number does not match.
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
