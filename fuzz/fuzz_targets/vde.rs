//! What clients of classic VDE send: the request by which they join, and what is typed at the console.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../core/vde/tests/script.rs"]
mod script;

fuzz_target!(|bytes: &[u8]| script::run(bytes));
