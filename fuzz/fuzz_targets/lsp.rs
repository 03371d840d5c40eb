//! Any bytes as messages of an editor, or as a lab file in one: every request is answered, inside of the text.
#![no_main]

#[path = "../../app/lsp/tests/support/outside.rs"]
mod outside;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    outside::try_client(bytes);
});
