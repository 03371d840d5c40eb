//! What is wrong with an entry of an archive.

use std::io;

use rustix::io::Errno;

/// What is wrong with an entry: a step and its cause.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) step: &'static str,
    pub(crate) why: String,
    /// The entry, if the archive's reader names it.
    pub(crate) entry: Option<String>,
}

impl Wrong {
    pub(crate) fn new(step: &'static str, why: impl Into<String>) -> Wrong {
        Wrong { step, why: why.into(), entry: None }
    }

    pub(crate) fn of(step: &'static str) -> impl Fn(Errno) -> Wrong {
        move |e| Wrong::new(step, io::Error::from(e).to_string())
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
