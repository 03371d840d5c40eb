//! A slicer in a process of its own: what the other tests start, and kill.

use std::path::Path;
use std::process::Command;

use netloom_slice::{control, serve};

const FOLDER: &str = "NETLOOM_TEST_SLICE_FOLDER";
const APPLICATION: &str = "NETLOOM_TEST_SLICE_APPLICATION";

/// A command for one.
pub fn command(folder: &Path, application: &str) -> Command {
    let mut command = netloom_kit::again(&slicer);
    command.env(FOLDER, folder).env(APPLICATION, application);
    command
}

#[test]
#[ignore = "helper: started by other tests"]
fn slicer() {
    let folder = std::env::var(FOLDER).expect("a folder");
    let folder = Path::new(&folder);
    let application = std::env::var(APPLICATION).expect("what it is told");
    let application = serde_json::from_str(&application).expect("what it is told");
    let listener = control::listen(&folder.join("control")).expect("listen");
    serve(listener, folder, &application).expect("serve");
}
