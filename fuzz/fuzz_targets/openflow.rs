//! Any bytes as an OpenFlow message: refused, or encoded to the same bytes again.
#![no_main]

#[path = "../../core/openflow/tests/outside.rs"]
mod outside;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The length in the header is that of the input, so that the fuzzer need not find it.
    let mut message = bytes.to_vec();
    if let (Some(place), Ok(length)) = (message.get_mut(2..4), u16::try_from(bytes.len())) {
        place.copy_from_slice(&length.to_be_bytes());
    }
    outside::try_message(&message);
});
