//! Points on test runs: frames, runs with a time and segments, and what the reference says of them.

#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod frames;
pub(crate) mod model;
pub(crate) mod noise;
pub(crate) mod run;
