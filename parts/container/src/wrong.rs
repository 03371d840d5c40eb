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

/// Errors that say nothing about an entry: no room, no rights, a broken disk.
const MACHINES: [Errno; 9] = [
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::IO,
    Errno::NOMEM,
    Errno::MFILE,
    Errno::NFILE,
    Errno::ROFS,
    Errno::PERM,
    Errno::ACCESS,
];

impl Wrong {
    pub(crate) fn new(step: &'static str, why: impl Into<String>) -> Wrong {
        Wrong { step, why: why.into(), entry: None, is_machines: false }
    }

    pub(crate) fn of(step: &'static str) -> impl Fn(Errno) -> Wrong {
        move |e| Wrong {
            is_machines: MACHINES.contains(&e),
            ..Wrong::new(step, io::Error::from(e).to_string())
        }
    }
}

impl From<io::Error> for Wrong {
    fn from(e: io::Error) -> Wrong {
        Wrong::new("read", e.to_string())
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
