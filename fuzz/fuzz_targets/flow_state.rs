//! Any bytes as the state file of an OpenFlow switch: refused, or read.
#![no_main]

#[path = "../../parts/flow/src/state.rs"]
#[allow(dead_code, reason = "only reading is tried")]
mod state;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = state::try_state(bytes);
    // The sums are those of the input, so that the fuzzer need not find them.
    let _ = state::try_state(&netloom_openflow::records::with_sums(bytes));
});
