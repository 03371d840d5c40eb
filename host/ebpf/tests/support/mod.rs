//! Namespaces, links, packet sockets, taps and groups for the tests.
//!
//! Namespaces and groups go with the values that stand for them.

#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod group;
pub(crate) mod net;
pub(crate) mod packet;
pub(crate) mod relay;
