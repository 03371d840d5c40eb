//! Any instructions and any frame: a program is refused, or run and translated without a panic, and its
//! translation has only jumps that stay inside and no instruction that is not reached.
#![no_main]

#[path = "../../core/filter/tests/support/outside.rs"]
mod outside;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    outside::try_bytes(bytes);
});
