//! Tests of this crate from outside, in one executable.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "helpers are shared by modules that use some of them"
)]

mod outside;
mod outside_text;
mod refused;
mod round;
mod samples;
mod seeds;
mod text;
mod texts;
