//! Tests of this crate with other ends of connections, in one executable.

mod client;
