//! Tests of this crate from outside, in one executable.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "helpers are shared by modules that use some of them"
)]

mod bad;
mod guide;
mod seeds;
