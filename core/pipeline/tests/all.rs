//! Tests of this crate from outside, in one executable.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "helpers are shared by modules that use some of them"
)]

mod affected;
mod bench;
mod bounds;
mod cache;
mod cases;
mod controllers;
mod detours;
mod edits;
mod frames;
mod groups;
mod jobs;
mod outside;
mod seeds;
mod tables;
mod v10;
