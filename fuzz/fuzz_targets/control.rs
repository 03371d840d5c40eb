//! What a peer sends over a control socket: every message is read or refused, whatever is in it and however many
//! descriptors come with it, and the connection goes on.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../host/control/tests/outside/mod.rs"]
mod outside;

fuzz_target!(|bytes: &[u8]| outside::run(bytes));
