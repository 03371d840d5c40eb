//! Harness for tests against real kernel objects, each in fresh namespaces of its own.
//!
//! A test in `tests/netns/tests/` has [`isolated!`] as its only statement. The body then runs as (mapped)
//! root in new network, mount and PID namespaces, separate from the machine's, and everything it makes is
//! gone when it ends. Tests of a crate in `host/` or `parts/` go into a file named after the crate. [`ip`]
//! gives a second opinion: iproute2's view of the result.

#![forbid(unsafe_code)]

pub use netloom_kit::{Run, is_root, isolated, program, skip, wait_until};

/// Runs `ip` with these words (split at spaces), asserts success, returns its output.
///
/// # Panics
/// `ip` fails.
pub fn ip(words: &str) -> String {
    Run::new("ip").args(words.split_whitespace()).ok()
}
