//! What fuzzing and its seeds try: bytes as a request, and as lines of a console.

use netloom_vde::console::{self, Line};
use netloom_vde::request::{self, Request};

/// Reads bytes as both.
pub(crate) fn run(bytes: &[u8]) {
    if let Ok(found) = Request::read(bytes) {
        assert!(found.path.starts_with(b"/") && found.path.len() <= request::PATH);
        assert!(!found.description.chars().any(char::is_control));
        // A path without an end fits no address.
        if found.path.len() < request::PATH {
            let again = Request::read(&found.write()).expect("what is written is read");
            assert_eq!((again.port, &again.path), (found.port, &found.path));
        }
    }
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Line::Wrong(answer) = console::read(line) {
            let text = answer.to_string();
            let last = text.lines().last().expect("a line");
            assert!(last.starts_with("1022 ") || last.starts_with("1038 "), "{text}");
        }
    }
}
