//! Tests of this crate against the kernel and with others' programs, in one executable.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "helpers are shared by modules that use some of them"
)]

mod classic;
mod hostile;
mod joining;
mod killing;
mod process;
mod relaying;
mod stations;
mod talking;
mod world;
