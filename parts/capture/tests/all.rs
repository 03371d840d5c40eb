//! Tests of this crate against the kernel and with others' programs, in one executable.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "helpers are shared by modules that use some of them"
)]

mod engines;
mod faults;
mod files;
mod kill;
mod merge;
#[path = "../../../host/shm/tests/port_hand/mod.rs"]
mod port_hand;
mod world;
