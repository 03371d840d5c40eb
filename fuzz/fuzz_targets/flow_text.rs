//! Any text as a flow entry, a group or a meter: refused, or printed so that it reads back as the same.
#![no_main]

#[path = "../../core/openflow/tests/outside_text.rs"]
mod outside_text;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    outside_text::try_text(text);
});
