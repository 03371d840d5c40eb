//! Tests of this crate from outside, in one executable.

#[path = "support/outside.rs"]
mod outside;
mod seeds;
