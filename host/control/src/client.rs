//! A connection to a process: asks, and waits for answers.

use std::borrow::Cow;
use std::io::{Error, ErrorKind};
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use netloom_sys::process::wait_readable;
use netloom_sys::{Failure, scm};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, geteuid};

use crate::envelope::Received;
use crate::{Fault, PATIENCE, Protocol, Trust, unexpected};

/// A connection to a process.
#[derive(Debug)]
pub struct Client<P> {
    socket: OwnedFd,
    patience: Option<Duration>,
    /// The socket in failures.
    object: Cow<'static, str>,
    /// Requests whose answers have not been received.
    unanswered: AtomicUsize,
    /// A wait was too long: an answer may still come that nobody waits for, and would be taken for that of the next
    /// request.
    is_late: AtomicBool,
    protocol: PhantomData<fn() -> P>,
}

impl<P: Protocol> Client<P> {
    /// Connects to the socket at `path`. `Ok(None)` if nobody listens.
    ///
    /// # Errors
    /// [`Fault::Failed`] if the system refuses or nobody accepts in [`PATIENCE`]; [`Fault::Stranger`] if another user
    /// listens.
    pub fn open(path: &Path) -> Result<Option<Self>, P::Error> {
        Ok(Client::open_as(P::OBJECT, path, PATIENCE)?)
    }

    /// [`Client::open`], with the name of the socket in failures, and the time to take a connection or a request.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn open_as(
        object: impl Into<Cow<'static, str>>,
        path: &Path,
        patience: Duration,
    ) -> Result<Option<Self>, Fault> {
        let object = object.into();
        let fail = |e: Errno| Failure::new(&*object, "connect", e);
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None);
        let socket = socket.map_err(fail)?;
        set_socket_timeout(&socket, Timeout::Send, Some(patience)).map_err(fail)?;
        let address = SocketAddrUnix::new(path).map_err(fail)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
            // The backlog was full for as long as the socket may wait to send (unix(7)).
            Err(Errno::AGAIN) => return Err(late::<P>(&object, "connect", None, patience).into()),
            Err(e) => return Err(fail(e).into()),
        }
        if P::TRUST == Trust::UserAndRoot {
            let peer = scm::peer_uid(&socket)
                .map_err(|e| Failure::new(&*object, "read the listener's credentials", e))?;
            let own = geteuid().as_raw();
            if own != 0 && peer != own {
                return Err(Fault::Stranger(peer));
            }
        }
        let (unanswered, is_late) = (AtomicUsize::new(0), AtomicBool::new(false));
        let patience = P::PATIENCE;
        Ok(Some(Client { socket, patience, object, unanswered, is_late, protocol: PhantomData }))
    }

    /// Limits the wait for each answer from now on.
    #[must_use]
    pub fn within(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// The listening process in this PID namespace; `None` if it is not visible.
    pub fn process(&self) -> Option<Pid> {
        scm::peer_pid(&self.socket)
    }

    /// Sends a request with descriptors and waits for the answer. After a wait that was too long every further request
    /// fails at once until that answer is there, which is discarded.
    ///
    /// # Errors
    /// [`Fault::Refused`] if the process refuses; [`Fault::Ended`] if it ended instead; [`Fault::Failed`] and
    /// [`Fault::Message`] for other failures.
    pub fn ask(
        &self,
        request: &P::Request,
        with: &[BorrowedFd<'_>],
    ) -> Result<P::Answer, P::Error> {
        self.send(request, with)?;
        self.answer()
    }

    /// [`Client::ask`] for a request whose answer is only that it is done.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn order(&self, request: &P::Request, with: &[BorrowedFd<'_>]) -> Result<(), P::Error> {
        let answer = self.ask(request, with)?;
        if P::is_done(&answer) { Ok(()) } else { Err(unexpected(&answer).into()) }
    }

    /// Sends a request without waiting for an answer.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn send(&self, request: &P::Request, with: &[BorrowedFd<'_>]) -> Result<(), P::Error> {
        self.discard_late_answers()?;
        let number = |e: Errno| Some(e.raw_os_error());
        match P::FORM.send(&self.object, &self.socket, request, with) {
            Ok(()) => {
                self.unanswered.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(e) if e.raw_os_error() == number(Errno::PIPE) => Err(Fault::Ended.into()),
            Err(e) if e.raw_os_error() == number(Errno::AGAIN) => {
                Err(self.late("send a message", PATIENCE).into())
            }
            Err(e) => Err(Fault::from(e).into()),
        }
    }

    /// Discards answers that came after the wait for them was over, so that the next one is that of the next request.
    fn discard_late_answers(&self) -> Result<(), Fault> {
        if !self.is_late.load(Ordering::Relaxed) {
            return Ok(());
        }
        while self.unanswered.load(Ordering::Relaxed) > 0 {
            if !wait_readable(&self.socket, Duration::ZERO) {
                return Err(self.late("ask", self.patience.unwrap_or(PATIENCE)));
            }
            self.receive()?.ok_or(Fault::Ended)?;
        }
        Ok(())
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn answer(&self) -> Result<P::Answer, P::Error> {
        Ok(self.answer_within(self.patience)?)
    }

    /// Waits for an answer at most this long; `None`: however long it takes.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn answer_within(&self, patience: Option<Duration>) -> Result<P::Answer, Fault> {
        if let Some(patience) = patience.filter(|patience| !wait_readable(&self.socket, *patience))
        {
            self.is_late.store(true, Ordering::Relaxed);
            return Err(self.late("wait for an answer", patience));
        }
        match self.receive()? {
            Some(answer) => P::judge(answer).map_err(Fault::Refused),
            None => Err(Fault::Ended),
        }
    }

    /// The next answer; `None` if the process has ended.
    fn receive(&self) -> Result<Option<P::Answer>, Fault> {
        let received = P::FORM.receive(&self.object, &self.socket)?;
        let left = self.unanswered.load(Ordering::Relaxed).saturating_sub(1);
        self.unanswered.store(left, Ordering::Relaxed);
        if left == 0 {
            self.is_late.store(false, Ordering::Relaxed);
        }
        match received {
            Received::Value(answer, _) => Ok(Some(answer)),
            Received::Malformed(reason) => Err(Fault::Message(reason)),
            Received::Ended => Ok(None),
        }
    }

    fn late(&self, operation: &'static str, patience: Duration) -> Fault {
        late::<P>(&self.object, operation, self.process(), patience).into()
    }
}

/// The failure of a process that takes or answers nothing, and what to do about it.
fn late<P: Protocol>(
    object: &str,
    operation: &'static str,
    process: Option<Pid>,
    patience: Duration,
) -> Failure {
    let process = process.map(Pid::as_raw_nonzero);
    let who = process.map_or_else(|| "its process".into(), |pid| format!("process {pid}"));
    let mut words = format!("{who} has not answered for {patience:?}");
    if let Some(pid) = process {
        words += &format!("; `kill -CONT {pid}` continues it if it is stopped");
        if P::IS_REPLACED {
            words +=
                &format!(", `kill -KILL {pid}` ends it if it hangs, and the lab starts another");
        }
    }
    Failure::new(object, operation, Error::new(ErrorKind::TimedOut, words))
}

impl<P> AsFd for Client<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
