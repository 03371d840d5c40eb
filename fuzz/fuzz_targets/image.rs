//! A layer's archive, a manifest, a name, an answer of a registry: refused, or read.

#![no_main]

#[path = "../../core/oci/tests/support/outside.rs"]
mod outside;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| outside::try_bytes(bytes));
