//! Any messages of controllers and a frame: the switch survives, answers, and does what it says it would.
#![no_main]

#[path = "../../core/pipeline/tests/bench.rs"]
#[allow(dead_code)]
mod bench;
#[path = "../../core/pipeline/tests/outside.rs"]
mod outside;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    outside::try_switch(bytes);
});
