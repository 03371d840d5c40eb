//! Starts this test executable again for one function: processes that tests kill, limit or trace.
//!
//! The function is an ignored `#[test]` whose reason begins with `helper:`, so that it is neither run nor
//! counted by itself. It is named by its item and not by a text, so it may move.

use std::process::Command;

use crate::test_name;

/// A command that runs only `helper` in a new process: `again(&holds_the_lock).env(…).spawn()`.
///
/// # Panics
/// The path of this executable is unknown.
pub fn again<T>(helper: &T) -> Command {
    again_by_name(&test_name(helper))
}

/// [`again`] for a test given by its libtest name, as [`test_name`] returns it.
///
/// # Panics
/// The path of this executable is unknown.
pub fn again_by_name(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    // libtest would keep what the function prints until it ends, which a killed one never does.
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
