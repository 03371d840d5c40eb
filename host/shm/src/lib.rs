//! Shared-memory rings, and the protocol by which a port joins a switch.
