//! Tests of this crate against the kernel and with others' programs, in one executable.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "helpers are shared by modules that use some of them"
)]

mod carry;
mod charge;
mod diag;
pub(crate) mod fresh;
mod links;
mod nat;
mod settle;
mod snapshot;
mod watch;
