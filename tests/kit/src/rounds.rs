//! How often an attack runs: a few times in every test run, many times in a long one.

/// Repetitions of an attack: `usual` in an ordinary run, multiplied by `NETLOOM_ROUNDS`
/// (`cargo xtask test attack --rounds N`).
///
/// # Panics
/// `NETLOOM_ROUNDS` is not a number.
pub fn rounds(usual: u32) -> u32 {
    let times = std::env::var("NETLOOM_ROUNDS");
    let times = times.map_or(1, |text| text.parse().expect("NETLOOM_ROUNDS is a number"));
    usual.saturating_mul(times).max(1)
}

/// Reports how often something was done; the long run shows it.
pub fn done(what: &str, times: impl std::fmt::Display) {
    println!("{DONE}{times} {what}");
}

/// Prefix of the lines of [`done`].
pub(crate) const DONE: &str = "done: ";
