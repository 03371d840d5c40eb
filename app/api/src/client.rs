//! Client for calls to a running lab from another process.
//!
//! Calls block. They run on a runtime inside the calling thread and start no thread, so that the caller may
//! fork afterwards. Each call uses its own connection, so it notices a lab that ended or restarted since the
//! last call. A call ends by its timeout or with the lab process. The exchange itself is in `exchange`.

mod exchange;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use netloom_lab::call::{Call, Takes};
use netloom_node::entry::Entry;
use netloom_sys::{Failure, process, scm};
use tokio::runtime::{Builder, Runtime};

use crate::entry::Asked;
use crate::handles::Ask;
use crate::{API_SOCKET, Result, entry};

/// Timeout of quick calls.
const QUICK: Duration = Duration::from_secs(60);

/// Timeout of calls that make or remove objects, or test everything.
const WHOLE: Duration = Duration::from_secs(600);

/// Timeout of taking a lab down; after that it is taken down without the lab process.
const DOWN: Duration = Duration::from_secs(120);

/// Delay before the first check whether the lab process answers at all, and between checks.
const LOOK: Duration = Duration::from_millis(500);

/// How long a lab process may answer nothing at all: a stopped one, and any other.
const STOPPED: Duration = Duration::from_secs(3);
const SILENT: Duration = Duration::from_secs(30);

/// A running lab.
#[derive(Debug)]
pub struct Client {
    folder: PathBuf,
    socket: PathBuf,
    /// Made by the first call over HTTP; entering a node needs none.
    runtime: OnceLock<Runtime>,
    bounded: bool,
    /// The longest that any call waits, if shorter than usual.
    most: Option<Duration>,
    tell: Option<fn(Option<i32>)>,
}

impl Client {
    /// A client of the lab whose state is in `folder`, after checking that it listens.
    ///
    /// # Errors
    /// [`crate::Error::NotRunning`] when nobody listens there, [`crate::Error::Stranger`] when another user does.
    pub fn connect(folder: &Path) -> Result<Client> {
        let path = folder.join(API_SOCKET);
        drop(Self::open(folder, &path)?);
        let runtime = OnceLock::new();
        Ok(Client {
            folder: folder.to_owned(),
            socket: path,
            runtime,
            bounded: true,
            most: None,
            tell: None,
        })
    }

    fn runtime(&self) -> Result<&Runtime> {
        if let Some(made) = self.runtime.get() {
            return Ok(made);
        }
        let made = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::of("client", "make runtime"))?;
        Ok(self.runtime.get_or_init(|| made))
    }

    /// Makes the client check during calls whether the lab process answers at all. After about a second of
    /// silence it calls `tell` with the process's pid, if visible; later the call ends with
    /// [`crate::Error::Silent`].
    pub fn telling(mut self, tell: fn(Option<i32>)) -> Client {
        self.tell = Some(tell);
        self
    }

    /// Makes calls wait as long as the lab process lives.
    pub fn without_timeout(mut self) -> Client {
        self.bounded = false;
        self
    }

    /// Makes calls wait at most this long.
    pub fn waiting(mut self, most: Duration) -> Client {
        self.most = Some(most);
        self
    }

    /// A pidfd of the lab process, to wait for its end; `None` when the process is not visible from here or
    /// has just ended.
    ///
    /// # Errors
    /// [`crate::Error::NotRunning`] when nobody listens.
    pub fn process(&self) -> Result<Option<OwnedFd>> {
        let socket = Self::open(&self.folder, &self.socket)?;
        Ok(scm::peer_pid(&socket).and_then(|pid| process::pidfd(pid).ok()))
    }

    /// Asks a call of the lab, and waits for its answer.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with the status that the document says: 404 where something is not there, 409 where it is
    /// not as it would have to be, 400 where a value cannot be used.
    pub fn call<C: Call>(&self, call: &C) -> Result<C::Answer> {
        let patience = match C::OPERATION.takes {
            Takes::Moments | Takes::Asking => QUICK,
            Takes::Long => WHOLE,
            Takes::Last => DOWN,
        };
        // A call that waits for something has its time for that beside the time for the work.
        let patience = patience + call.also_takes() + call.waits().unwrap_or_default();
        let patience = self.most.map_or(patience, |most| patience.min(most));
        self.json(&exchange::Call::of(call, patience))
    }

    /// The entry to a node: everything needed to enter it.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 404 when there is no such node, 409 when its init has ended.
    pub fn entry(&self, node: &str) -> Result<Entry> {
        let question = Ask { node: Some(node.to_owned()), run: false };
        self.ask(&question, &[])?.entry()
    }

    /// Passes descriptors to the init of a node, which starts a program with them
    /// ([`netloom_node::by_init::Call`]).
    ///
    /// # Errors
    /// As [`Client::entry`].
    pub fn run_in(&self, node: &str, fds: &[BorrowedFd<'_>]) -> Result<()> {
        let question = Ask { node: Some(node.to_owned()), run: true };
        self.ask(&question, fds)?.passed()
    }

    /// The entry to the core namespace, which contains the ports of switches.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with status 409 from inside a node.
    pub fn core(&self) -> Result<Entry> {
        self.ask(&Ask { node: None, run: false }, &[])?.entry()
    }

    /// If this takes long, checks whether the lab process answers at all, as every call does.
    fn ask(&self, question: &Ask, given: &[BorrowedFd<'_>]) -> Result<Asked> {
        let asked = entry::ask(&self.folder, question, given)?;
        // Most answers come at once; only a slow one is worth a runtime.
        if !asked.is_answered(LOOK) {
            self.runtime()?.block_on(async {
                tokio::select! {
                    answered = asked.answered() => answered,
                    silent = self.watch() => Err(silent),
                }
            })?;
        }
        Ok(asked)
    }
}
