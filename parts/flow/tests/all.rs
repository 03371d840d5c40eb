//! Tests of this crate against the kernel, in one executable.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "helpers are shared by modules that use some of them"
)]

mod client;
mod controllers;
mod expiring;
mod forwarding;
mod hostile;
mod killing;
mod ports;
mod process;
mod secure;
mod world;
