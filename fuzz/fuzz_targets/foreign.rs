//! Any bytes as a lab of another program: refused with their file, or a lab with an account.
#![no_main]

#[path = "../../core/foreign/tests/outside.rs"]
mod outside;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    outside::try_bytes(bytes);
});
