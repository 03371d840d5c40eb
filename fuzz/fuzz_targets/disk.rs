//! Any file that a lab names as a machine's disk, or as what it keeps.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../core/qcow2/tests/support/outside.rs"]
mod outside;

fuzz_target!(|bytes: &[u8]| {
    outside::try_disk(bytes);
});
