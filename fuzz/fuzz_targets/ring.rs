//! A hostile peer of a ring, an inbox or a page: no panic, nothing beyond the limits, and always
//! either progress, `Empty` or `Corrupt`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../host/shm/tests/ring_script/mod.rs"]
mod ring_script;

fuzz_target!(|bytes: &[u8]| ring_script::run(bytes));
