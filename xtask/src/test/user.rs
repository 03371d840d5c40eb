//! The users that tests run as, and the caller's rights.

/// The user that a test executable runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum User {
    /// The caller, with all its rights: for tests that touch no kernel object.
    Caller,
    /// A user without privileges.
    Ordinary,
    /// Root.
    Root,
}

/// How to become root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// The caller is root.
    Root,
    /// Through sudo.
    Sudo,
    /// Not possible.
    NoRoot,
}
