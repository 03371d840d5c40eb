//! Any message of DNS, as the names of guarded programs' destinations are read from it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netloom_packet::dns;

fuzz_target!(|bytes: &[u8]| {
    if let Some(message) = dns::read(bytes) {
        assert!(!message.question.name.is_empty() && message.question.name.len() <= 253);
        assert!(message.is_response || message.addresses.is_empty());
    }
    if let Some(question) = dns::asked(bytes) {
        assert_eq!(dns::read(bytes).map(|message| message.question), Some(question));
    }
    for response in [dns::failure(bytes), dns::no_such_name(bytes)].into_iter().flatten() {
        assert!(dns::read(&response).is_none_or(|message| message.is_response));
    }
});
