//! What a peer sends over a switch's socket: every message is read or refused, whatever is in it and
//! however many descriptors come with it, and the connection goes on.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../host/shm/tests/port_script/mod.rs"]
mod port_script;

fuzz_target!(|bytes: &[u8]| port_script::run(bytes));
