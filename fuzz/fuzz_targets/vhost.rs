//! A hostile front end of a virtual machine's card, and its guest: each call ends, nothing beyond the shared memory is
//! written, no descriptor stays open, and the next front end is served.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../host/vhost/tests/script/mod.rs"]
mod script;

fuzz_target!(|bytes: &[u8]| script::run(bytes));
