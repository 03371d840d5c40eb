//! Tests of this crate from outside, in one executable.
#![allow(unreachable_pub, reason = "the fuzz target has the helper, too")]

#[path = "support/outside.rs"]
mod outside;
mod seeds;
