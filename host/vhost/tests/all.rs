//! Tests of this crate with a front end made of the `vhost` crate, in one executable.
#![allow(
    unreachable_pub,
    dead_code,
    clippy::cast_possible_truncation,
    reason = "helpers are shared by modules that use some of them; numbers are small"
)]

mod frames;
mod hostile;
mod reconnect;
mod script;
mod seeds;
mod site;
