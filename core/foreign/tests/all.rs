//! The tests of this crate, in one executable: look-alikes of known labs, which are in `tests/e2e/foreign/labs`, and what imports make of them.

mod account;
mod containerlab;
mod hostile;
mod kathara;
mod labs;
mod mininet;
mod netlab;
mod netlab_bridges;
mod others;
mod outside;
mod refused;
mod seeds;
