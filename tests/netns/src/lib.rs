//! Harness for tests against real kernel objects, each in fresh namespaces of its own.
//!
//! A test in `tests/netns/tests/` has [`isolated!`] as its only statement: the body then runs as
//! (mapped) root in new network, mount and process namespaces, without touching the machine's, and
//! whatever it makes is gone when it ends. The tests of a crate in `host/` or `parts/` go into a file
//! of the crate's name. [`ip`] is the second opinion: what iproute2 sees of what we made.

#![forbid(unsafe_code)]

pub use netloom_kit::{Run, is_root, isolated, program, skip, wait_until};

/// Runs `ip` with these words (split at spaces), asserts success, gives what it printed.
///
/// # Panics
/// When `ip` fails.
pub fn ip(words: &str) -> String {
    Run::new("ip").args(words.split_whitespace()).ok()
}
