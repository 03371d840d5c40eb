//! Tests of this crate from outside, in one executable.

mod forms;
mod properties;
mod steady;
mod support;
