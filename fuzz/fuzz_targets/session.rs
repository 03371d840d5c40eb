//! Any body of a measuring session: all that is wrong is told, or what is taken can be run.
#![no_main]

#[path = "../../core/marking/tests/support/outside.rs"]
mod outside;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    outside::try_session(bytes);
});
