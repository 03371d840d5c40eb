//! Tests of this crate against the kernel, in one executable.

mod desk;
mod outside;
mod seeds;
mod strangers;
mod toy;
