//! Tests of this crate from outside, in one executable.
