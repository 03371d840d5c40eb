//! This test executable started again for one of its functions: processes that tests kill, limit or trace.
//!
//! The function is a `#[test]` that is ignored, with a reason that begins with `helper:`, so that it is
//! neither run nor counted by itself. It is named by its item and not by a text, and may move.

use std::process::Command;

use crate::test_name;

/// A command that runs only `helper` in a new process: `again(&holds_the_lock).env(…).spawn()`.
///
/// # Panics
/// When the path of this executable is not known.
pub fn again<T>(helper: &T) -> Command {
    again_by_name(&test_name(helper))
}

/// The same for a test that is named as libtest names it, as [`test_name`] gives it.
///
/// # Panics
/// When the path of this executable is not known.
pub fn again_by_name(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command.args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"]);
    command
}

#[cfg(test)]
mod tests {
    const ASKED: &str = "NETLOOM_TEST_AGAIN";

    #[test]
    #[ignore = "helper: started by the test below"]
    fn says_what_it_was_asked() {
        println!("asked {}", std::env::var(ASKED).unwrap());
    }

    #[test]
    fn a_helper_runs_alone_in_a_process_of_its_own() {
        let out = super::again(&says_what_it_was_asked).env(ASKED, "this").output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(text.contains("asked this") && text.contains("1 passed"), "{text}");
    }
}
