//! Tests of this crate from outside, in one executable.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "helpers are shared by modules that use some of them"
)]

mod cases;
mod discovery;
mod faults;
mod isolation;
mod judge;
mod lab;
mod outside;
mod quotas;
mod refusals;
mod resuming;
mod rules;
mod seeds;
mod sets;
mod views;
mod work;
