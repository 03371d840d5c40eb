//! Any messages of a slice's controller and a frame: the slicer survives, answers, and no packet leaves its slice, also
//! when another slicer goes on with what it remembered. Any bytes as what was remembered.
#![no_main]

#[path = "../../core/slicing/tests/lab.rs"]
#[allow(dead_code)]
mod lab;
#[path = "../../core/slicing/tests/outside.rs"]
mod outside;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    outside::try_slicer(bytes);
    outside::try_memory(bytes);
});
