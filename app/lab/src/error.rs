//! Failures of a lab, with the object and the operation.

use std::error::Error as StdError;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use netloom_config::printable;
use netloom_model::lookup::LookupError;
use netloom_sys::{Failure, Unsupported};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The object of a failure: what it is, and the text that names it. Each place of a lab calls it by a name of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    kind: &'static str,
    name: String,
    text: String,
}

impl Subject {
    /// An object of the lab, such as a `node`, by its name in the lab.
    pub fn of(kind: &'static str, name: impl Into<String>) -> Subject {
        let name = name.into();
        Subject { kind, text: format!("{kind} {name:?}"), name }
    }

    /// The same, of which a part is meant.
    #[must_use]
    pub fn part(mut self, part: impl fmt::Display) -> Subject {
        self.text += &format!(": {part}");
        self
    }

    /// The kind and the name; `None` for what is not an object of a lab.
    pub fn named(&self) -> Option<(&'static str, &str)> {
        (!self.kind.is_empty()).then_some((self.kind, &self.name))
    }

    /// The same with another name.
    pub(crate) fn called(self, name: String) -> Subject {
        let rest = self.text[format!("{} {:?}", self.kind, self.name).len()..].to_owned();
        let called = Subject::of(self.kind, name);
        Subject { text: called.text + &rest, ..called }
    }
}

impl From<String> for Subject {
    fn from(text: String) -> Subject {
        Subject { kind: "", name: String::new(), text }
    }
}

impl From<&str> for Subject {
    fn from(text: &str) -> Subject {
        text.to_owned().into()
    }
}

impl From<&Subject> for String {
    fn from(subject: &Subject) -> String {
        subject.text.clone()
    }
}

impl Deref for Subject {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A failure of a lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system, the kernel's network or one of the lab's processes refused.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// A node or the spawner failed.
    #[error(transparent)]
    Node(#[from] netloom_node::Error),
    /// An image cannot be brought.
    #[error(transparent)]
    Image(#[from] netloom_container::Error),
    /// An image is not here and cannot be brought, nor perhaps can others.
    #[error(
        "{first}{also}; `netloom image load FILE` takes images from files, and --host-programs runs this machine's \
         programs in a lab of another program"
    )]
    NoImage {
        /// Why the first cannot.
        first: String,
        /// The others that are not here, in words.
        also: String,
    },
    /// This machine or this user lacks something.
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
    /// Others than this user and root can fill or exchange the folder of labs, or a lab's in it.
    #[error("folder of labs {folder:?} is not used: {reason}; {advice}")]
    Untrusted {
        /// The folder of labs.
        folder: PathBuf,
        /// The fault of it, or of one above or in it.
        reason: String,
        /// What to do.
        advice: &'static str,
    },
    /// A file of a lab's folder cannot be read or understood.
    #[error(
        "{file:?} cannot be read: {reason}; `netloom down {lab}` takes the lab down without it"
    )]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
        /// The lab.
        lab: String,
    },
    /// Another process took the lab down while it was made.
    #[error("was taken down while it came up")]
    TakenDown,
    /// The part of a host is made, and that of another could not be, or the driver that brings the lab up has ended.
    #[error("not all hosts made their parts")]
    NotAllReady,
    /// There is no such lab.
    #[error("lab {0:?}: not running")]
    NoLab(String),
    /// A name was not found in the lab.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// An object to remove is still in use.
    #[error("{object}: {reason}")]
    Busy {
        /// The object.
        object: Subject,
        /// Its users.
        reason: String,
    },
    /// Everything of a lab is removed except what a foreign process keeps.
    #[error(
        "process {pid} ({name}) is not the lab's, but in the network of one of its nodes: that stays until it \
         ends; all else of the lab is gone"
    )]
    Visited {
        /// Its process id.
        pid: i32,
        /// Its name.
        name: String,
    },
    /// A setting cannot be used. Paths of a lab file stay on their line.
    #[error("{}: {}", printable::line(object), printable::line(reason))]
    Invalid {
        /// The object of the setting.
        object: Subject,
        /// Why not.
        reason: String,
    },
    /// The node's init has ended.
    #[error("node {0:?}: its init has ended; `netloom up` of the same file recreates it")]
    DeadNode(String),
    /// The request conflicts with the lab's current state.
    #[error("lab {lab:?}: {reason}")]
    Conflict {
        /// The lab.
        lab: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Something else is done to the lab and does not end.
    #[error(
        "lab {lab:?}: something else has been done to it for {seconds} s and does not end; `netloom down` ends the lab \
         process and takes the lab down without it"
    )]
    Stuck {
        /// The lab.
        lab: String,
        /// How long was waited.
        seconds: u64,
    },
    /// A failure in the words of a place inside of the lab.
    #[error("{0}")]
    Told(String),
    /// Several failures; teardown goes on past each.
    #[error("{}", .0.iter().map(|e| netloom_sys::describe(e)).collect::<Vec<_>>().join("\n"))]
    Several(Vec<Error>),
}

impl Error {
    /// The result of work that continues past failures.
    pub(crate) fn of_all(mut failures: Vec<Error>) -> Result<()> {
        match failures.len() {
            0 => Ok(()),
            // One failure keeps its kind, and so its exit code.
            1 => Err(failures.remove(0)),
            _ => Err(Error::Several(failures)),
        }
    }

    /// For `map_err`: a failure of `operation` on `object`. What the machine lacks needs no object.
    pub(crate) fn of<E: Into<Box<dyn StdError + Send + Sync>>>(
        object: impl Into<String>,
        operation: &'static str,
    ) -> impl Fn(E) -> Error {
        let object = object.into();
        move |source| {
            let source = source.into();
            // A lacking feature has an exit code and advice of its own, however deep it is found.
            match Unsupported::behind(&*source) {
                Some(unsupported) => Error::Unsupported(unsupported.clone()),
                None => Failure::new(object.clone(), operation, source).into(),
            }
        }
    }

    /// For `map_err`: a failure at a folder of labs, or in it.
    pub(crate) fn in_runtime(folder: &Path) -> impl Fn(netloom_sys::Error) -> Error {
        move |source| match source {
            netloom_sys::Error::Untrusted { path, reason } => {
                let reason =
                    if path == folder { reason } else { format!("{}: {reason}", path.display()) };
                let advice = match rustix::process::geteuid().is_root() {
                    true => {
                        "set NETLOOM_RUNTIME_DIR to a folder that only root can write to or exchange"
                    }
                    false => {
                        "set NETLOOM_RUNTIME_DIR or XDG_RUNTIME_DIR to a folder that only you can write to or \
                         exchange, or have this one removed"
                    }
                };
                Error::Untrusted { folder: folder.to_owned(), reason, advice }
            }
            netloom_sys::Error::Failed(failure) => failure.into(),
            other => Error::at(folder, "use as folder of labs")(other),
        }
    }

    /// For `map_err`: a failure of `operation` on a path.
    pub(crate) fn at<E: Into<Box<dyn StdError + Send + Sync>>>(
        path: impl AsRef<Path>,
        operation: &'static str,
    ) -> impl Fn(E) -> Error {
        Error::of(format!("{:?}", path.as_ref()), operation)
    }
}

impl From<netloom_sys::Error> for Error {
    fn from(source: netloom_sys::Error) -> Error {
        Error::of("thread", "enter a namespace")(source)
    }
}
