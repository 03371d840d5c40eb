//! Any packet, as a point that measures reads it: what routers change on its way changes no hash.
#![no_main]

#[path = "../../core/marking/tests/support/outside.rs"]
mod outside;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    outside::try_packet(bytes);
});
