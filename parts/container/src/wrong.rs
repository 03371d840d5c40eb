//! The fault of an archive's entry.

use std::io;

use rustix::io::Errno;

/// The fault of an entry: a step and its cause.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) step: &'static str,
    pub(crate) why: String,
    /// The entry, if the archive's reader names it.
    pub(crate) entry: Option<String>,
    /// Whether this machine lacks something, so that the same entry may succeed later.
    pub(crate) is_machines: bool,
}

/// Errors that say nothing about an entry: no room, no rights, a broken disk or file system.
const MACHINES: [Errno; 12] = [
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::IO,
    Errno::NOMEM,
    Errno::MFILE,
    Errno::NFILE,
    Errno::ROFS,
    Errno::PERM,
    Errno::ACCESS,
    Errno::UCLEAN,
    Errno::BADMSG,
    Errno::STALE,
];

impl Wrong {
    pub(crate) fn new(step: &'static str, why: impl Into<String>) -> Wrong {
        Wrong { step, why: why.into(), entry: None, is_machines: false }
    }

    pub(crate) fn of(step: &'static str) -> impl Fn(Errno) -> Wrong {
        move |e| Wrong::at(step, &e.into())
    }

    /// The same of a call of the standard library.
    pub(crate) fn at(step: &'static str, e: &io::Error) -> Wrong {
        let is_machines = Errno::from_io_error(e).is_some_and(|e| MACHINES.contains(&e));
        Wrong { is_machines, ..Wrong::new(step, e.to_string()) }
    }
}

impl From<io::Error> for Wrong {
    fn from(e: io::Error) -> Wrong {
        Wrong::at("read", &e)
    }
}

impl From<netloom_oci::Error> for Wrong {
    fn from(e: netloom_oci::Error) -> Wrong {
        match e {
            netloom_oci::Error::Entry { entry, why } => {
                Wrong { entry: Some(entry), ..Wrong::new("read", why) }
            }
            other => Wrong::new("read", other.to_string()),
        }
    }
}

pub(crate) type Done<T = ()> = std::result::Result<T, Wrong>;
