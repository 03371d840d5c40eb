//! Frames, recorded programs and random ones. Tests of other crates take this folder in by its path.

#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod frames;
pub(crate) mod noise;
pub(crate) mod outside;
pub(crate) mod recorded;
