//! Tests of this crate against the kernel and with others' programs, in one executable.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "helpers are shared by modules that use some of them"
)]

mod block;
mod glimpse;
mod pair;
mod sender;
mod super_frames;
