//! What comes from strangers makes these readers fail in no other way than by refusing.
#![allow(unreachable_pub, reason = "the fuzz target has the helper, too")]

mod hostile;
#[path = "support/outside.rs"]
mod outside;
mod seeds;
