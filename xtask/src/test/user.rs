//! As whom tests run, and what the caller may do.

/// Whom a test executable runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// The one who called, with all rights that one has: for tests that touch no kernel object.
    Caller,
    /// One without any privilege.
    Ordinary,
    /// Root.
    Root,
}

/// How root is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    /// The caller is root.
    Root,
    /// By sudo.
    Sudo,
    /// Not at all.
    NoRoot,
}
