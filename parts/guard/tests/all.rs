//! Tests of this crate with programs that talk, in one executable.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "helpers are shared by modules that use some of them"
)]

mod accept;
mod elsewhere;
mod ending;
mod follow;
mod identity;
mod look_ups;
mod names;
mod native;
mod peers;
mod race;
mod redteam;
mod talk;
