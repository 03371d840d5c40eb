//! Tests of this crate against the kernel and with others' programs, in one executable.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "helpers are shared by modules that use some of them"
)]

mod mirror;
mod order;
mod port;
mod port_hand;
mod port_script;
mod port_seeds;
mod ring_hostile;
#[cfg(loom)]
mod ring_loom;
mod ring_process;
mod ring_script;
