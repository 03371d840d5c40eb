//! Any compressed kernel, frame of LZ4 in one, or module: what packages bring, as images are made of them.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../core/boot/tests/support/outside.rs"]
mod outside;

fuzz_target!(|bytes: &[u8]| {
    outside::try_boot(bytes);
});
