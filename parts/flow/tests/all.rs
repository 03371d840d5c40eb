//! Tests of this crate against the kernel, in one executable.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "helpers are shared by modules that use some of them"
)]

#[path = "../../../core/pipeline/tests/bench.rs"]
mod bench;
mod controllers;
mod expiring;
mod forwarding;
#[path = "../../../core/pipeline/tests/frames.rs"]
mod frames;
mod hostile;
mod kernel;
mod killing;
mod ports;
mod process;
mod secure;
mod work;
mod world;
