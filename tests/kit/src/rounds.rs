//! How often an attack is made: a few times in every run of the tests, many in a long one.

/// How often to do what is done `usual` times in an ordinary run: as many times as often as `NETLOOM_ROUNDS` says
/// (`cargo xtask test attack --rounds N`).
///
/// # Panics
/// When that is no number.
pub fn rounds(usual: u32) -> u32 {
    let times = std::env::var("NETLOOM_ROUNDS");
    let times = times.map_or(1, |text| text.parse().expect("NETLOOM_ROUNDS is a number"));
    usual.saturating_mul(times).max(1)
}

/// Tells how often something was done; the long run shows it.
pub fn done(what: &str, times: impl std::fmt::Display) {
    println!("{DONE}{times} {what}");
}

/// What the lines of [`done`] begin with.
pub(crate) const DONE: &str = "done: ";
