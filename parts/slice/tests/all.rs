//! Tests of a slicer's process, in one executable: a switch of `netloom-pipeline` on one side, controllers made by hand on
//! the other.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "helpers are shared by modules that use some of them"
)]

mod apart;
mod crowds;
mod hostile;
mod killing;
mod process;
mod storms;
mod work;
mod world;
