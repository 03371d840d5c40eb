//! Tests of this crate against the kernel and with others' programs, in one executable.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "helpers are shared by modules that use some of them"
)]

mod probe;
mod session;
mod truth_clock;
mod truth_delay;
mod truth_faults;
mod truth_kinds;
mod truth_loss;
mod truth_sampling;
mod truth_session;
mod truth_support;
mod world;
